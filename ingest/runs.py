"""The life of an ingestion job: start → claim → hand over → finish.

The job row is the truth; whoever calls these functions may die between any two of
them. Knows rows, leases and specs. Must not know Spark, pipes or REST: the driver
host (`ingest.launch`) carries specs to a driver and brings reports back, and what
an ending means for the table is decided in `ingest.outcomes`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.db.models import Count, Q, QuerySet
from django.db.models.functions import Now

from catalog.models import Table
from core.advance import record_moves
from core.clock import SystemClock
from core.errors import (
    InvalidRequest,
    SluiceError,
    StaleState,
    TerminalError,
    TransientError,
)
from core.jobs import ACTIVE, CANCELLING, LAUNCHING, PLANNED, QUEUED, UNKNOWN, WAITING
from core.models import Job
from ingest import compactions, epochs, feeds, healing, leasing, outcomes, specs, upkeep
from ingest.backoff import wait_after
from ingest.compactions import Wish
from ingest.contract import (
    ErrorFact,
    JobReport,
    JobSpec,
    encode,
    error_from,
    spec_from,
)
from ingest.dispatch import ring
from ingest.drivers import shares_lock
from ingest.jobrows import move_job
from ingest.kinds import COMPACT, KINDS, LANE_LIMITS, OWN_LANE, REPAIR, ROUND
from ingest.lake.fence import Scope
from ingest.models import DriverBoot, TableOnboarding

BOOT_SILENT_SECONDS = 10
DEATHS_BEFORE_ISOLATION = 2

# ------------------------------------------------------------------------- start


def start_load(feed: TableOnboarding, kind: str, *, actor: str) -> Job:
    """Queue the load (snapshot or resync) of an approved table."""
    return start_jobs([new_job(feed, kind, actor=actor)])[0]


def start_round(feed: TableOnboarding, *, actor: str) -> Job:
    """Queue one round of timestamp capture; one that waits already is returned."""
    return start_jobs([new_job(feed, ROUND, actor=actor)])[0]


def start_compaction(
    table: Table, *, actor: str, instants: Iterable[str] = (), wish: Wish = None
) -> Job:
    """Queue the execution of exactly these instants (none = schedule one first). One
    that waits already is returned, with the driver that is wished for now."""
    own = compactions.payload_for(table, wish)
    payload = {"table": table.pk, "instants": list(instants), **own}
    job = _job(table, COMPACT, payload, actor=actor)
    job.lane = OWN_LANE if own else job.lane
    found = start_jobs([job])[0]
    if found.pk != job.pk and wish is not None:
        found.lane = job.lane
        kept = {k: v for k, v in found.payload.items() if k != "driver"}
        found.payload = kept | own
        waiting = Job.objects.filter(pk=found.pk, state__in=WAITING)
        waiting.update(lane=found.lane, payload=found.payload)
    return found


def new_job(feed: TableOnboarding, kind: str, *, actor: str) -> Job:
    """An unsaved job of this feed, for `start_jobs`."""
    if feed.lake_table is None:
        raise InvalidRequest(f"{feed.source_table} is not approved yet", code="not_now")
    payload = {"feed": feed.pk, "table": feed.lake_table_id}
    return _job(feed.lake_table, kind, payload, actor=actor)


def _job(table: Table, kind_name: str, payload: dict[str, Any], *, actor: str) -> Job:
    kind = KINDS[kind_name]
    return Job(
        kind=kind_name,
        subject=str(table),
        subject_id=str(table.pk),
        exclusive_key=leasing.lease_name(table.pk, kind.scopes[0]),
        lane=kind.lane,
        max_attempts=kind.max_attempts,
        payload=payload,
        requested_by=actor,
        state=QUEUED,
        queued_at=SystemClock().now(),
        reason="waiting for a driver",
    )


def start_jobs(jobs: list[Job]) -> list[Job]:
    """Queue many at once; where an equal one waits already, that one is returned."""
    with transaction.atomic():
        Job.objects.bulk_create(jobs, ignore_conflicts=True, batch_size=500)
        stored = set(
            Job.objects.filter(pk__in=[j.pk for j in jobs]).values_list("pk", flat=True)
        )
        if fresh := [job for job in jobs if job.pk in stored]:
            record_moves(fresh, "enqueue", before=PLANNED, actor=jobs[0].requested_by)
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


# ------------------------------------------------------------------------- claim


def claim_queued() -> list[UUID]:
    """Move what may run now to LAUNCHING, with leases, fences and spec in place.

    Safe to call from anywhere at any time; rows that somebody else looks at are
    skipped. What cannot run yet says why.
    """
    due = Job.objects.filter(state=QUEUED, kind__in=list(KINDS)).filter(
        Q(not_before=None) | Q(not_before__lte=Now())
    )
    if not due.exists():
        return []
    boot = live_boot()
    if boot is None:
        _say(due, _why_no_driver())
        return []
    active = Job.objects.filter(state__in=ACTIVE, kind__in=list(KINDS))
    used = dict(active.values_list("lane").annotate(Count("pk")))
    busy = list(active.values_list("exclusive_key", flat=True))
    _say(due.filter(exclusive_key__in=busy), "another job works on this table")
    # they must not stand before the jobs of other tables, for hours at times
    leased = due.exclude(exclusive_key__in=busy).filter(leasing.is_held())
    _say(leased, "waiting for the table's lease")
    claimed: list[UUID] = []
    for lane, limit in LANE_LIMITS.items():
        waiting = due.filter(lane=lane).exclude(exclusive_key__in=busy)
        waiting = waiting.exclude(leasing.is_held())
        free = limit - used.get(lane, 0)
        if free <= 0:
            _say(waiting, f"waiting for a free place in the {lane} lane")
            continue
        first = waiting.order_by("queued_at").values_list("pk", flat=True)[: free * 2]
        for pk in first:
            if free > 0 and _try_claim(pk, boot):
                claimed.append(pk)
                free -= 1
    return claimed


def live_boot() -> DriverBoot | None:
    """The driver that takes work now: ready, not ended, heard of recently."""
    heard = Now() - timedelta(seconds=BOOT_SILENT_SECONDS)
    boots = DriverBoot.objects.filter(
        ended_at=None, ready_at__isnull=False, heartbeat_at__gt=heard
    )
    return boots.order_by("-started_at").first()


def _why_no_driver() -> str:
    newest = DriverBoot.objects.filter(ended_at=None).order_by("-started_at").first()
    away = newest.facts.get("away") if newest else None
    return f"waiting for a driver: {away or 'none is ready'}"


def _say(jobs: QuerySet[Job], reason: str) -> None:
    """Why these wait. Only rows whose reason differs are written, a page at a time."""
    pks = list(jobs.exclude(reason=reason).values_list("pk", flat=True)[:500])
    if pks:
        Job.objects.filter(pk__in=pks, state=QUEUED).update(reason=reason)


def _try_claim(job_id: UUID, boot: DriverBoot) -> bool:
    try:
        with transaction.atomic():
            rows = Job.objects.select_for_update(skip_locked=True)
            job = rows.filter(pk=job_id, state=QUEUED).first()
            return job is not None and _has_room(job.lane) and _claim(job, boot)
    except (IntegrityError, StaleState):
        return False  # somebody else was first
    except SluiceError as error:
        _put_off(job_id, error)
        return False


def _has_room(lane: str) -> bool:
    """Counted again while nobody else can claim for this lane."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [f"lane:{lane}"])
    used = Job.objects.filter(lane=lane, state__in=ACTIVE, kind__in=list(KINDS))
    return used.count() < LANE_LIMITS[lane]


def _claim(job: Job, boot: DriverBoot) -> bool:
    feed = feeds.lock_feed(job)
    refusal = feeds.why_refused(job, feed)
    if feed is None or refusal is not None:
        outcomes.reject(job, feed, refusal or TerminalError("its table is gone"))
        return False
    is_isolated = (
        settings.SLUICE_LAUNCHER == "submit"
        or job.payload.get("deaths", 0) >= DEATHS_BEFORE_ISOLATION
        or bool(job.payload.get("driver"))
    )
    kind = KINDS[job.kind]
    scopes = _scopes_of(job, feed) if is_isolated else kind.scopes
    owner = owner_of(job.pk, job.attempts + 1)
    with transaction.atomic():
        fences = leasing.take_table(
            int(job.payload["table"]),
            scopes,
            owner=owner,
            takes_back=job.payload.get("repair", {}).get("action") == "rollback",
        )
        # one lease without the other would keep others out, and do nothing
        transaction.set_rollback(fences is None)
    if fences is None:
        Job.objects.filter(pk=job.pk).update(reason="waiting for the table's lease")
        return False
    fence = fences[scopes.index(kind.scopes[0])]
    if job.kind == REPAIR:
        # a former attempt may have changed what the plan says
        healing.follow_lake(feed)
    spec = specs.build_spec(job, feed, fence=fence, epoch=epochs.epoch_for(job, feed))
    move_job(
        job,
        "claim",
        spec=json.loads(encode(spec)),
        handle={
            "boot": str(boot.pk),
            "isolated": is_isolated,
            "scopes": list(scopes),
        },
        attempts=job.attempts + 1,
        started_at=SystemClock().now(),
        **_FRESH,
    )
    if job.kind == COMPACT:
        upkeep.start(int(job.payload["table"]), job.payload["instants"])
    feeds.note_claimed(job, feed)
    return True


def _scopes_of(job: Job, feed: TableOnboarding) -> tuple[Scope, ...]:
    """Of a job in a driver of its own. Such drivers share no lock in memory: they take
    the whole table, unless it has a lock that all of them know."""
    lake = feed.lake_table
    is_shared = lake is not None and shares_lock(lake.identity)
    return KINDS[job.kind].scopes if is_shared else ("write", "service")


_FRESH: dict[str, Any] = {
    "report": None,
    "finished_at": None,
    "progress_at": None,
    "error_code": "",
    "error_message": "",
    "error_hint": "",
}


def _put_off(job_id: UUID, error: SluiceError) -> None:
    """The lake or the catalog refused before anything ran: later, or never."""
    with transaction.atomic():
        job = Job.objects.select_for_update().get(pk=job_id)
        if job.state != QUEUED:
            return
        if isinstance(error, TransientError):
            later = SystemClock().now() + timedelta(seconds=wait_after(3))
            Job.objects.filter(pk=job_id).update(reason=str(error), not_before=later)
        else:
            outcomes.reject(job, feeds.lock_feed(job), error)


def owner_of(job_id: UUID, attempt: int) -> str:
    """The owner of an attempt's leases."""
    return f"job:{job_id}:{attempt}"


# ---------------------------------------------------------------------- hand over


def launching_for(boot_id: UUID) -> list[tuple[JobSpec, bool]]:
    """Claimed for this driver and not accepted yet: (spec, needs its own process)."""
    rows = Job.objects.filter(state=LAUNCHING, handle__boot=str(boot_id))
    return [
        (spec_from(spec), bool(handle.get("isolated")))
        for spec, handle in rows.order_by("queued_at").values_list("spec", "handle")
        if spec is not None
    ]


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
        feed = feeds.lock_feed(job)
        job.report = json.loads(encode(report))
        Job.objects.filter(pk=job.pk).update(report=job.report)
        if report.outcome == "succeeded":
            move_job(job, "succeed", finished_at=SystemClock().now())
            outcomes.apply_success(job, feed, report.facts)
        elif job.state == CANCELLING:
            outcomes.end_cancelled(job, feed, report.facts, reason=job.reason)
        else:
            _fail_or_retry(job, feed, _why_not(report, job, feed))
            outcomes.note_plans(job, report.facts)
        if feed is not None and job.kind == REPAIR and report.outcome != "succeeded":
            # it may have ended behind its commit
            healing.follow_lake(feed)
        leasing.release(owner_of(job.pk, report.attempt))
        ring()
    return True


def _why_not(report: JobReport, job: Job, feed: TableOnboarding | None) -> SluiceError:
    if report.outcome in {"cancelled", "paused"}:
        # nobody asked for that: its driver was told to stop
        job.max_attempts += 1
        return TransientError("its driver was stopped")
    error = _error(report)
    return healing.healed(feed, error) if feed else error


def _fail_or_retry(job: Job, feed: TableOnboarding | None, error: SluiceError) -> None:
    now = SystemClock().now()
    if isinstance(error, TransientError) and job.attempts < job.max_attempts:
        wait = wait_after(job.attempts)
        reason = f"{error.message}; try {job.attempts + 1} in {wait:.0f} s"
        later = now + timedelta(seconds=wait)
        limit = job.max_attempts
        move_job(job, "try_again", reason=reason, not_before=later, max_attempts=limit)
        outcomes.note_retry(job)
        return
    outcomes.fail(job, feed, error)


def _error(report: JobReport) -> SluiceError:
    nothing_said = ErrorFact("unexplained", "the driver gave no reason")
    return error_from(report.outcome, report.error or nothing_said)
