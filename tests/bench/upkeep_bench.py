"""500 commits of one table whose policy keeps it: do queries, commits, files and the
timeline stay as they were? Syncs and compactions run as the product runs them.

Queries are held against a copy that was just compacted (A B B A). Run alone:
`python -m tests.bench.upkeep_bench FILE`; every commit is a line of FILE.jsonl.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ingest.lake.layout import read_layout
from ingest.maintenance.facts import read_facts
from ingest.maintenance.plan import plan_maintenance
from ingest.pipelines.policies.maintenance import MaintenancePolicy
from tests.bench.ingest_bench import CREATE, FILL, started
from tests.bench.queries import compare_to_compacted, cpu_seconds
from tests.spark.lake_bench import LakeBench, assert_done

ROWS = int(os.environ.get("SLUICE_BENCH_UPKEEP_ROWS", "150000"))
COMMITS = int(os.environ.get("SLUICE_BENCH_COMMITS", "500"))
# how long a query may take for which cleaning keeps files: the run must be longer
KEEP_SECONDS = float(os.environ.get("SLUICE_BENCH_KEEP_SECONDS", "300"))
CHANGED = 2_000
BUCKETS = 4
# coprime to the commits between two compactions: every number of logs comes up
SAMPLE_EVERY = 23
LOOK_EVERY = 5
QUERY_PAIRS = 6
POLICIES = {"default": MaintenancePolicy(), "rare": MaintenancePolicy(compact_after=25)}


@dataclass(frozen=True, slots=True)
class CommitCost:
    """One sync. beside: a compaction ran at the same time."""

    number: int
    seconds: float
    cpu_seconds: float
    beside: bool


@dataclass(frozen=True, slots=True)
class Sample:
    """What the table is after a commit; ratio of its query to the compacted copy's, by
    the clock and by processor time, which says more where others work, too."""

    number: int
    ratio: float
    cpu_ratio: float
    query_seconds: float
    log_files: int
    log_bytes: int
    base_bytes: int


@dataclass(frozen=True, slots=True)
class Extent:
    """What lies on disk after a commit; `meta_files` below the table's .hoodie."""

    number: int
    data_files: int
    data_bytes: int
    meta_files: int
    instants: int
    lake_files: int


class UpkeepBench:
    """One table; `commit` is a sync, followed by what its policy asks for."""

    def __init__(self, bench: LakeBench, name: str, policy: MaintenancePolicy) -> None:
        self.bench = bench
        self.policy = policy
        bench.sql(CREATE.format(name=name))
        bench.sql(FILL.format(name=name, rows=ROWS))
        bench.sql(f"CREATE INDEX ON {name} (at)")
        bench.sql(f"VACUUM ANALYZE {name}")
        self.name = name
        self.table = bench.table(
            name, buckets=BUCKETS, estimated_rows=ROWS, cursor="at"
        )
        self.low = assert_done(bench.load(self.table)).facts["bound"]
        self.number = 0
        self.compactions = 0
        self._service: threading.Thread | None = None
        self._failed: list[str] = []

    def commit(self) -> CommitCost:
        self.number += 1
        first = (self.number * 7919) % ROWS
        self.bench.sql(
            f"UPDATE {self.name} SET note = md5(note), at = clock_timestamp()"
            f" WHERE (id + {first}) % {ROWS} < {CHANGED}"
        )
        beside = self._service is not None
        before, cpu = time.monotonic(), cpu_seconds()
        report = self.bench.sync(
            self.table, self.low, compact_after=self.policy.compact_after
        )
        cost = CommitCost(
            self.number,
            round(time.monotonic() - before, 3),
            round(cpu_seconds() - cpu, 3),
            beside,
        )
        facts = assert_done(report).facts
        self.low = facts["position"]["to"]
        self.settle()
        self._keep(facts["pending_compactions"])
        return cost

    def settle(self) -> None:
        """Wait for the compaction that runs."""
        if self._service is not None:
            self._service.join()
            self._service = None
        assert not self._failed, self._failed

    def _keep(self, pending: Sequence[str]) -> None:
        """As the host does: what is planned is executed beside the next sync, what
        the policy asks for now and then is planned."""
        if not pending and self.number % LOOK_EVERY == 0:
            now = datetime.now(UTC)
            timeline = self.bench.state(self.table).timeline
            layout = read_layout(self.table.path, timeline)
            facts = read_facts(timeline, layout, now=now)
            steps = plan_maintenance(facts, self.policy, now)
            if not any(step.name == "schedule" for step in steps):
                return
        elif not pending:
            return
        self.compactions += 1
        self._service = threading.Thread(target=self._compact, args=[pending])
        self._service.start()

    def _compact(self, pending: Sequence[str]) -> None:
        report = self.bench.compact(self.table, *pending, keep_seconds=KEEP_SECONDS)
        if report.outcome != "succeeded":
            self._failed.append(str(report))

    def sample(self, root: Path) -> Sample:
        """Its query against the one of a copy that was compacted for it."""
        self.settle()
        timeline = self.bench.state(self.table).timeline
        layout = read_layout(self.table.path, timeline)
        compared = compare_to_compacted(
            self.bench, self.table, rows=ROWS, pairs=QUERY_PAIRS, root=root
        )
        return Sample(
            self.number,
            round(compared.ratio, 3),
            round(compared.cpu_ratio, 3),
            round(compared.ours.seconds, 3),
            log_files=sum(g.log_files for g in layout.groups),
            log_bytes=sum(g.log_bytes for g in layout.groups),
            base_bytes=sum(g.base_bytes for g in layout.groups),
        )

    def extent(self) -> Extent:
        base = Path(self.table.path)
        meta = base / ".hoodie"
        files = [p for p in base.rglob("*") if p.is_file() and p.suffix != ".crc"]
        data = [p for p in files if meta not in p.parents]
        return Extent(
            self.number,
            len(data),
            sum(p.stat().st_size for p in data),
            len(files) - len(data),
            len(self.bench.state(self.table).timeline.instants),
            sum(1 for p in Path(self.bench.lake).rglob("*") if p.is_file()),
        )


def follow(
    bench: UpkeepBench, root: Path, lines: Path
) -> tuple[list[CommitCost], list[Sample], list[Extent]]:
    costs: list[CommitCost] = []
    samples: list[Sample] = []
    extents: list[Extent] = []
    with lines.open("a") as log:
        for number in range(1, COMMITS + 1):
            costs.append(bench.commit())
            extents.append(bench.extent())
            said = {**asdict(extents[-1]), **asdict(costs[-1])}
            if number % SAMPLE_EVERY == 0:
                samples.append(bench.sample(root))
                said["query"] = asdict(samples[-1])
            log.write(json.dumps({"policy": bench.name, **said}) + "\n")
            log.flush()
    bench.settle()
    return costs, samples, extents


def figures(
    bench: UpkeepBench,
    costs: Sequence[CommitCost],
    samples: Sequence[Sample],
    extents: Sequence[Extent],
) -> dict[str, Any]:
    """Early and late are tenths of the run: commits 51-100 and 451-500 of 500."""
    tenth = max(1, len(costs) // 10)
    early, late = costs[tenth : 2 * tenth], costs[-tenth:]
    half = extents[len(extents) // 2 :]

    def median(some: Sequence[CommitCost], what: str) -> float:
        return float(statistics.median(getattr(c, what) for c in some))

    found: dict[str, Any] = {
        "commits": len(costs),
        "compactions": bench.compactions,
        "query_ratio_median": statistics.median(s.ratio for s in samples),
        "query_ratio_most": max(s.ratio for s in samples),
        "query_cpu_ratio_median": statistics.median(s.cpu_ratio for s in samples),
        "query_cpu_ratio_most": max(s.cpu_ratio for s in samples),
        "query_ratio_goal": 2.0,
        "commit_seconds_early": median(early, "seconds"),
        "commit_seconds_late": median(late, "seconds"),
        "commit_growth": median(late, "seconds") / median(early, "seconds"),
        "commit_growth_goal": 1.3,
        "commit_cpu_growth": median(late, "cpu_seconds") / median(early, "cpu_seconds"),
    }
    for what in ("data_files", "data_bytes", "meta_files", "instants", "lake_files"):
        values = [getattr(e, what) for e in extents]
        later = [getattr(e, what) for e in half]
        found[f"{what}_most"] = max(values)
        found[f"{what}_most_of_second_half"] = max(later)
        found[f"{what}_last"] = values[-1]
    return found


def run(lines: Path) -> dict[str, Any]:
    found: dict[str, Any] = {
        "rows": ROWS,
        "changed_by_commit": CHANGED,
        "keep_seconds": KEEP_SECONDS,
    }
    wanted = os.environ.get("SLUICE_BENCH_POLICIES", " ".join(POLICIES)).split()
    with started() as (bench, root):
        for name in wanted:
            upkeep = UpkeepBench(bench, f"kept_{name}", POLICIES[name])
            told = figures(upkeep, *follow(upkeep, root, lines))
            found |= {f"{name}_{key}": value for key, value in told.items()}
    return found


if __name__ == "__main__":  # stdout belongs to the JVM
    target = Path(sys.argv[1])
    target.write_text(json.dumps(run(target.with_suffix(".jsonl")), indent=2) + "\n")
