"""Alerts a principal may see: those on tables they may see, found from each alert."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from catalog.access import audit
from catalog.access.enforcement import require
from catalog.access.grants import rows_for
from catalog.access.policy import Principal, Privilege, Securable, granting
from catalog.access.scope import Reach, in_scope, scope_of
from catalog.models import Table
from catalog.selectors.tables import securable_of
from core.errors import NotFound
from core.sentences import Sentence, with_sentences
from ingest.alerts import lag, store
from ingest.alerts.mutes import with_mutes
from ingest.alerts.rules import ALERTS, LATE
from ingest.maintenance.health_list import FAIR, healths_for
from ingest.models import TableHealth
from ingest.models.alerts import Alert
from ingest.models.states import FAILED, NEEDS_RESYNC, PAUSED
from ingest.pipelines.table_status import FAILING, UNDECIDED, standings

MOST_COUNTED = 100
STOPPED = (FAILED, NEEDS_RESYNC, PAUSED)
ILL = "problem"


def alerts_for(principal: Principal) -> QuerySet[Alert]:
    """Those of tables that are deleted by now are administrators' alone. What is told
    of a source may name its tables, so it is for who may see all of it."""
    scope = scope_of(principal)
    if scope.reach is Reach.ALL:
        return Alert.objects.select_related("table")
    if scope.reach is Reach.NOTHING:
        return Alert.objects.none()
    seen = Table.objects.filter(in_scope(scope), pk=OuterRef("table_id"))
    rows = Alert.objects.select_related("table")
    return rows.filter(Exists(seen) | Q(_is_whole(principal), table=None))


def _is_whole(principal: Principal) -> Exists:
    """Of alerts of sources: the principal may see everything in the source."""
    held = rows_for(principal).filter(privilege__in=granting(Privilege.DISCOVER))
    return Exists(held.filter(datasource=OuterRef("datasource__name"), database=""))


def open_count(principal: Principal) -> int:
    """How many open ones they may see that are neither acknowledged nor muted, counted
    up to MOST_COUNTED."""
    rows = with_mutes(alerts_for(principal).filter(closed_at=None))
    rows = rows.filter(Q(muted_until=None), acknowledged_at=None)
    return rows.order_by("-id")[:MOST_COUNTED].count()


def alert_for(principal: Principal, alert_id: int) -> Alert:
    """NotFound when absent or hidden."""
    row = alerts_for(principal).filter(pk=alert_id).first()
    if row is None:
        raise NotFound("there is no alert %(id)s", id=alert_id, code="alert_not_found")
    return row


def dismiss(principal: Principal, alert_id: int) -> Alert:
    """End it by hand; rules.AGAIN says when a new one opens. Twice is once."""
    row = _operable(principal, alert_id)
    reason = Sentence("closed by %(name)s", name=principal.name)
    with transaction.atomic():
        if store.close(Alert.objects.filter(pk=row.pk), store.DISMISSED, reason):
            if row.kind == LATE and row.table_id is not None:
                lag.ask_again(row.table_id)
            audit.record("alert.dismiss", on=row.on, kind=row.kind)
    row.refresh_from_db()
    return row


def acknowledge(principal: Principal, alert_id: int) -> Alert:
    """Note that somebody has seen it: it stays open until it ends, and is no longer
    counted as new. Twice is once."""
    row = _operable(principal, alert_id)
    fresh = Alert.objects.filter(pk=row.pk, closed_at=None, acknowledged_at=None)
    with transaction.atomic():
        if fresh.update(acknowledged_at=Now(), acknowledged_by=principal.name):
            audit.record("alert.acknowledge", on=row.on, kind=row.kind)
    row.refresh_from_db()
    return row


def _operable(principal: Principal, alert_id: int) -> Alert:
    row = alert_for(principal, alert_id)
    if row.table is not None:
        require(principal, Privilege.OPERATE, securable_of(row.table))
    if row.datasource is not None:
        require(principal, Privilege.OPERATE, Securable(row.datasource.name))
    return row


@dataclass(frozen=True, slots=True)
class Concern:
    """table_id: 0 = of a source. state: how the table stands, the kind of its alert, or
    ILL where its health tells. alert: None where another thing tells."""

    table_id: int
    name: str
    state: str
    reason: str
    alert: Alert | None = None


def concerns_for(
    principal: Principal, lake: QuerySet[Table], *, most: int
) -> list[Concern]:
    """Up to `most`: sources with an open alert, and of the tables `lake` those that
    stopped, those with an open alert, the newest first, those that no check could read,
    and those with a bad score."""
    # F, N, P: what failed before what was paused
    stopped = lake.filter(status__in=STOPPED).order_by("status", "name", "id")[:most]
    found: dict[int | None, Concern] = {table.pk: _stopped(table) for table in stopped}
    about = Q(table__isnull=False) | Q(datasource__isnull=False)
    told = alerts_for(principal).filter(about, closed_at=None)
    others = told.exclude(table__in=list(found)).order_by("-id")
    # a table has at most one of each kind
    sources = []
    for alert in others[: most * len(ALERTS)]:
        if alert.datasource_id is None:
            found.setdefault(alert.table_id, _alerted(alert))
        else:
            sources.append(_alerted(alert))
    for pk, standing in standings(pk for pk in found if pk).states.items():
        if standing in {FAILING, UNDECIDED}:
            found[pk] = replace(found[pk], state=standing)
    rest = healths_for(principal).exclude(table__in=list(found))
    shown = rest.select_related("table__database").only(
        "table__name", "table__database__name", "issues", "problem"
    )
    unchecked = shown.exclude(problem="").order_by("table_id")
    worst = shown.filter(score__lt=FAIR).order_by("score", "table_id")
    for health in chain(unchecked[:most], worst[:most]):
        found.setdefault(health.table_id, _ill(health))
    return [*sources, *found.values()][:most]


def _stopped(table: Table) -> Concern:
    name = f"{table.database.name}.{table.name}"
    return Concern(table.pk, name, table.status, table.status_reason)


def _alerted(alert: Alert) -> Concern:
    is_table = alert.datasource_id is None
    name = f"{alert.database}.{alert.name}" if is_table else alert.name
    return Concern(alert.table_id or 0, name, alert.kind, alert.message, alert)


def _ill(health: TableHealth) -> Concern:
    name = f"{health.table.database.name}.{health.table.name}"
    first = with_sentences(health.issues[0])["reason"] if health.issues else ""
    return Concern(health.table_id, name, ILL, health.problem or first)
