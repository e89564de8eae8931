"""The metadata database is away: every page says so, and what to do."""

from __future__ import annotations

import pytest
from django.contrib.sessions.backends.db import SessionStore
from django.db import OperationalError

pytestmark = pytest.mark.django_db


@pytest.fixture
def root(world, browse, monkeypatch):
    """Logged in before it went away."""
    client = browse("root")
    client.raise_request_exception = False
    monkeypatch.setattr(SessionStore, "load", away)
    return client


def away(*_):
    raise OperationalError("connection refused")


@pytest.mark.parametrize("path", ["/", "/tables", "/login"])
def test_a_page_says_that_it_is_away(root, path):
    reply = root.get(path)
    assert (reply.status_code, reply["Retry-After"]) == (503, "5")
    text = reply.content.decode()
    assert "The metadata database cannot be reached or is too busy" in text
    assert "What to do:" in text


def test_it_says_so_in_the_language_of_the_browser(root):
    reply = root.get("/", HTTP_ACCEPT_LANGUAGE="zh-Hans")
    assert "元数据库无法连接" in reply.content.decode()


def test_rest_by_session_says_the_same(root):
    reply = root.get("/api/v1/tables")
    assert (reply.status_code, reply.json()["code"]) == (503, "database_unavailable")


def test_readiness_is_told_to_a_browser_that_is_logged_in(root):
    assert root.get("/health/ready")["Content-Type"] == "application/json"


def test_what_is_not_foreseen_names_the_id_under_which_it_is_logged(root, monkeypatch):
    def broken(*_):
        raise ValueError("secret")

    monkeypatch.setattr(SessionStore, "load", broken)
    reply = root.get("/")
    text = reply.content.decode()
    assert reply.status_code == 500
    assert reply["X-Request-ID"] in text
    assert "secret" not in text
