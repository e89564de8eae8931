"""Owner and tags: set over REST, filtered by, found, and gone with their owner."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from catalog.access import grants
from catalog.models import AuditEntry, Datasource, Table
from tests.integration.catalog.asking import grants_now, problem


def test_a_table_is_labelled_and_found(admin, ann, shop, lake_orders) -> None:
    at = f"tables/{lake_orders.pk}"
    assert (admin("GET", at).json()["owner"], admin("GET", at).json()["tags"]) == (
        None,
        [],
    )
    body = {"owner": "user:ann", "tags": ["Finance", "daily", "finance"]}
    changed = admin("PATCH", at, body).json()
    assert (changed["owner"], changed["tags"]) == ("user:ann", ["daily", "finance"])
    for query in (
        "tag=finance",
        "tag=Finance",
        "owner=user:ann",
        "tag=daily&q=orders",
        "tag=daily&sort=name",
    ):
        found = admin("GET", f"tables?{query}").json()["items"]
        assert [one["id"] for one in found] == [lake_orders.pk], query
    for query in (
        "tag=fin",
        "owner=user:root",
        "tag=finance&owner=group:bi",
        "tag=x&q=orders",
    ):
        assert admin("GET", f"tables?{query}").json()["items"] == [], query
    kept = admin("PATCH", at, {"owner": None}).json()
    assert (kept["owner"], kept["tags"]) == (None, ["daily", "finance"])
    entry = AuditEntry.objects.filter(action="table.label").earliest("id")
    assert (entry.object, entry.facts["owner"]) == ("lake.shop.orders", "user:ann")


def test_a_change_locks_its_row_once(admin, lake_orders) -> None:
    with CaptureQueriesContext(connection) as sent:
        changed = admin("PATCH", f"tables/{lake_orders.pk}", {"tags": ["x"]})
    assert changed.status_code == 200
    statements = [one["sql"] or "" for one in sent]
    assert len([s for s in statements if 'FOR UPDATE OF "catalog_table"' in s]) == 1


def test_small_scopes_are_searched_by_labels_too(admin, ann, lake_orders) -> None:
    admin("PATCH", f"tables/{lake_orders.pk}", {"tags": ["x"]})
    assert ann("GET", "tables?tag=x&q=orders").json()["items"] == []
    grants.grant(
        principal="user:ann", privilege="discover", on="lake.shop.orders", by="root"
    )
    assert len(ann("GET", "tables?tag=x&q=orders").json()["items"]) == 1
    assert ann("GET", "tables?tag=y&q=orders").json()["items"] == []


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"owner": "ann"}, "invalid_principal"),
        ({"owner": "user:nobody"}, "unknown_user"),
        ({"owner": "group:none"}, "unknown_group"),
        ({"tags": ["two words"]}, "invalid_tag"),
        ({"tags": [f"t{n}" for n in range(21)]}, "invalid_tag"),
        ({"comment": "x"}, "unknown_field"),
    ],
)
def test_what_is_no_owner_and_no_tag(admin, lake_orders, body, code) -> None:
    problem(admin("PATCH", f"tables/{lake_orders.pk}", body), 400, code)
    assert not Table.objects.exclude(owner="", tags=[]).exists()


def test_an_owner_gets_no_right_by_it(admin, ann, lake_orders) -> None:
    admin("PATCH", f"tables/{lake_orders.pk}", {"owner": "user:ann"})
    problem(ann("GET", f"tables/{lake_orders.pk}"), 404, "table_not_found")
    grants_now("operate", on="lake.shop")
    at = f"tables/{lake_orders.pk}"
    problem(ann("PATCH", at, {"owner": None}), 403, "missing_privilege")


@pytest.mark.parametrize("owner", ["user:ann", "group:bi"])
def test_a_deleted_owner_owns_nothing(admin, ann, shop, lake_orders, owner) -> None:
    admin("PATCH", f"tables/{lake_orders.pk}", {"owner": owner})
    admin("PATCH", "datasources/shop", {"owner": owner})
    kind, _, name = owner.partition(":")
    assert admin("DELETE", f"{kind}s/{name}").status_code == 204
    assert admin("GET", f"tables/{lake_orders.pk}").json()["owner"] is None
    assert admin("GET", "datasources/shop").json()["owner"] is None


def test_a_source_is_labelled_and_found(admin, shop) -> None:
    Datasource.objects.update(test_result={"ok": True})
    body = {"owner": "user:root", "tags": ["Finance", "daily"]}
    changed = admin("PATCH", "datasources/shop", body).json()
    assert (changed["owner"], changed["tags"]) == ("user:root", ["daily", "finance"])
    assert changed["test_result"] == {"ok": True}, "it connects as before"
    for query, count in (("tag=Finance", 1), ("owner=user:root", 1), ("tag=x", 0)):
        found = admin("GET", f"datasources?{query}").json()["items"]
        assert len(found) == count, query
    kept = admin("PATCH", "datasources/shop", {"owner": None}).json()
    assert (kept["owner"], kept["tags"]) == (None, ["daily", "finance"])
    wrong = admin("PATCH", "datasources/shop", {"owner": "user:nobody"})
    problem(wrong, 400, "unknown_user")
    told = AuditEntry.objects.filter(action="datasource.update").latest("id")
    assert told.facts["fields"] == ["owner"]


def test_a_source_is_registered_with_its_labels(admin) -> None:
    body = {
        "name": "crm",
        "kind": "postgresql",
        "host": "127.0.0.1",
        "database": "crm",
        "username": "reader",
        "owner": "user:root",
        "tags": ["b", "a"],
    }
    made = admin("POST", "datasources", body).json()
    assert (made["owner"], made["tags"]) == ("user:root", ["a", "b"])


def test_labels_that_somebody_else_set_meanwhile_are_not_overwritten(
    admin, lake_orders
) -> None:
    at = f"tables/{lake_orders.pk}"
    tag = admin("GET", at)["ETag"]
    assert admin("PATCH", at, {"tags": ["x"]}, If_Match=tag).status_code == 200
    late = admin("PATCH", at, {"tags": ["y"]}, If_Match=tag)
    problem(late, 412, "precondition_failed")
    assert admin("GET", at).json()["tags"] == ["x"]
