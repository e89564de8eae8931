"""What the end of a job means for its table. Called inside the transaction of the end.

Knows facts of reports and rows; decides nothing about leases or attempts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db.models.functions import Now

from catalog.sources.registry import kind_named
from core.clock import SystemClock
from core.errors import SluiceError
from core.jobs.moves import move_job
from core.models import Job
from ingest.changes.signs import from_data, sentences_of, settled, to_data
from ingest.contract.kinds import COMPACT, LOADS, REPAIR, RESYNC, SYNC, VERIFY
from ingest.jobs.backoff import wait_after
from ingest.jobs.endings import report_failure, report_success
from ingest.jobs.kinds import UPKEEP
from ingest.jobs.loads import left_by, note_done
from ingest.maintenance import compaction_plans, verification_schedule
from ingest.maintenance.due import note_change
from ingest.models import Pipeline, states
from ingest.pipelines import schema_diff, schema_drift, transitions
from ingest.pipelines.lake_identity import set_buckets
from ingest.policies import store
from ingest.policies.lateness import owed_from, owing
from ingest.policies.schedule import every_seconds_of, skipped_words


def apply_success(
    job: Job, pipeline: Pipeline | None, facts: Mapping[str, Any]
) -> None:
    """Advance the table by what has been committed."""
    table_id = int(job.payload["table"])
    has_caught_up = pipeline is not None and job.kind in LOADS
    if job.kind == COMPACT:
        compaction_plans.complete(table_id, [str(i) for i in facts.get("instants", ())])
    elif job.kind == REPAIR:
        _repaired(table_id, pipeline, facts)
    elif pipeline is not None and job.kind in LOADS:
        note_loaded(pipeline, facts, columns=_columns_of(job))
    elif pipeline is not None and job.kind == SYNC:
        has_caught_up = _sync_done(job, pipeline, facts)
    elif pipeline is not None and job.kind == VERIFY:
        _verified(job, pipeline, str(facts.get("verdict") or ""))
    note_done(job, facts)
    note_plans(job, facts)
    report_success(job, facts, has_caught_up=has_caught_up)
    note_change(table_id)


def _verified(job: Job, pipeline: Pipeline, verdict: str) -> None:
    verification_schedule.note_verified(pipeline, job, verdict)
    if verdict == "equal":
        # whatever happened to the source, nothing of it is wrong in the lake
        _set(pipeline, signs=to_data(settled(from_data(pipeline.signs))))


def note_plans(job: Job, facts: Mapping[str, Any]) -> None:
    """Rows of plans follow what the job saw on the timeline at its end, however it
    ended; without a word about it, nobody knows."""
    if "pending_compactions" in facts:
        pending = [str(i) for i in facts["pending_compactions"]]
        compaction_plans.mirror(
            int(job.payload["table"]), pending, since=job.started_at
        )


def _repaired(
    table_id: int, pipeline: Pipeline | None, facts: Mapping[str, Any]
) -> None:
    compaction_plans.roll_back(table_id, [str(i) for i in facts.get("rolled_back", ())])
    compaction_plans.unschedule(
        table_id, [str(i) for i in facts.get("unscheduled", ())]
    )
    if pipeline is not None and facts.get("buckets"):
        set_buckets(pipeline, int(facts["buckets"]), why="resized, or gone back to it")
    if pipeline is not None and facts.get("restored"):
        note_restored(pipeline, facts)
    elif pipeline is not None and facts.get("instant"):
        # the same rows once, at the same position
        instant = str(facts["instant"])
        transitions.show(pipeline, last_commit_instant=instant, last_commit_at=Now())


def note_loaded(
    pipeline: Pipeline,
    facts: Mapping[str, Any],
    *,
    columns: Sequence[Mapping[str, Any]] | None = None,
) -> None:
    """The load of a table is committed: capture goes on behind it.

    columns  that its attempt read and wrote; None = not known, a sync will tell
    """
    bound = str(facts.get("bound") or "")
    is_continuous = pipeline.capture != "snapshot"
    changes: dict[str, Any] = {
        "bound": bound,
        "position": bound,
        "consistency": str(facts.get("consistency") or ""),
        "signs": facts.get("signs") or {},
        "failures": 0,
    }
    now = SystemClock().now()
    if is_continuous:
        changes |= owing(store.policy_of(pipeline), now)
    if pipeline.state in {states.SNAPSHOTTING, states.RESYNCING}:
        due = now if is_continuous else None
        transitions.move(pipeline, "load", due_at=due, **changes)
        if not is_continuous:
            transitions.move(pipeline, "catch_up", reason=how_consistent(pipeline))
    else:
        # it was committed while somebody paused it: it goes on behind the load
        _set(pipeline, resume_event="resume_catch_up", **changes)
    transitions.show(
        pipeline,
        is_queryable=True,
        caught_up_at=now,
        **_commit(pipeline, facts, position=bound, epoch=pipeline.load_epoch),
    )
    if columns is not None and facts.get("has_columns", True):
        schema_diff.note_loaded(pipeline, [str(c["source_name"]) for c in columns])
        schema_diff.show_columns(pipeline, columns)
    verification_schedule.note_replaced(pipeline)


def _columns_of(job: Job) -> list[dict[str, Any]]:
    """Those that its attempt read and wrote: the plan may have moved on since."""
    return list((job.spec or {}).get("table", {}).get("columns", ()))


def note_restored(pipeline: Pipeline, facts: Mapping[str, Any]) -> None:
    """The table is at an older position again: capture goes on from there."""
    position = str(facts["position"]["to"])
    _set(pipeline, position=position)
    schema_diff.note_gone_back(pipeline)
    reason = f"restored to savepoint {facts['restored']}; it catches up from there"
    if facts.get("reaches_back") is False and pipeline.state in states.LOADED:
        told = f"restored to savepoint {facts['restored']}. {facts['misses'][0]}"
        transitions.move(pipeline, "lose_position", reason=told, due_at=None)
    elif pipeline.capture == "snapshot":
        transitions.say(pipeline, f"restored to savepoint {facts['restored']}")
    elif pipeline.state == states.LIVE:
        transitions.move(
            pipeline, "fall_behind", reason=reason, due_at=SystemClock().now()
        )
    else:
        transitions.say(pipeline, reason)
    transitions.show(
        pipeline,
        caught_up_at=None,
        **_commit(pipeline, facts, position=position, epoch=facts.get("epoch")),
    )


def how_consistent(pipeline: Pipeline) -> str:
    """What a load of several moments means, for people; "" when it has one."""
    if pipeline.consistency != "per_chunk":
        return ""
    kind = kind_named(pipeline.source_table.database.datasource.kind)
    if not kind.shares_snapshots:
        return (
            f"its chunks show the source at different moments, as {kind.title} shares "
            "no snapshot between connections without a lock"
        )
    return (
        "loaded over several attempts, so its chunks show the source at different "
        "moments; re-sync for one consistent moment"
    )


def _sync_done(job: Job, pipeline: Pipeline, facts: Mapping[str, Any]) -> bool:
    """Whether the table shows all that was asked for."""
    position = str((facts.get("position") or {}).get("to") or pipeline.position)
    is_more = bool(facts.get("more"))
    now = SystemClock().now()
    policy = store.policy_of(pipeline)
    schedule = policy.schedule
    began = job.queued_at or now
    due = now if is_more else store.due_after(schedule, began)
    said = [] if is_more else [skipped_words(schedule, began, now)]
    reason = "; ".join(filter(None, [_held_back_text(facts), *said]))
    changes: dict[str, Any] = {}
    done: dict[str, Any] = {"position": position, "failures": 0}
    if "signs" in facts:
        done["signs"] = facts["signs"]
    started = job.started_at or now
    lag, held_back = _behind(job, facts)
    owed = owed_from(started, held_back, policy.late_after)
    if not is_more:
        changes["caught_up_at"] = started - timedelta(seconds=lag + held_back)
        done |= owing(policy, owed)
    if pipeline.state == states.CATCHING_UP and not is_more:
        transitions.move(pipeline, "catch_up", reason=reason, due_at=due, **done)
    else:
        is_moving = pipeline.state in states.LOADED
        _set(pipeline, due_at=due if is_moving else None, **done)
        if is_moving:
            transitions.say(pipeline, reason)
    if facts.get("instant"):
        changes |= _commit(pipeline, facts, position=position, epoch=facts.get("epoch"))
    transitions.show(pipeline, **changes)
    _columns_synced(job, pipeline, facts)
    return not is_more and owed == started


def _columns_synced(job: Job, pipeline: Pipeline, facts: Mapping[str, Any]) -> None:
    if found := facts.get("added"):
        schema_diff.note_earlier(pipeline, found)
        schema_diff.report_compared([pipeline])
    if unknown := facts.get("unknown_columns"):
        schema_drift.met_unknown(job, pipeline, unknown)
    if facts.get("has_columns", True) and (columns := _columns_of(job)):
        schema_diff.show_columns(pipeline, columns)


def _behind(job: Job, facts: Mapping[str, Any]) -> tuple[float, float]:
    """Seconds that the round's upper bound lies before its start: as the safety lag
    wants it, and behind that, as an open transaction held it back."""
    lag = float(((job.spec or {}).get("round") or {}).get("lag_seconds") or 0)
    held = facts.get("held_back") or {}
    return lag, max(0.0, float(held.get("age_seconds") or 0) - lag)


def next_sync(pipeline: Pipeline, job: Job) -> datetime | None:
    """When the round after this one, which ends now, is due; None = by hand."""
    began = job.queued_at or SystemClock().now()
    return store.due_after(store.policy_of(pipeline).schedule, began)


def _held_back_text(facts: Mapping[str, Any]) -> str:
    said = []
    if held := facts.get("held_back"):
        said.append(
            f"held back by the open transaction of process {held.get('pid')}, "
            f"{float(held.get('age_seconds') or 0):.0f} s old"
        )
    if nulls := facts.get("null_cursors"):
        said.append(f"{nulls} rows have no cursor value and are not followed")
    if ahead := facts.get("ahead"):
        said.append(
            f"{ahead} rows have a cursor value ahead of the source's clock and are not"
            " read before that time"
        )
    said += sentences_of(from_data(facts.get("signs") or {}))
    return "; ".join(said)


def _commit(
    pipeline: Pipeline, facts: Mapping[str, Any], *, position: str, epoch: Any
) -> dict[str, Any]:
    return {
        "last_commit_instant": str(facts.get("instant") or ""),
        "last_commit_position": {"to": position},
        "last_commit_epoch": epoch,
        "last_commit_at": Now(),
    }


def _set(pipeline: Pipeline, **changes: Any) -> None:
    Pipeline.objects.filter(pk=pipeline.pk).update(**changes)
    for name, value in changes.items():
        setattr(pipeline, name, value)


# --------------------------------------------------------------- other endings


def fail(job: Job, pipeline: Pipeline | None, error: SluiceError) -> None:
    """End the job FAILED. A round's transient trouble never stops its table."""
    _end_failed(job, "fail", error)
    if pipeline is not None:
        # what is wrong with the table's files may be why
        note_change(int(job.payload["table"]))
    if job.kind == COMPACT:
        compaction_plans.fail(
            int(job.payload["table"]), job.payload.get("instants", []), error
        )
    is_passing = job.kind == SYNC and error.default_code == "transient"
    failures = pipeline.failures + 1 if pipeline and is_passing else 0
    if pipeline is not None:
        report_failure(job, error, failures=failures)
    if pipeline is not None and job.kind == VERIFY:
        verification_schedule.note_undecided(pipeline)
    if pipeline is None or job.kind in UPKEEP:
        return
    if error.code == "source_recreated" and pipeline.state in states.LOADED:
        transitions.move(pipeline, "lose_position", reason=str(error), due_at=None)
        return
    if is_passing:
        schedule = store.policy_of(pipeline).schedule
        wait = max(wait_after(failures + 2), every_seconds_of(schedule) or 0)
        _set(
            pipeline,
            failures=failures,
            due_at=SystemClock().now() + timedelta(seconds=wait),
        )
        reason = f"{error.message}; next try in {wait:.0f} s"
        if pipeline.state == states.LIVE:
            transitions.move(pipeline, "fall_behind", reason=reason)
        else:
            transitions.say(pipeline, reason)
        return
    if not schema_drift.ended_undecided(pipeline, error):
        transitions.stop(pipeline, "fail", reason=str(error))


def note_retry(job: Job) -> None:
    if job.kind == COMPACT:
        compaction_plans.roll_back(
            int(job.payload["table"]), job.payload.get("instants", [])
        )


def end_cancelled(
    job: Job, pipeline: Pipeline | None, facts: Mapping[str, Any], *, reason: str
) -> None:
    """A running job was asked to stop and has ended, by its own word or by its death.
    facts: what was seen of the table then."""
    asked = job.events.filter(event="request_cancel").last()
    move_job(job, "cancelled", finished_at=SystemClock().now(), reason=reason)
    note_plans(job, facts)
    note_cancelled(job, pipeline, actor=asked.actor if asked else "")


def note_cancelled(
    job: Job,
    pipeline: Pipeline | None,
    *,
    actor: str,
) -> None:
    """Somebody stopped the job: a load's table pauses, a round comes again later."""
    if job.kind == COMPACT:
        _put_off(job, actor)
        return
    if pipeline is None or pipeline.state == states.PAUSED or job.kind in UPKEEP:
        return
    if job.kind == SYNC:
        if pipeline.state in states.LOADED:
            _set(pipeline, due_at=next_sync(pipeline, job))
        return
    by = f" by {actor}" if actor else ""
    was_resync = job.kind == RESYNC
    reason = f"its {job.kind} was cancelled{by}, so it is paused: {left_by(job)}"
    transitions.stop(pipeline, "pause", reason=reason, actor=actor)
    if was_resync and pipeline.state == states.PAUSED:
        # the old copy and its position are untouched, so that is where it goes on
        _set(pipeline, resume_event="resume_catch_up")


def _put_off(job: Job, actor: str) -> None:
    """What it was to execute, or planned itself, waits: it would be no cancelling if
    the next second executed it."""
    table_id = int(job.payload["table"])
    until = compaction_plans.put_off(table_id, job.payload.get("instants") or [])
    by = f" by {actor}" if actor else ""
    job.reason = (
        f"{compaction_plans.CANCELLED}{by}; what is planned stays planned, and nothing"
        f" compacts the table by itself before {until:%H:%M} UTC"
    )
    Job.objects.filter(pk=job.pk).update(reason=job.reason)


def reject(job: Job, pipeline: Pipeline | None, error: SluiceError) -> None:
    """It cannot run any more: nothing was attempted."""
    if error.code == "not_now":
        move_job(job, "cancel", reason=error.message, finished_at=SystemClock().now())
        return
    _end_failed(job, "reject", error)
    if pipeline is None:
        return
    report_failure(job, error)
    if job.kind == VERIFY:
        verification_schedule.note_undecided(pipeline)
    if job.kind in {VERIFY, REPAIR} or schema_drift.ended_undecided(pipeline, error):
        return
    transitions.stop(pipeline, "fail", reason=str(error))


def _end_failed(job: Job, event: str, error: SluiceError) -> None:
    move_job(
        job,
        event,
        reason=error.message,
        finished_at=SystemClock().now(),
        error_code=error.code,
        error_message=error.message,
        error_hint=error.hint,
    )
