"""A process that ticks does each part as often as it is worth it, by its own clock."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest
from django.db import DatabaseError, DataError, IntegrityError, OperationalError
from psycopg import errors

from ingest.scheduler import tick


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []

    def quick() -> None:
        found.append("quick")

    def slow() -> None:
        found.append("slow")
        raise ValueError("a defect of ours")

    parts: dict[Callable[[], object], float] = {quick: 0, slow: 5}
    monkeypatch.setattr(tick, "_parts", lambda: parts)
    return found


def test_parts_have_periods_and_one_that_fails_stops_no_other(done: list[str]) -> None:
    clock = Clock()
    ticking = tick.Ticking(clock)
    for _ in range(11):
        ticking.tick()
        clock.now += 1
    assert done.count("quick") == 11
    assert done.count("slow") == 3


def test_a_process_that_starts_waits_for_no_period(done: list[str]) -> None:
    for _ in range(3):
        tick.Ticking().tick()
    assert done == ["quick", "slow"] * 3


def test_a_database_that_is_away_is_told_and_the_part_is_due_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def away() -> None:
        raise DatabaseError

    monkeypatch.setattr(tick, "_parts", lambda: {away: 60.0})
    ticking = tick.Ticking(Clock())
    for _ in range(2):
        with pytest.raises(DatabaseError):
            ticking.tick()


@pytest.mark.parametrize("refusal", [DataError, IntegrityError])
def test_a_row_that_the_database_refuses_stops_no_other_part(
    done: list[str], monkeypatch: pytest.MonkeyPatch, refusal: type[DatabaseError]
) -> None:
    def refused() -> None:
        raise refusal

    parts = {refused: 0.0, **tick._parts()}
    monkeypatch.setattr(tick, "_parts", lambda: parts)
    tick.Ticking().tick()
    assert done == ["quick", "slow"]


@pytest.mark.parametrize(
    "ended",
    [
        errors.QueryCanceled("canceling statement due to statement timeout"),
        errors.LockNotAvailable("canceling statement due to lock timeout"),
        errors.DeadlockDetected("deadlock detected"),
    ],
)
def test_a_statement_that_the_database_ends_stops_no_other_part(
    done: list[str], monkeypatch: pytest.MonkeyPatch, ended: psycopg.Error
) -> None:
    def too_long() -> None:
        raise OperationalError(str(ended)) from ended

    parts = {too_long: 0.0, **tick._parts()}
    monkeypatch.setattr(tick, "_parts", lambda: parts)
    tick.Ticking().tick()
    assert done == ["quick", "slow"]


def test_a_connection_that_is_lost_is_told() -> None:
    def lost() -> None:
        raise OperationalError("gone") from errors.AdminShutdown("terminating")

    with pytest.raises(OperationalError):
        tick._run(lost)
