"""Tables that need a person: those that stopped, that have an open alert, whose check
failed, or whose score is bad. One a table, in a fixed number of statements."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

from django.db.models import QuerySet

from catalog.access.policy import Principal
from catalog.models import Table
from ingest.alerts.rules import ALERTS
from ingest.alerts.selectors import alerts_for
from ingest.maintenance.health_list import FAIR, healths_for
from ingest.models import TableHealth
from ingest.models.alerts import Alert
from ingest.models.states import FAILED, NEEDS_RESYNC, PAUSED

STOPPED = (FAILED, NEEDS_RESYNC, PAUSED)
ILL = "problem"


@dataclass(frozen=True, slots=True)
class Concern:
    """state: of the table, the kind of its alert, or ILL where its health tells.
    alert: None where another thing tells."""

    table_id: int
    name: str
    state: str
    reason: str
    alert: Alert | None = None


def concerns_for(
    principal: Principal, lake: QuerySet[Table], *, most: int
) -> list[Concern]:
    """Up to `most` of the tables `lake`: those that stopped, those with an open alert,
    the newest first, those that no check could read, and those with a bad score."""
    # F, N, P: what failed before what was paused
    stopped = lake.filter(status__in=STOPPED).order_by("status", "name", "id")[:most]
    found: dict[int | None, Concern] = {table.pk: _stopped(table) for table in stopped}
    told = alerts_for(principal).filter(closed_at=None, table__isnull=False)
    others = told.exclude(table__in=list(found)).order_by("-id")
    # a table has at most one of each kind
    for alert in others[: most * len(ALERTS)]:
        found.setdefault(alert.table_id, _alerted(alert))
    rest = healths_for(principal).exclude(table__in=list(found))
    shown = rest.select_related("table__database").only(
        "table__name", "table__database__name", "losses", "problem"
    )
    unchecked = shown.exclude(problem="").order_by("table_id")
    worst = shown.filter(score__lt=FAIR).order_by("score", "table_id")
    for health in chain(unchecked[:most], worst[:most]):
        found.setdefault(health.table_id, _ill(health))
    return list(found.values())[:most]


def _stopped(table: Table) -> Concern:
    name = f"{table.database.name}.{table.name}"
    return Concern(table.pk, name, table.status, table.status_reason)


def _alerted(alert: Alert) -> Concern:
    name = f"{alert.database}.{alert.name}"
    return Concern(alert.table_id or 0, name, alert.kind, alert.message, alert)


def _ill(health: TableHealth) -> Concern:
    name = f"{health.table.database.name}.{health.table.name}"
    first = health.losses[0]["reason"] if health.losses else ""
    return Concern(health.table_id, name, ILL, health.problem or first)
