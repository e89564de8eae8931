"""The syncs behind a job, until the source's last change is behind their position."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ingest.contract.job import JobReport, JobSpec
from ingest.contract.table import TableSpec
from tests.hostile import oracle
from tests.hostile.history import History, lake_state
from tests.hostile.source import SIDES
from tests.spark.lake_bench import LakeBench

# the least that a policy may choose
LAG_SECONDS = 1.0
_SYNCS = 12
_ADVICE = "verify the table"
_WRITES_NOTHING = "clock_ahead"


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
    is_moved: bool = False,
) -> Followed:
    """`report`: of a snapshot or a sync that succeeded. A refusal that says what is
    wrong with the source is right; so is a lake that equals it but for keys of which
    it says that no sync brings them (`lacks`). `is_moved`: another server or moment
    took its place, or its clock jumped; where that is told, a verification may find the
    difference."""
    made = Followed(warnings=set(report.warnings))
    low = _position(report)
    source_fingerprint = report.facts.get("source_fingerprint", {})
    settled = SIDES[bench.source.kind].now(bench)
    # a sync before that would have to be followed by another one
    time.sleep(LAG_SECONDS)
    for _ in range(_SYNCS):
        done = bench.run(sync_of(bench, table, low, source_fingerprint))
        made.end = done.error.code if done.error else done.outcome
        made.warnings.update(done.warnings)
        if is_moved and made.end == _WRITES_NOTHING:
            return made
        if done.outcome == "transient":
            continue
        if done.outcome != "succeeded":
            made.violations += oracle.unnamed_failure(done)
            return made
        low, source_fingerprint = _position(done), done.facts["source_fingerprint"]
        if low >= settled and not done.facts["more"]:
            last = history.states[-1]
            source = {key: rows for key, rows in last.items() if key[0] not in lacks}
            gone = history.ever() - source.keys()
            lake = lake_state(table)
            found = oracle.difference(lake, source, gone)
            if found and is_moved and any(_ADVICE in w for w in made.warnings):
                found = oracle.damage(lake, history.states)
                found += _undetected(bench, table)
            made.violations += found
            return made
        time.sleep(0.2)
    made.violations.append(f"the syncs behind it end at {low}, before {settled}")
    return made


def _undetected(bench: LakeBench, table: TableSpec) -> list[str]:
    verified = bench.verify(table)
    if verified.facts.get("verdict") == "different":
        return []
    return [f"the verification that it advises does not find it: {verified}"]


def sync_of(
    bench: LakeBench, table: TableSpec, low: str, source_fingerprint: Mapping[str, Any]
) -> JobSpec:
    """signs: what the job before remembers of the source."""
    spec = bench.sync_spec(table, low, lag=LAG_SECONDS)
    assert spec.sync is not None
    return replace(
        spec, sync=replace(spec.sync, source_fingerprint=dict(source_fingerprint))
    )


def _position(report: JobReport) -> str:
    facts = report.facts
    return str(facts["bound"] if "bound" in facts else facts["position"]["to"])
