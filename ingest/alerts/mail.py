"""Handing one message to the mail server. Must not know rows."""

from __future__ import annotations

import contextlib
import re
import smtplib
import socket
import ssl
import threading
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Final

from django.utils import timezone
from django.utils.translation import get_language

from catalog.sources.tls import ca_file
from core.errors import InvalidRequest
from core.sentences import Sentence
from ingest.alerts.rules import Answer
from ingest.alerts.smtp_spec import Smtp

SECONDS: Final = 10.0
TOTAL_SECONDS: Final = 20.0
_ADDRESS = re.compile(
    r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*"
)


def check_address(address: str) -> str:
    """The address itself if it is one plain mailbox: no name, no list, no control."""
    if len(address) > 254 or not _ADDRESS.fullmatch(address):
        raise InvalidRequest(
            "that cannot be an e-mail address",
            code="invalid_address",
            hint="one plain address: ops@example.com",
            facts={
                "errors": [
                    {"pointer": "/address", "detail": Sentence("not an address")}
                ]
            },
        )
    return address


def compose(*, sender: str, to: str, subject: str, text: str, key: str) -> EmailMessage:
    """In the active language. key: the same for the same alerts, so that a mailbox can
    tell a repetition."""
    message = EmailMessage()
    message["Subject"] = subject
    message["From"] = sender
    message["To"] = to
    message["Date"] = format_datetime(timezone.now())
    message["Message-ID"] = f"<{key}@{sender.rpartition('@')[2] or 'sluice'}>"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(text)
    message["Content-Language"] = get_language() or "en"
    return message


def send(message: EmailMessage, smtp: Smtp) -> Answer:
    """One attempt; never raises for what the server or the network does."""
    try:
        server = _connection(smtp)
        try:
            return _hand_over(server, message, smtp)
        finally:
            # what it has taken stays taken, whatever it says to the goodbye
            with contextlib.suppress(OSError, smtplib.SMTPException):
                server.quit()
            server.close()
    except smtplib.SMTPResponseException as error:
        return Answer(
            error.smtp_code,
            Sentence("the mail server answered: %(answer)s", answer=_said(error)),
        )
    except smtplib.SMTPRecipientsRefused as error:
        code, words = next(iter(error.recipients.values()))
        refused = Sentence(
            "the mail server refuses the address: %(answer)s", answer=f"{words!r}"[:300]
        )
        return Answer(code, refused)
    except ssl.SSLCertVerificationError as error:
        refused = Sentence(
            "the mail server's certificate is not accepted: %(why)s",
            why=error.verify_message,
        )
        return Answer(error=refused)
    except UnicodeError:
        return Answer(
            error=Sentence(
                "name or password for the mail server is not ASCII, as SMTP wants it"
            )
        )
    except (OSError, smtplib.SMTPException) as error:
        return Answer(error=str(error)[:300] or type(error).__name__)


class _Plain(smtplib.SMTP):
    """Hung up TOTAL_SECONDS after it began to listen, to the greeting first: each byte
    that a server drips starts the socket's own timeout anew."""

    _guard: threading.Timer | None = None

    def getreply(self) -> tuple[int, bytes]:
        if self._guard is None:
            self._guard = threading.Timer(TOTAL_SECONDS, _hang_up, [self])
            self._guard.daemon = True
            self._guard.start()
        return super().getreply()

    def close(self) -> None:
        if self._guard is not None:
            self._guard.cancel()
        super().close()


class _Encrypted(_Plain, smtplib.SMTP_SSL):
    """The same over TLS from the first byte on."""


def _connection(smtp: Smtp) -> smtplib.SMTP:
    if smtp.tls == "implicit":
        return _Encrypted(smtp.host, smtp.port, timeout=SECONDS, context=_trust())
    return _Plain(smtp.host, smtp.port, timeout=SECONDS)


def _hand_over(server: smtplib.SMTP, message: EmailMessage, smtp: Smtp) -> Answer:
    if smtp.tls == "starttls":
        server.starttls(context=_trust())
    if smtp.username:
        server.login(smtp.username, smtp.password)
    server.send_message(message)
    return Answer(250)


def _trust() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=ca_file())


def _said(error: smtplib.SMTPResponseException) -> str:
    words = error.smtp_error
    text = words.decode("utf-8", "replace") if isinstance(words, bytes) else words
    return text[:300]


def _hang_up(server: smtplib.SMTP) -> None:
    with contextlib.suppress(OSError):
        if isinstance(server.sock, socket.socket):
            server.sock.shutdown(socket.SHUT_RDWR)
