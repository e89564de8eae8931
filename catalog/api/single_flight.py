"""What anybody may ask without a login is looked up by one request at a time, and what
takes long for a part of the time only."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")
FRESH_SECONDS = 15.0
# After a look that took longer: so many times that, five seconds at most.
SHORT_SECONDS = 0.25
RESTS, LONGEST_REST_SECONDS = 4.0, 5.0


@dataclass(frozen=True, slots=True)
class _Answer(Generic[T]):
    found: T
    at: float
    rests_until: float


class OneLook(Generic[T]):
    """Each call looks; while one looks, or after a long look, others get the answer
    before if it is fresh, else they wait for the answer of that look."""

    def __init__(
        self, look: Callable[[], T], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._look = look
        self._clock = clock
        self._lock = threading.Lock()
        self._last: _Answer[T] | None = None

    def answer(self) -> T:
        last, now = self._last, self._clock()
        if last is not None and now < last.rests_until:
            return last.found
        is_fresh = last is not None and now - last.at < FRESH_SECONDS
        if not self._lock.acquire(blocking=not is_fresh):
            assert last is not None
            return last.found
        try:
            if self._last is not None and self._last is not last:
                return self._last.found  # somebody looked while this call waited
            began = self._clock()
            found = self._look()
            self._last = self._rested(found, began)
            return found
        finally:
            self._lock.release()

    def _rested(self, found: T, began: float) -> _Answer[T]:
        at = self._clock()
        took = at - began
        rest = min(RESTS * took, LONGEST_REST_SECONDS) if took > SHORT_SECONDS else 0.0
        return _Answer(found, at, at + rest)
