"""Every list pages, sorts and refuses in the same way."""

from __future__ import annotations

import pytest

from catalog.access import grants, users
from catalog.api.views import PAGING
from catalog.models import AccessRule, Datasource, SchemaVersion
from core.models import Job
from ingest.alerts import fan_out, store
from ingest.alerts.rules import Finding
from ingest.models import Onboarding
from ingest.models.alerts import AlertTarget
from tests.integration.catalog.asking import live_routes, problem

pytestmark = pytest.mark.django_db

# list: what names a row, and a sort that it has
LISTS = {
    "datasources": ("name", "name"),
    "datasources/<source:ds>/databases": ("name", "name"),
    "datasources/<source:ds>/databases/<name:db>/tables": ("id", "name"),
    "tables": ("id", "id"),
    "users": ("name", "name"),
    "groups": ("name", "name"),
    "invitations": ("name", "name"),
    "grants": ("id", "id"),
    "rules": ("id", "id"),
    "tokens": ("id", "id"),
    "saved-queries": ("name", "name"),
    "audit": ("id", "id"),
    "jobs": ("id", "created_at"),
    "onboardings": ("id", "created_at"),
    "tables/<id:id>/schema-history": ("version", "version"),
    "alerts": ("id", "id"),
    "alert-mutes": ("id", "id"),
    "alert-targets": ("name", "name"),
    "alert-targets/<source:target>/deliveries": ("id", "id"),
}
KINDS = ("failed", "late", "stuck")


@pytest.fixture
def full(admin, ann, shop, lake_orders):
    """At least three rows in each list, but two databases."""
    for number, kind in enumerate(KINDS):
        SchemaVersion.objects.create(table=lake_orders, version=number + 1, columns=[])
        AlertTarget.objects.create(
            name=f"t{number}", kind="webhook", address="http://x"
        )
        store.open_alert(lake_orders.pk, Finding(kind, cause="x", message="wrong"))
    fan_out.announce()
    for number in range(3):
        Datasource.objects.create(name=f"s{number}", kind="postgresql")
        name = f"u{number}"
        users.create_user(name, None, groups=[f"g{number}"], by="x")
        admin("POST", "invitations", {"name": f"new{number}"})
        grants.grant(principal=f"user:{name}", privilege="select", on="lake", by="x")
        AccessRule.objects.create(datasource="lake", database="shop", table=name)
        admin("POST", "alert-mutes", {"on": f"s{number}", "seconds": 60})
        admin("POST", "tokens", {"name": name})
        admin("POST", "saved-queries", {"name": name, "sql": "SELECT 1"})
        Job.objects.create(kind="sync", subject="x", subject_id=str(number))
        Onboarding.objects.create(datasource=shop, request={}, requested_by="x")


def test_these_are_the_lists():
    paging = {
        route
        for method, route, view in live_routes()
        if method == "GET" and getattr(view, "queries", frozenset()) >= PAGING
    }
    # sessions are in the gateway: walked in tests/integration/gateway/test_sessions.py
    assert paging == set(LISTS) | {"sessions"}


@pytest.mark.parametrize("route", list(LISTS))
def test_a_list_is_walked_forth_and_back_and_refuses_what_it_does_not_know(
    admin, full, lake_orders, route
):
    key, sort = LISTS[route]
    path = route.replace("<source:ds>", "shop").replace("<name:db>", "public")
    path = path.replace("<source:target>", "t1").replace("<id:id>", f"{lake_orders.pk}")
    whole = [row[key] for row in admin("GET", path).json()["items"]]
    assert len(whole) >= 2
    assert len(set(whole)) == len(whole)
    walks = {order: walk(admin, path, order, key) for order in ["", sort, f"-{sort}"]}
    assert walks[""] == whole
    assert walks[f"-{sort}"] == walks[sort][::-1]
    page = admin("GET", f"{path}?page_size=1").json()
    token = page["next_page_token"]
    other = f"{path}?page_size=1&page_token={token}&sort=-{sort}"
    if walks[f"-{sort}"] != whole:  # of another order
        problem(admin("GET", other), 400, "bad_page_token")
    problem(admin("GET", f"{path}?page_token={token[:-2]}xx"), 400, "bad_page_token")
    problem(admin("GET", f"{path}?sort=secret"), 400, "invalid_sort")
    problem(admin("GET", f"{path}?nme=x"), 400, "unknown_parameter")
    for size in ["0", "-1", "many", "1e3", "٣"]:
        problem(admin("GET", f"{path}?page_size={size}"), 400, "invalid_page_size")


def walk(admin, path: str, order: str, key: str) -> list[object]:
    found: list[object] = []
    token = ""
    while token is not None:
        more = f"&page_token={token}" if token else ""
        page = admin("GET", f"{path}?page_size=2&sort={order}{more}").json()
        found += [row[key] for row in page["items"]]
        token = page["next_page_token"]
    return found


def test_filters_of_jobs_are_checked(admin, full):
    problem(admin("GET", "jobs?state=RUNING"), 400, "invalid_state")
    problem(admin("GET", "jobs?is_finished=yes"), 400, "invalid_request")
    assert admin("GET", "jobs?state=QUEUED,RUNNING").status_code == 200
