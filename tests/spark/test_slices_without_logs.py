"""A table whose listing has no log file is read as one that is never given any: in
batches and in parts of files. Every row is what the reader of single rows makes of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ingest.contract.table import TableSpec
from ingest.lake.layout import read_layout
from tests.spark.beginnings import Beginnings
from tests.spark.lake_bench import LakeBench, assert_done
from tests.spark.log_bench import LogBench, cut
from tests.spark.test_batched_merge import ALL, CREATE, FILL, HALF, read

BATCHED = "spark.sql.parquet.enableVectorizedReader"
IN_PARTS = {"spark.sql.files.maxPartitionBytes": "2000"}


def load(bench: LakeBench) -> tuple[TableSpec, str]:
    bench.sql(CREATE)
    bench.sql(FILL)
    bench.sql(HALF)
    table = bench.table("w", cursor="at", buckets=4)
    return table, assert_done(bench.load(table)).facts["bound"]


@pytest.fixture
def loaded(lake_bench: LakeBench, beginnings: Beginnings) -> Any:
    """300 rows of every type in four base files, many with NULLs."""
    return lake_bench, *beginnings.copy(lake_bench, load)


def test_rows_are_those_of_the_reader_of_single_rows(loaded: Any) -> None:
    bench, table, low = loaded
    assert_as_plain(bench, table, 300)
    # a log file over one of four: all of them by Hudi's merging
    low = changed(bench, table, low, "UPDATE w SET t = 'new', at = now() WHERE id = 3")
    assert not is_batched(frame_of(bench, table))
    assert read(bench, table, "true") == read(bench, table, "false")
    assert_done(bench.compact(table))
    assert_as_plain(bench, table, 300)
    assert read(bench, table, "true", "count_if(t = 'new'), count(*)") == [(1, 300)]


def test_deleted_rows_are_gone_in_log_files_and_behind_a_compaction(
    loaded: Any, tmp_path: Path
) -> None:
    """A log file of deletes alone is one, too. The rows are those of the source."""
    bench, table, _ = loaded
    log = LogBench(bench)
    log.close(*cut(table))
    applied, stream = log.table(table, tmp_path / "scratch"), log.stream()

    def delete(*ids: int) -> None:
        nothing = (None,) * (len(table.columns) - 1)
        log.segment(table, *(("delete", n, *nothing) for n in ids))
        bench.sql(f"DELETE FROM w WHERE id IN {(0, *ids)}")
        while stream.refresh():
            pass
        assert applied.bring_on(stream, lambda: None).commit

    delete(3)  # in one of four slices
    assert with_logs(bench, table) == 1
    assert_of_source(bench, table, is_whole=False)
    delete(*range(1, 301, 7))
    assert with_logs(bench, table) == 4
    assert_of_source(bench, table, is_whole=False)
    assert_done(bench.compact(table))
    assert with_logs(bench, table) == 0
    assert_of_source(bench, table, is_whole=True)
    delete(2)
    assert with_logs(bench, table) == 1
    assert_of_source(bench, table, is_whole=False)
    delete(*range(1, 301))
    assert_of_source(bench, table, is_whole=False)
    assert_done(bench.compact(table))
    assert_of_source(bench, table, is_whole=True)


@pytest.mark.long
def test_some_columns_and_filters(loaded: Any) -> None:
    bench, table, _ = loaded
    parts, single = (
        frame_of(bench, table, **settings)
        for settings in (IN_PARTS, {BATCHED: "false"})
    )
    for asked, where in ALL:
        one, other = (
            frame.where(where).selectExpr(*asked.split(", ")).collect()
            for frame in (parts, single)
        )
        assert one == other, (asked, where)


def test_files_of_an_older_schema_stand_beside_newer_ones(loaded: Any) -> None:
    """One base file of four is written again, with a column more and with wider ones."""
    bench, table, low = loaded
    bench.sql(
        "ALTER TABLE w ADD COLUMN more text, ALTER id TYPE bigint,"
        " ALTER small TYPE bigint, ALTER n TYPE numeric(30,4)"
    )
    wider = replace(table, columns=bench.table("w", cursor="at").columns)
    changed(
        bench,
        wider,
        low,
        "UPDATE w SET more = 'here', small = 3000000000, at = now(),"
        " n = 12345678901234567890.1234 WHERE id = 3",
    )
    assert_done(bench.compact(wider))
    assert_as_plain(bench, wider, 300)
    wide = "count(more), max(small), cast(max(n) AS string)"
    assert read(bench, wider, "true", wide) == [
        (1, 3_000_000_000, "12345678901234567890.1234")
    ]
    frame = frame_of(bench, wider)
    assert frame.where("small < 3").count() == frame.where("id < 3").count() == 2
    assert frame.where("more IS NULL AND small > 290").count() > 0


def test_an_older_state_has_the_rows_of_then(loaded: Any) -> None:
    """Its listing names log files that came later, which are left out by merging."""
    bench, table, low = loaded
    then = _last(bench, table)
    before = read(bench, table, "true")
    changed(bench, table, low, "UPDATE w SET t = 'new', at = now()")
    session = bench.spark.newSession()
    older = session.read.format("hudi").option("as.of.instant", then).load(table.path)
    assert not is_batched(older)
    assert [tuple(row) for row in older.orderBy("id").collect()] == before


def test_a_scan_reads_what_was_listed_when_it_was_planned(loaded: Any) -> None:
    """A log file that comes between planning and reading belongs to the next one."""
    bench, table, low = loaded
    planned, known = frame_of(bench, table), frame_of(bench, table)
    assert is_batched(planned)
    changed(bench, table, low, "UPDATE w SET t = 'new', at = now()")
    for frame in (planned, known, planned.where("id > 0")):
        assert "new" not in {row.t for row in frame.collect()}
    now = frame_of(bench, table)
    assert not is_batched(now)
    assert {row.t for row in now.collect()} == {"new"}


@pytest.mark.long
def test_a_table_in_partitions(lake_bench: LakeBench) -> None:
    bench = lake_bench
    bench.sql("CREATE TABLE p (id int PRIMARY KEY, area text, at timestamptz)")
    bench.sql(
        "INSERT INTO p SELECT g, nullif('a ' || g % 5, 'a 0'), now() - interval '1 day'"
        " FROM generate_series(1, 500) g"
    )
    table = bench.table("p", partition_by=("area",), cursor="at")
    low = assert_done(bench.load(table)).facts["bound"]
    assert_as_plain(bench, table, 500)
    frame = frame_of(bench, table, **IN_PARTS)
    assert is_batched(frame)
    assert frame.where("area = 'a 3'").count() == 100
    assert frame.where("area IS NULL AND id > 250").count() == 50
    # a log file in one of five partitions
    changed(bench, table, low, "UPDATE p SET area = 'a 3', at = now() WHERE id = 3")
    assert not is_batched(frame_of(bench, table))
    assert_pruned(bench, table)


# whether no partition that is left has a log file
PRUNED = {
    "area = 'a 1'": True,
    "area IS NULL": True,
    "area IN ('a 1', 'a 2') AND id > 20": True,
    "area > 'a 3' OR area < 'a 2' AND id < 99": True,
    "area = 'none'": True,
    "area = 'a 3'": False,
    "area >= 'a 2' AND id < 400": False,
    "area = 'a 1' OR id = 3": False,
    "coalesce(area, 'a 3') = 'a 3'": False,
    "id = 4": False,
}


def assert_pruned(bench: LakeBench, table: TableSpec) -> None:
    """Rows of each condition are those of the source, also where one statement reads
    both by one relation."""
    frame = frame_of(bench, table, **IN_PARTS)
    for where, is_whole in PRUNED.items():
        found = frame.where(where)
        assert is_batched(found) == is_whole, where
        rows = [(row.id, row.area) for row in found.orderBy("id").collect()]
        assert rows == bench.sql(f"SELECT id, area FROM p WHERE {where} ORDER BY id")
        assert found.count() == len(rows)
    one, other = frame.where("area = 'a 1'"), frame.where("area = 'a 3'")
    files = [file for file in frame.inputFiles() if "/area=a 1/" in file]
    assert one.rdd.getNumPartitions() > len(files) > 0
    both = one.union(other)
    assert sorted(row.id for row in both.collect()) == [
        row[0]
        for row in bench.sql("SELECT id FROM p WHERE area IN ('a 1', 'a 3') ORDER BY 1")
    ]
    frame.createOrReplaceTempView("p")
    session = frame.sparkSession
    # a subquery is planned before what it stands in
    inner = "SELECT max(id) FROM p WHERE area = 'a {}'"
    for n in (1, 3):
        counted = f"SELECT count(*) FROM p WHERE area = 'a {n}' AND id <= ({inner.format(4 - n)})"
        ((rows,),) = session.sql(counted).collect()
        assert [(rows,)] == bench.sql(counted)
    # which partitions are read is known only when it runs
    joined = "SELECT count(*) FROM p JOIN p q ON p.area = q.area WHERE q.id = 3"
    assert [tuple(row) for row in session.sql(joined).collect()] == bench.sql(joined)


@pytest.mark.long
def test_a_wide_table(lake_bench: LakeBench) -> None:
    """Of more than 100 columns Spark wants rows, of fewer of them batches."""
    columns = ", ".join(f"c{n} int DEFAULT {n}" for n in range(120))
    lake_bench.sql(f"CREATE TABLE wide (id int PRIMARY KEY, {columns})")
    lake_bench.sql("INSERT INTO wide (id) SELECT g FROM generate_series(1, 90) g")
    table = lake_bench.table("wide")
    assert_done(lake_bench.load(table))
    frame = frame_of(lake_bench, table, **IN_PARTS)
    assert not is_batched(frame)
    assert is_batched(frame.select("id", "c119"))
    assert {(row.c0, row.c119) for row in frame.collect()} == {(0, 119)}
    joined = frame.alias("a").join(frame.select("id").alias("b"), "id")
    assert joined.count() == len(joined.collect()) == 90


def changed(bench: LakeBench, table: TableSpec, low: str, statement: str) -> str:
    bench.sql(statement)
    return str(assert_done(bench.sync(table, low)).facts["position"]["to"])


def with_logs(bench: LakeBench, table: TableSpec) -> int:
    """How many file groups have log files."""
    groups = read_layout(table.path, bench.state(table).timeline).groups
    return sum(1 for group in groups if group.log_files)


def assert_of_source(bench: LakeBench, table: TableSpec, *, is_whole: bool) -> None:
    """`is_whole`: in batches and parts, as there is nothing to merge."""
    frame = frame_of(bench, table, **IN_PARTS)
    assert is_batched(frame) == is_whole
    shown = "id, cast(big as string), t, cast(day as string), hex(raw)"
    lake = [
        tuple(r) for r in frame.orderBy("id").selectExpr(*shown.split(", ")).collect()
    ]
    source = bench.sql(
        "SELECT id, big::text, t, day::text, upper(encode(raw, 'hex')) FROM w ORDER BY id"
    )
    assert lake == source
    assert frame.count() == len(source)
    assert read(bench, table, "true") == read(bench, table, "false")


def assert_as_plain(bench: LakeBench, table: TableSpec, rows: int) -> None:
    """In batches and parts: each row once, as the reader of single rows has it."""
    frame = frame_of(bench, table, **IN_PARTS)
    assert is_batched(frame)
    files = len(frame.inputFiles())
    assert frame.rdd.getNumPartitions() > files
    found = [tuple(row) for row in frame.orderBy("id").collect()]
    assert len(found) == frame.count() == rows
    assert found == read(bench, table, "false") == read(bench, table, "true")


def frame_of(bench: LakeBench, table: TableSpec, **settings: str) -> Any:
    session = bench.spark.newSession()
    for name, value in settings.items():
        session.conf.set(name, value)
    return session.read.format("hudi").load(table.path)


def is_batched(frame: Any) -> bool:
    return "Batched: true" in frame._jdf.queryExecution().executedPlan().toString()


def _last(bench: LakeBench, table: TableSpec) -> str:
    taken = frame_of(bench, table).selectExpr("max(_hoodie_commit_time)")
    return str(taken.collect()[0][0])
