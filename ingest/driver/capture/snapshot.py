"""Loading a table: chunks under an exported snapshot, kept aside, then one commit.

Nothing is visible before the one commit. It must not know where chunks wait for it
(`kept_chunks`), nor how Hudi is configured.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from core.errors import InvalidRequest, TerminalError
from core.sentences import Sentence
from ingest.contract.job import JobSpec, SnapshotWork
from ingest.contract.members import encode
from ingest.contract.positions import seq_of, to_text
from ingest.contract.source_positions import is_of_log
from ingest.driver.apply.apply import (
    clear_uncommitted_table,
    next_epoch,
    roll_back_writes,
)
from ingest.driver.apply.clocks import wall
from ingest.driver.apply.future import remove_future
from ingest.driver.apply.jobrun import JobRun
from ingest.driver.apply.partitions import (
    nameless_partitions,
    refuse_long_partitions,
    refuse_many_partitions,
)
from ingest.driver.apply.rows import duplicate_keys, lake_rows, unfit_counts
from ingest.driver.apply.undoing import unschedule_all
from ingest.driver.apply.writer import (
    Batch,
    Span,
    checked_state,
    commit_of,
    commit_rows,
    qualified_name,
)
from ingest.driver.capture.chunking import Cut, chunk_rows_of_load, is_short
from ingest.driver.capture.gate import SourceGate
from ingest.driver.capture.kept_chunks import (
    BucketedChunks,
    KeptChunks,
    StagedChunks,
    can_be_bucketed,
)
from ingest.driver.capture.keys import null_keys, refuse_shared_texts
from ingest.driver.capture.log_load import (
    behind_of,
    log_of,
    refuse_passed,
    take_moment,
    wait_for_cut,
)
from ingest.driver.capture.parallel import run_parallel
from ingest.driver.capture.reading import (
    Reading,
    Trial,
    open_stoppable,
    read_bound,
    read_patiently,
)
from ingest.driver.capture.source_check import refuse_doubtful_emptiness
from ingest.driver.capture.source_tables import SourceTable, cut_all, look_at
from ingest.lake.commits import Commit, LakeState
from ingest.lake.hudi.evolution import lacking_columns
from ingest.lake.hudi.options import LoadPoint
from ingest.lake.staging import (
    ChunkManifest,
    Differences,
    LoadPlan,
    StagingArea,
    require_space,
    why_anew,
)
from ingest.sources.chunks import Chunk
from ingest.sources.dialects import dialect_of
from ingest.sources.fingerprint import SourceFingerprint, to_data
from ingest.sources.port import Source, SourceAccess
from ingest.sources.select import Selection, select_columns
from ingest.sources.statements import has_zone, rows_behind

# Events around the start of a load are read again by the first sync; more is
# harmless, less could miss rows of transactions that were open.
_BOUND_LAG_SECONDS = 60.0
_BYTES_PER_VALUE = 8
REPEATED = (
    "%(repeated)s keys of %(table)s occur more than once in %(key)s. Nothing was loaded"
)
IN_UNICODE = (
    "%(repeated)s keys of %(table)s occur more than once in %(key)s in Unicode, other"
    " than at the source. Nothing was loaded"
)


@dataclass(frozen=True, slots=True)
class _Read:
    """All rows of a load, before its commit."""

    plan: LoadPlan
    tables: tuple[SourceTable, ...]
    chunks: KeptChunks


@dataclass(frozen=True, slots=True)
class _Load:
    """What the steps of one attempt share."""

    run: JobRun
    spark: SparkSession
    access: SourceAccess
    gate: SourceGate
    staging: StagingArea
    selection: Selection
    # SQL for the rows that are read; "" = all
    behind: str = ""


def load_table(
    run: JobRun, spark: SparkSession, access: SourceAccess, gate: SourceGate
) -> dict[str, Any]:
    """Kinds snapshot and resync; returns the facts of the report."""
    spec = run.spec
    run.enter("checking")
    # a re-sync replaces everything, what is of the future, too
    state = checked_state(spec, adds=not _replaces(spec))
    done = _committed(spec, state)
    if done is None:
        _number(run, state)
        state = _cleared(run, spark, state)
        load = _Load(
            run,
            spark,
            access,
            gate,
            StagingArea(spec.table.staging),
            select_columns(dialect_of(access.spec.kind), spec.table.columns),
            _behind(spec, state),
        )
        read = _read(load)
        with closing(read.chunks):
            if state.pending_compactions and not load.behind:
                # they speak of file groups that are replaced, and cleaned away then
                unschedule_all(run, spark)
            run.enter("committing", unit="commits")
            done = _commit(load, state, read)
        return _end(run, done, read.chunks.finished())
    return _end(run, done, StagingArea(spec.table.staging).finished())


def _replaces(spec: JobSpec) -> bool:
    return spec.kind == "resync" and not behind_of(spec)


def _behind(spec: JobSpec, state: LakeState) -> str:
    """Rows that the lake may not have yet, of a table whose syncs end with this."""
    cursor = behind_of(spec)
    if not cursor:
        return ""
    position = state.position.end if state.position else ""
    if is_of_log(position) and spec.snapshot:
        # it followed its log before, or was to, and no sync wrote a row since
        position = spec.snapshot.position
    if not position:
        raise TerminalError(
            "where %(table)s is at its source is not known. Nothing was read",
            table=qualified_name(spec),
            code="not_loaded",
            hint="resync the table",
        )
    table = replace(spec.table, cursor=cursor)
    dialect = dialect_of(spec.source.kind if spec.source else "")
    return rows_behind(dialect, table, position)


def _number(run: JobRun, state: LakeState) -> None:
    log = log_of(run)
    if log is None:
        run.number(next_epoch(state))
        return
    run.number(wait_for_cut(run, log))
    refuse_passed(run.spec, state)


def committed_load(run: JobRun) -> dict[str, Any] | None:
    """The facts of the report when the load is in the lake; None when it is not."""
    state = checked_state(run.spec, adds=False)
    done = _committed(run.spec, state)
    finished = StagingArea(run.spec.table.staging).finished()
    return _end(run, done, finished) if done else None


def _committed(spec: JobSpec, state: LakeState) -> Commit | None:
    """This load's commit. A load that ended behind its commit may go on as another job,
    which knows it by the load's name; no other job writes in between."""
    own, position = commit_of(spec), state.position
    if own or position is None or not position.load_name:
        return own
    if position.load_name != _name_of(spec):
        return None
    return next((c for c in state.commits if c.position == position), None)


def _name_of(spec: JobSpec) -> str:
    work = spec.snapshot or SnapshotWork()
    return work.log.load if work.log else work.load


def _end(
    run: JobRun, done: Commit, chunks: Mapping[int, ChunkManifest]
) -> dict[str, Any]:
    """What follows the commit; as often as it takes."""
    report = _facts(run.spec, [*chunks.values()], done)
    report |= {"lossy": dict(run.lossy), **run.source_fingerprint}
    if _replaces(run.spec):
        remove_future(run, done)
    # what a verification found of the rows of before is void
    Differences(run.spec.table.staging).clear()
    StagingArea(run.spec.table.staging).clear()
    return report


def _cleared(run: JobRun, spark: SparkSession, state: LakeState) -> LakeState:
    """Refuses to load twice, removes uncommitted files of attempts that died."""
    spec = run.spec
    if spec.kind == "snapshot" and state.timeline.completed_writes:
        raise TerminalError(
            "lake table %(table)s has data already: a second load would"
            " duplicate it. Nothing was written",
            table=qualified_name(spec),
            code="lake_table_exists",
            hint="move the folder away, or choose another name",
        )
    if state.exists and not state.timeline.completed_writes:
        return clear_uncommitted_table(spec, state)
    return roll_back_writes(spark, spec, state)


def _read(load: _Load) -> _Read:
    with open_stoppable(load.run, load.access) as (source, access):
        load = replace(load, access=access)
        return read_patiently(
            load.run,
            source,
            lambda trial: _read_all(load, source, trial),
            drop=load.staging.clear,
        )


def _read_all(load: _Load, source: Source, trial: Trial) -> _Read:
    load.run.enter("planning")
    tables = look_at(load.run, source, was_wide=trial.was_wide)
    read = _plan(load, source, tables, definition=trial.definition)
    _refuse_shared_texts(load, source, read)
    with ExitStack() as unless_all_is_read:
        unless_all_is_read.callback(read.chunks.close)
        _read_chunks(load, source, read)
        _refuse_null_keys(load, source, read)
        if not _rows_of(read.chunks) and not load.behind:
            for one in tables:
                refuse_doubtful_emptiness(load.spark, load.run, source, one.table)
        if log_of(load.run) and not read.plan.snapshot:
            plan = replace(read.plan, bound=source.here())
            read = replace(read, plan=plan)
        unless_all_is_read.pop_all()
    return read


def _refuse_null_keys(load: _Load, source: Source, read: _Read) -> None:
    shards = {chunk.number: chunk.shard for chunk in read.plan.chunks}
    nulls = Counter[int]()
    for manifest in read.chunks.finished().values():
        nulls[shards[manifest.number]] += manifest.null_keys
    for shard, count in sorted(nulls.items()):
        if count:
            # once they are mended at the source, they have to be read again
            load.staging.clear()
            raise null_keys(source, read.tables[shard].table, count)


def _plan(
    load: _Load, source: Source, tables: tuple[SourceTable, ...], *, definition: str
) -> _Read:
    """Of the first attempt, with what that has staged; or a new one, with nothing."""
    spec = load.run.spec
    work = spec.snapshot or SnapshotWork()
    staged = StagedChunks(load.run, load.spark, load.staging)
    old = load.staging.plan()
    fingerprint = _fingerprint(spec)
    server = source.source_fingerprint(tables[0].table)
    if old is not None and old.fingerprint == fingerprint:
        why = why_anew(old, definition, server, wall())
        if not why and old.snapshot and not load.staging.is_complete(old):
            why = Sentence(
                "the snapshot in which its rows are read is gone: the load started"
                " again"
            )
        if not why:
            return _Read(old, tables, staged)
        load.run.warn(why)
    require_space(spec.table.staging, _space_needed(spec))
    if work.log:
        moment = take_moment(load.run, source)
        # deletes that it shows are not in the lake: all behind the cut is applied
        bound, snapshot = moment.at, "" if load.behind else moment.snapshot
    else:
        bound, snapshot = _bound(load.run, source), ""
    cut = _cut(load, source, tables)
    is_unique = all(one.facts is not None and one.facts.is_unique for one in tables)
    source_fingerprint = to_data(SourceFingerprint(server=server, is_unique=is_unique))
    plan = LoadPlan(
        fingerprint, cut.by, cut.chunks, definition, bound, source_fingerprint, snapshot
    )
    is_small = not load.behind and is_short(len(plan.chunks), load.access.spec)
    if is_small and can_be_bucketed(load.run, load.spark):
        load.staging.clear()
        return _Read(plan, tables, BucketedChunks(load.run, load.spark))
    load.staging.begin(plan)
    return _Read(plan, tables, staged)


def _cut(load: _Load, source: Source, read: Sequence[SourceTable]) -> Cut:
    if load.behind:
        return Cut("whole", (Chunk(0),))
    spec, limits = load.run.spec, load.access.spec
    work = spec.snapshot or SnapshotWork()
    rows = chunk_rows_of_load(work.chunk_rows, limits, rows=spec.table.estimated_rows)
    readers = limits.max_parallel_reads
    return cut_all(load.run, source, read, chunk_rows=rows, readers=readers)


def _refuse_shared_texts(load: _Load, source: Source, read: _Read) -> None:
    """Before hours of reading. What comes later is of the first sync."""
    for chunk in read.plan.chunks:
        one = read.tables[chunk.shard]
        if one.facts is None or one.facts.is_exact:
            continue
        load.run.check()
        where = load.behind or one.where(source, read.plan.by, chunk)
        refuse_shared_texts(source, one.table, one.facts.types, where=where)


def _read_chunks(load: _Load, source: Source, read: _Read) -> None:
    run, table, plan = load.run, load.run.spec.table, read.plan
    finished = read.chunks.finished()
    total = max(table.estimated_rows, sum(m.rows for m in finished.values())) or None
    run.enter("reading", total=total, done=sum(m.rows for m in finished.values()))
    can_renew = plan.by == "key" and not plan.snapshot

    def read_one(chunk: Chunk) -> None:
        one = read.tables[chunk.shard]
        sql = one.sql(source, load.behind or one.where(source, plan.by, chunk))
        with (
            load.gate.reading(run),
            source.reading(one.table, can_renew=can_renew) as snapshot,
        ):
            reading = Reading(
                one.table, load.access, one.selection, sql, snapshot, one.fetch
            )
            manifest = read.chunks.read(reading, chunk.number)
        load.gate.account(manifest.rows)
        run.add_done(manifest.rows)

    todo = [c for c in plan.chunks if c.number not in finished]
    run_parallel(run, todo, read_one, threads=load.access.spec.max_parallel_reads)


def _commit(load: _Load, state: LakeState, read: _Read) -> Commit:
    spec = load.run.spec
    staged = read.chunks.frame(load.selection)
    _refuse_bad_keys(load, staged, read)
    if spec.table.row_hash:
        _refuse_other_rows(load, staged, _rows_of(read.chunks))
    seq = F.lit(seq_of(spec.epoch, 0)).cast("bigint")
    rows = lake_rows(staged, spec.table, load.selection, seq=seq)
    refuse_many_partitions(rows, spec.table)
    refuse_long_partitions(staged, spec.table, load.selection)
    span = _span(load.run, read.plan)
    if load.behind:
        return commit_rows(spec, Batch(rows, "upsert", span, unique_keys=True), state)
    is_first = not state.timeline.completed_writes
    # what was read decides the columns: a resync may drop some
    fresh = LakeState(exists=state.exists, timeline=state.timeline)
    batch = Batch(
        rows,
        "bulk_insert" if is_first else "insert_overwrite_table",
        span,
        # equal rows of a table without key become one: their number is not known
        expected_rows=-1 if spec.table.row_hash else _rows_of(read.chunks),
        are_placed=read.chunks.are_placed,
    )
    return commit_rows(spec, batch, fresh)


def _span(run: JobRun, plan: LoadPlan) -> Span:
    epoch, point = run.spec.epoch, _load_point(run, plan)
    return Span("", plan.bound, epoch, epoch, point, _name_of(run.spec))


def _load_point(run: JobRun, plan: LoadPlan) -> LoadPoint | None:
    return LoadPoint(plan.bound, plan.snapshot) if log_of(run) else None


def _refuse_other_rows(load: _Load, staged: DataFrame, read: int) -> None:
    """Equal rows become one, so the commit cannot count them: a driver that was taken
    for dead may have written into these folders once more."""
    found = staged.count()
    if found != read:
        raise TerminalError(
            "%(found)s rows are staged for %(table)s, and %(read)s were read."
            " Nothing of this job is visible",
            found=found,
            table=qualified_name(load.run.spec),
            read=read,
            code="rows_miscounted",
            hint="start the load again: it reads every row again",
        )


def _rows_of(chunks: KeptChunks) -> int:
    return sum(m.rows for m in chunks.finished().values())


def _refuse_bad_keys(load: _Load, staged: DataFrame, read: _Read) -> None:
    """Repeated keys would vanish or double silently in the lake."""
    run, table = load.run, load.run.spec.table
    if any(m.unfit for m in read.chunks.finished().values()):
        run.note_lossy(unfit_counts(staged, load.selection))
    run.note_lossy(nameless_partitions(staged, table, load.selection))
    found = [one.facts for one in read.tables]
    doubtful = [one for one in found if one and not (one.is_unique and one.is_exact)]
    if doubtful:
        repeated = duplicate_keys(staged, table, load.selection)
        if repeated:
            is_unique = all(one.is_unique for one in doubtful)
            raise InvalidRequest(
                IN_UNICODE if is_unique else REPEATED,
                repeated=repeated,
                table=table.at_source,
                key=", ".join(name for name in table.key if name),
                code="repeated_keys",
                hint="choose columns that are unique together, or the whole-row hash",
            )


def _bound(run: JobRun, source: Source) -> str:
    """The cursor position where capture will start: noted before any row is read."""
    table, work = run.spec.table, run.spec.snapshot or SnapshotWork()
    if table.cursor is None:
        return ""
    lag = max(_BOUND_LAG_SECONDS, work.lag_seconds)
    _, bound = read_bound(run, source, lag_seconds=lag, low=None)
    return to_text(bound.high, has_zone=has_zone(table))


def _facts(
    spec: JobSpec, manifests: Sequence[ChunkManifest], commit: Commit
) -> dict[str, Any]:
    snapshots = {m.snapshot for m in manifests}
    position = commit.position
    return {
        "rows": sum(m.rows for m in manifests) if manifests else commit.rows_written,
        "bytes": commit.bytes_written,
        "chunks": len(manifests),
        "instant": commit.instant.asked,
        "completed_at": commit.instant.completed,
        "epoch": position.epoch_to if position else spec.epoch,
        # of a load that an earlier attempt committed, nobody may know any more
        "consistency": "snapshot" if len(snapshots) == 1 else "per_chunk",
        "bound": position.end if position else "",
        "position": {"from": "", "to": position.end if position else ""},
        "committed_rows": commit.rows_written,
        # an earlier attempt may have committed by an earlier plan
        "has_columns": not lacking_columns(commit.schema, spec.table.columns),
    }


def _fingerprint(spec: JobSpec) -> str:
    """Of this load alone: its attempts share its name, another load has another."""
    table = spec.table
    parts = [
        spec.kind,
        _name_of(spec),
        table.source_schema,
        table.source_table,
        table.path,
    ]
    parts += [*table.key, str(table.row_hash), *(encode(c) for c in table.columns)]
    parts += [encode(one) for one in table.shards]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _space_needed(spec: JobSpec) -> int:
    return spec.table.estimated_rows * len(spec.table.columns) * _BYTES_PER_VALUE
