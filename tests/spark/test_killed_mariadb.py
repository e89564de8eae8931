"""A driver that reads MariaDB, killed in a load and in a sync; the server cuts the
connections and starts anew in between. What is in the lake then equals the source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ingest.contract.job import JobReport, JobSpec, SnapshotWork
from ingest.lake.staging import StagingArea
from tests.processes import wait_until_gone
from tests.spark.driver_process import DriverProcess
from tests.spark.held_fence import HeldFence
from tests.spark.lake_bench import assert_done, with_attempt
from tests.spark.mariadb_bench import MariadbBench
from tests.waiting import wait_for

ROWS = 3_000


@pytest.fixture
def bench(mariadb_server: Any, tmp_path: Path) -> Iterator[MariadbBench]:
    """Without the shared Spark: each driver brings its own."""
    made = MariadbBench(None, mariadb_server, tmp_path)
    made.sql(
        "CREATE TABLE victim (id int PRIMARY KEY, v varchar(99),"
        " at timestamp(6) NOT NULL DEFAULT now(6) ON UPDATE now(6))"
    )
    made.sql(
        "INSERT INTO victim SELECT seq, repeat('x', 50), now(6) - INTERVAL 1 DAY"
        f" FROM seq_1_to_{ROWS}"
    )
    made.sql("ANALYZE TABLE victim")
    yield made
    made.close()


@pytest.fixture
def start(bench: MariadbBench, tmp_path: Path) -> Iterator[Callable[[], DriverProcess]]:
    from config.toolchain.javac import ensure_sluice_jar
    from config.toolchain.paths import spark_classpath

    ensure_sluice_jar(lambda text: None)
    drivers: list[DriverProcess] = []

    def make() -> DriverProcess:
        scratch = tmp_path / f"driver{len(drivers)}"
        drivers.append(DriverProcess(spark_classpath(), scratch, bench.password))
        return drivers[-1]

    yield make
    for driver in drivers:
        driver.end()


@contextmanager
def locked(bench: MariadbBench) -> Iterator[None]:
    """Whoever reads the table waits inside its statement."""
    with closing(bench.server.connect("shop")) as link, link.cursor() as cursor:
        cursor.execute("LOCK TABLES victim WRITE")
        yield


def severed(bench: MariadbBench, driver: DriverProcess, spec: JobSpec) -> JobReport:
    """How the job ends when the server cuts the connection it reads through."""
    with locked(bench):
        driver.run(spec)
        mark = f"sluice:{spec.job_id}"
        wait_for(lambda: bench.server.sever(mark), "a statement of the job")
        report = driver.report(spec)
    assert report.outcome == "transient", report
    return report


def kill(driver: DriverProcess) -> None:
    family = driver.family()
    family[0].kill()
    wait_until_gone(family)


def under(spec: JobSpec, attempt: int, token: int) -> JobSpec:
    fence = replace(spec.fence, token=token)
    return replace(with_attempt(spec, attempt), fence=fence)


def is_writing(table: Any, known: set[str]) -> bool:
    folder = Path(table.path) / ".hoodie" / "timeline"
    return any("inflight" in p.name for p in folder.iterdir() if p.name not in known)


@pytest.mark.long
def test_kills_in_a_load_and_in_a_sync_cost_nothing(
    bench: MariadbBench, start: Callable[[], DriverProcess]
) -> None:
    table = bench.table("victim", cursor="at", estimated_rows=ROWS)
    staging = StagingArea(table.staging)
    slow = replace(bench.source, max_rows_per_second=200)
    load = bench.spec(
        "snapshot", table, source=slow, snapshot=SnapshotWork(chunk_rows=200)
    )

    first = start()
    severed(bench, first, load)
    first.run(with_attempt(load, 2))
    wait_for(lambda: len(staging.finished()) >= 2, "chunks of the load")
    kill(first)
    assert not Path(table.path).exists()
    bench.restart()

    second = start()
    bench.take_over(table, 2)
    load = replace(load, source=bench.source)
    report = second.report(_run(second, under(load, 3, 2)))
    facts = assert_done(report).facts
    assert (facts["rows"], facts["committed_rows"]) == (ROWS, ROWS)
    bench.sql("UPDATE victim SET v = 'new' WHERE id % 3 = 0")
    bench.sql("INSERT INTO victim (id, v) VALUES (99999, 'born')")
    turn = bench.sync_spec(table, facts["bound"], token=2)
    severed(bench, second, turn)
    known = {p.name for p in (Path(table.path) / ".hoodie" / "timeline").iterdir()}
    fence = HeldFence(turn.fence.path, turn.fence.token)
    second.run(with_attempt(turn, 2))
    fence.hold_at(lambda: is_writing(table, known), "a commit to begin")
    kill(second)
    fence.put_back()

    third = start()
    bench.take_over(table, 3)
    bench.take_over(table, 3, "service")
    done = assert_done(third.report(_run(third, under(turn, 3, 3))))
    assert done.facts["rows"] == ROWS // 3 + 1
    check = bench.verify_spec(table, token=3)
    facts = assert_done(third.report(_run(third, check))).facts
    assert (facts["verdict"], facts["lake_rows"], facts["pending"]) == (
        "equal",
        ROWS + 1,
        0,
    )


def _run(driver: DriverProcess, spec: JobSpec) -> JobSpec:
    driver.run(spec)
    return spec
