"""Is the source table still the one that was planned?

Compared before every read, so that a change has a name instead of a stack trace.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import SparkSession

from core.errors import InvalidRequest, TerminalError, TransientError
from ingest.contract.job import SnapshotWork
from ingest.contract.table import SHARD, TableSpec
from ingest.driver.apply.jobrun import JobRun
from ingest.lake.commits import read_lake_table
from ingest.lake.place import place_at
from ingest.sources.registry import Source
from ingest.sources.statements import any_row

# Statistics of fewer rows than these are no evidence.
MANY_ROWS = 1_000


def require_columns(
    source: Source, table: TableSpec, warn: Callable[[str], None]
) -> dict[str, tuple[str, bool]]:
    """InvalidRequest `source_changed` when a planned column is gone or has
    another type; new columns are only reported. All columns of now."""
    now = source.columns(table)
    where = f"{table.source_schema}.{table.source_table}"
    problems = []
    for column in table.columns:
        if column.source_name == SHARD:
            continue
        if column.source_name not in now:
            problems.append(
                f"column {column.source_name} is gone, or this login may not SELECT it"
            )
        elif now[column.source_name][0] != column.source_type:
            problems.append(
                f"column {column.source_name} was {column.source_type},"
                f" is {now[column.source_name][0]}"
            )
    if problems:
        raise InvalidRequest(
            f"source table {where} changed since it was planned:"
            f" {'; '.join(problems)}. Nothing was written",
            code="source_changed",
            hint="look at the change on the table's page and approve it there",
        )
    planned = {c.source_name for c in table.columns}
    new = [name for name in now if name not in planned]
    if new:
        warn(f"{where} has columns that are not synced: {', '.join(new)}")
    return now


def refuse_doubtful_emptiness(
    spark: SparkSession, run: JobRun, source: Source, table: TableSpec
) -> None:
    """A load without rows is refused where the source's statistics or the lake's own
    rows speak against it: a view may hide rows from this login now. Statistics that
    say 0 are no proof, for an empty table that was analysed and filled since has them.
    Who asked for the load may have said that it may be empty."""
    work = run.spec.snapshot or SnapshotWork()
    where = f"{table.source_schema}.{table.source_table}"
    if source.rows(any_row(source.dialect, table)):
        raise TransientError(
            f"{where} read as empty and has rows now", code="source_rewritten"
        )
    if work.accept_empty:
        run.warn(f"{where} reads as empty, which was accepted with the request")
        return
    if why := _doubt(spark, table, source.estimated_rows(table)):
        raise TerminalError(
            f"{where} reads as empty, but {why}. Nothing was written; readers see"
            " what they saw before",
            code="source_reads_empty",
            hint="check the grants of this login; if the table really is"
            " empty, resync it with accept_empty, on its page: 'The source table may"
            " be empty'",
        )


def _doubt(spark: SparkSession, table: TableSpec, estimate: int) -> str:
    """What speaks against a source without rows; "" = nothing."""
    if estimate >= MANY_ROWS:
        return f"its statistics say about {estimate} rows"
    if rows := _lake_rows(spark, table):
        more = " or more" if rows == MANY_ROWS else ""
        return f"its lake table has {rows} row{'s' * (rows > 1)}{more}"
    return ""


def _lake_rows(spark: SparkSession, table: TableSpec) -> int:
    """Rows that readers see, up to `MANY_ROWS`."""
    if not read_lake_table(table.path).timeline.completed_writes:
        return 0
    frame = spark.read.format("hudi").load(place_at(table.path).uri)
    return int(frame.limit(MANY_ROWS).count())
