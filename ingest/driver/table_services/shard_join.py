"""Shards that came to a table are read without the others.

Of a table that follows a log the stream says first that it has all that comes of them.
Then they are read whole, and their rows are written by one commit where the table is.
Rows that the lake has of them and the source has not are deleted: it may have applied
changes of theirs before, as far as these could be without the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ingest.contract.job import CHUNK_ROWS, RepairWork
from ingest.contract.table import TableSpec, sources_of
from ingest.driver.apply.apply import roll_back_writes
from ingest.driver.apply.jobrun import JobRun
from ingest.driver.apply.replacement import snapshot_of
from ingest.driver.apply.rows import read_staged
from ingest.driver.apply.writer import checked_state, commit_of
from ingest.driver.capture.chunking import fit_throttle
from ingest.driver.capture.gate import SourceGate
from ingest.driver.capture.log_load import wait_for_shards
from ingest.driver.capture.reading import Trial
from ingest.driver.capture.source_tables import cut_all, look_at_one
from ingest.driver.table_services.reread import (
    Reread,
    commit_here,
    done_facts,
    own_folder,
    read_anew,
    read_chunks,
    require_all_sent,
    require_rereadable,
    rows_for_lake,
    take_moment_behind_lake,
)
from ingest.lake.commits import Commit
from ingest.sources.dialects import dialect_of
from ingest.sources.port import Source, SourceAccess
from ingest.sources.select import select_columns


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
    require_rereadable(spec, state)
    wanted = tuple(
        one for one in sources_of(spec.table) if one.shards[0].name in work.shards
    )
    state = roll_back_writes(spark, spec, state)
    assert state.position is not None, "a table whose shards join has a load"
    applied = state.position.epoch_to
    with own_folder(spec) as folder:
        here = Reread(run, spark, access, gate, folder, work.stream, applied)
        read = read_anew(here, wanted, partial(_read, wanted))
        run.enter("comparing", unit="sides")
        rows = _rows(here, wanted, read)
        if rows is None:
            return _facts(work, None)
        run.enter("committing", unit="commits")
        done = commit_here(run, state, rows, is_unique=read.is_unique)
    return _facts(work, done)


def _facts(work: RepairWork, done: Commit | None) -> dict[str, Any]:
    return {**done_facts("join", done), "shards": [*work.shards]}


def _read(
    wanted: Sequence[TableSpec], here: Reread, source: Source, trial: Trial
) -> _Read:
    run, limits = here.run, here.access.spec
    tables = [look_at_one(run, source, one, was_wide=trial.was_wide) for one in wanted]
    since = None
    if here.stream:
        wait_for_shards(run, here.stream, [one.at_source for one in wanted])
        since = take_moment_behind_lake(here, source)
    rows, readers = fit_throttle(CHUNK_ROWS, limits), limits.max_parallel_reads
    cut = cut_all(run, source, tables, chunk_rows=rows, readers=readers)
    chunks = [(chunk, tables[chunk.shard]) for chunk in cut.chunks]
    found = read_chunks(here, source, cut.by, chunks)
    require_all_sent(here, since)
    return _Read(
        tuple(here.folder_of(n).uri for n, one in found.items() if one.rows),
        sum(one.unfit for one in found.values()),
        all(one.is_key_unique for one in tables),
    )


def _rows(here: Reread, wanted: Sequence[TableSpec], read: _Read) -> DataFrame | None:
    """What the lake gets, on disk; None = nothing."""
    run, table = here.run, here.run.spec.table
    selection = select_columns(dialect_of(here.access.spec.kind), table.columns)
    staged = read_staged(here.spark, selection, list(read.folders))
    values = [one.shards[0].value for one in wanted]
    lake = snapshot_of(here.spark, run.spec).where(
        F.col(f"`{table.shard_column}`").isin(values)
    )
    return rows_for_lake(here, staged, lake, selection, unfit=read.unfit)
