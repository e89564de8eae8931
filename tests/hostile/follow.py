"""The syncs behind a job, until the source's last change is behind their position."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from ingest.contract import JobReport, TableSpec
from tests.hostile import oracle
from tests.hostile.history import History, lake_state
from tests.hostile.source import SIDES
from tests.spark.lake_bench import LakeBench

# the least that a policy may choose
LAG_SECONDS = 1.0
_SYNCS = 12


@dataclass(slots=True)
class Followed:
    """end: how the last of them ended. violations: of the oracle behind it."""

    end: str = ""
    violations: list[str] = field(default_factory=list)
    warnings: set[str] = field(default_factory=set)


def follow(
    bench: LakeBench, table: TableSpec, report: JobReport, history: History
) -> Followed:
    """`report`: of a snapshot or a sync that succeeded. A refusal that says what is
    wrong with the source is right; so is a lake that equals it."""
    made = Followed(warnings=set(report.warnings))
    low = _position(report)
    settled = SIDES[bench.source.kind].now(bench)
    for _ in range(_SYNCS):
        done = bench.round(table, low, lag=LAG_SECONDS)
        made.end = done.error.code if done.error else done.outcome
        made.warnings.update(done.warnings)
        if done.outcome == "transient":
            continue
        if done.outcome != "succeeded":
            made.violations += oracle.unnamed_failure(done)
            return made
        low = _position(done)
        if low >= settled and not done.facts["more"]:
            source = history.states[-1]
            gone = history.ever() - source.keys()
            made.violations += oracle.difference(lake_state(table), source, gone)
            return made
        time.sleep(0.2)
    made.violations.append(f"the syncs behind it end at {low}, before {settled}")
    return made


def _position(report: JobReport) -> str:
    facts = report.facts
    return str(facts["bound"] if "bound" in facts else facts["position"]["to"])
