"""Connections that have not logged in: who of them goes when there are too many.

Must not know sockets: a peer that has to go is rejected.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol


class UnauthenticatedPeer(Protocol):
    """A connection whose login is not through."""

    @property
    def network(self) -> str: ...

    def reject(self) -> None: ...


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
        his = self._held.get(peer.network, OrderedDict())
        if peer not in his:
            return
        del his[peer]
        self.total -= 1
        if not his:
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
