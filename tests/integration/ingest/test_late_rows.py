"""Which rows are found that were committed below the position: counted at a real source,
by a clock of the test's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from ingest.contract.positions import SourceClock
from ingest.driver.capture import source_fingerprint as capture_signs
from ingest.driver.capture.source_fingerprint import count_late
from ingest.sources.fingerprint import SourceFingerprint
from ingest.sources.registry import open_source
from tests.integration.ingest.bound_runs import table_of
from tests.source_access import postgresql_at

Write = Callable[..., None]
Sync = Callable[[Iterable[int], Callable[[int], None]], SourceFingerprint]

START = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
# One row comes in each, and one late.
MINUTES = 90
# Until the last ones have been counted twice.
ALL = range(MINUTES + 71)


@pytest.fixture
def dsn(source_pg: Any) -> str:
    return str(source_pg.create_database("late"))


@pytest.fixture
def write(dsn: str) -> Iterator[Write]:
    """Rows with the cursor value of a minute."""
    insert = "INSERT INTO o SELECT g, %s FROM generate_series(1, %s) g"
    with psycopg.connect(dsn, autocommit=True) as link:
        link.execute("CREATE TABLE o (id int, at timestamptz)")
        yield lambda minute, rows=1: link.execute(insert, [at(minute), rows])


@pytest.fixture
def sync(dsn: str, write: Write) -> Sync:
    """One at each of these minutes, each after `before` was called; the position is
    where the clock is."""
    table = table_of("public", "timestamp with time zone")

    def run(minutes: Iterable[int], before: Callable[[int], None]) -> SourceFingerprint:
        found = SourceFingerprint()
        with open_source(postgresql_at(dsn)) as source:
            for minute in minutes:
                before(minute)
                clock = SourceClock(at(minute), (), True)
                found = count_late(source, table, found, clock, at(minute), True)
        return found

    return run


def at(minute: int) -> datetime:
    return START + timedelta(minutes=minute)


def both(write: Write, late: int) -> Callable[[int], None]:
    """A row in time, and one that is so many minutes late."""

    def come(minute: int) -> None:
        if minute <= MINUTES:
            write(minute)
        if late < minute <= MINUTES + late:
            write(minute - late)

    return come


@pytest.mark.parametrize(
    ("late", "share"), [(1, 0.2), (3, 0.6), (5, 1), (20, 1), (59, 1), (66, 0)]
)
def test_rows_are_found_that_are_later_than_a_step_and_not_than_an_hour(
    sync: Sync, write: Write, late: int, share: float
) -> None:
    found = sync(ALL, both(write, late))
    assert found.late == MINUTES * share
    assert len(found.edges) == len(found.counts) + 1 <= 14


def test_a_step_with_too_many_rows_is_not_counted(
    sync: Sync, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At either time; the others are."""
    monkeypatch.setattr(capture_signs, "MOST_LATE_COUNTED", 20)
    come = both(write, 20)

    def before(minute: int) -> None:
        come(minute)
        if minute == 7:
            write(minute, 30)
        if minute == 43:
            write(minute - 20, 30)

    assert sync(ALL, before).late == MINUTES - 2 * 5


def test_of_rare_syncs_the_hour_before_each_is_counted(
    sync: Sync, write: Write
) -> None:
    def before(minute: int) -> None:
        if minute == 360:
            write(100)
            write(150, 2)

    assert sync((0, 180, 360), before).late == 2


def test_a_position_that_went_back_begins_anew(sync: Sync, write: Write) -> None:
    """What comes behind it is read, not late."""

    def before(minute: int) -> None:
        if minute == 40:
            write(55, 2)

    assert sync((60, 40, 50, 70, 140), before).late == 0
