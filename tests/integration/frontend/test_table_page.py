"""A table's page in tabs: what each shows, to whom, and without scripts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from catalog.models import Grant
from core.errors import InvalidRequest
from core.models import Job
from frontend.views import table_actions
from ingest.models import Pipeline, TableHealth
from ingest.pipelines.freshness import SLOT_SECONDS, allowed_lag, lags_of
from ingest.pipelines.policies.store import policy_of
from tests.integration.frontend.reading import html_of

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 21, 12, 10, tzinfo=UTC)


def synced(table: Any, *minutes_ago: float) -> None:
    """Syncs of ten seconds that began so long before NOW."""
    for ago in minutes_ago:
        began = NOW - timedelta(minutes=ago)
        job = Job.objects.create(
            kind="sync", subject_id=str(table.pk), state="SUCCEEDED",
            started_at=began, finished_at=began + timedelta(seconds=10),
        )  # fmt: skip
        Job.objects.filter(pk=job.pk).update(created_at=began)


def test_a_table_ages_from_a_sync_to_the_next(world: Any) -> None:
    table = world.lake_tables["orders"]
    synced(table, 100, 95, 35)
    row = Pipeline.objects.get(lake_table=table)
    slots = lags_of(row, NOW)
    assert [slot.at for slot in slots[-2:]] == [
        datetime(2026, 11, 21, 11, 30, tzinfo=UTC),
        datetime(2026, 11, 21, 12, 0, tzinfo=UTC),
    ]
    before, first, until_eleven, then, now = (slot.lag for slot in slots[-5:])
    assert before is None
    # begun at 10:35, and the next one at 11:35
    assert (first, until_eleven) == (25 * 60, 55 * 60)
    assert (then, now) == (60 * 60 + 10, 35 * 60)
    late_after = policy_of(row).late_after
    assert allowed_lag(policy_of(row), row.capture, NOW) == 30 + late_after
    assert allowed_lag(policy_of(row), "snapshot", NOW) is None


def test_a_followed_table_is_as_old_as_each_look_saw_it(world: Any) -> None:
    table = world.lake_tables["orders"]
    Pipeline.objects.filter(lake_table=table).update(capture="log")
    ago = [NOW - timedelta(seconds=SLOT_SECONDS), NOW]
    trend = [
        {"at": at.isoformat(), "lag": lag}
        for at, lag in zip([*ago, NOW], (3.0, 9.0, 4.0), strict=True)
    ]
    TableHealth.objects.update_or_create(table=table, defaults={"trend": trend})
    slots = lags_of(Pipeline.objects.get(lake_table=table), NOW)
    assert [slot.lag for slot in slots[-3:]] == [None, 3.0, 9.0]


def test_rows_are_those_that_were_counted_last(world: Any, browse: Any) -> None:
    table, client = world.lake_tables["orders"], browse("root")
    assert "estimated" in client.get(f"/tables/{table.pk}").content.decode()
    for kind, facts in (
        ("snapshot", {"rows": 7_123}),
        ("verify", {"lake_rows": 7_321}),
    ):
        Job.objects.create(
            kind=kind, subject_id=str(table.pk), state="SUCCEEDED",
            finished_at=NOW, report={"facts": facts},
        )  # fmt: skip
    text = client.get(f"/tables/{table.pk}").content.decode()
    assert "7,321" in text
    assert "counted by a verification" in text


def test_a_source_s_table_leads_to_its_lake_table(world: Any, browse: Any) -> None:
    source, lake = world.source_tables["orders"], world.lake_tables["orders"]
    text = browse("root").get(f"/tables/{source.pk}").content.decode()
    assert f'id="lake-table" href="/tables/{lake.pk}"' in text
    assert "not synced" not in text.partition("<main")[2].partition("</main>")[0]
    free = browse("root").get(f"/tables/{world.source_tables['free'].pk}")
    assert "not synced" in free.content.decode()
    # a lake table that somebody may not see is named, and no link leads there
    hidden = world.source_tables["customers"]
    text = browse("ann").get(f"/tables/{hidden.pk}").content.decode()
    assert 'id="lake-table"' not in text


def test_rows_come_without_scripts_and_to_readers_only(world: Any, browse: Any) -> None:
    table = world.lake_tables["orders"]
    text = browse("root").get(f"/tables/{table.pk}/data").content.decode()
    assert '<noscript><a href="?rows">' in text
    text = browse("root").get(f"/tables/{table.pk}/data?rows").content.decode()
    assert 'id="sample"' in text
    assert 'hx-trigger="load"' not in text
    text = browse("root").get(f"/tables/{table.pk}/commits").content.decode()
    assert '<div id="commits">' in text
    assert "<h1" in text
    Grant.objects.filter(table="orders").update(privilege="discover")
    text = browse("ann").get(f"/tables/{table.pk}/data?rows").content.decode()
    assert "needs the privilege select" in text


def test_access_is_given_and_taken_where_it_is_shown(world: Any, browse: Any) -> None:
    table, client = world.lake_tables["orders"], browse("root")
    here = f"/tables/{table.pk}/access"
    asked = {"principal": "user:eve", "privilege": "select", "on": "lake.shop.orders"}
    reply = client.post("/grants", {**asked, "next": here})
    assert reply.headers["location"] == here
    text = client.get(here).content.decode()
    assert "Revoke select on lake.shop.orders from eve" in text
    grant = Grant.objects.get(principal_name="eve")
    reply = client.post(f"/grants/{grant.pk}/revoke", {"next": here})
    assert reply.headers["location"] == here
    assert not Grant.objects.filter(principal_name="eve").exists()
    seen = browse("ann").get(here).content.decode()
    assert "group:bi" in seen
    assert "Revoke" not in seen


def test_settings_are_offered_to_who_may_change_them(world: Any, browse: Any) -> None:
    place = f"/tables/{world.lake_tables['orders'].pk}"
    for who, is_offered in (("root", True), ("ann", False)):
        text = browse(who).get(place).content.decode()
        assert (f'href="{place}/policy"' in text) is is_offered
        assert f'href="{place}/connect"' in text


def test_what_is_not_possible_now_offers_what_makes_it_so(
    world: Any, browse: Any, monkeypatch: Any
) -> None:
    table = world.lake_tables["events"]

    def refuse(*_: Any) -> None:
        raise InvalidRequest("cannot resync: it is paused", hint="resume it first")

    monkeypatch.setattr(table_actions, "effects_of", refuse)
    reply = browse("root").get(f"/tables/{table.pk}/resync")
    text = reply.content.decode()
    assert reply.status_code == 400
    assert "it is paused" in text
    assert "Something went wrong" not in text
    assert f'id="first" href="/tables/{table.pk}/resume"' in text
    assert 'id="confirm"' not in text


def test_what_takes_rights_away_is_pressed_twice(world: Any, browse: Any) -> None:
    text = html_of(browse("root").get("/grants"))
    assert text.count('<details class="ask">') == Grant.objects.count()
    assert "Revoke now" in text


def test_an_unknown_address_keeps_the_way_on(world: Any, browse: Any) -> None:
    text = browse("root").get("/nope").content.decode()
    assert 'id="nav"' in text
    assert 'id="nav"' not in Client().get("/nope").content.decode()
