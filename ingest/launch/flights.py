"""What a driver host holds in memory: the driver's start and the jobs in its hands.

All of it may be lost at any moment; the rows and the lake suffice to go on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

from ingest.contract import Progress

MISSED_SECONDS = 20.0
START_SECONDS = 120.0


@dataclass(slots=True)
class Flight:
    """A spec in a driver's hands. `seen` = monotonic time of its last sign."""

    job_id: UUID
    attempt: int
    origin: str
    seen: float
    is_accepted: bool = False
    progress: Progress | None = None
    asked: str = ""
    asked_at: float = 0.0

    @property
    def patience(self) -> float:
        """Seconds without a sign after which it counts as lost."""
        is_starting = bool(self.origin) and not self.is_accepted
        return START_SECONDS if is_starting else MISSED_SECONDS


@dataclass(slots=True)
class Boot:
    """The warm driver's present start.

    facts  what it said of itself, None once that is written
    away   why it cannot take work though it has not ended
    """

    id: UUID = field(default_factory=uuid4)
    is_stored: bool = False
    is_ready: bool = False
    facts: dict[str, Any] | None = None
    away: str = ""
    heard: float = 0.0
