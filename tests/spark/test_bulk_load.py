"""The one commit of a load: Hudi's buckets by our shuffle, and a count before it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ingest.contract import TableSpec
from ingest.hudi.identity import identity_for
from ingest.hudi.options import WriterFence, write_options
from ingest.hudi.position import CommitPosition, encode_position
from ingest.lake.commits import read_properties
from ingest.lake.place import place_at
from ingest.spark import snapshot
from tests.spark.lake_bench import LakeBench, assert_done


def base_files(table: TableSpec) -> list[tuple[str, int]]:
    """(partition, bucket) of every base file."""
    root = Path(table.path)
    files = (p.relative_to(root) for p in root.rglob("*.parquet"))
    return [(str(f.parent), int(f.name[:8])) for f in files if ".hoodie" not in f.parts]


def hudis_own(lake_bench: LakeBench, table: TableSpec, rows: Any, path: str) -> None:
    """The same rows by Hudi's own datasource and partitioner."""
    identity = identity_for(table)
    position = CommitPosition(1, "", "", 1, 1, "job", 1, identity)
    spec = lake_bench.round_spec(table, None)
    options = write_options(
        identity,
        name=table.name,
        fence=WriterFence(spec.fence.path, 1),
        operation="bulk_insert",
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


@pytest.mark.parametrize("partitions", [(), ("area",)])
def test_a_load_is_what_hudi_itself_would_have_written(
    lake_bench: LakeBench, tmp_path: Path, partitions: tuple[str, ...]
) -> None:
    lake_bench.sql("CREATE TABLE p (id bigint PRIMARY KEY, area text, n numeric(9,2))")
    lake_bench.sql(
        "INSERT INTO p SELECT g, CASE g % 4 WHEN 0 THEN 'a/b' WHEN 1 THEN 'ä' WHEN 2"
        " THEN '' END, g / 7.0 FROM generate_series(1, 3000) g"
    )
    table = lake_bench.table("p", buckets=5, partition_by=partitions)
    assert_done(lake_bench.load(table))
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


@pytest.mark.parametrize(
    ("partitions", "files"), [((), 7), (("area",), 21)], ids=["whole", "partitioned"]
)
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


def test_more_buckets_than_tasks(lake_bench: LakeBench) -> None:
    lake_bench.sql("CREATE TABLE p (id int PRIMARY KEY)")
    lake_bench.sql("INSERT INTO p SELECT g FROM generate_series(1, 60) g")
    table = lake_bench.table("p", buckets=9000)
    assert_done(lake_bench.load(table))
    assert len(set(base_files(table))) == len(base_files(table)) > 50
    assert lake_bench.frame(table).count() == 60


def test_a_lost_row_stops_the_commit(
    lake_bench: LakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manifests say what was read from the source."""
    lake_bench.sql("CREATE TABLE p (id int PRIMARY KEY)")
    lake_bench.sql("INSERT INTO p SELECT g FROM generate_series(1, 100) g")
    table = lake_bench.table("p")
    with monkeypatch.context() as patch:
        patch.setattr(snapshot, "_staged_rows", lambda staging: 101)
        report = lake_bench.load(table)
    assert report.outcome == "terminal"
    assert report.error is not None
    assert report.error.code == "rows_miscounted"
    assert not lake_bench.state(table).timeline.completed_writes
    assert_done(lake_bench.load(table))
    assert lake_bench.frame(table).count() == 100
