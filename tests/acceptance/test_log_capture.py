"""A table that follows PostgreSQL's log, from REST to rows over JDBC: what is inserted,
updated, deleted, re-keyed and truncated at the source is so in the lake."""

from __future__ import annotations

from typing import Any

import pytest

from tests.product import LOOK_SECONDS, Product
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(1500)

CREATE = """
CREATE TABLE "Or d" (id int PRIMARY KEY, name text, big text, at timestamptz);
CREATE TABLE items (id bigint PRIMARY KEY, price numeric(10,2));
INSERT INTO "Or d" SELECT g, 'row ' || g, repeat('x', 3000) || g, '2024-01-01'
  FROM generate_series(1, 1000) g;
INSERT INTO items SELECT g, g * 1.5 FROM generate_series(1, 10) g;
"""


@pytest.fixture(scope="module")
def followed(product: Product) -> Any:
    """The lake's names of both tables, which follow the log, by source name."""
    with product.source() as admin:
        admin.execute("CREATE DATABASE followed")
    with product.source("followed") as source:
        source.execute(CREATE)
        source.execute("ANALYZE")
    product.register("followed")
    product.discover("followed")
    body = {"datasource": "followed", "include": ["public.*"], "capture": "log"}
    product.api.post("/onboardings", {**body, "approve": True})
    found = {}
    for item in product.api.get("/tables?q=followed&page_size=50")["items"]:
        if item["datasource"] == "lake":
            found[item["source_name"]] = item["qualified_name"]
    for name in found.values():
        product.api.wait_live(name)
    return found


def rows_in_lake(product: Product, table: str, columns: str) -> Any:
    with product.hive() as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT {columns} FROM {table} ORDER BY id")
        return [tuple(row) for row in cursor.fetchall()]


def test_what_happens_at_the_source_is_in_the_lake(
    product: Product, followed: Any
) -> None:
    orders, items = followed["public.Or d"], followed["public.items"]
    seen: dict[str, Any] = {}

    def become_equal(after: str) -> None:
        """Both tables are what the source is."""

        def are_equal() -> bool:
            seen["orders"] = rows_in_lake(
                product, orders, "id, name, big, cast(at AS string)"
            )
            seen["items"] = rows_in_lake(product, items, "id, cast(price AS string)")
            return bool(seen == wanted)

        with product.source("followed") as source:
            wanted = {
                "orders": source.execute(
                    "SELECT id, name, big, to_char(at AT TIME ZONE 'UTC',"
                    " 'YYYY-MM-DD HH24:MI:SS') FROM \"Or d\" ORDER BY id"
                ).fetchall(),
                "items": source.execute(
                    "SELECT id, price::text FROM items ORDER BY id"
                ).fetchall(),
            }
        wait_for(are_equal, f"the lake to be as the source after {after}")

    def at_source(*statements: str) -> None:
        with product.source("followed") as source, source.transaction():
            for statement in statements:
                source.execute(statement)

    become_equal("the load")
    at_source(
        "INSERT INTO \"Or d\" VALUES (2000, 'new', 'b', '2024-02-02 12:00:00+00')",
        "UPDATE \"Or d\" SET name = 'changed' WHERE id <= 10",
        'DELETE FROM "Or d" WHERE id BETWEEN 100 AND 199',
        "INSERT INTO items VALUES (11, 1)",
    )
    become_equal("an insert, updates without their large values, and deletes")
    at_source('UPDATE "Or d" SET id = id + 10000 WHERE id BETWEEN 200 AND 209')
    become_equal("keys that changed")
    at_source("TRUNCATE items", "INSERT INTO items VALUES (1, 7.25)")
    become_equal("a TRUNCATE")


def test_its_capture_is_told(product: Product, followed: Any) -> None:
    with product.source("followed") as source:
        source.execute("INSERT INTO items VALUES (100, 1)")

    def is_level() -> Any:
        found = product.api.get("/datasources/followed/capture")
        return found if found["observed"] == "following" else None

    found = wait_for(is_level, "the log to be followed", pause=LOOK_SECONDS)
    assert found["observed"] == "following"
