"""How the places of a lane are shared out."""

from __future__ import annotations

import pytest

from ingest.jobs.queue import LARGE_ROWS, LaneUse, Place, full_for, still_taken

BIG, SMALL = LARGE_ROWS, 5


def places(*taken: tuple[str, int]) -> tuple[Place, ...]:
    return tuple(Place(key, weight) for key, weight in taken)


@pytest.mark.parametrize(
    ("limit", "taken", "wanted", "is_free"),
    [
        (4, [], ("shop", SMALL), True),
        (4, [("shop", SMALL)] * 2, ("shop", SMALL), True),
        # one source leaves a place to all others
        (4, [("shop", SMALL)] * 3, ("shop", SMALL), False),
        (4, [("shop", SMALL)] * 3, ("crm", SMALL), True),
        (4, [("shop", SMALL)] * 3 + [("crm", SMALL)], ("erp", SMALL), False),
        # large tables of a source leave one of its places to its small ones
        (4, [("shop", BIG)] * 2, ("shop", BIG), False),
        (4, [("shop", BIG)] * 2, ("shop", SMALL), True),
        (4, [("shop", BIG)] * 2, ("crm", BIG), True),
        # and those of all sources leave one to small ones
        (4, [("shop", BIG)] * 2 + [("crm", BIG)], ("crm", BIG), False),
        (4, [("shop", BIG)] * 2 + [("crm", BIG)], ("crm", SMALL), True),
        # jobs that read no source know no share
        (4, [("", SMALL)] * 3, ("", SMALL), True),
        (1, [], ("shop", BIG), True),
        (1, [("shop", SMALL)], ("crm", SMALL), False),
        (2, [("shop", BIG)], ("crm", BIG), False),
        (2, [("shop", BIG)], ("crm", SMALL), True),
    ],
)
def test_who_gets_a_place(limit, taken, wanted, is_free) -> None:
    use = LaneUse("snapshot", limit, places(*taken))
    found = [rule for rule in full_for(use) if rule.is_for(Place(*wanted))]
    assert (not found) is is_free
    assert all("snapshot lane" in rule.reason for rule in found)


def test_long_ones_give_their_places_back_up_to_a_bound() -> None:
    new, long = Place("shop", BIG), Place("shop", BIG, is_long=True)
    assert still_taken([long, new], given_back=4) == (new,)
    assert still_taken([long, new], given_back=0) == (new, long)
    # one source that answers nothing has no more than all places but one still
    assert still_taken([new, *[long] * 6], given_back=4) == (new, long, long)


def test_the_reason_says_which() -> None:
    use = LaneUse("apply", 4, places(*[("shop", SMALL)] * 3))
    (rule,) = full_for(use)
    assert "jobs of the same source have 3 of 4" in rule.reason
