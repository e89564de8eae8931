"""The cursor of a table: what it is at the source, and how far it can be trusted now.

Shared by loads, which note where capture will begin, and syncs. Reads no rows.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from catalog.sources.mariadb.clusters import RIGHT_TO_ASK as RIGHT_OF_MEMBERS
from catalog.sources.mariadb.replicas import RIGHT_TO_ASK
from core.errors import InvalidRequest, TransientError
from ingest.contract.positions import (
    Bound,
    Replica,
    SourceClock,
    came_to_rest,
    from_text,
    most_delay,
    plan_bound,
    wall_clock,
)
from ingest.contract.table import ColumnSpec, TableSpec
from ingest.driver.apply.clocks import checked_clock
from ingest.driver.apply.jobrun import JobRun
from ingest.driver.capture.source_fingerprint import check_source_fingerprint
from ingest.sources.dialects import Dialect
from ingest.sources.fingerprint import from_data
from ingest.sources.registry import Source

_CURSOR_TYPES = frozenset({"timestamp", "timestamp_ntz"})
# A replica that has applied nothing for so long has a primary that is idle, or is cut
# off from it.
_QUIET = timedelta(minutes=5)


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
    before = from_data(run.spec.sync.source_fingerprint if run.spec.sync else {}).clock
    is_zoned = column.type == "timestamp"
    bound = plan_bound(
        clock if is_zoned else wall_clock(clock),
        lag_seconds=lag_seconds,
        low=from_text(low) if low else None,
        fraction_digits=source.dialect.fraction_digits(column.source_type),
        came_to_rest=came_to_rest(
            clock, datetime.fromisoformat(before) if before else None
        ),
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
    check_source_fingerprint(run, source, clock, low=low, is_zoned=is_zoned)
    return clock, bound


def _require_readable(run: JobRun, clock: SourceClock) -> None:
    """Whether a high watermark can be told at this server. InvalidRequest for one that
    applies what others commit without a chosen lag, TransientError while it does not
    know how far it is."""
    work = run.spec.sync or run.spec.snapshot
    if clock.replica is None:
        return
    if work is None or not work.lag_is_chosen:
        raise InvalidRequest(
            "the source is a standby, a replica or one of several members of a cluster:"
            " it does not show the open transactions of other servers, so rows could be"
            " passed over. Nothing was written",
            code="standby_without_lag",
            hint="set lag_seconds by policy, longer than the longest transaction of"
            " other servers, or read from the primary; then resume",
        )
    if clock.replica.replayed is None:
        raise _unknown_end(clock.replica)
    if not clock.replica.may_ask:
        run.warn(
            "how far this replica is behind its primary cannot be seen"
            f" ({RIGHT_TO_ASK}): what it applies later than {work.lag_seconds:g} s can"
            " be missed"
        )
    quiet = clock.now - clock.complete_until
    if quiet > _QUIET:
        run.warn(
            f"the source is known to be complete until {clock.complete_until:%H:%M:%S}"
            f" UTC only, {quiet.total_seconds():.0f} s ago: its primary has committed"
            " nothing since, or it does not get here. The position waits there. A"
            " standby of PostgreSQL tells these apart when its primary_conninfo has"
            " target_session_attrs=primary"
        )


def _unknown_end(replica: Replica) -> TransientError:
    if replica.follows_replica:
        why = (
            "it follows a server that is a replica itself, which may be cut off from"
            " its primary without saying so"
        )
        hint = "read from the primary, or from a replica that follows it directly"
    else:
        why = "it receives no changes now, or has replayed none since it started"
        hint = (
            "look at the replication of the source; of a member of a group of MySQL,"
            f" the login needs {RIGHT_OF_MEMBERS}"
        )
    return TransientError(
        "the source is a standby, a replica or one of several members of a cluster and"
        f" does not say up to when it is complete: {why}. Nothing was written",
        code="replication_stopped",
        hint=hint,
    )


def range_of(dialect: Dialect, table: TableSpec, low: str, high: str) -> str:
    """SQL for rows with a cursor in (low, high]; low "" = from the beginning."""
    cursor, is_zoned = dialect.name(table.cursor or ""), has_zone(table)
    terms = [f"{cursor} <= {dialect.moment(high, has_zone=is_zoned)}"]
    if low:
        terms.append(f"{cursor} > {dialect.moment(low, has_zone=is_zoned)}")
    return " AND ".join(terms)


def never_read(dialect: Dialect, table: TableSpec, *, position: str) -> str:
    """SQL for rows whose changes no window holds: they have no cursor value, or one
    below every position. position "" = of no load."""
    column = cursor_column(table)
    below = dialect.below_all(column, position=position)
    return f"({dialect.name(column.source_name)} IS NULL OR {below})"
