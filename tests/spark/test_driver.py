"""The driver as a real process: lanes, cancel, secrets, silence, kill."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from core.class_archive import class_archive
from ingest.contract.job import CompactWork, JobSpec, SnapshotWork
from ingest.lake.staging import StagingArea
from tests.processes import line_of, wait_until_gone
from tests.spark.driver_process import DriverProcess
from tests.spark.lake_bench import LakeBench, with_attempt
from tests.spark.left_behind import mapped, unpacked_libraries
from tests.waiting import LIMIT_SECONDS, wait_for

pytestmark = pytest.mark.own_driver
CANARY = "canary-9c1f-Secret"


@pytest.fixture(scope="module")
def jars() -> str:
    from config.toolchain.javac import ensure_sluice_jar
    from config.toolchain.paths import spark_classpath

    ensure_sluice_jar(lambda text: None)
    return spark_classpath()


@pytest.fixture(scope="module")
def driver(
    jars: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DriverProcess]:
    made = DriverProcess(jars, tmp_path_factory.mktemp("driver"), CANARY)
    yield made
    made.end()


@pytest.fixture
def bench(source_pg: Any, tmp_path: Path) -> Iterator[LakeBench]:
    """Without the shared Spark: the driver brings its own."""
    made = LakeBench(None, source_pg.create_database("driven"), tmp_path)
    made.sql(
        "DO $$ BEGIN CREATE ROLE canary LOGIN SUPERUSER; EXCEPTION WHEN duplicate_object THEN NULL; END $$"
    )
    made.sql(f"ALTER ROLE canary PASSWORD '{CANARY}'")
    made.source = replace(made.source, username="canary")
    yield made
    made.close()


def big_table(bench: LakeBench, name: str, rows: int = 4000) -> Any:
    bench.sql(
        f"CREATE TABLE {name} (id int PRIMARY KEY, v text, at timestamptz DEFAULT now())"
    )
    bench.sql(
        f"INSERT INTO {name} SELECT g, repeat('x', 100) FROM generate_series(1, {rows}) g"
    )
    bench.sql(f"ANALYZE {name}")
    return bench.table(name, cursor="at", estimated_rows=rows)


def test_jobs_run_side_by_side_and_the_secret_stays_in_memory(
    driver: DriverProcess, bench: LakeBench
) -> None:
    ready = driver.wait_for(lambda m: m["type"] == "ready")
    assert ready["versions"]["spark"].startswith("3.5")
    assert ready["pid"] == driver.process.pid
    long = big_table(bench, "long", 40_000)
    slow = replace(bench.source, datasource_id=2, max_rows_per_second=200)
    long_spec = bench.spec(
        "snapshot", long, source=slow, snapshot=SnapshotWork(chunk_rows=200)
    )
    driver.run(long_spec)
    driver.progress(long_spec, "reading")
    short = big_table(bench, "short", 100)
    short_spec = bench.spec("snapshot", short, snapshot=SnapshotWork())
    driver.run(short_spec)
    report = driver.report(short_spec)
    assert report.outcome == "succeeded", report
    sync_spec = bench.sync_spec(short, None)
    driver.run(sync_spec)
    assert driver.report(sync_spec).facts["rows"] == 100
    compact_spec = bench.spec("compact", short, compact=CompactWork())
    driver.run(compact_spec)
    assert len(driver.report(compact_spec).facts["instants"]) == 1
    assert not [
        m for m in driver.heard if m.get("report", {}).get("job_id") == long_spec.job_id
    ]

    # pause reaches a job that sleeps in its source's throttle
    driver.cancel(long_spec, "pause")
    report = driver.report(long_spec)
    assert report.outcome == "paused"
    assert StagingArea(long.staging).finished()

    arguments = [line_of(process) for process in driver.family()]
    logged = [p.read_text(errors="replace") for p in driver.events.iterdir()]
    assert logged
    for text in (*arguments, *logged, driver.log.read_text(errors="replace")):
        assert CANARY not in text
    assert any("JDBCRelation" in text for text in logged), "no read is in the log"
    assert not [m for m in driver.heard if CANARY in str(m)]
    said = [
        m
        for m in driver.heard
        if m["type"] == "log" and m["job_id"] == short_spec.job_id
    ]
    assert "reading" in [m["message"] for m in said]


def test_cancel_reaches_a_statement_that_waits_at_the_source(
    driver: DriverProcess, bench: LakeBench
) -> None:
    """Once in the planning, once in Spark's own read."""
    table = big_table(bench, "locked")
    spec = bench.spec("snapshot", table, snapshot=SnapshotWork(chunk_rows=1000))
    running = (
        "SELECT count(*) FROM pg_stat_activity WHERE application_name ="
        f" 'sluice:{spec.job_id}' AND state = 'active'"
    )

    def seen_running() -> int:
        bench.sql("SELECT pg_stat_clear_snapshot()")  # kept for a whole transaction
        return int(bench.sql(running)[0][0])

    with bench.link.transaction():
        bench.sql("LOCK TABLE locked IN ACCESS EXCLUSIVE MODE")
        driver.run(spec)
        wait_for(lambda: seen_running() > 0, "the source or the staging area")
        driver.cancel(spec)
        assert driver.report(spec).outcome == "cancelled"
        assert seen_running() == 0

    # a view that sleeps: planned without touching it, read by Spark
    bench.sql("CREATE VIEW sleepy AS SELECT id, pg_sleep(9999)::text AS v FROM locked")
    view = bench.table("sleepy")
    asleep = bench.spec("snapshot", view, snapshot=SnapshotWork())
    driver.run(asleep)
    there = running.replace(spec.job_id, asleep.job_id)
    driver.progress(asleep, "reading")
    wait_for(lambda: bench.sql(there)[0][0] > 0, "the source or the staging area")
    driver.cancel(asleep)
    assert driver.report(asleep).outcome == "cancelled"
    wait_for(lambda: bench.sql(there)[0][0] == 0, "the source or the staging area")
    assert not StagingArea(view.staging).folder.exists()
    assert not Path(view.path).exists()


def test_a_job_whose_threads_answer_nothing_is_abandoned(
    driver: DriverProcess, bench: LakeBench
) -> None:
    """Its place is free and nobody hears of it; only its own table waits for it."""
    table = big_table(bench, "silent")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        source = replace(bench.source, port=port, datasource_id=7)
        spec = bench.spec("snapshot", table, source=source, snapshot=SnapshotWork())
        driver.run(spec)
        end, _ = silent.accept()
        with end:
            driver.cancel(spec, "abandon")
            driver.wait_for(lambda m: spec.job_id in m.get("jobs_abandoned", ()))
            other = big_table(bench, "other", 100)
            beside = bench.spec("snapshot", other, snapshot=SnapshotWork())
            driver.run(beside)
            assert driver.report(beside).outcome == "succeeded"
            after = bench.spec("snapshot", table, snapshot=SnapshotWork())
            driver.run(after)
            driver.wait_for(
                lambda m: any(
                    j["job_id"] == after.job_id and "earlier attempt" in j["reason"]
                    for j in m.get("jobs", ())
                )
            )
    # it has an answer now: its thread ends, and says nothing
    assert driver.report(after).outcome == "succeeded"
    said = [m["report"]["job_id"] for m in driver.heard if m["type"] == "report"]
    assert spec.job_id not in said


def begun_without_staging(driver: DriverProcess, bench: LakeBench) -> JobSpec:
    """A short load of which some rows are read."""
    slow = replace(bench.source, datasource_id=4, max_rows_per_second=200)
    table, work = big_table(bench, "brief", 3000), SnapshotWork(chunk_rows=1000)
    spec = bench.spec("snapshot", table, source=slow, snapshot=work)
    driver.run(spec)

    def has_read(job: dict[str, Any]) -> bool:
        return job["job_id"] == spec.job_id and job["done"] > 0

    driver.wait_for(lambda m: any(map(has_read, m.get("jobs", ()))))
    assert not StagingArea(table.staging).folder.exists()
    return spec


def ended_from_the_start(
    driver: DriverProcess, bench: LakeBench, spec: JobSpec
) -> None:
    """What a short load has read ends with its driver: all of it is read again."""
    bench.take_over(spec.table, 2)
    fence = replace(spec.fence, token=2)
    driver.run(with_attempt(replace(spec, source=bench.source, fence=fence), 2))
    report = driver.report(with_attempt(spec, 2))
    assert report.outcome == "succeeded", report
    facts = report.facts
    assert (facts["rows"], facts["committed_rows"]) == (3000, 3000)


def test_kill_9_leaves_no_process_and_the_next_driver_goes_on(
    driver: DriverProcess, bench: LakeBench, jars: str, tmp_path: Path
) -> None:
    table = big_table(bench, "victim")
    slow = replace(bench.source, datasource_id=3, max_rows_per_second=200)
    spec = bench.spec(
        "snapshot", table, source=slow, snapshot=SnapshotWork(chunk_rows=200)
    )
    driver.run(spec)
    staging = StagingArea(table.staging)
    unstaged = begun_without_staging(driver, bench)
    wait_for(lambda: len(staging.finished()) >= 2, "the source or the staging area")
    family = driver.family()
    java = next(p for p in family if line_of(p).partition(" ")[0].endswith("java"))
    libraries, files = unpacked_libraries(java.pid), mapped(java.pid)
    family[0].kill()
    wait_until_gone(family)
    archive = class_archive(jars.split(":")).resolve()
    assert archive in files, "it started without the archive"
    # what it left lies where its host cleans up, not where everybody's files lie
    assert libraries
    assert all(path.parent == driver.scratch for path in libraries), libraries
    kept = set(staging.finished())

    after = DriverProcess(jars, tmp_path / "second", CANARY)
    try:
        bench.take_over(table, 2)
        again = with_attempt(replace(spec, source=bench.source), 2)
        again = replace(again, fence=replace(spec.fence, token=2))
        after.run(again)
        report = after.report(again)
        assert report.outcome == "succeeded", report
        assert report.facts["rows"] == 4000
        assert report.facts["consistency"] == "per_chunk"
        assert len(kept) >= 2
        ended_from_the_start(after, bench, unstaged)
        # a driver that nobody talks to any more ends itself, JVM included
        family = after.family()
        after.is_pinging = False
        after.send({"type": "hello", "silence_seconds": 1.0})
        assert after.process.wait(LIMIT_SECONDS) == 70
        wait_until_gone([p for p in family if p.pid != after.process.pid])
    finally:
        after.end()


def test_nothing_of_a_driver_is_left(driver: DriverProcess) -> None:
    assert (
        not psutil.pid_exists(driver.process.pid) or driver.process.poll() is not None
    )
