"""Compactions of a lake table: rows that mirror its timeline, and the jobs they need.

Ingest only schedules an instant; it is executed here as a job of its own lane, by
name, so that exactly one committer completes it. The timeline is the truth.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db.models import CharField, Exists, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Cast, Now
from django.utils import timezone

from catalog.compiled import AnyRow
from catalog.models import Table
from core.advance import advance, advance_all
from core.errors import SluiceError
from core.jobs import CANCELLED as JOB_CANCELLED
from core.jobs import FAILED, TERMINAL
from core.models import Job
from ingest.contract.job import COMPACT, REPAIR, CompactionBudget
from ingest.contract.members import value_of
from ingest.contract.written import Totals
from ingest.jobs.leases import wait_after
from ingest.models import MaintenancePlan, Pipeline, TableHealth
from ingest.models.states import INFLIGHT, PLAN_FAILED, REMOVING, RETIRED, SCHEDULED
from ingest.pipelines.policies.maintenance import opens_at, quiet_from
from ingest.pipelines.policies.policy import Effective
from ingest.pipelines.policies.store import setting_as_text

OPEN = (SCHEDULED, INFLIGHT, PLAN_FAILED)
PAGE = 500
MOST_PAGES = 10
# how soon a plan outside of its quiet hours is looked at again
LOOK_AGAIN = timedelta(minutes=1)
PUT_OFF = timedelta(hours=1)
AFTER_FAILURE = timedelta(minutes=15)
# how the reason of a job, or of a plan, begins that somebody stopped
CANCELLED = "cancelled"
KEPT = timedelta(days=30)


def mirror(table_id: int, pending: list[str], *, since: datetime | None) -> None:
    """Make the rows say what the timeline says: `pending` are the open instants that a
    job saw which began at `since`. A plan that was told of later, by a job that ended
    earlier, is none of those that went."""
    known = set(
        MaintenancePlan.objects.filter(
            table_id=table_id, instant__in=pending
        ).values_list("instant", flat=True)
    )
    fresh = [
        MaintenancePlan(table_id=table_id, instant=instant, state=SCHEDULED)
        for instant in pending
        if instant not in known
    ]
    MaintenancePlan.objects.bulk_create(fresh, ignore_conflicts=True)
    waiting = (SCHEDULED, PLAN_FAILED)
    older = MaintenancePlan.objects.filter(
        table_id=table_id, created_at__lt=since or Now(), state__in=waiting
    )
    gone = list(older.exclude(instant__in=pending))
    for state in waiting:
        advance_all([p for p in gone if p.state == state], "supersede")


def differing(pending: Mapping[int, Collection[str]]) -> list[int]:
    """Tables of which the rows do not say what is pending."""
    seen = {instant for instants in pending.values() for instant in instants}
    rows = MaintenancePlan.objects.filter(table__in=list(pending))
    known: dict[int, set[str]] = defaultdict(set)
    waiting: dict[int, set[str]] = defaultdict(set)
    rows = rows.filter(Q(state__in=OPEN) | Q(instant__in=seen))
    for table_id, instant, state in rows.values_list("table_id", "instant", "state"):
        known[table_id].add(instant)
        if state in (SCHEDULED, PLAN_FAILED):
            waiting[table_id].add(instant)
    return [
        table_id
        for table_id, instants in pending.items()
        if set(instants) - known[table_id] or waiting[table_id] - set(instants)
    ]


def start(table_id: int, instants: list[str]) -> None:
    advance_all(_plans(table_id, instants, SCHEDULED), "start")


def complete(table_id: int, instants: list[str]) -> None:
    for state in OPEN:
        advance_all(_plans(table_id, instants, state), "complete")


def roll_back(table_id: int, instants: list[str]) -> None:
    advance_all(_plans(table_id, instants, INFLIGHT), "roll_back")


def unschedule(table_id: int, instants: list[str]) -> None:
    """Somebody took these plans off the timeline."""
    advance_all(_plans(table_id, instants, SCHEDULED), "cancel")
    for state in (INFLIGHT, PLAN_FAILED):
        advance_all(_plans(table_id, instants, state), "supersede")


def fail(table_id: int, instants: list[str], error: SluiceError) -> None:
    for plan in _plans(table_id, instants, INFLIGHT):
        wait = timedelta(seconds=wait_after(plan.failures + 4))
        advance(
            plan,
            "fail",
            status_reason=error.as_sentence,
            failures=plan.failures + 1,
            due_at=timezone.now() + wait,
        )


def _plans(table_id: int, instants: list[str], state: str) -> list[MaintenancePlan]:
    return list(
        MaintenancePlan.objects.filter(
            table_id=table_id, instant__in=instants, state=state
        )
    )


def give_up(table_id: int) -> None:
    """Nobody carries the table any more, so nobody executes what is planned on it."""
    for state in OPEN:
        plans = MaintenancePlan.objects.filter(table_id=table_id, state=state)
        advance_all(list(plans), "supersede")


def forget_old(most: int) -> None:
    """Plans that came to their end long ago; the table's trend has what they did."""
    old = MaintenancePlan.objects.filter(created_at__lt=Now() - KEPT)
    ended = old.exclude(state__in=OPEN).order_by("created_at")
    pks = list(ended.values_list("pk", flat=True)[:most])
    if pks:
        MaintenancePlan.objects.filter(pk__in=pks).delete()


def put_off(table_id: int, instants: list[str]) -> datetime:
    """Somebody cancelled the job that executes these plans, or with none whatever is
    planned; they stay on the timeline. When they are executed again."""
    until = timezone.now() + PUT_OFF
    rows = MaintenancePlan.objects.filter(table_id=table_id, state=SCHEDULED)
    instants = instants or list(rows.values_list("instant", flat=True))
    roll_back(table_id, instants)
    put = rows.filter(instant__in=instants)
    put.update(due_at=until, status_reason=CANCELLED)
    return until


def last_stopped(table_id: int, now: datetime) -> tuple[datetime, str] | None:
    """Until when, and why, no compaction is planned after the last one."""
    rows = Job.objects.filter(
        kind=COMPACT,
        subject_id=str(table_id),
        finished_at__gt=now - PUT_OFF,
    )
    job = rows.order_by("-finished_at").only("finished_at", "state", "reason").first()
    if job is None or job.finished_at is None:
        return None
    if job.state == JOB_CANCELLED and job.reason.startswith(CANCELLED):
        wait = PUT_OFF
    elif job.state == FAILED:
        wait = AFTER_FAILURE
    else:
        return None
    until = job.finished_at + wait
    return (until, job.reason) if until > now else None


def waiting(table_id: int, instants: Sequence[str]) -> tuple[datetime, str] | None:
    """Until when and why all of these plans wait; None when one may be executed."""
    rows = MaintenancePlan.objects.filter(table_id=table_id, instant__in=instants)
    later = rows.filter(due_at__gt=Now()).exclude(status_reason="")
    found = list(later.order_by("due_at").values_list("due_at", "status_reason"))
    if len(found) < len(set(instants)):
        return None
    return next(((at, why) for at, why in found if at), None)


def compactions_due() -> dict[Table, list[str]]:
    """Open instants of tables that are carried, whose quiet hours have begun, and that
    no unfinished job is about to execute; at most PAGE."""
    if not _is_any_due():
        return {}
    again = MaintenancePlan.objects.filter(state=PLAN_FAILED, due_at__lte=Now())
    advance_all(list(again), "reschedule")
    for _ in range(MOST_PAGES):
        page = list(_candidates()[:PAGE])
        closed = [plan for plan in page if _is_closed(plan.quiet)]
        _look_later(closed)
        if len(closed) < len(page) or len(page) < PAGE:
            return _by_table(set(page) - set(closed))
    return {}


def _due() -> QuerySet[MaintenancePlan]:
    """Whoever may execute them: next to nothing most of the time."""
    planned = Q(state=SCHEDULED) & (Q(due_at=None) | Q(due_at__lte=Now()))
    failed = Q(state=PLAN_FAILED, due_at__lte=Now())
    return MaintenancePlan.objects.filter(planned | failed)


_is_any_due = AnyRow(_due)


def _candidates() -> QuerySet[Any]:
    """What is scheduled on tables that somebody carries, with their quiet hours."""
    busy = (
        Job.objects.filter(kind__in=[COMPACT, REPAIR])
        .exclude(state__in=sorted(TERMINAL))
        .filter(subject_id=Cast(OuterRef("table_id"), CharField()))
    )
    pipelines = (
        Pipeline.objects.filter(lake_table=OuterRef("table"))
        .exclude(state__in=[REMOVING, RETIRED])
        .order_by("-id")
    )
    quiet = pipelines.values_list(setting_as_text("maintenance_window"))[:1]
    return (
        MaintenancePlan.objects.filter(
            Exists(pipelines), ~Exists(busy), state=SCHEDULED
        )
        .filter(Q(due_at=None) | Q(due_at__lte=Now()))
        .annotate(quiet=Subquery(quiet))
        .select_related("table__database__datasource")
        .order_by("instant")
    )


def _is_closed(quiet: str | None) -> bool:
    hours = quiet_from(json.loads(quiet)) if quiet else None
    return hours is not None and opens_at(hours, timezone.now()) is not None


def _look_later(closed: list[MaintenancePlan]) -> None:
    """Thousands may wait for the night, and nobody tells them of a new policy."""
    rows = MaintenancePlan.objects.filter(pk__in=[plan.pk for plan in closed])
    if closed:
        rows.filter(state=SCHEDULED).update(due_at=timezone.now() + LOOK_AGAIN)


def _by_table(plans: Iterable[MaintenancePlan]) -> dict[Table, list[str]]:
    due: dict[Table, list[str]] = {}
    for plan in sorted(plans, key=lambda plan: plan.instant):
        due.setdefault(plan.table, []).append(plan.instant)
    return due


def budget_of(table_id: int, policy: Effective) -> CompactionBudget:
    """What compactions of the table may write, as counted when it was last looked at;
    the job counts on from there."""
    rows = TableHealth.objects.filter(table_id=table_id)
    written = "facts__written"
    found = rows.values_list(f"{written}__credit", f"{written}__counted").first()
    credit, counted = found or (0, None)
    return budget(policy, credit or 0, value_of(Totals, counted or {}))


def budget(policy: Effective, credit: int, counted: Totals) -> CompactionBudget:
    return CompactionBudget(
        amplification=policy.keeping.max_write_amplification,
        credit=credit,
        counted=counted,
        log_age=policy.keeping.compact_log_age_seconds,
    )
