"""Muting: for a time nobody is notified of alerts that open on a table, a database, the
lake or a source.

A muted alert is shown like any other. When the time is over and it is still open, it is
announced then. Who was told of an alert is told of its end, muted or not.
"""

from __future__ import annotations

from datetime import timedelta

from django.db import transaction
from django.db.models import Case, OuterRef, Q, QuerySet, Subquery, When
from django.db.models.functions import Now
from django.utils import timezone

from catalog.access import audit
from catalog.access.enforcement import require
from catalog.access.grants import grants_on, parse_securable
from catalog.access.policy import Principal, Privilege, Securable, decide
from catalog.models import Database, Datasource, Table
from catalog.names import LAKE
from core.errors import InvalidRequest, NotFound
from ingest.alerts.rules import ALERTS
from ingest.models.alerts import SOURCE_KINDS, Alert, AlertMute

LONGEST = timedelta(days=31)
MOST_MUTES = 1000


def securable_on(alert: Alert) -> Securable:
    """What an alert is about, as grants name it."""
    if alert.kind in SOURCE_KINDS:
        return Securable(alert.name)
    return Securable(LAKE, alert.database, alert.name)


def mute(
    principal: Principal, on: Securable | str, *, seconds: int, kind: str = ""
) -> AlertMute:
    """Needs `operate` on it. A second one on the same replaces the first. NotFound for
    a name that nothing has: it would keep nobody quiet, and look as if it did."""
    thing = parse_securable(on) if isinstance(on, str) else on
    require(principal, Privilege.OPERATE, thing)
    _check(thing, seconds=seconds, kind=kind)
    if isinstance(on, str) and not _is_there(thing):
        raise NotFound(
            "there is no %(name)s",
            name=thing,
            code="nothing_to_mute",
            hint="write it as the page Tables or Sources does, with lake. before a"
            " database of the lake",
        )
    until = timezone.now() + timedelta(seconds=seconds)
    with transaction.atomic():
        AlertMute.objects.filter(until__lte=Now()).delete()
        if AlertMute.objects.count() >= MOST_MUTES:
            raise InvalidRequest(
                "%(count)s things are muted already",
                count=MOST_MUTES,
                code="too_many_mutes",
                hint="mute a database or the whole lake instead of its tables",
            )
        row, _ = AlertMute.objects.update_or_create(
            datasource=thing.datasource,
            database=thing.database,
            table=thing.table,
            kind=kind,
            defaults={"until": until, "created_by": principal.name},
        )
        audit.record("alert.mute", on=str(thing), kind=kind, seconds=seconds)
    return row


def unmute(principal: Principal, mute_id: int) -> None:
    """End it now; what is still open there is announced."""
    row = AlertMute.objects.filter(pk=mute_id).first()
    if row is None or row not in mutes_for(principal):
        raise NotFound("there is no mute %(id)s", id=mute_id, code="mute_not_found")
    with transaction.atomic():
        row.delete()
        audit.record("alert.unmute", on=row.on, kind=row.kind)


def mutes_for(principal: Principal) -> list[AlertMute]:
    """Those that hold now and that the principal may end, the first to end first."""
    rows = list(AlertMute.objects.filter(until__gt=Now()))
    things = [Securable(row.datasource, row.database, row.table) for row in rows]
    grants = () if principal.is_admin else grants_on(principal, things)
    return [
        row
        for row, thing in zip(rows, things, strict=True)
        if decide(principal, Privilege.OPERATE, thing, grants).allowed
    ]


def with_mutes(alerts: QuerySet[Alert]) -> QuerySet[Alert]:
    """Each with `muted_until`, None = it is not muted."""
    holding = AlertMute.objects.filter(
        until__gt=Now(), kind__in=["", OuterRef("kind")]
    ).order_by("-until")
    on_source = holding.filter(datasource=OuterRef("name"))
    on_lake = holding.filter(
        datasource=LAKE,
        database__in=["", OuterRef("database")],
        table__in=["", OuterRef("name")],
    )
    is_source = Q(kind__in=SOURCE_KINDS)
    found = Case(When(is_source, then=_until(on_source)), default=_until(on_lake))
    return alerts.annotate(muted_until=found)


def _until(rows: QuerySet[AlertMute]) -> Subquery:
    return Subquery(rows.values("until")[:1])


def _check(thing: Securable, *, seconds: int, kind: str) -> None:
    if kind and kind not in ALERTS:
        raise InvalidRequest(
            "'%(kind)s' is no kind of alert: it is one of %(kinds)s, or none for all",
            kind=kind,
            kinds=", ".join(ALERTS),
            pointer="/kind",
        )
    if not 60 <= seconds <= LONGEST.total_seconds():
        raise InvalidRequest(
            "alerts are muted for a minute to 31 days", pointer="/seconds"
        )
    if thing.datasource != LAKE and thing.database:
        raise InvalidRequest(
            "give it as lake, lake.shop, lake.shop.orders or the name of a source",
            pointer="/on",
        )


def _is_there(thing: Securable) -> bool:
    source, database, table = thing.datasource, thing.database, thing.table
    if table:
        named = Table.objects.filter(database__name=database, name=table)
        return named.filter(database__datasource__name=source).exists()
    if database:
        named_so = Database.objects.filter(datasource__name=source, name=database)
        return named_so.exists()
    return source == LAKE or Datasource.objects.filter(name=source).exists()
