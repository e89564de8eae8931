"""Connections that have not logged in: who of them goes when there are too many.

Must not know sockets: whoever has to go is told so.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from typing import Protocol

# what one customer of a provider is given: its addresses cost nothing
_ONE_PLACE = 64


class Stranger(Protocol):
    """A connection whose login is not through."""

    @property
    def place(self) -> str: ...

    def turn_away(self) -> None: ...


class Strangers:
    """At most `most`. The places are shared by address: when a newcomer finds none, the
    oldest of the address that holds most goes, so that many of one address push out
    each other and never the few of another."""

    def __init__(self, most: int) -> None:
        self.total = 0
        self._most = most
        self._held: dict[str, OrderedDict[Stranger, None]] = {}

    @property
    def is_full(self) -> bool:
        """True when the next one takes the place of another."""
        return self.total >= self._most

    def add(self, stranger: Stranger) -> None:
        """Count one that has just come; he is the youngest of his address."""
        self._held.setdefault(stranger.place, OrderedDict())[stranger] = None
        self.total += 1

    def discard(self, stranger: Stranger) -> None:
        """Count one no more: he is in, or gone. Idempotent."""
        his = self._held.get(stranger.place, OrderedDict())
        if stranger not in his:
            return
        del his[stranger]
        self.total -= 1
        if not his:
            del self._held[stranger.place]

    def turn_one_away(self, place: str | None = None) -> bool:
        """Send the oldest away, of `place` or of where most are; False if none is."""
        if place is None:
            place = max(self._held, key=lambda one: len(self._held[one]), default="")
        held = self._held.get(place)
        if not held:
            return False
        oldest = next(iter(held))
        self.discard(oldest)
        oldest.turn_away()
        return True


def place_of(address: str) -> str:
    """What counts as one address: of IPv6 the network that one customer is given."""
    try:
        known = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if known.version == 4:
        return address
    if known.ipv4_mapped:
        return str(known.ipv4_mapped)
    return str(ipaddress.ip_network((known, _ONE_PLACE), strict=False))
