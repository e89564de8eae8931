"""Commits of few rows, without a Spark job and by Spark's upsert, and what they cost when
a table has had many: processor seconds of the driver, its JVM included.

Syncs run as the product runs them, of rows that lie there. Run alone:
`python -m tests.bench.light_bench FILE`.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.contract.table import TableSpec
from ingest.driver.apply.apply import StagedRows
from ingest.lake.files import local_path
from ingest.lake.port import Place
from tests.bench.ingest_bench import started
from tests.spark.lake_bench import LakeBench, assert_done

ROWS, BUCKETS = 100_000, 4
SIZES = (1, 100, 1_000)
WARM_UPS, EACH = 15, 25
COMMITS = int(os.environ.get("SLUICE_BENCH_LIGHT_COMMITS", "1500"))
# for queries cleaning keeps what commits of so long ago need: about as many as half an
# hour has at one a second
KEEP_SECONDS = 300.0
COMPACT_AFTER = 25
ARROW = pa.schema(
    [
        ("c0", pa.int64()),
        ("c1", pa.string()),
        ("c2", pa.decimal128(12, 2)),
        ("c3", pa.timestamp("us", tz="UTC")),
    ]
)
CREATE = (
    "CREATE TABLE {} (id bigint PRIMARY KEY, v text, n numeric(12,2), at timestamptz)"
)
FILL = "INSERT INTO {} SELECT g, 'load', g, now() FROM generate_series(1, {}) g"


@dataclass(frozen=True)
class Staged:
    """Rows that lie there before anybody asks for them."""

    table: TableSpec
    rows: int

    def capture(
        self, *_: Any, folder: Place, **__: Any
    ) -> tuple[StagedRows, dict[str, Any]]:
        keys = random.sample(range(1, ROWS + 1), self.rows)
        columns: list[list[Any]] = [
            keys,
            [f"value {random.random()}" for _ in keys],
            [Decimal(key) for key in keys],
            [datetime(2026, 1, 1, tzinfo=UTC)] * self.rows,
        ]
        arrays = [pa.array(c, t) for c, t in zip(columns, ARROW.types, strict=True)]
        path = Path(local_path(folder.uri))
        path.mkdir(parents=True)
        pq.write_table(
            pa.Table.from_arrays(arrays, schema=ARROW), path / "part-0.parquet"
        )
        return StagedRows(folder, "", "", self.rows, unique_keys=True), {}


class LightBench:
    def __init__(self, bench: LakeBench) -> None:
        self.bench = bench
        self.processes = [psutil.Process(), *psutil.Process().children(recursive=True)]

    def loaded(self, name: str) -> TableSpec:
        self.bench.sql(CREATE.format(name))
        self.bench.sql(FILL.format(name, ROWS))
        table = self.bench.table(name, cursor="at", buckets=BUCKETS)
        assert_done(self.bench.load(table))
        return table

    def cpu(self) -> float:
        times = [p.cpu_times() for p in self.processes if p.is_running()]
        return sum(t.user + t.system for t in times)

    def commit(self, table: TableSpec, rows: int) -> float:
        """Processor seconds of a sync that need not read its source."""
        from ingest.driver import run as driver_run

        spec = self.bench.sync_spec(table, None, compact_after=COMPACT_AFTER)
        run = self.bench.start(replace(spec, keep_seconds=KEEP_SECONDS))
        nothing: Any = None
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(driver_run, "capture_window", Staged(table, rows).capture)
            before = self.cpu()
            facts = driver_run.run_sync(run, self.bench.spark, nothing, nothing)
        spent = self.cpu() - before
        assert facts["rows"] == rows
        return spent


@contextmanager
def by_spark() -> Iterator[None]:
    from ingest.driver.apply import writer

    most, writer.MOST_ROWS = writer.MOST_ROWS, 0
    try:
        yield
    finally:
        writer.MOST_ROWS = most


def compare(bench: LightBench) -> dict[str, float]:
    """Both ways on a table of their own, in turns."""
    writer, spark = bench.loaded("light"), bench.loaded("spark")
    found: dict[str, float] = {}
    for rows in SIZES:
        spent: dict[str, list[float]] = {"light": [], "spark": []}
        for number in range(WARM_UPS + EACH):
            ours = bench.commit(writer, rows)
            with by_spark():
                theirs = bench.commit(spark, rows)
            if number >= WARM_UPS:
                spent["light"].append(ours)
                spent["spark"].append(theirs)
        for way, seconds in spent.items():
            found[f"{way}_cpu_seconds_{rows}_rows"] = round(statistics.mean(seconds), 4)
    return found


def go_on(bench: LightBench) -> dict[str, float]:
    """Commits of one row as fast as they go, compacted whenever one is planned."""
    table = bench.loaded("many")
    groups = bench.bench.spark._jvm.io.sluice.lake.FileGroups
    spent, longest, listings = [], 0, groups.listings()
    for _ in range(COMMITS):
        spent.append(bench.commit(table, 1))
        timeline = bench.bench.state(table).timeline
        longest = max(longest, len(timeline.instants))
        if pending := timeline.pending_compactions:
            asked = (i.asked for i in pending)
            assert_done(bench.bench.compact(table, *asked, keep_seconds=KEEP_SECONDS))
    early, late = statistics.mean(spent[100:200]), statistics.mean(spent[-100:])
    return {
        "commits": COMMITS,
        "cpu_seconds_commits_100_to_200": round(early, 4),
        "cpu_seconds_last_100": round(late, 4),
        "late_to_early": round(late / early, 3),
        "most_instants": longest,
        "listings": groups.listings() - listings,
        "rows": bench.bench.frame(table).count(),
    }


def main() -> int:
    with started() as (bench, _):
        writer = LightBench(bench)
        figures: dict[str, Any] = {**compare(writer), **go_on(writer)}
    Path(sys.argv[1]).write_text(json.dumps(figures, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
