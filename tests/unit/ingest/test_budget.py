"""Which file groups a compaction budget pays for; no files."""

from __future__ import annotations

import pytest

from ingest.lake.hudi.budget import (
    MOST_LOG_FILES,
    choose,
    credit_after,
    first_credit,
    merge_cost,
    rewrite_bytes,
)
from ingest.lake.hudi.layout import FileGroup

MB = 1_000_000
OLD, NEW = "20260101000000000", "20260102000000000"


def group(
    name: str, base: int, files: int, size: int, *, oldest: str = NEW
) -> FileGroup:
    return FileGroup("", name, "b", OLD, base, files, size, oldest if files else "")


HOT = group("hot", 10 * MB, 30, 3 * MB)
WARM = group("warm", 10 * MB, 20, 2 * MB)
HUGE = group("huge", 900 * MB, 5, MB)
CLEAN = group("clean", 5 * MB, 0, 0)
ADDED = FileGroup("p=1", "added", "", "", 0, 1, 4 * MB, NEW)


@pytest.mark.parametrize(
    ("groups", "credit", "chosen", "waiting"),
    [
        ([HOT, WARM], 100 * MB, ["hot", "warm"], []),
        ([WARM, HOT], 13 * MB, ["hot"], ["warm"]),
        # the dearest is not passed over for one that is cheaper
        ([WARM, HOT], 12 * MB, [], ["hot", "warm"]),
        ([HOT, WARM], 0, [], ["hot", "warm"]),
        # five small log files cost a reader of 900 MB nothing
        ([HUGE, CLEAN], 10_000 * MB, [], []),
        ([HUGE, ADDED], 4 * MB, ["added"], []),
        ([], 100 * MB, [], []),
    ],
)
def test_what_costs_readers_most_per_byte_rewritten_comes_first(
    groups: list[FileGroup], credit: int, chosen: list[str], waiting: list[str]
) -> None:
    found = choose(groups, credit=credit)
    assert [g.file_id for g in found.groups] == chosen
    assert [g.file_id for g in found.waiting] == waiting
    assert found.rewrite_bytes == sum(rewrite_bytes(g) for g in found.groups)
    assert found.rewrite_bytes <= credit


def test_old_log_files_are_merged_though_they_cost_little() -> None:
    old = group("old", 900 * MB, 1, MB, oldest=OLD)
    assert not choose([old], credit=901 * MB).groups
    assert choose([old], credit=901 * MB, old_before=NEW).groups == (old,)
    # and only within the budget
    assert choose([old], credit=900 * MB, old_before=NEW).waiting == (old,)


def test_the_number_of_log_files_is_bounded_whatever_the_budget_says() -> None:
    many = group("many", 900 * MB, MOST_LOG_FILES, 6 * MB)
    found = choose([HOT, many], credit=0)
    assert (found.groups, found.waiting) == ((many,), (HOT,))
    one_less = group("less", 900 * MB, MOST_LOG_FILES - 1, 6 * MB)
    assert not choose([one_less], credit=0).groups


@pytest.mark.parametrize(
    ("credit", "wrote", "left"),
    [
        (0, [("deltacommit", 100)], 900),
        (500, [("compaction", 300)], 200),
        (100, [("deltacommit", 10), ("compaction", 150)], 40),
        # what a person had compacted is not owed
        (100, [("compaction", 5000), ("deltacommit", 10)], 90),
        # a quiet month does not pay for a busy hour
        (900, [("deltacommit", 1000)], 1000),
        (7, [("commit", 5000), ("replacecommit", 5000)], 7),
    ],
)
def test_credit(credit: int, wrote: list[tuple[str, int]], left: int) -> None:
    assert credit_after(credit, wrote, amplification=10, most=1000) == left


def test_a_table_that_nobody_counted_begins_with_what_its_logs_earned() -> None:
    assert first_credit([HOT, CLEAN], amplification=10) == 27 * MB


@pytest.mark.parametrize("base", [300_000, 3 * MB, 30 * MB, 300 * MB])
def test_what_is_written_per_byte_changed_does_not_grow_with_the_table(
    base: int,
) -> None:
    """Thousands of commits of one size to one file group, each followed by a choice:
    the curve over the table's size is flat until log files become too many."""
    changed, written, most_logs = _written_by(base, commits=10_000, change=6_000)
    assert most_logs <= MOST_LOG_FILES
    assert written > 0
    rewritten_at_least = base / (MOST_LOG_FILES * 6_000)
    assert (changed + written) / changed <= max(10, 2 + rewritten_at_least)


def _written_by(base: int, *, commits: int, change: int) -> tuple[int, int, int]:
    """Bytes changed, bytes that compactions wrote, most log files at a time."""
    credit = logs = size = changed = written = most_logs = 0
    for _ in range(commits):
        logs, size, changed = logs + 1, size + change, changed + change
        earned = [("deltacommit", change)]
        credit = credit_after(credit, earned, amplification=10, most=base + size)
        now = group("one", base, logs, size)
        most_logs = max(most_logs, logs)
        if choose([now], credit=credit).groups:
            spent = [("compaction", rewrite_bytes(now))]
            credit = credit_after(credit, spent, amplification=10, most=base + size)
            written += rewrite_bytes(now)
            logs = size = 0
    return changed, written, most_logs


def test_a_log_file_costs_a_reader_more_than_its_bytes() -> None:
    one, ten = group("a", MB, 1, 50_000), group("b", MB, 10, 50_000)
    assert merge_cost(ten) > 5 * merge_cost(one)
