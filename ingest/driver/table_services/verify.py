"""Source against lake at rest: each side is read once as (key, hash) and summed.

Where the two sums are the same, so are the rows. Only else are keys compared, for
which the source's staged hashes suffice and the lake is read a second time. It writes
nothing but hashes of its own, and must not know how a difference is worded.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from ingest.contract.job import JobSpec, VerifyWork
from ingest.contract.positions import from_text
from ingest.contract.table import SourceSpec, sources_of
from ingest.driver.apply.apply import require_loaded
from ingest.driver.apply.jobrun import JobRun
from ingest.driver.apply.rows import column_hashes, content_hash, record_key, spark_type
from ingest.driver.apply.writer import checked_state
from ingest.driver.capture.chunking import fit_throttle
from ingest.driver.capture.counting import count_rows, refuse_another_count
from ingest.driver.capture.gate import Pace, SourceGate
from ingest.driver.capture.jdbc import Fetch, read_statement
from ingest.driver.capture.parallel import run_parallel
from ingest.driver.capture.reading import (
    Trial,
    open_stoppable,
    read_patiently,
    require_shown,
)
from ingest.driver.capture.source_fingerprint import ahead_of, count_ahead
from ingest.driver.capture.source_tables import cut_all, look_at
from ingest.driver.table_services.chunk_repair import cursor_position, keep_differences
from ingest.driver.table_services.differences import (
    Sides,
    differing_keys,
    rows_and_hash,
)
from ingest.driver.table_services.reread import own_folder
from ingest.driver.table_services.verify_log import (
    Since,
    changed_keys,
    take_moment_of,
    wait_applied,
)
from ingest.lake.commits import LakeState, read_lake_table
from ingest.lake.hudi.identity import COUNT, DELETED, key_column
from ingest.lake.place import place_at
from ingest.lake.port import Place
from ingest.lake.staging import require_space
from ingest.maintenance.verdict import Comparison, Sums, facts_of
from ingest.sources.chunks import Chunk
from ingest.sources.dialects import dialect_of
from ingest.sources.fingerprint import ServerFingerprint
from ingest.sources.port import Snapshot, Source, SourceAccess
from ingest.sources.select import Selection, select_columns
from ingest.sources.statements import has_zone

# sums of the source's rows, and the chunks by key in which they lie
_Read = tuple[Sums, tuple[Chunk, ...]]
_LOOKS = 5
_STAGED = ("k", "h", "n", "p", "c")
# of a row of both sides, and of each of its columns where updates are partial
_STAGED_BYTES = 80
_STAGED_BYTES_PER_COLUMN = 18
# hashes neither repeat nor compress
_STAGED_PARQUET = {
    "compression": "uncompressed",
    "parquet.enable.dictionary": "false",
}
# A batch of the lake's rows lies in buffers that double while they grow, beside the
# page from which they come.
_ROW_BY_ROW = ("spark.sql.parquet.enableVectorizedReader", "false")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class _Check:
    """What the steps of one attempt share. `position` "" = no cursor is followed; rows
    with a cursor beyond `until` are ahead of the source's clock. `stream` "" = no log
    is followed."""

    run: JobRun
    spark: SparkSession
    access: SourceAccess
    gate: SourceGate
    pace: Pace
    selection: Selection
    folder: Place
    position: str
    stream: str = ""
    until: str = ""


@dataclass(frozen=True, slots=True)
class _Lake:
    """A snapshot. changed: column `k`, keys that may differ for they changed at the
    source between its snapshot and this one; None = such keys are not known."""

    frame: DataFrame
    state: LakeState
    changed: DataFrame | None = None


@dataclass(frozen=True, slots=True)
class _Staged:
    """The source's side: the sums over all rows, whose keys and hashes are on disk, how
    many rows have a cursor ahead of its clock, the chunks by key in which they lie, ()
    = in others, the lake to compare it with, and who the source was."""

    sums: Sums
    ahead: int
    chunks: tuple[Chunk, ...]
    lake: _Lake
    server: ServerFingerprint


def verify_table(
    run: JobRun, spark: SparkSession, access: SourceAccess, gate: SourceGate
) -> dict[str, Any]:
    """Kind verify; the facts of its report. The lake's snapshot is taken before the
    source's, so a row that the lake has and the source has not is really extra; of a
    table that follows a log it is taken right behind, see `verify_log`."""
    spec = run.spec
    run.enter("checking")
    state = checked_state(spec, adds=False)
    require_loaded(spec, state)
    # with settings that are this job's alone
    spark = spark.newSession()
    work = spec.verify or VerifyWork()
    wide = len(spec.table.columns) if spec.table.updates == "partial" else 0
    row_bytes = _STAGED_BYTES + wide * _STAGED_BYTES_PER_COLUMN
    require_space(spec.table.staging, spec.table.estimated_rows * row_bytes)
    with own_folder(spec) as folder:
        lake = _lake_snapshot(spark, spec, state)
        end = lake.state.position.end if lake.state.position else ""
        check = _Check(
            run,
            spark,
            access,
            gate,
            Pace(work.rows_per_second),
            select_columns(dialect_of(access.spec.kind), spec.table.columns),
            folder,
            cursor_position(spec.table, work.position, end),
            work.stream,
        )
        source = _stage_source(check, lake)
        found, keys = _compare(check, source)
        found = replace(found, ahead=source.ahead)
        again = keep_differences(
            run,
            spark,
            folder,
            source.chunks,
            server=source.server,
            position=check.position,
        )
    newest = source.lake.state.timeline.completed_writes[-1].asked
    return facts_of(
        found,
        keys=keys,
        instant=newest,
        position=check.position,
        is_log=bool(work.stream),
        again=again,
    )


def _lake_snapshot(spark: SparkSession, spec: JobSpec, state: LakeState) -> _Lake:
    """The newest snapshot and a state that is not newer than it; the same one
    unless syncs commit faster than it can be opened."""
    path = place_at(spec.table.path).uri
    before = state
    for _ in range(_LOOKS):
        before, frame = state, spark.read.format("hudi").load(path)
        state = read_lake_table(spec.table.path)
        if state.timeline.completed_writes == before.timeline.completed_writes:
            break
    return _Lake(frame, before)


# ------------------------------------------------------------------- both sides


def _stage_source(check: _Check, lake: _Lake) -> _Staged:
    table = check.run.spec.table
    with open_stoppable(check.run, check.access) as (source, access):
        check = replace(check, access=access)
        if check.position:
            until = ahead_of(source.clock(), is_zoned=has_zone(table))
            check = replace(check, until=until)

        def read(trial: Trial) -> _Staged:
            if check.position:
                require_shown(source, table, check.position)
            server = source.source_fingerprint(sources_of(table)[0])
            (sums, chunks), at = _read_beside(check, source, lake, trial)
            until = check.until
            ahead = count_ahead(source, table, until) if until else 0
            return _Staged(sums, ahead, chunks, at, server)

        return read_patiently(check.run, source, read)


def _read_beside(
    check: _Check, source: Source, lake: _Lake, trial: Trial
) -> tuple[_Read, _Lake]:
    """What the source has, and the lake as it was, or right behind the moments in which
    the source is read: of one for all chunks it is known before, else once all are
    read."""
    if not check.stream:
        return _read_source(check, source, trial), lake
    check.run.enter("taking a moment of the source")
    since = take_moment_of(check.run, source, check.stream)
    if since.at:
        # nobody else reads in the snapshot yet, which would end for want of readers
        with source.reading(sources_of(check.run.spec.table)[0], can_renew=False):
            found = _right_behind(check, since)
            return _read_source(check, source, trial), found
    read = _read_source(check, source, trial)
    at = source.here()
    return read, _right_behind(check, replace(since, at=at))


def _right_behind(check: _Check, since: Since) -> _Lake:
    """The lake, once it has all that the source showed."""
    run, spec = check.run, check.run.spec
    wait_applied(run, since)
    found = _lake_snapshot(check.spark, spec, read_lake_table(spec.table.path))
    position = found.state.position
    with tempfile.TemporaryDirectory(prefix="sluice-verify-") as scratch:
        changed = changed_keys(
            run,
            check.spark,
            since,
            check.selection,
            upto=position.epoch_to if position else 0,
            scratch=Path(scratch),
        )
        place = (check.folder / "changed").uri
        changed.write.mode("overwrite").parquet(place)
    keys = check.spark.read.schema("k string").parquet(place)
    return replace(found, changed=keys)


def _read_source(check: _Check, source: Source, trial: Trial) -> _Read:
    run, table = check.run, check.run.spec.table
    work = run.spec.verify or VerifyWork()
    limits = check.access.spec
    # what a try before staged is of another moment
    (check.folder / "source").delete_all()
    run.enter("planning")
    tables = look_at(run, source, was_wide=trial.was_wide)
    cut = cut_all(
        run,
        source,
        tables,
        chunk_rows=fit_throttle(work.chunk_rows, _slower(limits, work)),
        readers=limits.max_parallel_reads,
    )
    chunks = cut.chunks
    is_ranged = cut.by == "key" and len(chunks) > len(tables)
    counted = None
    if is_ranged:
        counted = count_rows(run, source, [one.table for one in tables])
    if any(one.fetch.is_of_wide_rows for one in tables):
        check.spark.conf.set(*_ROW_BY_ROW)
    run.enter("reading", total=table.estimated_rows or None)
    sums: list[Sums] = []
    can_renew = cut.by == "key" and not check.stream

    def read(chunk: Chunk) -> None:
        one = tables[chunk.shard]
        sql = one.sql(source, one.where(source, cut.by, chunk))
        check.pace.wait(run)
        with (
            check.gate.reading(run),
            source.reading(one.table, can_renew=can_renew) as snapshot,
        ):
            found = _read_chunk(check, chunk, sql, (snapshot, one.fetch))
        check.gate.account(found.rows)
        check.pace.account(found.rows)
        run.add_done(found.rows)
        sums.append(found)

    run_parallel(run, chunks, read, threads=limits.max_parallel_reads)
    found = Sums.total(sums)
    refuse_another_count(run, source, found.rows, counted)
    return found, tuple(chunks) if cut.by == "key" else ()


def _slower(limits: SourceSpec, work: VerifyWork) -> SourceSpec:
    """The source's limits with the lower one of both rates."""
    rates = [r for r in (limits.max_rows_per_second, work.rows_per_second) if r]
    return replace(limits, max_rows_per_second=min(rates, default=0))


def _read_chunk(
    check: _Check, chunk: Chunk, sql: str, view: tuple[Snapshot, Fetch]
) -> Sums:
    run, table = check.run, check.run.spec.table
    run.check()
    observed = Observation()
    rows = read_statement(
        check.spark,
        check.access,
        check.selection,
        sql=sql,
        snapshot=view[0],
        fetch=view[1],
    )
    hashed = rows.select(
        record_key(table, check.selection).alias("k"),
        content_hash(check.selection).alias("h"),
        F.lit(1).cast("bigint").alias("n"),
        _is_pending(check).alias("p"),
        _by_column(check),
    )
    counted = hashed.observe(observed, *rows_and_hash())
    target = check.folder / "source" / f"{chunk.number:06d}"
    _stage(counted.select(*_STAGED), target)
    return Sums.of(observed.get)


def _by_column(check: _Check) -> Column:
    """What tells a kept value from another one; NULL where rows count as wholes."""
    if check.run.spec.table.updates == "partial":
        return column_hashes(check.selection).alias("c")
    return F.lit(None).cast("array<bigint>").alias("c")


def _stage(rows: DataFrame, target: Place) -> None:
    rows.write.options(**_STAGED_PARQUET).parquet(target.uri)


def _staged(check: _Check, side: str, lake: _Lake) -> DataFrame:
    staged = check.spark.read.schema(
        "k string, h bigint, n bigint, p boolean, c array<bigint>"
    )
    rows = staged.option("recursiveFileLookup", "true").parquet(
        (check.folder / side).uri
    )
    if lake.changed is None:
        return rows
    changed = lake.changed.withColumn("known", F.lit(True))  # noqa: FBT003
    marked = rows.join(changed, "k", "left")
    return marked.withColumn("p", F.col("known").isNotNull()).select(*_STAGED)


def _is_pending(check: _Check) -> Column:
    """Newer than the table's position: the next sync brings it, unless it is ahead of
    the source's clock."""
    table = check.run.spec.table
    if not check.position:
        return F.lit(False)  # noqa: FBT003
    number = next(
        i for i, c in enumerate(table.columns) if c.source_name == table.cursor
    )
    column = check.selection.columns[number]
    cursor = F.col(column.alias)
    newer = (cursor > _moment(check.position, column.type)) & (
        cursor <= _moment(check.until, column.type)
    )
    return F.coalesce(newer, F.lit(False))  # noqa: FBT003


def _moment(text: str, type: str) -> Column:
    since = from_text(text) - _EPOCH
    micros = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    return F.expr(f"timestamp_micros({micros}L)").cast(type)


def _lake_side(check: _Check, frame: DataFrame) -> DataFrame:
    """Alive rows of the lake in the shape of staged ones; none of shards that are gone
    at the source, to which there is nothing to compare."""
    table = check.run.spec.table
    present = set(frame.columns)
    values = []
    for column in check.selection.columns:
        value = F.col(f"`{column.name}`") if column.name in present else F.lit(None)
        if column.name not in present:
            check.run.warn(
                "the lake table has no column %(column)s: NULL there",
                column=column.name,
            )
        values.append(value.cast(spark_type(column.type)).alias(column.alias))
    alive = ~F.coalesce(F.col(DELETED), F.lit(False))  # noqa: FBT003
    count = F.col(COUNT) if table.row_hash else F.lit(1)
    key = F.col(f"`{key_column(table)}`").cast("string")
    if gone := [one.value for one in table.shards if one.gone]:
        alive = alive & ~F.col(f"`{table.shard_column}`").isin(gone)
    rows = frame.where(alive).select(
        *values, key.alias("k"), count.cast("bigint").alias("n")
    )
    hashed = content_hash(check.selection).alias("h")
    not_pending = F.lit(False).alias("p")  # noqa: FBT003
    return rows.select("k", hashed, "n", not_pending, _by_column(check))


# ------------------------------------------------------------------- comparison


def _compare(check: _Check, source: _Staged) -> tuple[Comparison, dict[str, list[str]]]:
    run, of_source, lake = check.run, source.sums, _lake_side(check, source.lake.frame)
    run.enter("comparing", unit="sides")
    first = lake.agg(*rows_and_hash()).first()
    assert first is not None, "an aggregate without groups has a row"
    of_lake = Sums.of(first.asDict())
    rows = (of_source.rows, of_lake.rows)
    if of_source == of_lake:
        return Comparison(*rows), {}
    run.enter("listing differences", unit="steps")
    _stage(lake, check.folder / "lake")
    run.check()
    ours, theirs = (_staged(check, side, source.lake) for side in ("source", "lake"))
    sides = Sides(ours, theirs, size=max(rows))
    target = (check.folder / "differences").uri
    counted, keys = differing_keys(run, check.spark, sides, target)
    return Comparison(*rows, **counted), keys
