"""Compactions of a lake table: rows that mirror its timeline, and the jobs they need.

Ingest only schedules an instant; it is executed here as a job of its own lane, by
name, so that exactly one committer completes it. The timeline is the truth.
"""

from __future__ import annotations

from datetime import timedelta

from django.db.models import Q
from django.db.models.functions import Now

from catalog.models import Table
from core.advance import advance, advance_all, record_moves
from core.clock import SystemClock
from core.errors import SluiceError
from core.jobs import TERMINAL
from core.models import Job
from ingest.backoff import wait_after
from ingest.kinds import COMPACT, REPAIR
from ingest.maintenance.quiet import opens_at
from ingest.models import MaintenancePlan, TableOnboarding
from ingest.policyrows import Policies
from ingest.states import (
    INFLIGHT,
    PLAN_FAILED,
    PROPOSED_PLAN,
    RETIRED,
    SCHEDULED,
)

OPEN = (SCHEDULED, INFLIGHT, PLAN_FAILED)


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


def compactions_due() -> dict[Table, list[str]]:
    """Tables with open instants that no unfinished job is about to execute."""
    again = MaintenancePlan.objects.filter(state=PLAN_FAILED, due_at__lte=Now())
    advance_all(list(again), "reschedule")
    busy = (
        Job.objects.filter(kind__in=[COMPACT, REPAIR])
        .filter(~Q(state__in=sorted(TERMINAL)))
        .values_list("subject_id", flat=True)
    )
    due: dict[Table, list[str]] = {}
    plans = (
        MaintenancePlan.objects.filter(state=SCHEDULED)
        .exclude(table_id__in=[int(pk) for pk in busy])
        .select_related("table__database__datasource")
        .order_by("instant")[:500]
    )
    for plan in plans:
        due.setdefault(plan.table, []).append(plan.instant)
    return _in_their_hours(due)


def _in_their_hours(due: dict[Table, list[str]]) -> dict[Table, list[str]]:
    """Without the tables whose quiet hours have not begun."""
    feeds = {
        feed.lake_table_id: feed
        for feed in TableOnboarding.objects.filter(lake_table__in=list(due))
        .exclude(state=RETIRED)
        .select_related("source_table__database__datasource")
    }
    sources = {f.source_table.database.datasource_id for f in feeds.values()}
    policies = Policies(sources) if sources else None
    now = SystemClock().now()
    open_now = {}
    for table, instants in due.items():
        feed = feeds.get(table.pk)
        quiet = policies.of_feed(feed).quiet if policies and feed else None
        if quiet is None or opens_at(quiet, now) is None:
            open_now[table] = instants
    return open_now
