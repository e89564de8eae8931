"""What a driver host holds in memory: the driver's start and the jobs in its hands.

All of it may be lost at any moment; the rows and the lake suffice to go on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

from ingest.contract.job import Progress
from ingest.jobs.drivers.launcher import CancelMode

MISSED_SECONDS = 20.0
START_SECONDS = 120.0
ASK_AGAIN_SECONDS = 5.0
# A cancel ends within a minute, the judging behind it included.
UNANSWERED_SECONDS = 45.0
# How long a driver may go on with threads that answer nothing any more: they hold
# cores, connections and perhaps a lock of their table.
ABANDONED_SECONDS = 60.0
JUDGE_AGAIN_SECONDS = 5.0
# That the driver lives is written so often when there is nothing new to say of it.
ALIVE_SECONDS = 3.0


@dataclass(slots=True)
class InFlightJob:
    """A spec in a driver's hands. Times are monotonic seconds.

    seen       of its last sign
    stop_since when somebody's mode to stop it was first passed on; None = nobody asked
    """

    job_id: UUID
    attempt: int
    origin: str
    seen: float
    is_accepted: bool = False
    progress: Progress | None = None
    asked: str = ""
    asked_at: float = 0.0
    stop_since: float | None = None

    def request_due(self, mode: CancelMode, now: float) -> CancelMode | None:
        """What has to be said to its driver now: the mode, again and again, and when
        that stays unanswered that the attempt is abandoned."""
        if self.stop_since is None:
            self.stop_since = now
        if now - self.stop_since >= UNANSWERED_SECONDS:
            return "abandon"
        if mode == self.asked and now - self.asked_at <= ASK_AGAIN_SECONDS:
            return None
        self.asked, self.asked_at = mode, now
        return mode

    @property
    def patience(self) -> float:
        """Seconds without a sign after which it counts as lost."""
        is_starting = bool(self.origin) and not self.is_accepted
        return START_SECONDS if is_starting else MISSED_SECONDS


@dataclass(slots=True)
class Incarnation:
    """The warm driver's present start.

    facts  what it said of itself, None once that is written
    away   why it cannot take work though it has not ended
    written   when it was last written that it lives
    abandoned, abandoned_since   jobs that it was told to abandon and whose threads
           still live, and since when there are such
    is_told_to_end   its end is our doing: not held against its jobs
    """

    id: UUID = field(default_factory=uuid4)
    is_stored: bool = False
    is_started: bool = False
    is_ready: bool = False
    facts: dict[str, Any] | None = None
    away: str = ""
    heard: float = 0.0
    written: float = -math.inf
    abandoned: tuple[str, ...] = ()
    abandoned_since: float = 0.0
    is_told_to_end: bool = False

    def is_worth_writing(self, now: float) -> bool:
        """Whether there is news of it, or it was last written a while ago."""
        is_news = self.facts is not None or bool(self.away)
        return is_news or now - self.written >= ALIVE_SECONDS

    def note_abandoned(self, jobs: Sequence[str], *, now: float) -> None:
        if not self.abandoned:
            self.abandoned_since = now
        self.abandoned = tuple(jobs)

    def is_hampered(self, now: float) -> bool:
        """Whether threads that answer nothing have lived on in it for too long."""
        waited = now - self.abandoned_since
        return bool(self.abandoned) and waited >= ABANDONED_SECONDS
