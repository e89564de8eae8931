"""The cursor of a table: what it is at the source, and how far it can be trusted now.

Shared by loads, which note where capture will begin, and rounds. Reads no rows.
"""

from __future__ import annotations

from datetime import timedelta

from core.errors import InvalidRequest
from ingest.changes.dialects import Dialect
from ingest.changes.positions import (
    Bound,
    SourceClock,
    from_text,
    most_delay,
    plan_bound,
    wall_clock,
)
from ingest.contract import ColumnSpec, TableSpec
from ingest.spark.jobrun import JobRun
from ingest.spark.sources import Source

_CURSOR_TYPES = frozenset({"timestamp", "timestamp_ntz"})


def cursor_column(table: TableSpec) -> ColumnSpec:
    column = next(c for c in table.columns if c.source_name == table.cursor)
    if column.type not in _CURSOR_TYPES:
        raise InvalidRequest(
            f"column {column.source_name} ({column.source_type}) cannot be a cursor",
            code="bad_cursor",
            hint="a cursor is a timestamp that every write sets to the current time",
        )
    return column


def has_zone(table: TableSpec) -> bool:
    return cursor_column(table).type == "timestamp"


def read_bound(
    run: JobRun, source: Source, *, lag_seconds: float, low: str | None
) -> tuple[SourceClock, Bound]:
    """The source's clock, and up to where every row of the table is committed by this
    reading. What it cannot tell is warned of."""
    clock = source.clock()
    column = cursor_column(run.spec.table)
    is_zoned = column.type == "timestamp"
    bound = plan_bound(
        clock if is_zoned else wall_clock(clock),
        lag_seconds=lag_seconds,
        low=from_text(low) if low else None,
        fraction_digits=source.dialect.fraction_digits(column.source_type),
    )
    if not clock.sees_others:
        run.warn(
            "open transactions of others cannot be seen"
            f" ({source.right_to_see_others} is missing): rows that commit more"
            f" than {lag_seconds:g} s after their cursor time can be missed"
        )
    delay = timedelta(0) if is_zoned else most_delay(clock)
    if delay:
        run.warn(
            "the cursor has no time zone and the server is not on UTC: rows arrive"
            f" up to {delay.total_seconds():g} s later"
        )
    if bound.set_back:
        run.warn(
            f"the source's clock is {bound.set_back.total_seconds():.0f} s behind this"
            " table's position: it was set back. Rows written until it gets there can"
            " be missed: verify the table then, and re-sync it if rows differ"
        )
    return clock, bound


def range_of(dialect: Dialect, table: TableSpec, low: str, high: str) -> str:
    """SQL for rows with a cursor in (low, high]; low "" = from the beginning."""
    cursor, is_zoned = dialect.name(table.cursor or ""), has_zone(table)
    terms = [f"{cursor} <= {dialect.moment(high, has_zone=is_zoned)}"]
    if low:
        terms.append(f"{cursor} > {dialect.moment(low, has_zone=is_zoned)}")
    return " AND ".join(terms)
