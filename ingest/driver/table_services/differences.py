"""Two sides of a table as (k key, h hash, n rows, p pending, c columns' hashes, NULL
for whole rows): what is not the same.

Sums per bucket of keys are compared first; only rows of buckets that differ are
joined by key. It must not know which side came from where.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from ingest.contract.table import TableSpec
from ingest.driver.apply.jobrun import JobRun
from ingest.lake.hudi.identity import KEY, key_column
from ingest.maintenance.verdict import (
    KEYS_LISTED,
    KINDS_OF_DIFFERENCE,
    Sums,
    differing_buckets,
    readable_key,
)

_BUCKETS = 1 << 12
# that one task joins at most, about
_JOINED_ROWS = 1_000_000


@dataclass(frozen=True, slots=True)
class Sides:
    """Both sides on disk; `size` is the rows of the larger one."""

    source: DataFrame
    lake: DataFrame
    size: int


def rows_and_hash() -> list[Column]:
    """Aggregates whose results make a `Sums`. The sum of hashes wraps around, which
    keeps all its bits and asks for no order."""
    mixed = F.col("n") * F.xxhash64("k", "h")
    return [F.sum("n").alias("rows"), F.sum(mixed).alias("hash")]


def differing_keys(
    run: JobRun, spark: SparkSession, sides: Sides, target: str
) -> tuple[dict[str, int], dict[str, list[str]]]:
    """Kind of difference → how many, and the first keys of it. All of them lie at
    `target` in between: they may be all there are."""
    buckets = differing_buckets(_sums(sides.source), _sums(sides.lake))
    run.check()
    _differences(spark, sides, buckets).write.parquet(target)
    found = spark.read.schema("kind string, k string, rows bigint").parquet(target)
    counted = {row["kind"]: int(row["keys"]) for row in _count(found)}
    return counted, _keys(run.spec.table, found)


def _bucket() -> Column:
    return F.pmod(F.xxhash64("k"), F.lit(_BUCKETS)).cast("int")


def _sums(side: DataFrame) -> dict[int, Sums]:
    found = side.groupBy(_bucket().alias("b")).agg(*rows_and_hash())
    return {int(row["b"]): Sums.of(row.asDict()) for row in found.collect()}


def _differences(spark: SparkSession, sides: Sides, buckets: list[int]) -> DataFrame:
    """(kind, key, rows) of every key that is not the same on both sides."""
    source, lake = sides.source, sides.lake
    parts = 1 + sides.size * len(buckets) // _BUCKETS // _JOINED_ROWS
    if len(buckets) < _BUCKETS:
        wanted = F.broadcast(spark.createDataFrame([(b,) for b in buckets], "b int"))
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
    is_pending = F.coalesce("sp", F.lit(False)) | F.coalesce("lp", F.lit(False))  # noqa: FBT003
    kind = (
        F.when(is_pending, "pending")
        .when(F.col("sn").isNull(), "extra")
        .when(F.col("ln").isNull(), "missing")
        .when(_is_kept(), "kept")
        .otherwise("different")
    )
    rows = (
        F.when(F.col("sn").isNull(), F.col("ln"))
        .when(F.col("ln").isNull() & ~is_pending, F.col("sn"))
        .otherwise(1)
    )
    return both.where(~F.coalesce(is_same, F.lit(False))).select(  # noqa: FBT003
        kind.alias("kind"), "k", rows.cast("bigint").alias("rows")
    )


def _by_key(side: DataFrame, name: str, *, parts: int) -> DataFrame:
    """One row per key; a key that is NULL at the source is like no key of the lake."""
    keyed = side.withColumn("k", F.coalesce("k", F.lit(""))).repartition(parts, "k")
    return keyed.groupBy("k").agg(
        F.sum("n").alias(f"{name}n"),
        F.min("h").alias(f"{name}low"),
        F.max("h").alias(f"{name}high"),
        F.max("p").alias(f"{name}p"),
        F.first("c").alias(f"{name}c"),
    )


def _is_kept() -> Column:
    """One row on each side, and every value that the source has is the lake's too."""

    def same_or_null(pair: Column) -> Column:
        is_same = pair["sc"] == pair["lc"]
        return pair["sc"].isNull() | F.coalesce(is_same, F.lit(False))  # noqa: FBT003

    is_single = (F.col("sn") == 1) & (F.col("ln") == 1)
    all_same = F.forall(F.arrays_zip("sc", "lc"), same_or_null)
    return is_single & F.coalesce(all_same, F.lit(False))  # noqa: FBT003


def _count(differences: DataFrame) -> list[Any]:
    return differences.groupBy("kind").agg(F.sum("rows").alias("keys")).collect()


def _keys(table: TableSpec, differences: DataFrame) -> dict[str, list[str]]:
    """The first of each kind; short ones first, so that numbers are in order."""
    parts = 0 if table.row_hash else len(table.key)
    is_native = key_column(table) != KEY
    order = Window.partitionBy("kind").orderBy(F.length("k"), "k")
    first = differences.withColumn("place", F.row_number().over(order))
    is_told = F.col("kind").isin(*KINDS_OF_DIFFERENCE)
    wanted = first.where(is_told & (F.col("place") <= KEYS_LISTED))
    keys: dict[str, list[str]] = {}
    for row in wanted.orderBy("kind", "place").collect():
        text = readable_key(row["k"], parts=parts, is_native=is_native)
        keys.setdefault(row["kind"], []).append(text)
    return keys
