"""Whose statements came to nothing lately: cancelled, left, refused, ended for memory.

Also fetches that were left while the engine computed them. What they took of the engine
is forgotten by halves. A user of whom much is remembered runs one statement at a time
while others work, and rests after each that comes to nothing; alone nothing of it is
felt. Pure but for the clock that is given.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

ALLOWED_SECONDS = 20.0
HALF_LIFE_SECONDS = 120.0
# of one statement: a single long one that is cancelled is no habit
MOST_COUNTED_SECONDS = 15.0
RESTS = 4.0
LONGEST_REST_SECONDS = 30.0
MOST_REMEMBERED = 10_000
# of a fetch that is left: whoever has read enough leaves one that was read ahead
FREE_SECONDS = 2.0


class Waste:
    """Seconds of the engine by user, those of the latest users."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._wasted: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def seconds_of(self, user: str) -> float:
        seconds, at = self._wasted.get(user, (0.0, 0.0))
        return float(seconds * 0.5 ** ((self._clock() - at) / HALF_LIFE_SECONDS))

    def is_much(self, user: str) -> bool:
        """True when others go first."""
        return self.seconds_of(user) > ALLOWED_SECONDS

    def add_fetch(self, user: str, seconds: float) -> None:
        """Count a fetch that was left after so many seconds of the engine's work."""
        if seconds > FREE_SECONDS:
            self.add(user, seconds)

    def add(self, user: str, seconds: float, *, stopped_all: bool = False) -> float:
        """Count a statement that came to nothing; return for how many seconds the
        place it ran in is not theirs. `stopped_all`: it took the memory of all."""
        if stopped_all:
            seconds = max(seconds, MOST_COUNTED_SECONDS)
        counted = min(seconds, MOST_COUNTED_SECONDS)
        self._wasted[user] = (self.seconds_of(user) + counted, self._clock())
        self._wasted.move_to_end(user)
        if len(self._wasted) > MOST_REMEMBERED:
            self._wasted.popitem(last=False)
        if not self.is_much(user):
            return 0.0
        return min(RESTS * seconds, LONGEST_REST_SECONDS)
