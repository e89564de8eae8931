"""Who of those that have not logged in goes when there are too many."""

from __future__ import annotations

from collections import Counter

import pytest

from gateway.strangers import Strangers, place_of


class Caller:
    def __init__(self, place: str) -> None:
        self.place = place
        self.is_here = True

    def turn_away(self) -> None:
        self.is_here = False


def comes(strangers: Strangers, place: str) -> Caller:
    if strangers.is_full:
        assert strangers.turn_one_away()
    newcomer = Caller(place)
    strangers.add(newcomer)
    return newcomer


def test_the_share_of_an_address_shrinks_as_others_come() -> None:
    strangers = Strangers(12)
    came = [comes(strangers, place) for place in "a" * 30 + "b" * 30 + "c" * 3]
    assert strangers.total == 12
    here = Counter(one.place for one in came if one.is_here)
    assert here["c"] == 3
    assert sorted((here["a"], here["b"])) == [4, 5]


def test_those_of_one_address_that_came_first_go_first() -> None:
    strangers = Strangers(3)
    quiet = comes(strangers, "quiet")
    crowd = [comes(strangers, "loud") for _ in range(5)]
    assert quiet.is_here
    assert [one.is_here for one in crowd] == [False] * 3 + [True] * 2


def test_who_is_in_is_turned_away_no_more() -> None:
    strangers = Strangers(2)
    first = comes(strangers, "a")
    strangers.discard(first)
    strangers.discard(first)
    assert strangers.total == 0
    assert not strangers.turn_one_away()
    assert not strangers.turn_one_away("a")
    assert first.is_here


def test_an_address_that_has_its_share_pushes_out_its_own() -> None:
    strangers = Strangers(9)
    others = [comes(strangers, "a") for _ in range(3)]
    mine = comes(strangers, "b")
    assert strangers.turn_one_away("b")
    assert not mine.is_here
    assert all(one.is_here for one in others)


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_the_addresses_of_one_network_count_as_one(address: str, place: str) -> None:
    assert place_of(address) == place
