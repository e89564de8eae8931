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
from ingest.alerts.models import Alert
from ingest.models import TableHealth
from tests.integration.frontend.test_alerts import cost
from tests.integration.frontend.world import CHINESE

pytestmark = pytest.mark.django_db

ROW = re.compile(
    r'name-cell"><a href="([^"]+)">shop\.([^<]+)</a></th><td>.*?data-state="(\w+)"'
)


def problems(client) -> dict[str, tuple[str, str]]:
    text = client.get("/").content.decode()
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
        "events": "late",
        "orders": "stuck",
    }
    assert found["orders"][1] == f"/tables/{orders}/health"
    assert list(problems(browse("ann"))) == ["orders"]
    Alert.objects.update(closed_at=timezone.now())
    state, address = problems(client)["orders"]
    assert (state, address) == ("problem", f"/tables/{orders}/health")
    assert "events" not in problems(client), "its score is good"
    Table.objects.update(status="LIVE")
    TableHealth.objects.filter(table=orders).update(score=70, losses=[])
    assert problems(client) == {}
    events = TableHealth.objects.filter(table=world.lake_tables["events"])
    assert events.update(problem="the lake cannot be asked: refused")
    assert list(problems(client)) == ["events"]
    assert "the lake cannot be asked: refused" in client.get("/").content.decode()
    events.update(problem="")
    assert "None. Every table" in client.get("/").content.decode()


def test_many_problems_cost_as_little_as_few_and_are_said_to_be_more(
    world, browse, monkeypatch
):
    client = browse("root")
    client.get("/")
    few = cost(client, "/")[0]
    monkeypatch.setattr(overview, "MOST_PROBLEMS", 2)
    text = client.get("/").content.decode()
    assert list(problems(client)) == ["legacy", CHINESE]
    assert "the first 2 are here" in text
    assert ">2+</span>" in text
    assert cost(client, "/")[0] == few


def test_a_table_that_was_loaded_once_does_not_lag(world, browse):
    customers, orders = (world.lake_tables[n] for n in ("customers", "orders"))
    Table.objects.filter(kind=Table.LAKE).update(status="PAUSED")
    for table, hours, cursor in ((customers, 900, ""), (orders, 2, "updated_at")):
        at = timezone.now() - timedelta(hours=hours)
        rows = Table.objects.filter(pk=table.pk)
        rows.update(status="LIVE", caught_up_at=at, cursor=cursor)
    text = browse("root").get("/").content.decode()
    shown = text.partition("Longest lag")[2].partition("</a>")[0]
    assert "shop.orders" in shown
    lags = {m.name: m.samples[0].value for m in CatalogGauges().collect() if m.samples}
    assert 7_000 < lags["sluice_table_lag_seconds_max"] < 900 * 3_600
