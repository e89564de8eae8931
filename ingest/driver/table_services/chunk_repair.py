"""What a verification found to differ is read again: chunks of the source with such
keys, and no others.

Their rows are written by one commit where the table is, at the same position. That is
exact: the source is read once all is visible that the lake can have by now, the job
holds the table, and what comes behind its position is applied over these rows. A key
that the source has no more is deleted; of those that only the lake has, nobody knows
the chunk, so all keys of the source are read first, of a sharded one those of the
shards that such keys are of. It must not know how keys are compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from core.errors import InvalidRequest
from core.sentences import Sentence
from ingest.contract.job import VERIFY_CHUNK_ROWS, RepairWork
from ingest.contract.positions import later
from ingest.contract.source_positions import is_of_log
from ingest.contract.table import ColumnSpec, TableSpec, sources_of
from ingest.driver.apply.apply import roll_back_writes
from ingest.driver.apply.jobrun import JobRun
from ingest.driver.apply.replacement import snapshot_of
from ingest.driver.apply.rows import first_of_key, read_staged, record_key
from ingest.driver.apply.writer import checked_state, commit_of, qualified_name
from ingest.driver.capture.chunking import Cut, cut_table, fit_throttle
from ingest.driver.capture.counting import count_rows, refuse_another_count
from ingest.driver.capture.gate import SourceGate
from ingest.driver.capture.reading import Trial, require_shown
from ingest.driver.capture.source_tables import SourceTable, look_at_one
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
from ingest.lake.hudi.identity import key_column
from ingest.lake.port import Place
from ingest.lake.staging import Differences, Differing
from ingest.maintenance.verdict import KINDS_OF_DIFFERENCE
from ingest.sources.chunks import Chunk
from ingest.sources.dialects import dialect_of
from ingest.sources.fingerprint import (
    ServerFingerprint,
    SourceFingerprint,
    from_data,
    is_recreated,
    to_data,
    what_changed,
)
from ingest.sources.port import Source, SourceAccess
from ingest.sources.select import Selection, select_columns, select_of

# With more keys a resync is the way: it writes no row twice.
MOST_KEYS = 1_000_000
_KEYS = "k string"


def keep_differences(
    run: JobRun,
    spark: SparkSession,
    folder: Place,
    chunks: tuple[Chunk, ...],
    *,
    server: ServerFingerprint,
    position: str,
) -> dict[str, int] | None:
    """Behind a verification that left its sides in `folder`: which keys differ, for a
    repair to come. How many `chunks` of how many it would read; None = nothing is kept,
    for nothing differs, or no repair by keys can mend that."""
    table = run.spec.table
    kept = Differences(table.staging)
    kept.clear()
    if not (folder / "differences").exists() or not is_repairable(table):
        return None
    found = spark.read.schema(f"kind string, {_KEYS}").parquet(
        (folder / "differences").uri
    )
    found = found.where(F.col("kind").isin(*KINDS_OF_DIFFERENCE))
    counted = {
        row["kind"]: row["count"] for row in found.groupBy("kind").count().collect()
    }
    if not 0 < sum(counted.values()) <= MOST_KEYS:
        return None
    keys = kept.keys(run.spec.job_id).uri
    found.select("kind", "k").write.mode("overwrite").parquet(keys)
    numbers = _chunks_with(spark, found, folder / "source") if chunks else ()
    extra = int(counted.get("extra", 0))
    seen = to_data(SourceFingerprint(server))
    kept.keep(
        Differing(
            run.spec.job_id,
            table.key,
            chunks,
            numbers,
            extra,
            seen,
            position,
            table.shards,
        )
    )
    every = max(1, len(chunks))
    return {"chunks": len(numbers) if chunks else every, "of": every}


def is_repairable(table: TableSpec) -> bool:
    """Whether a row can be written, and deleted, by its key."""
    return not table.row_hash and table.updates == "full"


def _chunks_with(
    spark: SparkSession, found: DataFrame, source: Place
) -> tuple[int, ...]:
    staged = spark.read.schema(_KEYS).option("recursiveFileLookup", "true")
    number = F.regexp_extract(F.input_file_name(), r"/source/(\d+)/", 1)
    rows = staged.parquet(source.uri).select("k", number.cast("int").alias("number"))
    hit = rows.join(found, "k", "left_semi").select("number").distinct()
    return tuple(sorted(row["number"] for row in hit.collect()))


# ------------------------------------------------------------------------ the repair


@dataclass(frozen=True, slots=True)
class _Repair:
    """What the steps of one attempt share. position: where the lake is. extra: the
    tables, by their places among `sources_of`, that keys are of which only the lake
    has."""

    here: Reread
    record: Differing
    selection: Selection
    position: str
    extra: frozenset[int]

    @property
    def run(self) -> JobRun:
        return self.here.run

    @property
    def wanted(self) -> list[Chunk]:
        """A key that only the lake has may be of any chunk of its table."""
        record, numbers = self.record, {*self.record.numbers}
        return [
            chunk
            for chunk in record.chunks
            if chunk.number in numbers or chunk.shard in self.extra
        ]

    @property
    def sources(self) -> dict[int, TableSpec]:
        """By their places the tables that are read."""
        wanted = {chunk.shard for chunk in self.wanted}
        return {
            number: table
            for number, table in enumerate(sources_of(self.run.spec.table))
            if number in wanted or not self.record.chunks
        }


@dataclass(frozen=True, slots=True)
class _Read:
    """What was read of the source. whole: folders of rows; keys: folders of the keys of
    other chunks. is_unique: the source guarantees the key."""

    whole: tuple[str, ...]
    keys: tuple[str, ...]
    unfit: int
    is_unique: bool


def repair_differences(
    run: JobRun,
    spark: SparkSession,
    work: RepairWork,
    access: SourceAccess,
    gate: SourceGate,
) -> dict[str, Any]:
    """The facts of its report. Whoever dies before the commit has done nothing."""
    spec, kept = run.spec, Differences(run.spec.table.staging)
    state = checked_state(spec)
    if done := commit_of(spec):
        kept.clear()
        return done_facts("repair", done)
    require_rereadable(spec, state)
    record = _record_for(run, kept, work)
    state = roll_back_writes(spark, spec, state)
    at = state.position
    assert at is not None, "a table that was compared has a load"
    selection = select_columns(dialect_of(access.spec.kind), spec.table.columns)
    with own_folder(spec) as folder:
        here = Reread(run, spark, access, gate, folder, work.stream, at.epoch_to)
        keys = kept.keys(record.verification).uri
        listed = spark.read.schema(f"kind string, {_KEYS}").parquet(keys)
        extra = _tables_of_extra(spec.table, record, listed)
        repair = _Repair(here, record, selection, at.end, extra)
        sources = [*repair.sources.values()]
        read = read_anew(here, sources, partial(_read, repair))
        run.enter("comparing", unit="sides")
        rows = _changed_rows(repair, read, listed)
        if rows is None:
            # no commit says so: whoever asks again finds the keys, and nothing to do
            return done_facts("repair", None)
        run.enter("committing", unit="commits")
        done = commit_here(run, state, rows, is_unique=read.is_unique)
    kept.clear()
    return done_facts("repair", done)


def _record_for(run: JobRun, kept: Differences, work: RepairWork) -> Differing:
    record, table = kept.record(), run.spec.table
    is_meant = record and record.verification == work.verification
    # by whose places chunks are of shards
    is_same = record and (record.key, record.shards) == (table.key, table.shards)
    if record and is_meant and is_same and is_repairable(table):
        return record
    raise InvalidRequest(
        "which rows of %(table)s differ from its source is not known any"
        " more. Nothing was read",
        table=qualified_name(run.spec),
        code="differences_gone",
        hint="verify the table, then repair what that finds",
    )


def _tables_of_extra(
    table: TableSpec, record: Differing, listed: DataFrame
) -> frozenset[int]:
    if not record.extra or not table.shards:
        return frozenset([0] if record.extra else [])
    values = listed.where("kind = 'extra'").select(first_of_key(F.col("k")).alias("v"))
    found = {row["v"] for row in values.distinct().collect()}
    return frozenset(
        number
        for number, one in enumerate(sources_of(table))
        if one.shards[0].value in found
    )


# ------------------------------------------------------------------------- the source


def _read(of: _Repair, here: Reread, source: Source, trial: Trial) -> _Read:
    # with the access that the source was reached by
    repair, run, record = replace(of, here=here), of.run, of.record
    _require_same_source(repair, source)
    tables = {
        number: look_at_one(run, source, one, was_wide=trial.was_wide)
        for number, one in repair.sources.items()
    }
    since = None
    if here.stream:
        since = take_moment_behind_lake(here, source)
    elif upto := cursor_position(run.spec.table, record.position, repair.position):
        require_shown(source, run.spec.table, upto)
    cut, whole = _cut(repair, source, tables)
    all_of = [one for one in cut.chunks if one.shard in repair.extra]
    counted = None
    if cut.by == "key" and len(all_of) > len(repair.extra):
        counted = count_rows(run, source, [tables[n].table for n in repair.extra])
    keys = {number: _keys_of(repair, source, one) for number, one in tables.items()}
    chunks = [
        (one, (tables if one.number in whole else keys)[one.shard])
        for one in cut.chunks
    ]
    found = read_chunks(here, source, cut.by, chunks)
    refuse_another_count(
        run, source, sum(found[one.number].rows for one in all_of), counted
    )
    require_all_sent(here, since)
    folders = {n: here.folder_of(n).uri for n, c in found.items() if c.rows}
    return _Read(
        tuple(uri for n, uri in folders.items() if n in whole),
        tuple(uri for n, uri in folders.items() if n not in whole),
        sum(c.unfit for n, c in found.items() if n in whole),
        all(one.is_key_unique for one in tables.values()),
    )


def _keys_of(repair: _Repair, source: Source, one: SourceTable) -> SourceTable:
    """The same table, of which only the keys are read."""
    keys = replace(one.table, columns=_key_columns(repair.run.spec.table))
    return replace(one, selection=select_of(source.dialect, keys))


def cursor_position(table: TableSpec, known: str, there: str) -> str:
    """Rows with a cursor up to here are meant to be in the lake; "" = no cursor is
    followed. known: by the services. there: the lake's, which is one of the log that
    the table left where no row came by its cursor since."""
    if table.cursor is None:
        return ""
    return known if is_of_log(there) else later(known, there)


def _require_same_source(repair: _Repair, source: Source) -> None:
    """What differed from another server, or from the table that was there, may be as it
    is here."""
    before = from_data(repair.record.source_fingerprint)
    now = source.source_fingerprint(sources_of(repair.run.spec.table)[0])
    changes = what_changed(before, now, source.clock().now)
    if is_recreated(before.server, now):
        changes = (Sentence("the table was dropped and created again"), *changes)
    if changes:
        raise InvalidRequest(
            "%(table)s was compared with another source: %(change)s. Nothing was read",
            table=qualified_name(repair.run.spec),
            change=changes[0],
            code="source_changed",
            hint="verify the table again, then repair what that finds",
        )


def _cut(
    repair: _Repair, source: Source, tables: Mapping[int, SourceTable]
) -> tuple[Cut, frozenset[int]]:
    """The chunks to read, and the numbers of those whose rows are read, not only their
    keys: all, where a table was or is not cut by its key."""
    record, limits = repair.record, repair.here.access.spec
    wanted = repair.wanted
    ranges = [chunk for chunk in wanted if chunk.low or chunk.high]
    if record.chunks and all(tables[chunk.shard].is_by_key for chunk in ranges):
        return Cut("key", tuple(wanted)), frozenset(record.numbers)
    if repair.run.spec.table.shards:
        chunks = tuple(Chunk(number, shard=number) for number in tables)
        return Cut("key", chunks), frozenset(tables)
    rows = fit_throttle(VERIFY_CHUNK_ROWS, limits)
    table = repair.run.spec.table
    with source.within(table):
        readers = limits.max_parallel_reads
        # one range of pages, or of no key: a cut by key would end at the highest
        cut = cut_table(
            repair.run, source, table, None, chunk_rows=rows, readers=readers
        )
    return cut, frozenset(c.number for c in cut.chunks)


def _keys_only(repair: _Repair) -> Selection:
    columns = _key_columns(repair.run.spec.table)
    return select_columns(dialect_of(repair.here.access.spec.kind), columns)


def _key_columns(table: TableSpec) -> tuple[ColumnSpec, ...]:
    return tuple(c for c in table.columns if c.source_name in table.key)


# --------------------------------------------------------------------------- the rows


def _changed_rows(repair: _Repair, read: _Read, listed: DataFrame) -> DataFrame | None:
    """What the lake gets, on disk: rows of these keys as the source has them, and those
    of the lake that have to go as deleted ones. None = nothing."""
    here, table, selection = repair.here, repair.run.spec.table, repair.selection
    staged = read_staged(here.spark, selection, list(read.whole))
    staged = staged.join(
        listed, record_key(table, selection) == listed["k"], "left_semi"
    )
    key = F.col(f"`{key_column(table)}`").cast("string")
    lake = snapshot_of(here.spark, repair.run.spec)
    lake = lake.join(listed, key == listed["k"], "left_semi")
    if read.keys:
        kept = read_staged(here.spark, _keys_only(repair), list(read.keys))
        there = kept.select(record_key(table, _keys_only(repair)).alias("k"))
        lake = lake.join(there, key == there["k"], "left_anti")
    return rows_for_lake(here, staged, lake, selection, unfit=read.unfit)
