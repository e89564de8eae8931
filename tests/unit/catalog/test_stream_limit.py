from __future__ import annotations

from functools import partial

from catalog.api.stream_limit import Places


def test_two_who_hold_all_they_may_leave_a_place_to_a_third() -> None:
    places = Places(most=4, most_each=2)
    held = [places.take(user) for user in ("eve", "eve", "mallory", "mallory")]
    assert [place is not None for place in held] == [True, True, True, False]
    assert places.take("eve") is None

    ann = places.take("ann")
    assert ann is not None
    assert places.take("bob") is None

    ann.give_back()
    ann.give_back()
    assert places.taken == 3
    assert places.take("mallory") is None
    assert places.take("bob") is not None


def test_who_has_most_gives_one_to_who_has_none() -> None:
    places = Places(most=4, most_each=2)
    ended: list[int] = []
    users = ("eve", "eve", "mallory", "carol")
    for number, user in enumerate(users):
        end = partial(ended.append, number)
        assert places.take(user, end=end), number
    assert places.take("mallory") is None

    ann = places.take("ann")
    assert ann is not None
    assert (ended, places.taken) == ([1], 4)
    assert places.take("bob") is None, "nobody's only place is taken"

    ann.give_back()
    assert places.take("eve") is None
    assert places.take("bob")
    assert ended == [1]


def test_what_cannot_be_ended_keeps_its_place() -> None:
    places = Places(most=2, most_each=2)
    held = [places.take(user) for user in ("eve", "mallory")]
    assert all(held)
    assert places.take("ann") is None
