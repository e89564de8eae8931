"""An incremental sync: capture closes an epoch, then its table is brought up to it.

The only place where a follower and apply meet; each of them may be replaced.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from ingest.driver.apply.apply import apply_sealed, lacking, missing_columns
from ingest.driver.apply.jobrun import JobRun
from ingest.driver.apply.preconditions import (
    own_seal,
    refuse_gone_back,
    refuse_other_types,
    refuse_unreadable_plan,
    refuse_used_epoch,
    require_loaded,
)
from ingest.driver.apply.writer import checked_state
from ingest.driver.capture.follower import Follower
from ingest.driver.table_services.compaction import plan_within_budget
from ingest.lake.epochs import seals_of


def run_sync(run: JobRun, spark: SparkSession, follower: Follower) -> dict[str, Any]:
    """Kind round: capture → seal → apply → ledger; the facts of the report."""
    run.enter("checking")
    state = checked_state(run.spec)
    require_loaded(run.spec, state)
    epoch, source = follower.epoch, run.spec.source
    seals = seals_of(run.spec.lake, source.datasource_id if source else 0, epoch)
    refuse_gone_back(run.spec, state)
    refuse_other_types(run.spec, state)
    refuse_used_epoch(run.spec, state, epoch, seals)
    refuse_unreadable_plan(run.spec, state)
    sealed = own_seal(run.spec, seals)
    if sealed:
        captured = follower.replay(sealed)
    else:
        captured = follower.capture(missing_columns(run.spec, state))
    seal = captured.seal
    run.enter("applying", total=seal.rows_for(run.spec.table.table_id))
    commit, rows = apply_sealed(run, spark, newest=seal)
    if commit is not None:
        _plan_compaction(run, spark)
    return {
        **captured.facts,
        **run.signs,
        "rows": rows,
        "epoch": seal.epoch,
        "instant": commit.instant.asked if commit else None,
        "completed_at": commit.instant.completed if commit else None,
        "bytes": commit.bytes_written if commit else 0,
        "position": {"from": seal.start, "to": seal.end},
        "has_columns": commit is not None or not lacking(run.spec, state),
        "lossy": dict(run.lossy),
    }


def _plan_compaction(run: JobRun, spark: SparkSession) -> None:
    """The rows are committed: a plan that cannot be made is made by a later job."""
    try:
        plan_within_budget(spark, run.spec)
    except Exception as error:  # noqa: BLE001 - whatever class Hudi or the JVM raises
        run.warn(f"no compaction could be planned after the commit: {error}")
