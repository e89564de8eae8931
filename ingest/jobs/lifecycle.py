"""The life of a job in a driver: start → claim → hand over → finish.

The job row is the truth; its caller may die between any two of these functions. The
driver host (`drivers`) takes specs to a driver and brings reports back; what
an ending means for the table its kind's handler decides.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Case, When

from catalog.compiled import CompiledValues
from catalog.models import Table
from core.clock import SystemClock
from core.errors import InvalidRequest, SluiceError, TransientError
from core.jobs import ACTIVE, CANCELLING, LAUNCHING, QUEUED, UNKNOWN, moves
from core.jobs.moves import enqueue, move_job
from core.leases import owner_of, release_all
from core.models import Job
from ingest.contract.job import (
    OUT_OF_MEMORY,
    ErrorFact,
    JobReport,
    encode,
    error_from,
)
from ingest.jobs import leases
from ingest.jobs.dispatch import ring
from ingest.jobs.driver_jobs import driver_job
from ingest.jobs.isolation import run_alone
from ingest.models import Pipeline

# ------------------------------------------------------------------------- start


def new_job(
    pipeline: Pipeline,
    kind: str,
    *,
    actor: str,
    payload: Mapping[str, Any] | None = None,
) -> Job:
    """An unsaved job of this pipeline, for `start_jobs`. `payload` is the kind's own,
    beside what all say."""
    table = pipeline.lake_table
    if table is None:
        raise InvalidRequest(
            f"{pipeline.source_table} is not approved yet", code="not_now"
        )
    said = {"feed": pipeline.pk, "table": table.pk, **(payload or {})}
    job = job_on(table, kind, said, actor=actor)
    job.share_key = f"source:{pipeline.source_table.database.datasource_id}"
    job.weight = driver_job(kind).weight(pipeline)
    return job


def job_on(table: Table, kind: str, payload: dict[str, Any], *, actor: str) -> Job:
    """The same for a table, whoever syncs it."""
    handler = driver_job(kind)
    return Job(
        kind=kind,
        subject=str(table),
        subject_id=str(table.pk),
        exclusive_key=leases.lease_name(table.pk, handler.scopes[0]),
        lane=handler.lane,
        max_attempts=handler.max_attempts,
        payload=payload,
        requested_by=actor,
        state=QUEUED,
        queued_at=SystemClock().now(),
        reason="waiting for a driver",
    )


def start_jobs(jobs: list[Job], *, rings: bool = True) -> list[Job]:
    """Queue many at once; where an equal one waits already, that one is returned.

    rings: an answer is waited for. The driver host finds others without that when it
    could hand them over.
    """
    with transaction.atomic():
        found = enqueue(jobs)
        if rings:
            ring()
    return found


# ---------------------------------------------------------------------- hand over


@dataclass(frozen=True, slots=True)
class HeldJob:
    """An active job of a driver, as its host needs it. spec: only while LAUNCHING."""

    id: str
    state: str
    attempts: int
    cancel_requested: str
    is_isolated: bool
    spec: Mapping[str, Any] | None


def held_by(incarnation_id: UUID) -> list[HeldJob]:
    """What this driver was given and has not ended, in the order of the queue."""
    return [
        job
        for incarnation, job in _active().all()
        if incarnation == str(incarnation_id)
    ]


@cache
def _active() -> CompiledValues[tuple[str, HeldJob]]:
    """Of all drivers: asked twice a second, and there are few."""
    spec = Case(When(state=LAUNCHING, then="spec"), default=None)
    rows = Job.objects.filter(state__in=ACTIVE).order_by("queued_at")
    names = ("pk", "state", "attempts", "cancel_requested", "handle")

    def held(
        pk: UUID, state: str, attempts: int, mode: str, handle: Any, spec: Any
    ) -> tuple[str, HeldJob]:
        is_isolated = bool(handle.get("isolated"))
        job = HeldJob(str(pk), state, attempts, mode, is_isolated, spec)
        return handle.get("boot", ""), job

    return CompiledValues(rows.values_list(*names, spec), (), held)


def note_accepted(job_id: UUID, attempt: int) -> None:
    """The driver has the spec. A repeated or late message changes nothing."""
    with transaction.atomic():
        job = Job.objects.select_for_update().filter(pk=job_id).first()
        if job and job.attempts == attempt and job.state in {LAUNCHING, UNKNOWN}:
            move_job(job, "accepted", progress_at=SystemClock().now())


# ------------------------------------------------------------------------- finish


def finish(report: JobReport) -> bool:
    """End the attempt that the report speaks of; False when it is not the last one.

    Reports may come twice or late: only the present attempt of an unfinished job
    counts.
    """
    with transaction.atomic():
        job = Job.objects.select_for_update().filter(pk=report.job_id).first()
        if job is None or job.attempts != report.attempt or job.state not in ACTIVE:
            return False
        handler = driver_job(job.kind)
        pipeline = handler.lock(job)
        job.report = json.loads(encode(report))
        Job.objects.filter(pk=job.pk).update(report=job.report)
        if report.outcome == "succeeded":
            moves.succeed(job, pipeline, report.facts)
        elif job.state == CANCELLING:
            moves.end_cancelled(job, pipeline, report.facts, reason=job.reason)
        else:
            error = _why_not(report, job, pipeline)
            moves.fail_or_retry(job, pipeline, error, report.facts)
        release_all(owner_of(job.pk, report.attempt))
        if handler.is_awaited(job, pipeline):
            ring()
    return True


def _why_not(report: JobReport, job: Job, pipeline: Pipeline | None) -> SluiceError:
    if report.outcome in {"cancelled", "paused"}:
        # nothing asked for that: its driver was told to stop
        job.max_attempts += 1
        return TransientError("its driver was stopped")
    error = _error(report)
    if pipeline is not None and error.code == OUT_OF_MEMORY:
        run_alone(pipeline, f"{error.message} ended the shared driver")
    return driver_job(job.kind).error_of(job, pipeline, error)


def _error(report: JobReport) -> SluiceError:
    unexplained = ErrorFact("unexplained", "the driver gave no reason")
    return error_from(report.outcome, report.error or unexplained)
