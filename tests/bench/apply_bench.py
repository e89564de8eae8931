"""Commits of what waits in a stream: processor seconds of the driver, its JVM included,
by how many rows and by how many segments they come in.

Run alone: `python -m tests.bench.apply_bench FILE`.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from ingest.contract.table import TableSpec
from ingest.driver.apply import writer
from ingest.driver.apply.log_apply import LogTable
from ingest.driver.apply.log_read import Stream
from ingest.driver.table_services.cleaning import tidy_when_due
from ingest.driver.table_services.compaction import plan_when_due
from tests.bench.ingest_bench import started
from tests.spark.lake_bench import LakeBench, assert_done
from tests.spark.log_bench import LogBench, cut

ROWS, BUCKETS = 100_000, 4
SIZES = (1, 100, 1_000)
SEGMENTS = int(os.environ.get("SLUICE_BENCH_SEGMENTS", "10000"))
WARM_UPS, EACH = 15, 25
CREATE = (
    "CREATE TABLE t (id bigint PRIMARY KEY, v text, n numeric(12,2), at timestamptz)"
)
FILL = "INSERT INTO t SELECT g, 'load', g, now() FROM generate_series(1, {}) g"
AT = "2026-01-01 00:00:00+00"


@dataclass
class Spent:
    """CPU seconds of commits, and of those the ones within Hudi; and of reading the
    stream before."""

    refresh: list[float] = field(default_factory=list)
    all: list[float] = field(default_factory=list)
    hudi: list[float] = field(default_factory=list)

    def figures(self, name: str) -> dict[str, float]:
        all, hudi = statistics.mean(self.all), statistics.mean(self.hudi)
        return {
            f"{name}_refresh": round(statistics.mean(self.refresh), 4),
            f"{name}_cpu_seconds": round(all, 4),
            f"{name}_outside_hudi": round(all - hudi, 4),
        }


class ApplyBench:
    def __init__(self, bench: LakeBench) -> None:
        self.bench = bench
        bench.sql(CREATE)
        bench.sql(FILL.format(ROWS))
        self.table: TableSpec = bench.table("t", buckets=BUCKETS)
        assert_done(bench.load(self.table))
        self.log = LogBench(bench)
        self.log.close(*cut(self.table))
        scratch = Path(tempfile.mkdtemp()) / "scratch"
        self.applied: LogTable = self.log.table(self.table, scratch, compact_after=25)
        self.stream: Stream = self.log.stream()
        self.processes = [psutil.Process(), *psutil.Process().children(recursive=True)]

    def cpu(self) -> float:
        times = [p.cpu_times() for p in self.processes if p.is_running()]
        return sum(t.user + t.system for t in times)

    def change(self, rows: int) -> None:
        keys = random.sample(range(1, ROWS + 1), rows)
        changes = [("update", key, f"value {key}", key, AT) for key in keys]
        self.log.change(self.table, *changes)

    def commit(self, spent: Spent) -> None:
        """As a session does it: commit and upkeep. The stream is read once for all of its
        tables."""
        before = self.cpu()
        while self.stream.refresh():
            pass
        spent.refresh.append(self.cpu() - before)
        with self._hudi(spent):
            before = self.cpu()
            step = self.applied.bring_on(self.stream, lambda: None)
            assert step.commit is not None
            assert self.applied.state is not None
            timeline = self.applied.state.timeline
            plan_when_due(self.bench.spark, self.applied.spec, timeline)
            tidy_when_due(self.bench.spark, self.applied.spec, timeline)
            spent.all.append(self.cpu() - before)
        for pending in self.bench.state(self.table).timeline.pending_compactions:
            assert_done(self.bench.compact(self.table, pending.asked))

    @contextmanager
    def _hudi(self, spent: Spent) -> Iterator[None]:
        real: Callable[..., Any] = writer.commit_light

        def counted(*args: Any) -> bool:
            before = self.cpu()
            is_done = real(*args)
            spent.hudi.append(self.cpu() - before)
            return bool(is_done)

        writer.commit_light = counted  # type: ignore[assignment]
        try:
            yield
        finally:
            writer.commit_light = real  # type: ignore[assignment]


def by_rows(bench: ApplyBench) -> dict[str, float]:
    found: dict[str, float] = {}
    for rows in SIZES:
        spent = Spent()
        for number in range(WARM_UPS + EACH):
            bench.change(rows)
            bench.log.close()
            bench.commit(spent if number >= WARM_UPS else Spent())
        found |= spent.figures(f"{rows}_rows")
    return found


def by_segments(bench: ApplyBench) -> dict[str, float]:
    """1,000 rows in a hundred of so many segments; and a row in each of as many as one
    commit without a Spark job takes."""
    found: dict[str, float] = {}
    for count, each, rows in ((SEGMENTS, SEGMENTS // 100, 10), (SEGMENTS // 2, 1, 1)):
        for number in range(count):
            if number % each == 0:
                bench.change(rows)
            bench.log.close()
        spent = Spent()
        bench.commit(spent)
        found |= spent.figures(f"{count // each}_of_{count}_segments")
    return found


def main() -> int:
    with started() as (bench, _):
        apply = ApplyBench(bench)
        figures = {**by_rows(apply), **by_segments(apply)}
    Path(sys.argv[1]).write_text(json.dumps(figures, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
