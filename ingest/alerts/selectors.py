"""Alerts a principal may see: those on tables he may see, found from each alert."""

from __future__ import annotations

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from catalog.access import audit
from catalog.access.enforcement import require
from catalog.access.policy import Principal, Privilege
from catalog.access.scope import Reach, in_scope, scope_of
from catalog.models import Table
from catalog.selectors.tables import securable_of
from core.errors import NotFound
from ingest.alerts import lag, store
from ingest.alerts.rules import LATE
from ingest.models.alerts import Alert

MOST_COUNTED = 100


def alerts_for(principal: Principal) -> QuerySet[Alert]:
    """Those of tables that are deleted by now are administrators' alone."""
    scope = scope_of(principal)
    if scope.reach is Reach.ALL:
        return Alert.objects.all()
    if scope.reach is Reach.NOTHING:
        return Alert.objects.none()
    seen = Table.objects.filter(in_scope(scope), pk=OuterRef("table_id"))
    return Alert.objects.filter(Exists(seen))


def open_count(principal: Principal) -> int:
    """How many open ones he may see, counted up to MOST_COUNTED."""
    rows = alerts_for(principal).filter(closed_at=None)
    return rows.order_by("-id")[:MOST_COUNTED].count()


def alert_for(principal: Principal, alert_id: int) -> Alert:
    """NotFound when absent or hidden."""
    row = alerts_for(principal).filter(pk=alert_id).first()
    if row is None:
        raise NotFound(f"there is no alert {alert_id}", code="alert_not_found")
    return row


def dismiss(principal: Principal, alert_id: int) -> Alert:
    """End it by hand; rules.AGAIN says when a new one opens. Twice is once."""
    row = alert_for(principal, alert_id)
    if row.table is not None:
        require(principal, Privilege.OPERATE, securable_of(row.table))
    reason = f"closed by {principal.name}"
    with transaction.atomic():
        if store.close(Alert.objects.filter(pk=row.pk), store.DISMISSED, reason):
            if row.kind == LATE and row.table_id is not None:
                lag.ask_again(row.table_id)
            audit.record(
                "alert.dismiss", on=f"lake.{row.database}.{row.name}", kind=row.kind
            )
    row.refresh_from_db()
    return row
