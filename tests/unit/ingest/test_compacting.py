"""What a compaction would merge, from file groups and plans; no files."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ingest.lake.hudi.layout import CompactionPlan, FileGroup
from ingest.maintenance.compacting import GROUPS_SHOWN, foresee
from ingest.maintenance.facts import MB
from ingest.maintenance.repair_descriptions import compacted

FULL = FileGroup("p=1", "00000001-a", "b", "1", 8 * MB, 2, 3 * MB)
MORE = FileGroup("", "00000002-b", "b", "1", 5 * MB, 9, 4 * MB)
CLEAN = FileGroup("", "00000003-c", "b", "1", 90 * MB)
NEW = FileGroup("", "00000004-d", "", "", 0, 1, MB)
GROUPS = (FULL, MORE, CLEAN, NEW)
PLANNED = {
    "20260101010000000": CompactionPlan(frozenset({("p=1", "00000001-a")}), 1, 2 * MB)
}


def test_without_a_plan_everything_with_log_files_is_merged() -> None:
    found = foresee(GROUPS, {})
    assert [work.bucket for work in found.groups] == [2, 1, 4]
    assert (found.groups_total, found.log_files, found.log_bytes) == (3, 12, 8 * MB)
    assert (found.instants, found.base_bytes) == ((), 13 * MB)


def test_a_plan_says_which_and_later_log_files_are_not_in_it() -> None:
    found = foresee(GROUPS, PLANNED)
    assert [work.file_id for work in found.groups] == ["00000001-a"]
    assert (found.log_files, found.log_bytes, found.base_bytes) == (1, 2 * MB, 8 * MB)
    assert found.instants == tuple(PLANNED)


def test_thousands_of_file_groups_are_counted_and_the_largest_named() -> None:
    many = [FileGroup("", f"{n:08d}-a", "b", "1", 1, 1, n) for n in range(1, 5001)]
    found = foresee(many, {})
    assert (found.groups_total, len(found.groups)) == (5000, GROUPS_SHOWN)
    assert found.groups[0].log_bytes == 5000


@pytest.mark.parametrize(
    ("groups", "plans", "expected"),
    [
        (GROUPS, {}, "12 log files of 8 MB in 3 of 4 file groups are merged"),
        (GROUPS, {}, "21 MB are read; 13 MB of base files are written again"),
        (GROUPS, {}, "A compaction is planned over every file group"),
        (GROUPS, PLANNED, "executed now: 20260101010000000"),
        (GROUPS, PLANNED, "1 log file of 2 MB in 1 of 4 file groups"),
        ((CLEAN,), {}, "No log file is there to merge"),
        ((), {}, "No log file is there to merge"),
    ],
)
def test_words(
    groups: tuple[FileGroup, ...], plans: Mapping[str, CompactionPlan], expected: str
):
    lines = list(compacted(foresee(groups, plans), len(groups)))
    assert any(expected in line for line in lines), lines
