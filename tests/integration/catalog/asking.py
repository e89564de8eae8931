"""REST clients for tests: JSON in, JSON out; problems; the live URL map."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from django.test import Client
from django.urls import get_resolver

CANARY = "canary-secret-7Qx!"


class Rest:
    """JSON in, JSON out, as one caller."""

    def __init__(self, token: str = "") -> None:
        self.client = Client(raise_request_exception=False)
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        given = {k.replace("_", "-"): v for k, v in headers.items()}
        return self.client.generic(
            method,
            path if path.startswith("/") else f"/api/v1/{path}",
            data=b"" if body is None else _json(body),
            content_type="application/json",
            headers={**self.headers, **given},
        )


def _json(body: Any) -> bytes:
    return body if isinstance(body, bytes) else json.dumps(body).encode()


def new_source(**more):
    return {
        "name": "crm",
        "kind": "postgresql",
        "host": "127.0.0.1",
        "port": 5433,
        "database": "crm",
        "username": "reader",
        "password": CANARY,
        **more,
    }


def problem(reply, status, code):
    body = reply.json()
    assert reply.status_code == status, body
    assert reply["Content-Type"] == "application/problem+json"
    assert body["code"] == code, body
    assert body["status"] == status
    assert {"type", "title", "detail", "hint", "request_id", "errors"} <= set(body)
    assert body["request_id"] == reply["X-Request-ID"]
    return body


HTTP = ["get", "post", "put", "patch", "delete"]


def live_routes(prefix: str = "api/v1/") -> Iterator[tuple[str, str, Any]]:
    """(method, route, view class) of everything below /api/v1 but the page of it."""

    def walk(patterns, before):
        for pattern in patterns:
            at = before + str(pattern.pattern)
            if hasattr(pattern, "url_patterns"):
                yield from walk(pattern.url_patterns, at)
                continue
            view = getattr(pattern.callback, "view_class", None)
            for method in HTTP:
                if view is None or hasattr(view, method):
                    yield method.upper(), at.removeprefix(prefix), view, at

    for method, route, view, at in walk(get_resolver().url_patterns, ""):
        if at.startswith(prefix) and at != f"{prefix}docs":
            yield method, route, view


def address(route, table_id=1):
    parts = {
        "source:ds": "shop",
        "name:db": "public",
        "name:table": "orders",
        "name:name": "ann",
        "path:rest": "what/ever",
    }

    def fill(found):
        name = found[1]
        if name in parts:
            return parts[name]
        if "uuid" in name:
            return "00000000-0000-0000-0000-000000000001"
        return str(table_id)

    return "/api/v1/" + re.sub(r"<([^>]+)>", fill, route)


def grants_now(privilege: str | None, on: str = "shop") -> None:
    """Ann holds exactly this from now on."""
    # imported here: conftest.py needs this module before Django is up
    from catalog.access import grants
    from catalog.models import Grant

    Grant.objects.all().delete()
    if privilege:
        grants.grant(principal="user:ann", privilege=privilege, on=on, by="test")
