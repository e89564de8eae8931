"""Places for work, handed to those who wait in turn: a user with a thousand requests
gets the next place after every other user has had one. Knows no work and no threads.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from core.counts import discount
from core.errors import TransientError


class TooManyWait(TransientError):
    """There is no place and no room to wait for one; nothing was begun."""

    default_code: ClassVar[str] = "too_many_waiting"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who takes turns as one.

    places  how many a user may hold at a time
    rests   work of theirs that failed keeps its place so many times longer than it
            took, so that who only fails has a bounded share of the processor
    pause   so many seconds at least pass after each work of theirs, whatever its end
    """

    name: str
    places: int
    rests: float = 0.0
    pause: float = 0.0


class FairPlaces:
    """`places` of them; `waiting` callers wait at most, `waiting_each` of one name.
    Whose name `gives_way` has one place while others hold any."""

    def __init__(
        self,
        places: int,
        *,
        waiting: int,
        waiting_each: int,
        gives_way: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self.waiting = 0
        self._free = places
        self._taken = 0
        self._gives_way = gives_way
        self._most, self._most_each = waiting, waiting_each
        self._held: Counter[Caller] = Counter()
        self._queues: OrderedDict[Caller, deque[asyncio.Future[None]]] = OrderedDict()

    @property
    def taken(self) -> int:
        """How many places are held now."""
        return self._taken

    def must_wait(self, caller: Caller) -> bool:
        """True when there is no place for them now."""
        return self._free == 0 or not self._has_room(caller)

    async def acquire(self, caller: Caller) -> None:
        """Return with a place; TooManyWait when too many wait already."""
        if not self.must_wait(caller):
            self._take(caller)
            return
        queue = self._queues.get(caller) or deque()
        if self.waiting >= self._most or len(queue) >= self._most_each:
            raise TooManyWait(
                "%(count)s calls wait before this one",
                count=max(len(queue), 1),
                hint="try again later",
            )
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(turn)
        self._queues.setdefault(caller, queue)
        self.waiting += 1
        try:
            await turn
        except asyncio.CancelledError:
            self._leave(caller, turn)
            raise

    def release(self, caller: Caller, *, rest: float = 0.0) -> None:
        """Give a place back; the next in turn gets it, one of the same caller no
        sooner than in `rest` seconds."""
        self._free += 1
        if rest > 0:
            asyncio.get_running_loop().call_later(rest, self._leave_off, caller)
            self._hand_out()
        else:
            self._leave_off(caller)

    def _has_room(self, caller: Caller) -> bool:
        held = self._held[caller]
        is_alone = held == self._taken
        if not is_alone and self._gives_way(caller.name):
            return held == 0
        return held < caller.places

    def _leave_off(self, caller: Caller) -> None:
        self._taken -= 1
        discount(self._held, caller)
        self._hand_out()

    def _take(self, caller: Caller) -> None:
        self._free -= 1
        self._taken += 1
        self._held[caller] += 1

    def _leave(self, caller: Caller, turn: asyncio.Future[None]) -> None:
        queue = self._queues.get(caller)
        if queue and turn in queue:
            queue.remove(turn)
            self.waiting -= 1
            if not queue:
                del self._queues[caller]
        elif turn.done() and not turn.cancelled():
            self.release(caller)  # it was given in the moment of the cancel

    def _hand_out(self) -> None:
        while self._free:
            ready = (c for c in self._queues if self._has_room(c))
            caller = next(ready, None)
            if caller is None:
                return
            queue = self._queues.pop(caller)
            turn = queue.popleft()
            self.waiting -= 1
            if queue:
                self._queues[caller] = queue  # behind all others
            if not turn.done():
                self._take(caller)
                turn.set_result(None)
