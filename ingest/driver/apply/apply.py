"""Applying sealed epochs to a lake table: a range of them, one commit.

Believes seals and the lake's last commit only, so a replay changes nothing. It
must not know how events were captured (`ingest.driver.capture.follower`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from core.errors import InvalidRequest, TerminalError
from ingest.contract.epochs import Seal, SealedFile
from ingest.contract.events import INDEX, OP
from ingest.contract.job import JobSpec
from ingest.contract.table import TableSpec
from ingest.driver.apply.epoch_tracking import (
    EpochTable,
    Reached,
    account_for,
    epochs_to_apply,
)
from ingest.driver.apply.jobrun import JobRun
from ingest.driver.apply.light import is_light, read_light
from ingest.driver.apply.partitions import nameless_partitions
from ingest.driver.apply.recovery import roll_back_writes
from ingest.driver.apply.rows import lake_rows, latest_per_key, read_staged
from ingest.driver.apply.sealed_files import (
    deletion,
    read_sealed,
    refuse_damaged,
    sequence_base,
    sequence_offset,
    unknown_change,
)
from ingest.driver.apply.writer import (
    Batch,
    Span,
    checked_state,
    commit_rows,
    qualified_name,
)
from ingest.lake.commits import Commit, LakeState
from ingest.lake.epochs import epoch_folder
from ingest.lake.hudi.evolution import lacking_columns
from ingest.sources.dialects import dialect_of
from ingest.sources.select import Selection, select_columns

log = logging.getLogger(__name__)


def apply_sealed(
    run: JobRun, spark: SparkSession, *, newest: Seal
) -> tuple[Commit | None, int]:
    """One commit for every sealed epoch of the table that the lake lacks, up to the
    `newest`. (None, 0) when none of them has rows and the lake has every column."""
    spec = run.spec
    state = roll_back_writes(spark, spec, checked_state(spec))
    table = EpochTable(
        spec.lake, newest.source, spec.table.table_id, qualified_name(spec)
    )
    seals = epochs_to_apply(table, _reached(state), newest=newest.epoch)
    if not seals:
        return None, 0
    commit = _commit(run, spark, state, seals)
    _account(run, table, seals, commit)
    return commit, sum(seal.rows_for(spec.table.table_id) for seal in seals)


def _account(
    run: JobRun, table: EpochTable, seals: Sequence[Seal], commit: Commit | None
) -> None:
    """What is committed fails no job: the next apply of the table accounts for it."""
    try:
        account_for(table, seals, commit.instant.asked if commit else "")
    except Exception as error:
        if commit is None:
            raise
        log.warning("epochs of %s wait for their line", table.name, exc_info=error)
        run.warn(
            "the rows are committed; that their epochs are used is recorded by the"
            " next sync"
        )


def _commit(
    run: JobRun, spark: SparkSession, state: LakeState, seals: Sequence[Seal]
) -> Commit | None:
    spec = run.spec
    full = [s for s in seals if s.rows_for(spec.table.table_id)]
    if not full and not lacking(spec, state):
        return None
    span = Span(
        start=seals[0].start,
        end=seals[-1].end,
        epoch_from=seals[0].epoch,
        epoch_to=seals[-1].epoch,
    )
    batch = _light_batch(run, spark, state, full, span)
    batch = batch or _batch(run, spark, full, span)
    run.check()
    commit = commit_rows(spec, batch, state)
    run.add_done(sum(s.rows_for(spec.table.table_id) for s in full))
    return commit


def _light_batch(
    run: JobRun,
    spark: SparkSession,
    state: LakeState,
    seals: Sequence[Seal],
    span: Span,
) -> Batch | None:
    """Rows that need no Spark job, where there are few."""
    table = run.spec.table
    found = [(s, f) for s in seals for f in s.files_for(table.table_id) if f.rows]
    files = [file for _, file in found]
    if not is_light(table, state, files):
        return None
    has_changes = any(file.has_changes for file in files)
    if has_changes:
        refuse_changes(table)
    kind = run.spec.source.kind if run.spec.source else ""
    selection = select_columns(dialect_of(kind), table.columns)
    rows = read_light(run, spark, found, selection)
    if rows is None:
        return None
    # two partitions may lie in one folder: keys are unique where they tell partitions
    return Batch(rows, "upsert", span, unique_keys=has_changes)


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


def _batch(
    run: JobRun, spark: SparkSession, seals: Sequence[Seal], span: Span
) -> Batch:
    spec = run.spec
    table = spec.table
    files = [(s, f) for s in seals for f in s.files_for(table.table_id) if f.rows]
    kind = spec.source.kind if spec.source else ""
    selection = select_columns(dialect_of(kind), table.columns)
    if not files:
        # a commit that brings new columns and no row
        nothing = read_staged(spark, selection, [])
        seq = F.lit(0).cast("bigint")
        return Batch(lake_rows(nothing, table, selection, seq=seq), "upsert", span)
    has_changes = any(file.has_changes for _, file in files)
    if has_changes:
        refuse_changes(table)
    parts = [_rows_of(run, spark, selection, seal, file) for seal, file in files]
    rows = parts[0]
    for part in parts[1:]:
        rows = rows.unionByName(part)
    if has_changes:
        return Batch(latest_per_key(rows, table), "upsert", span, unique_keys=True)
    # one row per key within a file; of those in several Hudi keeps the highest
    # _sluice_seq when it combines the batch
    is_unique = len(files) == 1 and files[0][1].unique_keys
    return Batch(rows, "upsert", span, unique_keys=is_unique)


def _rows_of(
    run: JobRun, spark: SparkSession, selection: Selection, seal: Seal, file: SealedFile
) -> DataFrame:
    spec = run.spec
    refuse_damaged(spark, spec.lake, seal, file)
    place = epoch_folder(spec.lake, seal.source, seal.epoch) / file.path
    rows, unfit = read_sealed(
        spark, place, seal=seal, file=file, table=spec.table, now=selection
    )
    run.note_lossy(unfit)
    run.note_lossy(nameless_partitions(rows, spec.table, selection))
    if file.has_changes:
        _refuse_unknown_changes(spec.table, seal, rows)
    base = F.lit(sequence_base(seal, file)).cast("bigint")
    seq = base + sequence_offset(has_changes=file.has_changes)
    gone = deletion(has_changes=file.has_changes)
    return lake_rows(rows, spec.table, selection, seq=seq, deleted=gone)


def _refuse_unknown_changes(table: TableSpec, seal: Seal, rows: DataFrame) -> None:
    """TerminalError `epoch_unreadable` for changes that would be taken for others."""
    unknown = rows.where(unknown_change())
    if found := unknown.select(OP, INDEX).first():
        raise TerminalError(
            f"epoch {seal.epoch} of {table.database}.{table.name} has a change"
            f" {found[OP]} with the index {found[INDEX]}, which this release does not"
            " know. Nothing was written",
            code="epoch_unreadable",
            hint="apply it with the release that sealed it, or resync the table",
        )


def refuse_changes(table: TableSpec, *, has_partition: bool = False) -> None:
    """InvalidRequest where a delete cannot say which row of the lake is gone.
    has_partition: it says more than the key, the partition at least."""
    why = ""
    if table.row_hash:
        why = "it has no key, its rows are counted"
    elif table.updates == "partial":
        why = "a NULL leaves a column as it was there, and a deleted row comes back"
    elif not has_partition and not set(table.partition_by) <= set(table.key):
        why = "a delete tells its key, and the partition is of other columns"
    if why:
        raise InvalidRequest(
            f"changes cannot be applied to {table.database}.{table.name}: {why}."
            " Nothing was written",
            code="changes_unsupported",
            hint="sync it by a cursor, or plan it with a key that has the partition",
        )


def lacking(spec: JobSpec, state: LakeState) -> tuple[str, ...]:
    """Columns of the spec that no write of ours has brought yet."""
    return lacking_columns(state.written_schema, spec.table.columns)


def missing_columns(spec: JobSpec, state: LakeState) -> tuple[str, ...]:
    """Those of them that are not there at all, in whatever type."""
    return tuple(name for name in lacking(spec, state) if name not in state.columns)
