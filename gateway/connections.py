"""The connections of a gateway, counted from their accept on by address and by user,
and which of them has to go for another.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator
from typing import Protocol

from catalog.access.proofs import Proof
from core.counts import discount
from gateway.limits import GatewayLimits
from gateway.partial_message_limit import HeldBytes, Holder


class UnauthenticatedPeer(Protocol):
    """A connection whose login is not through."""

    @property
    def network(self) -> str: ...

    def reject(self) -> None:
        """Hang up: the place is needed."""


class Connection(UnauthenticatedPeer, Holder, Protocol):
    """What the limits ask of a connection. `user` is empty before the login."""

    user: str
    proof: Proof | None

    def drop_unfinished(self, why: str) -> None:
        """Hang up on a client that does not end its message."""

    def drop_unread(self) -> None:
        """Hang up on a client that does not read."""

    async def end(self, reason: str) -> None:
        """Close it, and what ends with it."""


class UnauthenticatedPeers:
    """At most `most`. The places are shared by address: when a new one finds none, the
    oldest of the address that holds most goes, so that many of one address push out
    each other and never the few of another."""

    def __init__(self, most: int) -> None:
        self.total = 0
        self._most = most
        self._held: dict[str, OrderedDict[UnauthenticatedPeer, None]] = {}

    @property
    def is_full(self) -> bool:
        """True when the next one takes the place of another."""
        return self.total >= self._most

    def add(self, peer: UnauthenticatedPeer) -> None:
        """Count one that has just come, the youngest of its address."""
        self._held.setdefault(peer.network, OrderedDict())[peer] = None
        self.total += 1

    def discard(self, peer: UnauthenticatedPeer) -> None:
        """Count one no more: it logged in, or is gone. Idempotent."""
        held = self._held.get(peer.network, OrderedDict())
        if peer not in held:
            return
        del held[peer]
        self.total -= 1
        if not held:
            del self._held[peer.network]

    def evict_one(self, network: str | None = None) -> bool:
        """Hang up on the oldest of `network`, or of that with most.

        False when there is none.
        """
        if network is None:
            network = max(self._held, key=lambda one: len(self._held[one]), default="")
        held = self._held.get(network)
        if not held:
            return False
        oldest = next(iter(held))
        self.discard(oldest)
        oldest.reject()
        return True


class Connections:
    """All that are open, of whatever transport. `unfinished` are the bytes held of
    messages that have begun, `unread` those of replies that clients do not take."""

    def __init__(self, limits: GatewayLimits) -> None:
        self.limits = limits
        self.per_user: Counter[str] = Counter()
        self.per_address: Counter[str] = Counter()
        self.unauthenticated = UnauthenticatedPeers(limits.connections_before_login)
        self.unfinished: HeldBytes[Connection] = HeldBytes(
            limits.unfinished_bytes,
            lambda one: one.drop_unfinished(
                "too many bytes of unfinished messages are held"
            ),
        )
        self.unread: HeldBytes[Connection] = HeldBytes(
            limits.unread_bytes, lambda one: one.drop_unread()
        )
        self.is_closed = False
        self._all: set[Connection] = set()

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Connection]:
        return iter(self._all)

    def admits(self, network: str) -> bool:
        """True when one more may come from there, for whom another may have to go that
        has not logged in; False when all that are here have."""
        if self.is_closed:
            return False
        if self.per_address[network] >= self.limits.connections_per_address:
            return self.unauthenticated.evict_one(network)
        is_full = len(self) >= self.limits.connections
        if is_full or self.unauthenticated.is_full:
            return self.unauthenticated.evict_one()
        return True

    def add(self, one: Connection) -> bool:
        """Count it by its address; False when there is no place for it: it has to go
        then."""
        has_place = self.admits(one.network)
        self._all.add(one)
        self.per_address[one.network] += 1
        if has_place:
            self.unauthenticated.add(one)
        return has_place

    def name(self, one: Connection, user: str) -> bool:
        """Count it as that user's from now on; False when they have too many."""
        if self.per_user[user] >= self.limits.connections_per_user:
            return False
        if one.user:
            discount(self.per_user, one.user)
        self.unauthenticated.discard(one)
        self.per_user[user] += 1
        return True

    def discard(self, one: Connection) -> None:
        """Count it no more."""
        self.unfinished.note(one, 0)
        self.unread.note(one, 0)
        self.unauthenticated.discard(one)
        self._all.discard(one)
        discount(self.per_address, one.network)
        if one.user:
            discount(self.per_user, one.user)
