"""What the gateway holds for its clients, so that nobody's share leaves others none.

One account for each kind of thing: texts of statements, rows that nobody has asked for,
messages that are not whole, replies that nobody reads, results. It only counts; whether
one who finds no room is refused, waits, or takes the place of who holds most is told by
the owner of the account. Must not know sockets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Generic, TypeVar

from core.counts import discount

W = TypeVar("W")
T = TypeVar("T")


class Budget(Generic[W, T]):
    """At most `total` of all things, at most `each` of those of one `who`: a user, or
    whatever else a share is for. Sizes are bytes, characters or rows."""

    def __init__(self, total: int, each: int | None = None) -> None:
        self._total = total
        self._each = total if each is None else each
        self._shares: Counter[W] = Counter()
        self._things: dict[W, dict[T, int]] = {}
        self._owners: dict[T, W] = {}
        self.held = 0

    def share(self, who: W) -> int:
        """What is held for them."""
        return self._shares[who]

    def is_beyond_share(self, who: W, more: int = 0) -> bool:
        """Whether they hold too much, with so much `more`."""
        return self._shares[who] + more > self._each

    def is_beyond_total(self, more: int = 0) -> bool:
        """Whether all together hold too much, with so much `more`."""
        return self.held + more > self._total

    def fits(self, who: W, more: int) -> bool:
        """Whether there is room for so much more of theirs."""
        return not (self.is_beyond_share(who, more) or self.is_beyond_total(more))

    def hold(self, who: W, thing: T, size: int) -> None:
        """Count the thing as that large from now on; one that grows keeps its age."""
        if self._owners.get(thing, who) != who or not size:
            self.let_go(thing)
        if not size:
            return
        more = size - self._things.setdefault(who, {}).get(thing, 0)
        self._owners[thing] = who
        self._things[who][thing] = size
        self._shares[who] += more
        self.held += more

    def let_go(self, thing: T) -> None:
        """Count it no more. Idempotent."""
        who = self._owners.pop(thing, None)
        if who is None:
            return
        size = self._things[who].pop(thing)
        if not self._things[who]:
            del self._things[who]
        discount(self._shares, who, size)
        self.held -= size

    def losers(self, who: W) -> Iterator[list[tuple[T, int]]]:
        """While too much is held: the things, oldest first, of those who are to lose
        some. They who hold more than their share; else all, who holds most first."""
        if self.is_beyond_share(who):
            yield list(self._things[who].items())
        if self.is_beyond_total():
            for one, _ in self._shares.most_common():
                yield list(self._things[one].items())
