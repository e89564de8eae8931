"""Users, grants, tokens, sessions and the audit over REST; health and metrics."""

from __future__ import annotations

import json

import pytest
from django.test import Client

from catalog.access import users
from catalog.models import AuditEntry
from tests.integration.catalog.asking import Rest, new_source, problem
from tests.integration.catalog.conftest import PASSWORD

pytestmark = pytest.mark.django_db


# ------------------------------------------------------------- users, grants, tokens
def test_users_over_rest(admin):
    made = admin(
        "POST", "users", {"name": "zoe", "password": PASSWORD, "groups": ["bi"]}
    )
    assert made.status_code == 201
    assert made.json()["groups"] == ["bi"]
    assert "password" not in made.json()
    changed = admin("PATCH", "users/zoe", {"groups": ["ops"], "is_active": False})
    assert changed.json()["groups"] == ["ops"]
    assert changed.json()["is_active"] is False
    taken = admin("POST", "users", {"name": "zoe", "password": PASSWORD})
    problem(taken, 409, "name_taken")
    problem(admin("PATCH", "users/root", {"is_admin": False}), 409, "last_admin")
    problem(admin("PATCH", "users/none", {"groups": []}), 404, "user_not_found")
    weak = admin("POST", "users", {"name": "bob", "password": "password"})
    assert problem(weak, 400, "weak_password")["errors"]


def test_deactivation_ends_a_token_at_once(admin, ann):
    assert ann("GET", "config").status_code == 200
    admin("PATCH", "users/ann", {"is_active": False})
    problem(ann("GET", "config"), 401, "unauthenticated")


def test_grants_over_rest(admin, ann, shop, lake_orders):
    assert ann("GET", "tables").json()["items"] == []
    made = admin(
        "POST",
        "grants",
        {"principal": "group:bi", "privilege": "select", "on": "lake.shop"},
    )
    assert made.status_code == 201
    items = ann("GET", "tables").json()["items"]
    assert [item["qualified_name"] for item in items] == ["lake.shop.orders"]
    seen = ann("GET", "grants").json()["items"]
    assert [g["on"] for g in seen] == ["lake.shop"]
    assert admin("DELETE", f"grants/{made.json()['id']}").status_code == 204
    assert ann("GET", "tables").json()["items"] == []


@pytest.mark.parametrize("name", ["a\nb", "\x1b[31m", "a\u202eb", " "])
def test_a_token_has_a_name_that_can_be_read(ann, name):
    problem(ann("POST", "tokens", {"name": name}), 400, "invalid_request")


def test_a_token_lives_and_dies_over_rest(ann, admin):
    made = ann("POST", "tokens", {"name": "cli", "expires_in_days": 1})
    assert made.status_code == 201
    body = made.json()
    mine = Rest(body["token"])
    assert mine("GET", "config").status_code == 200
    listed = ann("GET", "tokens").json()["items"]
    assert body["token"] not in json.dumps(listed)
    assert {t["id"] for t in listed} >= {body["id"]}
    assert ann("DELETE", f"tokens/{body['id']}").status_code == 204
    problem(mine("GET", "config"), 401, "unauthenticated")
    theirs = admin("POST", "tokens", {"name": "x"}).json()["id"]
    problem(ann("DELETE", f"tokens/{theirs}"), 404, "token_not_found")


def test_the_audit_tells_who_did_what(admin, ann):
    admin("POST", "datasources", new_source(), X_Request_ID="req-77")
    problem(ann("GET", "audit"), 403, "admin_only")
    entries = admin("GET", "audit?action=datasource.create").json()["items"]
    assert [(e["actor"], e["object"], e["door"]) for e in entries] == [
        ("root", "crm", "rest")
    ]
    assert entries[0]["request_id"] == "req-77"
    denied = admin("GET", "audit?is_allowed=false&actor=ann").json()["items"]
    assert [e["action"] for e in denied] == ["admin.denied"]


# ------------------------------------------------------------- problems, instance
def test_unknown_addresses(admin):
    problem(admin("GET", "nothing/here"), 404, "not_found")
    problem(admin("GET", "tables/999999999999999999"), 404, "table_not_found")
    problem(admin("PUT", "datasources", {}), 405, "method_not_allowed")
    problem(admin("POST", "tokens", b"{"), 400, "invalid_request")
    problem(admin("POST", "tokens", []), 400, "invalid_request")


def test_request_ids_come_back_when_they_are_sane(admin):
    assert admin("GET", "config", X_Request_ID="abc-1")["X-Request-ID"] == "abc-1"
    assert admin("GET", "config", X_Request_ID="a b\x7f")["X-Request-ID"] != "a b\x7f"


def test_config_says_who_and_what(ann):
    body = ann("GET", "config").json()
    assert body["user"] == {"name": "ann", "groups": ["bi"], "is_admin": False}
    assert body["limits"]["page_size_max"] == 1000
    assert "sluice" in body["versions"]


def test_health_and_metrics_need_no_login(db, redis_url, settings, tmp_path):
    settings.SLUICE_REDIS_URL = redis_url
    settings.SLUICE_LAKE_URI = str(tmp_path)
    nobody = Rest()
    assert nobody("GET", "/health/live").json() == {"status": "ok"}
    reply = nobody("GET", "/health/ready")
    assert reply.status_code == 200, reply.content
    text = nobody("GET", "/metrics").content.decode()
    for name in ["sluice_http_requests_total", "sluice_datasources", "sluice_jobs"]:
        assert name in text


def test_ready_names_what_is_away(db, settings):
    settings.SLUICE_REDIS_URL = "redis://127.0.0.1:1/0"
    settings.SLUICE_LAKE_URI = "/proc/lake"
    reply = Rest()("GET", "/health/ready")
    assert reply.status_code == 503
    down = {c["name"] for c in reply.json()["checks"] if not c["ok"]}
    assert "broker" in down


def test_metrics_carry_no_names(shop, lake_orders):
    text = Rest()("GET", "/metrics").content.decode()
    assert "orders" not in text
    assert "db.example" not in text


def test_sessions_work_beside_tokens(ann):
    client = Rest().client
    assert client.login(username="ann", password=PASSWORD)
    assert client.get("/api/v1/config").json()["user"]["name"] == "ann"
    users.update_user("ann", users.UserChange(is_active=False), by="x")
    assert client.get("/api/v1/config").status_code == 401


def test_a_session_needs_csrf_to_change_things(ann):
    client = Client(enforce_csrf_checks=True)
    assert client.login(username="ann", password=PASSWORD)
    reply = client.post(
        "/api/v1/tokens", data={"name": "x"}, content_type="application/json"
    )
    assert reply.status_code == 403
    assert not AuditEntry.objects.filter(action="token.create", actor="ann").exclude(
        object="ann/t"
    )
