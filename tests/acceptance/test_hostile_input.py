"""Odd names and edge values are in the lake as they are at the source."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.product import Product

NAMES = ('we"ird.na me', "数据表", "Order", "order", "a`b")
MAX, MIN = 9223372036854775807, -9223372036854775808


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def build(source: psycopg.Connection[Any]) -> None:
    for name in NAMES:
        source.execute(
            f"CREATE TABLE {quoted(name)} ("
            f' "Id" bigint PRIMARY KEY, "id" int, "a b" text, "a.b" text,'
            f' "quo""te" text, "列" text, "_hoodie_x" text, "when" timestamptz)'
        )
        source.execute(
            f"INSERT INTO {quoted(name)} VALUES"
            " (%s, 1, 'x', 'y', 'z', '值', 'h', now()), (%s, 2, '', NULL, '''', '', '', NULL)",
            (MAX, MIN),
        )
    source.execute("CREATE TABLE empty (id int PRIMARY KEY, updated_at timestamptz)")
    many = ", ".join(f"c{i} int DEFAULT {i}" for i in range(299))
    source.execute(f"CREATE TABLE many (id int PRIMARY KEY, {many})")
    source.execute("INSERT INTO many (id) SELECT generate_series(1, 50)")
    source.execute("CREATE TABLE keyless (a int, b text)")
    source.execute("INSERT INTO keyless VALUES (1, 'x'), (1, 'x'), (2, NULL)")
    source.execute("CREATE TABLE shapes (id int PRIMARY KEY, p regclass, n int)")
    source.execute("INSERT INTO shapes VALUES (1, 'pg_class', 7)")
    source.execute(
        "CREATE TABLE edges (id int PRIMARY KEY, t timestamptz, d date, n numeric(10,2))"
    )
    source.execute(
        "INSERT INTO edges VALUES (1, 'infinity', '-infinity', 'NaN'),"
        " (2, '2020-01-01 00:00+00', '2020-01-01', 1.25)"
    )


@pytest.fixture(scope="module")
def hostile(product: Product) -> Any:
    """An approved onboarding of every hostile table; the reply of approve."""
    with product.source() as admin:
        admin.execute("CREATE DATABASE hostile")
    with product.source("hostile") as source:
        build(source)
    product.register("hostile")
    product.discover("hostile")
    return product.api.post(
        "/onboardings",
        {
            "datasource": "hostile",
            "include": ["public.*"],
            "capture": "snapshot",
            "approve": True,
            "tables": {
                "public.keyless": {"record_key": "row_hash"},
                "public.shapes": {"exclude_columns": ["p"]},
            },
        },
    )


def lake_name_of(product: Product, source_name: str) -> str:
    items = product.api.get("/tables?q=&page_size=200")["items"]
    for item in items:
        if item["datasource"] == "lake" and item["source_name"] == source_name:
            return str(item["name"])
    raise AssertionError(f"{source_name} is not in the lake: {items}")


@pytest.mark.parametrize("name", NAMES)
def test_odd_names_load_and_compare_equal(
    product: Product, hostile: Any, name: str
) -> None:
    lake_name = lake_name_of(product, f"public.{name}")
    body = product.api.wait_live(f"lake.hostile.{lake_name}")
    columns = {c["source_name"]: c["name"] for c in body["columns"]}
    assert len(set(columns.values())) == 8
    wanted = ["Id", "id", "a b", "a.b", 'quo"te', "列", "_hoodie_x"]
    listed = ", ".join(f"`{columns[c]}`" for c in wanted)
    with product.hive() as connection, connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {listed} FROM lake.hostile.`{lake_name}` ORDER BY `{columns['id']}`"
        )
        assert cursor.fetchall() == [
            (MAX, 1, "x", "y", "z", "值", "h"),
            (MIN, 2, "", None, "'", "", ""),
        ]


@pytest.mark.parametrize(
    ("table", "sql", "expected"),
    [
        ("empty", "SELECT count(*) FROM {t}", [(0,)]),
        ("many", "SELECT count(*), sum(c298) FROM {t}", [(50, 50 * 298)]),
        ("keyless", "SELECT a, b FROM {t} ORDER BY a", [(1, "x"), (2, None)]),
        ("shapes", "SELECT id, n FROM {t}", [(1, 7)]),
        (
            "edges",
            "SELECT id, t IS NULL, d IS NULL, cast(n AS string) FROM {t} ORDER BY id",
            [(1, True, True, None), (2, False, False, "1.25")],
        ),
    ],
)
def test_odd_tables_load(
    product: Product, hostile: Any, table: str, sql: str, expected: list[Any]
) -> None:
    product.api.wait_live(f"lake.hostile.{table}")
    with product.hive() as connection, connection.cursor() as cursor:
        cursor.execute(sql.format(t=f"lake.hostile.{table}"))
        assert cursor.fetchall() == expected
