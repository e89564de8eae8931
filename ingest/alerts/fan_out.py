"""From alerts to deliveries: one row for each target that wants to hear of it.

Alerts whose rows are not there yet are found by a flag, so nothing is lost between the
two; rows and flag change in one transaction, so nothing is told twice.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from catalog.compiled import AnyRow
from core.addresses import reached_at
from ingest.alerts.messages import event_body
from ingest.alerts.mutes import with_mutes
from ingest.alerts.rules import CLOSED, OPENED, RECOVERED, Subscription, wants
from ingest.models.alerts import Alert, AlertDelivery, AlertTarget

PAGE = 200
ALERTS_KEPT = timedelta(days=90)
DELIVERIES_KEPT = timedelta(days=30)
FORGET_EVERY = 300.0
FORGET_PAGE = 2000

_forget_at = 0.0


_NEWS = Q(is_announced=False) | Q(closed_at__isnull=False, is_end_announced=False)
_is_any_news = AnyRow(lambda: Alert.objects.filter(_NEWS))


def announce() -> int:
    """Make the deliveries of what opened or ended since; how many alerts."""
    if not _is_any_news():
        return 0
    with transaction.atomic():
        rows = Alert.objects.select_for_update(skip_locked=True, of=("self",))
        rows = with_mutes(rows.select_related("table")).filter(
            Q(is_announced=False, muted_until=None)
            | Q(closed_at__isnull=False, is_end_announced=False)
        )
        alerts = list(rows.order_by("id")[:PAGE])
        if not alerts:
            return 0
        targets = list(AlertTarget.objects.all())
        AlertDelivery.objects.bulk_create(
            _deliveries(alerts, targets), ignore_conflicts=True, batch_size=500
        )
        ended = [a.pk for a in alerts if a.closed_at is not None]
        Alert.objects.filter(pk__in=[a.pk for a in alerts]).update(is_announced=True)
        Alert.objects.filter(pk__in=ended).update(is_end_announced=True)
    return len(alerts)


def _deliveries(
    alerts: Iterable[Alert], targets: Iterable[AlertTarget]
) -> Iterator[AlertDelivery]:
    now = timezone.now()
    url = settings.SLUICE_PUBLIC_URL or (
        f"http://{reached_at(settings.SLUICE_BIND)}:{settings.SLUICE_WEB_PORT}"
    )
    for alert in alerts:
        for event in _events(alert):
            body = event_body(alert, event, base_url=url)
            for target in targets:
                if _is_wanted(target, alert, event):
                    yield AlertDelivery(
                        alert=alert,
                        target=target,
                        event=event,
                        body=body,
                        next_try_at=now,
                    )


def _events(alert: Alert) -> Iterator[str]:
    """None of what began and ended while it was muted."""
    is_muted = getattr(alert, "muted_until", None) is not None
    if is_muted and not alert.is_announced:
        return
    if not alert.is_announced:
        yield OPENED
    if alert.closed_at is not None:
        yield RECOVERED if alert.closed_because == RECOVERED else CLOSED


def _is_wanted(target: AlertTarget, alert: Alert, event: str) -> bool:
    wanted = Subscription(tuple(target.kinds), target.database, target.table)
    is_older = alert.first_seen_at < target.created_at
    return not is_older and wants(
        wanted,
        kind=alert.kind,
        event=event,
        database=alert.database,
        table=alert.name,
    )


def forget_old() -> int:
    """Delete what ended long ago, now and then; how many rows."""
    global _forget_at  # how often is a matter of this process alone
    if time.monotonic() < _forget_at:
        return 0
    _forget_at = time.monotonic() + FORGET_EVERY
    oldest = AlertDelivery.objects.order_by("id").values_list("pk", flat=True)
    deliveries = AlertDelivery.objects.filter(
        pk__in=list(oldest[:FORGET_PAGE]),
        next_try_at=None,
        created_at__lt=Now() - DELIVERIES_KEPT,
    )
    # the oldest may be open for ever: they hide none that ended
    ended = Alert.objects.filter(
        is_end_announced=True, closed_at__lt=Now() - ALERTS_KEPT
    )
    first = ended.order_by("closed_at").values_list("pk", flat=True)
    alerts = Alert.objects.filter(pk__in=list(first[:FORGET_PAGE]))
    return deliveries.delete()[0] + alerts.delete()[0]
