"""Settings of alerts: the mail server, and where webhooks may point to."""

from __future__ import annotations

import ipaddress

from config.env import read, words
from ingest.alerts.smtp_spec import Smtp, parse_smtp


def smtp() -> Smtp | None:
    return read(
        "SMTP_URL",
        "mail server of alerts: smtp://user:password@host:587 (STARTTLS), "
        "smtps://…, smtp://host:25?tls=off",
        parse_smtp,
        is_secret=True,
    )


def smtp_from() -> str:
    return read("SMTP_FROM", "sender of alerts", _address, default="sluice@localhost")


def networks_allowed() -> list[str]:
    return read(
        "ALERT_NETWORKS_ALLOWED",
        "private networks that webhooks of alerts may point to, as 10.0.0.0/8",
        _networks,
    )


def _networks(text: str) -> list[str]:
    return [str(ipaddress.ip_network(word)) for word in words(text)]


def _address(text: str) -> str:
    if "@" not in text or not text.isprintable() or "<" in text:
        raise ValueError("expected a plain address: sluice@example.com")
    return text
