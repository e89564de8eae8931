"""Whose turn a login is. A user who has logged in from an address before waits in a
queue of its own there; all unknown users of an address share one, so that guessing
there delays no known user.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncIterator
from weakref import WeakValueDictionary

from catalog.access.tokens import PREFIX
from gateway.fair import Caller

MOST_REMEMBERED = 10_000
# of an address: a fifth of a core goes into passwords that are not right
RESTS = 4.0
# of one user at one address, while most of what that user runs comes to nothing
PAUSE_SECONDS = 1.0


class LoginTurns:
    """Remembers who came in from where, in this process, the latest of them."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = (
            WeakValueDictionary()
        )

    @contextlib.asynccontextmanager
    async def turn(
        self, username: str, secret: str, *, address: str, gives_way: bool = False
    ) -> AsyncIterator[Caller]:
        """Tell as whom this login waits; one unknown user of a name tries at a time, so
        that a pool of connections waits for its first and is known then. Who gives way
        to others comes in once a second."""
        pair = (username, address)
        lock = self._locks.setdefault(pair, asyncio.Lock())
        async with lock:
            if pair not in self._known:
                # a wrong token costs next to nothing, a wrong password its hash
                kind = "token" if secret.startswith(PREFIX) else "password"
                yield Caller(f"{kind}@{address}", 1, RESTS)
                return
        if gives_way:
            yield Caller(f"slowed {username}@{address}", 1, pause=PAUSE_SECONDS)
            return
        yield Caller(f"{username}@{address}", 2)

    def remember(self, username: str, *, address: str) -> None:
        self._known[(username, address)] = None
        self._known.move_to_end((username, address))
        if len(self._known) > MOST_REMEMBERED:
            self._known.popitem(last=False)
