"""An incremental sync: the job that brings a table up to its source's present rows.

`start_due_syncs` queues it, `spec_for` makes what a driver does, and `outcome` applies
what its end means for the table.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from catalog.compiled import AnyRow
from core.errors import SluiceError
from core.jobs import SUCCEEDED
from core.jobs.moves import (
    SCHEDULE,
    Cancelled,
    End,
    Facts,
    Failed,
    Rejected,
    Retried,
    Succeeded,
)
from core.models import Job
from core.sentences import Sentence, joined
from ingest.contract.job import SYNC, JobSpec, SyncWork
from ingest.jobs.kinds import (
    Attempt,
    DriverKind,
    Left,
    Refused,
    shared_by_all,
    source_spec,
    table_spec,
)
from ingest.jobs.leases import hold_table, wait_after
from ingest.jobs.queue import new_job, notify_workers, put
from ingest.lake.commits import LakeState, read_lake_table
from ingest.models import Pipeline, states
from ingest.pipelines import followers, schema_diff, schema_drift, transitions
from ingest.pipelines.compaction_plans import budget_of
from ingest.pipelines.load_job import lost_source
from ingest.pipelines.log_tables import NEXT_PLAN, stream_of
from ingest.pipelines.policies import store
from ingest.pipelines.policies.policy import due_since, owing
from ingest.pipelines.policies.schedule import describe_skipped, every_seconds_of
from ingest.pipelines.policies.store import policy_of
from ingest.pipelines.table_job import (
    admitted,
    columns_of,
    commit_of,
    facts_of,
    has_columns,
    note_end,
    note_success,
    queue_again,
    require,
    resume_table,
    span_of,
    stop_table,
    unread_columns,
)
from ingest.planning.facts import LOG, TIMESTAMP
from ingest.planning.plan import (
    ApplyChanges,
    TablePlan,
    by_cursor,
    plan_from_json,
    plan_to_json,
)
from ingest.sources.fingerprint import from_data, sentences_of

DUE_PAGE = 200
LEAVING_PAGE = 10


def _due() -> QuerySet[Pipeline]:
    return Pipeline.objects.filter(
        due_at__lte=Now(),
        state__in=sorted(states.LOADED),
        capture="timestamp",
        lake_table__isnull=False,
    )


is_any_due = AnyRow(_due)


def start_due_syncs() -> int:
    """Queue a sync for every table whose time has come; how many."""
    if not is_any_due():
        return 0
    with transaction.atomic():
        # those that another process has are skipped
        locked = _due().select_for_update(skip_locked=True, of=("self",))
        rows = locked.select_related(
            "lake_table__database__datasource", "source_table__database"
        )
        due = list(rows.order_by("due_at")[:DUE_PAGE])
        if due:
            jobs = [new_job(pipeline, SYNC, actor=SCHEDULE) for pipeline in due]
            put(jobs, is_awaited=False)
            Pipeline.objects.filter(pk__in=[f.pk for f in due]).update(due_at=None)
    return len(due)


def start_sync(pipeline: Pipeline, *, actor: str) -> Job:
    """Queue one sync of timestamp capture; one that waits already is returned."""
    return put([new_job(pipeline, SYNC, actor=actor)])[0]


# -------------------------------------------------------------------------- start


def spec_for(job: Job) -> Attempt | Refused | None:
    """Return the next attempt: what changed behind the table's position."""
    if schema_drift.waits_for_look(job):
        return None
    pipeline = admitted(job, schema_drift.lock_settled(job), states.LOADED)
    if isinstance(pipeline, Refused):
        return pipeline
    hold = hold_table(job, pipeline)
    if hold is None:
        return None
    policy, table = policy_of(pipeline), pipeline.lake
    source = pipeline.source_table.database.datasource
    follows = policy.schema_changes == "follow"
    shared = shared_by_all(job, pipeline, hold.fence)
    leaves = NEXT_PLAN in job.payload and pipeline.capture == LOG
    if leaves:
        plan = _next_plan(job, pipeline)
        shared["table"] = table_spec(plan, table, pipeline.source_table)
    work = SyncWork(
        low=None if leaves else pipeline.position or None,
        stream=stream_of(source.pk) if leaves else "",
        lag_seconds=policy.lag_seconds,
        behind=table.last_commit_epoch or 0,
        instant=table.last_commit_instant,
        lag_is_chosen=policy.is_chosen("lag_seconds"),
        source_fingerprint=pipeline.source_fingerprint,
        **schema_drift.sync_facts(job, pipeline, follows=follows),
    )
    spec = JobSpec(
        **shared,
        source=source_spec(source),
        sync=work,
        compact_after=policy.compact_after,
        budget=budget_of(table.pk, policy),
    )
    return Attempt(spec, hold)


def _revive(job: Job, pipeline: Pipeline, actor: str) -> None:
    resume_table(pipeline, pipeline.resume_event, actor=actor)
    require(admitted(job, pipeline, states.LOADED))


# --------------------------------------------------------------------------- ends


def outcome(job: Job, end: End) -> None:
    """What the end of a sync means for its table: where capture goes on, and when."""
    pipeline = transitions.lock_pipeline(job)
    if pipeline is None:
        note_end(job, end, is_synced=False)
        return
    if NEXT_PLAN in job.payload and pipeline.capture == LOG:
        end = _by_lake(job, pipeline, end)
        if not isinstance(end, Succeeded):
            note_end(job, end, is_synced=True)
            return
        _go_over(job, pipeline)
    match end:
        case Succeeded(facts):
            # most syncs find nothing new, and a look costs as much as they do
            is_other = pipeline.failures > 0 or bool(facts.get("instant"))
            has_caught_up = _sync_done(job, pipeline, facts)
            note_success(
                job, facts, has_caught_up=has_caught_up, alters_health=is_other
            )
            if pipeline.state not in states.LOADED:
                notify_workers()
        case Failed(error):
            failures = _failures(pipeline, error)
            note_end(job, end, is_synced=True, failures=failures)
            if lost_source(pipeline, error):
                return
            if failures:
                # what may pass never stops the table
                _fall_behind(pipeline, error, failures)
            else:
                stop_table(pipeline, error)
        case Cancelled():
            note_end(job, end, is_synced=True)
            if pipeline.state in states.LOADED:
                # it comes again when the schedule says so
                began = job.queued_at or timezone.now()
                transitions.set_columns(
                    pipeline,
                    due_at=store.due_after(store.policy_of(pipeline).schedule, began),
                )
        case Rejected(error):
            note_end(job, end, is_synced=True)
            stop_table(pipeline, error)
        case Retried():
            note_end(job, end, is_synced=True)


def _next_plan(job: Job, pipeline: Pipeline) -> TablePlan:
    """With the columns of now."""
    then = plan_from_json(job.payload[NEXT_PLAN])
    return by_cursor(plan_from_json(pipeline.plan), then)


def _by_lake(job: Job, pipeline: Pipeline, end: End) -> End:
    """A table whose commit by its cursor is in the lake has gone over, whatever became
    of the job: numbers of that commit are none of the stream's."""
    if isinstance(end, Succeeded | Retried):
        return end
    try:
        left = left_by(job, read_lake_table(pipeline.lake.path))
    except SluiceError:
        return end
    return end if left.facts is None else Succeeded(left.facts)


def go_over_by_lake(pipeline: Pipeline) -> None:
    """The same of one whose lake could not be read as that job ended, once it can be.
    While one runs, its end decides."""
    leaving = Job.objects.filter(
        kind=SYNC,
        subject_id=str(pipeline.lake_table_id),
        payload__has_key=NEXT_PLAN,
    )
    newest = list(leaving.order_by("-created_at")[:LEAVING_PAGE])
    if not all(job.is_finished for job in newest):
        return
    for job in newest:
        end = _by_lake(job, pipeline, Cancelled())
        if isinstance(end, Succeeded):
            outcome(job, end)
            return


def _go_over(job: Job, pipeline: Pipeline) -> None:
    """From its source's log to its cursor."""
    plan = _next_plan(job, pipeline)
    step: ApplyChanges = plan.step(ApplyChanges)
    fresh = {"load_name": "", "bound": "", "lossy": {}, "plan": plan_to_json(plan)}
    transitions.set_columns(pipeline, capture=TIMESTAMP, **fresh)
    transitions.show(pipeline, cursor=step.cursor)
    followers.wake_followers()


def _failures(pipeline: Pipeline, error: SluiceError) -> int:
    """How many attempts failed in a row by what may pass; 0 = it will not."""
    return pipeline.failures + 1 if error.default_code == "transient" else 0


def left_by(job: Job, state: LakeState) -> Left:
    """Return what a lost attempt has committed."""
    commit = commit_of(job, state)
    if commit is None:
        return Left()
    facts = facts_of(commit, state) | {
        "has_columns": has_columns(job, commit),
        "position": span_of(commit),
        # whether it was cut is unknown: one more finds nothing, or the rest
        "more": True,
        **unread_columns(job, commit, state),
    }
    return Left(facts)


KIND = DriverKind(
    name=SYNC,
    title="sync",
    lane="apply",
    scopes=("write",),
    max_attempts=3,
    spec_for=spec_for,
    outcome=outcome,
    left_by=left_by,
    again=functools.partial(queue_again, revive=_revive),
    # a busy table makes thousands a day that go well
    forgotten=Q(state=SUCCEEDED),
)


def _sync_done(job: Job, pipeline: Pipeline, facts: Facts) -> bool:
    """Whether the table shows all that was asked for."""
    position = str((facts.get("position") or {}).get("to") or pipeline.position)
    is_more = bool(facts.get("more"))
    now = timezone.now()
    policy = store.policy_of(pipeline)
    schedule = policy.schedule
    began = job.queued_at or now
    due = now if is_more else store.due_after(schedule, began)
    skipped = [] if is_more else [describe_skipped(schedule, began, now)]
    lag, held_back = _behind(job, facts)
    notes = _notes_of(facts, is_held_back=held_back > lag)
    reason = joined([*notes, *skipped])
    changes: dict[str, Any] = {}
    done: dict[str, Any] = {"position": position, "failures": 0}
    if "source_fingerprint" in facts:
        done["source_fingerprint"] = facts["source_fingerprint"]
    started = job.started_at or now
    owed = due_since(started, held_back, policy.late_after)
    if not is_more:
        changes["caught_up_at"] = started - timedelta(seconds=lag + held_back)
        done |= owing(policy, owed)
    if pipeline.state == states.CATCHING_UP and not is_more:
        transitions.move(pipeline, "catch_up", reason=reason, due_at=due, **done)
    else:
        is_moving = pipeline.state in states.LOADED
        transitions.set_columns(pipeline, due_at=due if is_moving else None, **done)
        if is_moving:
            transitions.say(pipeline, reason)
    if facts.get("instant"):
        epoch = facts.get("epoch")
        changes |= transitions.commit_columns(facts, position=position, epoch=epoch)
    transitions.show(pipeline, **changes)
    _columns_synced(job, pipeline, facts)
    return not is_more and owed == started


def _fall_behind(pipeline: Pipeline, error: SluiceError, failures: int) -> None:
    schedule = store.policy_of(pipeline).schedule
    wait = max(wait_after(failures + 2), every_seconds_of(schedule) or 0)
    due = timezone.now() + timedelta(seconds=wait)
    transitions.set_columns(pipeline, failures=failures, due_at=due)
    reason = Sentence(
        "%(error)s; next try in %(wait)s s", error=error.message, wait=f"{wait:.0f}"
    )
    if pipeline.state == states.LIVE:
        transitions.move(pipeline, "fall_behind", reason=reason)
    else:
        transitions.say(pipeline, reason)


def _columns_synced(job: Job, pipeline: Pipeline, facts: Facts) -> None:
    if found := facts.get("added"):
        schema_diff.note_earlier(pipeline, found)
        schema_diff.report_compared([pipeline])
    if unknown := facts.get("unknown_columns"):
        schema_drift.met_unknown(job, pipeline, unknown)
    if facts.get("has_columns", True) and (columns := columns_of(job)):
        schema_diff.show_columns(pipeline, columns)


def _behind(job: Job, facts: Facts) -> tuple[float, float]:
    """Seconds that the sync's upper bound lies before its start: as the safety lag
    wants it, and behind that, as an open transaction held it back."""
    lag = float(((job.spec or {}).get("sync") or {}).get("lag_seconds") or 0)
    held = facts.get("held_back") or {}
    return lag, float(held.get("age_seconds") or 0)


def _notes_of(facts: Facts, *, is_held_back: bool) -> Iterator[str]:
    """is_held_back: by a transaction that is older than the lag; there are always
    younger ones."""
    if is_held_back:
        held = facts["held_back"]
        yield Sentence(
            "held back by the open transaction of process %(pid)s, %(age)s s old",
            pid=held.get("pid"),
            age=f"{float(held.get('age_seconds') or 0):.0f}",
        )
    if nulls := facts.get("null_cursors"):
        yield Sentence(
            "%(nulls)s rows have no cursor value, or one below every"
            " position, and are not followed",
            nulls=nulls,
        )
    if ahead := facts.get("ahead"):
        yield Sentence(
            "%(ahead)s rows have a cursor value ahead of the source's"
            " clock and are not read before that time",
            ahead=ahead,
        )
    yield from sentences_of(from_data(facts.get("source_fingerprint") or {}))
