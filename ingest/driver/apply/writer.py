"""One Hudi commit under a fence, and what the timeline says about it afterwards.

Every write of a lake table passes here: fence, identity and columns are checked
before, the instant is read from the timeline after. It must not know sources.

Small batches need no Spark job: the same columns (`rows`) say what a row becomes,
compiled once per table and run over the staged files in the calling thread (`RowPlan`);
the commit is Hudi's own append (`LightTable`).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from core.errors import InvalidRequest, TerminalError, TransientError
from ingest.contract.job import JobSpec
from ingest.contract.table import TableSpec
from ingest.driver.apply.clocks import future_of, soon
from ingest.driver.apply.jobrun import JobRun
from ingest.driver.apply.partitions import nameless_signs
from ingest.driver.apply.rows import (
    change_fields,
    change_seq,
    is_delete,
    lake_rows,
    staged_schema,
    unfit_signs,
)
from ingest.lake.commits import (
    Commit,
    LakeState,
    newest_commits,
    read_lake_table,
    read_timeline,
)
from ingest.lake.fence import require_fence
from ingest.lake.hudi.evolution import has_columns
from ingest.lake.hudi.identity import (
    SEQ,
    TableIdentity,
    drift,
    identity_for,
    key_column,
    partition_columns,
    property_drift,
    refuse_drift,
)
from ingest.lake.hudi.options import (
    EXTRA_KEY,
    CommitPosition,
    LoadPoint,
    Operation,
    SharedLock,
    WriterFence,
    encode_position,
    write_options,
)
from ingest.lake.place import place_at
from ingest.lake.port import Place
from ingest.sources.select import Selection


@dataclass(frozen=True, slots=True)
class ParquetFile:
    """memory: bytes that its pages take there."""

    place: Place
    bytes: int
    rows: int
    memory: int


def parquet_files(spark: SparkSession, folder: Place) -> list[ParquetFile]:
    named = sorted((file.path, file.size) for file in folder.files())
    return [
        _opened(spark, folder / name, size)
        for name, size in named
        if name.endswith(".parquet")
    ]


def _opened(spark: SparkSession, place: Place, size: int) -> ParquetFile:
    """As its footer has it, which is read once."""
    with _footer(spark, place) as reader:
        blocks = reader.getFooter().getBlocks()
        memory = sum(int(block.getTotalByteSize()) for block in blocks)
        return ParquetFile(place, size, int(reader.getRecordCount()), memory)


@contextmanager
def _footer(spark: SparkSession, place: Place) -> Iterator[Any]:
    jvm: Any = spark._jvm
    context: Any = spark.sparkContext._jsc
    parquet, path = jvm.org.apache.parquet.hadoop, jvm.org.apache.hadoop.fs.Path
    reader = parquet.ParquetFileReader.open(
        parquet.util.HadoopInputFile.fromPath(
            path(place.uri), context.hadoopConfiguration()
        )
    )
    try:
        yield reader
    finally:
        reader.close()


@dataclass(frozen=True, slots=True)
class Span:
    """What a commit brings: source positions and epochs, both ends included.

    load, load_name, unsent  see `CommitPosition`
    """

    start: str
    end: str
    epoch_from: int
    epoch_to: int
    load: LoadPoint | None = None
    load_name: str = ""
    unsent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows for one commit.

    expected_rows  of a load, when known: another number fails before the commit
    unique_keys    certainly no key occurs twice
    are_placed     each partition of the rows has those of one bucket
    """

    rows: DataFrame | LightRows
    operation: Operation
    span: Span
    expected_rows: int = -1
    unique_keys: bool = False
    are_placed: bool = False


def writer_fence(spec: JobSpec) -> WriterFence:
    path = place_at(spec.fence.path).uri
    return WriterFence(path, spec.fence.token, _shared_lock(spec))


def _shared_lock(spec: JobSpec) -> SharedLock | None:
    """One name for all scopes of a table: ingest and table services meet there."""
    if not spec.table.lock:
        return None
    hosts, _, folder = spec.lock_service.partition("/")
    if not hosts:
        raise TerminalError(
            "%(table)s has a shared lock, and there is no service for it."
            " Nothing was written",
            table=qualified_name(spec),
            code="lock_service_unset",
            hint="set SLUICE_LAKE_LOCK as it was when the table was onboarded",
        )
    return SharedLock(hosts, f"/{folder}", f"table-{spec.table.table_id}")


def not_loaded(spec: JobSpec) -> InvalidRequest:
    return InvalidRequest(
        "lake table %(table)s has no load yet",
        table=qualified_name(spec),
        code="not_loaded",
        hint="load the table first",
    )


def qualified_name(spec: JobSpec) -> str:
    return f"{spec.table.database}.{spec.table.name}"


def checked_state(spec: JobSpec, *, adds: bool = True) -> LakeState:
    """The table's state, after lock, fence and identity were found right. `adds`: rows
    or plans come behind what is there, so nothing there may be of the future."""
    _shared_lock(spec)
    require_fence(spec.fence)
    state = read_lake_table(spec.table.path)
    if state.exists:
        require_identity(spec, state)
        if adds:
            _require_past(spec, state)
    return state


def _require_past(spec: JobSpec, state: LakeState) -> None:
    """Hudi orders commits by the clock: one that seems older than what is there would
    be merged below it, or wait within Hudi until the clock has caught up."""
    done = state.timeline.completed_writes
    newest = max(
        (digits for i in done for digits in (i.asked, i.completed)), default=""
    )
    if newest > soon():
        raise TransientError(
            "the newest commit of %(table)s is of %(newest)s in UTC: the clock"
            " of this driver's host is behind, or that of a former driver was"
            " ahead. Nothing was written",
            table=qualified_name(spec),
            newest=newest,
            code="clock_behind",
            hint="if this host's clock is wrong, set it right; else roll the table"
            " back: that keeps every row and takes the commits of the future away",
        )


def require_identity(spec: JobSpec, state: LakeState) -> None:
    """TerminalError `identity_drift` when that table is not the one of the plan."""
    wanted = identity_for(spec.table)
    refuse_drift(
        qualified_name(spec),
        (
            *property_drift(state.properties, wanted),
            *(drift(state.position.identity, wanted) if state.position else ()),
        ),
    )


def commit_rows(
    spec: JobSpec,
    batch: Batch,
    state: LakeState,
) -> Commit:
    """Writes the batch as exactly one commit and returns it as the timeline has it.

    TerminalError `missing_columns` when rows lack a column of the table: Hudi
    would write NULL into alive rows or fail half-way.
    """
    missing = [c for c in state.columns if c not in batch.rows.columns]
    if missing:
        raise TerminalError(
            "the rows for %(table)s lack the columns %(missing)s. Nothing was written",
            table=qualified_name(spec),
            missing=", ".join(missing),
            code="missing_columns",
            hint="a column disappeared at the source: resync the table",
        )
    identity = identity_for(spec.table)
    options = write_options(
        identity,
        name=spec.table.name,
        fence=writer_fence(spec),
        operation=batch.operation,
        position=encode_position(_position(spec, identity, batch.span)),
    )
    if batch.unique_keys:
        # no key occurs twice: without this the whole batch would be shuffled
        options = {**options, "hoodie.combine.before.upsert": "false"}
    is_done = False
    if isinstance(batch.rows, LightRows):
        is_done = commit_light(spec, batch.rows, state, options)
    if not is_done:
        _write(batch, place_at(spec.table.path).uri, options)
    found = commit_of(spec, batch.span.epoch_to)
    if found is None:
        raise TerminalError(
            "the write to %(table)s ended without a commit",
            table=qualified_name(spec),
            code="commit_missing",
            hint="retry the job; nothing of it is visible",
        )
    return found


def _write(batch: Batch, path: str, options: Mapping[str, str]) -> None:
    rows = batch.rows.frame() if isinstance(batch.rows, LightRows) else batch.rows
    if batch.operation == "upsert":
        rows.write.format("hudi").options(**options).mode("append").save(path)
        return
    jvm: Any = rows.sparkSession._jvm
    # Hudi's bulk_insert behind our own shuffle (ADR 11)
    load = jvm.io.sluice.lake.BulkLoad
    options = {**options, "path": path}
    load.write(rows._jdf, options, batch.expected_rows, batch.are_placed)


def commit_of(spec: JobSpec, epoch: int | None = None) -> Commit | None:
    """This job's own commit (up to that epoch), when the lake already has it."""
    base = place_at(spec.table.path)
    timeline = read_timeline(base)
    # commits of the future are newer than ours, however many they are
    wanted = 10 + len(future_of(timeline))
    for commit in newest_commits(base, timeline, wanted=wanted):
        position = commit.position
        if position is None or commit.instant.action == "compaction":
            continue
        if position.run == spec.job_id and epoch in (None, position.epoch_to):
            return commit
    return None


def _position(spec: JobSpec, identity: TableIdentity, span: Span) -> CommitPosition:
    return CommitPosition(
        source=spec.source.datasource_id if spec.source else 0,
        start=span.start,
        end=span.end,
        epoch_from=span.epoch_from,
        epoch_to=span.epoch_to,
        run=spec.job_id,
        fence=spec.fence.token,
        identity=identity,
        load=span.load,
        load_name=span.load_name,
        unsent=span.unsent,
    )


# Above it a write by Spark costs less than twice as much, and rows would fill memory
# at once: docs/adr/0036-small-commits-without-a-job.md
MOST_ROWS = 5_000
# Of a file, before anything of it is in memory; LightRows bounds what all become.
MOST_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class LightRows:
    """Rows as the lake wants them, in the JVM's memory: of each key the last write."""

    columns: tuple[str, ...]
    handle: Any
    spark: SparkSession

    def frame(self) -> DataFrame:
        return DataFrame(self.handle.frame(), self.spark)


@dataclass(frozen=True, slots=True)
class _Shape:
    """What a plan depends on, which tables of one shape share. Nothing of it changes
    from one commit to the next. has_changes: the rows were merged from a log, and some
    of them are deletes."""

    table: TableSpec
    selection: Selection
    has_changes: bool = False

    @classmethod
    def of(cls, table: TableSpec, now: Selection, *, has_changes: bool) -> _Shape:
        unnamed = TableSpec(
            *(0, "", "", "", "", "", ""),
            columns=table.columns,
            key=table.key,
            row_hash=table.row_hash,
            partition_by=table.partition_by,
            kept=table.kept,
        )
        return cls(unnamed, now, has_changes)


@dataclass(frozen=True, slots=True)
class _Plan:
    """Compiled columns. signs: of which lake column a value is lost where the row has
    the sign."""

    columns: tuple[str, ...]
    signs: tuple[str, ...]
    handle: Any


def is_light(table: TableSpec, state: LakeState, rows: int) -> bool:
    """Whether so many rows may go this way: few, for the columns that are there.
    Rows that are counted, or leave what NULLs do not say, need Spark to be combined; a
    metadata table that somebody else made is removed by Spark's write."""
    return (
        0 < rows <= MOST_ROWS
        and not table.row_hash
        and table.updates == "full"
        and not state.properties.get("hoodie.table.metadata.partitions")
        and has_columns(state.written_schema, table)
    )


def read_light(
    run: JobRun,
    spark: SparkSession,
    files: Sequence[ParquetFile],
    selection: Selection,
    *,
    seq: int,
) -> LightRows | None:
    """All rows of these files, each with that `_sluice_seq`. None when they take too
    much memory."""
    table = run.spec.table
    plan = _plan(spark, _Shape.of(table, selection, has_changes=False))
    rows = plan.handle.begin()
    lost = dict.fromkeys(plan.signs, 0)
    for file in files:
        if file.memory > MOST_BYTES:
            return None
        found = plan.handle.read(rows, file.place.uri, file.bytes, seq)
        if found is None:
            return None
        for sign, count in zip(plan.signs, found.split(), strict=True):
            lost[sign] += int(count)
    run.note_lossy({name: count for name, count in lost.items() if count})
    return LightRows(plan.columns, rows, spark)


def read_merged(
    spark: SparkSession, place: Place, size: int, table: TableSpec, selection: Selection
) -> LightRows | None:
    """Rows of one file that were merged already: of each key the last change, with
    `_sluice_seq` as its index. None when they take too much memory."""
    plan = _plan(spark, _Shape.of(table, selection, has_changes=True))
    rows = plan.handle.begin()
    found = plan.handle.read(rows, place.uri, size, 0)
    return None if found is None else LightRows(plan.columns, rows, spark)


def commit_light(
    spec: JobSpec, rows: LightRows, state: LakeState, options: Mapping[str, str]
) -> bool:
    """One commit of these rows. False where a bucket has no file group yet, and for
    rows that Hudi has to combine: nothing was begun then."""
    jvm: Any = rows.spark._jvm
    own = {key: value for key, value in options.items() if key != EXTRA_KEY}
    instant = jvm.io.sluice.lake.LightTable.commit(
        rows.spark.sparkContext._jsc,
        place_at(spec.table.path).uri,
        spec.table.name,
        state.written_schema,
        json.dumps(own),
        rows.handle,
        json.dumps({EXTRA_KEY: options[EXTRA_KEY]}),
    )
    return bool(instant)


# Some tens of KiB each. With fewer than there are tables that take turns, each commit
# would compile one.
_MOST_PLANS = 2_000


@functools.lru_cache(maxsize=_MOST_PLANS)
def _plan(spark: SparkSession, shape: _Shape) -> _Plan:
    """Compiled: some tens of milliseconds that every later commit of a table saves."""
    table, now = shape.table, shape.selection
    fields = change_fields() if shape.has_changes else ()
    schema = T.StructType([*staged_schema(now).fields, *fields])
    plans: Any = cast("Any", spark._jvm).io.sluice.lake.RowPlan
    source = DataFrame(plans.source(spark._jsparkSession, schema.json()), spark)
    signs = [*unfit_signs(now), *nameless_signs(table, now)]
    names = [f"sign{number}" for number in range(len(signs))]
    signed = [s.alias(n) for n, (_, s) in zip(names, signs, strict=True)]
    key = [key_column(table), *partition_columns(table)]
    rows = lake_rows(
        source.select("*", *signed),
        table,
        now,
        seq=change_seq() if shape.has_changes else F.lit(0).cast("bigint"),
        deleted=is_delete() if shape.has_changes else None,
        also=names,
    )
    return _Plan(
        tuple(rows.columns[: len(rows.columns) - len(names)]),
        tuple(name for name, _ in signs),
        plans.of(rows._jdf, schema.json(), len(names), SEQ, key),
    )
