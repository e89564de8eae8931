"""What jobs of drivers have in common: they work on a table that a pipeline syncs.

The kinds call it: whether their job may run, what is noted at its end, what a lost
attempt has committed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.utils import timezone

from core.errors import InvalidRequest, SluiceError, StaleState
from core.jobs import WAITING
from core.jobs.moves import (
    Cancelled,
    End,
    Facts,
    Failed,
    Rejected,
    Retried,
    Succeeded,
    move_job,
)
from core.models import Job
from core.sentences import Sentence
from ingest.contract.job import CUT_GONE, spec_from
from ingest.jobs.kinds import Refused, driver_kind
from ingest.jobs.queue import notify_workers, wake_host
from ingest.lake.commits import Commit, LakeState
from ingest.lake.hudi.evolution import lacking_columns
from ingest.models import Pipeline
from ingest.models.states import FAILED, NEEDS_RESYNC, PAUSED
from ingest.pipelines import compaction_plans, schema_drift, transitions
from ingest.pipelines.lake_reconcile import healed
from ingest.pipelines.transitions import note_change, report_failure, report_success

# What a table in such a state needs first.
_BEFORE = {
    **dict.fromkeys((PAUSED, FAILED), "resume the table first"),
    NEEDS_RESYNC: "resync the table",
}

# ------------------------------------------------------------------------- start


def admitted(
    job: Job, pipeline: Pipeline | None, states: frozenset[str] = frozenset()
) -> Pipeline | Refused:
    """Return the pipeline when the job may run. states: of the pipeline, in which it
    may; empty = in any."""
    if pipeline is None:
        return Refused(
            InvalidRequest(
                "%(subject)s is no longer onboarded",
                subject=job.subject,
                code="not_onboarded",
                hint="onboard the table again if it should be synced",
            )
        )
    if states and pipeline.state not in states:
        return Refused(
            InvalidRequest(
                "%(subject)s is %(state)s: a %(kind)s does not run now",
                subject=job.subject,
                state=Sentence(pipeline.state),
                kind=Sentence(job.kind),
                code="not_now",
                hint=_BEFORE.get(pipeline.state, ""),
            )
        )
    return pipeline


# -------------------------------------------------------------------- on request

Revive = Callable[[Job, Pipeline, str], object]


def queue_again(job_id: UUID, by: str, *, revive: Revive | None = None) -> Job:
    """Queue a job that failed or was cancelled once more.

    revive: brings the table to where this job may run, for (job, pipeline, by whom);
    raises when that cannot be.
    """
    job = Job.objects.select_for_update().get(pk=job_id)
    # of several requests at once, one looks after the other has committed
    pipeline = transitions.lock_pipeline(job)
    if pipeline is None:
        raise InvalidRequest(
            "%(subject)s is no longer onboarded", subject=job.subject, code="not_now"
        )
    # of old jobs that failed the table needs one; no constraint sees that: jobs that
    # wait for their next attempt are beside fresh ones rightly
    same = Job.objects.filter(exclusive_key=job.exclusive_key, kind=job.kind)
    if same.exclude(pk=job.pk).filter(state__in=WAITING).exists():
        raise already_queued()
    move_job(
        job,
        "retry",
        reason="waiting for a driver",
        actor=by,
        queued_at=timezone.now(),
        not_before=None,
        moved_at=None,
        finished_at=None,
        cancel_requested="",
        max_attempts=job.attempts + driver_kind(job.kind).max_attempts,
    )
    if revive is not None:
        revive(job, pipeline, by)
    wake_host()
    return job


def already_queued() -> StaleState:
    return StaleState(
        "another job of this kind already waits for the table",
        code="already_queued",
        hint="look at the table's jobs",
    )


def resume_table(pipeline: Pipeline, event: str, *, actor: str) -> None:
    """A table that is stopped goes on by `event`, for a job that is requested again."""
    if pipeline.state in {PAUSED, FAILED}:
        transitions.move(
            pipeline, event or "resume_approved", actor=actor, resume_event=""
        )


def require(found: Pipeline | Refused) -> None:
    if isinstance(found, Refused):
        raise found.error


# -------------------------------------------------------------------------- ends


def explained(job: Job, error: SluiceError) -> SluiceError:
    """Return what an attempt failed by: after the rows follow the lake, and after a
    look at the source's columns, the next attempt may succeed."""
    pipeline = transitions.lock_pipeline(job)
    if pipeline is None:
        return error
    if error.code == CUT_GONE:
        # its next attempt gets another name, and with that another cut
        transitions.set_columns(pipeline, load_name="")
    return schema_drift.looked_first(job, pipeline, healed(pipeline, error))


def note_end(
    job: Job,
    end: End,
    *,
    is_synced: bool,
    has_caught_up: bool = False,
    failures: int = 0,
) -> None:
    """What follows from the end of any job of a table: events for alerts, a look at the
    table's health, and rows of compactions as the job saw them on the timeline.

    is_synced      a pipeline syncs the table still
    has_caught_up  the table has all rows that were to be read
    failures       how many attempts failed in a row by what may pass
    """
    match end:
        case Succeeded(facts):
            note_success(job, facts, has_caught_up=has_caught_up)
        case Failed(error, facts):
            if is_synced:
                # what is wrong with the table's files may be why
                note_change(int(job.payload["table"]))
                report_failure(job, error, failures=failures)
            note_plans(job, facts)
        case Rejected(error):
            if is_synced:
                report_failure(job, error)
        case Retried(_, facts):
            note_plans(job, facts)
        case Cancelled(facts):
            note_plans(job, facts or {})
    # a removal of the table may wait for this
    notify_workers()


def note_success(
    job: Job, facts: Facts, *, has_caught_up: bool, alters_health: bool = True
) -> None:
    """alters_health: a look at the table may find something else than before."""
    note_plans(job, facts)
    report_success(job, facts, has_caught_up=has_caught_up)
    if alters_health:
        note_change(int(job.payload["table"]))


def stop_table(pipeline: Pipeline, error: SluiceError) -> None:
    """Its job has failed: the table fails too, or waits for a decision."""
    if not schema_drift.ended_undecided(pipeline, error):
        transitions.stop(pipeline, "fail", reason=error.as_sentence)


def note_plans(job: Job, facts: Facts) -> None:
    """Rows of plans follow what the job saw on the timeline at its end, however it
    ended; when it says nothing of that, they stay."""
    if "pending_compactions" in facts:
        pending = [str(i) for i in facts["pending_compactions"]]
        compaction_plans.mirror(
            int(job.payload["table"]), pending, since=job.started_at
        )


def columns_of(job: Job) -> list[dict[str, Any]]:
    """Those that its attempt read and wrote: the plan may have moved on since."""
    return list((job.spec or {}).get("table", {}).get("columns", ()))


# --------------------------------------------------------------------------- recover


def commit_of(job: Job, state: LakeState) -> Commit | None:
    """The newest commit of the table that this job has made."""
    run = str(job.pk)
    own = (c for c in state.commits if c.position and c.position.run == run)
    return next(own, None)


def facts_of(commit: Commit, state: LakeState) -> dict[str, Any]:
    """What a report would say of this commit, whatever made it."""
    assert commit.position is not None
    return {
        "instant": commit.instant.asked,
        "epoch": commit.position.epoch_to,
        "rows": commit.rows_written,
        "pending_compactions": list(state.pending_compactions),
    }


def span_of(commit: Commit) -> dict[str, Any]:
    assert commit.position is not None
    return {"from": commit.position.start, "to": commit.position.end}


def has_columns(job: Job, commit: Commit) -> bool:
    """An earlier attempt may have committed by an earlier plan."""
    wanted = spec_from(job.spec).table.columns if job.spec else ()
    return not lacking_columns(commit.schema, wanted)


def unread_columns(job: Job, commit: Commit, state: LakeState) -> dict[str, Any]:
    """As a report says it of columns that this commit brought to the lake: whether
    their older values were read, only the report that is lost knew."""
    brought = state.brought_by(commit)
    names = [c["source_name"] for c in columns_of(job) if c["name"] in brought]
    said = {"columns": names, "earlier": "unread", "from": span_of(commit)["from"]}
    return {"added": said} if names else {}
