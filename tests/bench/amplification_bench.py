"""What upkeep writes per byte changed, over tables of different size: is the curve flat?

Commits of random updates one after the other, 100 rows each as a schedule of 10 s makes
them, only without the waiting; compactions run as the host runs them. Then the table's query against
the same of a copy that was just compacted. Run alone:
`python -m tests.bench.amplification_bench FILE`; each commit is a line of FILE.jsonl.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ingest.contract.job import CompactionBudget
from ingest.contract.written import Totals
from ingest.lake.hudi.budget import Choice, credit_after
from ingest.lake.hudi.layout import FileGroup
from ingest.lake.layout import read_layout
from ingest.lake.place import place_at
from ingest.lake.upkeep import read_written
from ingest.maintenance.merging import weigh
from ingest.pipelines.policies.maintenance import MaintenancePolicy
from tests.bench.ingest_bench import CREATE, FILL, started
from tests.bench.queries import compare_to_compacted
from tests.spark.lake_bench import LakeBench, assert_done

# 30 minutes of a sync every 10 s are 180 commits; 10,000,000 rows want an hour of two cores
SIZES = os.environ.get("SLUICE_BENCH_SIZES", "10000 1000000").split()
COMMITS = int(os.environ.get("SLUICE_BENCH_COMMITS", "180"))
# 0 = without a budget: everything after each `compact_after`th commit, as it was before
AMPLIFICATION = float(os.environ.get("SLUICE_BENCH_AMPLIFICATION", "10"))
# rows per commit; where there is no time for many commits, larger ones write as much
CHANGED = int(os.environ.get("SLUICE_BENCH_CHANGED", "100"))
BUCKETS = 4
SAMPLES = 3
QUERIES = 3


@dataclass(frozen=True, slots=True)
class CommitCost:
    """One sync. log_files: of the table afterwards."""

    number: int
    seconds: float
    log_files: int
    compactions: int


@dataclass(frozen=True, slots=True)
class QuerySample:
    """Against the compacted copy, by the clock and by processor time, which says more
    where other work uses the machine; estimated: what health would say, by these
    numbers of the table's file groups."""

    number: int
    ratio: float
    cpu_ratio: float
    estimated: float
    log_files: int
    log_bytes: int
    base_bytes: int


class AmplificationBench:
    """One table of so many rows."""

    def __init__(self, bench: LakeBench, rows: int) -> None:
        self.bench, self.rows = bench, rows
        self.name = f"rows_{rows}"
        bench.sql(CREATE.format(name=self.name))
        bench.sql(FILL.format(name=self.name, rows=rows))
        bench.sql(f"CREATE INDEX ON {self.name} (at)")
        bench.sql(f"VACUUM ANALYZE {self.name}")
        self.table = bench.table(
            self.name, buckets=BUCKETS, estimated_rows=rows, cursor="at"
        )
        self.low = assert_done(bench.load(self.table)).facts["bound"]
        self.counted = Totals(self._newest())
        self.credit = self.changed = self.rewritten = 0

    def commit(self, number: int) -> CommitCost:
        self.bench.sql(
            f"UPDATE {self.name} SET note = md5(note), at = clock_timestamp() WHERE id"
            f" IN (SELECT 1 + floor(random() * {self.rows})::int"
            f" FROM generate_series(1, {CHANGED}))"
        )
        budget = CompactionBudget(AMPLIFICATION, self.credit, self.counted)
        start = time.monotonic()
        report = self.bench.sync(
            self.table,
            self.low,
            budget=budget if AMPLIFICATION else None,
            compact_after=MaintenancePolicy().compact_after,
        )
        took = round(time.monotonic() - start, 3)
        facts = assert_done(report).facts
        self.low = facts["position"]["to"]
        if pending := facts["pending_compactions"]:
            keep = {"keep_seconds": 0.0}
            assert_done(self.bench.compact(self.table, *pending, **keep))
        self._count()
        logs = sum(group.log_files for group in self._groups())
        return CommitCost(number, took, logs, len(pending))

    def _count(self) -> None:
        """As the services count it at each look."""
        groups, timeline = self._groups(), self.bench.state(self.table).timeline
        base = place_at(self.table.path)
        self.counted, found = read_written(base, timeline, self.counted)
        wrote = [(one.action, one.bytes) for one in found]
        self.changed += sum(size for action, size in wrote if action == "deltacommit")
        self.rewritten += sum(size for action, size in wrote if action == "compaction")
        self.credit = credit_after(
            self.credit,
            wrote,
            amplification=AMPLIFICATION,
            most=sum(g.base_bytes + g.log_bytes for g in groups),
        )

    def query(self, number: int, root: Path) -> QuerySample:
        compared = compare_to_compacted(
            self.bench, self.table, rows=self.rows, pairs=QUERIES, root=root
        )
        groups = self._groups()
        cost = weigh(groups, Choice(), credit=0, allowed=AMPLIFICATION, measured=None)
        return QuerySample(
            number,
            round(compared.ratio, 2),
            round(compared.cpu_ratio, 2),
            cost.ratio,
            log_files=sum(group.log_files for group in groups),
            log_bytes=sum(group.log_bytes for group in groups),
            base_bytes=sum(group.base_bytes for group in groups),
        )

    def _newest(self) -> str:
        timeline = self.bench.state(self.table).timeline
        return timeline.completed_writes[-1].completed

    def _groups(self) -> tuple[FileGroup, ...]:
        timeline = self.bench.state(self.table).timeline
        return read_layout(self.table.path, timeline).groups


def follow(bench: AmplificationBench, root: Path, lines: Path) -> dict[str, Any]:
    costs: list[CommitCost] = []
    queries: list[QuerySample] = []
    # coprime to `compact_after`, so that tables with each number of logs come up
    samples = {COMMITS * n // SAMPLES - n for n in range(1, SAMPLES + 1)}
    with lines.open("a") as log:
        for number in range(1, COMMITS + 1):
            costs.append(bench.commit(number))
            said = {"rows": bench.rows, **asdict(costs[-1])}
            if number in samples:
                queries.append(bench.query(number, root))
                said["query"] = asdict(queries[-1])
            log.write(json.dumps(said) + "\n")
            log.flush()
    tenth = max(1, len(costs) // 10)
    late = statistics.median(c.seconds for c in costs[-tenth:])
    return {
        "bytes_changed": bench.changed,
        "bytes_rewritten": bench.rewritten,
        "amplification": round(1 + bench.rewritten / bench.changed, 1),
        "compactions": sum(c.compactions for c in costs),
        "log_files_most": max(c.log_files for c in costs),
        "query_ratio_median": statistics.median(q.ratio for q in queries),
        "query_cpu_ratio_median": statistics.median(q.cpu_ratio for q in queries),
        "query_cpu_ratio_most": max(q.cpu_ratio for q in queries),
        "query_ratio_estimated": statistics.median(q.estimated for q in queries),
        "commit_seconds": statistics.median(c.seconds for c in costs),
        "commit_seconds_late": late,
    }


def run(lines: Path) -> dict[str, Any]:
    found: dict[str, Any] = {
        "allowed": AMPLIFICATION,
        "commits": COMMITS,
        "changed_by_commit": CHANGED,
    }
    with started() as (bench, root):
        for rows in map(int, SIZES):
            told = follow(AmplificationBench(bench, rows), root, lines)
            found |= {f"{rows}_{key}": value for key, value in told.items()}
    return found


if __name__ == "__main__":  # stdout belongs to the JVM
    target = Path(sys.argv[1])
    target.write_text(json.dumps(run(target.with_suffix(".jsonl")), indent=2) + "\n")
