"""Home tells every table that needs somebody, once, and says when it shows not all."""

from __future__ import annotations

import html
import re
from datetime import timedelta

import pytest
from django.utils import timezone

from catalog.api.gauges import CatalogGauges
from catalog.models import Table
from frontend.reading import overview
from ingest.models import Pipeline, TableHealth
from ingest.models.alerts import Alert
from ingest.pipelines.policies.store import change_policy
from tests.integration.frontend.reading import html_of
from tests.integration.frontend.test_alerts import cost
from tests.integration.frontend.world import CHINESE

pytestmark = pytest.mark.django_db

ROW = re.compile(
    r'name-cell"><a href="([^"]+)">shop\.([^<]+)</a></th> <td>.*?data-state="(\w+)"'
)


def problems(client) -> dict[str, tuple[str, str]]:
    text = html_of(client.get("/"))
    return {
        html.unescape(name): (state, address)
        for address, name, state in ROW.findall(text)
    }


def test_tables_that_stopped_have_an_alert_or_a_low_score(world, browse):
    client = browse("root")
    orders = world.lake_tables["orders"].pk
    found = problems(client)
    assert {name: state for name, (state, _) in found.items()} == {
        "legacy": "FAILED",
        CHINESE: "NEEDS_RESYNC",
        "customers": "schema_change",
        "events": "PAUSED",
        "orders": "stuck",
    }
    assert found["orders"][1] == f"/tables/{orders}/health"
    assert list(problems(browse("ann"))) == ["orders"]
    Alert.objects.update(closed_at=timezone.now())
    state, address = problems(client)["orders"]
    assert (state, address) == ("problem", f"/tables/{orders}/health")
    assert problems(client)["events"][0] == "PAUSED", "whatever its score is"
    Table.objects.update(status="LIVE")
    TableHealth.objects.filter(table=orders).update(score=70, issues=[])
    assert problems(client) == {}
    events = TableHealth.objects.filter(table=world.lake_tables["events"])
    assert events.update(problem="the lake cannot be asked: refused")
    assert list(problems(client)) == ["events"]
    assert "the lake cannot be asked: refused" in client.get("/").content.decode()
    events.update(problem="")
    assert "No problems. Every table" in client.get("/").content.decode()


def test_many_problems_cost_as_little_as_few_and_are_said_to_be_more(
    world, browse, monkeypatch
):
    client = browse("root")
    client.get("/")
    few = cost(client, "/")[0]
    monkeypatch.setattr(overview, "MOST_PROBLEMS", 2)
    text = html_of(client.get("/"))
    assert list(problems(client)) == ["legacy", CHINESE]
    assert "the first 2 are shown" in text
    assert "> 2+ </span>" in text
    assert cost(client, "/")[0] == few


def test_only_what_follows_a_schedule_lags(world, browse):
    Pipeline.objects.update(state="PAUSED")
    Table.objects.filter(kind=Table.LAKE).update(status="PAUSED")
    change_policy(world.source, None, {"schedule": {"every_seconds": 60}})
    for name, hours, capture, own in (
        ("customers", 900, "snapshot", {}),
        ("events", 800, "timestamp", {"schedule": "manual"}),
        ("orders", 2, "timestamp", {}),
    ):
        table = world.lake_tables[name]
        at = timezone.now() - timedelta(hours=hours)
        Table.objects.filter(pk=table.pk).update(status="LIVE", caught_up_at=at)
        rows = Pipeline.objects.filter(lake_table=table)
        rows.update(state="LIVE", capture=capture, policy=own)
    client = browse("root")
    text = client.get("/").content.decode()
    assert "shop.orders" in text.partition("Longest lag")[2].partition("</a>")[0]
    found = [m for m in CatalogGauges().collect() if "lag_seconds" in m.name]
    told = {sample.name: sample.value for m in found for sample in m.samples}
    for gauge in ("sluice_table_lag_seconds_max", "sluice_followed_lag_seconds_max"):
        assert 7_000 < told[gauge] < 800 * 3_600, gauge
    assert told["sluice_table_lag_seconds_bucket"] == 1, "the last one is of all"
    chart = client.get(f"/sources/{world.source.name}/pipeline").content.decode()
    assert "at most 1 table<" in chart.partition("Live tables by lag")[2]
    for page in ("/tables", "/health"):
        text = client.get(page).content.decode()
        assert words_of(text, "events") == ["On request"], page
        assert words_of(text, "orders") == [], page
    assert words_of(client.get("/tables").content.decode(), "customers") == [
        "Loaded once"
    ]
    health = client.get(f"/tables/{world.lake_tables['events'].pk}/health")
    assert "on request" in health.content.decode()


def words_of(text: str, name: str) -> list[str]:
    """What a list says beneath the lag of this table."""
    row = text.partition(f">{name}</a>")[2].partition("</tr>")[0]
    return re.findall(r'"reason">(On request|Loaded once)<', row)
