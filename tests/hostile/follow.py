"""The syncs behind a job, until the source's last change is behind their position."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ingest.contract import JobReport, JobSpec, TableSpec
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
    bench: LakeBench,
    table: TableSpec,
    report: JobReport,
    history: History,
    *,
    lacks: Collection[str] = (),
) -> Followed:
    """`report`: of a snapshot or a sync that succeeded. A refusal that says what is
    wrong with the source is right; so is a lake that equals it but for keys of which
    it says that no sync brings them (`lacks`)."""
    made = Followed(warnings=set(report.warnings))
    low = _position(report)
    signs = report.facts.get("signs", {})
    settled = SIDES[bench.source.kind].now(bench)
    # a sync before that would have to be followed by another one
    time.sleep(LAG_SECONDS)
    for _ in range(_SYNCS):
        done = bench.run(sync_of(bench, table, low, signs))
        made.end = done.error.code if done.error else done.outcome
        made.warnings.update(done.warnings)
        if done.outcome == "transient":
            continue
        if done.outcome != "succeeded":
            made.violations += oracle.unnamed_failure(done)
            return made
        low, signs = _position(done), done.facts["signs"]
        if low >= settled and not done.facts["more"]:
            last = history.states[-1]
            source = {key: rows for key, rows in last.items() if key[0] not in lacks}
            gone = history.ever() - source.keys()
            made.violations += oracle.difference(lake_state(table), source, gone)
            return made
        time.sleep(0.2)
    made.violations.append(f"the syncs behind it end at {low}, before {settled}")
    return made


def sync_of(
    bench: LakeBench, table: TableSpec, low: str, signs: Mapping[str, Any]
) -> JobSpec:
    """signs: what the job before remembers of the source."""
    spec = bench.round_spec(table, low, lag=LAG_SECONDS)
    assert spec.round is not None
    return replace(spec, round=replace(spec.round, signs=dict(signs)))


def _position(report: JobReport) -> str:
    facts = report.facts
    return str(facts["bound"] if "bound" in facts else facts["position"]["to"])
