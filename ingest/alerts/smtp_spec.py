"""Where mail is handed over: the value of SLUICE_SMTP_URL. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import parse_qs, unquote, urlsplit

from core.addresses import is_loopback

Tls = Literal["off", "starttls", "implicit"]
_PORTS: Final = {"smtp": 25, "smtps": 465}


@dataclass(frozen=True, slots=True)
class Smtp:
    host: str
    port: int
    username: str = ""
    password: str = ""
    tls: Tls = "starttls"


def parse_smtp(url: str) -> Smtp | None:
    """smtp://user:password@host:587 (STARTTLS), smtps://…, "" = none.

    Without TLS (`?tls=off`) no password is sent: that is refused unless the server is
    this machine. ValueError in words.
    """
    if not url:
        return None
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError("expected smtp://host:587 or smtps://host:465")
    query = parse_qs(parts.query)
    if set(query) - {"tls"} or parts.path not in {"", "/"}:
        raise ValueError("only ?tls=off may follow the host")
    tls: Tls = "implicit" if parts.scheme == "smtps" else "starttls"
    if query.get("tls") == ["off"] and tls == "starttls":
        tls = "off"
    elif "tls" in query:
        raise ValueError("tls can only be off, and only with smtp://")
    if tls == "off" and parts.username and not is_loopback(parts.hostname):
        raise ValueError("a password would travel readable: leave ?tls=off away")
    return Smtp(
        host=parts.hostname,
        port=parts.port or _PORTS[parts.scheme],
        username=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        tls=tls,
    )
