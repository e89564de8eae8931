"""Accounts of what is held: shares, ages, and who is to lose something."""

from __future__ import annotations

import pytest

from gateway.budget import Budget


def account(*things: tuple[str, str, int]) -> Budget[str, str]:
    """At most 10 in all, at most 6 of each."""
    made: Budget[str, str] = Budget(10, 6)
    for who, thing, size in things:
        made.hold(who, thing, size)
    return made


@pytest.mark.parametrize(
    ("things", "who", "more", "fits"),
    [
        ([], "ann", 6, True),
        ([], "ann", 7, False),
        ([("ann", "a", 4)], "ann", 2, True),
        ([("ann", "a", 4)], "ann", 3, False),
        ([("ann", "a", 6)], "bob", 4, True),
        ([("ann", "a", 6)], "bob", 5, False),
        ([("ann", "a", 6), ("ann", "a", 2)], "bob", 6, True),
        ([("ann", "a", 6), ("ann", "a", 0)], "ann", 6, True),
        ([("ann", "a", 6), ("bob", "a", 6)], "ann", 4, True),
    ],
)
def test_there_is_room_within_the_share_and_the_total(things, who, more, fits):
    assert account(*things).fits(who, more) is fits


@pytest.mark.parametrize(
    ("things", "losers"),
    [
        ([("ann", "a", 6), ("bob", "b", 4)], []),
        # beyond their share: they; what grows keeps its age
        ([("ann", "a", 3), ("ann", "b", 3), ("ann", "a", 4)], [["a", "b"]]),
        # beyond the total: who holds most, first
        (
            [("bob", "b", 5), ("ann", "a", 4), ("ann", "c", 2)],
            [["a", "c"], ["b"]],
        ),
        ([("ann", "a", 7), ("bob", "b", 6)], [["a"], ["a"], ["b"]]),
    ],
)
def test_who_is_to_lose_something(things, losers):
    found = account(*things).losers("ann")
    assert [[thing for thing, _ in theirs] for theirs in found] == losers


def test_nothing_is_remembered_of_what_went():
    budget = account(("ann", "a", 3), ("bob", "b", 2), ("ann", "c", 1))
    budget.let_go("a")
    budget.let_go("a")
    assert (budget.held, budget.share("ann"), budget.share("bob")) == (3, 1, 2)
    # a thing has one owner: who is known by a name only later keeps one share
    budget.hold("cy", "b", 2)
    assert (budget.share("bob"), budget.share("cy")) == (0, 2)
    for thing in "bc":
        budget.let_go(thing)
    assert budget.held == 0
    assert [*budget._shares, *budget._things, *budget._owners] == []
