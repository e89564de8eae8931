"""Look-ups over REST: bodies, names, search, paging, statement counts."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from catalog.models import Column, SchemaVersion, Table
from tests.integration.catalog.asking import grants_now, problem
from tests.integration.catalog.conftest import add_table

pytestmark = pytest.mark.django_db


# ------------------------------------------------------------- bodies
def test_a_table_body_carries_what_the_interface_says(admin, shop, lake_orders):
    body = admin("GET", f"tables/{lake_orders.pk}").json()
    assert {
        "id", "datasource", "database", "name", "source_name", "qualified_name", "kind",
        "columns", "record_key", "cursor", "partition_by", "table_type", "index",
        "status", "status_reason", "lag_seconds", "last_commit", "onboarding", "names",
        "capture",
    } <= set(body)  # fmt: skip
    assert body["qualified_name"] == "lake.shop.orders"
    assert body["names"] == {"lake": "lake.shop.orders", "jdbc": "shop.orders"}
    assert body["index"] == {"type": "BUCKET", "buckets": 4}
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


def test_the_history_of_columns_says_what_changed(admin, lake_orders):
    # "lossy": what a lake table's plan says besides
    column = {"source_type": "x", "nullable": True, "key": 0, "lossy": "null"}
    versions = [
        [{"name": "id", "source_name": "id", "type": "int", **column}],
        [{"name": "id", "source_name": "id", "type": "bigint", **column}],
        [{"name": "v", "source_name": "v", "type": "string", **column}],
    ]
    for number, columns in enumerate(versions, start=1):
        SchemaVersion.objects.create(table=lake_orders, version=number, columns=columns)
    where = f"tables/{lake_orders.pk}"
    page = admin("GET", f"{where}/schema-history?page_size=2").json()
    assert [(s["version"], s["columns"]) for s in page["items"]] == [(3, 1), (2, 1)]
    newest, middle = ([c["kind"] for c in s["changes"]] for s in page["items"])
    assert (newest, middle) == (["removed", "added"], ["widened"])
    assert page["items"][0]["changes"][0]["is_breaking"] is True
    token = page["next_page_token"]
    rest = admin("GET", f"{where}/schema-history?page_size=2&page_token={token}").json()
    assert [(s["version"], s["changes"]) for s in rest["items"]] == [(1, [])]
    first = admin("GET", f"{where}/schema?version=1").json()
    assert [c["type"] for c in first["columns"]] == ["int"]
    now = admin("GET", f"{where}/schema").json()
    assert (set(first), set(first["columns"][0])) == (set(now), set(now["columns"][0]))
    for odd in ("4", "x", "-1", "9" * 30, ""):
        reply = admin("GET", f"{where}/schema?version={odd}")
        problem(reply, 404, "schema_version_not_found")


def test_columns_are_listed_in_their_order(admin, lake_orders):
    Column.objects.filter(table=lake_orders).delete()
    for position, name in enumerate(["z", "a", "m"]):
        Column.objects.create(
            table=lake_orders, position=position, name=name, source_name=name
        )
    body = admin("GET", f"tables/{lake_orders.pk}/schema").json()
    assert [c["name"] for c in body["columns"]] == ["z", "a", "m"]
