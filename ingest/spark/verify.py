"""Source against lake at rest: each side is read once as (key, hash) and summed.

Sums per bucket of keys are compared first; only buckets that differ are joined by
key, for which the lake is read a second time. It writes nothing but staged hashes
of its own, and must not know how a difference is worded.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, Observation, SparkSession, Window
from pyspark.sql import functions as F

from core.errors import InvalidRequest
from ingest.changes.chunks import Chunk
from ingest.changes.dialects import dialect_of
from ingest.changes.positions import from_text
from ingest.changes.select import Selection, select_columns
from ingest.changes.verdict import (
    KEYS_LISTED,
    Comparison,
    Sums,
    differing_buckets,
    facts_of,
    readable_key,
)
from ingest.contract import JobSpec, VerifyWork
from ingest.hudi.identity import COUNT, DELETED, KEY, key_column
from ingest.lake.commits import LakeState, read_lake_table
from ingest.lake.files import local_path
from ingest.lake.staging import require_space
from ingest.spark.chunking import cut_table, fit_throttle, key_parts, predicate_for
from ingest.spark.gate import SourceGate
from ingest.spark.jdbc import read_statement
from ingest.spark.jobrun import JobRun
from ingest.spark.parallel import run_parallel
from ingest.spark.reading import open_stoppable
from ingest.spark.rows import content_hash, record_key, spark_type
from ingest.spark.source_check import require_columns
from ingest.spark.sources import SourceAccess
from ingest.spark.writer import checked_state, qualified_name

_BUCKETS = 1 << 16
_LOW_HALF = 0xFFFFFFFF
_LOOKS = 5
_STAGED_BYTES = 40
# that one task joins at most, about
_JOINED_ROWS = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class _Check:
    """What the steps of one attempt share. `position` "" = no cursor is followed."""

    run: JobRun
    spark: SparkSession
    access: SourceAccess
    gate: SourceGate
    selection: Selection
    folder: Path
    position: str


def verify_table(
    run: JobRun, spark: SparkSession, access: SourceAccess, gate: SourceGate
) -> dict[str, Any]:
    """Kind verify; the facts of its report. The lake's snapshot is taken before the
    source's, so a row that the lake has and the source has not is really extra."""
    spec = run.spec
    run.enter("checking")
    state = checked_state(spec)
    if not state.timeline.completed_writes:
        raise InvalidRequest(
            f"lake table {qualified_name(spec)} has no load yet",
            code="not_loaded",
            hint="load the table first",
        )
    with _own_folder(spec) as folder:
        frame, state = _lake_snapshot(spark, spec, state)
        check = _Check(
            run,
            spark,
            access,
            gate,
            select_columns(dialect_of(access.spec.kind), spec.table.columns),
            folder,
            _position(spec, state),
        )
        _stage_source(check)
        found, keys = _compare(check, _staged(check), _lake_side(check, frame))
    newest = state.timeline.completed_writes[-1].asked
    return facts_of(found, keys=keys, instant=newest, position=check.position)


@contextmanager
def _own_folder(spec: JobSpec) -> Iterator[Path]:
    """A folder of this attempt; what dead attempts left goes first. The caller has
    checked the fence, so nobody works there any more."""
    require_space(spec.table.staging, spec.table.estimated_rows * _STAGED_BYTES)
    area = local_path(spec.table.staging) / "verify"
    shutil.rmtree(area, ignore_errors=True)
    folder = area / f"{spec.job_id}-{spec.attempt}"
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if area.is_dir() and not any(area.iterdir()):
            area.rmdir()


def _lake_snapshot(
    spark: SparkSession, spec: JobSpec, state: LakeState
) -> tuple[DataFrame, LakeState]:
    """The newest snapshot and a state that is not newer than it; the same one
    unless rounds commit faster than it can be opened."""
    path = str(local_path(spec.table.path))
    before = state
    for _ in range(_LOOKS):
        before, frame = state, spark.read.format("hudi").load(path)
        state = read_lake_table(spec.table.path)
        if state.timeline.completed_writes == before.timeline.completed_writes:
            break
    return frame, before


def _position(spec: JobSpec, state: LakeState) -> str:
    """Rows with a cursor up to here are meant to be in that state."""
    if spec.table.cursor is None:
        return ""
    known = (spec.verify or VerifyWork()).position
    return max(known, state.position.end if state.position else "")


# ------------------------------------------------------------------- both sides


def _stage_source(check: _Check) -> None:
    run, table = check.run, check.run.spec.table
    work = run.spec.verify or VerifyWork()
    limits = check.access.spec
    with open_stoppable(run, check.access) as (source, access):
        check = replace(check, access=access)
        run.enter("planning")
        require_columns(source, table, run.warn)
        facts = None if table.row_hash else source.key_facts(table, table.key)
        snapshot = source.begin_snapshot()
        cut = cut_table(
            run,
            source,
            facts,
            chunk_rows=fit_throttle(work.chunk_rows, limits),
            readers=limits.max_parallel_reads,
        )
        view = (snapshot, source.row_bytes(table))
        run.enter("reading", total=table.estimated_rows or None)

        def read(chunk: Chunk) -> None:
            where = predicate_for(
                source.dialect, cut.by, key_parts(table, facts), chunk
            )
            with check.gate.reading(run.check):
                rows = _read_chunk(check, chunk, where, view)
            check.gate.account(rows)
            run.add_done(rows)

        run_parallel(run, cut.chunks, read, threads=limits.max_parallel_reads)


def _read_chunk(check: _Check, chunk: Chunk, where: str, view: tuple[str, int]) -> int:
    run, table = check.run, check.run.spec.table
    run.check()
    dialect = dialect_of(check.access.spec.kind)
    relation = dialect.qualified(table.source_schema, table.source_table)
    observed = Observation()
    rows = read_statement(
        check.spark,
        check.access,
        check.selection,
        sql=check.selection.sql(relation, where),
        snapshot=view[0],
        row_bytes=view[1],
    )
    hashed = rows.select(
        record_key(table, check.selection).alias("k"),
        content_hash(check.selection).alias("h"),
        F.lit(1).cast("bigint").alias("n"),
        _is_pending(check).alias("p"),
    ).observe(observed, F.count(F.lit(1)).alias("rows"))
    target = check.folder / "source" / f"{chunk.number:06d}"
    hashed.write.parquet(target.as_uri())
    return int(observed.get["rows"])


def _staged(check: _Check) -> DataFrame:
    staged = check.spark.read.schema("k string, h bigint, n bigint, p boolean")
    return staged.option("recursiveFileLookup", "true").parquet(
        (check.folder / "source").as_uri()
    )


def _is_pending(check: _Check) -> Column:
    """Newer than the table's position: no round was meant to have brought it."""
    table = check.run.spec.table
    if not check.position:
        return F.lit(False)  # noqa: FBT003
    number = next(
        i for i, c in enumerate(table.columns) if c.source_name == table.cursor
    )
    column = check.selection.columns[number]
    since = from_text(check.position) - _EPOCH
    micros = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    limit = F.expr(f"timestamp_micros({micros}L)").cast(column.type)
    return F.coalesce(F.col(column.alias) > limit, F.lit(False))  # noqa: FBT003


def _lake_side(check: _Check, frame: DataFrame) -> DataFrame:
    """Alive rows of the lake in the shape of staged ones."""
    table = check.run.spec.table
    present = set(frame.columns)
    values = []
    for column in check.selection.columns:
        value = F.col(f"`{column.name}`") if column.name in present else F.lit(None)
        if column.name not in present:
            check.run.warn(f"the lake table has no column {column.name}: NULL there")
        values.append(value.cast(spark_type(column.type)).alias(column.alias))
    alive = ~F.coalesce(F.col(DELETED), F.lit(False))  # noqa: FBT003
    count = F.col(COUNT) if table.row_hash else F.lit(1)
    key = F.col(f"`{key_column(table)}`").cast("string")
    rows = frame.where(alive).select(
        *values, key.alias("k"), count.cast("bigint").alias("n")
    )
    hashed = content_hash(check.selection).alias("h")
    return rows.select("k", hashed, "n", F.lit(False).alias("p"))  # noqa: FBT003


# ------------------------------------------------------------------- comparison


def _compare(
    check: _Check, source: DataFrame, lake: DataFrame
) -> tuple[Comparison, dict[str, list[str]]]:
    run = check.run
    run.enter("comparing", total=2, unit="sides")
    of_source = _sums(source)
    run.add_done(1)
    run.check()
    of_lake = _sums(lake)
    run.add_done(1)
    rows = [sum(s[0] for s in sums.values()) for sums in (of_source, of_lake)]
    buckets = differing_buckets(of_source, of_lake)
    if not buckets:
        return Comparison(*rows), {}
    run.enter("listing differences", unit="steps")
    size = max(rows)
    differences = _differences(check, source, lake, buckets=buckets, size=size)
    counted = {r["kind"]: int(r["keys"]) for r in _count(differences)}
    return Comparison(*rows, **counted), _keys(check, differences)


def _bucket() -> Column:
    return F.pmod(F.xxhash64("k"), F.lit(_BUCKETS)).cast("int")


def _sums(side: DataFrame) -> dict[int, Sums]:
    """Rows and hashes of each bucket. The halves of a hash are summed apart, so that
    nothing overflows below 2^31 rows in a bucket."""
    mixed = side.select(_bucket().alias("b"), "n", F.xxhash64("k", "h").alias("x"))
    low = F.col("x").bitwiseAND(F.lit(_LOW_HALF))
    high = F.shiftrightunsigned("x", 32)
    found = mixed.groupBy("b").agg(
        F.sum("n"), F.sum(F.col("n") * low), F.sum(F.col("n") * high)
    )
    return {int(r[0]): (int(r[1]), int(r[2]), int(r[3])) for r in found.collect()}


def _differences(
    check: _Check,
    source: DataFrame,
    lake: DataFrame,
    *,
    buckets: list[int],
    size: int,
) -> DataFrame:
    """(kind, key, rows) of every key that is not the same on both sides, on disk:
    they may be all there are. `size` is the rows of the larger side."""
    parts = 1 + size * len(buckets) // _BUCKETS // _JOINED_ROWS
    if len(buckets) < _BUCKETS:
        wanted = F.broadcast(
            check.spark.createDataFrame([(b,) for b in buckets], "b int")
        )
        source, lake = (
            side.withColumn("b", _bucket()).join(wanted, "b", "left_semi")
            for side in (source, lake)
        )
    left = _by_key(source, "s", parts=parts)
    right = _by_key(lake, "l", parts=parts)
    both = left.join(right, "k", "full_outer")
    is_same = (F.col("sn") == F.col("ln")) & (
        (F.col("slow") == F.col("llow")) & (F.col("shigh") == F.col("lhigh"))
    )
    kind = (
        F.when(F.col("sn").isNull(), "extra")
        .when(F.col("sp"), "pending")
        .when(F.col("ln").isNull(), "missing")
        .otherwise("different")
    )
    rows = (
        F.when(F.col("sn").isNull(), F.col("ln"))
        .when(F.col("ln").isNull() & ~F.col("sp"), F.col("sn"))
        .otherwise(1)
    )
    unlike = both.where(~F.coalesce(is_same, F.lit(False))).select(  # noqa: FBT003
        kind.alias("kind"), "k", rows.cast("bigint").alias("rows")
    )
    target = (check.folder / "differences").as_uri()
    unlike.write.parquet(target)
    return check.spark.read.schema("kind string, k string, rows bigint").parquet(target)


def _by_key(side: DataFrame, name: str, *, parts: int) -> DataFrame:
    """One row per key; a key that is NULL at the source is like no key of the lake."""
    keyed = side.withColumn("k", F.coalesce("k", F.lit(""))).repartition(parts, "k")
    return keyed.groupBy("k").agg(
        F.sum("n").alias(f"{name}n"),
        F.min("h").alias(f"{name}low"),
        F.max("h").alias(f"{name}high"),
        F.max("p").alias(f"{name}p"),
    )


def _count(differences: DataFrame) -> list[Any]:
    return differences.groupBy("kind").agg(F.sum("rows").alias("keys")).collect()


def _keys(check: _Check, differences: DataFrame) -> dict[str, list[str]]:
    """The first of each kind; short ones first, so that numbers are in order."""
    table = check.run.spec.table
    parts = 0 if table.row_hash else len(table.key)
    is_native = key_column(table) != KEY
    order = Window.partitionBy("kind").orderBy(F.length("k"), "k")
    first = differences.withColumn("place", F.row_number().over(order))
    wanted = first.where(F.col("kind") != "pending").where(
        F.col("place") <= KEYS_LISTED
    )
    keys: dict[str, list[str]] = {}
    for row in wanted.orderBy("kind", "place").collect():
        text = readable_key(row["k"], parts=parts, is_native=is_native)
        keys.setdefault(row["kind"], []).append(text)
    return keys
