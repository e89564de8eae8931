"""Alerts by themselves: opened once by whoever sees a finding, and forgotten."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from core.outbox_reader import Event
from ingest.alerts import fan_out, triggers
from ingest.alerts.rules import Finding
from ingest.alerts.store import open_alert
from ingest.models.alerts import Alert, AlertDelivery, AlertTarget
from tests.integration.at_once import at_once
from tests.integration.catalog.conftest import *  # noqa: F403  the same people


@pytest.mark.django_db(transaction=True)
def test_many_who_see_the_same_open_one_alert(lake_orders) -> None:
    AlertTarget.objects.create(name="t", kind="webhook", address="http://x")

    def notice(number: int) -> None:
        for step in range(5):
            cause = Finding("stuck", cause=f"{number}.{step}", message="m", source="x")
            open_alert(lake_orders.pk, cause)
            fan_out.announce()

    at_once(notice, times=6)
    alert = Alert.objects.get()
    assert (alert.count, alert.sources) == (30, ["x"])
    assert AlertDelivery.objects.count() == 1


@pytest.mark.django_db
def test_owners_of_many_alerts_are_read_at_once(lake_orders) -> None:
    for kind in ("stuck", "failed", "late"):
        open_alert(lake_orders.pk, Finding(kind, cause="c", message="m", source="x"))
    with CaptureQueriesContext(connection) as asked:
        assert fan_out.announce() == 3
    assert sum("catalog_table" in (one["sql"] or "") for one in asked) == 1


@pytest.mark.django_db
def test_an_older_event_that_is_read_later_changes_no_newer_words(lake_orders) -> None:
    now = timezone.now()
    for cause, minutes in (("new", 0), ("old", 5)):
        said = Finding("stuck", cause=cause, message=cause, code=cause, source=cause)
        open_alert(lake_orders.pk, said, at=now - timedelta(minutes=minutes))
    alert = Alert.objects.get()
    assert (alert.cause, alert.message, alert.code) == ("new",) * 3
    assert (alert.last_seen_at, alert.count) == (now, 2)
    assert alert.sources == ["new", "old"]


@pytest.mark.django_db
def test_a_look_that_is_read_later_ends_no_alert_that_is_newer(lake_orders) -> None:
    now = timezone.now()
    open_alert(lake_orders.pk, Finding("stuck", cause="x", message="x"), at=now)
    for minutes, is_open in ((-5, True), (5, False)):
        at = now + timedelta(minutes=minutes)
        look = Event(
            1, at, "health.changed", "table", str(lake_orders.pk), {"issues": []}
        )
        triggers.health_changed(look)
        assert Alert.objects.filter(closed_at=None).exists() == is_open


@pytest.mark.django_db
def test_those_that_ended_long_ago_are_forgotten_however_many_stay_open(
    lake_orders, monkeypatch
) -> None:
    monkeypatch.setattr(fan_out, "FORGET_PAGE", 1)
    for kind in ("schema_change", "late", "failed"):
        open_alert(lake_orders.pk, Finding(kind, cause="x", message="x"))
    ended = Alert.objects.filter(kind__in=["late", "failed"], is_announced=False)
    long_ago = timezone.now() - 2 * fan_out.ALERTS_KEPT
    ended.update(closed_at=long_ago, is_announced=True, is_end_announced=True)
    for left in (2, 1, 1):
        monkeypatch.setattr(fan_out, "_forget_at", 0.0)
        fan_out.forget_old()
        assert Alert.objects.count() == left
    assert Alert.objects.get().kind == "schema_change"
