"""Results of metadata calls that stay open: how many rows of them are kept.

Must not know what the rows are: the session that holds a result frees it.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import Protocol

from gateway.operation import Operation


class Owner(Protocol):
    """The session that a result belongs to."""

    async def free(self, operation: Operation) -> None: ...


class MetadataResults:
    """At most `most_each` rows of one user, in all sessions of his, and `most` of all
    users. The oldest results go, of the user who keeps most; the one that is being made
    never."""

    def __init__(self, *, most: int, most_each: int) -> None:
        self.rows: Counter[str] = Counter()
        self._most = most
        self._most_each = most_each
        self._kept: dict[str, OrderedDict[Operation, tuple[Owner, int]]] = {}

    async def keep(self, user: str, owner: Owner, operation: Operation) -> None:
        """Count a result's rows as they are now, and make room for them."""
        size = len(operation.local.rows) if operation.local else 0
        kept = self._kept.setdefault(user, OrderedDict())
        self.rows[user] += size - kept.get(operation, (owner, 0))[1]
        kept[operation] = (owner, size)  # one that has grown keeps its age
        while self.rows[user] > self._most_each:
            if not await self._free_oldest(user, spared=operation):
                break
        while self.rows.total() > self._most:
            for name, _ in self.rows.most_common():
                if await self._free_oldest(name, spared=operation):
                    break
            else:
                return

    async def _free_oldest(self, user: str, *, spared: Operation) -> bool:
        """Free a user's oldest result; False when there is none but `spared`."""
        kept = self._kept.get(user, OrderedDict())
        oldest = next((one for one in kept if one is not spared), None)
        if oldest is None:
            return False
        owner = kept[oldest][0]
        self.forget(user, oldest)
        await owner.free(oldest)
        return True

    def forget(self, user: str, operation: Operation) -> None:
        """Count a result no more. Idempotent."""
        kept = self._kept.get(user, OrderedDict())
        if operation not in kept:
            return
        self.rows[user] -= kept.pop(operation)[1]
        if not kept:
            del self._kept[user], self.rows[user]
