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

from django.conf import settings
from django.db import IntegrityError, connection, transaction
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
from core.errors import SluiceError, StaleState, TerminalError, TransientError
from core.jobs import ACTIVE, QUEUED
from core.jobs.moves import move_job
from core.models import Job
from ingest.contract.driver_size import shares_lock
from ingest.contract.job import encode
from ingest.contract.kinds import COMPACT, REPAIR
from ingest.jobs import epochs, lake_reconcile, leases, results, specs
from ingest.jobs.backoff import wait_after
from ingest.jobs.kinds import KINDS, LANE_LIMITS
from ingest.jobs.lanes import (
    OVERTAKEN_SECONDS,
    ROWS_PER_SECOND,
    FullFor,
    LaneUse,
    Place,
    full_for,
)
from ingest.jobs.lifecycle import owner_of
from ingest.lake.fence import Scope
from ingest.maintenance import compaction_plans
from ingest.models import DriverBoot, Pipeline
from ingest.pipelines import transitions
from ingest.pipelines.schema_drift import lock_settled, waits_for_look

BOOT_SILENT_SECONDS = 10
DEATHS_BEFORE_ISOLATION = 2


def _queued() -> QuerySet[Job]:
    return Job.objects.filter(state=QUEUED, kind__in=list(KINDS)).filter(
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
    boot = live_boot()
    if boot is None:
        _say(due, _why_no_driver())
        return []
    active = Job.objects.filter(state__in=ACTIVE, kind__in=list(KINDS))
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
            claimed += _claim_in(lane, free.filter(lane=lane), boot)
    return claimed


def _claim_in(lane: str, waiting: QuerySet[Job], boot: DriverBoot) -> list[UUID]:
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
        (claimed if _try_claim(pk, boot) else refused).append(pk)
        if len(refused) > LANE_LIMITS[lane]:
            return claimed


def _use_of(lane: str) -> LaneUse:
    return LaneUse(lane, LANE_LIMITS[lane], tuple(_taken().all(lane)))


@cache
def _taken() -> CompiledValues[Place]:
    """By lane."""
    rows = Job.objects.filter(lane="\x01", state__in=ACTIVE, kind__in=list(KINDS))
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
            if job is None or waits_for_look(job):
                return False
            return _has_room(job) and _claim(job, boot)
    except (IntegrityError, StaleState):
        return False  # somebody else was first
    except SluiceError as error:
        _put_off(job_id, error)
        return False


def _has_room(job: Job) -> bool:
    """Counted again while nobody else can claim for this lane."""
    with connection.cursor() as cursor:
        name = f"lane:{job.lane}"
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [name])
    place = Place(job.share_key, job.weight)
    return not any(rule.is_for(place) for rule in full_for(_use_of(job.lane)))


def _claim(job: Job, boot: DriverBoot) -> bool:
    pipeline = lock_settled(job)
    refusal = transitions.why_refused(job, pipeline)
    if pipeline is None or refusal is not None:
        results.reject(job, pipeline, refusal or TerminalError("its table is gone"))
        return False
    is_isolated = (
        settings.SLUICE_LAUNCHER == "submit"
        or job.payload.get("deaths", 0) >= DEATHS_BEFORE_ISOLATION
        or bool(job.payload.get("driver"))
        or bool(pipeline.alone_reason)
    )
    kind = KINDS[job.kind]
    scopes = _scopes_of(job, pipeline) if is_isolated else kind.scopes
    owner = owner_of(job.pk, job.attempts + 1)
    with transaction.atomic():
        fences = leases.take_table(
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
        lake_reconcile.follow_lake(pipeline)
    epoch = epochs.epoch_for(job, pipeline)
    spec = specs.build_spec(job, pipeline, fence=fence, epoch=epoch)
    handle = {"boot": str(boot.pk), "isolated": is_isolated, "scopes": list(scopes)}
    move_job(
        job,
        "claim",
        spec=json.loads(encode(spec)),
        handle=handle,
        attempts=job.attempts + 1,
        started_at=SystemClock().now(),
        moved_at=job.moved_at or SystemClock().now(),
        **_FRESH,
    )
    if job.kind == COMPACT:
        compaction_plans.start(int(job.payload["table"]), job.payload["instants"])
    transitions.note_claimed(job, pipeline)
    return True


def _scopes_of(job: Job, pipeline: Pipeline) -> tuple[Scope, ...]:
    """Of a job in a driver of its own. Such drivers share no lock in memory: they take
    the whole table, unless it has a lock that all of them know."""
    lake = pipeline.lake_table
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
            results.reject(job, transitions.lock_pipeline(job), error)
