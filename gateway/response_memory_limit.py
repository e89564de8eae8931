"""Room for replies on their way to the web process. Must not know HTTP."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Iterator

from gateway.fair import TooManyWait

# The web process waits for an answer for 10 s.
WAIT_SECONDS = 5.0


class ReplyRoom:
    """`total` bytes for all replies. Who finds no room waits for it in turn; what is
    larger than all of it has it alone."""

    def __init__(self, total: int) -> None:
        self.held = 0
        self._total = total
        self._turns: deque[tuple[int, asyncio.Future[None]]] = deque()

    @contextlib.asynccontextmanager
    async def hold(self, size: int) -> AsyncIterator[None]:
        """Hold `size` bytes; TooManyWait when there was no room in time."""
        await self._take(size)
        try:
            yield
        finally:
            self._give_back(size)

    @contextlib.contextmanager
    def count(self, size: int) -> Iterator[None]:
        """Hold bytes that are there already: if they waited, nothing would be freed."""
        self.held += size
        try:
            yield
        finally:
            self._give_back(size)

    def _give_back(self, size: int) -> None:
        self.held -= size
        self._hand_out()

    async def _take(self, size: int) -> None:
        if not self._turns and self._fits(size):
            self.held += size
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._turns.append((size, turn))
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await turn
        except (TimeoutError, asyncio.CancelledError) as end:
            if not turn.cancelled():
                self.held -= size  # it was given in the moment of the end
            self._hand_out()
            if isinstance(end, TimeoutError):
                raise TooManyWait(
                    "%(held)s bytes of replies are on their way already",
                    held=self.held,
                    hint="try again in a few seconds",
                ) from None
            raise

    def _fits(self, size: int) -> bool:
        return not self.held or self.held + size <= self._total

    def _hand_out(self) -> None:
        while self._turns:
            size, turn = self._turns[0]
            if turn.done():  # it left
                self._turns.popleft()
                continue
            if not self._fits(size):
                return
            self._turns.popleft()
            self.held += size
            turn.set_result(None)
