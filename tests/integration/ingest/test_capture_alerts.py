"""What is told of a source whose log is not read as it should be, to whom, and until
when."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from catalog.access import grants
from catalog.models import AuditEntry
from ingest.alerts import fan_out
from ingest.alerts.capture import compare_captures
from ingest.alerts.targets import NewTarget, create_target
from ingest.models import Pipeline, SourceFollower
from ingest.models.alerts import Alert, AlertDelivery, Presence
from ingest.pipelines import removal
from ingest.pipelines.log_tables import name_at_source
from ingest.pipelines.metrics import gauges
from tests.integration.catalog.conftest import *  # noqa: F403  the same people

pytestmark = pytest.mark.django_db
NOW = timezone.now()
TWO_MINUTES = timedelta(minutes=2)


@pytest.fixture
def followed(world: Any) -> Any:
    world.onboard("orders")
    Pipeline.objects.update(capture="log", state="LIVE")
    SourceFollower.objects.create(datasource=world.source)
    change(written_at=NOW, observed="following", observed_at=NOW)
    return world


def change(**facts: Any) -> None:
    SourceFollower.objects.update(**facts)


def told(now: Any = NOW) -> Alert | None:
    compare_captures(now)
    return Alert.objects.filter(kind="capture", closed_at=None).first()


SILENT = {"written_at": NOW - TWO_MINUTES}
FAILED = {
    "observed": "failed", "observed_at": NOW - TWO_MINUTES, "code": "slot_lost",
    "reason": "slot 'sluice_1' is lost", "hint": "resync its tables",
}  # fmt: skip


@pytest.mark.parametrize(
    ("facts", "code", "text", "hint"),
    [
        (SILENT, "no_followers_host", "no host of followers wrote", "manage.py followers"),
        (FAILED, "slot_lost", "slot 'sluice_1' is lost", "resync its tables"),
        (
            {**FAILED, "code": "source_changed", "reason": "another server answers"},
            "source_changed", "another server answers", "resync",
        ),
        (
            {"observed": "waiting", "observed_at": NOW - TWO_MINUTES, "reason": "pid 7"},
            "reader_waiting", "pid 7", "what it waits for",
        ),
        (
            {"log_kept": 900 << 20, "log_safe": 100 << 20},
            "log_running_out", "104.9 MB more may come", "max_slot_wal_keep_size",
        ),
        ({"log_status": "unreserved"}, "log_running_out", "unreserved", "resync"),
        ({"waiting_bytes": 1 << 40}, "too_much_waits", "max_waiting_bytes", "resume"),
    ],
)  # fmt: skip
def test_what_goes_wrong_is_told_within_two_minutes_and_ends_with_it(
    followed: Any, facts: dict[str, Any], code: str, text: str, hint: str
) -> None:
    assert told() is None
    change(**facts)
    alert = told()
    assert alert is not None
    assert (alert.code, alert.datasource_id) == (code, followed.source.pk)
    assert text in alert.message
    assert hint in alert.hint
    assert told() == alert
    assert Alert.objects.get().count == 1, "the same thing again is not counted"
    change(
        written_at=NOW, observed="following", observed_at=NOW, log_status="reserved",
        log_safe=None, waiting_bytes=0,
    )  # fmt: skip
    assert told() is None
    assert Alert.objects.get().closed_because == "recovered"


def test_a_moment_of_trouble_is_told_to_nobody(followed: Any) -> None:
    for facts in (
        {"written_at": NOW - timedelta(seconds=40)},
        {**FAILED, "observed_at": NOW - timedelta(seconds=10)},
        {"observed": "starting", "observed_at": NOW - timedelta(seconds=20)},
        {"log_kept": 1 << 30, "log_safe": None, "log_status": "extended"},
    ):
        change(**facts)
        assert told() is None, facts


def test_what_a_user_stopped_is_no_trouble(followed: Any) -> None:
    change(**SILENT, desired="STOPPED", observed="stopped")
    assert told() is None


def test_a_night_without_sluice_is_no_silence(followed: Any) -> None:
    change(written_at=NOW - timedelta(hours=8))
    Presence.objects.create(
        pk=1, seen_at=NOW, away_since=NOW - timedelta(hours=8), back_at=NOW
    )
    assert told() is None
    assert told(NOW + TWO_MINUTES) is not None


def test_without_any_host_the_sources_are_known_all_the_same(followed: Any) -> None:
    SourceFollower.objects.all().delete()
    assert told() is None
    assert told(timezone.now() + TWO_MINUTES) is not None


def test_a_log_that_is_not_given_back_is_told(followed: Any) -> None:
    """Its last table is removed; the slot is there, and nobody reads it."""
    Pipeline.objects.update(state="RETIRED")
    assert told() is None
    change(**{**FAILED, "code": "unreachable", "reason": "no answer"}, written_at=NOW)
    alert = told()
    assert alert is not None
    assert (alert.code, "no answer" in alert.message) == ("unreachable", True)
    slot = name_at_source(followed.source.pk)
    assert f"pg_drop_replication_slot('{slot}')" in alert.hint
    SourceFollower.objects.all().delete()
    assert told() is None


def test_a_source_is_deleted_when_its_log_is_given_back(
    followed: Any, admin: Any
) -> None:
    Pipeline.objects.update(state="RETIRED")
    change(written_at=timezone.now(), observed="starting")
    path = f"datasources/{followed.source.name}"
    refused = admin("DELETE", path)
    assert refused.json()["code"] == "log_not_released"
    # its beginning is a password of the tests, and hidden
    slot = name_at_source(followed.source.pk).removeprefix("sluice")
    assert slot in refused.json()["hint"]
    # one that is gone for ever can be deleted, too
    change(**FAILED)
    assert admin("DELETE", path).status_code == 204
    assert AuditEntry.objects.filter(
        action="capture.left", facts__statement__icontains=slot
    ).exists()


def test_one_that_was_closed_by_hand_opens_with_another_cause(
    followed: Any, admin: Any
) -> None:
    change(**FAILED)
    alert = told()
    assert alert is not None
    assert admin("POST", f"alerts/{alert.pk}:dismiss").status_code == 200
    assert told() is None
    change(observed_at=NOW - timedelta(minutes=1))
    assert told() is not None


def test_who_sees_and_closes_it(followed: Any, admin: Any, ann: Any) -> None:
    change(**FAILED)
    alert = told()
    assert alert is not None
    grants.grant(
        principal="user:ann", privilege="discover", on="shop.public.orders", by="t"
    )
    assert ann("GET", "alerts").json()["items"] == [], "it may name other tables"
    grants.grant(principal="user:ann", privilege="discover", on="shop", by="t")
    (shown,) = ann("GET", "alerts").json()["items"]
    assert (shown["name"], shown["datasource"], shown["table"]) == (
        "shop",
        "shop",
        None,
    )
    assert shown["url"].endswith("/sources/shop/pipeline")
    assert ann("POST", f"alerts/{alert.pk}:dismiss").status_code == 403
    grants.grant(principal="user:ann", privilege="operate", on="shop", by="t")
    assert ann("POST", f"alerts/{alert.pk}:dismiss").status_code == 200


def test_it_is_sent_to_who_asked_for_it(followed: Any) -> None:
    add = {
        "kind": "webhook",
        "url": "https://example.com",
        "secret": "0123456789abcdef",
    }
    for name, more in (("all", {}), ("shop", {"on": "lake.shop"})):
        create_target(NewTarget(name=name, **add, **more), by="t")
    change(**FAILED)
    told(timezone.now() + timedelta(seconds=1))
    fan_out.announce()
    (sent,) = AlertDelivery.objects.all()
    assert (sent.target.name, sent.body["alert"]["name"]) == ("all", "shop")


def test_removing_a_table_does_not_end_it(followed: Any, world: Any) -> None:
    world.onboard("items")
    change(**FAILED)
    Pipeline.objects.filter(pk=world.pipeline("items").pk).update(state="LIVE")
    assert told() is not None
    removal.start_removal(world.lake("items"), drop_data=False, actor="ann")
    world.steps(3)
    assert Alert.objects.filter(kind="capture", closed_at=None).exists()


def test_the_metrics_count_readers_by_state(followed: Any) -> None:
    now = timezone.now()
    change(written_at=now, log_kept=5, waiting_bytes=7, rows_per_second=2.5)
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for metric in gauges()
        for sample in metric.samples
    }
    assert found["sluice_log_followers", "following"] == 1
    assert found["sluice_log_followers", "silent"] == 0
    assert found["sluice_source_log_bytes", "kept"] == 5
    assert found["sluice_log_waiting_bytes",] == 7
    change(written_at=timezone.now() - TWO_MINUTES)
    counts = {
        sample.labels["state"]: sample.value
        for metric in gauges()
        if metric.name == "sluice_log_followers"
        for sample in metric.samples
    }
    assert counts["silent"] == 1
