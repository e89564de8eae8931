"""Rows that are read of the source again, written by one commit where the table is, at
the same position.

That is exact where the source is read once all is visible that the lake can have by
then, and the job holds the table: what comes behind its position is applied over these
rows. It must not know why they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, TypeVar

from pyspark.sql import Column, DataFrame, SparkSession, types
from pyspark.sql import functions as F

from core.errors import SluiceError, TransientError
from ingest.contract.job import JobSpec
from ingest.contract.positions import MAX_INDEX, seq_of
from ingest.contract.table import TableSpec
from ingest.driver.apply.apply import (
    refuse_other_types,
    refuse_unreadable_plan,
    require_loaded,
)
from ingest.driver.apply.jobrun import JobRun
from ingest.driver.apply.partitions import nameless_partitions
from ingest.driver.apply.replacement import own_columns, same_span
from ingest.driver.apply.rows import lake_rows, unfit_counts
from ingest.driver.apply.writer import Batch, commit_rows, qualified_name
from ingest.driver.capture.gate import SourceGate
from ingest.driver.capture.parallel import run_parallel
from ingest.driver.capture.reading import (
    Counts,
    Reading,
    Trial,
    open_stoppable,
    read_patiently,
    read_to_parquet,
)
from ingest.driver.capture.source_tables import SourceTable
from ingest.driver.table_services.verify_log import (
    Since,
    require_behind_lake,
    require_sent_values,
    take_moment_of,
)
from ingest.lake.commits import Commit, LakeState
from ingest.lake.hudi.identity import DELETED, SEQ, key_column, partition_columns
from ingest.lake.place import place_at
from ingest.lake.port import Place
from ingest.sources.chunks import Chunk, ChunkBy
from ingest.sources.port import Source, SourceAccess
from ingest.sources.select import Selection

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reread:
    """What the steps of one attempt share. stream: of the log that the table follows.
    applied: the epoch that the lake has."""

    run: JobRun
    spark: SparkSession
    access: SourceAccess
    gate: SourceGate
    folder: Place
    stream: str
    applied: int

    def folder_of(self, chunk: int) -> Place:
        return self.folder / "source" / f"{chunk:06d}"


def require_rereadable(spec: JobSpec, state: LakeState) -> None:
    """Its rows can be written as they would be read now."""
    require_loaded(spec, state)
    refuse_other_types(spec, state)
    refuse_unreadable_plan(spec, state)
    _require_columns_there(spec, state)


def _require_columns_there(spec: JobSpec, state: LakeState) -> None:
    """What brings a column to the lake also brings what older rows have in it, and
    would not look for that in one that has the column by then."""
    new = [c.source_name for c in spec.table.columns if c.name not in state.columns]
    if new:
        raise TransientError(
            "%(table)s has no rows yet with its new columns: %(columns)s. Nothing"
            " was read",
            table=qualified_name(spec),
            columns=", ".join(new),
            code="columns_not_there",
            hint="sync the table, or let its log go on; then it is repaired",
        )


@contextmanager
def own_folder(spec: JobSpec) -> Iterator[Place]:
    """Of this attempt; what dead ones left goes first. The caller has checked the
    fence, so no job works there any more."""
    area = place_at(spec.table.staging) / ("verify" if spec.verify else "repair")
    area.delete_all()
    own = area / f"{spec.job_id}-{spec.attempt}"
    try:
        yield own
    finally:
        # what is left here goes with the next attempt
        with suppress(SluiceError):
            own.delete_all()
            if not area.names():
                area.delete_all()


def read_anew(
    here: Reread,
    tables: Sequence[TableSpec],
    read: Callable[[Reread, Source, Trial], T],
) -> T:
    """What `read` returns, tried as `read_patiently` does."""
    with open_stoppable(here.run, here.access) as (source, access):
        inside = replace(here, access=access)

        def tried(trial: Trial) -> T:
            # what a try before staged is of another moment
            inside.folder.delete_all()
            inside.run.enter("planning")
            return read(inside, source, trial)

        return read_patiently(here.run, source, tried, tables=tables)


def done_facts(action: str, done: Commit | None) -> dict[str, Any]:
    """Of a report; None = there was nothing to commit."""
    facts: dict[str, Any] = {
        "action": action,
        "written": done.rows_written if done else 0,
        "deleted": done.rows_deleted if done else 0,
    }
    return facts | ({"instant": done.instant.asked} if done else {})


def take_moment_behind_lake(here: Reread, source: Source) -> Since:
    """A commit is in the log, and so in the lake, before others see it."""
    since = take_moment_of(here.run, source, here.stream)
    require_behind_lake(here.run, since, since.at or source.here())
    return since


def read_chunks(
    here: Reread,
    source: Source,
    by: ChunkBy,
    chunks: Sequence[tuple[Chunk, SourceTable]],
) -> dict[int, Counts]:
    """Each of its table, into a folder of its own; what was read, by their numbers."""
    run, found = here.run, dict[int, Counts]()
    can_renew = by == "key" and not here.stream

    def read(of: tuple[Chunk, SourceTable]) -> None:
        chunk, one = of
        sql = one.sql(source, one.where(source, by, chunk))
        with (
            here.gate.reading(run),
            source.reading(one.table, can_renew=can_renew) as snapshot,
        ):
            reading = Reading(
                one.table, here.access, one.selection, sql, snapshot, one.fetch
            )
            folder = here.folder_of(chunk.number)
            counts = read_to_parquet(run, here.spark, reading, folder)
        here.gate.account(counts.rows)
        found[chunk.number] = counts
        run.add_done(1)

    run.enter("reading", total=len(chunks), unit="chunks")
    run_parallel(run, chunks, read, threads=here.access.spec.max_parallel_reads)
    return found


def require_all_sent(here: Reread, since: Since | None) -> None:
    """A log whose readers have no such moment sends all values."""
    if since and since.at:
        require_sent_values(here.run, since, applied=here.applied)


def rows_for_lake(
    here: Reread,
    staged: DataFrame,
    lake: DataFrame,
    selection: Selection,
    *,
    unfit: int,
) -> DataFrame | None:
    """What the lake gets, on disk: these rows of the source, and those of `lake` that
    are not among them as deleted ones; None = there are neither. unfit: values of the
    source that have no form in the lake."""
    run, table = here.run, here.run.spec.table
    if unfit:
        run.note_lossy(unfit_counts(staged, selection))
    run.note_lossy(nameless_partitions(staged, table, selection))
    # above all that the epoch has brought, and below the next one
    seq = F.lit(seq_of(here.applied, MAX_INDEX)).cast("bigint")
    rows = lake_rows(staged, table, selection, seq=seq)
    gone = _without(lake, rows, [key_column(table), *partition_columns(table)])
    own = {SEQ: seq, DELETED: F.lit(True)}  # noqa: FBT003
    names = [c for c in own_columns(lake) if c in rows.columns]
    deletes = gone.select(*(own.get(c, F.col(f"`{c}`")).alias(c) for c in names))
    both = rows.unionByName(deletes, allowMissingColumns=True)
    target = here.folder / "rows"
    both.write.parquet(target.uri)
    found = here.spark.read.schema(rows.schema).parquet(target.uri)
    found = found.select(*(_as_solid(field) for field in rows.schema))
    return None if found.isEmpty() else found


def _as_solid(field: types.StructField) -> Column:
    """A file says of no column that it is never NULL, and Hudi would widen the table's
    schema."""
    value = F.col(f"`{field.name}`")
    if not field.nullable:
        value = F.coalesce(value, F.lit(0).cast(field.dataType))
    return value.alias(field.name)


def _without(rows: DataFrame, others: DataFrame, names: list[str]) -> DataFrame:
    """Rows with a key and a partition that none of the others has."""
    left, right = rows.alias("l"), others.select(*(f"`{n}`" for n in names)).alias("r")
    same: list[Column] = [
        F.col(f"l.`{n}`").eqNullSafe(F.col(f"r.`{n}`")) for n in names
    ]
    return left.join(right, reduce(Column.__and__, same), "left_anti")


def commit_here(
    run: JobRun, state: LakeState, rows: DataFrame, *, is_unique: bool
) -> Commit:
    """At the position where the table is: what comes behind it goes on as before."""
    position = state.position
    assert position is not None
    span = replace(same_span(position), unsent=position.unsent)
    run.check()
    batch = Batch(rows, "upsert", span, unique_keys=is_unique)
    return commit_rows(run.spec, batch, state)
