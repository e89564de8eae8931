"""REST of the catalog over Django's own stack and a real PostgreSQL."""

from __future__ import annotations

import json
import re
from urllib.parse import quote

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import get_resolver

from catalog.access import grants, users
from catalog.api import replies
from catalog.models import AuditEntry, Column, Datasource, Table
from core.models import Job
from tests.integration.catalog.conftest import PASSWORD, Rest, add_table

pytestmark = pytest.mark.django_db
CANARY = "canary-secret-7Qx!"


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


# ------------------------------------------------------------- endpoint x privilege
# Lowest right for each catalog endpoint: None = any user, "admin", or a privilege on
# the datasource `shop`. Endpoints of other parts are compared in their own tests.
LEAST = {
    ("GET", "config"): None,
    ("GET", "schema"): None,
    ("GET", "datasources"): None,
    ("POST", "datasources"): "admin",
    ("GET", "datasources/kinds"): None,
    ("GET", "datasources/<source:ds>"): "discover",
    ("PATCH", "datasources/<source:ds>"): "manage",
    ("DELETE", "datasources/<source:ds>"): "manage",
    ("POST", "datasources/<source:ds>:test"): "operate",
    ("POST", "datasources/<source:ds>:discover"): "operate",
    ("GET", "datasources/<source:ds>/databases"): "discover",
    ("GET", "datasources/<source:ds>/databases/<name:db>"): "discover",
    ("GET", "datasources/<source:ds>/databases/<name:db>/tables"): "discover",
    (
        "GET",
        "datasources/<source:ds>/databases/<name:db>/tables/<name:table>",
    ): "discover",
    ("GET", "tables"): None,
    ("GET", "tables/<id:id>"): "discover",
    ("GET", "tables/<id:id>/schema"): "discover",
    ("GET", "users"): None,
    ("POST", "users"): "admin",
    ("PATCH", "users/<name:name>"): "admin",
    ("GET", "grants"): None,
    ("POST", "grants"): "admin",
    ("DELETE", "grants/<id:id>"): "admin",
    ("GET", "tokens"): None,
    ("POST", "tokens"): None,
    ("DELETE", "tokens/<id:id>"): None,
    ("GET", "audit"): "admin",
}
VALID = {
    ("POST", "datasources"): new_source(),
    ("PATCH", "datasources/<source:ds>"): {"tls": "require"},
    ("POST", "users"): {"name": "zoe", "password": PASSWORD},
    ("PATCH", "users/<name:name>"): {"groups": ["x"]},
    ("POST", "grants"): {"principal": "group:x", "privilege": "select", "on": "lake"},
    ("POST", "tokens"): {"name": "t"},
}
GIVES = {
    "discover": ["discover", "select", "operate", "manage"],
    "operate": ["operate", "manage"],
    "manage": ["manage"],
}
HTTP = ["get", "post", "put", "patch", "delete"]


def live_routes(prefix="api/v1/"):
    """(method, route, view class) of everything below /api/v1."""

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
        if at.startswith(prefix):
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


def test_the_table_of_privileges_is_the_live_url_map():
    live = {
        (method, route)
        for method, route, view in live_routes()
        if view is not None
        and view.__module__.split(".")[0] in {"catalog", "drf_spectacular"}
        and view.__name__ not in {"NotYet", "NothingHere"}
    }
    assert live == set(LEAST)


def test_without_login_everything_below_the_api_answers_401():
    walked = list(live_routes())
    assert len(walked) > 60
    nobody = Rest()
    for method, route, _ in walked:
        reply = nobody(method, address(route), {})
        assert reply.status_code == 401, (method, route, reply.content[:200])
        assert reply["WWW-Authenticate"].startswith("Bearer")
        assert reply.json()["code"] == "unauthenticated"


@pytest.mark.parametrize("token", ["x", "slt_a_b", "slt_" + "0" * 12 + "_" + "A" * 43])
def test_a_wrong_token_is_401_everywhere(token):
    for method, path in [("GET", "config"), ("POST", "datasources"), ("GET", "none")]:
        problem(Rest(token)(method, path), 401, "unauthenticated")


def test_each_endpoint_wants_exactly_its_privilege(ann, shop):
    """Just enough gets through, anything less is 404 (unseen) or 403 (seen)."""
    table = Table.objects.get(database__name="public", name="orders")
    for (method, route), least in LEAST.items():
        body = VALID.get((method, route))
        if least is None or method == "DELETE":
            continue
        for held in [None, "discover", "select", "operate", "manage"]:
            grants_now(held)
            reply = ann(method, address(route, table.pk), body)
            what = (method, route, held, reply.content[:300])
            if least == "admin":
                assert reply.status_code in {403, 404}, what
            elif held in GIVES[least]:
                assert reply.status_code < 400, what
            elif held is None:
                assert reply.status_code == 404, what
            else:
                assert reply.status_code == 403, what
                assert reply.json()["privilege"] == least


def grants_now(privilege):
    from catalog.models import Grant

    Grant.objects.all().delete()
    if privilege:
        grants.grant(principal="user:ann", privilege=privilege, on="shop", by="test")


def test_deleting_wants_manage(ann, shop):
    grants_now("operate")
    problem(ann("DELETE", "datasources/shop"), 403, "missing_privilege")
    grants_now("manage")
    assert ann("DELETE", "datasources/shop").status_code == 204
    assert not Datasource.objects.filter(name="shop").exists()


def test_a_stranger_finds_nothing_that_exists(ann, shop, lake_orders):
    table = Table.objects.get(database__name="public", name="orders")
    for path in [
        "datasources/shop",
        "datasources/shop/databases",
        "datasources/shop/databases/public",
        "datasources/shop/databases/public/tables",
        "datasources/shop/databases/public/tables/orders",
        f"tables/{table.pk}",
        f"tables/{table.pk}/schema",
        "tables?name=shop.public.orders",
        "tables?name=shop.orders",
    ]:
        hidden = ann("GET", path)
        assert hidden.status_code == 404, path
        absent = ann("GET", path.replace("shop", "nope").replace(str(table.pk), "987"))
        assert _without(hidden, "shop", table.pk) == _without(absent, "nope", 987)
    for path in ["datasources", "tables", "tables?q=orders"]:
        assert ann("GET", path).json() == {"items": [], "next_page_token": None}


def _without(reply, name, number):
    body = reply.json()
    text = json.dumps({k: body[k] for k in ("code", "detail", "hint", "title")})
    return text.replace(name, "X").replace(str(number), "N")


# ------------------------------------------------------------- bodies
def test_a_table_body_carries_what_the_interface_says(admin, shop, lake_orders):
    body = admin("GET", f"tables/{lake_orders.pk}").json()
    assert {
        "id", "datasource", "database", "name", "source_name", "qualified_name", "kind",
        "columns", "record_key", "cursor", "partition_by", "table_type", "index",
        "status", "status_reason", "lag_seconds", "last_commit", "onboarding", "names",
    } <= set(body)  # fmt: skip
    assert body["qualified_name"] == "lake.shop.orders"
    assert body["names"] == {"lake": "lake.shop.orders", "jdbc": "shop.orders"}
    assert body["index"] == {"type": "bucket", "buckets": 4}
    assert body["last_commit"] is None
    assert {"name", "source_name", "type", "nullable", "key"} <= set(body["columns"][0])
    assert [c["name"] for c in body["columns"]] == ["id", "note"]
    source = admin("GET", "tables?name=shop.public.orders").json()["items"][0]
    assert source["names"] == {"lake": None, "jdbc": None}
    assert "path" not in body


def test_a_commit_shows_strings_where_numbers_would_break(admin, lake_orders):
    Table.objects.filter(pk=lake_orders.pk).update(
        last_commit_instant="20261121103000123",
        last_commit_position={"from": "1", "to": "2026-11-21 10:30:00+00"},
        last_commit_epoch=2**60,
    )
    commit = admin("GET", f"tables/{lake_orders.pk}").json()["last_commit"]
    assert commit["instant"] == "20261121103000123"
    assert commit["position"] == "2026-11-21 10:30:00+00"
    assert commit["epoch"] == str(2**60)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("tables?name=shop.orders", "lake.shop.orders"),
        ("tables?name=LAKE.Shop.ORDERS", "lake.shop.orders"),
        ("tables?name=shop.public.orders", "shop.public.orders"),
        ("tables?name=" + quote("shop.`my.db`.`a.b c`"), "shop.`my.db`.`a.b c`"),
        ("datasources/shop/databases/my.db/tables/a.b%20c", "shop.`my.db`.`a.b c`"),
        ("datasources/lake/databases/shop/tables/orders", "lake.shop.orders"),
    ],
)
def test_a_table_is_found_by_each_of_its_names(admin, shop, lake_orders, path, found):
    body = admin("GET", path).json()
    body = body["items"][0] if "items" in body else body
    assert body["qualified_name"] == found


def test_a_name_with_a_slash_is_reached_by_id_and_query(admin, shop):
    table = add_table(shop.databases.get(name="public"), "in/out")
    assert admin("GET", f"tables/{table.pk}").json()["name"] == "in/out"
    by_name = "datasources/shop/databases/public/tables?name=in%2Fout"
    assert admin("GET", by_name).json()["items"][0]["name"] == "in/out"


@pytest.mark.parametrize(
    ("q", "found"),
    [("ord", 3), ("RDER", 3), ("or", 3), ("public.ord", 1), ("zzz", 0), ("%", 0)],
)
def test_search_finds_parts_of_names(admin, shop, lake_orders, q, found):
    assert len(admin("GET", f"tables?q={quote(q)}").json()["items"]) == found


def test_paging_walks_everything_once_in_a_stable_order(admin, shop, lake_orders):
    for sort in ["name", "-name", "id", "-id"]:
        seen, token = [], None
        while True:
            more = f"&page_token={quote(token)}" if token else ""
            page = admin("GET", f"tables?page_size=2&sort={sort}{more}").json()
            assert len(page["items"]) <= 2
            seen += [item["id"] for item in page["items"]]
            token = page["next_page_token"]
            if token is None:
                break
            add_table(shop.databases.get(name="public"), f"0new{len(seen)}{sort}")
        assert len(seen) == len(set(seen))
        assert len(seen) >= 7


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("tables?page_size=0", "invalid_page_size"),
        ("tables?page_size=x", "invalid_page_size"),
        ("tables?page_token=x", "bad_page_token"),
        ("tables?sort=path", "invalid_sort"),
        ("tables?colour=red", "unknown_parameter"),
        ("tables?name=a", "invalid_name"),
        ("tables?name=a..b", "invalid_name"),
        ("tables?name=a.b&q=c", "invalid_request"),
        ("datasources?q=x", "unknown_parameter"),
    ],
)
def test_wrong_queries_are_400(admin, path, code):
    problem(admin("GET", path), 400, code)


def test_a_token_of_another_list_is_refused(admin, shop):
    token = admin("GET", "tables?page_size=1").json()["next_page_token"]
    problem(admin("GET", f"audit?page_token={token}"), 400, "bad_page_token")
    problem(admin("GET", f"tables?sort=id&page_token={token}"), 400, "bad_page_token")


# ------------------------------------------------------------- statements
@pytest.mark.parametrize("path", [
    "datasources",
    "datasources/shop",
    "datasources/shop/databases",
    "datasources/shop/databases/public",
    "datasources/shop/databases/public/tables",
    "datasources/shop/databases/public/tables/orders",
    "tables",
    "tables?q=orders",
    "tables?name=shop.public.orders",
    "tables/{id}",
    "tables/{id}/schema",
    "grants",
    "users",
    "tokens",
])  # fmt: skip
def test_a_look_up_takes_at_most_four_statements(ann, shop, path):
    """Login included; and no more with many rows than with few."""
    grants_now("discover")
    table = Table.objects.get(database__name="public", name="orders")
    database = table.database
    for number in range(20):
        add_table(database, f"more{number}")
    with CaptureQueriesContext(
        connection,
    ) as seen:
        reply = ann("GET", path.format(id=table.pk))
    assert reply.status_code == 200, reply.content
    statements = [q["sql"] for q in seen.captured_queries]
    assert len(statements) <= 4, "\n".join(statements)


# ------------------------------------------------------------- datasources
def test_a_datasource_lives_with_an_etag(admin):
    made = admin("POST", "datasources", new_source())
    assert made.status_code == 201
    assert made["Location"] == "/api/v1/datasources/crm"
    tag = made["ETag"]
    assert admin("GET", "datasources/crm")["ETag"] == tag
    assert admin("GET", "datasources/crm", If_None_Match=tag).status_code == 304
    changed = admin("PATCH", "datasources/crm", {"tls": "require"}, If_Match=tag)
    assert changed.status_code == 200
    assert changed["ETag"] != tag
    stale = admin("PATCH", "datasources/crm", {"tls": "off"}, If_Match=tag)
    problem(stale, 412, "precondition_failed")
    problem(
        admin("DELETE", "datasources/crm", If_Match=tag), 412, "precondition_failed"
    )
    assert Datasource.objects.get(name="crm").tls == "require"
    odd = admin("PATCH", "datasources/crm", {"tls": "off"}, If_Match='"x"')
    problem(odd, 412, "precondition_failed")


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"name": "lake"}, 400, "reserved_name"),
        ({"name": "Default"}, 400, "reserved_name"),
        ({"name": "a.b"}, 400, "invalid_name"),
        ({"name": "a:b"}, 400, "invalid_name"),
        ({"name": ""}, 400, "invalid_request"),
        ({"kind": "mariadb"}, 501, "not_yet"),
        ({"kind": "dbase"}, 400, "unknown_kind"),
        ({"port": 0}, 400, "invalid_request"),
        ({"port": "5432"}, 400, "invalid_request"),
        ({"port": 70_000}, 400, "invalid_request"),
        ({"tls": "maybe"}, 400, "invalid_datasource"),
        ({"url": "jdbc:x"}, 400, "unknown_field"),
        ({"host": "169.254.169.254"}, 400, "network_denied"),
        ({"host": "::ffff:169.254.169.254"}, 400, "network_denied"),
        ({"host": "0xA9FEA9FE"}, 400, "invalid_host"),
        ({"host": "db/x?y=z"}, 400, "invalid_host"),
        ({"host": "a b"}, 400, "invalid_host"),
        ({"options": {"socketFactory": "x"}}, 400, "invalid_options"),
        ({"options": {"max_parallel_reads": 99}}, 400, "invalid_options"),
        ({"options": {"max_parallel_reads": True}}, 400, "invalid_options"),
        ({"options": []}, 400, "invalid_request"),
        ({"database": None}, 400, "invalid_request"),
        ({"database": "a\nb"}, 400, "invalid_datasource"),
        ({"username": 7}, 400, "invalid_request"),
    ],
)
def test_wrong_datasources_are_refused_by_name(admin, change, status, code):
    body = problem(admin("POST", "datasources", new_source(**change)), status, code)
    assert status == 501 or body["errors"] or body["hint"]
    assert CANARY not in json.dumps(body)
    assert not Datasource.objects.filter(kind="postgresql").exists()


def test_a_later_kind_answers_501_whatever_else_is_missing(admin):
    problem(admin("POST", "datasources", {"kind": "mysql"}), 501, "not_yet")


def test_names_differ_by_more_than_case(admin):
    assert admin("POST", "datasources", new_source()).status_code == 201
    again = admin("POST", "datasources", new_source(name="CRM"))
    problem(again, 409, "name_taken")


def test_a_stored_password_is_not_sent_elsewhere(admin):
    admin("POST", "datasources", new_source())
    moved = admin("PATCH", "datasources/crm", {"host": "evil.example"})
    problem(moved, 400, "password_required")
    both = {"host": "other.example", "password": "another-secret"}
    assert admin("PATCH", "datasources/crm", both).status_code == 200


def test_a_datasource_in_use_is_not_deleted(admin, shop, monkeypatch):
    from catalog import extensions

    monkeypatch.setattr(
        extensions.registered, "blockers", [lambda _: ["public.orders"]]
    )
    body = problem(admin("DELETE", "datasources/shop"), 409, "in_use")
    assert "public.orders" in body["hint"]
    assert Table.objects.filter(database__datasource=shop).exists()


def test_the_lake_can_be_neither_changed_nor_tested(admin, lake_orders):
    for method, path, body in [
        ("PATCH", "datasources/lake", {"host": "x"}),
        ("DELETE", "datasources/lake", None),
        ("POST", "datasources/lake:discover", None),
    ]:
        problem(admin(method, path, body), 400, "lake_is_fixed")


def test_verbs_start_jobs(admin, shop):
    for verb in ["test", "discover"]:
        reply = admin("POST", f"datasources/shop:{verb}")
        assert reply.status_code == 202, reply.content
        body = reply.json()
        assert reply["Location"] == f"/api/v1/jobs/{body['id']}"
        assert {
            "id", "kind", "subject", "state", "progress", "reason", "error", "attempts",
            "created_at", "started_at", "finished_at",
        } <= set(body)  # fmt: skip
        assert Job.objects.filter(pk=body["id"]).exists()
    problem(admin("POST", "datasources/shop:frobnicate"), 404, "not_found")


def test_kinds_have_schemas(admin):
    items = {k["kind"]: k for k in admin("GET", "datasources/kinds").json()["items"]}
    schema = items["postgresql"]["schema"]
    assert schema["properties"]["password"]["writeOnly"] is True
    assert "max_parallel_reads" in schema["properties"]["options"]["properties"]
    assert items["mariadb"]["is_available"] is False


# ------------------------------------------------------------- idempotency
def test_a_repeated_post_changes_nothing(admin):
    first = admin("POST", "datasources", new_source(), Idempotency_Key="k1")
    again = admin("POST", "datasources", new_source(), Idempotency_Key="k1")
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == first.json()
    assert again["Location"] == first["Location"]
    assert again["Idempotency-Replayed"] == "true"
    other = admin("POST", "datasources", new_source(name="x"), Idempotency_Key="k1")
    problem(other, 422, "idempotency_key_reused")
    elsewhere = admin("POST", "tokens", {"name": "t"}, Idempotency_Key="k1")
    problem(elsewhere, 422, "idempotency_key_reused")


def test_a_refusal_is_kept_too_and_leaves_nothing(admin):
    bad = new_source(name="lake")
    first = admin("POST", "datasources", bad, Idempotency_Key="k2")
    again = admin("POST", "datasources", bad, Idempotency_Key="k2")
    assert first.status_code == again.status_code == 400
    assert first.json()["code"] == again.json()["code"] == "reserved_name"
    assert again["Content-Type"] == "application/problem+json"


def test_a_token_made_twice_is_one_token_and_not_stored_in_clear(admin):
    first = admin("POST", "tokens", {"name": "ci"}, Idempotency_Key="k3").json()
    again = admin("POST", "tokens", {"name": "ci"}, Idempotency_Key="k3").json()
    assert first["token"] == again["token"]
    with connection.cursor() as cursor:
        cursor.execute("SELECT t::text FROM catalog_idempotencykey t")
        kept = "".join(row[0] for row in cursor.fetchall())
    assert first["token"].rsplit("_", 1)[1] not in kept


def test_a_failure_of_ours_is_not_kept(admin, monkeypatch):
    import catalog.datasources as service

    real = service.audit.record

    def fail(*_, **__):
        raise RuntimeError("planted")

    monkeypatch.setattr(service.audit, "record", fail)
    reply = admin("POST", "datasources", new_source(), Idempotency_Key="k4")
    body = problem(reply, 500, "internal_error")
    assert "planted" not in json.dumps(body)
    assert not Datasource.objects.filter(name="crm").exists()
    monkeypatch.setattr(service.audit, "record", real)
    again = admin("POST", "datasources", new_source(), Idempotency_Key="k4")
    assert again.status_code == 201


def test_keys_belong_to_their_user(admin, person):
    other = person("eve", is_admin=True)
    admin("POST", "datasources", new_source(), Idempotency_Key="k5")
    mine = other("POST", "datasources", new_source(name="mine"), Idempotency_Key="k5")
    assert mine.status_code == 201


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
    later = {
        "principal": "group:bi",
        "privilege": "select",
        "on": "lake",
        "columns": [],
    }
    problem(admin("POST", "grants", later), 501, "not_yet")


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


# ------------------------------------------------------------- secrets
def test_a_secret_is_in_no_reply_log_or_row(admin, caplog):
    caplog.set_level("DEBUG")
    replies = [
        admin("POST", "datasources", new_source()),
        admin("GET", "datasources/crm"),
        admin("GET", "datasources"),
        admin("PATCH", "datasources/crm", {"password": CANARY + "2"}),
        admin("POST", "datasources", new_source(port="x")),
        admin("POST", "datasources:odd", new_source()),
        admin("GET", "audit"),
    ]
    for reply in replies:
        assert CANARY not in reply.content.decode()
    assert CANARY not in caplog.text
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names():
            cursor.execute(f'SELECT t::text FROM "{table}" t')
            assert CANARY not in "".join(row[0] for row in cursor.fetchall()), table
    row = Datasource.objects.get(name="crm")
    from catalog.secrets import password_of

    assert password_of(row) == CANARY + "2"


# ------------------------------------------------------------- problems, house
def test_later_and_unknown_addresses(admin, lake_orders):
    problem(admin("GET", f"tables/{lake_orders.pk}/schema-history"), 501, "not_yet")
    problem(admin("POST", f"tables/{lake_orders.pk}:restore"), 501, "not_yet")
    problem(admin("GET", "alerts"), 501, "not_yet")
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


def test_the_openapi_document_names_every_path(admin):
    reply = admin("GET", "schema")
    document = json.loads(reply.content)
    documented = {
        (method.upper(), re.sub(r"{[^}]+}", "{}", path.removeprefix("/api/v1/")))
        for path, methods in document["paths"].items()
        for method in methods
    }
    live = {
        (method, re.sub(r"<[^>]+>", "{}", route))
        for method, route, view in live_routes()
        if view is not None and getattr(view, "schema", None) is not None
    } - {("GET", "schema")}
    assert documented == live
    names = [m["operationId"] for p in document["paths"].values() for m in p.values()]
    assert len(names) == len(set(names))
    listing = document["paths"]["/api/v1/tables"]["get"]
    assert {"q", "name", "page_token"} <= {p["name"] for p in listing["parameters"]}
    assert "default" in listing["responses"]


def test_documented_replies_have_the_members_of_real_ones(admin, shop, lake_orders):
    grant = {"principal": "user:root", "privilege": "select", "on": "lake"}
    table = f"tables/{lake_orders.pk}"
    Table.objects.filter(pk=lake_orders.pk).update(last_commit_instant="1")
    real = {
        replies.Datasource: admin("GET", "datasources/shop"),
        replies.Kinds: admin("GET", "datasources/kinds"),
        replies.Database: admin("GET", "datasources/shop/databases/public"),
        replies.Table: admin("GET", table),
        replies.TableSchema: admin("GET", f"{table}/schema"),
        replies.Job: admin("POST", "datasources/shop:test"),
        replies.User: admin("POST", "users", {"name": "u", "password": PASSWORD}),
        replies.Grant: admin("POST", "grants", grant),
        replies.TokenOnce: admin("POST", "tokens", {"name": "t"}),
        replies.Problem: admin("GET", "tables/0"),
    }
    entries = admin("GET", "audit").json()["items"]
    compare(replies.AuditEntry(), entries[0])
    for serializer, reply in real.items():
        compare(serializer(), reply.json())


def compare(serializer, body):
    assert set(serializer.fields) == set(body), type(serializer)
    for name, field in serializer.fields.items():
        inner = getattr(field, "child", field)
        if hasattr(inner, "fields") and body[name]:
            compare(inner, body[name][0] if field is not inner else body[name])


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
    users.deactivate_user("ann", by="x")
    assert client.get("/api/v1/config").status_code == 401


def test_a_session_needs_csrf_to_change_things(ann):
    from django.test import Client

    client = Client(enforce_csrf_checks=True)
    assert client.login(username="ann", password=PASSWORD)
    reply = client.post(
        "/api/v1/tokens", data={"name": "x"}, content_type="application/json"
    )
    assert reply.status_code == 403
    assert not AuditEntry.objects.filter(action="token.create", actor="ann").exclude(
        object="ann/t"
    )


def test_columns_are_listed_in_their_order(admin, lake_orders):
    Column.objects.filter(table=lake_orders).delete()
    for position, name in enumerate(["z", "a", "m"]):
        Column.objects.create(
            table=lake_orders, position=position, name=name, source_name=name
        )
    body = admin("GET", f"tables/{lake_orders.pk}/schema").json()
    assert [c["name"] for c in body["columns"]] == ["z", "a", "m"]
