"""A table's query against the one of its just compacted copy (A B B A), both warm."""

from __future__ import annotations

import contextlib
import shutil
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from ingest.contract.table import TableSpec
from tests.bench.ingest_bench import seconds_of
from tests.spark.lake_bench import LakeBench, assert_done


@dataclass(frozen=True, slots=True)
class QueryCost:
    """By the clock and by processor time, which says more where others work, too."""

    seconds: float
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class Compared:
    """What the table's query takes, and what the copy's."""

    ours: QueryCost
    copy: QueryCost

    @property
    def ratio(self) -> float:
        return self.ours.seconds / self.copy.seconds

    @property
    def cpu_ratio(self) -> float:
        return self.ours.cpu_seconds / self.copy.cpu_seconds


def compare_to_compacted(
    bench: LakeBench, table: TableSpec, *, rows: int, pairs: int, root: Path
) -> Compared:
    """Medians of so many pairs each; the copy lies below `root` and is compacted for it.

    rows  how many the table has
    """
    path = root / "copy"
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(table.path, path)
    copy = replace(table, path=str(path))
    assert_done(bench.compact(copy))
    cost_of(bench, copy, rows), cost_of(bench, table, rows)
    ours: list[QueryCost] = []
    others: list[QueryCost] = []
    for _ in range(pairs):
        ours.append(cost_of(bench, table, rows))
        others += [cost_of(bench, copy, rows), cost_of(bench, copy, rows)]
        ours.append(cost_of(bench, table, rows))
    return Compared(_median(ours), _median(others))


def cost_of(bench: LakeBench, table: TableSpec, rows: int) -> QueryCost:
    """Opens the table anew and reads every column of every row."""

    def read() -> None:
        frame = bench.spark.newSession().read.format("hudi").load(table.path)
        columns = ", ".join(f"`{c}`" for c in frame.columns)
        (row,) = frame.selectExpr("count(*)", f"max(xxhash64({columns}))").collect()
        assert row[0] == rows

    before = cpu_seconds()
    seconds = seconds_of(read)
    return QueryCost(seconds, cpu_seconds() - before)


def cpu_seconds() -> float:
    """Of this process and the JVM below it; other children come and go."""
    me = psutil.Process()
    spent = 0.0
    for process in (me, *me.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.pid == me.pid or process.name() == "java":
                times = process.cpu_times()
                spent += times.user + times.system
    return spent


def _median(costs: Sequence[QueryCost]) -> QueryCost:
    return QueryCost(
        statistics.median(c.seconds for c in costs),
        statistics.median(c.cpu_seconds for c in costs),
    )
