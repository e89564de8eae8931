"""Alerts of every kind, and a target with a delivery that failed."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from catalog.models import Table
from catalog.secrets import encrypt
from core.sentences import Sentence
from ingest.alerts import fan_out, store
from ingest.alerts.rules import Finding, failure_of
from ingest.models.alerts import AlertDelivery, AlertTarget

SHOWN = {
    "orders": ("stuck", "compaction 20260101010000000 is inflight", "rollback"),
    "legacy": ("failed", failure_of("sync", "the cursor is gone"), ""),
    "events": (
        "late",
        Sentence("it shows the source as it was %(ago)s ago", ago="2 h"),
        "sync",
    ),
    "customers": ("schema_change", "the columns of public.customers changed", ""),
}


def show_alerts(tables: dict[str, Table]) -> None:
    AlertTarget.objects.create(
        name="pager",
        kind="webhook",
        address="https://hooks.example/sluice",
        secret=encrypt("SECRET-CANARY-of-a-webhook"),
        kinds=["failed", "stuck", "recovered"],
        database="shop",
        created_by="root",
        failures=3,
        failing_since=timezone.now() - timedelta(minutes=5),
        retry_at=timezone.now() + timedelta(minutes=1),
    )
    for name, (kind, message, repair) in SHOWN.items():
        instant = "20260101010000000" if kind == "stuck" else ""
        trouble = Finding(
            kind, cause="x", message=message, repair=repair, instant=instant
        )
        store.open_alert(tables[name].pk, trouble)
    differs = Finding("verification_mismatch", cause="x", message="rows differ")
    store.open_alert(tables["orders"].pk, differs)
    rows = store.open_on(tables["orders"].pk, {"verification_mismatch"})
    store.close(rows, reason="its verify went well")
    fan_out.announce()
    AlertDelivery.objects.update(
        attempts=3,
        last_code=500,
        last_error=Sentence("it answered %(status)s", status=500),
        last_at=timezone.now(),
    )
