"""Disks that are full while a job writes: the lake's, that of staged files, Spark's; and
an engine's.

Nothing is committed by half, the job names the disk, and once there is space again its
next attempt succeeds. Left out where nobody may mount a small file system.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.faults import DISK_FULL, clean
from ingest.contract.job import CompactWork, JobReport, JobSpec, SnapshotWork
from tests.small_disk import SmallDisk, small_disk
from tests.spark.engine_bench import EngineBench
from tests.spark.lake_bench import LakeBench, assert_done, with_attempt

ROWS = 5_000
# bytes: of nothing but the empty files' names, up to nearly what a whole job writes
ROOMS = (0, 4 << 10, 16 << 10, 48 << 10, 128 << 10, 384 << 10)
CREATE = f"""
CREATE TABLE {{name}} (id int PRIMARY KEY, v text, at timestamptz DEFAULT now());
INSERT INTO {{name}} SELECT g, md5(g::text) || md5((-g)::text), now() - interval '1 day'
 FROM generate_series(1, {ROWS}) g
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "small", "64m") as made:
        yield made


@pytest.fixture
def bench(spark: Any, source_pg: Any, disk: SmallDisk) -> Iterator[LakeBench]:
    """All of the lake is on the disk."""
    made = LakeBench(spark, source_pg.create_database("shop"), disk.path)
    yield made
    made.close()


def made(bench: LakeBench, name: str) -> Any:
    bench.sql(CREATE.format(name=name))
    return bench.table(name, cursor="at")


def in_source(bench: LakeBench, name: str) -> list[tuple[Any, ...]]:
    return sorted(bench.sql(f"SELECT id, v FROM {name}"))


def load_spec(bench: LakeBench, table: Any) -> JobSpec:
    work = SnapshotWork(chunk_rows=500)
    return bench.spec("snapshot", table, snapshot=work)


def assert_named(report: JobReport, disk: SmallDisk) -> None:
    assert report.error is not None, report
    found = report.outcome, report.error.code
    assert found == ("transient", "storage_full"), report
    assert f"{disk.path}" in report.error.message, report
    assert "bytes free" in report.error.message
    assert "free space on the file system of" in report.error.hint


def again(bench: LakeBench, spec: JobSpec) -> JobReport:
    return assert_done(bench.run(with_attempt(spec, 2)))


def test_a_full_lake_is_named_and_nothing_is_lost(
    bench: LakeBench, disk: SmallDisk
) -> None:
    table = made(bench, "o")
    load = load_spec(bench, table)
    with disk.full(but=128 << 10):
        assert_named(bench.run(load), disk)
        assert not bench.state(table).timeline.completed_writes
    low = again(bench, load).facts["bound"]
    assert bench.rows(table, "id", "v") == (before := in_source(bench, "o"))
    bench.sql("UPDATE o SET v = reverse(v), at = now()")
    sync = bench.sync_spec(table, low)
    with disk.full(but=128 << 10):
        assert_named(bench.run(sync), disk)
        assert bench.rows(table, "id", "v") == before
    again(bench, sync)
    assert bench.rows(table, "id", "v") == in_source(bench, "o")


@pytest.mark.long
@pytest.mark.parametrize("kind", ["sync", "resync", "compact"])
def test_a_lake_that_is_full_at_any_write_costs_nothing(
    bench: LakeBench, disk: SmallDisk, kind: str
) -> None:
    """Each attempt finds a little more room, so each meets the full disk later."""
    table = made(bench, "o")
    low = again(bench, load_spec(bench, table)).facts["bound"]
    bench.sql("UPDATE o SET v = reverse(v), at = now()")
    spec = bench.sync_spec(table, low)
    if kind == "resync":
        spec = replace(load_spec(bench, table), kind="resync")
    if kind == "compact":
        done = assert_done(bench.run(replace(spec, compact_after=1)))
        asked = tuple(done.facts["pending_compactions"])
        spec = bench.spec("compact", table, compact=CompactWork(asked))
    before = bench.rows(table, "id", "v")
    for attempt, room in enumerate(ROOMS, 1):
        with disk.full(but=room):
            report = bench.run(with_attempt(spec, attempt))
        if report.outcome != "succeeded":
            assert_named(report, disk)
            assert bench.rows(table, "id", "v") == before
        assert attempt > 1 or report.error is not None, "the first must find it full"
    assert_done(bench.run(with_attempt(spec, len(ROOMS) + 1)))
    assert bench.rows(table, "id", "v") == in_source(bench, "o")
    low = bench.state(table).position.end  # type: ignore[union-attr]
    bench.sql("UPDATE o SET v = 'after', at = now() WHERE id < 10")
    assert_done(bench.sync(table, low))
    assert_done(bench.compact(table))
    assert bench.rows(table, "id", "v") == in_source(bench, "o")


@pytest.mark.long
@pytest.mark.parametrize("which", ["staging", "scratch"])
def test_another_full_disk_is_named_and_the_load_goes_on(
    lake_bench: LakeBench, tmp_path: Path, which: str
) -> None:
    bench = lake_bench
    scratch = Path(bench.spark.conf.get("spark.local.dir"))
    place = scratch if which == "scratch" else tmp_path / "staged"
    table = made(bench, "o")
    if which == "staging":
        table = replace(table, staging=str(place / "1"))
    load = load_spec(bench, table)
    with contextlib.ExitStack() as stack:
        disk = stack.enter_context(small_disk(place, "8m"))
        with disk.full(but=64 << 10):
            assert_named(bench.run(load), disk)
            assert not bench.state(table).timeline.completed_writes
        again(bench, load)
    assert bench.rows(table, "id", "v") == in_source(bench, "o")


WRITES = (
    "select sum(length(u)) from (select u from"
    " (select uuid() as u from range(10000000000)) distribute by u)"
)
SPREAD = "select count(distinct sha2(cast(id as string), 512)) from range({rows})"


@pytest.mark.long
def test_an_engine_whose_scratch_is_full_says_so_and_goes_on(
    engine_jars: tuple[Path, ...], tmp_path: Path
) -> None:
    with small_disk(tmp_path / "engine", "256m") as disk:
        engine = EngineBench(disk.path, engine_jars)
        try:
            engine.policy("eve")
            client = engine.connect("eve")
            with disk.full(but=1 << 20):
                outcome = client.run(SPREAD.format(rows=200_000))
                fault = clean(outcome.error, sql_state=outcome.sql_state)
                assert fault.sql_state == DISK_FULL, outcome
                assert "[SCRATCH_FULL]" in fault.message
                assert client.rows("select 1") == [(1,)]
            assert client.rows(SPREAD.format(rows=200_000)) == [(200_000,)]
            client.close()
        finally:
            engine.close()


@pytest.mark.long
def test_a_statement_that_fills_the_disk_ends_before_that_is_full(
    engine_jars: tuple[Path, ...], tmp_path: Path
) -> None:
    """Whatever else lies on that disk has room left; the user's next one runs."""
    with small_disk(tmp_path / "larger", "768m") as disk:
        engine = EngineBench(disk.path, engine_jars)
        try:
            engine.policy("eve")
            client = engine.connect("eve")
            outcome = client.run(WRITES)
            assert outcome.sql_state == DISK_FULL, outcome
            assert "[STATEMENT_TOO_LARGE]" in outcome.error
            assert "No space left" not in engine.log.read_text("utf-8", "replace")
            assert client.rows(SPREAD.format(rows=200_000)) == [(200_000,)]
            client.close()
        finally:
            engine.close()
