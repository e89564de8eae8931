"""One sync of timestamp capture: rows with a cursor in (low, high] → an epoch.

`high` is noted before reading, so nothing inside the window can still commit. Now and
then younger rows are read, too (`Bound.reach`); the next sync begins at `high` anyway.
Deletes are not seen by this capture. It must not know how an epoch is applied.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from pyspark.sql import SparkSession

from core.errors import InvalidRequest, SluiceError, TerminalError
from ingest.contract.epochs import MAX_INDEX, Seal, SealedFile
from ingest.contract.job import SyncWork
from ingest.contract.positions import Bound, SourceClock, from_text, to_text
from ingest.contract.table import TableSpec
from ingest.driver.apply.jobrun import JobRun
from ingest.driver.apply.partitions import refuse_long_partitions
from ingest.driver.apply.rows import read_staged
from ingest.driver.apply.sealed_files import sha256_of
from ingest.driver.capture.added_columns import (
    EarlierValues,
    columns_to_add,
    find_earlier_values,
    new_columns,
)
from ingest.driver.capture.cursor import (
    cursor_column,
    has_zone,
    never_read,
    range_of,
    read_bound,
)
from ingest.driver.capture.follower import Captured
from ingest.driver.capture.gate import SourceGate
from ingest.driver.capture.jdbc import Fetch, fetch_rows
from ingest.driver.capture.keys import (
    has_unique_keys,
    null_keys,
    refuse_repeated_keys,
    refuse_shared_texts,
)
from ingest.driver.capture.read_with_retry import Trial, read_patiently
from ingest.driver.capture.reading import (
    Counts,
    Reading,
    open_stoppable,
    read_to_parquet,
)
from ingest.driver.capture.same_table import ensure_same_table
from ingest.driver.capture.source_check import require_columns
from ingest.lake.epochs import drop_events, epoch_folder, write_seal
from ingest.lake.fence import require_fence
from ingest.lake.port import bytes_below
from ingest.lake.sealed_columns import columns_of
from ingest.sources.dialects import Dialect, dialect_of
from ingest.sources.registry import Snapshot, Source, SourceAccess
from ingest.sources.select import relation_of, select_columns

# Counting more rows that no window holds than this adds nothing.
_NULLS_COUNTED = 100_000
# What the replay of a sealed epoch tells.
NOTHING_READ: Mapping[str, Any] = {"held_back": None, "more": False, "null_cursors": 0}


@dataclass(frozen=True, slots=True)
class Window:
    """What one sync reads. low "" = from the beginning.

    reach  up to where it reads, at least `high`
    more   cut at max_rows: run another sync
    null_cursors  rows that no window holds, see `never_read`
    earlier  rows below it that are read, too
    unknown  columns of the source that are left out, and of which no one knows
    """

    low: str
    high: str
    reach: str
    held_back: dict[str, Any] | None
    more: bool
    null_cursors: int
    earlier: EarlierValues = field(default_factory=EarlierValues)
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TimestampFollower:
    """Follows one table by its cursor: each `capture` is an incremental sync."""

    run: JobRun
    spark: SparkSession
    access: SourceAccess
    gate: SourceGate

    @property
    def epoch(self) -> int:
        return sync_work(self.run).epoch

    def capture(self, lacking: Collection[str]) -> Captured:
        """Reads the window and seals its epoch."""
        run, access = self.run, self.access
        added = columns_to_add(run.spec.table, sync_work(run), lacking)
        try:
            window, file = _captured_patiently(
                run, self.spark, access, self.gate, added
            )
            # a load that took the table over has looked for seals already
            require_fence(run.spec.fence)
        except BaseException:
            _drop_unsealed(run, access)
            raise
        run.add_done(file.rows)
        seal = write_seal(run.spec.lake, _seal(run, access, window, file))
        facts = {
            "held_back": window.held_back,
            "more": window.more,
            "null_cursors": window.null_cursors,
            **window.earlier.facts(window.low),
            **({"unknown_columns": list(window.unknown)} if window.unknown else {}),
        }
        return Captured(seal, facts)

    def replay(self, seal: Seal) -> Captured:
        """What a former attempt has sealed, read no more."""
        return Captured(seal, dict(NOTHING_READ))


def _captured_patiently(
    run: JobRun,
    spark: SparkSession,
    access: SourceAccess,
    gate: SourceGate,
    added: Sequence[str],
) -> tuple[Window, SealedFile]:
    with open_stoppable(run, access) as (source, access):
        run.enter("planning")

        def read(trial: Trial) -> tuple[Window, SealedFile]:
            with gate.reading(run):
                return _captured(run, spark, source, access, trial=trial, added=added)

        # what a try before staged goes when the next one begins
        window, file = read_patiently(run, source, read, drop=lambda: None)
        gate.account(file.rows)
    return window, file


def _captured(
    run: JobRun,
    spark: SparkSession,
    source: Source,
    access: SourceAccess,
    *,
    trial: Trial,
    added: Sequence[str],
) -> tuple[Window, SealedFile]:
    spec, work = run.spec, sync_work(run)
    table = spec.table
    columns = require_columns(source, table, run.warn)
    unknown = new_columns(table, work, columns)
    earlier = find_earlier_values(run, source, added, low=work.low)
    clock, bound = read_bound(run, source, lag_seconds=work.lag_seconds, low=work.low)
    ensure_same_table(run, spark, source, access)
    with source.within(table):
        window = _window(run, source, clock, bound)
        window = replace(window, earlier=earlier, unknown=unknown)
        is_empty = _is_empty(source, table, window)
    if is_empty and has_unique_keys(source, table):
        # most tables are quiet most of the time, and Spark is dear
        source.give_back()
        epoch_folder(spec.lake, access.spec.datasource_id, work.epoch).delete_all()
        return window, SealedFile(table.table_id, str(table.table_id), 0, 0)
    run.enter("reading")
    fetch = fetch_rows(source.widths(table), trial.was_wide)
    with source.reading(table, can_renew=False) as snapshot:
        file, nulls = _read(run, spark, access, view=(snapshot, fetch), window=window)
    changed = _condition(source.dialect, table, window)
    if nulls:
        raise null_keys(source, table, nulls, where=changed)
    source.give_back()
    facts = None if table.row_hash else source.key_facts(table, table.key)
    if facts is not None:
        refuse_shared_texts(source, table, facts.types, where=changed)
    if facts is None or facts.is_unique:
        return window, replace(file, unique_keys=True)
    run.enter("checking keys")
    staged = epoch_folder(spec.lake, access.spec.datasource_id, work.epoch)
    refuse_repeated_keys(run, spark, source, staged=staged / file.path, changed=changed)
    return window, file


def _drop_unsealed(run: JobRun, access: SourceAccess) -> None:
    """What was read for an epoch that is never sealed now: its next attempt gets
    another one. A writer that was shut out leaves it to the cleaning."""
    spec = run.spec
    with contextlib.suppress(SluiceError, OSError):
        require_fence(spec.fence)
        drop_events(spec.lake, access.spec.datasource_id, sync_work(run).epoch)


def sync_work(run: JobRun) -> SyncWork:
    if run.spec.sync is None or run.spec.table.cursor is None:
        raise InvalidRequest("a sync needs a cursor and its bounds")
    return run.spec.sync


def _window(run: JobRun, source: Source, clock: SourceClock, bound: Bound) -> Window:
    table, work = run.spec.table, sync_work(run)
    is_zoned = has_zone(table)
    dialect = source.dialect
    column = cursor_column(table)
    cursor = dialect.name(column.source_name)
    relation = relation_of(dialect, table)
    low, high = work.low or "", to_text(bound.high, has_zone=is_zoned)
    # equal rows without a key are counted, so they have to be read all at once
    reach = high if table.row_hash else to_text(bound.reach, has_zone=is_zoned)
    cut = source.rows(
        # an edge is a moment
        f"SELECT {cursor} FROM {relation} WHERE {range_of(dialect, table, low, reach)}"
        f" AND {dialect.read(column).fits}"
        f" ORDER BY {cursor} LIMIT 1 OFFSET {max(1, work.max_rows) - 1}"
    )
    more = False
    if cut:
        # rows equal to the cut stay together, or the next sync would miss some
        moment: datetime = cut[0][0]
        edge = min(high, to_text(_labelled(moment), has_zone=is_zoned))
        more, high, reach = edge != high, edge, edge
    unseen = never_read(dialect, table, position=low or high)
    found = source.one(
        f"SELECT count(*) FROM (SELECT 1 FROM {relation} WHERE {unseen}"
        f" LIMIT {_NULLS_COUNTED}) AS unseen"
    )
    nulls = int(found[0])
    if nulls:
        run.warn(
            f"{nulls} rows have no {table.cursor}, or one that is no moment or before"
            " the year 1: their changes are not seen"
        )
    return Window(low, high, reach, _held_back(clock, bound), more, nulls)


def _read(
    run: JobRun,
    spark: SparkSession,
    access: SourceAccess,
    *,
    view: tuple[Snapshot, Fetch],
    window: Window,
) -> tuple[SealedFile, int]:
    """The file, and how many of its rows have NULL in their key."""
    spec, work = run.spec, sync_work(run)
    table = spec.table
    dialect = dialect_of(access.spec.kind)
    selection = select_columns(dialect, table.columns)
    where = _condition(dialect, table, window)
    relation = relation_of(dialect, table)
    sql = selection.sql(relation, where)
    folder = epoch_folder(spec.lake, access.spec.datasource_id, work.epoch)
    # nothing was sealed, so whatever is stored there is of an attempt that died
    folder.delete_all()
    path = str(table.table_id)
    target = folder / path
    reading = Reading(table, access, selection, sql, *view)
    counts = read_to_parquet(run, spark, reading, target)
    _refuse(table, counts)
    staged = read_staged(spark, selection, [target.uri])
    refuse_long_partitions(staged, table, selection)
    size = bytes_below(target)
    file = SealedFile(
        table.table_id,
        path,
        counts.rows,
        size,
        sha256=sha256_of(spark, target),
        unfit=counts.unfit,
        columns=columns_of(selection, table.columns),
    )
    return file, counts.null_keys


def _is_empty(source: Source, table: TableSpec, window: Window) -> bool:
    """Whether there is nothing to read. What appears later than this look lies behind
    the high watermark."""
    relation = relation_of(source.dialect, table)
    where = _condition(source.dialect, table, window)
    return not source.rows(f"SELECT 1 FROM {relation} WHERE {where} LIMIT 1")


def _condition(dialect: Dialect, table: TableSpec, window: Window) -> str:
    changed = range_of(dialect, table, window.low, window.reach)
    earlier = window.earlier.where
    return f"(({changed}) OR ({earlier}))" if earlier else changed


def _refuse(table: TableSpec, counts: Counts) -> None:
    """Before the seal: what is sealed has to be applied."""
    where = f"{table.source_schema}.{table.source_table}"
    if counts.rows > MAX_INDEX:
        raise TerminalError(
            f"{counts.rows} rows of {where} share one value of {table.cursor}:"
            " too many for an epoch",
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


def _seal(run: JobRun, access: SourceAccess, window: Window, file: SealedFile) -> Seal:
    spec, work = run.spec, sync_work(run)
    return Seal(
        source=access.spec.datasource_id,
        epoch=work.epoch,
        start=window.low,
        end=window.high,
        files=(file,),
        schema_versions={str(spec.table.table_id): spec.table.schema_version},
        job_id=spec.job_id,
    )
