"""Rows that are read of the source again, written by one commit where the table is, at
the same position.

That is exact where the source is read once all is visible that the lake can have by
then, and the job holds the table: what comes behind its position is applied over these
rows. It must not know why they are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from core.errors import TransientError
from core.sentences import Sentence
from ingest.contract.job import JobSpec
from ingest.contract.table import TableSpec
from ingest.driver.apply.jobrun import JobRun
from ingest.driver.apply.replacement import own_columns, same_span
from ingest.driver.apply.writer import Batch, commit_rows, qualified_name
from ingest.lake.commits import Commit, LakeState
from ingest.lake.hudi.identity import DELETED, SEQ, key_column, partition_columns
from ingest.lake.place import place_at
from ingest.lake.port import Place


def require_columns_there(spec: JobSpec, state: LakeState) -> None:
    """What brings a column to the lake also brings what older rows have in it, and
    would not look for that in one that has the column by then."""
    new = [c.source_name for c in spec.table.columns if c.name not in state.columns]
    if new:
        raise TransientError(
            Sentence(
                "%(table)s has no rows yet with its new columns: %(columns)s. Nothing"
                " was read",
                table=qualified_name(spec),
                columns=", ".join(new),
            ),
            code="columns_not_there",
            hint="sync the table, or let its log go on; then it is repaired",
        )


@contextmanager
def own_folder(run: JobRun) -> Iterator[Place]:
    """Of this attempt; what dead ones left goes first."""
    area = place_at(run.spec.table.staging) / "repair"
    area.delete_all()
    own = area / f"{run.spec.job_id}-{run.spec.attempt}"
    try:
        yield own
    finally:
        own.delete_all()


def with_deletes(
    spark: SparkSession,
    table: TableSpec,
    rows: DataFrame,
    lake: DataFrame,
    *,
    seq: Column,
    target: Place,
) -> DataFrame | None:
    """These rows, on disk, and those of `lake` that are not among them as deleted ones;
    None = there are neither."""
    gone = _without(lake, rows, [key_column(table), *partition_columns(table)])
    own = {SEQ: seq, DELETED: F.lit(True)}  # noqa: FBT003
    names = [c for c in own_columns(lake) if c in rows.columns]
    deletes = gone.select(*(own.get(c, F.col(f"`{c}`")).alias(c) for c in names))
    both = rows.unionByName(deletes, allowMissingColumns=True)
    both.write.parquet(target.uri)
    found = spark.read.schema(rows.schema).parquet(target.uri)
    found = found.select(*(_as_solid(field) for field in rows.schema))
    return None if found.isEmpty() else found


def _as_solid(field: T.StructField) -> Column:
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
