"""Alerts as the page shows them: each with its way to the repair, if there is one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from django.db.models import Q, QuerySet
from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from catalog.access.grants import grants_on
from catalog.access.policy import HeldGrant, Principal, Privilege, Securable, decide
from catalog.access.rules import limits_for
from catalog.access.table_rights import Limits
from core.models import Job
from frontend.reading.jobs import DIFFERENCES
from ingest.actions.registry import ACTIONS
from ingest.alerts.mutes import securable_on, with_mutes
from ingest.alerts.rules import ALERTS, MISMATCH, SEVERITIES, SEVERITY, STUCK, kinds_of
from ingest.alerts.selectors import alerts_for
from ingest.models.alerts import Alert

OPEN, NEW, CLOSED, ALL = "open", "new", "closed", "all"
STATES = (OPEN, NEW, CLOSED, ALL)
# For how long alerts can be muted, in seconds.
SPANS = (
    (3600, _("1 hour")),
    (8 * 3600, _("8 hours")),
    (24 * 3600, _("1 day")),
    (7 * 24 * 3600, _("7 days")),
)
KEYS_SHOWN = 5
TITLES = {
    "failed": _("failed"),
    "late": _("late"),
    "stuck": _("stuck or broken"),
    "stalled": _("has a stalled job"),
    "schema_change": _("changed at its source"),
    "verification_mismatch": _("differs from its source"),
    "capture": _("trouble with log capture"),
    "recovered": _("the end of any of these"),
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the page's filter says."""

    state: str = OPEN
    kind: str = ""
    severity: str = ""
    q: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """page  of the table, "" when it is deleted. repair  that the reader may ask for,
    "" = none. may_close  the alert is open, and they may close it. keys  of rows that a
    verification found, for who may read rows"""

    alert: Alert
    page: str = ""
    repair: str = ""
    repair_word: str = ""
    may_close: bool = False
    keys: Sequence[tuple[str, Sequence[str]]] = ()
    severity: str = ""


def wanted_from(state: str, kind: str, severity: str, q: str) -> Wanted:
    """What is no choice counts as none."""
    return Wanted(
        state if state in STATES else OPEN,
        kind if kind in ALERTS else "",
        severity if severity in SEVERITIES else "",
        q.strip()[:300],
    )


def alerts_shown(principal: Principal, wanted: Wanted) -> QuerySet[Alert]:
    """Each with `muted_until`."""
    rows = with_mutes(alerts_for(principal).order_by("-id"))
    if wanted.state != ALL:
        rows = rows.filter(closed_at__isnull=wanted.state != CLOSED)
    if wanted.state == NEW:
        rows = rows.filter(Q(muted_until=None), acknowledged_at=None)
    if wanted.severity:
        rows = rows.filter(kind__in=kinds_of(wanted.severity))
    if wanted.kind:
        rows = rows.filter(kind=wanted.kind)
    return rows.filter(name__icontains=wanted.q) if wanted.q else rows


def rows_of(principal: Principal, alerts: Sequence[Alert]) -> list[Row]:
    """With what the user may do about each; one statement for all."""
    tables = [securable_on(one) for one in alerts]
    grants = [] if principal.is_admin else grants_on(principal, tables)
    held = [privileges_on(principal, table, grants) for table in tables]
    readable = [
        (alert, table)
        for alert, may, table in zip(alerts, held, tables, strict=True)
        if alert.kind == MISMATCH and Privilege.SELECT in may
    ]
    limits = limits_for(principal) if readable else Limits()
    found = _keys_of(
        [
            alert
            for alert, table in readable
            if limits.on(table.database, table.table).is_whole
        ]
    )
    return [
        replace(
            row_of(alert, privileges),
            severity=SEVERITY.get(alert.kind, ""),
            keys=found.get(alert.job, ()),
        )
        for alert, privileges in zip(alerts, held, strict=True)
    ]


def _keys_of(alerts: Sequence[Alert]) -> dict[Any, list[tuple[str, list[str]]]]:
    """By job, the first keys of what its verification found; one statement."""
    jobs = {one.job for one in alerts if one.kind == MISMATCH and one.job}
    rows = Job.objects.filter(pk__in=jobs).values_list("pk", "report__facts__keys")
    return {
        pk: [
            (str(DIFFERENCES[kind]), keys[:KEYS_SHOWN])
            for kind, keys in found.items()
            if keys
        ]
        for pk, found in rows
        if found
    }


def privileges_on(
    principal: Principal, table: Securable, grants: Sequence[HeldGrant]
) -> frozenset[Privilege]:
    asked = (Privilege.SELECT, Privilege.OPERATE, Privilege.MANAGE)
    return frozenset(p for p in asked if decide(principal, p, table, grants).allowed)


def row_of(alert: Alert, held: frozenset[Privilege] = frozenset()) -> Row:
    may_close = alert.closed_at is None and Privilege.OPERATE in held
    if alert.datasource_id is not None:
        page = reverse("frontend:source-pipeline", args=[alert.name])
        return Row(alert, page, may_close=may_close)
    if alert.table_id is None:
        return Row(alert, may_close=may_close)
    place = "table-health" if alert.kind == STUCK else "table"
    page = reverse(f"frontend:{place}", args=[alert.table_id])
    action = ACTIONS.get(alert.repair)
    if action is None or action.privilege not in held or alert.closed_at is not None:
        return Row(alert, page, may_close=may_close)
    url = reverse("frontend:table-action", args=[alert.table_id, action.name])
    asked = f"?{urlencode({'instant': alert.instant})}" if alert.instant else ""
    word = gettext("Decide") if action.is_decision else action.title
    return Row(alert, page, f"{url}{asked}", word, may_close)
