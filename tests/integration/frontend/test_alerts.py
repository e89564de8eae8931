"""Alerts and their targets in pages: found, closed, told of; quick when there are many."""

from __future__ import annotations

import re

from django.db import connection

from catalog.access.grants import grant
from ingest.models.alerts import Alert, AlertDelivery, AlertMute, AlertTarget
from tests.integration.frontend.page_cost import FEW_BLOCKS, cost_of, settle_statistics
from tests.integration.frontend.reading import html_of

SECRET = "a secret of a webhook"


def test_open_ones_first_with_their_repair_and_a_way_to_close_them(world, browse):
    client = browse("root")
    page = client.get("/alerts").content.decode()
    orders = world.lake_tables["orders"].pk
    assert f"/tables/{orders}/rollback?instant=20260101010000000" in page
    assert f"/tables/{world.lake_tables['events'].pk}/sync" in page
    assert "differs from its source" in page, "in the filter alone"
    assert "rows differ" not in page.lower().replace("rows_differ", "")
    closed = client.get("/alerts?state=closed").content.decode()
    assert "Rows differ" in closed
    assert "its verify went well" in closed
    assert "No open alerts" not in client.get("/alerts?q=zzz").content.decode()
    assert "> 4 <span" in html_of(client.get("/alerts/badge"))
    # ann sees what she may see, and cannot close it
    ann = browse("ann")
    seen = ann.get("/alerts").content.decode()
    assert "compaction 20260101010000000" in seen.lower()
    assert "legacy" not in seen
    assert "rollback" not in seen, "she may see it, not mend it"
    assert "Close the alert" not in seen
    one = Alert.objects.get(kind="stuck")
    reply = ann.post(f"/alerts/{one.pk}/dismiss", follow=True).content.decode()
    assert "is missing" in reply
    grant(principal="user:ann", privilege="operate", on="lake.shop", by="root")
    assert "Close the alert on orders" in ann.get("/alerts").content.decode()
    ann.post(f"/alerts/{one.pk}/dismiss", {"next": "/alerts?state=all"})
    one.refresh_from_db()
    assert (one.closed_because, one.closed_reason) == ("dismissed", "closed by ann")
    assert "No open alerts" in browse("eve").get("/alerts").content.decode()


def test_ticked_alerts_are_acknowledged_muted_and_closed(world, browse):
    client = browse("root")
    open_ones = Alert.objects.filter(closed_at=None)
    ids = list(open_ones.order_by("id").values_list("pk", flat=True))
    page = client.get("/alerts?severity=critical").content.decode()
    assert page.count('form="alert-bulk"') == 2, "stuck and failed"

    def change(**given) -> str:
        return html_of(client.post("/alerts/change", given, follow=True))

    assert "Tick at least one alert" in change(do="close")
    assert "2 alerts changed" in change(do="acknowledge", alert=ids[:2])
    assert "acknowledged by root" in html_of(client.get("/alerts"))
    assert "> 2 <span" in html_of(client.get("/alerts/badge"))
    said = change(do="mute", seconds=3600, alert=ids[2:3])
    assert "1 alert changed" in said
    assert "End muting of lake.shop" in said
    assert "> 1 <span" in html_of(client.get("/alerts/badge"))
    shown = client.get("/alerts?state=new").content.decode()
    assert shown.count('form="alert-bulk"') == 1
    given = {"on": "lake.shop", "kind": "", "seconds": 3600}
    said = html_of(client.post("/alerts/mute", given, follow=True))
    assert "Alerts of lake.shop are muted" in said
    for row in AlertMute.objects.all():
        client.post(f"/alerts/mutes/{row.pk}/end")
    assert not AlertMute.objects.exists()
    change(do="close", alert=ids)
    assert not open_ones.exists()
    assert 'id="mute-on"' in html_of(client.get("/alerts")), "before planned work, too"
    ann = browse("ann")
    page = html_of(ann.get("/alerts?state=all"))
    assert "alert-bulk" not in page
    assert 'id="mute-on"' not in page
    reply = ann.post("/alerts/change", {"do": "close", "alert": ids[:1]}, follow=True)
    assert "is missing" in html_of(reply)


def test_the_form_of_a_target_has_the_fields_of_its_kind(world, browse, settings):
    client = browse("root")
    for kind, fields in {
        "email": {"address"},
        "webhook": {"url", "secret"},
        "slack": {"url"},
        "feishu": {"url", "secret"},
    }.items():
        page = client.get(f"/alert-targets?kind={kind}").content.decode()
        shown = {
            name for name in ("address", "url", "secret") if f'name="{name}"' in page
        }
        assert shown == fields, kind
    settings.SLUICE_ALERT_NETWORKS_ALLOWED = ["10.0.0.0/8"]
    given = {"name": "team", "kind": "slack", "url": "https://10.0.0.1/T0/CANARY"}
    assert client.post("/alert-targets", given)["Location"] == "/alert-targets/team"
    page = client.get("/alert-targets/team").content.decode()
    assert "Slack → https://10.0.0.1/…" in page
    assert "CANARY" not in page


def test_what_a_target_is_told_of_is_changed_in_its_page(world, browse):
    client, address = browse("root"), "/alert-targets/pager"
    wish = {"kinds": ["late", "failed"], "on": "lake.shop", "language": "zh-hans"}
    assert client.post(address, wish)["Location"] == address
    row = AlertTarget.objects.get(name="pager")
    assert (row.kinds, row.database, row.language) == (
        ["failed", "late"], "shop", "zh-hans",
    )  # fmt: skip
    page = client.get(address).content.decode()
    ticked = re.findall(r'name="kinds" value="(\w+)"[^>]* checked', page)
    assert ticked == ["failed", "late"]
    assert 'value="lake.shop"' in page
    refused = client.post(address, wish | {"on": "shop.orders"}).content.decode()
    assert "Give it as lake, lake.shop or lake.shop.orders" in refused
    assert 'value="shop.orders"' in refused
    client.post(address, {"language": "", "on": ""})
    row.refresh_from_db()
    assert (row.kinds, row.database, row.language) == ([], "", "")
    assert browse("ann").post(address, wish).status_code == 404


def test_a_target_is_made_tested_woken_up_and_deleted(world, browse, settings):
    client = browse("root")
    given = {
        "name": "hook",
        "kind": "webhook",
        "url": "http://10.0.0.1/",
        "secret": SECRET,
    }
    refused = client.post("/alert-targets", given).content.decode()
    assert "no address of the internet" in refused
    assert "is kept, sealed" in refused
    del given["secret"]
    settings.SLUICE_ALERT_NETWORKS_ALLOWED = ["10.0.0.0/8"]
    made = client.post("/alert-targets", given | {"kinds": ["late"], "on": "lake.shop"})
    assert made["Location"] == "/alert-targets/hook"
    row = AlertTarget.objects.get(name="hook")
    assert (row.kinds, row.database, row.table) == (["late"], "shop", "")
    page = client.get("/alert-targets/hook").content.decode()
    assert "Nothing was sent yet" in page
    assert "every 2s" not in page
    assert SECRET not in page
    client.post("/alert-targets/hook/test")
    assert AlertDelivery.objects.get(target=row).event == "test"
    assert "every 2s" in client.get("/alert-targets/hook").content.decode()
    pager = client.get("/alert-targets/pager").content.decode()
    assert "it answered 500" in pager
    assert "Try again now" in pager
    client.post("/alert-targets/pager/resume")
    assert AlertTarget.objects.get(name="pager").state == "ok"
    asked = client.get("/alert-targets/hook/delete").content.decode()
    assert "never be sent: 1." in asked
    assert "enter it again" in asked
    client.post("/alert-targets/hook/delete")
    assert AlertTarget.objects.filter(name="hook").exists(), "not without its name"
    client.post("/alert-targets/hook/delete", {"confirm": "hook"})
    assert not AlertTarget.objects.filter(name="hook").exists()
    assert browse("ann").post("/alert-targets/pager/delete").status_code == 404


MANY = """
INSERT INTO ingest_alert (table_id, database, name, kind, cause, sources, code, message,
  hint, repair, instant, count, first_seen_at, last_seen_at, closed_because,
  closed_reason, is_announced, is_end_announced)
SELECT table_id, database, name, 'late' || n, cause, sources, code, message, hint, repair,
  instant, count, first_seen_at, last_seen_at, '', '', true, false
FROM ingest_alert, generate_series(1, 10000) n WHERE kind = 'late'
"""


def test_ten_thousand_alerts_cost_a_page_little(world, browse):
    """None of them are ann's to see: hers are behind all of them."""
    with connection.cursor() as cursor:
        cursor.execute(MANY)
    settle_statistics()
    for user, paths in {
        "root": ["/alerts", "/alerts?page=100", "/alerts?state=all&q=x"],
        "ann": ["/alerts", "/alerts/badge"],
    }.items():
        client = browse(user)
        for path in paths:
            cost = cost_of(client, path)
            assert cost.statements <= 8, (user, path, cost)  # what is muted, and may be
            assert cost.blocks <= FEW_BLOCKS, (user, path, cost)
            assert cost.size <= 150_000, (user, path, cost)
