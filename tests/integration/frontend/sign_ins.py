"""A browser's way to the identity provider and back, and what a refusal leaves."""

from __future__ import annotations

import http.client
from typing import Any
from urllib.parse import urlsplit

from django.contrib.auth.models import User
from django.test import Client

from catalog.models import AuditEntry

ANN = {"preferred_username": "Ann@Example.org", "groups": ["bi"]}


def follow(address: str) -> str:
    """What a browser does at the provider: ask, and go where it is sent."""
    parts = urlsplit(address)
    link = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
    try:
        link.request("GET", f"{parts.path}?{parts.query}")
        return link.getresponse().headers["Location"]
    finally:
        link.close()


def local(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.path}?{parts.query}"


def sign_in(client: Client, wanted: str = "/tables") -> Any:
    left = client.get("/login/provider", {"next": wanted})
    assert left.status_code == 302, left.content
    return client.get(local(follow(left["Location"])))


def is_in(client: Client) -> bool:
    return client.get("/tokens").status_code == 200


def expect_refusal(client: Client, reply: Any, reason: str) -> None:
    assert reply.status_code == 403
    assert "callout is-bad" in reply.content.decode()
    entry = AuditEntry.objects.filter(action="login", is_allowed=False).latest("id")
    assert entry.facts["reason"] == reason
    assert not is_in(client)
    assert not User.objects.exists()
