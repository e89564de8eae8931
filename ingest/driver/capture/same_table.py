"""Whether a table that was made anew or rewritten still has the rows that were synced.

MariaDB's time of creation changes with DROP and CREATE and with an ALTER that rebuilds
the table, the file of its rows with a TRUNCATE, too; only rows tell which it was. Those
at or below the position are in the lake with their cursor values, so a rebuilt table
still has them as they are there.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from core.errors import InvalidRequest
from core.sentences import Sentence
from ingest.contract.table import TableSpec
from ingest.driver.apply.jobrun import JobRun
from ingest.driver.apply.rows import record_key
from ingest.driver.capture.jdbc import fetch_rows, read_statement
from ingest.lake.hudi.identity import DELETED, key_column
from ingest.lake.place import place_at
from ingest.sources.dialects import dialect_of
from ingest.sources.fingerprint import from_data, is_maybe_emptied
from ingest.sources.port import Source, SourceAccess
from ingest.sources.select import relation_of, select_columns
from ingest.sources.statements import cursor_column, newest_rows, range_of

# Of the newest at or below the position, which an index on the cursor finds.
_ROWS = 100


def ensure_same_table(
    run: JobRun, spark: SparkSession, source: Source, access: SourceAccess
) -> None:
    """InvalidRequest `source_recreated` when the fingerprint leaves it open and most
    rows below the position are not those of the lake. Reads a few rows, and only then.
    Rows without a key cannot be found again: there the warning has to do."""
    work, table = run.spec.sync, run.spec.table
    if work is None or not work.low or table.row_hash:
        return
    now = from_data(run.source_fingerprint.get("source_fingerprint", {})).server
    if not is_maybe_emptied(from_data(work.source_fingerprint).server, now):
        return
    rows = _of_source(spark, source, access, table, work.low)
    known = rows & _of_lake(spark, table, {key for key, _ in rows})
    is_same = 2 * len(known) >= len(rows) if rows else _is_empty(spark, table)
    if is_same:
        return
    found = (
        Sentence(
            "of its %(count)s newest rows that should be in the lake %(known)s are",
            count=len(rows),
            known=len(known),
        )
        if rows
        else "it has no row that is in the lake"
    )
    raise InvalidRequest(
        "%(table)s was truncated, created again or replaced at the source"
        " since the last sync: %(found)s. Its rows may be older than the"
        " position, and former ones are in the lake. Nothing was written",
        table=table.at_source,
        found=found,
        code="source_recreated",
        hint="resync the table: readers keep the present copy until then",
    )


def _of_source(
    spark: SparkSession,
    source: Source,
    access: SourceAccess,
    table: TableSpec,
    low: str,
) -> set[tuple[str, str]]:
    """Key and cursor value of some rows, in the lake's form."""
    dialect = dialect_of(access.spec.kind)
    needed = {*table.key, table.cursor}
    columns = tuple(c for c in table.columns if c.source_name in needed)
    selection = select_columns(dialect, columns)
    where = range_of(dialect, table, "", low)
    sql = selection.sql(relation_of(dialect, table), where)
    with source.reading(table) as snapshot:
        rows = read_statement(
            spark,
            access,
            selection,
            sql=newest_rows(dialect, table, sql, most=_ROWS),
            snapshot=snapshot,
            fetch=fetch_rows(source.widths(table)),
        )
        name = cursor_column(table).name
        cursor = next(c.alias for c in selection.columns if c.name == name)
        key = record_key(replace(table, columns=columns), selection)
        return _pairs(rows.select(key.alias("k"), F.col(cursor).alias("c")))


def _of_lake(
    spark: SparkSession, table: TableSpec, keys: set[str]
) -> set[tuple[str, str]]:
    key = F.col(f"`{key_column(table)}`").cast("string")
    cursor = F.col(f"`{cursor_column(table).name}`")
    found = _alive(spark, table).where(key.isin(*keys))
    return _pairs(found.select(key.alias("k"), cursor.alias("c")))


def _is_empty(spark: SparkSession, table: TableSpec) -> bool:
    return not _alive(spark, table).limit(1).count()


def _alive(spark: SparkSession, table: TableSpec) -> DataFrame:
    frame = spark.newSession().read.format("hudi").load(place_at(table.path).uri)
    return frame.where(~F.coalesce(F.col(DELETED), F.lit(False)))  # noqa: FBT003


def _pairs(rows: DataFrame) -> set[tuple[str, str]]:
    texts = rows.select(F.col("k").cast("string"), F.col("c").cast("string"))
    return {(str(k), str(c)) for k, c in texts.collect()}
