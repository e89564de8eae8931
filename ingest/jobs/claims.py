"""Claiming: which of the jobs that wait may run now, and what they need for it.

Takes leases, raises fences and writes specs; the driver host hands over what is
claimed. It must not know Spark, pipes or REST.
"""

from __future__ import annotations

import json
from datetime import timedelta
from functools import cache
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.db.models import (
    DateTimeField,
    DurationField,
    ExpressionWrapper,
    F,
    Q,
    QuerySet,
    Value,
)
from django.db.models.expressions import Combinable
from django.db.models.functions import Least, Now

from catalog.compiled import AnyRow, CompiledValues
from core.clock import SystemClock
from core.errors import TerminalError
from core.jobs import ACTIVE, QUEUED
from core.jobs.handlers import names_of
from core.jobs.moves import Claim, reject, try_claim
from core.leases import owner_of
from core.models import Job
from ingest.contract.job import encode
from ingest.jobs import leases, specs
from ingest.jobs.driver_jobs import DriverJob, driver_job
from ingest.jobs.isolation import is_isolated, scopes_of
from ingest.jobs.lanes import (
    LANE_LIMITS,
    OVERTAKEN_SECONDS,
    ROWS_PER_SECOND,
    FullFor,
    LaneUse,
    Place,
    full_for,
)
from ingest.models import DriverIncarnation

SILENT_SECONDS = 10


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
        use = _use_of(lane)
        left = waiting
        for rule in full_for(use):
            shut = left.filter(_matching(rule))
            _say(shut, rule.reason)
            left = left.exclude(_matching(rule))
        first = left.exclude(pk__in=[*claimed, *refused])
        pk = first.order_by(_turn(), "queued_at").values_list("pk", flat=True).first()
        if pk is None:
            return claimed
        (claimed if _try_claim(pk, incarnation) else refused).append(pk)
        if len(refused) > LANE_LIMITS[lane]:
            return claimed


def _use_of(lane: str) -> LaneUse:
    return LaneUse(lane, LANE_LIMITS[lane], tuple(_taken().all(lane)))


@cache
def _taken() -> CompiledValues[Place]:
    """By lane."""
    # one of a kind that nobody here knows is ended by nobody: it must not keep a place
    known = names_of(DriverJob)
    rows = Job.objects.filter(lane="\x01", state__in=ACTIVE, kind__in=known)
    return CompiledValues(rows.values_list("share_key", "weight"), ["\x01"], Place)


def _matching(rule: FullFor) -> Q:
    found = Q(weight__gte=rule.least_weight)
    return found & Q(share_key=rule.share_key) if rule.share_key else found


def _turn() -> Combinable:
    """When it is a job's turn: the lighter ones go before heavier ones that were
    queued up to `OVERTAKEN_SECONDS` earlier."""
    delay = Least(F("weight") / ROWS_PER_SECOND, float(OVERTAKEN_SECONDS))
    seconds = ExpressionWrapper(
        delay * Value(timedelta(seconds=1)), output_field=DurationField()
    )
    return ExpressionWrapper(F("queued_at") + seconds, output_field=DateTimeField())


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


def _has_room(job: Job) -> bool:
    """Counted again while nobody else can claim for this lane."""
    with connection.cursor() as cursor:
        name = f"lane:{job.lane}"
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [name])
    place = Place(job.share_key, job.weight)
    return not any(rule.is_for(place) for rule in full_for(_use_of(job.lane)))


def _prepared(job: Job, incarnation: DriverIncarnation) -> Claim | None:
    """The attempt with its leases, fences and spec; None when the job has to wait."""
    handler = driver_job(job.kind)
    if not handler.is_ready(job) or not _has_room(job):
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


_FRESH: dict[str, Any] = {
    "report": None,
    "finished_at": None,
    "progress_at": None,
    "error_code": "",
    "error_message": "",
    "error_hint": "",
}
