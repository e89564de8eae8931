"""Columns that a source table got after the plan was made.

A sync that meets one it does not know ends before it reads anything, so that it is
planned first. One that reads a column for the first time also reads the rows that got
values of it before: those at or below its position, which no window holds again.

Of a `SyncWork`: `added` are such columns, `known` those that are left out knowingly,
and with `stops_at_new` a column that is neither ends the sync.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from core.errors import TransientError
from core.sentences import Sentence
from ingest.contract.job import SyncWork
from ingest.contract.table import TableSpec
from ingest.driver.apply.jobrun import JobRun
from ingest.driver.jvm import failure_of
from ingest.sources.port import Source
from ingest.sources.registry import SOURCE_ERRORS
from ingest.sources.statements import counted, earlier_values

# More than that is a re-sync's work: the whole table is read then, in chunks.
REREAD_ROWS = 1_000_000

Earlier = Literal["none", "read", "many", "unknown"]


@dataclass(frozen=True, slots=True)
class EarlierValues:
    """Rows at or below the position with values of columns that are new to the lake.

    where  SQL for those that are read, too; "" = none are
    """

    columns: tuple[str, ...] = ()
    found: Earlier = "none"
    where: str = ""

    def facts(self, low: str) -> dict[str, Any]:
        """For the report; {} when no column is new. from: the columns count from
        there on, where `earlier` says that not all older values were read."""
        if not self.columns:
            return {}
        told = {"columns": list(self.columns), "earlier": self.found, "from": low}
        return {"added": told}


def new_columns(
    table: TableSpec, work: SyncWork, at_source: Iterable[str]
) -> tuple[str, ...]:
    """Those without a decision, for the report; TransientError
    `columns_added` where the table's policy wants them planned first."""
    decided = {c.source_name for c in table.columns} | set(work.known)
    new = tuple(name for name in at_source if name not in decided)
    if new and work.stops_at_new:
        raise TransientError(
            "source table %(table)s has new columns: %(new)s. Nothing was read",
            table=table.at_source,
            new=", ".join(new),
            code="columns_added",
            hint="the columns are read again, then it goes on",
        )
    return new


def columns_to_add(
    table: TableSpec, work: SyncWork, lacking: Collection[str]
) -> tuple[str, ...]:
    """Columns of which no older value is in the lake: those that are new to the plan,
    and those that the lake lacks for another reason, as it went back to a savepoint
    or a re-sync that was to bring them was cancelled. lacking: by their lake names."""
    return tuple(
        c.source_name
        for c in table.columns
        if c.source_name in work.added or c.name in lacking
    )


def find_earlier_values(
    run: JobRun, source: Source, columns: Sequence[str], *, low: str | None
) -> EarlierValues:
    """Looked for outside of any transaction: a statement cut short spoils none."""
    table, columns = run.spec.table, tuple(columns)
    if not columns or not low:
        return EarlierValues(columns)
    where = earlier_values(source.dialect, table, columns, low=low)
    sql = counted(source.dialect, table, where, most=REREAD_ROWS + 1)
    try:
        count = int(source.one(sql)[0])
    except SOURCE_ERRORS as error:
        # the request to stop this job ended the statement
        run.check()
        if failure_of(error).error.code not in {"source_cancelled", "source_slow"}:
            raise
        return _left(run, columns, "unknown")
    if count > REREAD_ROWS:
        return _left(run, columns, "many")
    return EarlierValues(columns, "read" if count else "none", where if count else "")


def _left(run: JobRun, columns: tuple[str, ...], found: Earlier) -> EarlierValues:
    how_many = {
        "many": Sentence("more than %(rows)s rows have", rows=f"{REREAD_ROWS:,}"),
        "unknown": Sentence("the source did not answer in time whether rows have"),
    }
    run.warn(
        "%(how_many)s values of %(columns)s from before this sync: they"
        " are NULL in the lake until a resync",
        how_many=how_many[found],
        columns=", ".join(columns),
    )
    return EarlierValues(columns, found)
