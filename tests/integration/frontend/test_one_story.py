"""Table page, Home and health say the same of a table; nothing stopped is "all well"."""

from __future__ import annotations

import pytest

from catalog.models import Datasource, Grant, Table
from core.jobs.moves import Cancelled, Succeeded, conclude
from core.models import Job
from ingest.maintenance.facts import LakeFacts
from ingest.maintenance.score import STOPPED, score
from ingest.models import Pipeline, SourceFollower
from ingest.models.alerts import Alert
from ingest.pipelines.policies.maintenance import MaintenancePolicy
from ingest.pipelines.table_status import why_lost
from tests.integration.frontend.reading import html_of


@pytest.mark.parametrize("state", [*STOPPED])
def test_what_stands_still_is_not_well(state):
    facts = LakeFacts(at="2026-03-02T12:00:00Z")
    well = score(facts, MaintenancePolicy(), standing=("LIVE", ""))
    ill = score(facts, MaintenancePolicy(), standing=(state, "the disk is full"))
    assert well.score == 100
    assert ill.score <= 75
    assert "the disk is full" in ill.issues[0].reason


def test_home_lists_what_is_paused(world, browse):
    Pipeline.objects.exclude(state__in=["PAUSED", "PROPOSED"]).delete()
    Table.objects.filter(kind="lake").exclude(status="PAUSED").delete()
    page = browse("root").get("/").content.decode()
    assert "paused by root" in page
    assert "Every table is where it should be" not in page


def test_a_table_whose_source_is_away_is_failing_on_every_page(world, browse):
    """It goes on by itself once the source is back, so its state is no failure."""
    orders, client = world.lake_tables["orders"], browse("root")
    Datasource.objects.update(test_result={"ok": True, "steps": []})
    away = {"state": "CATCHING_UP", "status_reason": "the source does not answer"}
    Pipeline.objects.filter(lake_table=orders).update(**away, failures=1)
    Table.objects.filter(pk=orders.pk).update(status="CATCHING_UP")
    Alert.objects.filter(table=orders).update(kind="failed")
    addresses = ("/tables", f"/tables/{orders.pk}", "/sources", "/health")
    for address in addresses:
        page = client.get(address).content.decode()
        assert 'data-state="FAILING"' not in page, address
    Pipeline.objects.filter(lake_table=orders).update(failures=2)
    for address in ("/", *addresses, "/sources/shop/pipeline"):
        page = client.get(address).content.decode()
        assert page.count('data-state="FAILING"') == 1, address
    assert "1 table cannot be synced" in html_of(client.get("/sources"))


def test_a_table_whose_log_is_lost_is_failing_on_every_page(world, browse):
    """Else it looks live until somebody looks at its source."""
    orders, client = world.lake_tables["orders"], browse("root")
    Pipeline.objects.filter(lake_table=orders).update(state="LIVE", capture="log")
    Table.objects.filter(pk=orders.pk).update(status="LIVE")
    follower = SourceFollower(datasource=world.source, observed="failed", reason="why")
    follower.save()
    addresses = ("/tables", f"/tables/{orders.pk}", "/health", "/sources/shop/pipeline")
    for code, count in (("unreachable", 0), ("log_lost", 1)):
        SourceFollower.objects.update(code=code)
        for address in addresses:
            page = client.get(address).content.decode()
            # the log's panel has it, too
            most = count * (1 + address.endswith("/pipeline"))
            assert page.count('data-state="FAILING"') == most, (address, code)
        pipeline = Pipeline.objects.get(lake_table=orders)
        assert why_lost(pipeline) == ("why" if count else None)
    assert "1 table cannot be synced" in html_of(client.get("/sources"))


def test_the_table_page_shows_its_open_alerts(world, browse):
    alert = Alert.objects.filter(closed_at=None, table__isnull=False)[0]
    page = browse("root").get(f"/tables/{alert.table_id}").content.decode()
    assert "Open alerts" in page


@pytest.mark.parametrize(
    ("kind", "said"),
    [("resync", "readers keep the rows"), ("snapshot", "no rows can be read yet")],
)
def test_a_cancelled_load_says_what_the_table_is_now(world, browse, kind, said):
    table = world.lake_tables["customers"]
    state = "RESYNCING" if kind == "resync" else "SNAPSHOTTING"
    Pipeline.objects.filter(lake_table=table).update(state=state)
    job = world.jobs["running"]
    Job.objects.filter(pk=job.pk).update(kind=kind, payload={"table": table.pk})
    job.refresh_from_db()
    conclude(job, Cancelled(actor="root"))
    page = browse("root").get(f"/tables/{table.pk}").content.decode()
    assert "so it is paused" in page
    assert said in page
    assert "so it is paused" in browse("root").get("/").content.decode()


def test_a_finished_load_keeps_what_it_carried(world, browse):
    job = world.jobs["running"]
    job.payload = {"table": world.lake_tables["customers"].pk}
    job.save()
    facts = {"rows": 120_000, "bytes": 7_000_000, "chunks": 3}
    conclude(job, Succeeded(facts))
    Job.objects.filter(pk=job.pk).update(
        state="SUCCEEDED", phase="loaded", report={"facts": facts}
    )
    page = html_of(browse("root").get(f"/jobs/{job.pk}"))
    assert "120,000 / 120,000 rows" in page
    assert "120,000 rows, " in page
    assert "in 3 chunks" in page


def test_a_table_that_was_never_counted_says_so(world, browse):
    free = world.source_tables["free"]
    free.identity = {"not_analysed": True}
    free.save()
    rows = browse("root").get("/sources/shop/onboard/rows", {"q": "free"}).json()
    assert rows["items"][0]["rows"] == "unknown"


def test_a_grant_on_what_is_not_there_asks_first(world, browse):
    client = browse("root")
    given = {"principal": "user:ann", "privilege": "select", "on": "lake.shop.oders"}
    page = client.post("/grants", given).content.decode()
    assert "lake.shop has no table" in page
    assert not Grant.objects.filter(table="oders").exists()
    assert client.post("/grants", {**given, "is_to_come": "1"}).status_code == 302
    assert Grant.objects.filter(table="oders").exists()
    names = client.get("/grants/names", {"on": "lake.shop.or"}).content.decode()
    assert "lake.shop.orders" in names
    world.source.name = "crm"
    world.source.save()
    meant = client.post("/grants", {**given, "on": "shop.orders"}).content.decode()
    assert "did you mean lake.shop.orders?" in meant
