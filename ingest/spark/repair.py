"""Undoing what is stuck on a table's timeline, under both of its leases.

Each step looks at the timeline first and afterwards, so that a repair that was
killed half way is simply run again. It must not know who asked or why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import SparkSession

from core.errors import InvalidRequest, TerminalError
from ingest.contract.job import JobSpec, RepairAction, RepairWork
from ingest.hudi.identity import identity_for, property_drift, put_back
from ingest.hudi.timeline import WRITES, Instant, Timeline
from ingest.lake.commits import read_lake_table, read_properties, read_timeline
from ingest.lake.fence import require_fence
from ingest.lake.layout import (
    read_begun_rollbacks,
    read_compaction_plan,
    remove_attempt,
    remove_written,
    write_properties,
)
from ingest.lake.place import place_at
from ingest.spark.compaction import schedule_compaction, tidy
from ingest.spark.dedupe import deduplicate
from ingest.spark.future import rewrite_future
from ingest.spark.jobrun import JobRun
from ingest.spark.metadata_table import drop_metadata_table
from ingest.spark.recovery import (
    require_undone,
    roll_back_writes,
    service_session,
    unfinished_writes,
    write_client,
)
from ingest.spark.resize import resize
from ingest.spark.savepoints import make_savepoint, restore
from ingest.spark.sources import SourceAccess
from ingest.spark.writer import checked_state, qualified_name

Access = Callable[[], SourceAccess]
Repair = Callable[[JobRun, SparkSession, RepairWork, Access], dict[str, Any]]


def repair_table(run: JobRun, spark: SparkSession, access: Access) -> dict[str, Any]:
    """Kind repair; the facts of its report. `access` is called when it has to ask."""
    work = run.spec.repair or RepairWork("rollback")
    run.enter("checking")
    repair = REPAIRS.get(work.action)
    if repair is None:
        raise InvalidRequest(f"unknown repair: {work.action}", code="unknown_kind")
    return repair(run, spark, work, access)


def _roll_back(
    run: JobRun, spark: SparkSession, work: RepairWork, _: Access
) -> dict[str, Any]:
    _put_properties_back(run.spec)
    checked_state(run.spec, adds=False)
    undone = roll_back(run, spark, work)
    rewritten = rewrite_future(run, spark, clear=unschedule_all)
    return {"action": "rollback", "rolled_back": undone, **rewritten}


def _unschedule(
    run: JobRun, spark: SparkSession, work: RepairWork, _: Access
) -> dict[str, Any]:
    spec = run.spec
    checked_state(spec, adds=False)
    gone, undone = unschedule(run, spark, work.instant)
    facts = {"action": "unschedule", "unscheduled": gone, "rolled_back": undone}
    if work.replan:
        run.enter("planning", unit="plans")
        facts["planned"] = schedule_compaction(service_session(spark, spec), spec)
    return facts


def _deduplicate(
    run: JobRun, spark: SparkSession, work: RepairWork, _: Access
) -> dict[str, Any]:
    checked_state(run.spec, adds=True)
    return deduplicate(run, spark, clear=unschedule_all)


def _resize(
    run: JobRun, spark: SparkSession, work: RepairWork, _: Access
) -> dict[str, Any]:
    return resize(run, spark, work.buckets, clear=unschedule_all)


def _drop_metadata_table(
    run: JobRun, spark: SparkSession, work: RepairWork, _: Access
) -> dict[str, Any]:
    checked_state(run.spec, adds=False)
    return drop_metadata_table(run, spark)


def _clean(
    run: JobRun, spark: SparkSession, work: RepairWork, _: Access
) -> dict[str, Any]:
    _begin(run, spark, adds=False)
    run.enter("cleaning", unit="steps")
    tidy(spark, run.spec)
    return {"action": "clean"}


def _savepoint(
    run: JobRun, spark: SparkSession, work: RepairWork, _: Access
) -> dict[str, Any]:
    _begin(run, spark, adds=True)
    unschedule_all(run, spark)
    run.enter("keeping the way back")
    made = make_savepoint(spark, run.spec, why=f"asked for by job {run.spec.job_id}")
    return {"action": "savepoint", "savepoint": made}


def _restore(
    run: JobRun, spark: SparkSession, work: RepairWork, access: Access
) -> dict[str, Any]:
    _begin(run, spark, adds=False)
    return restore(run, spark, work.instant, access=access)


# by the names of `ingest.contract`; a test compares them with the table actions
REPAIRS: Mapping[RepairAction, Repair] = {
    "rollback": _roll_back,
    "unschedule": _unschedule,
    "deduplicate": _deduplicate,
    "clean": _clean,
    "savepoint": _savepoint,
    "restore": _restore,
    "resize": _resize,
    "drop-metadata-table": _drop_metadata_table,
}


def _begin(run: JobRun, spark: SparkSession, *, adds: bool) -> None:
    """What dead writers left goes first."""
    checked_state(run.spec, adds=adds)
    roll_back_writes(spark, run.spec, read_lake_table(run.spec.table.path))


def _put_properties_back(spec: JobSpec) -> None:
    """What somebody else wrote there would have every job refused, this one too."""
    _require_fence(spec)
    wanted = identity_for(spec.table)
    found = read_properties(place_at(spec.table.path))
    if found is not None and property_drift(found, wanted):
        write_properties(spec.table.path, lambda text: put_back(text, wanted))


def roll_back(run: JobRun, spark: SparkSession, work: RepairWork) -> list[str]:
    """Undo the unfinished attempts: newest first, as Hudi wants it."""
    spec = run.spec
    unfinished = reversed(_inflight(_timeline(spec)))
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
            for asked in unfinished_writes(spec, _timeline(spec))
            if work.instant in {"", asked}
        ]
        for asked in begun:
            # an attempt before this one was cut off at its very end
            _require_fence(spec)
            client.rollback(asked)
    after = _timeline(spec)
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
    pending = _timeline(spec).pending_compactions
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
                _require_fence(spec)
                gone = remove_attempt(spec.table.path, instant.asked)
                run.say("info", f"{instant.asked}: {len(gone)} files removed")
            else:
                if instant.state == "INFLIGHT":
                    _undo(spark, spec, client, instant)
                    undone.append(instant.asked)
                _take_off(spark, spec, instant.asked)
            run.add_done(1)
    left = {i.asked for i in _timeline(spec).pending_compactions}
    if kept := sorted(left & {i.asked for i in wanted}):
        raise TerminalError(
            f"{', '.join(kept)} of {qualified_name(spec)} is still planned",
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
    _require_fence(spec)
    if instant.action in WRITES:
        client.rollback(instant.asked)
        return
    if not read_compaction_plan(spec.table.path, instant.asked).is_readable:
        raise InvalidRequest(
            f"the request of compaction {instant.asked} of {qualified_name(spec)} is"
            " gone or damaged, so it cannot go back to being planned",
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
        for r in read_begun_rollbacks(spec.table.path, _timeline(spec))
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
        _require_fence(spec)
        admin.unscheduleCompactionPlan(asked, False, 1, False)  # noqa: FBT003
    finally:
        admin.close()


def _refuse_unless_done(run: JobRun, asked: str) -> None:
    """A former attempt of this job may have got that far; else it is a mistake."""
    if run.spec.attempt > 1:
        return
    found = _timeline(run.spec).find(asked)
    state = "absent" if found is None else f"{found.action} {found.state.lower()}"
    raise InvalidRequest(
        f"{qualified_name(run.spec)} has nothing unfinished at {asked}: it is {state}",
        code="unknown_instant",
        hint="read the table's health again",
    )


def _require_fence(spec: JobSpec) -> None:
    require_fence(place_at(spec.fence.path), spec.fence.token)


def _timeline(spec: JobSpec) -> Timeline:
    return read_timeline(place_at(spec.table.path))
