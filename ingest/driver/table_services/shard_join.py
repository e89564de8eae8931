"""Shards that came to a table are read without the others.

Of a table that follows a log the stream says first that it has all that comes of them.
Then they are read whole, and their rows are written by one commit where the table is.
Rows that the lake has of them and the source has not are deleted: it may have applied
changes of theirs before, as far as these could be without the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ingest.contract.job import CHUNK_ROWS, RepairWork
from ingest.contract.positions import MAX_INDEX, seq_of
from ingest.contract.table import SHARD, TableSpec, sources_of
from ingest.driver.apply.apply import (
    refuse_other_types,
    refuse_unreadable_plan,
    require_loaded,
    roll_back_writes,
)
from ingest.driver.apply.jobrun import JobRun
from ingest.driver.apply.partitions import nameless_partitions
from ingest.driver.apply.replacement import snapshot_of
from ingest.driver.apply.rows import lake_rows, read_staged, unfit_counts
from ingest.driver.apply.writer import checked_state, commit_of
from ingest.driver.capture.chunking import Cut, fit_throttle
from ingest.driver.capture.gate import SourceGate
from ingest.driver.capture.log_load import read_until, wait_for_shards
from ingest.driver.capture.parallel import run_parallel
from ingest.driver.capture.reading import (
    Counts,
    Reading,
    Trial,
    open_stoppable,
    read_patiently,
    read_to_parquet,
)
from ingest.driver.capture.source_tables import SourceTable, cut_all, look_at_one
from ingest.driver.table_services.reread import (
    commit_here,
    own_folder,
    require_columns_there,
    with_deletes,
)
from ingest.driver.table_services.verify_log import (
    require_behind_lake,
    require_sent_values,
    take_moment_of,
)
from ingest.lake.commits import Commit
from ingest.lake.port import Place
from ingest.sources.chunks import Chunk
from ingest.sources.dialects import dialect_of
from ingest.sources.registry import Source, SourceAccess
from ingest.sources.select import select_columns


@dataclass(frozen=True, slots=True)
class _Join:
    """What the steps of one attempt share. wanted: of `sources_of`."""

    run: JobRun
    spark: SparkSession
    access: SourceAccess
    gate: SourceGate
    wanted: tuple[TableSpec, ...]
    folder: Place
    stream: str
    applied: int


@dataclass(frozen=True, slots=True)
class _Read:
    """folders: of rows. is_unique: the source guarantees the key."""

    folders: tuple[str, ...]
    unfit: int
    is_unique: bool


def join_shards(
    run: JobRun,
    spark: SparkSession,
    work: RepairWork,
    access: SourceAccess,
    gate: SourceGate,
) -> dict[str, Any]:
    """The facts of its report. Whoever dies before the commit has done nothing."""
    spec = run.spec
    state = checked_state(spec)
    if done := commit_of(spec):
        return _facts(work, done)
    require_loaded(spec, state)
    refuse_other_types(spec, state)
    refuse_unreadable_plan(spec, state)
    require_columns_there(spec, state)
    wanted = tuple(
        one for one in sources_of(spec.table) if one.shards[0].name in work.shards
    )
    state = roll_back_writes(spark, spec, state)
    assert state.position is not None, "a table whose shards join has a load"
    applied = state.position.epoch_to
    with own_folder(run) as folder:
        join = _Join(run, spark, access, gate, wanted, folder, work.stream, applied)
        read = _read_patiently(join)
        run.enter("comparing", unit="sides")
        rows = _rows(join, read)
        if rows is None:
            return _facts(work, None)
        run.enter("committing", unit="commits")
        done = commit_here(run, state, rows, is_unique=read.is_unique)
    return _facts(work, done)


def _facts(work: RepairWork, done: Commit | None) -> dict[str, Any]:
    facts = {
        "action": "join",
        "shards": [*work.shards],
        "written": done.rows_written if done else 0,
        "deleted": done.rows_deleted if done else 0,
    }
    return facts | ({"instant": done.instant.asked} if done else {})


def _read_patiently(join: _Join) -> _Read:
    with open_stoppable(join.run, join.access) as (source, access):
        inside = replace(join, access=access)
        return read_patiently(
            join.run,
            source,
            lambda trial: _read(inside, source, trial),
            drop=lambda: None,
            tables=join.wanted,
        )


def _read(join: _Join, source: Source, trial: Trial) -> _Read:
    run, limits = join.run, join.access.spec
    # what a try before staged is of another moment
    join.folder.delete_all()
    run.enter("planning")
    tables = [
        look_at_one(run, source, one, was_wide=trial.was_wide) for one in join.wanted
    ]
    since = None
    if join.stream:
        wait_for_shards(run, join.stream, [one.at_source for one in join.wanted])
        # a commit is in the log, and so in the lake, before others see it
        since = take_moment_of(run, source, join.stream)
        require_behind_lake(run, since, since.at or read_until(run, source))
    rows, readers = fit_throttle(CHUNK_ROWS, limits), limits.max_parallel_reads
    cut = cut_all(run, source, tables, chunk_rows=rows, readers=readers)
    run.enter("reading", total=len(cut.chunks), unit="chunks")
    read = _reader(join, source, cut, tables)
    found: dict[int, Counts] = {}

    def note(chunk: Chunk) -> None:
        found[chunk.number] = read(chunk)
        run.add_done(1)

    run_parallel(run, cut.chunks, note, threads=readers)
    if since and since.at:  # a log whose readers have no such moment sends all values
        require_sent_values(run, since, applied=join.applied)
    return _Read(
        tuple(_folder(join, n).uri for n, one in found.items() if one.rows),
        sum(one.unfit for one in found.values()),
        all(one.is_key_unique for one in tables),
    )


def _folder(join: _Join, number: int) -> Place:
    return join.folder / "source" / f"{number:06d}"


def _reader(
    join: _Join, source: Source, cut: Cut, tables: list[SourceTable]
) -> Callable[[Chunk], Counts]:
    can_renew = not join.stream

    def read(chunk: Chunk) -> Counts:
        one = tables[chunk.shard]
        sql = one.sql(source, one.where(source, cut.by, chunk))
        with (
            join.gate.reading(join.run),
            source.reading(one.table, can_renew=can_renew) as snapshot,
        ):
            reading = Reading(
                one.table, join.access, one.selection, sql, snapshot, one.fetch
            )
            folder = _folder(join, chunk.number)
            found = read_to_parquet(join.run, join.spark, reading, folder)
        join.gate.account(found.rows)
        return found

    return read


def _rows(join: _Join, read: _Read) -> DataFrame | None:
    """What the lake gets, on disk; None = nothing."""
    run, table = join.run, join.run.spec.table
    selection = select_columns(dialect_of(join.access.spec.kind), table.columns)
    staged = read_staged(join.spark, selection, list(read.folders))
    if read.unfit:
        run.note_lossy(unfit_counts(staged, selection))
    run.note_lossy(nameless_partitions(staged, table, selection))
    # above all that the epoch has brought, and below the next one
    seq = F.lit(seq_of(join.applied, MAX_INDEX)).cast("bigint")
    rows = lake_rows(staged, table, selection, seq=seq)
    name = next(c.name for c in table.columns if c.source_name == SHARD)
    values = [one.shards[0].value for one in join.wanted]
    lake = snapshot_of(join.spark, run.spec).where(F.col(f"`{name}`").isin(values))
    target = join.folder / "rows"
    return with_deletes(join.spark, table, rows, lake, seq=seq, target=target)
