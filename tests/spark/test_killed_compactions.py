"""A driver that is killed around a compaction that its session planned: the table has
one state, and the plan is executed by the next driver or was never there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from config.toolchain.paths import jar_paths, spark_classpath
from ingest.contract.job import CompactionBudget, CompactWork
from ingest.contract.members import encode
from ingest.lake.layout import read_layout
from tests.spark.driver_process import DriverProcess
from tests.spark.held_fence import HeldFence
from tests.spark.lake_bench import assert_done
from tests.spark.test_log_session import Running, running
from tests.spark.test_stalled_compactor import bases, completed
from tests.waiting import wait_for

__all__ = ["running"]

# every commit plans, as far as the pace allows
RICH = CompactionBudget(10_000.0)
# Hudi's own reader in a Spark that has nothing of ours
PLAIN = """
import json, sys
from pyspark.sql import SparkSession
jars, *paths = sys.argv[1:]
spark = SparkSession.builder.master("local[1]").config(map={
    "spark.driver.extraClassPath": jars, "spark.driver.memory": "500m",
    "spark.ui.enabled": "false",
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
    "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
}).getOrCreate()
for path in paths:
    spark.read.format("hudi").load(path).createOrReplaceTempView("t")
    row = "md5(concat(id, ' ', v))"
    found = spark.sql(
        f"SELECT count(*), sum(cast(conv(substr({row}, 1, 8), 16, 10) AS bigint))"
        " FROM t WHERE NOT _sluice_deleted"
    )
    print("FOUND", *found.first())
"""
AT_SOURCE = """
SELECT count(*), sum(('x' || substr(md5(id || ' ' || v), 1, 8))::bit(32)::bigint)::text
FROM {}
"""


@dataclass
class States:
    """What the lake looked like behind each kill, and what its source had then."""

    running: Running
    folder: Path
    wanted: list[str] = field(default_factory=list)

    def keep(self) -> None:
        table = self.running.one
        ((count, checksum),) = self.running.bench.sql(
            AT_SOURCE.format(table.source_table)
        )
        shutil.copytree(table.path, self.folder / str(len(self.wanted)))
        self.wanted.append(f"FOUND {count} {checksum}")

    def require_equal(self) -> None:
        jars = os.pathsep.join(map(str, jar_paths()))
        paths = [self.folder / str(n) for n in range(len(self.wanted))]
        command = [sys.executable, "-c", PLAIN, jars, *map(str, paths)]
        said = subprocess.run(command, capture_output=True, text=True, check=False)
        found = [x for x in said.stdout.splitlines() if x.startswith("FOUND")]
        assert found == self.wanted, said.stderr[-3000:]


@pytest.mark.long
def test_a_driver_that_is_killed_around_a_compaction_leaves_one_state(
    running: Running, tmp_path: Path
) -> None:
    states = States(running, tmp_path / "states")
    for order, end in enumerate((planning, planned, executing, executed), start=1):
        let_in(running, 2 * order)
        with_driver(running, tmp_path / str(order), 2 * order, end)
        states.keep()
        go_on(running, 2 * order + 1)
        states.keep()
    states.require_equal()


def with_driver(
    running: Running,
    folder: Path,
    token: int,
    end: Callable[[Running, DriverProcess, int], None],
) -> None:
    """Kills it while its session and its compactions are at the table."""
    change(running, f"killed {token}")
    driver = DriverProcess(spark_classpath(), folder, running.bench.password)
    try:
        driver.wait_for(lambda m: m["type"] == "ready")
        end(running, driver, token)
    finally:
        driver.end()


def planning(running: Running, driver: DriverProcess, token: int) -> None:
    """Its commit is complete, its plan not yet on the timeline."""
    before = len(running.bench.state(running.one).timeline.completed_writes)
    work = work_of(running, token)
    path = work["tables"][0]["fence"]["path"].removeprefix("file://")
    fence = HeldFence(path, token)
    driver.send({"type": "apply", "work": work})

    def has_committed() -> bool:
        timeline = running.bench.state(running.one).timeline
        return len(timeline.completed_writes) > before

    fence.hold_at(has_committed, "the session to plan")
    driver.end()
    fence.put_back()
    fence.answer()
    assert not pending(running)


def planned(running: Running, driver: DriverProcess, token: int) -> None:
    driver.send({"type": "apply", "work": work_of(running, token)})
    wait_for(lambda: pending(running), "a plan")


def executing(running: Running, driver: DriverProcess, token: int) -> None:
    """All its files are written. Who looks at a fence has the table's lock, so its
    session can commit nothing beside it here."""
    asked, fence = begin(running, driver, token)
    inflight = timeline_of(running) / f"{asked}.compaction.inflight"
    fence.hold_at(
        lambda: inflight.exists() and bool(bases(running.one, asked)), "its end"
    )
    driver.end()
    fence.put_back()
    fence.answer()
    assert pending(running) == [asked]


def executed(running: Running, driver: DriverProcess, token: int) -> None:
    """It is complete, and nobody has heard of it."""
    asked, fence = begin(running, driver, token)
    fence.hold_at(lambda: bool(completed(timeline_of(running), asked)), "its end")
    assert not any(m["type"] == "report" for m in driver.heard)
    driver.end()
    fence.put_back()
    fence.answer()
    assert not pending(running)


def begin(running: Running, driver: DriverProcess, token: int) -> tuple[str, HeldFence]:
    """A session that has planned, and a compaction of its plan."""
    driver.send({"type": "apply", "work": work_of(running, token)})
    (asked,) = wait_for(lambda: pending(running), "a plan")
    work = CompactWork((asked,))
    spec = running.bench.spec("compact", running.one, token=token, compact=work)
    fence = HeldFence(spec.fence.path, token)
    driver.run(spec)
    return asked, fence


def go_on(running: Running, token: int) -> None:
    """The next driver's session commits, and what is planned is executed."""
    bench, table = running.bench, running.one
    let_in(running, token)
    number = change(running, f"behind {token}")
    running.send(table, token=token, compact_after=1, budget=RICH)
    has_applied(running, number)
    wait_for(lambda: pending(running), "a plan")
    running.send()
    wait_for(lambda: running.heard.last and not running.heard.last.held, "its end")
    for asked in pending(running):
        wait_for(partial(is_compacted, running, asked, token), "its age", pause=2)
    timeline = bench.state(table).timeline
    assert not timeline.pending_writes
    assert not timeline.pending_compactions
    assert not read_layout(table.path, timeline).twins


def is_compacted(running: Running, asked: str, token: int) -> bool:
    """Hudi's own guard: the sign of life of a dead compactor has to grow old first."""
    done = running.bench.compact(running.one, asked, token=token)
    if done.error is not None and done.error.code == "compaction_begun":
        return False
    return assert_done(done).facts["instants"] == [asked]


def let_in(running: Running, token: int) -> None:
    for scope in ("write", "service"):
        running.bench.take_over(running.one, token, scope)


def change(running: Running, text: str) -> int:
    """In the log and at the source; the segment's number."""
    table = running.one
    ((new,),) = running.bench.sql(f"SELECT max(id) + 1 FROM {table.source_table}")
    running.bench.sql(f"UPDATE {table.source_table} SET v = '{text}' WHERE id = 1")
    running.bench.sql(f"INSERT INTO {table.source_table} VALUES ({new}, '{text}')")
    running.bench.sql(f"DELETE FROM {table.source_table} WHERE id = {new} - 3")
    changes = ("update", 1, text), ("insert", new, text), ("delete", new - 3, None)
    return running.log.segment(table, *changes).number


def has_applied(running: Running, number: int) -> None:
    def is_there() -> bool:
        position = running.bench.state(running.one).position
        return position is not None and position.epoch_to >= number

    wait_for(is_there, f"epoch {number}")


def work_of(running: Running, token: int) -> Any:
    work = running.log.work(running.one, token=token, compact_after=1, budget=RICH)
    return json.loads(encode(work))


def pending(running: Running) -> list[str]:
    timeline = running.bench.state(running.one).timeline
    return [instant.asked for instant in timeline.pending_compactions]


def timeline_of(running: Running) -> Path:
    return Path(running.one.path) / ".hoodie" / "timeline"
