"""Applying what a sync staged to its lake table: one commit.

What the table has is what its newest commit says, so rows that come again change
nothing. It must not know how rows are captured.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from core.errors import InvalidRequest, TransientError
from ingest.contract.epochs import seq_of
from ingest.contract.job import JobSpec
from ingest.contract.table import TableSpec
from ingest.driver.apply.jobrun import JobRun
from ingest.driver.apply.light import is_light, read_light
from ingest.driver.apply.partitions import nameless_partitions
from ingest.driver.apply.recovery import roll_back_writes
from ingest.driver.apply.rows import lake_rows, read_staged, unfit_counts
from ingest.driver.apply.staged_files import ParquetFile, parquet_files
from ingest.driver.apply.writer import (
    Batch,
    Span,
    checked_state,
    commit_rows,
    qualified_name,
)
from ingest.lake.commits import Commit, LakeState
from ingest.lake.hudi.evolution import lacking_columns
from ingest.lake.port import Place
from ingest.sources.dialects import dialect_of
from ingest.sources.select import Selection, select_columns


@dataclass(frozen=True, slots=True)
class StagedRows:
    """Rows as the source has them now, by the columns of the job's plan, each key once.

    folder       of their Parquet files; nothing is there when there are no rows
    start, end   source positions between which they changed
    unfit        rows with a value that has no form in the lake
    unique_keys  the source guarantees that no key occurs twice
    """

    folder: Place
    start: str
    end: str
    rows: int = 0
    unfit: int = 0
    unique_keys: bool = False


def apply_staged(run: JobRun, spark: SparkSession, staged: StagedRows) -> Commit | None:
    """None when there are no rows and the lake has every column."""
    spec = run.spec
    state = roll_back_writes(spark, spec, checked_state(spec))
    if not staged.rows and not lacking(spec, state):
        return None
    epoch = next_epoch(state)
    span = Span(staged.start, staged.end, epoch, epoch)
    selection = select_columns(
        dialect_of(spec.source.kind if spec.source else ""), spec.table.columns
    )
    batch = _light_batch(run, spark, state, staged, span, selection)
    batch = batch or _batch(run, spark, staged, span, selection)
    run.check()
    commit = commit_rows(spec, batch, state)
    run.add_done(staged.rows)
    return commit


def next_epoch(state: LakeState) -> int:
    """The number of the next write of a table that follows no stream."""
    return state.position.epoch_to + 1 if state.position else 1


def _light_batch(
    run: JobRun,
    spark: SparkSession,
    state: LakeState,
    staged: StagedRows,
    span: Span,
    selection: Selection,
) -> Batch | None:
    """Rows that need no Spark job, where there are few."""
    if not is_light(run.spec.table, state, staged.rows):
        return None
    files = _counted(spark, run.spec, staged)
    seq = seq_of(span.epoch_to, 1)
    rows = read_light(run, spark, files, selection, seq=seq)
    # two partitions may lie in one folder: keys are unique where they tell partitions
    return None if rows is None else Batch(rows, "upsert", span)


def _batch(
    run: JobRun,
    spark: SparkSession,
    staged: StagedRows,
    span: Span,
    selection: Selection,
) -> Batch:
    table = run.spec.table
    folders = []
    if staged.rows:
        _counted(spark, run.spec, staged)
        folders = [staged.folder.uri]
    rows = read_staged(spark, selection, folders)
    if staged.unfit:
        run.note_lossy(unfit_counts(rows, selection))
    if staged.rows:
        run.note_lossy(nameless_partitions(rows, table, selection))
    # keys are unique in one snapshot, so all of its rows may carry the same index
    seq = F.lit(seq_of(span.epoch_to, 1)).cast("bigint")
    rows = lake_rows(rows, table, selection, seq=seq)
    return Batch(rows, "upsert", span, unique_keys=staged.unique_keys)


def _counted(
    spark: SparkSession, spec: JobSpec, staged: StagedRows
) -> list[ParquetFile]:
    """The files. TransientError `rows_miscounted` unless they have as many rows as were
    read: a driver that was taken for dead may have deleted some."""
    files = parquet_files(spark, staged.folder)
    found = sum(file.rows for file in files)
    if found != staged.rows:
        raise TransientError(
            f"{found} rows are staged for {qualified_name(spec)}, and {staged.rows}"
            " were read. Nothing was written",
            code="rows_miscounted",
            hint="it is tried again, and reads them again",
        )
    return files


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
