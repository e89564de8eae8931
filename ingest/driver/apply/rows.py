"""From rows as staged (c0, c1, …) to rows as the lake wants them.

Adds the record key, `_sluice_seq` and `_sluice_deleted`. It must not know where
the rows came from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from catalog.schema.types import DataType
from ingest.contract.segments import INDEX, OP
from ingest.contract.table import TableSpec
from ingest.lake.hudi.identity import (
    COUNT,
    DELETED,
    KEY,
    SEQ,
    key_column,
    partition_columns,
)
from ingest.planning.partitions import BY_DAY, DAY
from ingest.sources.select import SelectedColumn, Selection, mask_of

_RANK = "_sluice_rank"
_SIMPLE: Mapping[str, type[T.DataType]] = {
    "boolean": T.BooleanType,
    "int": T.IntegerType,
    "bigint": T.LongType,
    "float": T.FloatType,
    "double": T.DoubleType,
    "string": T.StringType,
    "binary": T.BinaryType,
    "date": T.DateType,
    "timestamp": T.TimestampType,
    "timestamp_ntz": T.TimestampNTZType,
}
_OF_ANY_WIDTH = frozenset({"string", "binary"})


def spark_type(text: str) -> T.DataType:
    kind = DataType.parse(text)
    if kind.name == "decimal":
        return T.DecimalType(kind.precision, kind.scale)
    if kind.name == "array":
        return T.ArrayType(spark_type(kind.element))
    return _SIMPLE[kind.name]()


def literal(value: Any, type: str) -> Column:
    """A constant of a type of the lake. PySpark makes a moment of Python by the zone of
    its machine and by a calendar that is Julian before 1582; of a text Spark does not.
    """
    return _literal(value).cast(spark_type(type))


def _literal(value: Any) -> Column:
    if isinstance(value, list):
        return F.array(*map(_literal, value))
    return F.lit(value.isoformat() if isinstance(value, date) else value)


def staged_schema(selection: Selection) -> T.StructType:
    """The schema of staged files, stated so that no files read as no rows."""
    fields = [T.StructField(c.alias, spark_type(c.type)) for c in selection.columns]
    masks = [T.StructField(a, T.LongType()) for a in selection.mask_aliases]
    return T.StructType([*fields, *masks])


def read_staged(
    spark: SparkSession,
    selection: Selection,
    folders: Sequence[str],
    *more: T.StructField,
) -> DataFrame:
    schema = T.StructType([*staged_schema(selection).fields, *more])
    if not folders:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).parquet(*folders)


def lake_rows(
    rows: DataFrame,
    table: TableSpec,
    selection: Selection,
    *,
    seq: Column,
    deleted: Column | None = None,
    also: Sequence[str] = (),
) -> DataFrame:
    """Rows with lake names and Sluice's columns. `seq` must not be NULL; rows
    without a key must have been refused before. deleted: which are gone; None = none.
    also: columns of `rows` that stay behind them.
    """
    if table.row_hash:
        rows = _counted(rows, selection)
    columns = [F.col(c.alias).alias(c.name) for c in selection.columns]
    by_name = {c.name: c for c in selection.columns}
    key = key_column(table)
    if table.row_hash:
        columns += [F.coalesce(F.col(KEY), F.lit("")).alias(KEY), F.col(COUNT)]
    elif key == KEY:
        aliases = key_aliases(table, selection)
        columns.append(_key_text(aliases).alias(KEY))
    else:
        # a literal alternative makes the field NOT NULL in Hudi's schema
        kept = F.col(by_name[key].alias)
        fallback = F.lit("" if by_name[key].type == "string" else 0)
        solid = F.coalesce(kept, fallback.cast(by_name[key].type)).alias(key)
        columns = [
            solid if c.name == key else column
            for c, column in zip(selection.columns, columns, strict=True)
        ]
    columns += [F.lit(None).cast(spark_type(c.type)).alias(c.name) for c in table.kept]
    if DAY in partition_columns(table):
        moments = selected(table.partition_by, table, selection)
        moment = next(c.alias for c in moments if c.type in BY_DAY)
        columns.append(F.to_date(F.col(moment)).alias(DAY))
    gone = F.lit(False) if deleted is None else deleted  # noqa: FBT003
    return rows.select(*columns, seq.alias(SEQ), gone.alias(DELETED), *also)


def latest_per_key(rows: DataFrame, table: TableSpec) -> DataFrame:
    """Of lake rows the last write per key and partition, by `_sluice_seq`; a delete
    stays as such."""
    names = (key_column(table), *partition_columns(table))
    key = Window.partitionBy(*(f"`{name}`" for name in names)).orderBy(F.desc(SEQ))
    return (
        rows.withColumn(_RANK, F.row_number().over(key))
        .where(f"{_RANK} = 1")
        .drop(_RANK)
    )


def record_key(table: TableSpec, selection: Selection) -> Column:
    """The text of a staged row's record key, as its lake table has it."""
    if table.row_hash:
        return _row_hash(selection)
    key = key_column(table)
    if key == KEY:
        return _key_text(key_aliases(table, selection))
    alias = next(c.alias for c in selection.columns if c.name == key)
    return F.col(alias).cast("string")


def content_hash(selection: Selection) -> Column:
    """64 bits over all values of a staged row; NULL and position count."""
    parts: list[Column] = []
    for column in selection.columns:
        is_array = column.type.startswith("array")
        # Spark's hash of an array passes over NULL elements
        value = _text(column) if is_array else F.col(column.alias)
        parts += [F.col(column.alias).isNull(), value]
    return F.xxhash64(*parts)


def column_hashes(selection: Selection) -> Column:
    """The same column by column: an array of 64 bits each, NULL for NULL."""
    hashes = []
    for column in selection.columns:
        value = F.col(column.alias)
        text = _text(column) if column.type.startswith("array") else value
        hashes.append(F.when(value.isNotNull(), F.xxhash64(text)))
    return F.array(*hashes)


def observed_counts(table: TableSpec, selection: Selection) -> list[Column]:
    """What is counted while rows are read, so that nothing is read twice: rows,
    rows with a NULL in the key, rows with a value that has no form in the lake, and
    the bytes of the widest row's texts and binary values."""
    nulls: Column = F.lit(False)  # noqa: FBT003
    for column in key_aliases(table, selection):
        nulls = nulls | F.col(column.alias).isNull()
    unfit: Column = F.lit(False)  # noqa: FBT003
    for alias in selection.mask_aliases:
        unfit = unfit | (F.col(alias) != 0)
    width: Column = F.lit(0).cast("bigint")
    for one in selection.columns:
        if one.type in _OF_ANY_WIDTH:
            width = width + F.coalesce(F.octet_length(one.alias), F.lit(0))
    return [
        F.count(F.lit(1)).alias("rows"),
        F.sum(nulls.cast("bigint")).alias("null_keys"),
        F.sum(unfit.cast("bigint")).alias("unfit"),
        F.max(width).alias("widest"),
    ]


def unfit_counts(rows: DataFrame, selection: Selection) -> dict[str, int]:
    """Lake column → values that became NULL; a pass over the rows, worth it only
    when some are known to be there."""
    return counted_signs(rows, unfit_signs(selection))


def unfit_signs(selection: Selection) -> list[tuple[str, Column]]:
    """Lake column → whether the value of a staged row became NULL there."""
    found = []
    for column in (c for c in selection.columns if c.bit >= 0):
        mask, flag = mask_of(column.bit)
        found.append((column.name, F.col(f"m{mask}").bitwiseAND(F.lit(flag)) != 0))
    return found


def counted_signs(
    rows: DataFrame, signs: Sequence[tuple[str, Column]]
) -> dict[str, int]:
    """Lake column → how many rows have its sign; those that none has are left out."""
    if not signs:
        return {}
    sums = [F.sum(s.cast("bigint")).alias(f"s{i}") for i, (_, s) in enumerate(signs)]
    row = rows.agg(*sums).first()
    assert row is not None
    found = {name: int(row[f"s{i}"] or 0) for i, (name, _) in enumerate(signs)}
    return {name: count for name, count in found.items() if count}


def duplicate_keys(rows: DataFrame, table: TableSpec, selection: Selection) -> int:
    """How many keys occur more than once."""
    aliases = [c.alias for c in key_aliases(table, selection)]
    return rows.groupBy(*aliases).count().where("count > 1").count()


def key_aliases(table: TableSpec, selection: Selection) -> list[SelectedColumn]:
    return selected(table.key, table, selection)


def selected(
    columns: Sequence[str], table: TableSpec, selection: Selection
) -> list[SelectedColumn]:
    """Of columns by their source names."""
    names = {c.source_name: c.name for c in table.columns}
    by_name = {c.name: c for c in selection.columns}
    return [by_name[names[name]] for name in columns]


def _key_text(columns: Sequence[SelectedColumn]) -> Column:
    """Length-prefixed values: `("a,b", "c")` and `("a", "b,c")` stay different,
    and an empty string is a key like any other.

    No key has a comma: Hudi 1.2 takes a key with ',' and ':' for `field:value,…`,
    and its `KeyGenUtils.extractRecordKeysByFields` never returns from some of them.
    """
    return F.concat(*[_prefixed(c) for c in columns])


def _prefixed(column: SelectedColumn) -> Column:
    text = F.coalesce(_text(column), F.lit(""))
    if column.type == "string" or column.type.startswith("array"):
        text = _without_comma(text)
    return F.concat(F.length(text).cast("string"), F.lit(":"), text)


def first_of_key(text: Column) -> Column:
    """Of a key's text with several values, the first of which is a string."""
    size = F.regexp_extract(text, r"^(\d+):", 1)
    value = text.substr(F.length(size) + 2, size.cast("int"))
    marked = F.replace(value, F.lit("%2C"), F.lit(","))
    return F.replace(marked, F.lit("%25"), F.lit("%"))


def _without_comma(text: Column) -> Column:
    """Reversible: "%" is escaped too."""
    marked = F.replace(text, F.lit("%"), F.lit("%25"))
    return F.replace(marked, F.lit(","), F.lit("%2C"))


def _text(column: SelectedColumn) -> Column:
    value = F.col(column.alias)
    if column.type == "binary":
        return F.hex(value)
    if column.type.startswith("array"):
        return _array_text(value, column.type)
    return value.cast("string")


def _array_text(array: Column, type: str) -> Column:
    """JSON. Its timestamps end at milliseconds: where one goes on, what is left of all
    of them follows, so that other texts, and keys in lakes, stay as they were."""
    text = F.to_json(array)
    if not type.startswith("array<timestamp"):
        return text
    finer = F.transform(array, lambda v: F.unix_micros(v.cast("timestamp")) % 1000)
    is_finer = F.exists(finer, lambda v: F.coalesce(v, F.lit(0)) != 0)
    return F.when(is_finer, F.concat(text, F.to_json(finer))).otherwise(text)


def _counted(rows: DataFrame, selection: Selection) -> DataFrame:
    """One row per distinct row, with its hash and how often it occurred."""
    firsts = [F.first(c.alias).alias(c.alias) for c in selection.columns]
    hashed = rows.withColumn(KEY, _row_hash(selection))
    return hashed.groupBy(KEY).agg(F.count(F.lit(1)).alias(COUNT), *firsts)


def _row_hash(selection: Selection) -> Column:
    parts = []
    for column in selection.columns:
        text = _text(column)
        some = F.concat(F.length(text).cast("string"), F.lit(":"), text)
        parts.append(F.coalesce(some, F.lit("-")))
    return F.sha2(F.concat(*parts), 256)


def change_fields() -> tuple[T.StructField, ...]:
    """What a file of changes has beside the columns of its rows."""
    return T.StructField(OP, T.StringType()), T.StructField(INDEX, T.LongType())


def change_seq() -> Column:
    """`_sluice_seq` of a change."""
    return F.coalesce(INDEX, F.lit(0)).cast("bigint")


def is_delete() -> Column:
    return F.coalesce(F.col(OP) == "delete", F.lit(False))  # noqa: FBT003
