"""Is the source table still the one that was planned?

Compared before every read, so that a change has a name instead of a stack trace.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import SparkSession

from core.errors import InvalidRequest, TerminalError, TransientError
from core.sentences import Sentence, joined
from ingest.contract.job import SnapshotWork
from ingest.contract.table import TableSpec
from ingest.driver.apply.jobrun import JobRun
from ingest.lake.commits import read_lake_table
from ingest.lake.place import place_at
from ingest.sources.port import Source
from ingest.sources.statements import any_row

# Statistics of fewer rows than these are no evidence.
MANY_ROWS = 1_000


def require_columns(
    source: Source, table: TableSpec, warn: Callable[[str], None]
) -> dict[str, tuple[str, bool]]:
    """InvalidRequest `source_changed` when a planned column is gone or has
    another type; new columns are only reported. All columns of now."""
    now = source.columns(table)
    where = table.at_source
    problems = []
    for column in table.read_columns:
        if column.source_name not in now:
            problems.append(
                Sentence(
                    "column %(source_name)s is gone, or this login may not SELECT it",
                    source_name=column.source_name,
                )
            )
        elif now[column.source_name][0] != column.source_type:
            problems.append(
                Sentence(
                    "column %(column)s was %(type)s, is %(now)s",
                    column=column.source_name,
                    type=column.source_type,
                    now=now[column.source_name][0],
                )
            )
    if problems:
        raise InvalidRequest(
            "source table %(where)s changed since it was planned:"
            " %(problems)s. Nothing was written",
            where=where,
            problems=joined(problems),
            code="source_changed",
            hint="look at the change on the table's page and approve it there",
        )
    planned = {c.source_name for c in table.columns}
    new = [name for name in now if name not in planned]
    if new:
        warn(
            Sentence(
                "%(where)s has columns that are not synced: %(new)s",
                where=where,
                new=", ".join(new),
            )
        )
    return now


def refuse_doubtful_emptiness(
    spark: SparkSession, run: JobRun, source: Source, table: TableSpec
) -> None:
    """A load without rows is refused where the source's statistics or the lake's own
    rows speak against it: a view may hide rows from this login now. Statistics that
    say 0 are no proof, for an empty table that was analysed and filled since has them.
    Who asked for the load may have said that it may be empty."""
    work = run.spec.snapshot or SnapshotWork()
    where = table.at_source
    if source.rows(any_row(source.dialect, table)):
        raise TransientError(
            "%(where)s read as empty and has rows now",
            where=where,
            code="source_rewritten",
        )
    if work.accept_empty:
        run.warn(
            "%(where)s reads as empty, which was accepted with the request", where=where
        )
        return
    if why := _doubt(spark, table, source.estimated_rows(table)):
        raise TerminalError(
            "%(where)s reads as empty, but %(why)s. Nothing was written;"
            " readers see what they saw before",
            where=where,
            why=why,
            code="source_reads_empty",
            hint="check the grants of this login; if the table really is"
            " empty, resync it with accept_empty, on its page: 'The source table may"
            " be empty'",
        )


def _doubt(spark: SparkSession, table: TableSpec, estimate: int) -> str:
    """What speaks against a source without rows; "" = nothing."""
    if estimate >= MANY_ROWS:
        return Sentence("its statistics say about %(estimate)s rows", estimate=estimate)
    if rows := _lake_rows(spark, table):
        return Sentence("its lake table has rows (%(count)s)", count=_many(rows))
    return ""


def _many(rows: int) -> str:
    return f"≥ {MANY_ROWS}" if rows == MANY_ROWS else str(rows)


def _lake_rows(spark: SparkSession, table: TableSpec) -> int:
    """Rows that readers see, up to `MANY_ROWS`."""
    if not read_lake_table(table.path).timeline.completed_writes:
        return 0
    frame = spark.read.format("hudi").load(place_at(table.path).uri)
    return int(frame.limit(MANY_ROWS).count())
