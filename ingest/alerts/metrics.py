"""What /metrics says of alerts, their messages and the readers of the outbox."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from django.db.models import Count, Min
from prometheus_client.core import Metric

from core import outbox_reader
from ingest.alerts.rules import ALERTS
from ingest.models.alerts import Alert, AlertDelivery, AlertTarget
from ingest.pipelines.metrics import labelled, single

LATEST_DELIVERIES = 1_000


def gauges() -> Iterator[Metric]:
    yield from _alerts()
    yield from _deliveries()
    yield labelled(
        "sluice_outbox_lag_seconds",
        "Age of the oldest domain event that the reader has not handled",
        "reader",
        {"alerts": outbox_reader.lag()},
    )
    yield labelled(
        "sluice_outbox_given_up",
        "Domain events that the reader could not handle, of the last 7 days",
        "reader",
        {"alerts": outbox_reader.given_up()},
    )


def _alerts() -> Iterator[Metric]:
    found = Alert.objects.filter(closed_at=None).order_by().values_list("kind")
    counts = dict.fromkeys(ALERTS, 0) | dict(found.annotate(Count("pk")))
    yield labelled("sluice_alerts_open", "Open alerts", "kind", counts)


def _deliveries() -> Iterator[Metric]:
    waiting = AlertDelivery.objects.filter(next_try_at__isnull=False).aggregate(
        n=Count("pk"), oldest=Min("created_at")
    )
    oldest = waiting["oldest"]
    age = (datetime.now(UTC) - oldest).total_seconds() if oldest else 0.0
    yield single(
        "sluice_alert_deliveries_waiting", "Messages not delivered yet", waiting["n"]
    )
    yield single(
        "sluice_alert_delivery_oldest_seconds", "Age of the oldest of them", age
    )
    latest = AlertDelivery.objects.order_by("-id")[:LATEST_DELIVERIES]
    fates = latest.values_list("delivered_at", "gave_up_at")
    lost = sum(1 for delivered, gave_up in fates if gave_up and not delivered)
    yield single(
        "sluice_alert_deliveries_given_up",
        f"Messages given up, of the latest {LATEST_DELIVERIES}",
        lost,
    )
    states = {"ok": 0, "failing": 0, "paused": 0}
    for target in AlertTarget.objects.all():
        states[target.state] += 1
    yield labelled("sluice_alert_targets", "Alert targets", "state", states)
