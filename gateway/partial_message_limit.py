"""What is held for clients that do not go on: bounded in time and in bytes in all.

Must not know sockets: the holder of bytes is asked to drop them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar


class Holder(Protocol):
    """A connection for which bytes are held; `who` it is for fairness."""

    @property
    def who(self) -> str: ...


H = TypeVar("H", bound=Holder)


class HeldBytes(Generic[H]):
    """Bytes held for all clients. Beyond `most` of them who holds most loses the
    connection that holds most, by `drop`."""

    def __init__(self, most: int, drop: Callable[[H], None]) -> None:
        self.total = 0
        self._most = most
        self._drop = drop
        self._held: dict[H, int] = {}

    def note(self, holder: H, size: int) -> None:
        """Tell how many bytes are held for a connection now."""
        self.total += size - self._held.pop(holder, 0)
        if size:
            self._held[holder] = size
        while self.total > self._most:
            victim = self._greatest()
            self.total -= self._held.pop(victim)
            self._drop(victim)

    def _greatest(self) -> H:
        shares: Counter[str] = Counter()
        for holder, size in self._held.items():
            shares[holder.who] += size
        ((who, _),) = shares.most_common(1)
        of_his = (holder for holder in self._held if holder.who == who)
        return max(of_his, key=self._held.__getitem__)


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
        """Count no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
