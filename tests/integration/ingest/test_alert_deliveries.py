"""Alerts reach real receivers: signed, at least once, never twice at a time, patiently."""

from __future__ import annotations

import email
import hashlib
import hmac
import json
import subprocess
import sys
import threading
import time
from datetime import timedelta
from email.policy import default
from typing import Any

import pytest
from django.conf import settings as instance
from django.utils import timezone

from catalog.models import AuditEntry
from catalog.secrets import decrypt, rotate_secrets
from ingest.alerts import delivery, fan_out, store, webhook
from ingest.alerts.delivery import DeliveryWorker
from ingest.alerts.rules import MOST_ATTEMPTS, Finding
from ingest.alerts.smtp_spec import Smtp
from ingest.api import alert_replies as replies
from ingest.models.alerts import Alert, AlertDelivery, AlertTarget
from tests.integration.catalog.asking import CANARY, problem
from tests.integration.catalog.conftest import *  # noqa: F403  the same people
from tests.integration.catalog.test_endpoints import compare
from tests.receivers import mail_receiver
from tests.waiting import LIMIT_SECONDS, wait_for

pytestmark = pytest.mark.usefixtures("loopback_alerts")
SECRET = f"{CANARY}-signs-it"


@pytest.fixture
def pager(admin, web) -> AlertTarget:
    reply = admin("POST", "alert-targets", hook(web.url))
    assert reply.status_code == 201, reply.content
    return AlertTarget.objects.get()


def hook(url: str, **more: Any) -> dict[str, Any]:
    return {"name": "pager", "kind": "webhook", "url": url, "secret": SECRET, **more}


def open_one(
    table: Any, kind: str = "stuck", message: str = "it stands still"
) -> Alert:
    store.open_alert(table.pk, Finding(kind, cause="x", message=message, hint="look"))
    fan_out.announce()
    return Alert.objects.latest("id")


def later(**more: float) -> None:
    """That much time has passed for everything that waits."""
    for row in AlertTarget.objects.all():
        for name in ("retry_at", "sending_until", "failing_since"):
            if at := getattr(row, name):
                setattr(row, name, at - timedelta(**more))
        row.save()
    for one in AlertDelivery.objects.filter(next_try_at__isnull=False):
        one.next_try_at -= timedelta(**more)
        one.save()


@pytest.mark.django_db
def test_a_webhook_is_signed_and_told_of_the_end_too(
    admin, web, pager, lake_orders
) -> None:
    alert, began = open_one(lake_orders), int(time.time())
    assert delivery.deliver_due() == 1
    ended = int(time.time())
    headers, body = web.got[0]
    told = json.loads(body)
    assert told["alert"]["name"] == "lake.shop.orders"
    assert (
        told["alert"]["url"] == f"https://sluice.example/tables/{lake_orders.pk}/health"
    )
    assert (told["event"], told["delivery"]) == ("opened", headers["Sluice-Delivery"])
    # as the documentation says that a receiver does it
    stamp = headers["Sluice-Timestamp"]
    mac = hmac.new(SECRET.encode(), f"{stamp}.".encode() + body, hashlib.sha256)
    assert headers["Sluice-Signature"] == f"v1={mac.hexdigest()}"
    assert began <= int(stamp) <= ended
    store.close(Alert.objects.filter(pk=alert.pk), reason="well")
    assert (fan_out.announce(), fan_out.announce()) == (1, 0)
    assert (delivery.deliver_due(), delivery.deliver_due()) == (1, 0)
    assert json.loads(web.got[1][1])["event"] == "recovered"
    items = admin("GET", "alert-targets/pager/deliveries").json()["items"]
    compare(replies.AlertDelivery(), items[0])
    assert [(i["event"], i["state"], i["last_code"]) for i in items] == [
        ("recovered", "delivered", 204),
        ("opened", "delivered", 204),
    ]
    compare(replies.AlertTarget(), admin("GET", "alert-targets/PAGER").json())
    compare(replies.Alert(), admin("GET", "alerts").json()["items"][0])
    assert SECRET not in admin("GET", "alert-targets").content.decode()
    assert pager.secret != SECRET
    assert not any(SECRET in str(e.facts) for e in AuditEntry.objects.all())


@pytest.mark.django_db
def test_killed_between_sending_and_recording_it_comes_again_under_its_key(
    web, pager, lake_orders
) -> None:
    open_one(lake_orders)
    claim = delivery.take()
    assert claim is not None
    assert delivery.attempt(claim).is_delivered
    # killed here; nobody else sends it while the lease lasts
    assert delivery.take() is None
    later(seconds=46)
    second = delivery.take()
    answer = delivery.attempt(second)
    # the first one wakes up: what it has to say counts no more
    assert not delivery.record(claim, webhook.Answer(500, "late"))
    assert delivery.record(second, answer)
    first, again = (h["Sluice-Delivery"] for h, _ in web.got)
    assert first == again
    row = AlertDelivery.objects.get()
    assert (row.state, row.attempts, row.last_code) == ("delivered", 2, 204)


@pytest.mark.django_db
def test_a_good_target_does_not_wait_behind_those_that_do_not_answer(
    admin, web, lake_orders, monkeypatch
) -> None:
    for name in (*[f"dead{n}" for n in range(5)], "good"):
        admin("POST", "alert-targets", hook(web.url, name=name))
    good_has_it, told = threading.Event(), delivery.attempt

    def attempt(claim: delivery.Claim) -> delivery.Answer:
        if claim.target.name == "good":
            good_has_it.set()
            return told(claim)
        is_told = good_has_it.wait(LIMIT_SECONDS)
        good_has_it.set()  # of those that do not answer one is enough
        return delivery.Answer(error="no answer" if is_told else "held it up")

    monkeypatch.setattr(delivery, "attempt", attempt)
    open_one(lake_orders)
    assert delivery.deliver_due() == 6
    assert len(web.got) == 1
    said = AlertDelivery.objects.values_list("last_error", flat=True)
    assert sorted(said) == ["", *["no answer"] * 5]


@pytest.mark.django_db(transaction=True)
def test_two_processes_never_send_one_message_twice(web, pager, lake_orders) -> None:
    for kind in ("stuck", "late", "failed", "schema_change"):
        open_one(lake_orders, kind)
    web.before = lambda: time.sleep(0.02)
    processes = [DeliveryWorker(), DeliveryWorker()]
    for workers in processes:
        workers.start()
    unsent = AlertDelivery.objects.filter(next_try_at__isnull=False)
    wait_for(lambda: not unsent.exists(), "every message to be sent")
    for workers in processes:
        workers.stop(seconds=10)
    keys = [headers["Sluice-Delivery"] for headers, _ in web.got]
    assert len(keys) == len(set(keys)) == 4
    told = [json.loads(body)["alert"]["kind"] for _, body in web.got]
    assert told == ["stuck", "late", "failed", "schema_change"], "in order"


@pytest.mark.django_db(transaction=True)
def test_a_sender_killed_while_the_receiver_has_it(
    web, pager, lake_orders, sluice_environment
) -> None:
    open_one(lake_orders)
    has_it, is_dead = threading.Event(), threading.Event()
    web.before = lambda: (has_it.set(), is_dead.wait(LIMIT_SECONDS))
    sender = subprocess.Popen(
        [sys.executable, "manage.py", "tick"],
        cwd=instance.BASE_DIR,
        env=sluice_environment | {"SLUICE_ALERT_NETWORKS_ALLOWED": "127.0.0.0/8"},
    )
    assert has_it.wait(LIMIT_SECONDS)
    sender.kill()
    sender.wait()
    is_dead.set()
    assert AlertDelivery.objects.get().state == "waiting"
    assert delivery.deliver_due() == 0
    later(seconds=46)
    assert delivery.deliver_due() == 1
    first, again = (headers["Sluice-Delivery"] for headers, _ in web.got)
    assert first == again
    assert AlertDelivery.objects.get().state == "delivered"


@pytest.mark.django_db
def test_a_broken_target_waits_longer_each_time_is_paused_and_resumes(
    admin, web, pager, lake_orders
) -> None:
    web.status = 500
    open_one(lake_orders)
    waits = []
    for _ in range(3):
        assert delivery.deliver_due() == 1
        target = AlertTarget.objects.get()
        tried_at = AlertDelivery.objects.get().last_at
        waits.append(round((target.retry_at - tried_at).total_seconds()))
        later(seconds=waits[-1] + 1)
    assert waits == [5, 10, 20]
    shown = admin("GET", "alert-targets/pager").json()
    assert (shown["state"], shown["failures"]) == ("failing", 3)
    later(hours=24)
    delivery.deliver_due()
    shown = admin("GET", "alert-targets/pager").json()
    assert shown["state"] == "paused"
    assert "it answered 500" in shown["paused_reason"]
    assert delivery.deliver_due() == 0
    # its hourly try arrives, so it goes on by itself
    web.status = 200
    later(seconds=3601)
    assert delivery.deliver_due() == 1
    assert admin("GET", "alert-targets/pager").json()["state"] == "ok"
    row = AlertDelivery.objects.get()
    assert (row.state, row.attempts) == ("delivered", 5)


@pytest.mark.django_db
@pytest.mark.parametrize("asked", ["test", "resume"])
def test_waking_a_target_up_sends_nothing_beside_an_attempt(
    admin, web, pager, lake_orders, asked
) -> None:
    web.status = 500
    open_one(lake_orders)
    delivery.deliver_due()
    later(seconds=6)
    claim = delivery.take()
    admin("POST", f"alert-targets/pager:{asked}")
    assert delivery.take() is None, "one at a time"
    assert delivery.record(claim, delivery.attempt(claim))
    later(seconds=6)
    assert delivery.take() is not None, (
        "woken up, it does not wait longer than at first"
    )
    # whoever had it was killed: nobody has to wait for the end of that lease
    later(seconds=46)
    assert delivery.take() is not None


@pytest.mark.django_db
def test_what_is_refused_for_good_is_given_up_and_holds_up_nobody(
    admin, web, pager, lake_orders
) -> None:
    web.status = 400
    open_one(lake_orders)
    delivery.deliver_due()
    AlertDelivery.objects.update(attempts=MOST_ATTEMPTS - 1)
    open_one(lake_orders, "late")
    web.status = 204
    later(hours=2)
    assert delivery.deliver_due(limit=1) == 1
    assert json.loads(web.got[-1][1])["alert"]["kind"] == "late"
    web.status = 400
    delivery.deliver_due(limit=1)
    states = AlertDelivery.objects.order_by("id")
    assert [row.state for row in states] == ["given_up", "delivered"]
    # too old to be news: not sent at all
    open_one(lake_orders, "failed")
    AlertDelivery.objects.filter(next_try_at__isnull=False).update(
        created_at=timezone.now() - timedelta(days=4)
    )
    assert admin("POST", "alert-targets/pager:resume").json()["state"] == "ok"
    assert delivery.deliver_due() == 0
    assert AlertDelivery.objects.latest("id").state == "given_up"


REFUSED = [
    ({"url": "http://169.254.169.254/x"}, "network_denied"),
    ({"url": "http://10.0.0.7/x"}, "network_denied"),
    ({"url": "http://[::ffff:10.0.0.7]/x"}, "network_denied"),
    ({"url": "http://2130706433/x"}, "invalid_host"),
    ({"url": "ftp://example.com"}, "invalid_url"),
    ({"url": "https://user:pw@example.com"}, "invalid_url"),
    ({"url": "https://example.com:0/"}, "invalid_url"),
    ({"url": "https://example.com/a\r\nX: y"}, "invalid_url"),
    ({"secret": "short"}, "invalid_request"),
    ({"name": "a/b"}, "invalid_request"),
    ({"name": "PAGER"}, "name_taken"),
    ({"on": "shop.public"}, "invalid_request"),
    ({"kinds": ["nope"]}, "invalid_request"),
    ({"kind": "email", "url": "", "secret": "", "address": "a@b.c"}, "no_mail_server"),
]


@pytest.mark.django_db
def test_targets_that_are_refused(admin, pager) -> None:
    for change, code in REFUSED:
        given = {**hook("https://example.com/x", name="other"), **change}
        reply = admin("POST", "alert-targets", given)
        assert reply.json()["code"] == code, change
        problem(reply, 409 if code == "name_taken" else 400, code)
    assert AlertTarget.objects.count() == 1


@pytest.mark.django_db
def test_mail_is_one_for_many_and_its_head_is_not_for_names_to_write(
    admin, settings, lake_orders
) -> None:
    with mail_receiver() as box:
        settings.SLUICE_SMTP = Smtp("127.0.0.1", box.port, tls="off")
        given = {"name": "ops", "kind": "email", "address": "ops@example.com"}
        bad = {**given, "address": "a@b.c\nBcc: x@y.z"}
        problem(admin("POST", "alert-targets", bad), 400, "invalid_address")
        assert admin("POST", "alert-targets", given).status_code == 201
        evil = "x\r\nBcc: thief@example.com"
        lake_orders.name = evil
        lake_orders.save()
        open_one(lake_orders, message="é ≠ ü")
        box.refuse = "450 later"
        assert delivery.deliver_due() == 1
        assert AlertDelivery.objects.get().last_code == 450
        box.refuse = ""
        later(seconds=60)
        cut_off = delivery.take()
        for _ in range(2):
            assert delivery.attempt(cut_off).is_delivered
        open_one(lake_orders, "late")
        later(seconds=60)
        assert delivery.deliver_due() == 1
    first, again, mail = (
        email.message_from_bytes(raw, policy=default) for raw in box.mails
    )
    # folded, as it is longer than a line
    assert (
        mail["Subject"].strip()
        == "Sluice: lake.shop.`x  Bcc: thief@example.com` is stuck or broken (and 1 more)"
    )
    assert (mail["To"], mail["Bcc"], mail["From"]) == (
        "ops@example.com",
        None,
        instance.SLUICE_SMTP_FROM,
    )
    text = mail.get_content()
    assert "é ≠ ü" in text
    assert "https://sluice.example/tables/" in text
    assert first["Message-ID"] == again["Message-ID"]
    assert mail["Message-ID"] != first["Message-ID"], "it tells of one more"
    assert all(row.state == "delivered" for row in AlertDelivery.objects.all())


@pytest.mark.django_db
def test_targets_hear_only_what_they_asked_for(admin, web, lake_orders) -> None:
    for name, more in {
        "all": {},
        "stuck": {"kinds": ["stuck"]},
        "ends": {"kinds": ["stuck", "recovered"], "on": "lake.shop"},
        "other": {"on": "lake.shop.people"},
    }.items():
        assert (
            admin("POST", "alert-targets", hook(web.url, name=name, **more)).status_code
            == 201
        )
    alert = open_one(lake_orders)
    open_one(lake_orders, "late")
    store.close(Alert.objects.filter(pk=alert.pk))
    fan_out.announce()
    rows = AlertDelivery.objects.order_by("target__name", "id")
    told = [(r.target.name, r.alert.kind, r.event) for r in rows]
    assert told == [
        ("all", "stuck", "opened"),
        ("all", "late", "opened"),
        ("all", "stuck", "recovered"),
        ("ends", "stuck", "opened"),
        ("ends", "stuck", "recovered"),
        ("stuck", "stuck", "opened"),
    ]
    # one that is new is not told the end of what it never heard of
    admin("POST", "alert-targets", hook(web.url, name="new"))
    store.close(Alert.objects.all())
    fan_out.announce()
    assert not AlertDelivery.objects.filter(target__name="new").exists()
    assert admin("DELETE", "alert-targets/all").status_code == 204
    assert not AlertDelivery.objects.filter(target__name="all").exists()


@pytest.mark.django_db
def test_a_test_message_and_the_rotation_of_keys(admin, web, pager, settings) -> None:
    reply = admin("POST", "alert-targets/pager:test")
    assert reply.status_code == 202
    delivery.deliver_due()
    assert "asked Sluice for a test" in web.got[0][1].decode()
    problem(admin("POST", "alert-targets/none:test"), 404, "target_not_found")
    from cryptography.fernet import Fernet

    fresh = Fernet.generate_key().decode()
    settings.SLUICE_SECRETS_KEYS = [fresh, *settings.SLUICE_SECRETS_KEYS]
    assert rotate_secrets().rewritten == 1
    settings.SLUICE_SECRETS_KEYS = [fresh]
    assert decrypt(AlertTarget.objects.get().secret) == SECRET
