"""The cursor of a table: what it is at the source, and how far it can be trusted now.

Shared by loads, which note where capture will begin, and rounds. Reads no rows.
"""

from __future__ import annotations

from datetime import timedelta

from catalog.sources.mariadb.replicas import RIGHT_TO_ASK
from core.errors import InvalidRequest, TransientError
from ingest.capture.signs import look_for_signs
from ingest.contract.positions import (
    Bound,
    SourceClock,
    from_text,
    most_delay,
    plan_bound,
    wall_clock,
)
from ingest.contract.table import ColumnSpec, TableSpec
from ingest.lake.commit.clocks import checked_clock
from ingest.lake.commit.jobrun import JobRun
from ingest.sources.dialects import Dialect
from ingest.sources.registry import Source

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
    reading. What it cannot tell is warned of. TransientError `clock_ahead`."""
    clock = checked_clock(source.clock)
    _require_readable(run, clock)
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
            " be missed: verify the table then, and resync it if rows differ"
        )
    look_for_signs(run, source, clock, low=low, is_zoned=is_zoned)
    return clock, bound


def _require_readable(run: JobRun, clock: SourceClock) -> None:
    """Whether a high watermark can be told at this server. InvalidRequest for a replica
    without a chosen lag, TransientError while it receives nothing."""
    work = run.spec.round or run.spec.snapshot
    if clock.replica is None:
        return
    if work is None or not work.lag_is_chosen:
        raise InvalidRequest(
            "the source is a standby or replica: it does not show the open transactions"
            " of its primary, so rows could be passed over. Nothing was written",
            code="standby_without_lag",
            hint="set lag_seconds by policy, longer than the longest transaction of the"
            " primary, or read from the primary; then resume",
        )
    if clock.replica.replayed is None:
        raise TransientError(
            "the source is a standby or replica and does not say up to when it is"
            " complete: it receives no changes now, or has replayed none since it"
            " started. Nothing was written",
            code="replication_stopped",
            hint="look at the replication of the source",
        )
    if not clock.replica.may_ask:
        run.warn(
            "how far this replica is behind its primary cannot be seen"
            f" ({RIGHT_TO_ASK}): what it applies later than {work.lag_seconds:g} s can"
            " be missed"
        )


def range_of(dialect: Dialect, table: TableSpec, low: str, high: str) -> str:
    """SQL for rows with a cursor in (low, high]; low "" = from the beginning."""
    cursor, is_zoned = dialect.name(table.cursor or ""), has_zone(table)
    terms = [f"{cursor} <= {dialect.moment(high, has_zone=is_zoned)}"]
    if low:
        terms.append(f"{cursor} > {dialect.moment(low, has_zone=is_zoned)}")
    return " AND ".join(terms)
