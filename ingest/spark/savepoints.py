"""Savepoints: keeping what a table is now, and going back to it.

Going back takes the position back with the rows, for both are in the commits. The
caller holds both leases. It must not know what a savepoint was made for.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import SparkSession

from core.errors import InvalidRequest, TerminalError
from ingest.changes.rewinding import what_is_missed, what_the_source_says
from ingest.contract import JobSpec
from ingest.hudi.position import CommitPosition
from ingest.lake.commits import LakeState, read_commit, read_lake_table
from ingest.lake.epochs import forget_later
from ingest.lake.fence import require_fence
from ingest.lake.layout import read_begun_restore, remove_half_savepoint
from ingest.lake.place import place_at
from ingest.spark.asking import ask_reach
from ingest.spark.jobrun import JobRun
from ingest.spark.recovery import write_client
from ingest.spark.sources import SourceAccess
from ingest.spark.writer import qualified_name

# they hold back cleaning and archiving, so they do not stay for ever
KEPT = timedelta(days=7)


def make_savepoint(spark: SparkSession, spec: JobSpec, *, why: str) -> str:
    """At the newest commit; its instant. Made once however often it is asked for."""
    timeline = read_lake_table(spec.table.path, commits=1).timeline
    newest = timeline.completed_writes[-1].asked
    if newest not in timeline.savepoints:
        require_fence(place_at(spec.fence.path), spec.fence.token)
        remove_half_savepoint(spec.table.path, newest)
        with write_client(spark, spec) as client:
            client.savepoint(newest, "sluice", why)
    return newest


def drop_old_savepoints(client: Any, spec: JobSpec) -> None:
    limit = f"{datetime.now(UTC) - KEPT:%Y%m%d%H%M%S}000"
    for instant in read_lake_table(spec.table.path, commits=1).timeline.savepoints:
        if instant < limit:
            client.deleteSavepoint(instant)


def restore(
    run: JobRun,
    spark: SparkSession,
    asked: str,
    *,
    access: Callable[[], SourceAccess],
) -> dict[str, Any]:
    """Takes away every commit after the savepoint; the facts of the report. The source
    is asked before what it still knows of the time since."""
    spec = run.spec
    before = read_lake_table(spec.table.path)
    if asked not in before.timeline.savepoints:
        raise InvalidRequest(
            f"{qualified_name(spec)} has no savepoint {asked}",
            code="unknown_instant",
            hint="GET its savepoints",
        )
    run.enter("asking the source")
    reach = ask_reach(run, access, _position_at(spec, before, asked))
    gone = _later(before, asked)
    run.enter("restoring", total=len(gone), unit="instants")
    if gone or read_begun_restore(spec.table.path, before.timeline) == asked:
        # one that was cut off at its very end takes nothing away any more
        with write_client(spark, spec) as client:
            client.restoreToSavepoint(asked)
    after, position = _require_restored(spec, asked)
    run.add_done(len(gone))
    newest, cursor = after.timeline.completed_writes[-1].asked, _cursor_of(spec)
    # what was captured later is captured again, from the position of these rows
    behind, table = position.epoch_to, spec.table.table_id
    forget_later(spec.lake, position.source, table, after=behind, instant=newest)
    told = what_the_source_says(cursor, reach)
    return {
        "action": "restore",
        "restored": asked,
        "taken_away": gone,
        "instant": newest,
        "position": {"to": position.end},
        "epoch": position.epoch_to,
        "buckets": position.identity.buckets,
        "reaches_back": reach.reaches_back if cursor else None,
        "misses": [*told, *what_is_missed(cursor, position.end)],
        "then": "resync",
    }


def _require_restored(spec: JobSpec, asked: str) -> tuple[LakeState, CommitPosition]:
    """The table without what came later, and where capture is in it."""
    after = read_lake_table(spec.table.path)
    if left := _later(after, asked):
        raise TerminalError(
            f"{qualified_name(spec)} still has {', '.join(left)} after its restore",
            code="restore_incomplete",
            hint="ask for the restore again",
        )
    if after.position is None:
        raise TerminalError(
            f"{qualified_name(spec)} has no position after its restore",
            code="no_position",
            hint="re-sync the table",
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
