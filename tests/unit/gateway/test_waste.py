"""What a user's statements took for nothing, and when it is forgotten."""

from __future__ import annotations

import pytest

from gateway import abuse_throttle as waste
from gateway.abuse_throttle import ALLOWED_SECONDS, HALF_LIFE_SECONDS, Waste


class Now:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_one_long_statement_that_is_cancelled_is_soon_forgotten() -> None:
    now = Now()
    kept = Waste(now)
    assert kept.add("ann", 1800.0) == 0.0
    assert not kept.is_much("ann")
    kept.add("ann", 1800.0)
    assert kept.is_much("ann")
    assert not kept.is_much("bob")
    now.seconds = HALF_LIFE_SECONDS
    assert not kept.is_much("ann")
    assert kept.seconds_of("ann") == waste.MOST_COUNTED_SECONDS


def test_memory_that_all_others_waited_for_counts_the_most() -> None:
    kept = Waste(Now())
    kept.add("ann", 0.1, stopped_all=True)
    assert kept.seconds_of("ann") == waste.MOST_COUNTED_SECONDS
    assert kept.add("ann", 0.1, stopped_all=True) == waste.LONGEST_REST_SECONDS


def test_a_fetch_that_is_left_counts_when_the_engine_had_it_for_long() -> None:
    kept = Waste(Now())
    for _ in range(1000):
        kept.add_fetch("ann", waste.FREE_SECONDS)
    assert kept.seconds_of("ann") == 0.0
    kept.add_fetch("ann", waste.FREE_SECONDS + 1)
    assert kept.seconds_of("ann") == waste.FREE_SECONDS + 1


def test_a_few_cancelled_statements_cost_nothing() -> None:
    kept = Waste(Now())
    assert [kept.add("ann", 1.0) for _ in range(20)] == [0.0] * 20
    assert not kept.is_much("ann")


def test_a_user_of_much_waste_rests_after_each() -> None:
    kept = Waste(Now())
    kept.add("ann", ALLOWED_SECONDS)
    kept.add("ann", ALLOWED_SECONDS)
    assert kept.add("ann", 0.5) == 0.5 * waste.RESTS
    assert kept.add("ann", 1800.0) == waste.LONGEST_REST_SECONDS


def test_who_wastes_for_minutes_is_known_by_his_rate() -> None:
    now = Now()
    kept = Waste(now)
    for _ in range(600):
        now.seconds += 1.0
        kept.add("ann", 0.1)  # a tenth of the time
        kept.add("bob", 0.2)
    assert not kept.is_much("ann")
    assert kept.is_much("bob")


def test_the_latest_users_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waste, "MOST_REMEMBERED", 2)
    kept = Waste(Now())
    for user in ("ann", "bob", "eve"):
        kept.add(user, 1.0)
    assert [kept.seconds_of(u) for u in ("ann", "bob", "eve")] == [0.0, 1.0, 1.0]
