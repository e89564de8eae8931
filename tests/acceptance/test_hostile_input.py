"""Odd names, edge values and wrong settings: loaded and equal, or refused clearly."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.product import Product

LONG = pytest.mark.long(together="wrong settings")

NAMES = ('we"ird.na me', "数据表", "Order", "order", "select", "1st", "ümläut", "a`b")
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


@pytest.mark.parametrize(
    ("changes", "step"),
    [
        ({"password": "wrong-password"}, "login"),
        pytest.param({"host": "no-such-host.invalid"}, "resolve", marks=LONG),
        pytest.param({"port": 1}, "tcp", marks=LONG),
        pytest.param({"tls": "require"}, "tls", marks=LONG),
        pytest.param({"database": "no_such_database"}, "login", marks=LONG),
    ],
)
def test_a_wrong_setting_is_named_by_its_step(
    product: Product, changes: dict[str, Any], step: str
) -> None:
    demo = product.connection["demo_source"]
    name = f"wrong_{step}_{next(iter(changes))}"
    product.register(name, **{"database": demo["database"], **changes})
    job = product.api.post(f"/datasources/{name}:test")
    done = product.api.wait_job(job["id"])
    assert done["state"] == "FAILED", done
    assert done["error"]["hint"]
    assert step in str(done).lower()
    assert "wrong-password" not in str(done)


def test_an_unsupported_column_is_named_and_waits_for_a_choice(
    product: Product, hostile: Any
) -> None:
    with product.source("hostile") as source:
        source.execute("CREATE TABLE undecided (id int PRIMARY KEY, p regclass)")
    product.discover("hostile")
    wanted = {
        "datasource": "hostile",
        "include": ["public.undecided"],
        "capture": "snapshot",
    }
    reply = product.api.call("POST", "/onboardings", {**wanted, "dry_run": True})
    assert reply.status == 200, reply.body
    (table,) = reply.body["tables"]
    assert "regclass" in str(table), table
    assert "exclude_columns" in str(table), table
