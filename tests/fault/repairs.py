"""Repairs of real tables whose driver is killed at a random moment, and run again.

One run: a table in need of each kind of repair, one driver that repairs all of them at
once, SIGKILL somewhere on the way, and every repair once more. What must hold then is
asked of the files, of hudi-rs and of the source.
"""

from __future__ import annotations

import os
import random
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ingest.contract.job import Lane
from tests.processes import wait_until_gone
from tests.spark import repair_kills as kills
from tests.spark.driver_process import DriverProcess
from tests.spark.lake_bench import LakeBench

KINDS = (
    "rollback",
    "unschedule",
    "replan",
    "retry",
    "deduplicate",
    "resize",
    "restore",
    "clean",
    "metadata",
)
# as many side by side as the lanes of a driver have places for
LANES: tuple[Lane, ...] = ("snapshot",) * 4 + ("apply",) * 4 + ("maintenance",)
LONGEST = 20.0


@contextmanager
def bench_of(name: str, home: Path) -> Iterator[LakeBench]:
    """A source of that name with a lake beside it, and a Spark to look at them."""
    from config.embedded.postgres import EmbeddedPostgres

    with ExitStack() as stack:
        server = EmbeddedPostgres(home, name, durable=False)
        stack.callback(server.destroy)
        server.start()
        server.ensure_database(name)
        bench = LakeBench(start_spark(stack, home), server.address.url(name), home)
        stack.callback(bench.close)
        yield bench


def start_spark(stack: ExitStack, home: Path) -> Any:
    from config.toolchain.javac import ensure_sluice_jar
    from config.toolchain.paths import spark_jars
    from ingest.driver.session import SessionSpec, start_session

    ensure_sluice_jar(lambda text: None)
    session = start_session(
        SessionSpec(
            jars=[str(path) for path in spark_jars("s3")],
            scratch=str(home / "spark"),
            app_name="sluice-fault",
        )
    )
    stack.callback(session.stop)
    return session


def run(bench: LakeBench, seed: int) -> list[dict[str, Any]]:
    """Facts of each killed repair; `error` in those that did not come right."""
    chance = random.Random(seed)
    tables = [kills.broken(bench, kind, f"{kind}_{seed}") for kind in KINDS]
    chance.shuffle(tables)
    delay = chance.uniform(0.0, LONGEST)
    ended = _killed(bench, tables, delay)
    facts = []
    # Hudi believes in a compactor for some seconds after its last sign of life
    for one in sorted(tables, key=lambda o: o.kind == "retry"):
        start = time.monotonic()
        fact: dict[str, Any] = {"repair": one.kind, "seed": seed}
        fact |= {"delay": round(delay, 2), "had_ended": one.spec.job_id in ended}
        try:
            kills.require_whole(bench, one, kills.repeat(bench, one))
        except AssertionError as error:
            fact["error"] = str(error)[:2000]
        facts.append(fact | {"seconds": round(time.monotonic() - start, 1)})
    return facts


def _killed(bench: LakeBench, tables: list[kills.Broken], delay: float) -> set[str]:
    """Jobs that ended before the driver did."""
    from config.toolchain.paths import spark_classpath

    scratch = Path(tempfile.mkdtemp(prefix="sluice-driver-"))
    driver = DriverProcess(spark_classpath(), scratch / "driver", bench.password)
    try:
        driver.wait_for(lambda m: m["type"] == "ready")
        for lane, one in zip(LANES, tables, strict=True):
            driver.run(replace(one.spec, lane=lane))
        driver.wait_for(lambda m: m["type"] == "accepted")
        time.sleep(delay)
        family = driver.family()
        os.killpg(driver.process.pid, signal.SIGKILL)
        wait_until_gone(family)
    finally:
        driver.end()
    return {m["report"]["job_id"] for m in driver.heard if m["type"] == "report"}
