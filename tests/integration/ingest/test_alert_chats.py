"""Group chats are told by real requests, and muting keeps everybody quiet for a time."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from catalog.access.grants import grant
from catalog.access.principals import principal_of
from catalog.datasources import lake_database
from catalog.models import AuditEntry
from core.sentences import Sentence
from ingest.alerts import delivery, fan_out, mutes, store
from ingest.alerts.rules import Finding, failure_of
from ingest.alerts.selectors import open_count
from ingest.api import alert_replies as replies
from ingest.models.alerts import Alert, AlertDelivery, AlertMute, AlertTarget
from tests.integration.catalog.asking import problem
from tests.integration.catalog.conftest import *  # noqa: F403  the same people
from tests.integration.catalog.test_endpoints import compare

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("loopback_alerts")]
SECRET = "CANARY-of-a-robot"


def open_one(table: Any, kind: str = "stuck") -> Alert:
    trouble = Finding(kind, cause=kind, message="it stands still", hint="look")
    store.open_alert(table.pk, trouble)
    fan_out.announce()
    return Alert.objects.latest("id")


def made(admin: Any, kind: str, url: str, **more: Any) -> Any:
    given = {"name": kind, "kind": kind, "url": url, **more}
    return admin("POST", "alert-targets", given)


OK = {
    "slack": b"ok",
    "teams": b"",
    "feishu": b'{"code":0,"msg":"success"}',
    "dingtalk": b'{"errcode":0,"errmsg":"ok"}',
    "wecom": b'{"errcode":0,"errmsg":"ok"}',
}


@pytest.mark.parametrize("kind", OK)
def test_one_message_tells_many_and_the_address_stays_secret(
    admin, web, lake_orders, kind
) -> None:
    url = f"{web.url}?access_token=CANARY-of-an-address"
    reply = made(admin, kind, url)
    assert reply.status_code == 201, reply.content
    compare(replies.AlertTarget(), reply.json())
    assert reply.json()["url"] == "http://127.0.0.1/…"
    web.status, web.reply = 200, OK[kind]
    for found in ("stuck", "late"):
        open_one(lake_orders, found)
    assert delivery.deliver_due() == 1
    (headers, body), path = web.got[0], web.paths[0]
    assert "access_token=CANARY-of-an-address" in path
    assert headers["Content-Type"] == "application/json"
    assert "lake.shop.orders is stuck" in body.decode()
    assert "lake.shop.orders is late" in body.decode()
    assert {row.state for row in AlertDelivery.objects.all()} == {"delivered"}
    seen = str([e.facts for e in AuditEntry.objects.all()])
    row = AlertTarget.objects.get()
    assert "CANARY" not in seen + row.address + row.secret
    assert "CANARY" not in admin("GET", "alert-targets").content.decode()


IN_CHINESE = (
    "lake.shop.orders 卡住或损坏",
    "其同步失败",
    "下一步：请先恢复",
    "首次发现于",
)


@pytest.mark.parametrize("kind", OK)
def test_a_chat_is_told_in_the_language_of_its_target(
    admin, web, lake_orders, kind
) -> None:
    reply = made(admin, kind, web.url, language="zh-hans")
    assert reply.json()["language"] == "zh-hans"
    web.status, web.reply = 200, OK[kind]
    failed = failure_of("sync", Sentence("the cursor is gone"))
    trouble = Finding("stuck", cause="x", message=failed, hint="resume it first")
    store.open_alert(lake_orders.pk, trouble)
    fan_out.announce()
    assert delivery.deliver_due() == 1
    said = web.got[0][1].decode()
    for each in IN_CHINESE:
        assert each in said, each
    assert ("在 Sluice 中打开" in said) == (kind not in ("dingtalk", "wecom"))


def test_a_webhook_is_told_in_its_language_and_of_codes_in_none(
    admin, web, lake_orders
) -> None:
    made(admin, "webhook", web.url, secret=SECRET * 2, language="zh-hans")
    closed = Sentence("closed by %(name)s", name="ann")
    alert = open_one(lake_orders)
    store.close(Alert.objects.filter(pk=alert.pk), reason=closed)
    fan_out.announce()
    admin("POST", "alert-targets/webhook:test", {})
    assert delivery.deliver_due() == 3
    opened, ended, test = (json.loads(body) for _, body in web.got)
    assert (opened["event"], opened["alert"]["severity"]) == ("opened", "critical")
    assert ended["alert"]["closed_reason"] == "由 ann 关闭"
    assert test["message"].startswith("root 请求")
    assert not any("sentences" in body for body in (opened, ended, test))


def test_the_language_is_changed_while_messages_wait(admin, web, lake_orders) -> None:
    made(admin, "slack", web.url)
    open_one(lake_orders)
    for language in ("tlh", ""):
        refused = admin("PATCH", "alert-targets/slack", {"language": language})
        problem(refused, 400, "invalid_request")
    done = admin("PATCH", "alert-targets/slack", {"language": "zh-hans"})
    compare(replies.AlertTarget(), done.json())
    delivery.deliver_due()
    assert "卡住或损坏" in web.got[0][1].decode()
    entry = AuditEntry.objects.get(action="alert_target.update")
    assert entry.facts == {"language": "zh-hans"}


def test_a_target_without_a_language_has_that_of_the_installation(
    admin, web, lake_orders, settings
) -> None:
    settings.LANGUAGE_CODE = "zh-hans"
    made(admin, "slack", web.url)
    open_one(lake_orders)
    delivery.deliver_due()
    assert "卡住或损坏" in web.got[0][1].decode()


def test_feishu_and_dingtalk_check_the_signature(admin, web, lake_orders) -> None:
    """As their documents say that a receiver does it."""
    for kind in ("feishu", "dingtalk"):
        made(admin, kind, f"{web.url}?x=1", secret=SECRET)
    web.status, web.reply = 200, b'{"code":0,"errcode":0}'
    open_one(lake_orders)
    assert delivery.deliver_due() == 2
    seen = {}
    for path, (_, body) in zip(web.paths, web.got, strict=True):
        query = {k: v[0] for k, v in parse_qs(urlsplit(path).query).items()}
        seen["dingtalk" if "sign" in query else "feishu"] = (query, json.loads(body))
    query, _ = seen["dingtalk"]
    text = f"{query['timestamp']}\n{SECRET}".encode()
    mac = hmac.new(SECRET.encode(), text, hashlib.sha256)
    assert query["sign"] == base64.b64encode(mac.digest()).decode()
    assert len(query["timestamp"]) == 13, "milliseconds"
    _, body = seen["feishu"]
    mac = hmac.new(f"{body['timestamp']}\n{SECRET}".encode(), b"", hashlib.sha256)
    assert body["sign"] == base64.b64encode(mac.digest()).decode()
    assert len(body["timestamp"]) == 10, "seconds"


def test_a_refusal_in_the_body_is_tried_again(admin, web, lake_orders) -> None:
    made(admin, "wecom", web.url)
    web.status, web.reply = 200, b'{"errcode":45009,"errmsg":"api freq out of limit"}'
    open_one(lake_orders)
    delivery.deliver_due()
    row = AlertDelivery.objects.get()
    assert (row.state, row.last_code) == ("waiting", 200)
    assert "api freq out of limit" in row.last_error


def test_chats_that_are_refused(admin) -> None:
    for kind, url, more in [
        ("slack", "https://example.com/x", {"secret": SECRET}),
        ("teams", "https://example.com/x", {"address": "a@b.c"}),
        ("wecom", "http://10.0.0.7/x", {}),
        ("feishu", "https://example.com/x", {"secret": "a\nb"}),
        ("pigeon", "https://example.com/x", {}),
    ]:
        reply = made(admin, kind, url, **more)
        assert reply.status_code == 400, (kind, reply.content)


def later(**more: float) -> None:
    for row in AlertMute.objects.all():
        row.until -= timedelta(**more)
        row.save()


def sent() -> list[tuple[str, str]]:
    rows = AlertDelivery.objects.order_by("id")
    return [(row.alert.kind, row.event) for row in rows]


def test_muting_keeps_quiet_and_what_goes_on_is_told_afterwards(
    admin, web, lake_orders
) -> None:
    made(admin, "slack", web.url)
    told = open_one(lake_orders, "late")
    muted = admin("POST", "alert-mutes", {"on": "lake.shop", "seconds": 3600})
    assert muted.status_code == 201, muted.content
    compare(replies.AlertMute(), muted.json())
    short, long = open_one(lake_orders, "stuck"), open_one(lake_orders, "failed")
    assert sent() == [("late", "opened")]
    store.close(Alert.objects.filter(pk__in=[told.pk, short.pk]))
    fan_out.announce()
    # who was told of it is told of its end; what came and went meanwhile is nobody's
    assert sent() == [("late", "opened"), ("late", "recovered")]
    assert fan_out.announce() == 0, "what is muted is not looked at again and again"
    later(hours=2)
    fan_out.announce()
    assert sent()[2:] == [("failed", "opened")]
    assert long.closed_at is None


def test_a_mute_holds_for_its_kind_and_place_alone(admin, lake_orders) -> None:
    AlertTarget.objects.create(
        name="hook", kind="webhook", address="https://h/", created_by="t"
    )
    AlertTarget.objects.update(created_at=timezone.now() - timedelta(days=1))
    given = {"on": "lake.shop.orders", "kind": "late", "seconds": 60}
    mute_id = admin("POST", "alert-mutes", given).json()["id"]
    lake_database("other")
    admin("POST", "alert-mutes", {"on": "lake.other", "seconds": 60})
    again = admin("POST", "alert-mutes", {**given, "seconds": 120}).json()
    assert again["id"] == mute_id, "a second one replaces the first"
    open_one(lake_orders, "stuck")
    open_one(lake_orders, "late")
    assert sent() == [("stuck", "opened")]
    assert len(admin("GET", "alert-mutes").json()["items"]) == 2
    assert admin("DELETE", f"alert-mutes/{mute_id}").status_code == 204
    fan_out.announce()
    assert sent() == [("stuck", "opened"), ("late", "opened")]
    for bad in ({"seconds": 5}, {"kind": "odd"}, {"on": "shop.public"}):
        reply = admin("POST", "alert-mutes", {**given, **bad})
        assert reply.status_code == 400, bad


@pytest.mark.parametrize(
    "on", ["lake.shop.ordres", "lake.shp", "shop.orders", "SHOP", "orders"]
)
def test_a_name_of_nothing_is_not_muted(admin, lake_orders, shop, on) -> None:
    reply = admin("POST", "alert-mutes", {"on": on, "seconds": 60})
    assert reply.status_code in {400, 404}
    assert not AlertMute.objects.exists()
    for there in ("lake", "lake.shop", "lake.shop.orders", shop.name):
        reply = admin("POST", "alert-mutes", {"on": there, "seconds": 60})
        assert reply.status_code == 201, there


def test_who_operates_mutes_and_acknowledges(admin, ann, lake_orders) -> None:
    """Rights are those of closing an alert."""
    alert = open_one(lake_orders)
    grant(principal="user:ann", privilege="discover", on="lake.shop", by="root")
    given = {"on": "lake.shop.orders", "seconds": 60}
    problem(ann("POST", "alert-mutes", given), 403, "missing_privilege")
    problem(ann("POST", f"alerts/{alert.pk}:acknowledge"), 403, "missing_privilege")
    mute_id = admin("POST", "alert-mutes", given).json()["id"]
    assert ann("GET", "alert-mutes").json()["items"] == []
    problem(ann("DELETE", f"alert-mutes/{mute_id}"), 404, "mute_not_found")
    admin("DELETE", f"alert-mutes/{mute_id}")
    grant(principal="user:ann", privilege="operate", on="lake.shop", by="root")
    seen = ann("POST", f"alerts/{alert.pk}:acknowledge").json()
    compare(replies.Alert(), seen)
    assert (seen["acknowledged_by"], seen["state"]) == ("ann", "open")
    admin("POST", f"alerts/{alert.pk}:acknowledge")
    alert.refresh_from_db()
    assert alert.acknowledged_by == "ann", "twice is once"
    assert AuditEntry.objects.filter(action="alert.acknowledge").count() == 1


def test_muted_sources_and_what_the_badge_counts(admin, lake_orders, shop) -> None:
    root = principal_of(User.objects.get(username="root"))
    now = timezone.now()
    Alert.objects.create(
        datasource=shop,
        name=shop.name,
        database="",
        kind="capture",
        message="m",
        first_seen_at=now,
        last_seen_at=now,
    )
    late = open_one(lake_orders, "late")
    assert open_count(root) == 2
    mutes.mute(root, shop.name, seconds=60)
    assert open_count(root) == 1
    admin("POST", f"alerts/{late.pk}:acknowledge")
    assert open_count(root) == 0
