"""Applying what a sync staged to its lake table: one commit.

What writers that are known to be dead left is rolled back first, under a raised fence:
the lock provider keeps the old writer from completing anything. Requested compactions
are plans, and stay. Then job and table have to agree: each refusal is about rows that
would be lost or mixed up silently. What the table has is what its newest commit says,
so rows that come again change nothing. It must not know how rows are captured.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from core.errors import InvalidRequest, SluiceError, TerminalError, TransientError
from core.sentences import AND, Sentence, joined
from ingest.contract.job import JobSpec
from ingest.contract.positions import later, seq_of
from ingest.contract.source_positions import is_of_log
from ingest.contract.table import TableSpec
from ingest.driver.apply.jobrun import JobRun
from ingest.driver.apply.partitions import nameless_partitions
from ingest.driver.apply.rows import lake_rows, read_staged, unfit_counts
from ingest.driver.apply.writer import (
    Batch,
    ParquetFile,
    Span,
    checked_state,
    commit_rows,
    is_light,
    not_loaded,
    parquet_files,
    qualified_name,
    read_light,
    require_identity,
    writer_fence,
)
from ingest.lake.commits import Commit, LakeState, read_lake_table, timeline_at
from ingest.lake.fence import require_fence
from ingest.lake.hudi.evolution import lacking_columns, other_types
from ingest.lake.hudi.identity import identity_for
from ingest.lake.hudi.layout import parse_file
from ingest.lake.hudi.options import service_options
from ingest.lake.hudi.timeline import WRITES, Timeline
from ingest.lake.layout import (
    META,
    list_files,
    read_begun_rollbacks,
    read_compaction_plan,
)
from ingest.lake.place import place_at
from ingest.lake.port import Place
from ingest.sources.dialects import dialect_of
from ingest.sources.select import Selection, select_columns


def recover_table(spark: SparkSession, spec: JobSpec) -> dict[str, Any]:
    """Kind recover: rolls back every write that never completed."""
    require_fence(spec.fence)
    before = read_lake_table(spec.table.path)
    undone = [i.asked for i in before.timeline.pending_writes]
    is_uncommitted = before.exists and not before.timeline.completed_writes
    if is_uncommitted and spec.kind == "snapshot":
        require_identity(spec, before)
        clear_uncommitted_table(spec, before)
    elif not is_uncommitted:
        roll_back_writes(spark, spec, before)
    return {"rolled_back": undone}


def roll_back_writes(spark: SparkSession, spec: JobSpec, state: LakeState) -> LakeState:
    """Rolls pending writes back, newest first; returns the state afterwards."""
    pending = unfinished_writes(spec, state.timeline)
    if not pending:
        return state
    try:
        with write_client(spark, spec) as client:
            for asked in reversed(pending):
                client.rollback(asked)
    except Py4JJavaError:
        timeline = timeline_at(spec.table.path)
        for begun in read_begun_rollbacks(spec.table.path, timeline):
            remove_sign_of_life(spec, begun.instant)
        raise
    after = read_lake_table(spec.table.path)
    left = {*unfinished_writes(spec, after.timeline)} & {*pending}
    require_undone(spec, left, after.timeline)
    return after


def remove_sign_of_life(spec: JobSpec, asked: str) -> None:
    """Of an attempt of ours that has failed. Hudi leaves it there when it could not
    write it whole: the next attempt would be put off by a writer that is nobody."""
    with contextlib.suppress(SluiceError):
        require_fence(spec.fence)
        (place_at(spec.table.path) / META / ".heartbeat" / asked).delete()


def require_undone(spec: JobSpec, left: set[str], timeline: Timeline) -> None:
    """Raises for instants that are there after their rollback."""
    if not left:
        return
    which = ", ".join(sorted(left))
    begun = {r.undoes for r in read_begun_rollbacks(spec.table.path, timeline)}
    if left & begun:
        # it leaves a rollback alone for some seconds after its last sign of life
        raise TransientError(
            "the rollback of %(instants)s of %(table)s was begun by a driver that"
            " is gone, and Hudi does not take it over yet",
            instants=which,
            table=qualified_name(spec),
            code="rollback_begun",
            hint="nothing: it is tried again",
        )
    raise TerminalError(
        "could not roll back %(instants)s of %(table)s",
        instants=which,
        table=qualified_name(spec),
        code="rollback_failed",
        hint="look at the driver's log; readers do not see these instants",
    )


def unfinished_writes(spec: JobSpec, timeline: Timeline) -> list[str]:
    """Oldest first. A write whose rollback was cut off when the write was gone from the
    timeline counts: Hudi completes that rollback when it is asked again."""
    begun = read_begun_rollbacks(spec.table.path, timeline)
    gone = {
        r.undoes for r in begun if r.action in WRITES and not timeline.find(r.undoes)
    }
    return sorted({i.asked for i in timeline.pending_writes} | gone)


def clear_uncommitted_table(spec: JobSpec, state: LakeState) -> LakeState:
    """A table without any completed commit was never visible: its first load
    begins with nothing instead of a rollback of everything.

    TerminalError `timeline_lost` when a file lies there that no unfinished write of
    its timeline made: it is somebody else's table, or ours without its timeline.
    """
    base = place_at(spec.table.path)
    unfinished = {instant.asked for instant in state.timeline.pending_writes}
    for file in list_files(base):
        written = parse_file(file.name)
        is_ours = written.instant in unfinished if written else _is_beside(file.name)
        if not is_ours:
            raise _not_ours(spec, f"{file.partition}/{file.name}".lstrip("/"))
    # files first: without them what is left after a death has no commit still
    for name in base.names():
        if name != META:
            (base / name).delete_all()
    base.delete_all()
    return LakeState(exists=False)


def _is_beside(name: str) -> bool:
    """Checksums, and the file by which Hudi knows a partition."""
    return name.startswith(".") and name.endswith((".crc", "_partition_metadata"))


def _not_ours(spec: JobSpec, name: str) -> TerminalError:
    return TerminalError(
        "the timeline of %(table)s shows no commit, yet %(name)s lies"
        " there which no unfinished load made. Nothing was removed or"
        " written",
        folder=META,
        path=spec.table.path,
        table=qualified_name(spec),
        name=name,
        code="timeline_lost",
        hint="put back the folder %(folder)s of %(path)s, or move what is there"
        " to another place and retry",
    )


def service_session(spark: SparkSession, spec: JobSpec) -> SparkSession:
    """A session of its own whose conf carries the lock, fence and position keys;
    procedures take them from nowhere else."""
    session = spark.newSession()
    options = service_options(
        identity_for(spec.table), name=spec.table.name, fence=writer_fence(spec)
    )
    for key, value in options.items():
        session.conf.set(key, value)
    return session


@contextmanager
def write_client(
    spark: SparkSession, spec: JobSpec, more: Mapping[str, str] | None = None
) -> Iterator[Any]:
    """Hudi's Java write client for table services. `more`: options beside the usual
    ones."""
    options = service_options(
        identity_for(spec.table), name=spec.table.name, fence=writer_fence(spec)
    )
    jvm: Any = spark._jvm
    client = jvm.io.sluice.lake.Services.client(
        spark.sparkContext._jsc,
        place_at(spec.table.path).uri,
        spec.table.name,
        json.dumps(options | dict(more or {})),
        bool(spec.table.partition_by),
    )
    try:
        yield client
    finally:
        client.close()


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
            "%(found)s rows are staged for %(table)s, and %(rows)s were read."
            " Nothing was written",
            found=found,
            table=qualified_name(spec),
            rows=staged.rows,
            code="rows_miscounted",
            hint="it is tried again, and reads them again",
        )
    return files


def refuse_changes(table: TableSpec) -> None:
    """InvalidRequest where a delete cannot say which row of the lake is gone."""
    why: str = ""
    if table.row_hash:
        why = Sentence("it has no key, its rows are counted")
    elif table.updates == "partial":
        why = Sentence(
            "a NULL leaves a column as it was there, and a deleted row comes back"
        )
    if why:
        raise InvalidRequest(
            "changes cannot be applied to %(table)s: %(why)s. Nothing was written",
            table=f"{table.database}.{table.name}",
            why=why,
            code="changes_unsupported",
            hint="sync it by a cursor",
        )


def lacking(spec: JobSpec, state: LakeState) -> tuple[str, ...]:
    """Columns of the spec that no write of ours has brought yet."""
    return lacking_columns(state.written_schema, spec.table.columns)


def missing_columns(spec: JobSpec, state: LakeState) -> tuple[str, ...]:
    """Those of them that are not there at all, in whatever type."""
    return tuple(name for name in lacking(spec, state) if name not in state.columns)


def require_loaded(spec: JobSpec, state: LakeState) -> None:
    """Changes belong behind a load, and to begin a table with them would hide that the
    rows before them are missing."""
    if state.timeline.completed_writes:
        return
    if behind := spec.sync.behind if spec.sync else 0:
        raise TerminalError(
            "the files of %(table)s are gone from the lake, where it was at"
            " epoch %(behind)s, and Sluice did not remove them. Nothing was read",
            table=qualified_name(spec),
            behind=behind,
            code="files_gone",
            hint="put them back, or resync the table: the source has its rows",
        )
    raise not_loaded(spec)


def refuse_gone_back(spec: JobSpec, state: LakeState) -> None:
    """A sync that began behind commits which are gone would leave out their rows.
    Epochs say so: instants do not, a compaction of older rows has a newer one."""
    behind, reached = spec.sync.behind if spec.sync else 0, reached_by(spec, state)
    if behind > reached:
        raise TerminalError(
            "%(table)s was at epoch %(behind)s and is at epoch %(reached)s"
            " now: it went back, and no restore is known. Nothing was read",
            table=qualified_name(spec),
            behind=behind,
            reached=reached,
            code="lake_went_back",
            hint="its capture goes on from there with the next sync; resync the table"
            " if it does not",
        )


def reached_by(spec: JobSpec, state: LakeState) -> int:
    """The last epoch of the job's source in the table; 0 = none of it."""
    source, position = spec.source.datasource_id if spec.source else 0, state.position
    return position.epoch_to if position and position.source == source else 0


def position_of(spec: JobSpec, state: LakeState) -> str | None:
    """Where a sync goes on: where the lake is, or further, behind syncs that found
    nothing. Services that do not know its newest commit know nothing behind that, their
    last report was lost, or the database is from a backup. None = all is read.

    A commit by the log that the table followed, or was to follow, says nothing of the
    cursor: rows behind the known position are written once more."""
    known = spec.sync.low if spec.sync else None
    if not known or state.position is None or not reached_by(spec, state):
        return known
    if is_of_log(state.position.end):
        return known
    if _is_unreported(spec, state):
        return state.position.end or known
    return later(known, state.position.end)


def unreported_commit(spec: JobSpec, state: LakeState) -> Commit | None:
    """The table's newest commit, when the services do not know it."""
    return state.newest_write if _is_unreported(spec, state) else None


def _is_unreported(spec: JobSpec, state: LakeState) -> bool:
    """By its epoch, or as one that has the epoch of a commit which a restore took."""
    work, reached, newest = spec.sync, reached_by(spec, state), state.newest_write
    if work is None or not 0 < work.behind <= reached:
        return False
    known = newest.instant.asked if newest and work.instant else work.instant
    return work.behind < reached or known != work.instant


def refuse_other_types(spec: JobSpec, state: LakeState) -> None:
    """After a re-sync that was to bring other types and was cancelled, or a restore of
    a moment before it: Hudi would read older rows as what they are not."""
    columns = (*spec.table.columns, *spec.table.kept)
    found = other_types(state.written_schema, columns)
    if not found:
        return
    wanted = {c.name: c.type for c in columns}
    said = joined(
        (
            Sentence(
                "%(column)s is %(type)s, not %(planned)s",
                column=name,
                type=kind,
                planned=wanted[name],
            )
            for name, kind in found.items()
        ),
        AND,
    )
    raise TerminalError(
        "the lake table %(table)s has its columns in other types than the"
        " plan: %(types)s. Nothing was read",
        table=qualified_name(spec),
        types=said,
        code="lake_types_differ",
        hint="resync the table: readers keep the present copy until then",
    )


def refuse_unreadable_plan(spec: JobSpec, state: LakeState) -> None:
    """Hudi would find it only half way through a write, and leave one to roll back."""
    for plan in state.timeline.pending_compactions:
        if not read_compaction_plan(spec.table.path, plan.asked).is_readable:
            # not terminal: once it is repaired, the next sync goes on
            raise TransientError(
                "the request of planned compaction %(asked)s of %(table)s is gone"
                " or damaged: the table can neither be read nor written. Nothing"
                " was read",
                asked=plan.asked,
                table=qualified_name(spec),
                code="plan_unreadable",
                hint="unschedule it: the table's health page offers that",
            )
