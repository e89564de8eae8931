"""Applying what waits of one table in its stream: all of it, one commit.

What is applied is what the table's newest commit says. It is read when the table is
taken, and remembered while the timeline shows no other newest write.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from core.errors import TerminalError, TransientError
from ingest.contract.applying import (
    COLUMNS_UNDECIDED,
    LEFT_LOG,
    NEEDS_RESYNC,
    ApplyTable,
    ApplyWork,
)
from ingest.contract.job import JobSpec
from ingest.contract.positions import seq_of
from ingest.contract.segments import OP
from ingest.contract.source_positions import is_of_log
from ingest.driver.apply.apply import (
    refuse_changes,
    refuse_other_types,
    refuse_unreadable_plan,
    roll_back_writes,
)
from ingest.driver.apply.log_fold import Lacking, Merged, Shape, merge, unfit_counts
from ingest.driver.apply.log_read import (
    Stream,
    Waiting,
    is_before,
    is_reached,
    is_replaced,
)
from ingest.driver.apply.replacement import snapshot_of
from ingest.driver.apply.rows import (
    change_fields,
    change_seq,
    is_delete,
    lake_rows,
    latest_per_key,
    literal,
    read_staged,
    spark_type,
)
from ingest.driver.apply.wide_rows import TURN, is_wide, refuse_too_wide, widest
from ingest.driver.apply.writer import (
    MOST_BYTES,
    Batch,
    LightRows,
    Span,
    checked_state,
    commit_rows,
    is_light,
    qualified_name,
    read_merged,
)
from ingest.driver.session import heap_of
from ingest.lake.commits import Commit, LakeState, timeline_at
from ingest.lake.hudi.identity import DELETED, SEQ
from ingest.lake.hudi.options import CommitPosition
from ingest.lake.place import place_at
from ingest.sources.dialects import dialect_of
from ingest.sources.select import Selection, select_columns

# Columns of the scratch files are read by Spark at once; nothing of them is kept.
_COMPRESSION = "none"
# Until a table is said to be ahead of its stream.
AHEAD_SECONDS = 30.0


def spec_of(work: ApplyWork, table: ApplyTable) -> JobSpec:
    """What writing asks of a job."""
    return JobSpec(
        job_id=work.run,
        attempt=1,
        kind="sync",
        lane="apply",
        lake=work.lake,
        table=table.table,
        fence=table.fence,
        source=work.source,
        compact_after=table.compact_after,
        budget=table.budget,
        lock_service=work.lock_service,
        keep_seconds=work.keep_seconds,
    )


@dataclass(frozen=True, slots=True)
class Step:
    """What one look at a table came to. commit None: nothing had to be written. lossy:
    lake column → how many values of the rows became NULL. is_wide: rows took turns with
    those of other tables, see `wide_rows`."""

    commit: Commit | None = None
    rows: int = 0
    committed: int = 0
    lossy: Mapping[str, int] = field(default_factory=dict)
    is_wide: bool = False


@dataclass(slots=True)
class LogTable:
    """One table under a session's fence. Used by one thread at a time.

    ahead_since  monotonic seconds; None = its stream has what it has applied
    missing      source names of columns that the lake table does not have yet
    """

    spark: SparkSession
    spec: JobSpec
    scratch: Path
    state: LakeState | None = None
    ahead_since: float | None = None
    missing: frozenset[str] = frozenset()
    selection: Selection = field(init=False)
    shape: Shape = field(init=False)

    def __post_init__(self) -> None:
        table, source = self.spec.table, self.spec.source
        dialect = dialect_of(source.kind if source else "")
        self.selection = select_columns(dialect, table.columns)
        self.shape = Shape.of(table, self.selection)

    @property
    def position(self) -> CommitPosition | None:
        return self.state.position if self.state else None

    @property
    def after(self) -> int:
        """The last segment that is applied; 0 = none is."""
        return self.position.epoch_to if self.position else 0

    def take(self) -> None:
        """Reads where the table is, and undoes what a dead writer left."""
        spec = self.spec
        # what partitions the table is in the replica identity: its follower sees to it
        refuse_changes(spec.table)
        state = roll_back_writes(self.spark, spec, checked_state(spec))
        refuse_other_types(spec, state)
        refuse_unreadable_plan(spec, state)
        self.state = state
        there = state.columns
        self.missing = frozenset(
            c.source_name for c in spec.table.columns if c.name not in there
        )
        unsent = state.position.unsent if state.position else ()
        added = self.missing.union(unsent)
        self.shape = Shape.of(spec.table, self.selection, added=added)

    @property
    def has_columns(self) -> bool:
        """Whether the lake table has all that the plan has."""
        return self.state is not None and not self.missing

    @property
    def older(self) -> dict[str, pa.Scalar]:
        """What the rows of the lake get in columns that it does not have yet."""
        added = self.shape.added
        return {name: added[name] for name in added if name in self.missing}

    def forget(self) -> None:
        """Behind anything that failed: the lake says where the table is."""
        self.state = None

    def is_due(self, stream: Stream) -> bool:
        """Whether segments of the table may be applied now. TerminalError
        `needs_resync` when none brings it on, TransientError `left_log` when a sync by
        its cursor came behind them."""
        position = self.position
        if position is None or not self.is_followed(stream):
            return False
        if stream.is_ahead(position.epoch_to):
            self._wait_for(stream, position)
            return False
        self.ahead_since = None
        if stream.is_lost(self.spec.table.table_id, position.epoch_to):
            raise _lost(self.spec, position)
        _refuse_synced(self.spec, position)
        return True

    def is_followed(self, stream: Stream) -> bool:
        """Whether what comes in the stream is all that the table lacks."""
        told = stream.state_of(self.spec.table.table_id)
        if told is None or told.state in {"removed", "deferred"}:
            return False
        if told.state == "added" and not told.cut:
            return False
        return not is_replaced(told, self.after)

    def _wait_for(self, stream: Stream, position: CommitPosition) -> None:
        """A load may be some moments ahead of what was read of its stream."""
        now = time.monotonic()
        self.ahead_since = self.ahead_since or now
        if now - self.ahead_since > AHEAD_SECONDS:
            newest = stream.newest.number if stream.newest else 0
            raise TransientError(
                "%(table)s is at epoch %(epoch)s, and its stream ends at"
                " %(newest)s: segments are missing. Nothing was written",
                table=qualified_name(self.spec),
                epoch=position.epoch_to,
                newest=newest,
                code="table_ahead",
                hint="start its follower, which reads again what a storage lost as its"
                " power failed; resync the table if the stream is one of a backup",
            )

    def is_live(self, stream: Stream) -> bool:
        """Whether everything up to the `at` of its load is applied."""
        position, newest = self.position, stream.newest
        if position is None or newest is None:
            return False
        if position.load is None:
            return True
        table_id = self.spec.table.table_id
        if stream.waiting(table_id, after=self.after)[0]:
            return False
        told = stream.state_of(table_id)
        return is_reached(newest.end, position.load, told) or not is_before(
            newest.end, position.load.at
        )

    def bring_on(self, stream: Stream, check: Callable[[], None]) -> Step:
        """One commit for what waits, up to a bounded size. check: raises where the
        table is to be given up, before anything is written."""
        if self.state is None:
            self.take()
        self.look_again()
        if not self.is_due(stream):
            return Step()
        position = self.position
        assert position is not None
        most = widest(heap_of(self.spark))
        waiting = Waiting(
            stream, self.spec.table, self.after, load=position.load, widest=most
        )
        try:
            step = self._commit(waiting, check)
        finally:
            shutil.rmtree(self.scratch, ignore_errors=True)
        if step.commit is None and waiting.ahead:
            raise _undecided(self.spec, waiting.ahead)
        return step

    def look_again(self) -> None:
        """One listing. Another newest write than ours: whatever it was, the lake is
        read again; a completed compaction is one."""
        state = self.state
        assert state is not None
        timeline = timeline_at(self.spec.table.path)
        known = state.timeline.completed_writes[-1:]
        if timeline.completed_writes[-1:] != known or timeline.pending_writes:
            self.take()
        else:
            self.state = replace(state, timeline=timeline)

    def _commit(self, waiting: Waiting, check: Callable[[], None]) -> Step:
        pieces = _Pieces(self)
        shape = self.shape
        for order, parts in enumerate(waiting.pieces(), start=1):
            merged = merge(parts, shape, order=order)
            shape = shape.carrying(merged.carried)
            pieces.add(merged, widest=waiting.widest)
        state = self.state
        assert state is not None
        if (span := self._span(waiting, unsent=sorted(shape.added))) is None:
            return Step()
        check()
        with TURN if pieces.is_wide else nullcontext():
            commit = commit_rows(self.spec, pieces.batch(state, span), state)
        self.state = replace(
            state,
            commits=(commit, *state.commits[:2]),
            position=commit.position,
            timeline=replace(
                state.timeline, instants=(*state.timeline.instants, commit.instant)
            ),
        )
        if self.missing:
            self.take()  # it has them now
        else:
            self.shape = shape
        counts = waiting.rows, waiting.committed
        return Step(commit, *counts, pieces.lossy, pieces.is_wide)

    def _span(self, waiting: Waiting, *, unsent: Sequence[str]) -> Span | None:
        """What the commit covers. New columns come without a row, too."""
        first, last, position = waiting.first, waiting.last, self.position
        assert position is not None
        if last is None or (first is None and not self.missing):
            return None
        start = first.start if first else position.end
        number = first.number if first else self.after + 1
        load = waiting.load
        told = waiting.stream.state_of(self.spec.table.table_id)
        if load and is_reached(last.end, load, told):
            load = None  # carried on until then
        return Span(
            start, last.end, number, last.number, load=load, unsent=tuple(unsent)
        )


class _Pieces:
    """Merged rows in scratch files, one for each piece of what waits."""

    def __init__(self, table: LogTable) -> None:
        self._table = table
        self.lossy: Counter[str] = Counter()
        self.is_wide = False
        self._files: list[Path] = []
        self._rows = 0
        self._left = 0
        self._made = 0
        self._is_emptied = False
        self._emptied = frozenset[str]()

    def add(self, merged: Merged, *, widest: int) -> None:
        table = self._table
        if merged.is_emptied:
            self._is_emptied = True
            self.lossy.clear()
            self._files, self._rows, self._left = [], 0, 0
        if merged.emptied:
            self._emptied |= merged.emptied
            self._files = [p for p in self._files if self._keep_others(p, merged)]
        rows = merged.rows
        if merged.lacking is not None:
            found = self._values_of(merged.lacking)
            rows = merged.filled(table.shape, found)
        if not rows.num_rows:
            return
        name, key = qualified_name(table.spec), table.shape.key
        refuse_too_wide(rows, widest, table=name, key=key)
        self.is_wide = self.is_wide or is_wide(rows, widest)
        self.lossy.update(self._lossy(rows))
        table.scratch.mkdir(parents=True, exist_ok=True)
        self._made += 1
        path = table.scratch / f"{self._made}.parquet"
        write_rows(rows, path)
        self._files.append(path)
        self._rows += rows.num_rows
        self._left += pc.sum(pc.not_equal(rows[OP], "delete")).as_py()

    def _lossy(self, rows: pa.Table) -> dict[str, int]:
        names = {c.source_name: c.name for c in self._table.spec.table.columns}
        found = unfit_counts(rows, self._table.shape)
        return {names[name]: count for name, count in found.items()}

    def _keep_others(self, path: Path, merged: Merged) -> bool:
        """Whether a piece from before has rows of other shards than those that were
        emptied; it loses these."""
        rows = pq.ParquetFile(path).read()
        emptied = pa.array(sorted(merged.emptied), pa.string())
        is_gone = pc.is_in(rows[self._table.shape.shard], value_set=emptied)
        self.lossy.subtract(self._lossy(rows.filter(is_gone)))
        kept = rows.filter(pc.invert(is_gone))
        write_rows(kept, path)
        return bool(kept.num_rows)

    def batch(self, state: LakeState, span: Span) -> Batch:
        if self._is_emptied:
            return self._replacement(state, span)
        has_older = any(value.is_valid for value in self._table.older.values())
        if has_older or self._emptied:
            return self._over_lake(self._upsert(span), span, is_all=has_older)
        light = self._light(state)
        if light is not None:
            return Batch(light, "upsert", span, unique_keys=True)
        return self._upsert(span)

    def _over_lake(self, batch: Batch, span: Span, *, is_all: bool) -> Batch:
        """Rows of the lake go where their shard was emptied. is_all: the others get the
        values that their source gave to all of them."""
        assert not isinstance(batch.rows, LightRows)
        columns = batch.rows.columns
        lake = self._all_of_lake(columns, span, is_gone=self._was_emptied())
        if not is_all:
            lake = lake.where(F.col(DELETED))
        rows = latest_per_key(batch.rows.unionByName(lake), self._table.spec.table)
        return replace(batch, rows=rows)

    def _was_emptied(self) -> Column:
        """Of a row of the lake: its shard."""
        if not self._emptied:
            return F.lit(False)  # noqa: FBT003
        name = self._table.spec.table.shard_column
        return F.col(f"`{name}`").isin(*sorted(self._emptied))

    def _light(self, state: LakeState) -> LightRows | None:
        table = self._table.spec.table
        if len(self._files) != 1:
            return None
        if not is_light(table, state, self._rows):
            return None
        (path,) = self._files
        place, size = place_at(str(path)), path.stat().st_size
        if size > MOST_BYTES:
            return None
        return read_merged(self._table.spark, place, size, table, self._table.selection)

    def _upsert(self, span: Span) -> Batch:
        table, selection = self._table.spec.table, self._table.selection
        uris = [place_at(str(path)).uri for path in self._files]
        staged = read_staged(self._table.spark, selection, uris, *change_fields())
        seq, gone = change_seq(), is_delete()
        rows = lake_rows(staged, table, selection, seq=seq, deleted=gone)
        if len(uris) > 1:
            rows = latest_per_key(rows, table)
        return Batch(rows, "upsert", span, unique_keys=True)

    def _replacement(self, state: LakeState, span: Span) -> Batch:
        """The table was emptied: what came behind that is all it has."""
        batch = self._upsert(span)
        assert not isinstance(batch.rows, LightRows)
        if state.pending_compactions:
            # they speak of file groups that a replacement takes away
            gone = self._all_of_lake(batch.rows.columns, span, is_gone=F.lit(True))  # noqa: FBT003
            rows = batch.rows.unionByName(gone)
            return replace(batch, rows=latest_per_key(rows, self._table.spec.table))
        kept = batch.rows.where(f"not {DELETED}")
        count = self._left if len(self._files) <= 1 else -1
        return replace(
            batch, rows=kept, operation="insert_overwrite_table", expected_rows=count
        )

    def _all_of_lake(
        self, columns: Sequence[str], span: Span, *, is_gone: Column
    ) -> DataFrame:
        """Every row that the lake has, anew: behind all of those, and before all that
        came."""
        own = {
            SEQ: F.lit(seq_of(span.epoch_from, 0)).cast("bigint"),
            DELETED: is_gone,
        }
        rows = self._snapshot()
        return rows.select(*(own.get(c, F.col(f"`{c}`")).alias(c) for c in columns))

    def _snapshot(self) -> DataFrame:
        """What the lake has, in the columns of the plan."""
        table = self._table.spec.table
        rows = snapshot_of(self._table.spark, self._table.spec)
        for column in table.columns:
            older = self._table.older.get(column.source_name)
            if older is not None:
                value = literal(older.as_py(), column.type)
                rows = rows.withColumn(column.name, value)
        for column in (c for c in table.kept if c.name not in rows.columns):
            value = F.lit(None).cast(spark_type(column.type))
            rows = rows.withColumn(column.name, value)
        return rows

    def _values_of(self, lacking: Lacking) -> pa.Table:
        """Rows with these keys: of the lake, then of the pieces before this one."""
        table = self._table
        columns = [*table.shape.key, *lacking.aliases(table.shape)]
        # of one key the last counts
        found = [] if self._is_emptied else [self._of_lake(lacking.keys, columns)]
        found += [_written(path, columns) for path in self._files]
        schema = pa.schema([table.shape.schema.field(alias) for alias in columns])
        return pa.concat_tables([schema.empty_table(), *found])

    def _of_lake(self, keys: pa.Table, columns: Sequence[str]) -> pa.Table:
        """One Spark job: what the log does not send has to come from somewhere."""
        table, spark = self._table, self._table.spark
        names = {c.alias: c.name for c in table.selection.columns}
        wanted = table.scratch / "keys.parquet"
        table.scratch.mkdir(parents=True, exist_ok=True)
        pq.write_table(keys, wanted)
        left = self._snapshot().where(~self._was_emptied())
        left = left.select(
            *(F.col(f"`{names[alias]}`").alias(alias) for alias in columns)
        )
        right = F.broadcast(spark.read.parquet(place_at(str(wanted)).uri))
        folder = table.scratch / "values"
        rows = left.join(right, list(table.shape.key), "left_semi")
        rows.coalesce(1).write.mode("overwrite").parquet(place_at(str(folder)).uri)
        schema = pa.schema([table.shape.schema.field(alias) for alias in columns])
        found = (_written(path, columns) for path in folder.glob("*.parquet"))
        return pa.concat_tables(
            [schema.empty_table(), *(one.cast(schema) for one in found)]
        )


def write_rows(rows: pa.Table, path: Path) -> None:
    pq.write_table(
        rows,
        path,
        compression=_COMPRESSION,
        use_dictionary=False,
        write_statistics=False,
        store_schema=False,
    )


def _written(path: Path, columns: Sequence[str]) -> pa.Table:
    """Rows of a scratch file that are not deleted."""
    file = pq.ParquetFile(path)
    if OP not in file.schema_arrow.names:
        return file.read(list(columns))
    rows = file.read([*columns, OP])
    return rows.filter(pc.not_equal(rows[OP], "delete")).select(list(columns))


def _undecided(spec: JobSpec, names: Sequence[str]) -> TransientError:
    return TransientError(
        "%(names)s of %(table)s was added, widened or dropped at the"
        " source, and its plan does not have that yet: its rows wait."
        " Nothing was written",
        names=", ".join(names),
        table=qualified_name(spec),
        code=COLUMNS_UNDECIDED,
        hint="its columns at the source are read; where the policy asks, approve the"
        " change on the table's page",
    )


def _refuse_synced(spec: JobSpec, position: CommitPosition) -> None:
    """Behind a sync by a cursor, whose number is none of the stream's: the segment of
    that number would be passed over. A load has no start."""
    if not position.start or is_of_log(position.end):
        return
    raise TransientError(
        "the newest commit of %(table)s is of a sync by its cursor, and"
        " the table follows its source's log still. Nothing was written",
        table=qualified_name(spec),
        code=LEFT_LOG,
        hint="the table goes over to its cursor once that commit can be read; else"
        " resync the table",
    )


def _lost(spec: JobSpec, position: CommitPosition) -> TerminalError:
    return TerminalError(
        "%(table)s is at epoch %(epoch)s of its stream, and later rows"
        " of it are missing there. Nothing was written",
        table=qualified_name(spec),
        epoch=position.epoch_to,
        code=NEEDS_RESYNC,
        hint="resync the table: readers keep the present copy until then",
    )
