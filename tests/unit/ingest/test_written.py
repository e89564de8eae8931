"""What was written per day, what of it was upkeep, and growth: small cases."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ingest.contract.written import Totals, Wrote
from ingest.maintenance.write_amplification import Day, Written, add, written_from

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def wrote(at: str, action: str, size: int, rows: int = 0) -> Wrote:
    return Wrote(f"202601{at}00000000000"[:17], action, rows, size)


def test_commits_are_added_up_by_day_and_by_what_they_were_for() -> None:
    found = add(
        Written(),
        [
            wrote("0201", "compaction", 300),
            wrote("0101", "commit", 1000),
            wrote("0102", "deltacommit", 40, 4),
            wrote("0203", "deltacommit", 60, 6),
            wrote("0204", "replacecommit", 500),
        ],
        table_bytes=900,
        now=NOON,
    )
    assert found.days == (
        Day("2026-01-01", 4, 40, loaded_bytes=1000, table_bytes=900),
        Day("2026-01-02", 6, 60, upkeep_bytes=800, table_bytes=900),
    )
    assert (found.amplification, found.bytes_per_row) == (9.0, 90.0)
    assert written_from({**found.to_json(), "newer": 1}) == found


def test_a_look_without_commits_is_a_look() -> None:
    once = add(Written(), [wrote("0201", "deltacommit", 5, 1)], table_bytes=5, now=NOON)
    again = add(once, [], table_bytes=7, now=NOON)
    assert again.days == (Day("2026-01-02", 1, 5, table_bytes=7),)


def test_sums_tell_what_came_since() -> None:
    before = Totals().plus([wrote("0101", "deltacommit", 5, 1)])
    later = [wrote("0202", "compaction", 30), wrote("0201", "deltacommit", 7, 2)]
    now = before.plus(later)
    assert now.upto == later[0].completed
    assert now.since(before) == [
        wrote("0202", "deltacommit", 7, 2),
        wrote("0202", "compaction", 30),
    ]
    assert now.since(now) == []
    # the table was made anew
    assert before.since(now) == []


def test_what_is_not_known_is_not_said() -> None:
    nothing = add(Written(), [], table_bytes=0, now=NOON)
    assert (nothing.amplification, nothing.bytes_per_row) == (None, None)
    assert nothing.growth_per_day is None
    assert written_from({}) == Written()


@pytest.mark.parametrize(
    ("sizes", "growth"),
    [
        ({1: 100, 2: 110, 3: 120}, 10),
        ({1: 100, 5: 140}, 10),
        ({1: 100, 2: 100, 3: 70}, -15),
    ],
)
def test_growth_is_the_slope_of_the_days(sizes: dict[int, int], growth: int) -> None:
    days = tuple(Day(f"2026-01-{d:02d}", table_bytes=size) for d, size in sizes.items())
    assert Written(days=days).growth_per_day == growth


def test_the_history_is_bounded() -> None:
    found = Written()
    for month in range(1, 13):
        for day in range(1, 29):
            now = datetime(2026, month, day, tzinfo=UTC)
            found = add(found, [], table_bytes=day, now=now)
    assert len(found.days) == 90
    assert found.days[-1].day == "2026-12-28"
