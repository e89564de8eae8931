"""A source's page shows how its log is read, and starts and stops that."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from ingest.alerts.capture import look_at_captures
from ingest.models import Pipeline, SourceFollower
from tests.integration.frontend.world import HOSTILE

pytestmark = pytest.mark.django_db
AGES = "2026-01-01T00:00Z"
PAGE = reverse("frontend:source-pipeline", args=["shop"])


@pytest.fixture
def follower(world):
    """Of a source with a table that is read from its log."""
    lake = world.lake_tables["orders"]
    Pipeline.objects.filter(lake_table=lake).update(
        capture="log",
        waiting=4,
        waiting_since=timezone.now() - timedelta(minutes=3),
        changes_per_second=61.2,
    )
    return SourceFollower.objects.create(
        datasource=world.source,
        observed="following",
        heartbeat_at=timezone.now(),
        rows_per_second=612.5,
        log_kept=3 << 20,
        log_safe=1 << 30,
        waiting_bytes=18 << 20,
    )


def change(follower, **facts) -> None:
    SourceFollower.objects.filter(pk=follower.pk).update(**facts)


def shown(client) -> str:
    text = client.get(PAGE).content.decode()
    return " ".join(text.split())


def test_source_reader_waiting_and_applied_are_on_the_page(world, browse, follower):
    text = shown(browse("root"))
    for part in ("Log capture", "following", "3.1 MB", "612 rows a second", ">61<"):
        assert part in text, part
    assert ">shop.orders</a>" in text
    assert "3 min ago</time>" in text
    assert "&lt;time" not in text
    assert "Stop reading" in text
    assert "Stop reading" not in shown(browse("ann")), "she may not operate it"


def test_a_source_without_log_tables_shows_nothing_of_it(world, browse):
    assert "Log capture" not in shown(browse("root"))


def test_a_failure_is_told_with_what_to_do(world, browse, follower):
    change(follower, observed="failed", reason=f"slot {HOSTILE}", hint="resync them")
    text = shown(browse("root"))
    assert "resync them" in text
    assert HOSTILE not in text
    assert "Try again now" in text
    change(follower, written_at=timezone.now() - timedelta(minutes=5))
    assert "No host of followers wrote of it" in shown(browse("root"))


def test_reading_is_stopped_and_started_from_there(world, browse, follower):
    client = browse("root")
    done = client.post(reverse("frontend:source-stop-capture", args=["shop"]))
    assert done["Location"] == PAGE
    follower.refresh_from_db()
    assert follower.desired == "STOPPED"
    text = shown(client)
    assert "Reading is stopped" in text
    assert "Start reading" in text
    client.post(reverse("frontend:source-start-capture", args=["shop"]))
    follower.refresh_from_db()
    assert follower.desired == "RUNNING"
    refused = browse("ann").post(reverse("frontend:source-stop-capture", args=["shop"]))
    assert refused.status_code == 403


def test_what_is_lost_is_begun_anew_by_a_button_of_its_own(world, browse, follower):
    change(follower, observed="failed", code="log_silent", reason="it is silent")
    client = browse("root")
    assert "Start over" not in shown(client)
    begin = reverse("frontend:source-begin-anew", args=["shop"])
    client.post(begin)
    follower.refresh_from_db()
    assert not follower.begin_anew
    change(follower, code="log_lost", reason="the slot is gone")
    assert "Start over" in shown(client)
    assert browse("ann").post(begin).status_code == 403
    client.post(begin)
    follower.refresh_from_db()
    assert follower.begin_anew


def test_a_table_tells_that_its_source_is_not_read(world, browse, follower):
    """Its lag grew beside the state "live", and nothing on its page told why."""
    orders, events = (world.lake_tables[name].pk for name in ("orders", "events"))
    change(follower, observed="failed", reason="it is away", observed_at=AGES)
    look_at_captures()
    told = "its log is not read since"
    client = browse("root")
    assert told in client.get(f"/tables/{orders}").content.decode().lower()
    assert told in client.get(f"/tables/{orders}/health").content.decode().lower()
    assert told not in client.get(f"/tables/{events}").content.decode().lower()


def test_lags_of_one_page_are_read_anew_together(world, browse, follower):
    """Of one table it showed 1 min 47 s above and 4.5 s below."""
    text = shown(browse("root"))
    at = text.index('id="table-list"')
    assert 'hx-trigger="every' in text[at : at + 200]
