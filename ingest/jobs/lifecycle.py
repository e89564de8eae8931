"""The life of an ingestion job: start → claim → hand over → finish.

The job row is the truth; whoever calls these functions may die between any two of
them. Knows rows, leases and specs. Must not know Spark, pipes or REST: the driver
host (`ingest.drivers`) carries specs to a driver and brings reports back, and what
an ending means for the table is decided in `ingest.jobs.results`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Case, When

from catalog.compiled import CompiledValues
from catalog.models import Table
from core.advance import record_moves
from core.clock import SystemClock
from core.errors import (
    InvalidRequest,
    SluiceError,
    StaleState,
    TransientError,
)
from core.jobs import (
    ACTIVE,
    CANCELLING,
    LAUNCHING,
    PLANNED,
    QUEUED,
    SUCCEEDED,
    UNKNOWN,
    WAITING,
)
from core.jobs.moves import move_job
from core.models import Job
from ingest.contract.job import (
    OUT_OF_MEMORY,
    ErrorFact,
    JobReport,
    encode,
    error_from,
)
from ingest.contract.kinds import COMPACT, LOADS, REPAIR, SYNC
from ingest.jobs import lake_reconcile, leases, results
from ingest.jobs.backoff import wait_after
from ingest.jobs.dispatch import ring
from ingest.jobs.kinds import KINDS, OWN_LANE
from ingest.maintenance import compaction_drivers
from ingest.maintenance.compaction_drivers import Wish
from ingest.models import Pipeline
from ingest.models.states import LOADED
from ingest.pipelines import transitions
from ingest.pipelines.schema_drift import looked_first

# ------------------------------------------------------------------------- start


def start_load(
    pipeline: Pipeline, kind: str, *, actor: str, accept_empty: bool = False
) -> Job:
    """Queue the load (snapshot or resync) of an approved table."""
    job = new_job(pipeline, kind, actor=actor)
    if accept_empty:
        job.payload["accept_empty"] = True
    return start_jobs([job])[0]


def start_sync(pipeline: Pipeline, *, actor: str) -> Job:
    """Queue one round of timestamp capture; one that waits already is returned."""
    return start_jobs([new_job(pipeline, SYNC, actor=actor)])[0]


def start_compaction(
    table: Table,
    *,
    actor: str,
    instants: Iterable[str] = (),
    wish: Wish = None,
    within_budget: bool = False,
) -> Job:
    """Queue the execution of exactly these instants (none = schedule one first, of
    everything or `within_budget`). One that waits is returned, with what is wished."""
    bound = {compaction_drivers.BOUND: True} if within_budget else {}
    payload = {"table": table.pk, "instants": list(instants), **bound}
    payload |= compaction_drivers.payload_for(table, wish)
    job = _job(table, COMPACT, payload, actor=actor)
    job.lane = OWN_LANE if "driver" in payload else job.lane
    found = start_jobs([job])[0]
    if found.pk != job.pk:
        compaction_drivers.take_over(found, job, wish)
    return found


def new_job(pipeline: Pipeline, kind: str, *, actor: str) -> Job:
    """An unsaved job of this pipeline, for `start_jobs`."""
    if pipeline.lake_table is None:
        raise InvalidRequest(
            f"{pipeline.source_table} is not approved yet", code="not_now"
        )
    payload = {"feed": pipeline.pk, "table": pipeline.lake_table_id}
    job = _job(pipeline.lake_table, kind, payload, actor=actor)
    job.share_key = f"source:{pipeline.source_table.database.datasource_id}"
    if kind in LOADS:
        job.weight = max(0, pipeline.source_table.estimated_rows)
    return job


def _job(table: Table, kind_name: str, payload: dict[str, Any], *, actor: str) -> Job:
    kind = KINDS[kind_name]
    return Job(
        kind=kind_name,
        subject=str(table),
        subject_id=str(table.pk),
        exclusive_key=leases.lease_name(table.pk, kind.scopes[0]),
        lane=kind.lane,
        max_attempts=kind.max_attempts,
        payload=payload,
        requested_by=actor,
        state=QUEUED,
        queued_at=SystemClock().now(),
        reason="waiting for a driver",
    )


def start_jobs(jobs: list[Job], *, rings: bool = True) -> list[Job]:
    """Queue many at once; where an equal one waits already, that one is returned.

    rings: somebody waits for them. The driver host finds others by itself when it
    could hand them over.
    """
    with transaction.atomic():
        Job.objects.bulk_create(jobs, ignore_conflicts=True, batch_size=500)
        stored = set(
            Job.objects.filter(pk__in=[j.pk for j in jobs]).values_list("pk", flat=True)
        )
        if fresh := [job for job in jobs if job.pk in stored]:
            record_moves(fresh, "enqueue", before=PLANNED, actor=jobs[0].requested_by)
        if rings:
            ring()
    return [job if job.pk in stored else _waiting_twin(job) for job in jobs]


def _waiting_twin(job: Job) -> Job:
    twin = Job.objects.filter(
        exclusive_key=job.exclusive_key, kind=job.kind, state__in=WAITING
    ).first()
    if twin is None:
        raise StaleState(
            f"another {job.kind} of {job.subject} has just started",
            hint="look at the table's jobs and ask again if need be",
        )
    return twin


def owner_of(job_id: UUID, attempt: int) -> str:
    """The owner of an attempt's leases."""
    return f"job:{job_id}:{attempt}"


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


def held_by(boot_id: UUID) -> list[HeldJob]:
    """What this driver was given and has not ended, in the order of the queue."""
    return [job for boot, job in _active().all() if boot == str(boot_id)]


@cache
def _active() -> CompiledValues[tuple[str, HeldJob]]:
    """Of all drivers: asked twice a second, and there are few."""
    spec = Case(When(state=LAUNCHING, then="spec"), default=None)
    rows = Job.objects.filter(state__in=ACTIVE).order_by("queued_at")
    names = ("pk", "state", "attempts", "cancel_requested", "handle")

    def held(
        pk: UUID, state: str, attempts: int, wish: str, handle: Any, spec: Any
    ) -> tuple[str, HeldJob]:
        is_isolated = bool(handle.get("isolated"))
        job = HeldJob(str(pk), state, attempts, wish, is_isolated, spec)
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
        pipeline = transitions.lock_pipeline(job)
        job.report = json.loads(encode(report))
        Job.objects.filter(pk=job.pk).update(report=job.report)
        if report.outcome == "succeeded":
            move_job(job, "succeed", finished_at=SystemClock().now())
            results.apply_success(job, pipeline, report.facts)
        elif job.state == CANCELLING:
            results.end_cancelled(job, pipeline, report.facts, reason=job.reason)
        else:
            _fail_or_retry(job, pipeline, _why_not(report, job, pipeline))
            results.note_plans(job, report.facts)
        if (
            pipeline is not None
            and job.kind == REPAIR
            and report.outcome != "succeeded"
        ):
            # it may have ended behind its commit
            lake_reconcile.follow_lake(pipeline)
        leases.release(owner_of(job.pk, report.attempt))
        if not _is_usual(job, pipeline):
            ring()
    return True


def _is_usual(job: Job, pipeline: Pipeline | None) -> bool:
    """A sync that went well and that nobody waits for: what waits for its place is
    claimed by the host that reports it."""
    is_carried = pipeline is not None and pipeline.state in LOADED
    return job.kind == SYNC and job.state == SUCCEEDED and is_carried


def _why_not(report: JobReport, job: Job, pipeline: Pipeline | None) -> SluiceError:
    if report.outcome in {"cancelled", "paused"}:
        # nobody asked for that: its driver was told to stop
        job.max_attempts += 1
        return TransientError("its driver was stopped")
    error = _error(report)
    if pipeline is not None and error.code == OUT_OF_MEMORY:
        transitions.run_alone(pipeline, f"{error.message} ended the shared driver")
    return (
        looked_first(job, pipeline, lake_reconcile.healed(pipeline, error))
        if pipeline
        else error
    )


def _fail_or_retry(job: Job, pipeline: Pipeline | None, error: SluiceError) -> None:
    now = SystemClock().now()
    if isinstance(error, TransientError) and job.attempts < job.max_attempts:
        wait = wait_after(job.attempts)
        reason = f"{error.message}; try {job.attempts + 1} in {wait:.0f} s"
        later = now + timedelta(seconds=wait)
        limit = job.max_attempts
        move_job(job, "try_again", reason=reason, not_before=later, max_attempts=limit)
        results.note_retry(job)
        return
    results.fail(job, pipeline, error)


def _error(report: JobReport) -> SluiceError:
    nothing_said = ErrorFact("unexplained", "the driver gave no reason")
    return error_from(report.outcome, report.error or nothing_said)
