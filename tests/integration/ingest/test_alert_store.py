"""Alerts by themselves: opened once by whoever sees a finding, and forgotten."""

from __future__ import annotations

import threading

import pytest
from django.db import connection
from django.utils import timezone

from ingest.alerts import fan_out
from ingest.alerts.rules import Finding
from ingest.alerts.store import open_alert
from ingest.models.alerts import Alert, AlertDelivery, AlertTarget
from tests.integration.catalog.conftest import *  # noqa: F403  the same people
from tests.waiting import LIMIT_SECONDS


@pytest.mark.django_db(transaction=True)
def test_many_who_see_the_same_open_one_alert(lake_orders) -> None:
    AlertTarget.objects.create(name="t", kind="webhook", address="http://x")
    together = threading.Barrier(6)
    failures: list[BaseException] = []

    def notice(number: int) -> None:
        try:
            together.wait(LIMIT_SECONDS)
            for step in range(5):
                cause = Finding(
                    "stuck", cause=f"{number}.{step}", message="m", source="x"
                )
                open_alert(lake_orders.pk, cause)
                fan_out.announce()
        except BaseException as error:  # noqa: BLE001 - told to the test's own thread
            failures.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=notice, args=[n]) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_SECONDS)
    assert failures == []
    alert = Alert.objects.get()
    assert (alert.count, alert.sources) == (30, ["x"])
    assert AlertDelivery.objects.count() == 1


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
