"""Grants on columns: over REST, to engines, and in what SQL clients list."""

from __future__ import annotations

import pytest

from catalog.access import grants, policy_feed
from catalog.access.principals import principal_for
from catalog.models import AuditEntry
from catalog.selectors.lake import (
    lake_columns_of,
    lake_databases_matching,
    lake_tables_matching,
)
from tests.integration.catalog.asking import problem

pytestmark = pytest.mark.django_db
ORDERS = {"principal": "user:ann", "privilege": "select", "on": "lake.shop.orders"}


def names_of(user):
    found = lake_columns_of(principal_for(user), "shop", "orders")
    return [column.name for column in found]


def test_only_granted_columns_are_listed_and_sent_to_engines(admin, ann, lake_orders):
    assert names_of("ann") == []
    made = admin("POST", "grants", {**ORDERS, "columns": ["Note"]})
    assert made.status_code == 201, made.content
    assert made.json()["columns"] == ["note"]
    assert names_of("ann") == [
        *("_hoodie_commit_time", "_hoodie_commit_seqno"),
        *("note", "_sluice_seq", "_sluice_deleted"),
    ]
    assert lake_databases_matching(principal_for("ann"), None, limit=9) == ["shop"]
    tables = lake_tables_matching(principal_for("ann"), None, None, 9)
    assert [table.name for table in tables] == ["orders"]
    policy = policy_feed.policy_for("ann")
    assert (policy.select, policy.discover) == ((), ())
    assert policy.tables["shop.orders"].columns == {"note"}

    grants.grant(**{**ORDERS, "principal": "group:bi"}, columns=["id"], by="t")
    assert "_hoodie_record_key" in names_of("ann")  # the key is granted now

    assert admin("DELETE", f"grants/{made.json()['id']}").status_code == 204
    assert "note" not in names_of("ann")
    lines = AuditEntry.objects.filter(action__startswith="grant.").order_by("id")
    assert [line.facts["columns"] for line in lines] == [["note"], ["id"], ["note"]]


def test_pages_and_rest_of_the_catalog_stay_closed(admin, ann, lake_orders):
    admin("POST", "grants", {**ORDERS, "columns": ["id"]})
    assert ann("GET", "tables").json()["items"] == []
    assert ann("GET", "datasources").json()["items"] == []
    assert ann("GET", f"tables/{lake_orders.pk}").status_code == 404
    assert ann("GET", "tables?q=note").json()["items"] == []
    assert ann("GET", "grants").json()["items"][0]["columns"] == ["id"]


def test_the_same_columns_are_granted_once_and_others_beside_them(
    admin, ann, lake_orders
):
    first = admin("POST", "grants", {**ORDERS, "columns": ["note", "id", "id"]}).json()
    again = admin("POST", "grants", {**ORDERS, "columns": ["id", "note"]}).json()
    assert first == again
    assert first["columns"] == ["id", "note"]
    whole = admin("POST", "grants", ORDERS).json()
    assert whole["id"] != first["id"]
    assert whole["columns"] == []
    assert policy_feed.policy_for("ann").tables == {}


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"columns": []}, 400, "invalid_request"),
        ({"columns": ["nome"]}, 400, "unknown_column"),
        ({"columns": ["id"], "on": "lake.shop"}, 400, "invalid_columns"),
        ({"columns": ["id"], "privilege": "discover"}, 400, "invalid_columns"),
        ({"columns": ["id"], "on": "shop.public"}, 400, "invalid_columns"),
    ],
)
def test_columns_that_cannot_be_granted(
    admin, ann, shop, lake_orders, change, status, code
):
    body = {**ORDERS, **change}
    if code == "invalid_columns":
        body["allow_unknown"] = True
    problem(admin("POST", "grants", body), status, code)
