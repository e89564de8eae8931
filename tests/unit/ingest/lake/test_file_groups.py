"""File groups of a table page by page, on both storages."""

from __future__ import annotations

import pytest

from ingest.lake import layout
from ingest.lake.hudi.layout import GroupKey
from ingest.lake.hudi.timeline import Timeline
from ingest.lake.layout import META, GroupPage, read_groups, read_layout
from ingest.lake.place import place_at
from ingest.lake.port import Place

OLD = "20200101000000000"
LATER = "20200101000001000"
PARTITIONS = ("p=1", "p=1-2", "p=10", "p=2")
TIMELINE = Timeline.of([f"{LATER}.deltacommit.requested", f"{LATER}.inflight"])


@pytest.fixture
def table(lake: str) -> Place:
    """Four partitions of two buckets each, with log files, and one of writes that
    never completed."""
    base = place_at(lake) / "t"
    (base / META / "hoodie.properties").replace("")
    for partition in PARTITIONS:
        for bucket in range(2):
            name = f"{bucket:08}-a"
            (base / partition / f"{name}_0-1-2_{OLD}.parquet").replace("12345")
            (base / partition / f".{name}_{OLD}.log.1_0-9-13").replace("12")
    for bucket in range(5):
        name = f"{bucket:08}-a_0-1-2_{LATER}.parquet"
        (base / "p=11" / name).replace("12345")
    return base


def pages(table: Place, size: int) -> list[GroupPage]:
    found: list[GroupPage] = []
    after: GroupKey | None = None
    while not found or after:
        found.append(read_groups(table.uri, TIMELINE, size=size, after=after))
        after = found[-1].after
    return found


@pytest.mark.parametrize("size", [1, 2, 3, 8, 9])
def test_pages_are_the_whole(table: Place, size: int) -> None:
    found = pages(table, size)
    groups = [group for page in found for group in page.groups]
    assert sorted(groups, key=str) == sorted(
        read_layout(table.uri, TIMELINE).groups, key=str
    )
    assert [g.partition for g in groups[::2]] == ["p=1-2", "p=1", "p=10", "p=2"]
    assert {len(page.groups) for page in found[:-1]} <= {size}


def test_a_page_reads_its_own_partitions(
    table: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[str] = []
    whole = layout.list_files

    def watched(base: Place, *, start: str = "") -> object:
        for file in whole(base, start=start):
            listed.append(file.partition)
            yield file

    monkeypatch.setattr(layout, "list_files", watched)
    page = read_groups(table.uri, TIMELINE, size=1, after=("p=1", "00000000-a"))
    assert [group.file_id for group in page.groups] == ["00000001-a"]
    # the first file of the next one tells that this one has ended
    assert listed == ["p=1"] * 4 + ["p=10"]


def test_a_page_ends_behind_many_files(
    table: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "MOST_FILES", 5)
    found = [[g.partition for g in page.groups] for page in pages(table, 100)]
    two = [[name] * 2 for name in PARTITIONS]
    assert found == [two[1] + two[0], two[2], two[3]]


def test_files_beside_partitions_are_listed_once(table: Place) -> None:
    """No writer makes one; a store tells its files before and after its folders."""
    for name in ("00000000-a", "zzzzzzzz-a"):
        (table / f"{name}_0-1-2_{OLD}.parquet").replace("1")
    for page in (pages(table, 1), pages(table, 100)):
        groups = [(g.partition, g.file_id) for one in page for g in one.groups]
        assert len(groups) == len(set(groups)) >= 9


def test_no_table_has_no_groups(lake: str) -> None:
    assert read_groups(f"{lake}/none", Timeline(), size=5) == GroupPage((), None)
