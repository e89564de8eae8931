"""One sync of timestamp capture: rows with a cursor in (low, high] are staged.

`high` is noted before reading, so nothing inside the window can still commit. Now and
then younger rows are read, too (`Bound.reach`); the next sync begins at `high` anyway.
Deletes are not seen by this capture. Who dies before the commit has done nothing: the
next sync reads from the same position again. It must not know how rows are applied.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from pyspark.sql import SparkSession

from core.errors import InvalidRequest, SluiceError, TerminalError
from ingest.contract.job import SyncWork
from ingest.contract.positions import MAX_INDEX, Bound, SourceClock, from_text, to_text
from ingest.contract.table import TableSpec
from ingest.driver.apply.apply import StagedRows
from ingest.driver.apply.jobrun import JobRun
from ingest.driver.apply.partitions import refuse_long_partitions
from ingest.driver.apply.rows import read_staged
from ingest.driver.capture.added_columns import (
    EarlierValues,
    columns_to_add,
    find_earlier_values,
    new_columns,
)
from ingest.driver.capture.gate import SourceGate
from ingest.driver.capture.jdbc import Fetch, fetch_rows
from ingest.driver.capture.keys import (
    has_unique_keys,
    null_keys,
    refuse_repeated_keys,
    refuse_shared_texts,
)
from ingest.driver.capture.reading import (
    Counts,
    Reading,
    Trial,
    open_stoppable,
    read_bound,
    read_patiently,
    read_to_parquet,
)
from ingest.driver.capture.same_table import ensure_same_table
from ingest.driver.capture.source_check import require_columns
from ingest.lake.place import place_at
from ingest.lake.port import Place
from ingest.sources.dialects import Dialect, dialect_of
from ingest.sources.port import Snapshot, Source, SourceAccess
from ingest.sources.select import relation_of, select_columns
from ingest.sources.statements import (
    any_row,
    counted,
    either,
    has_zone,
    never_read,
    range_of,
    window_cut,
)

# Counting more rows that no window holds than this adds nothing.
_NULLS_COUNTED = 100_000


@dataclass(frozen=True, slots=True)
class Window:
    """What one sync reads. low "" = from the beginning.

    reach  up to where it reads, at least `high`
    more   cut at max_rows: run another sync
    null_cursors  rows that no window holds, see `never_read`
    earlier  rows below it that are read, too
    unknown  columns of the source that are left out, and of which no one knows
    is_empty  no row is in it
    """

    low: str
    high: str
    reach: str
    held_back: dict[str, Any] | None
    more: bool
    null_cursors: int
    earlier: EarlierValues = field(default_factory=EarlierValues)
    unknown: tuple[str, ...] = ()
    is_empty: bool = False


@dataclass(frozen=True, slots=True)
class _Sync:
    """What the steps of one attempt share."""

    run: JobRun
    spark: SparkSession
    access: SourceAccess
    gate: SourceGate
    folder: Place


@contextmanager
def sync_folder(run: JobRun) -> Iterator[Place]:
    """Where this attempt stages its rows. What a dead one left goes first; a superseded
    one that still runs writes into a folder of its own. What cannot be deleted fails
    no job: its rows may be committed, and the next sync deletes it."""
    spec = run.spec
    area = place_at(spec.table.staging) / "sync"
    own = area / f"{spec.job_id}-{spec.attempt}"
    area.delete_all()
    try:
        yield own
    finally:
        with suppress(SluiceError, OSError):
            own.delete_all()


def capture_window(
    run: JobRun,
    spark: SparkSession,
    access: SourceAccess,
    gate: SourceGate,
    *,
    folder: Place,
    lacking: Collection[str],
) -> tuple[StagedRows, dict[str, Any]]:
    """Stages what changed in `folder`; and what the report tells of the reading.

    lacking  lake names of columns that the lake table does not have yet
    """
    added = columns_to_add(run.spec.table, sync_work(run), lacking)
    sync = _Sync(run, spark, access, gate, folder)
    window, staged = _captured_patiently(sync, added)
    run.add_done(staged.rows)
    facts = {
        "held_back": window.held_back,
        "more": window.more,
        "null_cursors": window.null_cursors,
        **window.earlier.facts(window.low),
        **({"unknown_columns": list(window.unknown)} if window.unknown else {}),
    }
    return staged, facts


def _captured_patiently(sync: _Sync, added: Sequence[str]) -> tuple[Window, StagedRows]:
    run = sync.run
    with open_stoppable(run, sync.access) as (source, access):
        sync = replace(sync, access=access)
        run.enter("planning")

        def read(trial: Trial) -> tuple[Window, StagedRows]:
            with sync.gate.reading(run):
                window = _planned(sync, source, added)
                return window, _staged(sync, source, window, trial)

        # what a try before staged is overwritten by the next one
        window, staged = read_patiently(run, source, read)
        sync.gate.account(staged.rows)
    return window, staged


def _planned(sync: _Sync, source: Source, added: Sequence[str]) -> Window:
    run = sync.run
    table, work = run.spec.table, sync_work(run)
    columns = require_columns(source, table, run.warn)
    unknown = new_columns(table, work, columns)
    earlier = find_earlier_values(run, source, added, low=work.low)
    clock, bound = read_bound(run, source, lag_seconds=work.lag_seconds, low=work.low)
    ensure_same_table(run, sync.spark, source, sync.access)
    with source.within(table):
        window = _window(run, source, clock, bound)
        window = replace(window, earlier=earlier, unknown=unknown)
        is_empty = _is_empty(source, table, window)
    return replace(window, is_empty=is_empty)


def _staged(sync: _Sync, source: Source, window: Window, trial: Trial) -> StagedRows:
    run, table = sync.run, sync.run.spec.table
    if window.is_empty and has_unique_keys(source, table):
        # most tables are quiet most of the time, and Spark is dear
        source.give_back()
        return StagedRows(sync.folder, window.low, window.high)
    run.enter("reading")
    fetch = fetch_rows(source.widths(table), trial.was_wide)
    with source.reading(table, can_renew=False) as snapshot:
        counts = _read(sync, view=(snapshot, fetch), window=window)
    changed = _condition(source.dialect, table, window)
    if counts.null_keys:
        raise null_keys(source, table, counts.null_keys, where=changed)
    source.give_back()
    staged = StagedRows(sync.folder, window.low, window.high, counts.rows, counts.unfit)
    facts = None if table.row_hash else source.key_facts(table, table.key)
    if facts is not None:
        refuse_shared_texts(source, table, facts.types, where=changed)
    if facts is None or facts.is_unique:
        return replace(staged, unique_keys=True)
    run.enter("checking keys")
    refuse_repeated_keys(run, sync.spark, source, staged=sync.folder, changed=changed)
    return staged


def sync_work(run: JobRun) -> SyncWork:
    if run.spec.sync is None or run.spec.table.cursor is None:
        raise InvalidRequest("a sync needs a cursor and its bounds")
    return run.spec.sync


def _window(run: JobRun, source: Source, clock: SourceClock, bound: Bound) -> Window:
    table, work = run.spec.table, sync_work(run)
    is_zoned = has_zone(table)
    dialect = source.dialect
    low, high = work.low or "", to_text(bound.high, has_zone=is_zoned)
    # equal rows without a key are counted, so they have to be read all at once
    reach = high if table.row_hash else to_text(bound.reach, has_zone=is_zoned)
    most = max(1, work.max_rows)
    cut = source.rows(window_cut(dialect, table, low, reach, rows=most))
    more = False
    if cut:
        # rows equal to the cut stay together, or the next sync would miss some
        moment: datetime = cut[0][0]
        edge = min(high, to_text(_labelled(moment), has_zone=is_zoned))
        more, high, reach = edge != high, edge, edge
    unseen = never_read(dialect, table, position=low or high)
    found = source.one(counted(dialect, table, unseen, most=_NULLS_COUNTED))
    nulls = int(found[0])
    if nulls:
        run.warn(
            "%(nulls)s rows have no %(cursor)s, or one that is no moment or"
            " before the year 1: their changes are not seen",
            nulls=nulls,
            cursor=table.cursor,
        )
    return Window(low, high, reach, _held_back(clock, bound), more, nulls)


def _read(sync: _Sync, *, view: tuple[Snapshot, Fetch], window: Window) -> Counts:
    access, table = sync.access, sync.run.spec.table
    dialect = dialect_of(access.spec.kind)
    selection = select_columns(dialect, table.columns)
    where = _condition(dialect, table, window)
    sql = selection.sql(relation_of(dialect, table), where)
    reading = Reading(table, access, selection, sql, *view)
    counts = read_to_parquet(sync.run, sync.spark, reading, sync.folder)
    _refuse(table, counts)
    staged = read_staged(sync.spark, selection, [sync.folder.uri])
    refuse_long_partitions(staged, table, selection)
    return counts


def _is_empty(source: Source, table: TableSpec, window: Window) -> bool:
    """Whether there is nothing to read. What appears later than this look lies behind
    the high watermark."""
    where = _condition(source.dialect, table, window)
    return not source.rows(any_row(source.dialect, table, where))


def _condition(dialect: Dialect, table: TableSpec, window: Window) -> str:
    changed = range_of(dialect, table, window.low, window.reach)
    return either(changed, window.earlier.where)


def _refuse(table: TableSpec, counts: Counts) -> None:
    where = table.at_source
    if counts.rows > MAX_INDEX:
        raise TerminalError(
            "%(rows)s rows of %(where)s share one value of %(cursor)s: too"
            " many for one commit",
            rows=counts.rows,
            where=where,
            cursor=table.cursor,
            code="epoch_too_large",
            hint="resync the table, then go on",
        )


def _labelled(moment: datetime) -> datetime:
    return moment if moment.tzinfo else from_text(moment.isoformat())


def _held_back(clock: SourceClock, bound: Bound) -> dict[str, Any] | None:
    if bound.held_by is None:
        return None
    since = next(
        (t.since for t in clock.transactions if _same(t, bound)), bound.held_by.since
    )
    age = max(timedelta(0), clock.now - since)
    return {
        "pid": bound.held_by.pid,
        "age_seconds": round(age.total_seconds(), 3),
        "prepared": bound.held_by.name if bound.held_by.is_prepared else None,
    }


def _same(transaction: Any, bound: Bound) -> bool:
    held = bound.held_by
    return held is not None and (transaction.pid, transaction.name) == (
        held.pid,
        held.name,
    )
