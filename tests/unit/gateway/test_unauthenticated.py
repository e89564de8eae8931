"""Who of those that have not logged in goes when there are too many."""

from __future__ import annotations

from collections import Counter

from gateway.connections import UnauthenticatedPeers


class Caller:
    def __init__(self, network: str) -> None:
        self.network = network
        self.is_here = True

    def reject(self) -> None:
        self.is_here = False


def comes(peers: UnauthenticatedPeers, network: str) -> Caller:
    if peers.is_full:
        assert peers.evict_one()
    newcomer = Caller(network)
    peers.add(newcomer)
    return newcomer


def test_the_share_of_an_address_shrinks_as_others_come() -> None:
    peers = UnauthenticatedPeers(12)
    came = [comes(peers, network) for network in "a" * 30 + "b" * 30 + "c" * 3]
    assert peers.total == 12
    here = Counter(one.network for one in came if one.is_here)
    assert here["c"] == 3
    assert sorted((here["a"], here["b"])) == [4, 5]


def test_those_of_one_address_that_came_first_go_first() -> None:
    peers = UnauthenticatedPeers(3)
    quiet = comes(peers, "quiet")
    crowd = [comes(peers, "loud") for _ in range(5)]
    assert quiet.is_here
    assert [one.is_here for one in crowd] == [False] * 3 + [True] * 2


def test_who_is_in_is_turned_away_no_more() -> None:
    peers = UnauthenticatedPeers(2)
    first = comes(peers, "a")
    peers.discard(first)
    peers.discard(first)
    assert peers.total == 0
    assert not peers.evict_one()
    assert not peers.evict_one("a")
    assert first.is_here


def test_an_address_that_has_its_share_pushes_out_its_own() -> None:
    peers = UnauthenticatedPeers(9)
    others = [comes(peers, "a") for _ in range(3)]
    mine = comes(peers, "b")
    assert peers.evict_one("b")
    assert not mine.is_here
    assert all(one.is_here for one in others)
