"""Applying sealed epochs to a lake table: a range of them, one commit.

Believes seals and the lake's last commit only, so a replay changes nothing. It
must not know how events were captured.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from core.errors import InvalidRequest
from ingest.changes.dialects import dialect_of
from ingest.changes.epochs import Seal, seq_of
from ingest.changes.select import Selection, select_columns
from ingest.contract.job import JobSpec
from ingest.hudi.evolution import lacking_columns
from ingest.lake.applying import EpochTable, Reached, apply_epochs
from ingest.lake.commits import Commit, LakeState
from ingest.lake.epochs import epoch_folder, seals_of
from ingest.spark.agreement import (
    own_seal,
    refuse_gone_back,
    refuse_unreadable_plan,
    refuse_used_epoch,
)
from ingest.spark.capture_timestamp import NOTHING_READ, capture_round, round_work
from ingest.spark.compaction import plan_within_budget
from ingest.spark.gate import SourceGate
from ingest.spark.jobrun import JobRun
from ingest.spark.recovery import roll_back_writes
from ingest.spark.rows import lake_rows, read_staged, unfit_counts
from ingest.spark.sources import SourceAccess
from ingest.spark.writer import Batch, Span, checked_state, commit_rows, qualified_name


def run_round(
    run: JobRun, spark: SparkSession, access: SourceAccess, gate: SourceGate
) -> dict[str, Any]:
    """Kind round: capture → seal → apply → ledger; the facts of the report."""
    run.enter("checking")
    state = checked_state(run.spec)
    if not state.timeline.completed_writes:
        raise InvalidRequest(
            f"lake table {qualified_name(run.spec)} has no load yet",
            code="not_loaded",
            hint="load the table first",
        )
    epoch = round_work(run).epoch
    seals = seals_of(run.spec.lake, access.spec.datasource_id, epoch)
    refuse_gone_back(run.spec, state)
    refuse_used_epoch(run.spec, state, epoch, seals)
    refuse_unreadable_plan(run.spec, state)
    if seal := own_seal(run.spec, seals):
        facts = dict(NOTHING_READ)
    else:
        seal, facts = capture_round(run, spark, access, gate)
    run.enter("applying", total=seal.rows_for(run.spec.table.table_id))
    commit, rows = apply_sealed(run, spark, newest=seal)
    if commit is not None:
        _plan_compaction(run, spark)
    return {
        **facts,
        **run.signs,
        "rows": rows,
        "epoch": seal.epoch,
        "instant": commit.instant.asked if commit else None,
        "completed_at": commit.instant.completed if commit else None,
        "bytes": commit.bytes_written if commit else 0,
        "position": {"from": seal.start, "to": seal.end},
        "has_columns": commit is not None or not _lacking(run.spec, state),
        "lossy": dict(run.lossy),
    }


def _plan_compaction(run: JobRun, spark: SparkSession) -> None:
    """The rows are committed: a plan that cannot be made is made by a later job."""
    try:
        plan_within_budget(spark, run.spec)
    except Exception as error:  # noqa: BLE001 - whatever class Hudi or the JVM raises
        run.warn(f"no compaction could be planned after the commit: {error}")


def apply_sealed(
    run: JobRun, spark: SparkSession, *, newest: Seal
) -> tuple[Commit | None, int]:
    """One commit for every sealed epoch of the table that the lake lacks, up to the
    `newest`. (None, 0) when none of them has rows and the lake has every column."""
    spec = run.spec
    state = roll_back_writes(spark, spec, checked_state(spec))
    made: list[Commit] = []

    def write(seals: Sequence[Seal]) -> str:
        if commit := _commit(run, spark, state, seals):
            made.append(commit)
            return commit.instant.asked
        return ""

    table = EpochTable(
        spec.lake, newest.source, spec.table.table_id, qualified_name(spec)
    )
    seals = apply_epochs(table, _reached(state), newest=newest.epoch, write=write)
    rows = sum(seal.rows_for(spec.table.table_id) for seal in seals)
    return next(iter(made), None), rows


def _commit(
    run: JobRun, spark: SparkSession, state: LakeState, seals: Sequence[Seal]
) -> Commit | None:
    spec = run.spec
    full = [s for s in seals if s.rows_for(spec.table.table_id)]
    if not full and not _lacking(spec, state):
        return None
    span = Span(
        start=seals[0].start,
        end=seals[-1].end,
        epoch_from=seals[0].epoch,
        epoch_to=seals[-1].epoch_last,
    )
    rows = _events_of(run, spark, full)
    batch = Batch(rows, "upsert", span, unique_keys=_are_keys_unique(spec, full))
    run.check()
    commit = commit_rows(spec, batch, state)
    run.add_done(sum(s.rows_for(spec.table.table_id) for s in full))
    return commit


def _reached(state: LakeState) -> Reached:
    position = state.position
    if position is None:
        return Reached()
    last = next((c for c in state.commits if c.position == position), None)
    return Reached(
        position.source,
        position.epoch_from,
        position.epoch_to,
        last.instant.asked if last else "",
    )


def _events_of(run: JobRun, spark: SparkSession, seals: Sequence[Seal]) -> DataFrame:
    kind = run.spec.source.kind if run.spec.source else ""
    selection = select_columns(dialect_of(kind), run.spec.table.columns)
    if not seals:
        # a commit that brings new columns and no row
        nothing = read_staged(spark, selection, [])
        return lake_rows(
            nothing, run.spec.table, selection, seq=F.lit(0).cast("bigint")
        )
    parts = [_events(run, spark, selection, seal) for seal in seals]
    rows = parts[0]
    for part in parts[1:]:
        # one row per key within an epoch; across epochs Hudi keeps the highest
        # _sluice_seq when it combines the batch
        rows = rows.unionByName(part)
    return rows


def _lacking(spec: JobSpec, state: LakeState) -> tuple[str, ...]:
    """Columns of the spec that no write of ours has brought yet."""
    schema = next((c.schema for c in state.commits if c.is_write and c.schema), "")
    return lacking_columns(schema, spec.table.columns)


def _are_keys_unique(spec: JobSpec, seals: Sequence[Seal]) -> bool:
    files = [f for s in seals for f in s.files_for(spec.table.table_id)]
    return len(files) == 1 and files[0].unique_keys


def _events(
    run: JobRun, spark: SparkSession, selection: Selection, seal: Seal
) -> DataFrame:
    spec = run.spec
    folder = epoch_folder(spec.lake, seal.source, seal.epoch)
    files = [(folder / f.path).uri for f in seal.files_for(spec.table.table_id)]
    # one file per epoch and table, so ids count from 0 within it
    events = read_staged(spark, selection, files)
    if any(f.unfit for f in seal.files_for(spec.table.table_id)):
        for name, count in unfit_counts(events, selection).items():
            run.lossy[name] = run.lossy.get(name, 0) + count
            run.warn(f"{count} values of {name} have no form in the lake: NULL there")
    # keys are unique in one snapshot, so every event may carry the same index
    seq = F.lit(seq_of(seal.epoch, 1)).cast("bigint")
    return lake_rows(events, spec.table, selection, seq=seq)
