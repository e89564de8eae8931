"""Mail goes to who proves his name, and a password only where nobody else can read."""

from __future__ import annotations

import base64

import pytest

from ingest.alerts import mail
from ingest.alerts.rules import Answer
from ingest.alerts.smtp_spec import Smtp, Tls
from tests.integration.discovery.tls_proxy import Authority
from tests.receivers import Mailbox, mail_receiver

LOGIN = base64.b64encode(b"\0ann\0a password")


def sent(box: Mailbox, tls: Tls) -> Answer:
    message = mail.compose(
        sender="sluice@example.com",
        to="ops@example.com",
        subject="lake.shop.orders is stuck",
        text="é",
        key="1",
    )
    smtp = Smtp("127.0.0.1", box.port, "ann", "a password", tls)
    return mail.send(message, smtp)


@pytest.mark.parametrize("tls", ["starttls", "implicit"])
def test_a_server_that_proves_its_name_gets_password_and_mail(
    tmp_path, monkeypatch, tls
) -> None:
    authority = Authority(tmp_path, "authority")
    context = authority.server_context()
    with mail_receiver(context, implicit=tls == "implicit") as box:
        # an authority that nobody trusts here
        assert "not accepted" in sent(box, tls).error
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.path))
        assert sent(box, tls) == Answer(250)
        assert box.logins == [(LOGIN, True)]
        assert len(box.mails) == 1
    other = authority.server_context(host="other.example")
    with mail_receiver(other, implicit=tls == "implicit") as box:
        assert "not accepted" in sent(box, tls).error
        assert (box.logins, box.mails) == ([], [])


def test_a_server_without_starttls_gets_neither_password_nor_mail() -> None:
    with mail_receiver() as box:
        answer = sent(box, "starttls")
        assert (answer.code, "STARTTLS" in answer.error) == (None, True), answer
        assert (box.logins, box.mails) == ([], [])


def test_a_server_that_speaks_no_tls_at_all_is_told_apart() -> None:
    with mail_receiver() as box:
        answer = sent(box, "implicit")
        assert (answer.code, bool(answer.error)) == (None, True)
        assert (box.logins, box.mails) == ([], [])


@pytest.mark.parametrize("tls", ["off", "implicit"])
def test_a_server_whose_greeting_never_ends_is_hung_up(
    tmp_path, monkeypatch, tls
) -> None:
    authority = Authority(tmp_path, "authority")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.path))
    monkeypatch.setattr(mail, "TOTAL_SECONDS", 0.5)
    context = authority.server_context() if tls == "implicit" else None
    with mail_receiver(context, implicit=tls == "implicit") as box:
        box.drip = 0.05
        answer = sent(box, tls)
        assert (answer.code, bool(answer.error)) == (None, True), answer
        assert box.mails == []
