"""Columns that change at the source, end to end: followed, and approved."""

from __future__ import annotations

from typing import Any

import pytest

from tests.product import Product
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(900)

SOURCE = "grown"
CREATE = """
CREATE TABLE things (id int PRIMARY KEY, kind text, updated_at timestamptz);
INSERT INTO things
 SELECT g, 'plain', now() - interval '1 day' FROM generate_series(1, 5) g
"""


@pytest.fixture(scope="module")
def table(product: Product) -> Any:
    with product.source() as admin:
        admin.execute(f"CREATE DATABASE {SOURCE}")
    with product.source(SOURCE) as source:
        source.execute(CREATE)
    product.register(SOURCE)
    product.discover(SOURCE)
    asked = {"datasource": SOURCE, "include": ["public.*"], "capture": "timestamp"}
    product.api.post("/onboardings", {**asked, "approve": True})
    return product.api.wait_live(f"lake.{SOURCE}.things")


def at_source(product: Product, *statements: str) -> list[Any]:
    found: list[Any] = []
    with product.source(SOURCE) as source:
        for statement in statements:
            cursor = source.execute(statement)
            found = cursor.fetchall() if cursor.description else []
    return found


def test_columns_are_followed_and_what_is_gone_waits_for_approval(
    product: Product, table: Any
) -> None:
    api, address = product.api, f"/tables/{table['id']}"
    query = "SELECT id, kind, note FROM {} ORDER BY id"
    with product.hive() as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {SOURCE}.things")
        assert "things.note" not in str(cursor.description)
        # a default says nothing to the cursor of old rows
        at_source(
            product,
            "ALTER TABLE things ADD COLUMN note text DEFAULT 'old'",
            # old enough for this sync, whose lag keeps the youngest rows for the next
            "UPDATE things SET note = 'new', updated_at = now() - interval '1 hour'"
            " WHERE id = 2",
        )
        done = api.wait_job(api.post(f"{address}:sync")["id"])
        assert done["state"] == "SUCCEEDED", done
        # the session was open before the column was there
        cursor.execute(query.format(f"{SOURCE}.things"))
        assert cursor.fetchall() == at_source(product, query.format("things"))
    names = [column["name"] for column in api.get(address)["columns"]]
    assert names == ["id", "kind", "updated_at", "note"]
    newest = api.get(f"{address}/schema-history")["items"][0]
    assert newest["changes"][0]["text"] == "column 'note' (string) was added"
    assert api.get(f"{address}/schema-change")["changes"] == []
    at_source(product, "ALTER TABLE things DROP COLUMN kind")
    product.discover(SOURCE)
    wait_for(lambda: api.get(address)["status"] == "PAUSED", "the table to pause")
    proposed = api.get(f"{address}/schema-change")
    assert proposed["changes"] == ["column 'kind' (string) was removed"]
    assert (proposed["is_possible"], proposed["needs_resync"]) == (True, True)
    done = api.wait_job(api.post(f"{address}:approve-schema-change")["id"])
    assert (done["kind"], done["state"]) == ("resync", "SUCCEEDED"), done
    api.wait_live(f"lake.{SOURCE}.things")
    query = "SELECT id, note FROM {} ORDER BY id"
    with product.hive() as connection, connection.cursor() as cursor:
        cursor.execute(query.format(f"{SOURCE}.things"))
        assert cursor.fetchall() == at_source(product, query.format("things"))
