"""What jobs take of a driver with its default memory for a table of 4 MB rows: outcome,
seconds and the heap's peak. Run alone: `python -m tests.bench.wide_bench FILE`.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from py4j.protocol import Py4JError

from tests.bench.ingest_bench import started
from tests.mariadb import MariaDbServer
from tests.spark.lake_bench import LakeBench
from tests.spark.mariadb_bench import MariadbBench

ROWS = int(os.environ.get("SLUICE_BENCH_WIDE_ROWS", "300"))
BUCKETS = int(os.environ.get("SLUICE_BENCH_WIDE_BUCKETS", "19"))
# 32 letters so many times: 4 MiB
_TIMES = 131_072
_POSTGRESQL = (
    "CREATE TABLE wide (id int PRIMARY KEY, v text, at timestamptz DEFAULT now())",
    "ALTER TABLE wide ALTER v SET STORAGE EXTERNAL",
    f"INSERT INTO wide SELECT g, repeat(md5(g::text), {_TIMES})"
    f" FROM generate_series(1, {ROWS}) g",
)
_MARIADB = (
    "CREATE TABLE wide (id int PRIMARY KEY, v longtext, at datetime(6) DEFAULT now(6))",
    f"INSERT INTO wide (id, v) SELECT seq, repeat(md5(seq), {_TIMES})"
    f" FROM seq_1_to_{ROWS}",
)
_CHANGE = "UPDATE wide SET v = lower(v), at = now() WHERE id <= 20"
# no sync brings it, for its cursor stays
_CHANGE_UNSEEN = "UPDATE wide SET v = concat(v, 'x'), at = at WHERE id = 30"


class Heap:
    """The JVM's pools, whose peaks begin anew with each. They need not fall on one
    moment, so their sum may be more than the heap has."""

    def __init__(self, spark: Any) -> None:
        factory = spark._jvm.java.lang.management.ManagementFactory
        self._pools = [
            pool
            for pool in factory.getMemoryPoolMXBeans()
            if str(pool.getType().name()) == "HEAP"
        ]
        for pool in self._pools:
            pool.resetPeakUsage()

    def peak(self) -> int:
        """-1 when the JVM ended, as it does when it is out of memory."""
        try:
            return sum(int(p.getPeakUsage().getUsed()) for p in self._pools) >> 20
        except (Py4JError, OSError):
            return -1


def measure(bench: LakeBench, write: Callable[[dict[str, Any]], None]) -> bool:
    """One job after the other, as long as the driver lives; whether it still does.
    What is found is written after each."""
    for statement in _POSTGRESQL if bench.SCHEMA == "public" else _MARIADB:
        bench.sql(statement)
    table = bench.table("wide", cursor="at", estimated_rows=ROWS, buckets=BUCKETS)
    found: dict[str, Any] = {}

    def sync() -> Any:
        bench.sql(_CHANGE)
        return bench.sync(table, found["load"]["bound"])

    def verify_changed() -> Any:
        bench.sql(_CHANGE_UNSEEN)
        return bench.verify(table)

    jobs: dict[str, Callable[[], Any]] = {
        "load": lambda: bench.load(table),
        "sync": sync,
        "verify": lambda: bench.verify(table),
        "verify_changed": verify_changed,
        "compact": lambda: bench.compact(table),
        "resync": lambda: bench.load(table, kind="resync"),
    }
    for name, job in jobs.items():
        found[name] = _measured(bench, job)
        write(found)
        if found[name]["heap_peak_mb"] < 0:
            return False
    return True


def _measured(bench: LakeBench, work: Callable[[], Any]) -> dict[str, Any]:
    heap, began = Heap(bench.spark), time.monotonic()
    report = work()
    return {
        "outcome": report.outcome,
        "error": report.error.message if report.error else "",
        "rows": report.facts.get("rows") or report.facts.get("lake_rows"),
        "bound": report.facts.get("bound", ""),
        "verdict": report.facts.get("verdict", ""),
        "seconds": round(time.monotonic() - began, 1),
        "heap_peak_mb": heap.peak(),
        "rss_mb": _rss() >> 20,
    }


def _rss() -> int:
    children = psutil.Process().children(recursive=True)
    return max((c.memory_info().rss for c in children if c.name() == "java"), default=0)


def run(target: Path) -> None:
    # as drivers are started
    with started("local[2]") as (bench, root), contextlib.ExitStack() as stack:
        found: dict[str, Any] = {"rows": ROWS, "buckets": BUCKETS}

        def write(kind: str, jobs: dict[str, Any]) -> None:
            found[kind] = jobs
            target.write_text(json.dumps(found, indent=2) + "\n")

        if not measure(bench, lambda jobs: write("postgresql", jobs)):
            return
        server = MariaDbServer()
        stack.callback(server.destroy)
        server.start()
        other = MariadbBench(bench.spark, server, root / "mariadb")
        stack.callback(other.close)
        measure(other, lambda jobs: write("mariadb", jobs))


def main(target: str) -> int:
    """Write the figures as JSON; stdout belongs to the JVM."""
    run(Path(target))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
