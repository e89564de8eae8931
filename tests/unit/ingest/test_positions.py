"""Cursor positions and bounds, table-driven."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.contract.positions import (
    OpenTransaction,
    Replica,
    SourceClock,
    came_to_rest,
    from_text,
    most_delay,
    plan_bound,
    to_text,
    wall_clock,
)

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


TICK = timedelta(microseconds=1)
BOUNDS = [
    # (transactions, low, wanted high, held by pid)
    ((), None, at(-10), None),
    ((OpenTransaction(5, at(-3)),), None, at(-13) - TICK, 5),
    ((OpenTransaction(5, at(-30)),), None, at(-40) - TICK, 5),
    (
        (OpenTransaction(5, at(-30)), OpenTransaction(6, at(-90))),
        None,
        at(-100) - TICK,
        6,
    ),
    ((OpenTransaction(5, at(-90)),), at(-60), at(-60), 5),
    # a prepared one began some time before it says: nothing new is sure
    ((OpenTransaction(0, at(-20), True, "g"),), at(-60), at(-60), 0),
    ((OpenTransaction(0, at(-20), True, "g"),), None, at(-30) - timedelta(days=1), 0),
]


@pytest.mark.parametrize(("transactions", "low", "high", "pid"), BOUNDS)
def test_bounds(
    transactions: tuple[OpenTransaction, ...],
    low: datetime | None,
    high: datetime,
    pid: int | None,
) -> None:
    clock = SourceClock(NOW, transactions, sees_others=True)
    bound = plan_bound(clock, lag_seconds=10, low=low)
    assert bound.high == high
    assert (bound.held_by.pid if bound.held_by else None) == pid


@pytest.mark.parametrize("age", [0.5, 4.9, 60])
def test_the_lag_covers_a_writer_whose_clock_is_behind_its_transaction(
    age: float,
) -> None:
    """Its rows have a cursor from before the start that the source tells, and it
    commits after this sync: it was passed over."""
    clock = SourceClock(NOW, (OpenTransaction(5, at(-age)),), sees_others=True)
    row = at(-age) - timedelta(seconds=0.3)
    bound = plan_bound(clock, lag_seconds=5, low=None)
    assert bound.high < row, "the next sync reads it"


@pytest.mark.parametrize(
    ("low", "held_since", "reach"),
    [
        (None, None, NOW),
        (at(-3600), None, NOW),
        (at(-10), None, at(-10)),  # its window lies within a minute
        (at(-3600), -600, at(-600) - TICK),
    ],
)
def test_once_a_minute_a_sync_reads_up_to_now(
    low: datetime | None, held_since: float | None, reach: datetime
) -> None:
    others = () if held_since is None else (OpenTransaction(5, at(held_since)),)
    clock = SourceClock(NOW, others, sees_others=True)
    assert plan_bound(clock, lag_seconds=10, low=low).reach == reach


def test_the_last_rows_of_a_replica_are_read_when_its_primary_falls_silent() -> None:
    clock = SourceClock(NOW, (), sees_others=True, replica=Replica(at(-100)))
    assert not came_to_rest(clock, None)
    assert came_to_rest(clock, at(-20))
    assert not came_to_rest(clock, at(-5)), "the sync before has read them"
    high = at(-110)
    assert plan_bound(clock, lag_seconds=10, low=high).reach == high
    bound = plan_bound(clock, lag_seconds=10, low=high, came_to_rest=True)
    assert (bound.high, bound.reach) == (high, at(-100))
    primary = SourceClock(NOW, (), sees_others=True)
    assert not came_to_rest(primary, at(-20))


@pytest.mark.parametrize(
    ("digits", "since", "high"),
    [
        (6, -30.25, at(-40.25) - TICK),
        (3, -30.2503, at(-40.251) - TICK),
        # a row of that transaction may carry the second in which it began
        (0, -30.25, at(-41) - TICK),
        (0, -30, at(-41) - TICK),
    ],
)
def test_what_a_cursor_cuts_off_keeps_the_bound_lower(
    digits: int, since: float, high: datetime
) -> None:
    clock = SourceClock(NOW, (OpenTransaction(5, at(since)),), sees_others=True)
    bound = plan_bound(clock, lag_seconds=10, low=None, fraction_digits=digits)
    assert bound.high == high


@pytest.mark.parametrize(
    ("lowest", "highest", "hours", "delay"),
    [(0, 0, 0, 0), (8, 8, 0, 8), (1, 2, 0, 2), (-5, -4, -5, 5), (-1, 0, -1, 1)],
)
def test_a_cursor_without_zone_takes_the_earliest_reading(
    lowest: int, highest: int, hours: int, delay: int
) -> None:
    offsets = lowest * 3600, highest * 3600
    clock = SourceClock(NOW, (OpenTransaction(1, at(-5)),), True, offsets)
    shifted = wall_clock(clock)
    assert shifted.now == NOW + timedelta(hours=hours)
    assert shifted.transactions[0].since == at(-5) + timedelta(hours=hours)
    assert most_delay(clock) == timedelta(hours=delay)


TURNS_OF_CLOCKS = [
    datetime(2026, 3, 8, 4, tzinfo=UTC),
    datetime(2026, 3, 28, 22, tzinfo=UTC),
    datetime(2026, 10, 24, 22, tzinfo=UTC),
    datetime(2026, 11, 1, 2, tzinfo=UTC),
]


@pytest.mark.parametrize(
    "name",
    ["UTC", "America/New_York", "America/St_Johns", "Atlantic/Azores", "Europe/London",
     "Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe"],
)  # fmt: skip
@pytest.mark.parametrize("start", TURNS_OF_CLOCKS)
def test_rows_without_zone_outlive_both_ends_of_summer_time(
    name: str, start: datetime
) -> None:
    """Syncs each ten minutes; a local and a UTC row is committed before each."""
    zone, low = ZoneInfo(name), None
    rows: list[datetime] = []
    read: set[datetime] = set()
    for step in range(6 * 27):
        now = start + timedelta(minutes=10 * step)
        if step < 6 * 12:
            rows += [now, now.astimezone(zone).replace(tzinfo=UTC)]
        years = [(now + timedelta(weeks=w)).astimezone(zone) for w in range(-52, 53)]
        offsets = [int((at.utcoffset() or timedelta()).total_seconds()) for at in years]
        clock = SourceClock(now, (), True, (min(offsets), max(offsets)))
        bound = plan_bound(wall_clock(clock), lag_seconds=5, low=low)
        assert not bound.set_back
        window = (at for at in rows if low is None or at > low)
        read |= {at for at in window if at <= bound.high}
        low = bound.high
    assert read == {*rows}


def test_a_clock_that_went_back_is_told() -> None:
    clock = SourceClock(NOW, (), sees_others=True)
    assert plan_bound(clock, lag_seconds=10, low=at(-1)).set_back == timedelta(0)
    behind = plan_bound(clock, lag_seconds=10, low=at(90))
    assert (behind.high, behind.set_back) == (at(90), timedelta(seconds=90))


@given(
    st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)),  # noqa: DTZ001
    st.booleans(),
)
def test_positions_survive_as_text_and_sort_as_time(
    moment: datetime, has_zone: bool
) -> None:
    text = to_text(moment.replace(tzinfo=UTC), has_zone=has_zone)
    assert from_text(text) == moment.replace(tzinfo=UTC)
    later = to_text(moment.replace(tzinfo=UTC) + TICK, has_zone=has_zone)
    assert text < later
    assert text.endswith("Z") == has_zone
