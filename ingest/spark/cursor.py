"""The cursor of a table: what it is at the source, and how far it can be trusted now.

Shared by loads, which note where capture will begin, and rounds. Reads no rows.
"""

from __future__ import annotations

from core.errors import InvalidRequest
from ingest.changes.dialects import Dialect
from ingest.changes.positions import (
    Bound,
    SourceClock,
    from_text,
    plan_bound,
    wall_clock,
)
from ingest.contract import ColumnSpec, TableSpec

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


def bound_of(
    table: TableSpec,
    dialect: Dialect,
    clock: SourceClock,
    *,
    lag_seconds: float,
    low: str | None,
) -> Bound:
    """Up to where every row of the table is committed, by this reading."""
    column = cursor_column(table)
    return plan_bound(
        clock if column.type == "timestamp" else wall_clock(clock),
        lag_seconds=lag_seconds,
        low=from_text(low) if low else None,
        fraction_digits=dialect.fraction_digits(column.source_type),
    )


def range_of(dialect: Dialect, table: TableSpec, low: str, high: str) -> str:
    """SQL for rows with a cursor in (low, high]; low "" = from the beginning."""
    cursor, is_zoned = dialect.name(table.cursor or ""), has_zone(table)
    terms = [f"{cursor} <= {dialect.moment(high, has_zone=is_zoned)}"]
    if low:
        terms.append(f"{cursor} > {dialect.moment(low, has_zone=is_zoned)}")
    return " AND ".join(terms)
