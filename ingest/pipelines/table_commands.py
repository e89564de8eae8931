"""What people ask of a table or a job that is there: sync, re-sync, pause, resume,
compact, cancel, retry. Each call writes rows, the audit's too, and wakes who acts on
them; nothing runs here."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone

from catalog.access import audit
from catalog.models import Table
from core.database_errors import repeat_after_deadlock
from core.errors import InvalidRequest, NotFound, StaleState
from core.jobs import ACTIVE, CANCELLING, TERMINAL, WAITING, moves
from core.jobs.moves import JobKind, conclude, kind_of, move_job, names_of
from core.models import Job
from core.sentences import Sentence
from ingest.contract.job import LOADS, RESYNC, SNAPSHOT, SYNC, VERIFY
from ingest.jobs.queue import new_job, notify_workers, put, wake_host
from ingest.models import Pipeline
from ingest.models.states import (
    APPROVED,
    FAILED,
    LOADED,
    NEEDS_RESYNC,
    PAUSED,
    PIPELINE,
    REMOVING,
    RESUMABLE,
    RESYNCING,
    SNAPSHOTTING,
)
from ingest.pipelines import load_job, schema_diff, sync_job
from ingest.pipelines.selectors import of_table
from ingest.pipelines.table_job import already_queued
from ingest.pipelines.transitions import locked_pipeline, move, stop
from ingest.planning.facts import LOG


def start_sync(table: Table, *, actor: str) -> Job:
    """One sync now, of a table that is synced by a cursor: one that is loaded once or
    follows its source's log has none to begin."""
    with transaction.atomic():
        pipeline = locked_pipeline(table)
        if pipeline.capture == "snapshot":
            raise InvalidRequest(
                "%(table)s is loaded once and has no syncs",
                table=table,
                code="not_continuous",
                hint="use :resync for a fresh copy",
            )
        if pipeline.capture == LOG:
            raise InvalidRequest(
                "%(table)s follows its source's log: changes arrive as they"
                " happen, and there is no sync to begin",
                table=table,
                code="follows_log",
                hint="its status shows its lag; use :resync for a fresh copy",
            )
        if pipeline.state not in LOADED:
            raise not_now(pipeline, Sentence("synchronise"))
        job = sync_job.start_sync(pipeline, actor=actor)
        Pipeline.objects.filter(pk=pipeline.pk).update(due_at=None)
        audit.record("table.sync", on=str(table), actor=actor, job=str(job.pk))
        return job


def start_resync(table: Table, *, actor: str, accept_empty: bool = False) -> Job:
    """A fresh copy that replaces the table in one commit; readers keep the old one.
    A source that reads as empty is refused unless `accept_empty`."""
    with transaction.atomic():
        pipeline = locked_pipeline(table)
        job = load_again(pipeline, table, actor=actor, accept_empty=accept_empty)
        said: dict[str, Any] = {"job": str(job.pk), "accept_empty": accept_empty}
        audit.record("table.resync", on=str(table), actor=actor, **said)
        return job


def load_again(
    pipeline: Pipeline, table: Table, *, actor: str, accept_empty: bool = False
) -> Job:
    if goes_on_loading(pipeline, table):
        return retry_pipeline(pipeline, actor=actor, accept_empty=accept_empty)
    cancel_waiting(pipeline, [SYNC, VERIFY], actor=actor)
    # it is about the copy that goes, and the load would wait for its end: that of a
    # table which its log brings on no more waits in vain for what the log has
    for job in _running(pipeline, [VERIFY]):
        ask_to_stop(job, "cancel", actor=actor)
    told = schema_diff.leave_out(pipeline)
    fresh: dict[str, Any] = {
        "due_at": None,
        "load_name": "",
        "bound": "",
    }
    move(pipeline, "start_resync", reason=told, actor=actor, **fresh)
    return load_job.start_load(pipeline, RESYNC, actor=actor, accept_empty=accept_empty)


def goes_on_loading(pipeline: Pipeline, table: Table) -> bool:
    """Whether a re-sync only goes on with a first load that failed. InvalidRequest in
    a state that knows no re-sync."""
    if pipeline.state == FAILED and not table.is_queryable:
        return True
    if not PIPELINE.is_legal(pipeline.state, "start_resync"):
        raise not_now(pipeline, Sentence("resync"))
    return False


def start_verify(table: Table, *, actor: str) -> Job:
    """Compare the lake table with its source; one that waits already is returned."""
    with transaction.atomic():
        pipeline = locked_pipeline(table)
        if not table.is_queryable or pipeline.state == REMOVING:
            raise not_now(pipeline, Sentence("verify"))
        job = put([new_job(pipeline, VERIFY, actor=actor)])[0]
        audit.record("table.verify", on=str(table), actor=actor, job=str(job.pk))
        return job


def pause(table: Table, *, actor: str) -> Pipeline:
    """Stop after what is finished; a running load keeps what it has staged."""
    with transaction.atomic():
        pipeline = locked_pipeline(table)
        if pipeline.state == PAUSED:
            audit.record("table.pause", on=str(table), actor=actor)
            return pipeline
        if not PIPELINE.is_legal(pipeline.state, "pause"):
            raise not_now(pipeline, Sentence("pause"))
        stop(
            pipeline,
            "pause",
            reason=Sentence("paused by %(actor)s", actor=actor),
            actor=actor,
        )
        cancel_waiting(pipeline, [SYNC, *LOADS], actor=actor)
        for job in _running(pipeline, [SYNC, *LOADS]):
            ask_to_stop(job, "pause", actor=actor)
        audit.record("table.pause", on=str(table), actor=actor)
        wake_host()
        return pipeline


@repeat_after_deadlock
def resume(table: Table, *, actor: str) -> Pipeline:
    """Go on where a pause or a failure stopped it."""
    with transaction.atomic():
        pipeline = locked_pipeline(table)
        if pipeline.state not in RESUMABLE:
            raise not_now(pipeline, Sentence("resume"))
        retry_pipeline(pipeline, actor=actor)
        audit.record("table.resume", on=str(table), actor=actor)
        return pipeline


def share_driver(table: Table, *, actor: str) -> Pipeline:
    """Its jobs run in the shared driver again, from the next one on."""
    with transaction.atomic():
        pipeline = locked_pipeline(table)
        if not pipeline.alone_reason:
            raise InvalidRequest(
                "the jobs of %(table)s run in the shared driver already",
                table=table,
                code="nothing_to_do",
            )
        Pipeline.objects.filter(pk=pipeline.pk).update(alone_reason="")
        audit.record("table.share_driver", on=str(table), actor=actor)
        return pipeline


def retry_pipeline(
    pipeline: Pipeline, *, actor: str, accept_empty: bool = False
) -> Job:
    """The job with which a stopped table goes on. Loads keep what they have staged."""
    event = pipeline.resume_event or "resume_approved"
    move(pipeline, event, actor=actor, resume_event="", failures=0)
    if pipeline.state in {APPROVED, SNAPSHOTTING, RESYNCING}:
        kind = RESYNC if pipeline.state == RESYNCING else SNAPSHOT
        return load_job.go_on_with_load(
            pipeline, kind, actor=actor, accept_empty=accept_empty
        )
    if pipeline.state == NEEDS_RESYNC or pipeline.capture == LOG:
        return last_job(pipeline)
    if pipeline.capture == "snapshot":
        move(pipeline, "catch_up", actor=actor)
        return last_job(pipeline)
    return sync_job.start_sync(pipeline, actor=actor)


def last_job(pipeline: Pipeline) -> Job:
    jobs = of_table(Job.objects.all(), str(pipeline.lake_table_id))
    return jobs.order_by("-created_at")[0]


# --------------------------------------------------------------------------- jobs


@repeat_after_deadlock
def cancel_job(job_id: UUID, *, actor: str) -> Job:
    """A waiting job just ends; a running one is asked, and honours it soon."""
    with transaction.atomic():
        job = Job.objects.select_for_update().filter(pk=job_id).first()
        if job is None:
            raise NotFound("there is no such job", code="job_not_found")
        if job.state in TERMINAL:
            raise StaleState(
                "%(kind)s of %(subject)s is %(state)s already",
                kind=Sentence(job.kind),
                subject=job.subject,
                state=Sentence(job.state),
                code="job_finished",
            )
        is_known = job.kind in names_of(JobKind)
        is_in_driver = job.state in ACTIVE and bool(job.lane)
        if not is_known and not is_in_driver:
            # of another release: no process of this one begins it or goes on with it
            _end_unasked(job, actor=actor)
        elif job.state in WAITING:
            reason = Sentence("cancelled by %(actor)s", actor=actor)
            conclude(job, moves.cancel(job, reason=reason, actor=actor))
        elif is_known and (refusal := kind_of(job.kind).cannot_stop):
            raise InvalidRequest(refusal, code="not_now")
        else:
            ask_to_stop(job, "cancel", actor=actor)
        audit.record("job.cancel", on=job.subject, actor=actor, id=str(job.pk))
        wake_host()
        notify_workers()
        return job


@repeat_after_deadlock
def retry_job(job_id: UUID, *, actor: str) -> Job:
    """Another go for a job that failed or was cancelled."""
    kind = Job.objects.filter(pk=job_id).values_list("kind", flat=True).first()
    if kind is None:
        raise NotFound("there is no such job", code="job_not_found")
    known = kind_of(kind)
    try:
        with transaction.atomic():
            job = known.again(job_id, actor)
            about = {"id": str(job.pk), **known.about(job)}
            audit.record("job.retry", on=job.subject, actor=actor, **about)
            return job
    except IntegrityError as error:
        raise already_queued() from error


def ask_to_stop(job: Job, mode: str, *, actor: str) -> None:
    Job.objects.filter(pk=job.pk).update(cancel_requested=mode)
    if job.state != CANCELLING:
        move_job(
            job,
            "request_cancel",
            reason=Sentence(
                "%(mode)s asked by %(actor)s", mode=Sentence(mode), actor=actor
            ),
            actor=actor,
        )


def _running(pipeline: Pipeline, kinds: list[str]) -> QuerySet[Job]:
    """Locked by who looks at them."""
    return Job.objects.select_for_update().filter(
        subject_id=str(pipeline.lake_table_id), kind__in=kinds, state__in=ACTIVE
    )


def cancel_waiting(pipeline: Pipeline, kinds: list[str], *, actor: str) -> None:
    waiting = Job.objects.select_for_update().filter(
        subject_id=str(pipeline.lake_table_id), kind__in=kinds, state__in=WAITING
    )
    for job in waiting:
        _end_unasked(job, actor=actor)


def _end_unasked(job: Job, *, actor: str) -> None:
    move_job(
        job,
        "cancel" if job.state in WAITING else "cancelled",
        reason=Sentence("cancelled by %(actor)s", actor=actor),
        actor=actor,
        finished_at=timezone.now(),
    )


def not_now(pipeline: Pipeline, verb: str) -> InvalidRequest:
    hints = {
        PAUSED: "resume it first",
        FAILED: "resume it, or retry its last job",
        NEEDS_RESYNC: "resync it",
    }
    table = pipeline.lake_table or pipeline.source_table
    return InvalidRequest(
        "cannot %(verb)s %(table)s: it is %(state)s",
        verb=verb,
        table=table,
        state=Sentence(pipeline.state),
        code="not_now",
        hint=hints.get(pipeline.state, "wait until that is done"),
        facts={"state": pipeline.state},
    )
