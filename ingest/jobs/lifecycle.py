"""The life of a job in a driver: start → claim → hand over → finish.

The job row is the truth; its caller may die between any two of these functions. The
driver host (`drivers`) takes specs to a driver and brings reports back; what
an ending means for the table its kind's handler decides.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import (
    Case,
    Q,
    QuerySet,
    When,
)
from django.db.models.functions import Now

from catalog.compiled import AnyRow, CompiledValues
from catalog.models import Table
from core.clock import SystemClock
from core.dispatch import send
from core.errors import InvalidRequest, SluiceError, TerminalError, TransientError
from core.jobs import ACTIVE, CANCELLING, LAUNCHING, QUEUED, UNKNOWN, moves
from core.jobs.moves import Claim, enqueue, move_job, reject, try_claim
from core.leases import owner_of, release_all
from core.models import Job
from ingest.contract.job import (
    CONNECTIONS_USED_UP,
    OUT_OF_MEMORY,
    ErrorFact,
    JobReport,
    encode,
    error_from,
)
from ingest.jobs import leases, specs
from ingest.jobs.driver_jobs import driver_job
from ingest.jobs.isolation import is_isolated, run_alone, scopes_of
from ingest.jobs.lanes import (
    LANE_LIMITS,
    full_for,
    has_room,
    matching,
    turn,
    use_of,
)
from ingest.models import DriverIncarnation, Pipeline

TICK = "ingest.tick"
SILENT_SECONDS = 10
_FRESH: dict[str, Any] = {
    "report": None,
    "finished_at": None,
    "progress_at": None,
    "error_code": "",
    "error_message": "",
    "error_hint": "",
}

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
    said = {"pipeline": pipeline.pk, "table": table.pk, **(payload or {})}
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


def ring() -> None:
    """Ask a worker to look what is due, once the surrounding transaction has
    committed; never raises."""
    transaction.on_commit(functools.partial(send, TICK), robust=True)


# ------------------------------------------------------------------------- claim


def _queued() -> QuerySet[Job]:
    return Job.objects.filter(state=QUEUED, lane__in=list(LANE_LIMITS)).filter(
        Q(not_before=None) | Q(not_before__lte=Now())
    )


is_any_queued = AnyRow(_queued)


def claim_queued() -> list[UUID]:
    """Move what may run now to LAUNCHING, with leases, fences and spec in place.

    Safe to call from anywhere at any time; rows that somebody else looks at are
    skipped. What cannot run yet says why.
    """
    if not is_any_queued():
        return []
    due = _queued()
    incarnation = live_incarnation()
    if incarnation is None:
        _say(due, _why_no_driver())
        return []
    active = Job.objects.filter(state__in=ACTIVE, lane__in=list(LANE_LIMITS))
    busy = list(active.values_list("exclusive_key", flat=True))
    _say(due.filter(exclusive_key__in=busy), "another job works on this table")
    # they must not stand before the jobs of other tables, for hours at times
    leased = due.exclude(exclusive_key__in=busy).filter(leases.is_held())
    _say(leased, "waiting for the table's lease")
    free = due.exclude(exclusive_key__in=busy).exclude(leases.is_held())
    claimed: list[UUID] = []
    wanted = set(free.values_list("lane", flat=True).distinct())
    for lane in LANE_LIMITS:
        if lane in wanted:
            claimed += _claim_in(lane, free.filter(lane=lane), incarnation)
    return claimed


def _claim_in(
    lane: str, waiting: QuerySet[Job], incarnation: DriverIncarnation
) -> list[UUID]:
    """Fill the free places of a lane, in its order."""
    claimed: list[UUID] = []
    refused: list[UUID] = []
    while True:
        use = use_of(lane)
        left = waiting
        for rule in full_for(use):
            shut = left.filter(matching(rule))
            _say(shut, rule.reason)
            left = left.exclude(matching(rule))
        first = left.exclude(pk__in=[*claimed, *refused])
        pk = first.order_by(turn(), "queued_at").values_list("pk", flat=True).first()
        if pk is None:
            return claimed
        (claimed if _try_claim(pk, incarnation) else refused).append(pk)
        if len(refused) > LANE_LIMITS[lane]:
            return claimed


def live_incarnation() -> DriverIncarnation | None:
    """The driver that takes work now: ready, not ended, heard of recently."""
    heard = Now() - timedelta(seconds=SILENT_SECONDS)
    incarnations = DriverIncarnation.objects.filter(
        ended_at=None, ready_at__isnull=False, heartbeat_at__gt=heard
    )
    return incarnations.order_by("-started_at").first()


def _why_no_driver() -> str:
    newest = (
        DriverIncarnation.objects.filter(ended_at=None).order_by("-started_at").first()
    )
    away = newest.facts.get("away") if newest else None
    return f"waiting for a driver: {away or 'none is ready'}"


def _say(jobs: QuerySet[Job], reason: str) -> None:
    """Why these wait. Only rows whose reason differs are written, a page at a time."""
    pks = list(jobs.exclude(reason=reason).values_list("pk", flat=True)[:500])
    if pks:
        Job.objects.filter(pk__in=pks, state=QUEUED).update(reason=reason)


def _try_claim(job_id: UUID, incarnation: DriverIncarnation) -> bool:
    return try_claim(job_id, lambda job: _prepared(job, incarnation)) is not None


def _prepared(job: Job, incarnation: DriverIncarnation) -> Claim | None:
    """The attempt with its leases, fences and spec; None when the job has to wait."""
    handler = driver_job(job.kind)
    if not handler.is_ready(job) or not has_room(job):
        return None
    pipeline = handler.settle(job)
    refusal = handler.admit(job, pipeline)
    if pipeline is None or refusal is not None:
        reject(job, pipeline, refusal or TerminalError("its table is gone"))
        return None
    alone = is_isolated(job, pipeline)
    scopes = scopes_of(handler, pipeline) if alone else handler.scopes
    with transaction.atomic():
        fences = leases.take_table(
            int(job.payload["table"]),
            scopes,
            owner=owner_of(job.pk, job.attempts + 1),
            takes_back=handler.takes_back(job),
        )
        # one lease without the other would keep others out, and do nothing
        transaction.set_rollback(fences is None)
    if fences is None:
        Job.objects.filter(pk=job.pk).update(reason="waiting for the table's lease")
        return None
    fence = fences[scopes.index(handler.scopes[0])]
    handler.prepare(job, pipeline)
    epoch = handler.epoch(job, pipeline)
    spec = specs.build_spec(job, pipeline, fence=fence, epoch=epoch)
    handle = {"boot": str(incarnation.pk), "isolated": alone, "scopes": list(scopes)}
    now = SystemClock().now()
    begun = {
        "spec": json.loads(encode(spec)),
        "handle": handle,
        "attempts": job.attempts + 1,
        "started_at": now,
        "moved_at": job.moved_at or now,
    }
    return Claim(pipeline, begun | _FRESH)


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
    if error.code == CONNECTIONS_USED_UP:
        # however long others keep them: each try costs the source one refused login
        job.max_attempts += 1
    if pipeline is not None and error.code == OUT_OF_MEMORY:
        run_alone(pipeline, f"{error.message} ended the shared driver")
    return driver_job(job.kind).error_of(job, pipeline, error)


def _error(report: JobReport) -> SluiceError:
    unexplained = ErrorFact("unexplained", "the driver gave no reason")
    return error_from(report.outcome, report.error or unexplained)
