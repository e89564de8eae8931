"""Every endpoint with its privilege, compared with the live URL map; nobody gets past."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import call_command

from catalog.access.policy import IMPLIED, Privilege
from catalog.api import access_replies, replies
from catalog.models import Datasource, Table
from core.models import Job
from tests.integration.catalog.asking import (
    Rest,
    address,
    grants_now,
    live_routes,
    new_source,
    problem,
)
from tests.integration.catalog.conftest import PASSWORD

pytestmark = pytest.mark.django_db

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
    ("PATCH", "tables/<id:id>"): "manage",
    ("GET", "tables/<id:id>/schema"): "discover",
    ("GET", "tables/<id:id>/schema-history"): "discover",
    ("GET", "users"): None,
    ("POST", "users"): "admin",
    ("GET", "users/<name:name>"): None,
    ("PATCH", "users/<name:name>"): "admin",
    ("DELETE", "users/<name:name>"): "admin",
    ("GET", "invitations"): "admin",
    ("POST", "invitations"): "admin",
    ("DELETE", "invitations/<id:id>"): "admin",
    ("GET", "groups"): "admin",
    ("GET", "groups/<name:name>"): "admin",
    ("DELETE", "groups/<name:name>"): "admin",
    ("POST", "password"): None,
    ("GET", "grants"): None,
    ("POST", "grants"): "admin",
    ("DELETE", "grants/<id:id>"): "admin",
    ("GET", "grants/effective"): None,
    ("GET", "rules"): "admin",
    ("POST", "rules"): "admin",
    ("GET", "rules/<id:id>"): "admin",
    ("PATCH", "rules/<id:id>"): "admin",
    ("DELETE", "rules/<id:id>"): "admin",
    ("GET", "access/explain"): None,
    ("GET", "tokens"): None,
    ("POST", "tokens"): None,
    ("DELETE", "tokens/<id:id>"): None,
    ("GET", "audit"): "admin",
    ("GET", "saved-queries"): None,
    ("POST", "saved-queries"): None,
    ("GET", "saved-queries/<id:id>"): None,
    ("PATCH", "saved-queries/<id:id>"): None,
    ("DELETE", "saved-queries/<id:id>"): None,
}
VALID = {
    ("POST", "datasources"): new_source(),
    ("PATCH", "datasources/<source:ds>"): {"tls": "require"},
    ("POST", "users"): {"name": "zoe", "password": PASSWORD},
    ("PATCH", "users/<name:name>"): {"groups": ["x"]},
    ("POST", "invitations"): {"name": "zoe"},
    ("POST", "password"): {
        "current_password": PASSWORD,
        "new_password": PASSWORD,
        "keep_tokens": True,
    },
    ("POST", "grants"): {"principal": "group:x", "privilege": "select", "on": "lake"},
    ("POST", "rules"): {
        "kind": "row_filter",
        "on": "lake.shop.orders",
        "applies_to": ["everyone"],
        "expression": "id > 1",
    },
    ("PATCH", "rules/<id:id>"): {"applies_to": ["everyone"]},
    ("PATCH", "tables/<id:id>"): {"tags": ["finance"]},
    ("POST", "tokens"): {"name": "t"},
    ("POST", "saved-queries"): {"name": "q", "sql": "SELECT 1"},
    ("PATCH", "saved-queries/<id:id>"): {"name": "q"},
}
GIVES = {
    "discover": ["discover", "select", "operate", "manage"],
    "operate": ["operate", "manage"],
    "manage": ["manage"],
}


# The same for ingest and gateway, on a table of the lake; "shop" marks the source.
LEAST_OF_OTHERS = {
    ("GET", "access/preview"): "admin",
    ("GET", "onboardings"): None,
    ("POST", "onboardings"): "manage shop",
    ("GET", "onboardings/<uuid:onboarding_id>"): "of its source",
    ("POST", "onboardings/<uuid:onboarding_id>:approve"): "of its source",
    ("POST", "onboardings/<uuid:onboarding_id>:discard"): "of its source",
    ("GET", "jobs"): None,
    ("GET", "jobs/<uuid:job_id>"): "discover",
    ("GET", "jobs/<uuid:job_id>/logs"): "discover",
    ("GET", "jobs/<uuid:job_id>/events"): "discover",
    ("POST", "jobs/<uuid:job_id>:cancel"): "operate",
    ("POST", "jobs/<uuid:job_id>:retry"): "operate",
    ("POST", "tables/<id:table_id>:sync"): "operate",
    ("POST", "tables/<id:table_id>:resync"): "operate",
    ("POST", "tables/<id:table_id>:follow-log"): "operate",
    ("POST", "tables/<id:table_id>:follow-cursor"): "operate",
    ("POST", "tables/<id:table_id>:approve-schema-change"): "operate",
    ("GET", "tables/<id:table_id>/schema-change"): "discover",
    ("GET", "schema-changes"): None,
    ("POST", "schema-changes:approve"): None,
    ("POST", "tables/<id:table_id>:pause"): "operate",
    ("POST", "tables/<id:table_id>:resume"): "operate",
    ("POST", "tables/<id:table_id>:share-driver"): "operate",
    ("POST", "tables/<id:table_id>:compact"): "operate",
    ("POST", "tables/<id:table_id>:verify"): "operate",
    ("POST", "tables/<id:table_id>:remove"): "manage",
    ("POST", "tables:remove"): None,
    ("GET", "datasources/<source:ds>/policy"): "discover",
    ("POST", "datasources/<source:ds>:resume"): "operate",
    ("GET", "datasources/<source:ds>/capture"): "discover",
    ("POST", "datasources/<source:ds>:start-capture"): "operate",
    ("POST", "datasources/<source:ds>:stop-capture"): "operate",
    ("PATCH", "datasources/<source:ds>/policy"): "manage",
    ("GET", "datasources/<source:ds>/databases/<name:db>/policy"): "discover",
    ("PATCH", "datasources/<source:ds>/databases/<name:db>/policy"): "manage",
    ("GET", "tables/<id:table_id>/policy"): "discover",
    ("PATCH", "tables/<id:table_id>/policy"): "manage",
    ("GET", "tables/<id:table_id>/commits"): "discover",
    ("GET", "tables/<id:table_id>/sample"): "select",
    ("GET", "tables/<id:table_id>/changes"): "select",
    ("GET", "tables/<id:table_id>/health"): "discover",
    ("GET", "tables/<id:table_id>/files"): "discover",
    ("GET", "tables/<id:table_id>/metrics"): "discover",
    ("POST", "tables/<id:table_id>:rollback"): "operate",
    ("POST", "tables/<id:table_id>:unschedule-compaction"): "operate",
    ("POST", "tables/<id:table_id>:deduplicate"): "operate",
    ("POST", "tables/<id:table_id>:clean"): "operate",
    ("POST", "tables/<id:table_id>:restore"): "operate",
    ("POST", "tables/<id:table_id>:resize"): "operate",
    ("POST", "tables/<id:table_id>:repair"): "operate",
    ("POST", "tables/<id:table_id>:join-shards"): "operate",
    ("POST", "tables/<id:table_id>:leave-shards"): "operate",
    ("POST", "tables/<id:table_id>:drop-metadata-table"): "operate",
    ("GET", "tables/<id:table_id>/savepoints"): "discover",
    ("POST", "tables/<id:table_id>/savepoints"): "operate",
    ("GET", "alerts"): None,
    ("POST", "alerts/<id:id>:dismiss"): "operate",
    ("POST", "alerts/<id:id>:acknowledge"): "operate",
    ("GET", "alert-mutes"): None,
    ("POST", "alert-mutes"): "operate",
    ("DELETE", "alert-mutes/<id:id>"): "operate",
    ("GET", "alert-targets"): "admin",
    ("POST", "alert-targets"): "admin",
    ("GET", "alert-targets/<source:target>"): "admin",
    ("PATCH", "alert-targets/<source:target>"): "admin",
    ("DELETE", "alert-targets/<source:target>"): "admin",
    ("POST", "alert-targets/<source:target>:test"): "admin",
    ("POST", "alert-targets/<source:target>:resume"): "admin",
    ("GET", "alert-targets/<source:target>/deliveries"): "admin",
    ("POST", "sql/statements"): "in the engine",
    ("GET", "sql/statements/<uuid:id>"): "own",
    ("GET", "sql/statements/<uuid:id>/results"): "own",
    ("POST", "sql/statements/<uuid:id>:cancel"): "own",
    ("GET", "sessions"): "admin",
    ("DELETE", "sessions/<uuid:id>"): "admin",
}


def test_the_tables_of_privileges_are_the_live_url_map():
    live = {
        (method, route)
        for method, route, view in live_routes()
        if view.__name__ not in {"NotYet", "NothingHere"}
    }
    assert live == set(LEAST) | set(LEAST_OF_OTHERS)
    assert not set(LEAST) & set(LEAST_OF_OTHERS)


@pytest.mark.parametrize(
    ("method", "route", "least"),
    [
        (method, route, least)
        for (method, route), least in LEAST_OF_OTHERS.items()
        if least in set(Privilege) and "<id:table_id>" in route
    ],
)
def test_verbs_on_a_lake_table_want_their_privilege(
    ann, lake_orders, method, route, least
):
    path = address(route, lake_orders.pk)
    for held in [None, *Privilege]:
        grants_now(held, on="lake.shop.orders")
        status = ann(method, path, {} if method == "POST" else None).status_code
        if held is None:
            assert status == 404
        elif least in {p.value for p in IMPLIED[held]}:
            assert status not in {401, 403, 404}, held
        else:
            assert status == 403, held


@pytest.mark.parametrize("verb", ["cancel", "retry"])
def test_jobs_are_as_visible_as_what_they_work_on(ann, lake_orders, verb):
    job = Job.objects.create(
        kind="sync", subject="lake.shop.orders", subject_id=str(lake_orders.pk)
    )
    looks = [("GET", f"jobs/{job.pk}"), ("GET", f"jobs/{job.pk}/logs")]
    grants_now(None)
    for method, path in [*looks, ("POST", f"jobs/{job.pk}:{verb}")]:
        assert ann(method, path).status_code == 404
    assert ann("GET", "jobs").json()["items"] == []
    grants_now("discover", on="lake.shop.orders")
    for method, path in looks:
        assert ann(method, path).status_code == 200
    assert ann("POST", f"jobs/{job.pk}:{verb}").status_code == 403


def test_onboarding_wants_manage_on_the_source(ann, shop):
    body = {
        "datasource": "shop",
        "include": ["public.*"],
        "capture": "snapshot",
        "dry_run": True,
    }
    for held, status in [(None, 404), ("discover", 403), ("operate", 403)]:
        grants_now(held)
        assert ann("POST", "onboardings", body).status_code == status


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
        f"tables/{table.pk}/schema-history",
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
        replies.Config: admin("GET", "config"),
        replies.Datasource: admin("GET", "datasources/shop"),
        replies.Database: admin("GET", "datasources/shop/databases/public"),
        replies.TableDetail: admin("GET", table),
        replies.TableSchema: admin("GET", f"{table}/schema"),
        replies.Job: admin("POST", "datasources/shop:test"),
        access_replies.User: admin(
            "POST", "users", {"name": "u", "password": PASSWORD}
        ),
        access_replies.Grant: admin("POST", "grants", grant),
        access_replies.EffectiveRights: admin("GET", "grants/effective?on=lake"),
        access_replies.Rule: admin("POST", "rules", VALID["POST", "rules"]),
        access_replies.Explained: admin(
            "GET", "access/explain?on=lake.shop.orders&principal=user:root"
        ),
        access_replies.TokenOnce: admin("POST", "tokens", {"name": "t"}),
        replies.Problem: admin("GET", "tables/0"),
    }
    entries = admin("GET", "audit").json()["items"]
    compare(access_replies.AuditEntry(), entries[0])
    kinds = admin("GET", "datasources/kinds").json()["items"]
    compare(replies.KindOf(), kinds[0])
    for serializer, reply in real.items():
        compare(serializer(), reply.json())


def compare(serializer, body):
    assert set(serializer.fields) == set(body), type(serializer)
    for name, field in serializer.fields.items():
        inner = getattr(field, "child", field)
        if hasattr(inner, "fields") and body[name]:
            compare(inner, body[name][0] if field is not inner else body[name])


def test_every_list_says_whether_there_is_more(admin):
    lists = []
    for method, route, _ in live_routes():
        if method == "GET" and "<" not in route:
            reply = admin("GET", route)
            is_json = reply.headers["Content-Type"].startswith("application/json")
            if reply.status_code == 200 and is_json and "items" in reply.json():
                lists.append(route)
                assert "next_page_token" in reply.json(), route
    assert len(lists) > 10


def test_the_committed_openapi_document_is_fresh(capsys):
    """A changed surface shows in the diff of a commit."""
    call_command("spectacular")
    committed = Path(settings.BASE_DIR, "docs", "openapi.yaml").read_text()
    assert capsys.readouterr().out.rstrip() == committed.rstrip(), (
        "run `python manage.py spectacular --file docs/openapi.yaml`"
    )
