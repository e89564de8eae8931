"""Reading one range of a source table through Spark's JDBC.

The statement is complete when it comes here. It must not know chunks or plans.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from catalog.schema.limits import LIMITS
from ingest.driver.apply.rows import spark_type
from ingest.sources.connections import connections_of
from ingest.sources.port import Snapshot, SourceAccess, Widths
from ingest.sources.select import SelectedColumn, Selection

_MOST_ROWS = 10_000
_FEWER = 16
_FETCH_BYTES = 16 << 20
# The first rows of a reader tell how wide they are before many are asked for.
FIRST_ROWS = 500
# Tries with fewer rows each after which one row is asked for at a time.
NARROWINGS = 2


def read_statement(
    spark: SparkSession,
    access: SourceAccess,
    selection: Selection,
    *,
    sql: str,
    snapshot: Snapshot,
    fetch: Fetch,
) -> DataFrame:
    """One partition with the rows of `sql`, as of the exported `snapshot`.

    Columns c0…, m0… of the selection, each of its lake type.
    """
    options = connections_of(access).jdbc_options(access, sql, snapshot)
    options["fetchsize"] = str(fetch.first)
    # of PostgreSQL's driver; others fetch so few each time
    options["adaptiveFetchMaximum"] = str(fetch.most)
    options["pushDownPredicate"] = "false"
    reader = spark.read.format("jdbc").options(**options)
    return cast_to_lake(reader.load(), selection)


@dataclass(frozen=True, slots=True)
class Fetch:
    """Rows per round trip: at first, and at most once their width is known."""

    first: int
    most: int

    @property
    def is_of_wide_rows(self) -> bool:
        """So few fit that nobody else may take thousands at a time, either."""
        return self.most < FIRST_ROWS


def fetch_rows(widths: Widths, was_wide: int = 0) -> Fetch:
    """So many rows that a few megabytes of heap hold them on average, and the buffer
    holds them if all were as wide as the widest that is known.

    was_wide  tries before that found wider ones: each asks for a sixteenth
    """
    on_average = _FETCH_BYTES // max(widths.average, 1)
    at_worst = LIMITS.result_bytes // max(widths.widest, 1)
    most = max(1, min(_MOST_ROWS, on_average, at_worst))
    if not was_wide:
        return Fetch(min(most, FIRST_ROWS), most)
    fewer = max(1, min(most, FIRST_ROWS) // _FEWER**was_wide)
    return Fetch(fewer, fewer)


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
    """Dates travel as days, timestamps as microseconds since 1970, elements of arrays
    as text, that of bytes in hexadecimal behind `\\x`."""
    if column.type == "date":
        return F.expr(f"date_from_unix_date({column.alias})")
    if column.type.startswith("timestamp"):
        moment = F.expr(f"timestamp_micros({column.alias})")
        return moment.cast(column.type)
    if column.type == "array<binary>":
        return F.expr(f"transform({column.alias}, v -> unhex(substring(v, 3)))")
    if spark_type(column.type) == read_as:
        return F.col(column.alias)
    return _fitting(column)


def _fitting(column: SelectedColumn) -> Column:
    """Spark's plain cast wraps an integer that is too large and makes a decimal NULL;
    here such a value ends the reading (`sluice.unfit` is its sign)."""
    cast = F.expr(f"try_cast({column.alias} AS {column.type})")
    is_lost = F.col(column.alias).isNotNull() & cast.isNull()
    if column.type.startswith("array"):
        # an element that is cast in vain becomes NULL by itself
        is_lost = _nulls_in(F.col(column.alias)) != _nulls_in(cast)
    message = F.lit(f"sluice.unfit: a value of {column.name} is no {column.type}")
    return F.when(is_lost, F.raise_error(message)).otherwise(cast)


def _nulls_in(array: Column) -> Column:
    return F.size(F.filter(array, lambda v: v.isNull()))
