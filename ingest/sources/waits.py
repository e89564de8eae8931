"""Which statements wait for their server's answer, and for how long. Pure."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count


class Waits:
    """Of one connection; each wait has a name of its own."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._numbers = count(1)
        self._since: dict[str, float] = {}

    @contextmanager
    def answer(self) -> Iterator[None]:
        """Inside, one statement waits."""
        with self._lock:
            name = f"statement {next(self._numbers)}"
            self._since[name] = self._clock()
        try:
            yield
        finally:
            with self._lock:
                del self._since[name]

    def longer_than(self, seconds: float) -> list[str]:
        now = self._clock()
        with self._lock:
            return [n for n, since in self._since.items() if now - since >= seconds]
