"""The queue of the Spark drivers, as rows: put a job in, find the next one that may
run, begin its attempt, end it.

The row is the truth; the caller may die between any two of these functions. What a job
is for its kind knows (`spec_for`, `outcome`), and the driver host calls both.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Case, Q, QuerySet, When
from django.db.models.functions import Now

from catalog.compiled import AnyRow, CompiledValues
from catalog.models import Table
from core.clock import SystemClock
from core.dispatch import send
from core.errors import InvalidRequest, SluiceError
from core.jobs import ACTIVE, LAUNCHING, QUEUED, UNKNOWN, moves
from core.jobs.kinds import End
from core.jobs.moves import enqueue, move_job
from core.models import Job
from ingest.contract.job import JobReport
from ingest.contract.members import as_data
from ingest.jobs import leases
from ingest.jobs.isolation import is_isolated, scopes_of
from ingest.jobs.kinds import Attempt, driver_kind
from ingest.jobs.lanes import LANE_LIMITS, full_for, matching, turn, use_of
from ingest.models import DriverIncarnation, Pipeline
from ingest.models.states import RETIRED

TICK = "ingest.tick"
# The driver host listens to this channel of PostgreSQL.
CHANNEL = "sluice_jobs"
SILENT_SECONDS = 10
_FRESH: dict[str, Any] = {
    "report": None,
    "finished_at": None,
    "progress_at": None,
    "error_code": "",
    "error_message": "",
    "error_hint": "",
}

# --------------------------------------------------------------------------- put


def new_job(
    pipeline: Pipeline,
    kind: str,
    *,
    actor: str,
    payload: Mapping[str, Any] | None = None,
) -> Job:
    """An unsaved job of this pipeline, for `put`. `payload` is the kind's own,
    beside what all say."""
    table = pipeline.lake_table
    if table is None:
        raise InvalidRequest(
            f"{pipeline.source_table} is not approved yet", code="not_now"
        )
    said = {"pipeline": pipeline.pk, "table": table.pk, **(payload or {})}
    job = job_on(table, kind, said, actor=actor)
    job.share_key = f"source:{pipeline.source_table.database.datasource_id}"
    if driver_kind(kind).weighs_rows:
        job.weight = max(0, pipeline.source_table.estimated_rows)
    return job


def job_on(table: Table, kind: str, payload: dict[str, Any], *, actor: str) -> Job:
    """The same for a table, whoever syncs it."""
    described = driver_kind(kind)
    return Job(
        kind=kind,
        subject=str(table),
        subject_id=str(table.pk),
        exclusive_key=leases.lease_name(table.pk, described.scopes[0]),
        lane=described.lane,
        max_attempts=described.max_attempts,
        payload=payload,
        requested_by=actor,
        state=QUEUED,
        queued_at=SystemClock().now(),
        reason="waiting for a driver",
    )


def put(jobs: list[Job], *, is_awaited: bool = True) -> list[Job]:
    """Queue many at once; where an equal one waits already, that one is returned.

    is_awaited: wake the driver host, which else finds them within half a second.
    """
    with transaction.atomic():
        found = enqueue(jobs)
        if is_awaited:
            wake_host()
    return found


def wake_host() -> None:
    """Have the driver host look at its jobs as soon as the surrounding transaction has
    committed. One that is not there looks when it starts."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, '')", [CHANNEL])


def notify_workers() -> None:
    """Have a worker look at what waits for jobs to end, once the surrounding
    transaction has committed; never raises."""
    transaction.on_commit(functools.partial(send, TICK), robust=True)


# ------------------------------------------------------------------------- claim


def _queued() -> QuerySet[Job]:
    return Job.objects.filter(state=QUEUED, lane__in=list(LANE_LIMITS)).filter(
        Q(not_before=None) | Q(not_before__lte=Now())
    )


is_any_queued = AnyRow(_queued)


def live_incarnation() -> DriverIncarnation | None:
    """The driver that takes work now: ready, not ended, heard of recently."""
    heard = Now() - timedelta(seconds=SILENT_SECONDS)
    incarnations = DriverIncarnation.objects.filter(
        ended_at=None, ready_at__isnull=False, heartbeat_at__gt=heard
    )
    return incarnations.order_by("-started_at").first()


def explain_no_driver() -> None:
    """While no driver takes work, write why jobs wait: no host does it then."""
    if not is_any_queued() or live_incarnation() is not None:
        return
    newest = (
        DriverIncarnation.objects.filter(ended_at=None).order_by("-started_at").first()
    )
    away = newest.facts.get("away") if newest else None
    _explain(_queued(), f"waiting for a driver: {away or 'none is ready'}")


def free_jobs() -> QuerySet[Job]:
    """Waiting jobs whose tables are free; the others get the reason why they wait."""
    due = _queued()
    active = Job.objects.filter(state__in=ACTIVE, lane__in=list(LANE_LIMITS))
    busy = list(active.values_list("exclusive_key", flat=True))
    _explain(due.filter(exclusive_key__in=busy), "another job works on this table")
    # they must not stand before the jobs of other tables, for hours at times
    leased = due.exclude(exclusive_key__in=busy).filter(leases.is_held())
    _explain(leased, "waiting for the table's lease")
    return due.exclude(exclusive_key__in=busy).exclude(leases.is_held())


def tables_asked_for(table_ids: Collection[int], *, of: Collection[str]) -> set[int]:
    """Those of the tables that a job could begin to write to now if these owners of
    leases gave them back."""
    if not table_ids or not is_any_queued():
        return set()
    active = Job.objects.filter(state__in=ACTIVE, lane__in=list(LANE_LIMITS))
    here = _queued().filter(subject_id__in=[str(pk) for pk in table_ids])
    left = here.exclude(exclusive_key__in=active.values("exclusive_key"))
    left = left.exclude(leases.is_held(but=of))
    asked: set[int] = set()
    for lane in set(left.values_list("lane", flat=True)):
        for rule in full_for(use_of(lane)):
            left = left.exclude(matching(rule), lane=lane)
        first = left.filter(lane=lane).order_by(turn(), "queued_at")
        asked |= {
            int(job.subject_id)
            for job in first[: LANE_LIMITS[lane]]
            if leases.WRITE in _scopes_of(job)
        }
    return asked


def _scopes_of(job: Job) -> Sequence[str]:
    kind = driver_kind(job.kind)
    rows = Pipeline.objects.filter(lake_table=job.payload["table"])
    pipeline = rows.exclude(state=RETIRED).select_related("lake_table").first()
    is_alone = pipeline is not None and is_isolated(job, pipeline)
    return scopes_of(kind, pipeline) if pipeline and is_alone else kind.scopes


def next_in(
    lane: str, free: QuerySet[Job], *, without: Collection[UUID]
) -> UUID | None:
    """Whose turn it is in a lane, of those that it has a place for; the others get the
    reason why they wait."""
    left = free.filter(lane=lane)
    for rule in full_for(use_of(lane)):
        _explain(left.filter(matching(rule)), rule.reason)
        left = left.exclude(matching(rule))
    first = left.exclude(pk__in=list(without)).order_by(turn(), "queued_at")
    return first.values_list("pk", flat=True).first()


def _explain(jobs: QuerySet[Job], reason: str) -> None:
    """Why these wait. Only rows whose reason differs are written, a page at a time."""
    pks = list(jobs.exclude(reason=reason).values_list("pk", flat=True)[:500])
    if pks:
        Job.objects.filter(pk__in=pks, state=QUEUED).update(reason=reason)


def claim(job: Job, attempt: Attempt, incarnation: DriverIncarnation) -> None:
    """Begin an attempt in this driver: QUEUED → LAUNCHING."""
    hold, now = attempt.hold, SystemClock().now()
    moves.claim(
        job,
        spec=as_data(attempt.spec),
        handle={
            "boot": str(incarnation.pk),
            "isolated": hold.is_alone,
            "scopes": list(hold.scopes),
        },
        attempts=job.attempts + 1,
        started_at=now,
        moved_at=job.moved_at or now,
        **_FRESH,
    )


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


def lock_attempt(report: JobReport) -> Job | None:
    """Return the job that the report is about, locked. Reports may come twice or late:
    None when it is not about the present attempt of an unfinished job."""
    job = Job.objects.select_for_update().filter(pk=report.job_id).first()
    if job is None or job.attempts != report.attempt or job.state not in ACTIVE:
        return None
    return job


def finish(job: Job, report: JobReport, error: SluiceError | None) -> End:
    """End the attempt as its report says. error: by what it failed; None = it did not,
    or it was to be cancelled. The row stays locked, and the caller concludes the end.
    """
    job.report = as_data(report)
    Job.objects.filter(pk=job.pk).update(report=job.report)
    if report.outcome == "succeeded":
        return moves.succeed(job, report.facts)
    if error is None:
        return moves.end_cancelled(job, report.facts, reason=job.reason)
    return moves.fail_or_retry(job, error, report.facts, tried=job.attempts)
