"""Undoing unfinished instants of a table, and taking planned compactions off.

Hudi's timeline is looked at before each step and afterwards, so that one that was
killed half way is simply run again.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from core.errors import InvalidRequest, TerminalError
from core.sentences import Sentence
from ingest.contract.job import JobSpec, RepairWork
from ingest.driver.apply.apply import require_undone, unfinished_writes, write_client
from ingest.driver.apply.jobrun import JobRun
from ingest.driver.apply.writer import qualified_name
from ingest.lake.commits import timeline_at
from ingest.lake.fence import require_fence
from ingest.lake.hudi.descriptions import in_state
from ingest.lake.hudi.timeline import WRITES, Instant, Timeline
from ingest.lake.layout import (
    read_begun_rollbacks,
    read_compaction_plan,
    remove_attempt,
    remove_written,
)
from ingest.lake.place import place_at


def roll_back(run: JobRun, spark: SparkSession, work: RepairWork) -> list[str]:
    """Undo the unfinished attempts: newest first, as Hudi wants it."""
    spec = run.spec
    unfinished = reversed(_inflight(timeline_at(spec.table.path)))
    wanted = [i for i in unfinished if work.instant in {"", i.asked}]
    if work.instant and not wanted:
        _refuse_unless_done(run, work.instant)
    run.enter("rolling back", total=len(wanted), unit="instants")
    with write_client(spark, spec) as client:
        for instant in wanted:
            run.check()
            _undo(spark, spec, client, instant)
            run.add_done(1)
        begun = [
            asked
            for asked in unfinished_writes(spec, timeline_at(spec.table.path))
            if work.instant in {"", asked}
        ]
        for asked in begun:
            # an attempt before this one was cut off at its very end
            require_fence(spec.fence)
            client.rollback(asked)
    after = timeline_at(spec.table.path)
    undone = {*begun, *(i.asked for i in wanted)}
    left = {*unfinished_writes(spec, after), *(i.asked for i in _inflight(after))}
    left &= undone
    require_undone(spec, left, after)
    return [i.asked for i in wanted]


def unschedule(
    run: JobRun, spark: SparkSession, asked: str
) -> tuple[list[str], list[str]]:
    """Take planned compactions ("" = all) off the timeline: (taken off, attempts
    rolled back before)."""
    spec = run.spec
    pending = timeline_at(spec.table.path).pending_compactions
    wanted = [i for i in pending if asked in {"", i.asked}]
    if asked and not wanted:
        _refuse_unless_done(run, asked)
    run.enter("unscheduling", total=len(wanted), unit="plans")
    undone = []
    with write_client(spark, spec) as client:
        for instant in reversed(wanted):
            run.check()
            if not read_compaction_plan(spec.table.path, instant.asked).is_readable:
                # Hudi can do nothing with it, not even read the table
                require_fence(spec.fence)
                gone = remove_attempt(spec.table.path, instant.asked)
                run.say("info", f"{instant.asked}: {len(gone)} files removed")
            else:
                if instant.state == "INFLIGHT":
                    _undo(spark, spec, client, instant)
                    undone.append(instant.asked)
                _take_off(spark, spec, instant.asked)
            run.add_done(1)
    left = {i.asked for i in timeline_at(spec.table.path).pending_compactions}
    if kept := sorted(left & {i.asked for i in wanted}):
        raise TerminalError(
            "%(instants)s of %(table)s: still planned after its unscheduling",
            instants=", ".join(kept),
            table=qualified_name(spec),
            code="repair_incomplete",
            hint="look at the job's log, then ask again; readers see the same rows",
        )
    return [i.asked for i in wanted], undone


def unschedule_all(run: JobRun, spark: SparkSession) -> None:
    """For a replacement of the whole table, or its savepoint: no plan may speak of its
    file groups."""
    unschedule(run, spark, "")


def _inflight(timeline: Timeline) -> list[Instant]:
    return [
        i
        for i in timeline.instants
        if (i.action in WRITES and i.state != "COMPLETED")
        or (i.action == "compaction" and i.state == "INFLIGHT")
    ]


def _undo(spark: SparkSession, spec: JobSpec, client: Any, instant: Instant) -> None:
    require_fence(spec.fence)
    if instant.action in WRITES:
        client.rollback(instant.asked)
        return
    if not read_compaction_plan(spec.table.path, instant.asked).is_readable:
        raise InvalidRequest(
            "the request of compaction %(asked)s of %(table)s is gone or"
            " damaged, so it cannot go back to being planned",
            asked=instant.asked,
            table=qualified_name(spec),
            code="plan_unreadable",
            hint="unschedule it: what the attempt wrote is removed with it",
        )
    # Hudi knows what an attempt wrote by its markers, which may have got lost
    remove_written(spec.table.path, instant.asked)
    # CALL run_rollback_inflight_tableservice fails for tables named by their path
    jvm: Any = spark._jvm
    table = jvm.org.apache.hudi.table.HoodieSparkTable.create(
        client.getConfig(), client.getEngineContext()
    )
    begun = [
        r.instant
        for r in read_begun_rollbacks(spec.table.path, timeline_at(spec.table.path))
        if r.undoes == instant.asked
    ]
    pending = table.getActiveTimeline().filterPendingCompactionTimeline()
    for found in pending.getInstants():
        if found.requestedTime() != instant.asked or not found.isInflight():
            continue
        for rollback in begun:
            # cut off before: a new one beside it would leave it pending for ever, and
            # a later attempt would be undone by its old list of files
            context = client.getEngineContext()
            table.rollback(context, rollback, found, False, False)  # noqa: FBT003
        if begun:
            table.getActiveTimeline().revertInstantFromInflightToRequested(found)
        else:
            table.rollbackInflightCompaction(found, client.getTransactionManager())


def _take_off(spark: SparkSession, spec: JobSpec, asked: str) -> None:
    """Hudi's own class for it; it takes no lock, so the fence is looked at last."""
    jvm: Any = spark._jvm
    context = jvm.org.apache.hudi.client.common.HoodieSparkEngineContext(
        spark.sparkContext._jsc
    )
    path = place_at(spec.table.path).uri
    admin = jvm.org.apache.hudi.client.CompactionAdminClient(context, path)
    try:
        require_fence(spec.fence)
        admin.unscheduleCompactionPlan(asked, False, 1, False)  # noqa: FBT003
    finally:
        admin.close()


def _refuse_unless_done(run: JobRun, asked: str) -> None:
    """A former attempt of this job may have got that far; else it is a mistake."""
    if run.spec.attempt > 1:
        return
    found = timeline_at(run.spec.table.path).find(asked)
    state: str = (
        Sentence("absent") if found is None else in_state(found.action, found.state)
    )
    raise InvalidRequest(
        "%(table)s has nothing unfinished at %(asked)s: it is %(state)s",
        table=qualified_name(run.spec),
        asked=asked,
        state=state,
        code="unknown_instant",
        hint="read the table's health again",
    )
