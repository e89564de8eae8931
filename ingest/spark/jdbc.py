"""Reading one range of a source table through Spark's JDBC.

The statement is complete when it comes here. It must not know chunks or plans.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ingest.changes.select import SelectedColumn, Selection
from ingest.spark.sources import SourceAccess, jdbc_options

_MOST_ROWS = 10_000
_LEAST_ROWS = 20
_FETCH_BYTES = 16 << 20


def read_statement(
    spark: SparkSession,
    access: SourceAccess,
    selection: Selection,
    *,
    sql: str,
    snapshot: str,
    row_bytes: int = 0,
) -> DataFrame:
    """One partition with the rows of `sql`, as of the exported `snapshot`.

    row_bytes  average width, so that wide rows are fetched a few at a time
    Columns c0…, m0… of the selection, each of its lake type.
    """
    options = jdbc_options(access, sql, snapshot)
    options["fetchsize"] = str(fetch_rows(row_bytes))
    options["pushDownPredicate"] = "false"
    reader = spark.read.format("jdbc").options(**options)
    return cast_to_lake(reader.load(), selection)


def fetch_rows(row_bytes: int) -> int:
    """Rows per round trip that stay within a few megabytes of heap."""
    fit = _FETCH_BYTES // max(row_bytes, 1)
    return max(_LEAST_ROWS, min(_MOST_ROWS, fit))


def cast_to_lake(rows: DataFrame, selection: Selection) -> DataFrame:
    columns = [_lake_value(c).alias(c.alias) for c in selection.columns]
    # a server may tell that a mask of few bits fits into fewer bytes
    masks = [
        F.col(alias).cast("bigint").alias(alias) for alias in selection.mask_aliases
    ]
    return rows.select(*columns, *masks)


def _lake_value(column: SelectedColumn) -> Column:
    """Dates travel as days, timestamps as microseconds since 1970."""
    if column.type == "date":
        return F.expr(f"date_from_unix_date({column.alias})")
    if column.type.startswith("timestamp"):
        moment = F.expr(f"timestamp_micros({column.alias})")
        return moment.cast(column.type)
    return F.col(column.alias).cast(column.type)
