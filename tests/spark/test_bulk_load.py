"""The one commit of a load: Hudi's buckets by our shuffle, and a count before it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions

from ingest.contract.job import JobReport
from ingest.contract.table import TableSpec
from ingest.driver.capture import reading, snapshot
from ingest.lake.commits import read_lake_table, read_properties
from ingest.lake.hudi.identity import identity_for
from ingest.lake.hudi.options import (
    CommitPosition,
    Operation,
    WriterFence,
    encode_position,
    write_options,
)
from ingest.lake.layout import read_layout
from ingest.lake.place import place_at
from tests.spark.lake_bench import LakeBench, assert_done


def base_files(table: TableSpec) -> list[tuple[str, int]]:
    """(partition, bucket) of every base file."""
    root = Path(table.path)
    files = (p.relative_to(root) for p in root.rglob("*.parquet"))
    return [(str(f.parent), int(f.name[:8])) for f in files if ".hoodie" not in f.parts]


def hudis_own(
    lake_bench: LakeBench,
    table: TableSpec,
    rows: Any,
    path: str,
    operation: Operation = "bulk_insert",
) -> None:
    """The same rows by Hudi's own datasource and partitioner; it replaces row by row."""
    identity = identity_for(table)
    position = CommitPosition(1, "", "", 1, 1, "job", 1, identity)
    spec = lake_bench.sync_spec(table, None)
    options = write_options(
        identity,
        name=table.name,
        fence=WriterFence(spec.fence.path, 1),
        operation=operation,
        position=encode_position(position),
    )
    rows.write.format("hudi").options(**options).mode("append").save(path)


def meta_and_rows(lake_bench: LakeBench, path: str) -> list[tuple[Any, ...]]:
    frame = lake_bench.spark.read.format("hudi").load(path)
    varying = {"_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_file_name"}
    names = [c for c in frame.columns if c not in varying]
    bucket = "substring(_hoodie_file_name, 1, 8)"
    found = frame.selectExpr(*(f"cast(`{n}` as string)" for n in names), bucket)
    return sorted((tuple(r) for r in found.collect()), key=str)


@pytest.mark.parametrize(
    ("key", "partitions"),
    [
        (("id",), ("area",)),
        # these go to their buckets while they are read from the source
        (("id",), ()),
        # light commits find uuids where a load left them, upserts find keys of two
        pytest.param(("u",), (), marks=pytest.mark.long),
        pytest.param(("area", "small"), (), marks=pytest.mark.long),
    ],
)
def test_a_load_is_what_hudi_itself_would_have_written(
    lake_bench: LakeBench,
    tmp_path: Path,
    key: tuple[str, ...],
    partitions: tuple[str, ...],
) -> None:
    lake_bench.sql(
        "CREATE TABLE p (id bigint, u uuid NOT NULL, area text, small int,"
        f" n numeric(9,2), PRIMARY KEY ({', '.join(key)}))"
    )
    lake_bench.sql(
        "INSERT INTO p SELECT g, md5(g::text)::uuid, CASE g % 4 WHEN 0 THEN 'a/b,:' WHEN"
        f" 1 THEN 'ä' WHEN 2 THEN '' {'ELSE chr(37)' if 'area' in key else ''} END,"
        " g, g / 7.0 FROM generate_series(-900, 900) g"
    )
    table = lake_bench.table("p", key, buckets=5, partition_by=partitions)
    report = assert_done(lake_bench.load(table, chunk_rows=600))
    assert report.facts["chunks"] > 1
    frame = lake_bench.frame(table)
    rows = frame.select(*(c for c in frame.columns if not c.startswith("_hoodie")))
    other = str(tmp_path / "other")
    hudis_own(lake_bench, table, rows, other)

    assert meta_and_rows(lake_bench, table.path) == meta_and_rows(lake_bench, other)
    ours, theirs = (read_properties(place_at(p)) for p in (table.path, other))
    assert ours is not None
    assert theirs is not None
    assert {**ours, "hoodie.table.checksum": ""} == {
        **theirs,
        "hoodie.table.checksum": "",
    }


def live_groups(path: str) -> list[tuple[str, int | None, bool]]:
    state = read_lake_table(path)
    groups = read_layout(path, state.timeline).groups
    return sorted((g.partition, g.bucket, g.log_bytes > 0) for g in groups)


def own_rows(lake_bench: LakeBench, table: TableSpec) -> Any:
    frame = lake_bench.frame(table)
    return frame.select(*(c for c in frame.columns if not c.startswith("_hoodie")))


@pytest.mark.long
def test_a_replacement_is_what_hudi_would_have_made_row_by_row(
    lake_bench: LakeBench, tmp_path: Path
) -> None:
    """A re-sync; a repair and a resize replace rows by the same call."""
    lake_bench.sql("CREATE TABLE p (id bigint PRIMARY KEY, area text, n numeric(9,2))")
    lake_bench.sql(
        "INSERT INTO p SELECT g, CASE g % 4 WHEN 0 THEN 'a/b' WHEN 1 THEN 'ä' WHEN 2"
        " THEN '' END, g / 7.0 FROM generate_series(1, 300) g"
    )
    table = lake_bench.table("p", buckets=5, partition_by=("area",))
    assert_done(lake_bench.load(table))
    other = str(tmp_path / "other")
    hudis_own(lake_bench, table, own_rows(lake_bench, table), other)
    # a partition is left without rows, another one begins
    lake_bench.sql("DELETE FROM p WHERE area = 'ä' OR id > 200")
    lake_bench.sql("UPDATE p SET area = 'new', n = -1 WHERE id % 8 = 0")
    assert_done(lake_bench.load(table, kind="resync"))
    rows = own_rows(lake_bench, table)
    hudis_own(lake_bench, table, rows, other, "insert_overwrite_table")

    assert meta_and_rows(lake_bench, table.path) == meta_and_rows(lake_bench, other)
    assert live_groups(table.path) == live_groups(other)
    ours, theirs = (read_lake_table(path) for path in (table.path, other))
    assert ours.columns == theirs.columns
    for state in (ours, theirs):
        actions = [i.action for i in state.timeline.completed_writes]
        assert actions == ["commit", "replacecommit"]
        assert state.commits[0].operation == "INSERT_OVERWRITE_TABLE"
        assert state.commits[0].rows_written == 150


@pytest.mark.parametrize(
    ("partitions", "files"),
    [
        pytest.param((), 7, id="whole", marks=pytest.mark.long),
        pytest.param(("area",), 21, id="partitioned"),
    ],
)
@pytest.mark.long
def test_a_bucket_has_one_file(
    lake_bench: LakeBench, partitions: tuple[str, ...], files: int
) -> None:
    """Two would make Hudi refuse every later write of the table."""
    lake_bench.sql("CREATE TABLE p (id int PRIMARY KEY, area int)")
    lake_bench.sql("INSERT INTO p SELECT g, g % 3 FROM generate_series(1, 2000) g")
    table = lake_bench.table("p", buckets=7, partition_by=partitions)
    assert_done(lake_bench.load(table, chunk_rows=300))
    found = Counter(base_files(table))
    assert len(found) == files
    assert set(found.values()) == {1}
    assert_done(lake_bench.load(table, kind="resync", chunk_rows=300))
    assert set(Counter(base_files(table)).values()) == {2}, "the old and the new"
    assert lake_bench.frame(table).count() == 2000


@pytest.mark.long
def test_more_buckets_than_tasks(lake_bench: LakeBench) -> None:
    lake_bench.sql("CREATE TABLE p (id int PRIMARY KEY)")
    lake_bench.sql("INSERT INTO p SELECT g FROM generate_series(1, 60) g")
    table = lake_bench.table("p", buckets=9000)
    assert_done(lake_bench.load(table))
    assert len(set(base_files(table))) == len(base_files(table)) > 50
    assert lake_bench.frame(table).count() == 60


def assert_refused(
    lake_bench: LakeBench, table: TableSpec, report: JobReport, *, code: str, rows: int
) -> None:
    """Nothing of it is there, and the next attempt loads all."""
    assert report.error is not None
    assert (report.outcome, report.error.code) == ("terminal", code)
    assert not lake_bench.state(table).timeline.completed_writes
    assert_done(lake_bench.load(table))
    assert lake_bench.frame(table).count() == rows


def test_a_lost_row_stops_the_commit(
    lake_bench: LakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manifests say what was read from the source."""
    lake_bench.sql("CREATE TABLE p (id int PRIMARY KEY)")
    lake_bench.sql("INSERT INTO p SELECT g FROM generate_series(1, 100) g")
    table = lake_bench.table("p")
    with monkeypatch.context() as patch:
        patch.setattr(snapshot, "_rows_of", lambda staging: 101)
        report = lake_bench.load(table)
    assert_refused(lake_bench, table, report, code="rows_miscounted", rows=100)


def test_rows_in_a_wrong_bucket_stop_the_commit(
    lake_bench: LakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake_bench.sql("CREATE TABLE p (id int PRIMARY KEY, v text)")
    lake_bench.sql("INSERT INTO p SELECT g, md5(g::text) FROM generate_series(1, 99) g")
    table = lake_bench.table("p")
    with monkeypatch.context() as patch:
        patch.setattr(reading, "record_key", lambda *_: functions.col("c1"))
        report = lake_bench.load(table)
    assert_refused(lake_bench, table, report, code="rows_misplaced", rows=99)


def test_a_replacement_is_counted_and_may_leave_columns_out(
    lake_bench: LakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake_bench.sql(
        "CREATE TABLE p (id int PRIMARY KEY, kept text, gone text, at timestamptz"
        " DEFAULT now())"
    )
    lake_bench.sql("INSERT INTO p SELECT g, 'k', 'g' FROM generate_series(1, 20) g")
    table = lake_bench.table("p", cursor="at")
    assert_done(lake_bench.load(table))
    with monkeypatch.context() as patch:
        patch.setattr(snapshot, "_rows_of", lambda staging: 21)
        report = lake_bench.load(table, kind="resync")
    assert report.error is not None
    assert (report.outcome, report.error.code) == ("terminal", "rows_miscounted")
    assert [i.action for i in lake_bench.state(table).timeline.completed_writes] == [
        "commit"
    ]
    assert lake_bench.frame(table).where("gone = 'g'").count() == 20

    lake_bench.sql("ALTER TABLE p DROP gone")
    narrow = replace(table, columns=lake_bench.table("p").columns)
    low = assert_done(lake_bench.load(narrow, kind="resync")).facts["bound"]
    columns = {"id", "kept", "at", "_sluice_seq", "_sluice_deleted"}
    assert set(own_rows(lake_bench, table).columns) == columns
    assert columns == {
        c for c in lake_bench.state(table).columns if not c.startswith("_hoodie")
    }
    lake_bench.sql("UPDATE p SET kept = 'new', at = now() WHERE id <= 5")
    assert_done(lake_bench.sync(narrow, low))
    assert_done(lake_bench.compact(narrow))
    assert lake_bench.frame(table).where("kept = 'new'").count() == 5
    assert lake_bench.frame(table).count() == 20
