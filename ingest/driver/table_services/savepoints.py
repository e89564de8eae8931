"""Savepoints: keeping what a table is now, and going back to it.

Going back takes the position back with the rows, for both are in the commits. The
caller holds both leases. It must not know what a savepoint was made for.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

from core.errors import InvalidRequest, SluiceError, TerminalError
from core.sentences import sentence_of
from ingest.contract.job import JobSpec
from ingest.contract.table import TableSpec
from ingest.driver.apply.apply import write_client
from ingest.driver.apply.jobrun import JobRun
from ingest.driver.apply.writer import qualified_name
from ingest.driver.capture.reading import open_stoppable
from ingest.driver.capture.source_check import require_columns
from ingest.driver.jvm import failure_of
from ingest.lake.commits import LakeState, read_commit, read_lake_table, timeline_at
from ingest.lake.fence import require_fence
from ingest.lake.hudi.options import CommitPosition
from ingest.lake.hudi.timeline import ended_savepoints
from ingest.lake.layout import read_begun_restore, remove_half_savepoints
from ingest.lake.place import place_at
from ingest.maintenance.rewinding import (
    MOST_COUNTED,
    Reach,
    what_is_missed,
    what_the_source_says,
)
from ingest.sources.port import Source, SourceAccess
from ingest.sources.registry import SOURCE_ERRORS
from ingest.sources.statements import counted, never_read, rows_behind

# Why nothing behind the position can be read any more, whoever asks and whenever.
_BROKEN = frozenset({"source_changed", "source_table_missing", "bad_cursor"})


def make_savepoint(spark: SparkSession, spec: JobSpec, *, why: str) -> str:
    """At the commit that was asked for last, for Hudi keeps the files by their names;
    its instant. No compaction is planned: of its file groups Hudi would keep what was
    written since, and not what was there before. One that is there is made anew, so
    that its days begin now."""
    timeline = read_lake_table(spec.table.path, commits=1).timeline
    newest = max(i.asked for i in timeline.completed_writes)
    require_fence(spec.fence)
    remove_half_savepoints(spec.table.path)
    with write_client(spark, spec) as client:
        if newest in timeline.savepoints:
            client.deleteSavepoint(newest)
        client.savepoint(newest, "sluice", why)
    return newest


def drop_old_savepoints(client: Any, spec: JobSpec) -> None:
    timeline = timeline_at(spec.table.path)
    for instant in ended_savepoints(timeline, now=datetime.now(UTC)):
        client.deleteSavepoint(instant)


def restore(
    run: JobRun,
    spark: SparkSession,
    asked: str,
    *,
    access: Callable[[], SourceAccess],
) -> dict[str, Any]:
    """Takes away every commit after the savepoint, and savepoints of those; the facts
    of the report. The source is asked before what it still knows of the time since."""
    spec = run.spec
    before = read_lake_table(spec.table.path)
    if asked not in before.timeline.savepoints:
        raise InvalidRequest(
            "%(table)s has no savepoint %(asked)s",
            table=qualified_name(spec),
            asked=asked,
            code="unknown_instant",
            hint="choose one of its savepoints",
        )
    run.enter("asking the source")
    reach = ask_reach(run, access, _position_at(spec, before, asked))
    gone = _later(before, asked)
    run.enter("restoring", total=len(gone), unit="instants")
    with write_client(spark, spec) as client:
        _end_newer(client, spec, gone)
        if read_begun_restore(spec.table.path, before.timeline) == asked:
            _end_begun(client, asked)
        if _later(read_lake_table(spec.table.path), asked):
            client.restoreToSavepoint(asked)
    after, position = _require_restored(spec, asked)
    run.add_done(len(gone))
    cursor = _cursor_of(spec)
    follows_log = spec.repair is not None and spec.repair.stream != ""
    return {
        "action": "restore",
        "restored": asked,
        "taken_away": gone,
        "instant": after.timeline.completed_writes[-1].asked,
        "position": {"to": position.end},
        "epoch": position.epoch_to,
        "buckets": position.identity.buckets,
        "reaches_back": reach.reaches_back if cursor else None,
        "misses": [
            *what_the_source_says(cursor, reach),
            *what_is_missed(cursor, position.end, follows_log=follows_log),
        ],
        "then": "resync",
    }


def _end_begun(client: Any, asked: str) -> None:
    """Hudi goes on with a restore that was cut off by the list it had made. A completed
    compaction that had been taken back just before stays as a plan then, and this is
    its complaint; the next restore takes the plan away."""
    with contextlib.suppress(IllegalArgumentException):
        client.restoreToSavepoint(asked)


def _end_newer(client: Any, spec: JobSpec, gone: list[str]) -> None:
    """Hudi goes back as far as the newest savepoint, then stops half way."""
    require_fence(spec.fence)
    remove_half_savepoints(spec.table.path)
    kept = timeline_at(spec.table.path).savepoints
    for instant in [i for i in kept if i in gone]:
        client.deleteSavepoint(instant)


def _require_restored(spec: JobSpec, asked: str) -> tuple[LakeState, CommitPosition]:
    """The table without what came later, and where capture is in it."""
    after = read_lake_table(spec.table.path)
    if left := _later(after, asked):
        raise TerminalError(
            "%(table)s still has %(instants)s after its restore",
            table=qualified_name(spec),
            instants=", ".join(left),
            code="restore_incomplete",
            hint="ask for the restore again",
        )
    if after.position is None:
        raise TerminalError(
            "%(table)s has no position after its restore",
            table=qualified_name(spec),
            code="no_position",
            hint="resync the table",
        )
    return after, after.position


def _position_at(spec: JobSpec, state: LakeState, asked: str) -> str:
    """Where capture was at the savepoint; "" when its commit cannot tell."""
    kept = state.timeline.find(asked)
    if kept is None or kept.state != "COMPLETED":
        return ""
    position = read_commit(place_at(spec.table.path), kept).position
    return position.end if position else ""


def _cursor_of(spec: JobSpec) -> str | None:
    """By its name in the lake."""
    names = {c.source_name: c.name for c in spec.table.columns}
    return names.get(spec.table.cursor or "")


def _later(state: LakeState, asked: str) -> list[str]:
    """Completed writes and planned compactions behind the savepoint."""
    timeline = state.timeline
    later = [i.asked for i in timeline.writes_after(asked)]
    return later + [i.asked for i in timeline.pending_compactions if i.asked > asked]


def ask_reach(run: JobRun, access: Callable[[], SourceAccess], position: str) -> Reach:
    """Whether rows that changed after `position` are still found, and how many: asked
    before a table goes back. A source that cannot be asked holds nothing up, and the
    answer says so."""
    if run.spec.table.cursor is None:
        return Reach()
    try:
        with open_stoppable(run, access()) as (source, _):
            require_columns(source, run.spec.table, run.warn)
            return _reach(source, run.spec.table, position)
    except (SluiceError, *SOURCE_ERRORS) as error:
        fact = failure_of(error).error
        why = sentence_of(fact.message, fact.sentences)
        if fact.code in _BROKEN:
            return Reach(broken=why)
        return Reach(silent=why)


def _reach(source: Source, table: TableSpec, position: str) -> Reach:
    dialect = source.dialect
    since = rows_behind(dialect, table, position)
    return Reach(
        later=_count(source, table, since),
        unmarked=_count(source, table, never_read(dialect, table, position=position)),
    )


def _count(source: Source, table: TableSpec, where: str) -> int:
    found = source.one(counted(source.dialect, table, where, most=MOST_COUNTED))
    return int(found[0])
