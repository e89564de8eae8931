"""Reading one range of a source table through Spark's JDBC.

The statement is complete when it comes here. It must not know chunks or plans.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ingest.changes.select import SelectedColumn, Selection
from ingest.spark.rows import spark_type
from ingest.spark.sources import Snapshot, SourceAccess, jdbc_options

_MOST_ROWS = 10_000
# Of a table that nobody analysed the width is not known.
_LEAST_BYTES = 64
_WIDER = 16
_FETCH_BYTES = 16 << 20
# The first rows of a reader tell how wide they are before many are asked for.
FIRST_ROWS = 500


def read_statement(
    spark: SparkSession,
    access: SourceAccess,
    selection: Selection,
    *,
    sql: str,
    snapshot: Snapshot,
    row_bytes: int = 0,
) -> DataFrame:
    """One partition with the rows of `sql`, as of the exported `snapshot`.

    row_bytes  average width, so that wide rows are fetched a few at a time
    Columns c0…, m0… of the selection, each of its lake type.
    """
    options = jdbc_options(access, sql, snapshot)
    rows = fetch_rows(row_bytes)
    options["fetchsize"] = str(min(rows, FIRST_ROWS))
    # of PostgreSQL's driver; others fetch so few each time
    options["adaptiveFetchMaximum"] = str(rows)
    options["pushDownPredicate"] = "false"
    reader = spark.read.format("jdbc").options(**options)
    return cast_to_lake(reader.load(), selection)


def fetch_rows(row_bytes: int) -> int:
    """Rows per round trip that stay within a few megabytes of heap."""
    fit = _FETCH_BYTES // max(row_bytes, 1)
    return max(1, min(_MOST_ROWS, fit))


def fetch_width(row_bytes: int, was_wide: int) -> int:
    """The width of a row to count on: much more after each try that found wider ones
    than the statistics, which are an average of compressed values."""
    return max(row_bytes, _LEAST_BYTES) * int(_WIDER**was_wide)


def cast_to_lake(rows: DataFrame, selection: Selection) -> DataFrame:
    columns = [
        _lake_value(c, rows.schema[c.alias].dataType).alias(c.alias)
        for c in selection.columns
    ]
    # a server may tell that a mask of few bits fits into fewer bytes
    masks = [
        F.col(alias).cast("bigint").alias(alias) for alias in selection.mask_aliases
    ]
    return rows.select(*columns, *masks)


def _lake_value(column: SelectedColumn, read_as: T.DataType) -> Column:
    """Dates travel as days, timestamps as microseconds since 1970."""
    if column.type == "date":
        return F.expr(f"date_from_unix_date({column.alias})")
    if column.type.startswith("timestamp"):
        moment = F.expr(f"timestamp_micros({column.alias})")
        return moment.cast(column.type)
    if spark_type(column.type) == read_as:
        return F.col(column.alias)
    return _fitting(column)


def _fitting(column: SelectedColumn) -> Column:
    """Spark's plain cast wraps an integer that is too large and makes a decimal NULL;
    here such a value ends the reading (`sluice.unfit` is its sign)."""
    cast = F.expr(f"try_cast({column.alias} AS {column.type})")
    is_lost = F.col(column.alias).isNotNull() & cast.isNull()
    message = F.lit(f"sluice.unfit: a value of {column.name} is no {column.type}")
    return F.when(is_lost, F.raise_error(message)).otherwise(cast)
