"""Mail to a server that has its own mind: what it has taken is sent once, and what it
never takes holds up nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from email import message_from_bytes
from email.policy import default

import pytest
from django.utils import timezone

from catalog.models import Database, Datasource, Table
from core.sentences import Sentence
from ingest.alerts import delivery, fan_out, store, webhook
from ingest.alerts.rules import Finding
from ingest.alerts.smtp_spec import Smtp
from ingest.models.alerts import AlertDelivery, AlertTarget
from tests.receivers import Mailbox, mail_receiver

pytestmark = pytest.mark.django_db


@pytest.fixture
def box(settings) -> Iterator[Mailbox]:
    with mail_receiver() as found:
        settings.SLUICE_SMTP = Smtp("127.0.0.1", found.port, tls="off")
        yield found


@pytest.fixture
def ops(db) -> AlertTarget:
    return AlertTarget.objects.create(
        name="ops", kind=AlertTarget.EMAIL, address="ops@example.com"
    )


@pytest.fixture
def table(db) -> Table:
    lake = Datasource.objects.filter(kind="lake").first()
    lake = lake or Datasource.objects.create(name="lake", kind="lake")
    shop = Database.objects.create(datasource=lake, name="shop")
    return Table.objects.create(database=shop, name="orders", kind=Table.LAKE)


def open_one(table: Table, kind: str, message: str) -> None:
    store.open_alert(table.pk, Finding(kind, cause="x", message=message))
    fan_out.announce()


def wait_over() -> None:
    past = timezone.now() - timedelta(seconds=1)
    AlertTarget.objects.update(retry_at=past, sending_until=None)
    AlertDelivery.objects.filter(next_try_at__isnull=False).update(next_try_at=past)


def states() -> list[str]:
    return [row.state for row in AlertDelivery.objects.order_by("id")]


def test_a_server_that_took_it_and_says_no_goodbye_has_it(box, ops, table) -> None:
    box.bye = "421 closing"
    open_one(table, "stuck", "it stands still")
    delivery.deliver_due()
    assert len(box.mails) == 1
    assert states() == ["delivered"]


def test_a_mail_is_in_the_language_of_its_target(box, ops, table) -> None:
    AlertTarget.objects.update(language="zh-hans")
    late = Sentence("it shows the source as it was %(ago)s ago", ago="2 h")
    for kind, said in (("late", late), ("stuck", "it stands still")):
        store.open_alert(table.pk, Finding(kind, cause="x", message=said))
    fan_out.announce()
    delivery.deliver_due()
    mail = message_from_bytes(box.mails[0], policy=default)
    assert mail["Subject"] == "Sluice: lake.shop.orders 已逾期（另有 1 条）"
    assert mail["Content-Language"] == "zh-hans"
    text = mail.get_content()
    assert "显示的是 2 h 前的数据源状态" in text
    assert "首次发现于" in text


def test_a_password_that_smtp_cannot_say_is_told(box, ops, table, settings) -> None:
    settings.SLUICE_SMTP = Smtp("127.0.0.1", box.port, "me", "pässword", tls="off")
    open_one(table, "stuck", "it stands still")
    assert delivery.deliver_due() == 1
    ops.refresh_from_db()
    row = AlertDelivery.objects.get()
    assert (ops.state, row.state) == ("failing", "waiting")
    assert row.last_error
    assert "pässword" not in row.last_error


def test_a_defect_is_an_answer_too(ops, table, monkeypatch, settings) -> None:
    AlertTarget.objects.update(kind=AlertTarget.WEBHOOK, address="https://a.b/c")

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("of ours")

    monkeypatch.setattr(webhook, "send", broken)
    monkeypatch.setattr(delivery, "decrypt", lambda secret: "x" * 16)
    open_one(table, "stuck", "it stands still")
    assert delivery.deliver_due() == 1
    ops.refresh_from_db()
    assert ops.state == "failing"
    assert "a defect of Sluice" in AlertDelivery.objects.get().last_error


def test_a_mail_that_is_never_taken_holds_up_no_other(box, ops, table) -> None:
    box.spam = b"buy now"
    open_one(table, "stuck", "buy now")
    open_one(table, "stalled", "nothing comes of it")
    for _ in range(delivery.HARD_AFTER):
        wait_over()
        delivery.deliver_due()
    assert states() == ["waiting", "waiting"]
    open_one(table, "late", "it is late")
    for _ in range(3):
        wait_over()
        delivery.deliver_due()
    assert states() == ["waiting", "delivered", "delivered"]


def test_a_server_that_comes_back_gets_one_mail_for_all(box, ops, table) -> None:
    box.refuse = "450 later"
    open_one(table, "stuck", "it stands still")
    open_one(table, "stalled", "nothing comes of it")
    for _ in range(delivery.HARD_AFTER + 1):
        wait_over()
        delivery.deliver_due()
    box.refuse = ""
    wait_over()
    delivery.deliver_due()
    assert (len(box.mails), states()) == (1, ["delivered", "delivered"])
