"""What is held for clients that do not go on: bounded in time and in bytes in all.

Must not know sockets: the holder of bytes is asked to drop them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from operator import itemgetter
from typing import Generic, Protocol, TypeVar

from gateway.budget import Budget


class Holder(Protocol):
    """A connection for which bytes are held; `who` it is for fairness."""

    @property
    def who(self) -> str: ...


H = TypeVar("H", bound=Holder)


class HeldBytes(Generic[H]):
    """Bytes held for all clients. Beyond `most` of them who holds most loses the
    connection that holds most, by `drop`."""

    def __init__(self, most: int, drop: Callable[[H], None]) -> None:
        self._bytes: Budget[str, H] = Budget(most)
        self._drop = drop

    @property
    def total(self) -> int:
        """Bytes of all connections."""
        return self._bytes.held

    def note(self, holder: H, size: int) -> None:
        """Tell how many bytes are held for a connection now."""
        self._bytes.hold(holder.who, holder, size)
        while theirs := next(self._bytes.losers(holder.who), None):
            victim, _ = max(theirs, key=itemgetter(1))
            self._bytes.let_go(victim)
            self._drop(victim)


class Deadline:
    """Calls `passed` once it was started and not stopped for `seconds`."""

    def __init__(self, seconds: float, passed: Callable[[], None]) -> None:
        self._seconds = seconds
        self._passed = passed
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to count, unless it counts already."""
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._seconds, self._passed)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
