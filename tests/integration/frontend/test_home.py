"""Home tells every table that needs somebody, once, and says when it shows not all."""

from __future__ import annotations

import html
import re
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.utils import timezone

from catalog.access.grants import grant
from catalog.api.gauges import CatalogGauges
from catalog.datasources import lake_database
from catalog.models import Database, Table
from core.models import Job
from frontend.reading import overview
from frontend.reading.overview import grouped
from ingest.alerts.selectors import Concern
from ingest.models import Pipeline, Rollup, TableHealth
from ingest.models.alerts import Alert
from ingest.pipelines.policies.store import change_policy
from ingest.scheduler import rollups
from tests.integration.frontend.page_cost import cost_of
from tests.integration.frontend.reading import html_of
from tests.integration.frontend.world import CHINESE

pytestmark = pytest.mark.django_db

ROW = re.compile(
    r'name-cell"> <a href="([^"]+)">shop\.([^<]+)</a> .*?</th> <td>.*?data-state="(\w+)"'
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
    Alert.objects.filter(kind="schema_change").update(hint="approve or refuse it")
    assert "Approve or refuse it" in html_of(client.get("/"))
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
    few = cost_of(client, "/").statements
    monkeypatch.setattr(overview, "MOST_PROBLEMS", 2)
    text = html_of(client.get("/"))
    assert list(problems(client)) == ["legacy", CHINESE]
    assert "the first 2 are shown" in text
    assert "> 2+ </span>" in text
    assert cost_of(client, "/").statements == few


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
    assert "max 1 table<" in chart.partition("Live tables by lag")[2]
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


def test_a_minute_is_written_once_and_summed_by_the_hour(world, monkeypatch):
    now = timezone.now().replace(minute=30, second=5, microsecond=0)
    now -= timedelta(hours=1)  # jobs of the world that ended just now are in no minute
    monkeypatch.setattr(rollups, "timezone", SimpleNamespace(now=lambda: now))
    orders = world.lake_tables["orders"].pk
    Job.objects.create(
        kind="sync",
        subject_id=str(orders),
        state="SUCCEEDED",
        unit="rows",
        done=70,
        finished_at=now - timedelta(seconds=10),
    )
    failed = Job.objects.filter(pk=world.jobs["failed"].pk)
    failed.update(finished_at=now - timedelta(seconds=20))
    Table.objects.filter(pk=orders).update(caught_up_at=now - timedelta(seconds=40))
    assert [rollups.write_minute(), rollups.write_minute()] == [1, 0]
    minute, hour = Rollup.objects.order_by("seconds")
    assert minute.at == now.replace(minute=29, second=0)
    assert (minute.rows, minute.succeeded, minute.failed) == (70, 1, 1)
    assert (minute.tables, minute.late, minute.lag_max, minute.lag_p95) == (
        6,
        1,
        40,
        40,
    )
    assert (hour.at, hour.seconds, hour.rows) == (
        now.replace(minute=0, second=0),
        3600,
        70,
    )
    # log capture counts its own, whenever it is looked at
    Pipeline.objects.filter(lake_table=orders).update(rows_applied=500)
    now += timedelta(minutes=2)
    assert rollups.write_minute() == 1
    minutes = Rollup.objects.filter(seconds=60).order_by("at")
    assert list(minutes.values_list("rows", "failed")) == [(70, 1), (500, 0)]
    assert Rollup.objects.get(seconds=3600).rows == 570
    now += timedelta(days=9)
    assert rollups.write_minute() == 1
    assert Rollup.objects.count() == 2, "older ones are forgotten"


def test_home_shows_pipelines_of_what_one_may_see(world, browse):
    rollups.write_minute()
    text = html_of(browse("root").get("/?range=24h"))
    assert text.count('class="spark"') == 1
    for said in (
        "Jobs per hour",
        "Size of the lake",
        "lake.shop",
        "is gone from public",
    ):
        assert said in text, said
    Rollup.objects.update(lag_max=7_200.0, lag_p95=60.0, late=2)
    text = html_of(browse("root").get("/"))
    assert "at most 2 h, 95 % of tables 1 min, 2 tables late" in text
    # one table of the database: its state, and nothing that tells of the others
    text = html_of(browse("ann").get("/"))
    assert "1 live" in text
    assert "→ shop<" in text
    assert 'class="spark"' not in text
    assert "is gone from public" not in text
    assert "<svg viewBox" not in text.partition('class="charts"')[2]
    assert "→ shop<" not in html_of(browse("eve").get("/"))


def test_many_pipelines_cost_as_little_as_one(world, browse, monkeypatch):
    client = browse("root")
    now = timezone.now()
    monkeypatch.setattr(rollups, "timezone", SimpleNamespace(now=lambda: now))
    rollups.write_minute()
    few = cost_of(client, "/").statements
    more = Database.objects.bulk_create(
        Database(datasource=lake_database("shop").datasource, name=f"shop{n}")
        for n in range(60)
    )
    for database in more:
        table = Table.objects.create(
            database=database, name="t", source_name="t", kind=Table.LAKE, status="LIVE"
        )
        source = Table.objects.create(
            database=world.source_tables["free"].database, name=database.name
        )
        Pipeline.objects.create(
            onboarding=world.onboarding,
            source_table=source,
            lake_table=table,
            capture="log",
            state="LIVE",
        )
    assert rollups.write_minute() == 0
    assert cost_of(client, "/").statements == few
    text = html_of(client.get("/"))
    assert "the first 50 of 61 are shown" in text
    assert text.index("→ shop<") < text.index("→ shop0<"), "what failed is first"


def test_equal_problems_are_one_whatever_table_they_name():
    found = grouped(
        [
            Concern(1, "shop.a", "FAILED", "NULL in the key of shop.a"),
            Concern(2, "shop.b", "FAILED", "NULL in the key of shop.b"),
            Concern(3, "shop.c", "PAUSED", "NULL in the key of shop.c"),
        ]
    )
    assert [(one.name, len(one.others)) for one in found] == [
        ("shop.a", 1),
        ("shop.c", 0),
    ]


def test_problems_of_sources_are_there(world, browse):
    Alert.objects.create(
        datasource=world.source,
        name="shop",
        kind="capture",
        message="its log is not read",
        first_seen_at=timezone.now(),
        last_seen_at=timezone.now(),
    )
    text = html_of(browse("root").get("/"))
    assert 'href="/sources/shop/pipeline">shop</a>' in text.partition("Problems<")[2]
    assert "its log is not read" in text
    assert "its log is not read" not in html_of(browse("eve").get("/"))


def test_why_a_lag_grows_is_said_in_the_readers_language(world, browse):
    Pipeline.objects.update(policy={"schedule": "manual"}, capture="timestamp")
    client = browse("root")
    client.cookies["django_language"] = "zh-hans"
    assert "On request" not in client.get("/tables").content.decode()
    assert "On request" in browse("ann").get("/tables").content.decode()


def test_tables_are_added_by_who_manages_a_source(world, browse):
    assert "Add tables" in browse("root").get("/tables").content.decode()
    assert "Add tables" not in browse("ann").get("/tables").content.decode()


def test_a_source_that_one_may_not_see_is_no_link(world, browse):
    """It led to "Page not found"."""
    grant(principal="user:eve", privilege="select", on="lake.shop", by="root")
    path = "/sources/shop/pipeline"
    text = html_of(browse("eve").get("/"))
    assert "→ shop" in text
    assert path not in text
    assert path in html_of(browse("root").get("/"))


def test_settings_are_a_link_for_who_may_change_them(world, browse):
    grant(principal="user:eve", privilege="select", on="lake.shop", by="root")
    table = world.lake_tables["orders"].pk
    path, settings = f"/tables/{table}/health", f"/tables/{table}/policy"
    assert settings not in html_of(browse("eve").get(path))
    assert settings in html_of(browse("root").get(path))
