"""Asking a source whether it still reaches back, before a table goes back.

Counts rows, reads none. A source that cannot be asked holds nothing up: the answer
says so. It must not know savepoints.
"""

from __future__ import annotations

from collections.abc import Callable

from core.errors import SluiceError
from ingest.capture.cursor import has_zone
from ingest.capture.reading import open_stoppable
from ingest.capture.source_check import require_columns
from ingest.contract.table import TableSpec
from ingest.lake.commit.jobrun import JobRun
from ingest.maintenance.rewinding import MOST_COUNTED, Reach
from ingest.sources.failures import failure_of
from ingest.sources.registry import SOURCE_ERRORS, Source, SourceAccess
from ingest.sources.select import relation_of

# Why nothing behind the position can be read any more, whoever asks and whenever.
_BROKEN = frozenset({"source_changed", "source_table_missing", "bad_cursor"})


def ask_reach(run: JobRun, access: Callable[[], SourceAccess], position: str) -> Reach:
    """Whether rows that changed after `position` are still found, and how many."""
    if run.spec.table.cursor is None:
        return Reach()
    try:
        with open_stoppable(run, access()) as (source, _):
            require_columns(source, run.spec.table, run.warn)
            return _reach(source, run.spec.table, position)
    except (SluiceError, *SOURCE_ERRORS) as error:
        fact = failure_of(error).error
        words = fact.message.removesuffix(". Nothing was written")
        if fact.code in _BROKEN:
            return Reach(broken=words)
        return Reach(silent=words)


def _reach(source: Source, table: TableSpec, position: str) -> Reach:
    dialect = source.dialect
    cursor = dialect.name(table.cursor or "")
    since = f"{cursor} IS NOT NULL"
    if position:
        since = f"{cursor} > {dialect.moment(position, has_zone=has_zone(table))}"
    return Reach(
        later=_count(source, table, since),
        unmarked=_count(source, table, f"{cursor} IS NULL"),
    )


def _count(source: Source, table: TableSpec, where: str) -> int:
    relation = relation_of(source.dialect, table)
    found = source.one(
        f"SELECT count(*) FROM (SELECT 1 FROM {relation} WHERE {where}"
        f" LIMIT {MOST_COUNTED}) AS found"
    )
    return int(found[0])
