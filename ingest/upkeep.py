"""Compactions of a lake table: rows that mirror its timeline, and the jobs they need.

Ingest only schedules an instant; it is executed here as a job of its own lane, by
name, so that exactly one committer completes it. The timeline is the truth.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Now

from catalog.models import Table
from core.advance import advance, advance_all, record_moves
from core.clock import SystemClock
from core.errors import SluiceError
from core.jobs import TERMINAL
from core.models import Job
from ingest.backoff import wait_after
from ingest.kinds import COMPACT, REPAIR
from ingest.maintenance.quiet import opens_at, quiet_from
from ingest.models import MaintenancePlan, TableOnboarding
from ingest.policyrows import setting_as_text
from ingest.states import (
    INFLIGHT,
    PLAN_FAILED,
    PROPOSED_PLAN,
    REMOVING,
    RETIRED,
    SCHEDULED,
)

OPEN = (SCHEDULED, INFLIGHT, PLAN_FAILED)
PAGE = 500


def mirror(table_id: int, pending: list[str]) -> None:
    """Make the rows say what the timeline says: `pending` are its open instants."""
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
    created = list(
        MaintenancePlan.objects.filter(
            table_id=table_id, instant__in=[p.instant for p in fresh], events=None
        )
    )
    if created:
        record_moves(created, "schedule", before=PROPOSED_PLAN)
    gone = MaintenancePlan.objects.filter(table_id=table_id, state=SCHEDULED).exclude(
        instant__in=pending
    )
    advance_all(list(gone), "supersede", reason="no longer pending on the timeline")


def start(table_id: int, instants: list[str]) -> None:
    advance_all(_plans(table_id, instants, SCHEDULED), "start")


def complete(table_id: int, instants: list[str]) -> None:
    for state in OPEN:
        advance_all(_plans(table_id, instants, state), "complete")


def roll_back(table_id: int, instants: list[str]) -> None:
    advance_all(_plans(table_id, instants, INFLIGHT), "roll_back")


def unschedule(table_id: int, instants: list[str]) -> None:
    """Somebody took these plans off the timeline."""
    said = "taken off the timeline"
    advance_all(_plans(table_id, instants, SCHEDULED), "cancel", reason=said)
    for state in (INFLIGHT, PLAN_FAILED):
        advance_all(_plans(table_id, instants, state), "supersede", reason=said)


def fail(table_id: int, instants: list[str], error: SluiceError) -> None:
    for plan in _plans(table_id, instants, INFLIGHT):
        wait = timedelta(seconds=wait_after(plan.failures + 4))
        advance(
            plan,
            "fail",
            reason=error.message,
            status_reason=str(error),
            failures=plan.failures + 1,
            due_at=SystemClock().now() + wait,
        )


def _plans(table_id: int, instants: list[str], state: str) -> list[MaintenancePlan]:
    return list(
        MaintenancePlan.objects.filter(
            table_id=table_id, instant__in=instants, state=state
        )
    )


def give_up(table_id: int) -> None:
    """Nobody carries the table any more, so nobody executes what is planned on it."""
    said = "the table is carried no more"
    for state in OPEN:
        plans = MaintenancePlan.objects.filter(table_id=table_id, state=state)
        advance_all(list(plans), "supersede", reason=said)


def compactions_due() -> dict[Table, list[str]]:
    """Open instants of tables that are carried, whose quiet hours have begun, and that
    no unfinished job is about to execute; at most PAGE."""
    again = MaintenancePlan.objects.filter(state=PLAN_FAILED, due_at__lte=Now())
    advance_all(list(again), "reschedule")
    busy = (
        Job.objects.filter(kind__in=[COMPACT, REPAIR])
        .filter(~Q(state__in=sorted(TERMINAL)))
        .values_list("subject_id", flat=True)
    )
    plans = _carried().exclude(table_id__in=[int(pk) for pk in busy])
    due: dict[Table, list[str]] = {}
    for plan in (
        plans.filter(Q(quiet=None) | ~Q(quiet__in=_closed(plans)))
        .select_related("table__database__datasource")
        .order_by("instant")[:PAGE]
    ):
        due.setdefault(plan.table, []).append(plan.instant)
    return due


def _carried() -> QuerySet[Any]:
    """What is scheduled on tables that somebody carries, with their quiet hours."""
    feeds = (
        TableOnboarding.objects.filter(lake_table=OuterRef("table"))
        .exclude(state__in=[REMOVING, RETIRED])
        .order_by("-id")
    )
    quiet = feeds.values_list(setting_as_text("quiet_hours"))[:1]
    return MaintenancePlan.objects.filter(Exists(feeds), state=SCHEDULED).annotate(
        quiet=Subquery(quiet)
    )


def _closed(plans: QuerySet[Any]) -> list[str]:
    """Those of their quiet hours that have not begun."""
    now = SystemClock().now()
    given = plans.exclude(quiet=None).order_by().values_list("quiet", flat=True)
    hours = {text: quiet_from(json.loads(text)) for text in given.distinct()}
    return [text for text, one in hours.items() if one and opens_at(one, now)]
