from __future__ import annotations

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
