"""What a driver host holds in memory of the warm driver's present start."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

# How long a driver may go on with threads that answer nothing any more: they hold
# cores, connections and perhaps a lock of their table.
ABANDONED_SECONDS = 60.0
# That the driver lives is written so often when there is nothing new to say of it.
ALIVE_SECONDS = 3.0


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
