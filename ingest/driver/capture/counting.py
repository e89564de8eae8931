"""Whether ranges of a key held the whole table: its rows counted at once, by no key.

It must not know what the rows are read for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.errors import TransientError
from ingest.contract.table import TableSpec
from ingest.driver.apply.jobrun import JobRun
from ingest.driver.jvm import failure_of
from ingest.sources.port import Source
from ingest.sources.registry import SOURCE_ERRORS
from ingest.sources.statements import counted_whole


@dataclass(frozen=True, slots=True)
class Counted:
    """tables: of the source, whose rows these are."""

    tables: tuple[TableSpec, ...]
    rows: int


def count_rows(
    run: JobRun, source: Source, tables: Sequence[TableSpec]
) -> Counted | None:
    """All rows of these at once, by no key and no range; None = not in time."""
    try:
        rows = sum(_counted(source, one) for one in tables)
    except SOURCE_ERRORS as error:
        # the request to stop this job ended the statement
        run.check()
        if failure_of(error).error.code not in {"source_cancelled", "source_slow"}:
            raise
        run.warn(
            "the source did not count its rows in time: rows that no range of the key"
            " holds would not be noticed"
        )
        return None
    return Counted(tuple(tables), rows)


def _counted(source: Source, table: TableSpec) -> int:
    with source.within(table):
        return int(source.one(counted_whole(source.dialect, table))[0])


def refuse_another_count(
    run: JobRun, source: Source, read: int, before: Counted | None
) -> None:
    """TransientError `rows_not_read` when the ranges of the key did not hold the whole
    tables: the load read by such ranges, too. Rows may come and go meanwhile."""
    if before is None or read == before.rows:
        return
    after = count_rows(run, source, before.tables)
    if after is None:
        return
    if min(before.rows, after.rows) <= read <= max(before.rows, after.rows):
        return
    table = run.spec.table
    raise TransientError(
        "%(table)s has %(after)s rows when all are counted at once, and"
        " %(read)s were read by ranges of its key. Nothing was compared",
        table=table.at_source,
        after=f"{after.rows:,}",
        read=f"{read:,}",
        code="rows_not_read",
        hint="verify again while nothing writes to the table; if the numbers stay"
        " apart, check its index at the source (CHECK TABLE, REINDEX), and report it",
    )
