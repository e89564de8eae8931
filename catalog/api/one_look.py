"""What anybody may ask without a login is looked up by one request at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
FRESH_SECONDS = 15.0


class OneLook(Generic[T]):
    """Each call looks; while one looks, others get the answer before if it is fresh,
    else they wait for the answer of that look."""

    def __init__(self, look: Callable[[], T]) -> None:
        self._look = look
        self._lock = threading.Lock()
        self._last: tuple[T, float] | None = None

    def answer(self) -> T:
        last = self._last
        is_fresh = last is not None and time.monotonic() - last[1] < FRESH_SECONDS
        if not self._lock.acquire(blocking=not is_fresh):
            assert last is not None
            return last[0]
        try:
            if self._last is not None and self._last is not last:
                return self._last[0]  # somebody looked while this call waited
            found = self._look()
            self._last = found, time.monotonic()
            return found
        finally:
            self._lock.release()
