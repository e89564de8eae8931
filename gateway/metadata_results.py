"""Answers to metadata calls that stay open: how many rows of them a user may keep.

Must not know what the rows are: whoever holds an answer is told to free it.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import Protocol

from gateway.operation import Operation


class Owner(Protocol):
    """The session that an answer belongs to."""

    async def free(self, operation: Operation) -> None: ...


class KeptAnswers:
    """At most `most` rows of one user, in all his sessions; the oldest answers go, the
    one that is asked for never."""

    def __init__(self, most: int) -> None:
        self.rows: Counter[str] = Counter()
        self._most = most
        self._kept: dict[str, OrderedDict[Operation, tuple[Owner, int]]] = {}

    async def keep(self, user: str, owner: Owner, operation: Operation) -> None:
        """Count an answer's rows as they are now, and make room for them."""
        size = len(operation.local.rows) if operation.local else 0
        kept = self._kept.setdefault(user, OrderedDict())
        self.rows[user] += size - kept.get(operation, (owner, 0))[1]
        kept[operation] = (owner, size)  # one that has grown keeps its age
        while self.rows[user] > self._most and len(kept) > 1:
            oldest = next(one for one in kept if one is not operation)
            of_whom = kept[oldest][0]
            self.forget(user, oldest)
            await of_whom.free(oldest)

    def forget(self, user: str, operation: Operation) -> None:
        """Count an answer no more. Idempotent."""
        kept = self._kept.get(user, OrderedDict())
        if operation not in kept:
            return
        self.rows[user] -= kept.pop(operation)[1]
        if not kept:
            del self._kept[user], self.rows[user]
