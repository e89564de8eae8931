"""A table that follows PostgreSQL's log, from REST to rows over JDBC: what is inserted,
updated, deleted, re-keyed and truncated at the source is so in the lake."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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
    # nobody says how: the log is what this source offers
    body = {"datasource": "followed", "include": ["public.*"]}
    dry = product.api.call("POST", "/onboardings", {**body, "dry_run": True})
    ways = [plan["proposals"]["capture"]["value"] for plan in _plans(dry.body)]
    assert ways == ["log", "log"], dry.body
    product.api.post("/onboardings", {**body, "approve": True})
    found = {}
    for item in product.api.get("/tables?q=followed&page_size=50")["items"]:
        if item["datasource"] == "lake":
            found[item["source_name"]] = item["qualified_name"]
    for name in found.values():
        product.api.wait_live(name)
    return found


def _plans(body: Any) -> list[Any]:
    return [item["plan"] for item in body["tables"]]


def rows_in_lake(product: Product, table: str, columns: str) -> Any:
    with product.hive() as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT {columns} FROM {table} ORDER BY id")
        return [tuple(row) for row in cursor.fetchall()]


@dataclass
class Both:
    """Both tables at the source and in the lake."""

    product: Product
    orders: str
    items: str

    def source(self) -> dict[str, Any]:
        with self.product.source("followed") as source:
            return {
                "orders": source.execute(
                    "SELECT id, name, big, to_char(at AT TIME ZONE 'UTC',"
                    " 'YYYY-MM-DD HH24:MI:SS') FROM \"Or d\" ORDER BY id"
                ).fetchall(),
                "items": source.execute(
                    "SELECT id, price::text FROM items ORDER BY id"
                ).fetchall(),
            }

    def lake(self) -> dict[str, Any]:
        orders, items = "id, name, big, cast(at AS string)", "id, cast(price AS string)"
        return {
            "orders": rows_in_lake(self.product, self.orders, orders),
            "items": rows_in_lake(self.product, self.items, items),
        }

    def become_equal(self, after: str) -> None:
        wanted = self.source()
        what = f"the lake to be as the source after {after}"
        wait_for(lambda: self.lake() == wanted, what)

    def change(self, *statements: str) -> None:
        """In one transaction of the source."""
        with self.product.source("followed") as source, source.transaction():
            for statement in statements:
                source.execute(statement)


def test_what_happens_at_the_source_is_in_the_lake(
    product: Product, followed: Any
) -> None:
    both = Both(product, followed["public.Or d"], followed["public.items"])
    both.become_equal("the load")
    both.change(
        "INSERT INTO \"Or d\" VALUES (2000, 'new', 'b', '2024-02-02 12:00:00+00')",
        "UPDATE \"Or d\" SET name = 'changed' WHERE id <= 10",
        'DELETE FROM "Or d" WHERE id BETWEEN 100 AND 199',
        "INSERT INTO items VALUES (11, 1)",
    )
    both.become_equal("an insert, updates without their large values, and deletes")
    both.change('UPDATE "Or d" SET id = id + 10000 WHERE id BETWEEN 200 AND 209')
    both.become_equal("keys that changed")
    both.change("TRUNCATE items", "INSERT INTO items VALUES (1, 7.25)")
    both.become_equal("a TRUNCATE")


def test_a_resync_beside_the_log_joins_it(product: Product, followed: Any) -> None:
    both = Both(product, followed["public.Or d"], followed["public.items"])
    job = product.api.post(f"/tables/{product.api.table(both.items)['id']}:resync")
    both.change(
        "INSERT INTO items SELECT g, g FROM generate_series(20, 50) g",
        "DELETE FROM items WHERE id = 1",
        'DELETE FROM "Or d" WHERE id = 2000',
    )
    done = product.api.wait_job(job["id"])
    assert done["state"] == "SUCCEEDED", done
    both.become_equal("a resync of one of them")
    both.change("DELETE FROM items WHERE id = 20")
    both.become_equal("the resync has joined its log")
    product.api.wait_live(both.items)


def test_its_capture_is_told(product: Product, followed: Any) -> None:
    with product.source("followed") as source:
        source.execute("INSERT INTO items VALUES (100, 1)")

    def is_level() -> Any:
        found = product.api.get("/datasources/followed/capture")
        return found if found["observed"] == "following" else None

    found = wait_for(is_level, "the log to be followed", pause=LOOK_SECONDS)
    assert found["observed"] == "following"


@pytest.mark.usefixtures("followed")
def test_equal_tables_of_two_schemas_are_one_lake_table(product: Product) -> None:
    schemas = ("part_1", "part_2")
    with product.source("followed") as source:
        for schema in schemas:
            source.execute(
                f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.t (id int PRIMARY KEY,"
                f" v text); INSERT INTO {schema}.t VALUES (1, 'load'), (2, 'load')"
            )
    product.discover("followed")
    body = {"datasource": "followed", "include": ["part_*.t"]}
    body |= {"target_database": "sharded"}
    shards = {"shards": {"column": "part"}, "approve": True}
    made = product.api.post("/onboardings", body | shards)
    name = made["tables"][0]["name"]
    product.api.wait_live(name)
    with product.source("followed") as source:
        source.execute("UPDATE part_1.t SET v = 'new' WHERE id = 1")
        source.execute("DELETE FROM part_2.t WHERE id = 1")
        source.execute("INSERT INTO part_2.t VALUES (3, 'late')")
    table = name.removeprefix("lake.")
    parts_become_equal(product, table, schemas)
    with product.source("followed") as source:
        source.execute("TRUNCATE part_2.t")
        source.execute("INSERT INTO part_2.t VALUES (2, 'behind that')")
    parts_become_equal(product, table, schemas)


@pytest.mark.long
@pytest.mark.usefixtures("followed")
def test_one_more_of_them_joins_by_policy(product: Product) -> None:
    """While rows of all of them are written. One that is asked for joins by the same
    job: `tests/integration/ingest/test_shards.py`."""
    (found,) = [
        item
        for item in product.api.get("/tables?q=sharded&page_size=50")["items"]
        if item["datasource"] == "lake"
    ]
    table_id, table = found["id"], found["qualified_name"].removeprefix("lake.")
    policy = {"new_tables": "join"}
    product.api.call("PATCH", "/datasources/followed/policy", policy)
    parts = ("part_1", "part_2", "part_3")
    with part_comes(product, parts[-1]):
        product.discover("followed")
        wait_for(
            lambda: (
                {row[0] for row in rows_in_lake(product, table, "part, id")}
                >= {"1", "2", "3"}
            ),
            "the third to join",
        )
    parts_become_equal(product, table, parts)
    assert shards_told(product, table_id) == []
    leave_a_part(product, table_id, table, parts)
    resyncs = product.api.get(f"/jobs?kind=resync&table={table_id}")["items"]
    assert resyncs == []


def shards_told(product: Product, table_id: int) -> list[str]:
    told = product.api.get(f"/tables/{table_id}/schema-change")
    return [one["code"] for one in told["shards"]]


def leave_a_part(
    product: Product, table_id: int, table: str, parts: tuple[str, ...]
) -> None:
    """The last one is dropped: its rows stay until it is decided that they go."""
    with product.source("followed") as source:
        source.execute(f"DROP TABLE {parts[-1]}.t")
    wait_for(
        lambda: shards_told(product, table_id) == ["shards_gone"],
        "it to be known as gone",
        pause=LOOK_SECONDS,
    )
    value = parts[-1].removeprefix("part_")

    def rows_of_it() -> list[Any]:
        return [r for r in rows_in_lake(product, table, "part, id") if r[0] == value]

    assert rows_of_it()
    product.api.post(f"/tables/{table_id}:leave-shards", {"rows": "delete"})
    wait_for(lambda: not rows_of_it(), "its rows to go", pause=LOOK_SECONDS)
    with product.source("followed") as source:
        source.execute("INSERT INTO part_1.t VALUES (-1, 'goes on')")
    parts_become_equal(product, table, parts[:-1])


@contextmanager
def part_comes(product: Product, schema: str) -> Iterator[None]:
    """It has rows, and inside rows of it and of others come and go all the time."""
    is_over = threading.Event()
    with product.source("followed") as source:
        source.execute(
            f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.t (id int PRIMARY KEY,"
            f" v text); INSERT INTO {schema}.t SELECT g, repeat('load', 1000) FROM"
            " generate_series(1, 2000) g"
        )

    def write() -> None:
        with product.source("followed") as own:
            for number in itertools.count(1):
                key = number % 2000 + 1
                own.execute(f"UPDATE {schema}.t SET v = v WHERE id = {key}")
                own.execute(f"DELETE FROM {schema}.t WHERE id = {(key + 700) % 2000}")
                own.execute(f"INSERT INTO {schema}.t VALUES ({number + 5000}, 'new')")
                own.execute(f"UPDATE part_1.t SET v = 'at {number}' WHERE id = 1")
                if is_over.wait(0.02):
                    return

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        is_over.set()
        writer.join()


def parts_become_equal(product: Product, table: str, schemas: tuple[str, ...]) -> None:
    with product.source("followed") as source:
        there = sorted(
            (schema.removeprefix("part_"), *row)
            for schema in schemas
            for row in source.execute(f"SELECT id, v FROM {schema}.t").fetchall()
        )
    wait_for(
        lambda: sorted(rows_in_lake(product, table, "part, id, v")) == there,
        lambda: f"{len(rows_in_lake(product, table, 'part, id'))} to be {len(there)}",
    )
