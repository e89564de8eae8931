"""Reading a source table: how far it can be trusted, and its rows into Parquet files.

A statement is counted and stoppable. When the source was in the way (a lock, a rewrite,
a snapshot that it gave back), everything held there is given back first, then the job
pauses, says why and reads again. It must not know why rows are read.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any, TypeVar

from pyspark import SparkContext
from pyspark.sql import Column, DataFrame, Observation, SparkSession

from catalog.schema.limits import LIMITS
from catalog.sources.mariadb.clusters import RIGHT_TO_ASK as RIGHT_OF_MEMBERS
from catalog.sources.mariadb.replicas import RIGHT_TO_ASK
from core.errors import InvalidRequest, TerminalError, TransientError
from core.sentences import AND, Sentence, joined
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
from ingest.contract.table import TableSpec, sources_of
from ingest.driver.apply.clocks import checked_clock
from ingest.driver.apply.jobrun import JobRun
from ingest.driver.apply.rows import observed_counts, record_key
from ingest.driver.apply.wide_rows import refuse_too_wide_read, widest
from ingest.driver.capture.jdbc import NARROWINGS, Fetch, read_statement
from ingest.driver.capture.source_fingerprint import check_source_fingerprint
from ingest.driver.capture.stall_timeout import SourceWatch
from ingest.driver.jvm import failure_of
from ingest.driver.session import heap_of
from ingest.lake.hudi.identity import key_column
from ingest.lake.port import Place
from ingest.sources.connections import connections_of
from ingest.sources.failures import TEXT_REFUSED
from ingest.sources.fingerprint import from_data
from ingest.sources.port import Snapshot, Source, SourceAccess, row_too_wide
from ingest.sources.registry import SOURCE_ERRORS, open_source
from ingest.sources.select import Selection
from ingest.sources.statements import cursor_column, has_zone

# A replica that has applied nothing for so long has a primary that is idle, or is cut
# off from it.
_QUIET = timedelta(minutes=5)


def read_bound(
    run: JobRun, source: Source, *, lag_seconds: float, low: str | None
) -> tuple[SourceClock, Bound]:
    """The source's clock, and up to where every row of the table is committed by this
    reading. What it cannot tell is warned of. TransientError `clock_ahead`."""
    clock = checked_clock(source.clock)
    _require_readable(run, clock, was_read=bool(low))
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
        _warn_of_others(run, source, lag_seconds)
    delay = timedelta(0) if is_zoned else most_delay(clock)
    if delay:
        run.warn(
            "the cursor has no time zone and the server is not on UTC: rows"
            " arrive up to %(seconds)s s later",
            seconds=f"{delay.total_seconds():g}",
        )
    if bound.set_back:
        run.warn(
            "the source's clock is %(seconds)s s behind this table's"
            " position: it was set back. Rows written until it gets there can"
            " be missed: verify the table then, and resync it if rows differ",
            seconds=f"{bound.set_back.total_seconds():.0f}",
        )
    check_source_fingerprint(run, source, clock, low=low, is_zoned=is_zoned)
    return clock, bound


def _warn_of_others(run: JobRun, source: Source, lag_seconds: float) -> None:
    run.warn(
        "open transactions of others cannot be seen"
        " (%(right_to_see_others)s is missing): rows that commit more than"
        " %(lag_seconds)s s after their cursor time can be missed",
        right_to_see_others=source.right_to_see_others,
        lag_seconds=f"{lag_seconds:g}",
    )


def _require_readable(run: JobRun, clock: SourceClock, *, was_read: bool) -> None:
    """Whether a high watermark can be told at this server. InvalidRequest for one that
    applies what others commit without a chosen lag, TransientError while it does not
    know how far it is. was_read: by syncs before, from a primary: this one may be
    promoted soon."""
    work = run.spec.sync or run.spec.snapshot
    if clock.replica is None:
        return
    if work is None or not work.lag_is_chosen:
        refused = TransientError if was_read else InvalidRequest
        raise refused(
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
            " (%(right_to_ask)s): what it applies later than %(lag_seconds)s s"
            " can be missed",
            right_to_ask=RIGHT_TO_ASK,
            lag_seconds=f"{work.lag_seconds:g}",
        )
    quiet = clock.now - clock.complete_until
    if quiet > _QUIET:
        run.warn(
            "the source is known to be complete until %(complete_until)s UTC"
            " only, %(seconds)s s ago: its primary has committed nothing"
            " since, or it does not get here. The position waits there. A"
            " standby of PostgreSQL tells these apart when its primary_conninfo"
            " has target_session_attrs=primary",
            complete_until=f"{clock.complete_until:%H:%M:%S}",
            seconds=f"{quiet.total_seconds():.0f}",
        )


def require_shown(source: Source, table: TableSpec, position: str) -> None:
    """TransientError `source_behind` at a replica that does not show all up to this
    position of the cursor: older rows that are read there stay in the lake, for no sync
    reads them again."""
    clock = source.clock()
    if clock.replica is None:
        return
    if clock.replica.replayed is None:
        raise _unknown_end(clock.replica)
    shown = (clock if has_zone(table) else wall_clock(clock)).complete_until
    if shown < from_text(position):
        raise TransientError(
            "the source is a replica that is complete until %(shown)s UTC"
            " only, and the lake has all of %(table)s up to %(position)s."
            " Nothing was read",
            shown=f"{shown:%H:%M:%S}",
            table=table.at_source,
            position=position,
            code="source_behind",
            hint="wait until the replica has caught up, or read from the primary",
        )


def _unknown_end(replica: Replica) -> TransientError:
    if replica.follows_replica:
        why = Sentence(
            "it follows a server that is a replica itself, which may be cut off from"
            " its primary without saying so"
        )
        hint = "read from the primary, or from a replica that follows it directly"
    else:
        why = Sentence(
            "it receives no changes now, or has replayed none since it started"
        )
        hint = Sentence(
            "look at the replication of the source; of a member of a group of"
            " MySQL, the login needs %(right_of_members)s",
            right_of_members=RIGHT_OF_MEMBERS,
        )
    return TransientError(
        "the source is a standby, a replica or one of several members of a"
        " cluster and does not say up to when it is complete: %(why)s."
        " Nothing was written",
        why=why,
        code="replication_stopped",
        hint=hint,
    )


# Spark's Parquet in files that fit into memory, however wide the rows are.
_CUT_PARQUET = "io.sluice.lake.CutParquet"


@dataclass(frozen=True, slots=True)
class Reading:
    """A complete statement and the snapshot in which it is read."""

    table: TableSpec
    access: SourceAccess
    selection: Selection
    sql: str
    snapshot: Snapshot
    fetch: Fetch


@dataclass(frozen=True, slots=True)
class Counts:
    """What was read: rows, those with a NULL in their key, those with a value
    that has no form in the lake, and bytes of the widest row."""

    rows: int
    null_keys: int
    unfit: int
    widest: int


@contextlib.contextmanager
def open_stoppable(
    run: JobRun, access: SourceAccess
) -> Iterator[tuple[Source, SourceAccess]]:
    """The source for a job, and the access with which Spark reads at the same server.
    While inside, a stop request cancels whatever the job runs there, on this
    connection or through Spark; a source that has fallen silent ends all of it."""

    opened: list[Source] = []
    there = connections_of(access)

    def hang_up() -> None:
        for source in opened:
            source.hang_up()
        _end_readers(run, access)

    def cancel_at_source() -> None:
        try:
            there.cancel_statements(access)
        except SOURCE_ERRORS:
            # silent or gone: nothing will answer on the connections we have either
            hang_up()

    def waiting() -> dict[str, int]:
        found = _waiting_readers(access)
        for source in opened:
            found |= source.waiting(LIMITS.quiet)
        return found

    watch = SourceWatch(
        run,
        ask=lambda: there.describe_sessions(access),
        waiting=waiting,
        idle=lambda sessions: there.idle_sessions(access, sessions),
        hang_up=hang_up,
    )
    with run.stopped_by(cancel_at_source), open_source(access) as source:
        opened.append(source)
        with watch.watching():
            yield source, access.at(source.address)


def _end_readers(run: JobRun, access: SourceAccess) -> None:
    """Those in this JVM wake by the end of their sockets: a task that waits for a byte
    hears nothing else, and would keep its core. On a cluster they time out."""
    context = SparkContext._active_spark_context
    if context is None:
        return
    context.cancelJobsWithTag(run.tag)
    _sockets(context).hangUp(access.application)


def _waiting_readers(access: SourceAccess) -> dict[str, int]:
    """Those in this JVM that have waited for a byte for long, each wait by a name →
    their sessions."""
    context = SparkContext._active_spark_context
    if context is None:
        return {}
    found = str(_sockets(context).waiting(access.application, LIMITS.quiet))
    pairs = (each.split(":") for each in found.split(",") if each)
    return {wait: int(session) for wait, session in pairs}


def _sockets(context: SparkContext) -> Any:
    jvm: Any = context._jvm
    return jvm.io.sluice.lake.PinnedSocketFactory


def read_to_parquet(
    run: JobRun, spark: SparkSession, reading: Reading, folder: Place
) -> Counts:
    """Writes the rows to `folder`; the source must have been opened stoppable. Rows of
    more than a driver can write to the lake, and compact, are refused here: what is
    read one by one is written several times over."""
    run.check()
    observed = Observation()
    rows = _rows(spark, reading).observe(observed, *_observed(reading))
    staged = rows.write.format(_CUT_PARQUET).option("compression", "lz4_raw")
    staged.mode("overwrite").save(folder.uri)
    return _checked(spark, reading, observed.get)


def read_to_buckets(
    run: JobRun, spark: SparkSession, reading: Reading
) -> tuple[Counts, Any]:
    """Reads the rows into Spark's shuffle files, those of a bucket of their lake table
    together: a `BucketedRows`. As `read_to_parquet` otherwise."""
    run.check()
    # of a shard, the lake's key has a column more than its own
    table, name = run.spec.table, "counts"
    rows = _rows(spark, reading).observe(name, *_observed(reading))
    jvm: Any = spark._jvm
    bucketed = jvm.io.sluice.lake.BucketedRows.of(
        rows._jdf,
        record_key(table, reading.selection)._jc,
        key_column(table),
        table.buckets,
        name,
    )
    found = bucketed.counts()
    counts = {one.name: found.getAs(one.name) for one in fields(Counts)}
    return _checked(spark, reading, counts), bucketed


def _rows(spark: SparkSession, reading: Reading) -> DataFrame:
    return read_statement(
        spark,
        reading.access,
        reading.selection,
        sql=reading.sql,
        snapshot=reading.snapshot,
        fetch=reading.fetch,
    )


def _observed(reading: Reading) -> list[Column]:
    return observed_counts(reading.table, reading.selection)


def _checked(
    spark: SparkSession, reading: Reading, found: Mapping[str, int | None]
) -> Counts:
    counts = Counts(*(int(found[one.name] or 0) for one in fields(Counts)))
    most, table = widest(heap_of(spark)), reading.table.at_source
    refuse_too_wide_read(counts.widest, most, table=table)
    return counts


T = TypeVar("T")

# Seconds between one try and the next; after the last the job ends, and is tried again
# like any other that failed in passing.
PAUSES: tuple[float, ...] = (1, 2, 4, 8, 15, 30)
_POLL_SECONDS = 0.2
REWRITTEN = "source_rewritten"
LOCKED = "source_locked"
_WIDE = "source_rows_wide"
_REASONS = {
    LOCKED: Sentence("waits for a lock at the source"),
    REWRITTEN: Sentence("the source table was rewritten while it was read"),
    "source_snapshot_lost": Sentence("the snapshot of the source is gone"),
    _WIDE: Sentence("rows are too wide for so many at a time"),
}


@dataclass(frozen=True, slots=True)
class Trial:
    """One try.

    definition  of the table when it began; see `Source.definition`
    was_wide    how many tries before found rows too wide for the number of rows that
                they fetched at a time
    """

    definition: str = ""
    was_wide: int = 0


def read_patiently(
    run: JobRun,
    source: Source,
    read: Callable[[Trial], T],
    *,
    drop: Callable[[], None] = lambda: None,
    tables: Sequence[TableSpec] = (),
) -> T:
    """`read`'s result. What was staged goes by `drop` when it no longer counts. tables:
    of the source, that it reads; () = all of the job's table."""
    tables = tables or sources_of(run.spec.table)
    was_wide = 0
    for pause in (*PAUSES, None):
        try:
            return _unchanged(source, tables, read, was_wide)
        except Exception as error:
            code = failure_of(error).error.code
            if code == TEXT_REFUSED and run.stop_mode is None:
                raise _text_refused(source, tables, error) from error
            if source.gave_way:
                # whatever failed, we ended it
                code = LOCKED
            if code not in _REASONS or run.stop_mode is not None:
                raise
            reason = _explained(source, tables, code)
            if code == _WIDE and was_wide >= NARROWINGS:
                raise row_too_wide(run.spec.table.at_source) from error
            if pause is None:
                raise _given_up(run.spec.table, code, reason) from error
            if code == REWRITTEN:
                drop()
            was_wide += code == _WIDE
        run.explain(reason)
        run.say(
            "warning",
            Sentence(
                "%(reason)s: tried again in %(pause)s s",
                reason=reason,
                pause=f"{pause:g}",
            ),
        )
        _pause(run, pause)
        run.explain("")
    raise AssertionError("the last try returns or raises")


def _unchanged(
    source: Source,
    tables: Sequence[TableSpec],
    read: Callable[[Trial], T],
    was_wide: int,
) -> T:
    """What `read` found, if the tables were defined the same before and after it."""
    before = [source.definition(table) for table in tables]
    try:
        found = read(Trial("\n".join(before), was_wide))
    finally:
        source.give_back()
    for table, definition in zip(tables, before, strict=True):
        if source.definition(table) != definition:
            raise TransientError(
                "source table %(table)s was changed while it was read",
                table=table.at_source,
                code=REWRITTEN,
            )
    return found


def _explained(source: Source, tables: Sequence[TableSpec], code: str) -> str:
    holder = ""
    # the lock may be that of a catalog, and the connection may be gone
    with contextlib.suppress(*SOURCE_ERRORS):
        holder = next(filter(None, map(source.lock_holders, tables)), "")
    return joined([_REASONS[code], holder], by=AND)


def _text_refused(
    source: Source, tables: Sequence[TableSpec], error: Exception
) -> TerminalError:
    """The source's own words do not say where the text is."""
    said, why = failure_of(error).error, ""
    with contextlib.suppress(*SOURCE_ERRORS):
        for table in tables:
            if found := source.bad_text(table):
                why = Sentence(
                    "%(table)s cannot be read: %(found)s",
                    table=table.at_source,
                    found=found,
                )
                break
    return TerminalError(
        "%(why)s. Nothing of this job is visible",
        why=why or said.message,
        code=said.code,
        hint=said.hint,
    )


def _given_up(table: TableSpec, code: str, reason: str) -> TransientError:
    return TransientError(
        "%(table)s could not be read: %(reason)s. Given up after %(count)s"
        " tries; nothing of this job is visible",
        table=table.at_source,
        reason=reason,
        count=len(PAUSES) + 1,
        code=code,
        hint="it is tried again automatically; end what changes or locks the table at"
        " the source, if it should not run",
    )


def _pause(run: JobRun, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        run.check()
        time.sleep(_POLL_SECONDS)
