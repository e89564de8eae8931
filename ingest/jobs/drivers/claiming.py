"""When a driver host claims: as soon as something waits that it could hand over."""

from __future__ import annotations

from collections.abc import Callable

from ingest.jobs import lifecycle

AGAIN_SECONDS = 2.0


class Claiming:
    """Nobody rings for the syncs of a schedule: each look of the host finds them, by a
    statement that costs next to nothing while nothing waits."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._again_at = 0.0

    def claim(self) -> None:
        """What waits and cannot run is looked at again later."""
        if self._clock() < self._again_at or not lifecycle.is_any_queued():
            return
        if not lifecycle.claim_queued():
            self._again_at = self._clock() + AGAIN_SECONDS

    def note_place(self) -> None:
        """A job has ended: what waits may run now."""
        self._again_at = 0.0
