"""SQL over live sources, through an engine's real Thrift port."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import psycopg
import pytest

from tests.source_access import postgresql_at
from tests.spark.engine_bench import Client, EngineBench
from tests.spark.live_bench import LiveSource

ABSENT_TABLE, NO_COLUMN, NO_PRIVILEGE = "42P01", "42703", "42501"
ORDERS = """
CREATE TABLE orders (id bigint PRIMARY KEY, item text NOT NULL, amount numeric(12,2),
  day date, at timestamptz, canary_pay text, "Region" varchar(10));
INSERT INTO orders SELECT i, 'item' || i % 4, i * 1.5, date '2024-01-01' + i,
  timestamptz '2024-01-01 00:00:00.25+00' + i * interval '1 hour', 'CANARYPAY' || i,
  CASE WHEN i <= 4 THEN 'eu' ELSE 'CANARYUS' END FROM generate_series(1, 8) i;
UPDATE orders SET day = 'infinity' WHERE id = 8;
CREATE TABLE hidden (id int PRIMARY KEY, canary_col text);
INSERT INTO hidden VALUES (1, 'CANARYROW1');
"""
COLUMNS = [
    ("id", "bigint", "bigint"),
    ("item", "text", "string"),
    ("amount", "numeric(12,2)", "decimal(12,2)"),
    ("day", "date", "date"),
    ("at", "timestamp with time zone", "timestamp"),
    ("canary_pay", "text", "string"),
    ("Region", "character varying(10)", "string"),
]
ORDERS_NAME, HIDDEN_NAME = "shop_pg.public.orders", "shop_pg.public.hidden"


@dataclass(frozen=True)
class Shop:
    source: LiveSource
    link: psycopg.Connection[Any]


@pytest.fixture(scope="module")
def shop(bench: EngineBench, source_pg: Any) -> Iterator[Shop]:
    dsn = source_pg.create_database("live")
    access = postgresql_at(dsn, application="sluice:sql")
    source = LiveSource(bench, "shop_pg", access)
    with psycopg.connect(dsn, autocommit=True) as link:
        link.execute(ORDERS)
        source.table("public", "orders", COLUMNS)
        source.table(
            "public",
            "hidden",
            [("id", "integer", "int"), ("canary_col", "text", "string")],
        )
        yield Shop(source, link)


@pytest.fixture(scope="module")
def lia(shop: Shop, bench: EngineBench) -> Iterator[Client]:
    """May read one table of the source and one of the lake."""
    bench.policy("lia", select=["shop.customers"], sources=[ORDERS_NAME])
    client = bench.connect("lia")
    yield client
    client.close()


def test_a_source_is_joined_with_the_lake(lia: Client) -> None:
    found = lia.rows(
        "select o.id, o.amount, c.name from shop_pg.public.orders o"
        " join lake.shop.customers c on c.id = o.id where o.id < 3 order by o.id"
    )
    assert [(i, str(a), n) for i, a, n in found] == [
        (1, "1.50", "name1"),
        (2, "3.00", "name2"),
    ]


def test_what_the_source_means_too_it_computes(lia: Client) -> None:
    whole = "select count(*), sum(amount), max(at), min(day), count(day)"
    plan = lia.rows(f"explain {whole} from {ORDERS_NAME} where id > 2 and item <> 'x'")
    assert "Aggregate" not in plan[0][0]
    assert "Filter" not in plan[0][0].replace("RuntimeFilters", "")
    found = lia.rows(f"{whole} from {ORDERS_NAME} where id > 2 and item <> 'x'")
    assert [tuple(map(str, row)) for row in found] == [
        ("6", "49.50", "2024-01-01 08:00:00.25", "2024-01-04", "5")
    ]
    few = lia.rows(f"explain select id from {ORDERS_NAME} limit 2")
    assert "LIMIT 2" in few[0][0]
    assert "canary_pay" not in few[0][0]


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ("item = 'item1'", "1,5"),
        ("item in ('item1', 'ITEM2')", "1,5"),
        ("not (item = 'item1') and id < 4", "2,3"),
        ("amount >= 10.5", "7,8"),
        ("day > date'2024-01-07'", "7"),
        ("not (day > date'2024-01-03')", "1,2"),
        ("day is null", "8"),
        ("day <> date'2024-01-02' and id < 4", "2,3"),
        ("at = timestamp'2024-01-01 02:00:00.25'", "2"),
        ("at < timestamp'2024-01-01 03:00:00' or id = 8", "1,2,8"),
        ("id between 3 and 4", "3,4"),
        ("id = 2.0", "2"),
        ("item <=> 'item3'", "3,7"),
        ("item like '%3'", "3,7"),
        ('item = "a\'b\\\\c"', ""),
    ],
)
def test_conditions_mean_what_they_mean_in_spark(
    lia: Client, condition: str, ids: str
) -> None:
    found = lia.rows(f"select id from {ORDERS_NAME} where {condition} order by id")
    assert ",".join(str(row[0]) for row in found) == ids


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("select count(null) from {}", [(0,)]),
        ("select count(case when id > null then 1 end) from {} where id > 90", [(0,)]),
        ("select id > 99999999999, count(*) from {} group by 1", [(False, 8)]),
        (
            "select max(id <> 99999999999), min(id = 99999999999) from {}",
            [(True, False)],
        ),
        ("select count(*) from {} where (day > '2024-01-02' or null) is null", [(2,)]),
        (
            "select count(*) from {} where not if(id < 3, id > 99999999999, true)",
            [(2,)],
        ),
        (
            "select count((id > 2 and null) or null), count(not (id = 2 and null)) from {}",
            [(0, 7)],
        ),
    ],
)
def test_a_condition_may_have_a_null_in_it(
    lia: Client, statement: str, expected: list[tuple[Any, ...]]
) -> None:
    assert lia.rows(statement.format(ORDERS_NAME)) == expected


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ("cast(id - 1 as boolean) and id < 4", "2,3"),
        ("cast(id as boolean) and not cast(amount as boolean)", ""),
        ("not cast(if(id > 1, 'no', 'yes') as boolean) and id < 3", "2"),
        ("cast(item as boolean) or id = 1", "CAST_INVALID_INPUT"),
    ],
)
def test_a_condition_may_be_a_cast_in_ansi_mode(
    lia: Client, condition: str, ids: str
) -> None:
    found = lia.run(
        f"select id from {ORDERS_NAME} where {condition} order by id",
        {"spark.sql.ansi.enabled": "true"},
    )
    shown = ",".join(str(row[0]) for row in found.rows)
    assert ids in found.error if found.is_refused else shown == ids, found.error


@pytest.mark.parametrize(
    "statement",
    [
        f"select * from {HIDDEN_NAME}",
        "select * from SHOP_PG.Public.HIDDEN",
        "select * from `shop_pg`.`public`.`hidden`",
        f"select * from lake.{HIDDEN_NAME}",
        f"select * from lake.{ORDERS_NAME}",
        f"select * from spark_catalog.{HIDDEN_NAME}",
        "select * from `shop_pg.public`.hidden",
        "select * from `shop_pg.public.hidden`",
        "select * from shop_pg.hidden",
        f"with h as (select * from {HIDDEN_NAME}) select * from h",
        f"select id from {ORDERS_NAME} where item in (select canary_col from {HIDDEN_NAME})",
        f"select (select max(canary_col) from {HIDDEN_NAME})",
        f"explain select * from {HIDDEN_NAME}",
        f"explain extended select canary_col from {HIDDEN_NAME}",
        f"describe {HIDDEN_NAME}",
        f"describe extended {HIDDEN_NAME}",
        f"describe {HIDDEN_NAME} canary_col",
        f"show columns in {HIDDEN_NAME}",
        f"show create table {HIDDEN_NAME}",
        f"show tblproperties {HIDDEN_NAME}",
        f"analyze table {HIDDEN_NAME} compute statistics",
        f"create view v as select * from {HIDDEN_NAME}",
        f"create temporary view v as select * from {ORDERS_NAME}",
        f"cache table {ORDERS_NAME}",
        f"create table shop.t as select * from {ORDERS_NAME}",
        f"insert into {ORDERS_NAME} select * from {ORDERS_NAME}",
        f"insert overwrite {ORDERS_NAME} select * from {ORDERS_NAME}",
        f"delete from {ORDERS_NAME}",
        f"update {ORDERS_NAME} set item = ''",
        f"merge into {ORDERS_NAME} o using {ORDERS_NAME} s on o.id = s.id"
        " when matched then delete",
        f"truncate table {ORDERS_NAME}",
        f"drop table {ORDERS_NAME}",
        f"alter table {ORDERS_NAME} rename to {HIDDEN_NAME}",
        f"refresh table {ORDERS_NAME}",
        f"select * from {ORDERS_NAME} timestamp as of '2024-01-01'",
        f"select * from {ORDERS_NAME} version as of 1",
        f"table {HIDDEN_NAME}",
        "select * from jdbc.`jdbc:postgresql://127.0.0.1/live`",
        "select * from `io.sluice.engine.SourceRelation$Provider`.`x`",
    ],
)
def test_a_table_that_is_not_granted_is_not_there(lia: Client, statement: str) -> None:
    found = lia.run(statement)
    assert found.is_refused, found.rows
    shown = found.visible_text.replace(statement, "")
    assert "CANARY" not in shown
    if "canary" not in statement:
        assert "canary_col" not in shown


@pytest.mark.parametrize("spelled", ["shop_pg.public", "`SHOP_PG`.PUBLIC"])
def test_use_of_a_source_says_what_to_write(lia: Client, spelled: str) -> None:
    found = lia.run(f"use {spelled}")
    assert found.sql_state == "0A000", found.error
    assert "write whole names: " in found.error
    assert lia.run("use shop_pg.nowhere").sql_state == "42704"


@pytest.mark.parametrize(
    "older",
    ["timestamp as of '2024-01-01'", "timestamp /* */ as of '2024-01-01'"],
)
def test_a_source_has_no_older_states(lia: Client, older: str) -> None:
    found = lia.run(f"select * from {ORDERS_NAME} {older}")
    assert found.sql_state == "0A000", found
    assert "no older states" in found.error


def test_a_database_may_have_no_tables(shop: Shop, lia: Client) -> None:
    shop.source.table("Bare", "", [])
    for named in ("shop_pg.Bare", "shop_pg.bare"):
        assert lia.rows(f"show tables in {named}") == []
    assert lia.run("show tables in shop_pg.nowhere").sql_state == "42704"
    assert lia.run("show databases in nowhere").sql_state == "42704"


def test_to_see_is_not_to_read(shop: Shop, bench: EngineBench) -> None:
    bench.policy("seer", sources_seen=["shop_pg.public"])
    client = bench.connect("seer")
    assert ("canary_col", "string", None) in client.rows(f"describe {HIDDEN_NAME}")
    found = client.run(f"select id from {HIDDEN_NAME}")
    assert found.sql_state == NO_PRIVILEGE
    assert HIDDEN_NAME in found.error
    client.close()


RULES = {
    ORDERS_NAME: {
        "columns": ["id", "item", "day", "region"],
        "filters": ["region = 'eu'"],
        "masks": {"item": ["redact", ""]},
    }
}


def test_columns_filters_and_masks_hold_on_a_source(
    shop: Shop, bench: EngineBench
) -> None:
    bench.policy("rob", tables=RULES)
    client = bench.connect("rob")
    found = client.run(f"select * from {ORDERS_NAME} order by id")
    assert [c.name for c in found.columns] == ["id", "item", "day", "region"]
    assert [row[:2] for row in found.rows] == [(i, "***") for i in (1, 2, 3, 4)]
    assert client.rows(f"select count(*), max(id) from {ORDERS_NAME}") == [(4, 4)]
    assert client.rows(f"select id from {ORDERS_NAME} where item = 'item1'") == []
    for hidden in (
        f"select canary_pay from {ORDERS_NAME}",
        f"select id from {ORDERS_NAME} where canary_pay > ''",
        f"select {ORDERS_NAME}.canary_pay from {ORDERS_NAME}",
        f"select max(o.amount) from {ORDERS_NAME} o",
    ):
        assert client.run(hidden).sql_state == NO_COLUMN
    for probe in (
        f"select id from {ORDERS_NAME} where id / (id - 5) > 0",
        f"select raise_error(region) from {ORDERS_NAME} where id > 4",
        f"select cast(region as int) from {ORDERS_NAME} where id > 4",
        f"explain extended select * from {ORDERS_NAME}",
    ):
        shown = client.run(probe, {"spark.sql.ansi.enabled": "true"}).visible_text
        assert "CANARY" not in shown
        assert "canary" not in shown
    client.close()


def test_an_error_of_the_source_has_no_secret_in_it(
    shop: Shop, bench: EngineBench
) -> None:
    wrong = replace(shop.source.access, password="CANARYPASSWORD-1")
    broken = replace(shop.source, name="broken_pg", access=wrong)
    broken.table("public", "orders", COLUMNS)
    bench.policy("lou", sources=["broken_pg", "shop_pg"])
    client = bench.connect("lou")
    shop.source.table("public", "gone", [("id", "integer", "int")])
    found = client.run("select * from shop_pg.public.gone")
    assert "discover it again" in found.error
    assert "SELECT" not in found.error.split("\n")[0]
    for items in ("*", "sum(id + 0)"):  # as rows are fetched, and before the first
        found = client.run(f"select {items} from shop_pg.public.gone")
        assert found.sql_state == "58000"
        assert "[SOURCE_FAILED] The source shop_pg has another table" in found.error
    for statement in (
        "select count(*) from broken_pg.public.orders",
        "explain extended select * from broken_pg.public.orders",
        "set",
        "set -v",
    ):
        assert "CANARYPASSWORD" not in client.run(statement).visible_text
    assert "CANARYPASSWORD" not in bench.log.read_text()
    client.close()


WIDE = """
CREATE VIEW {name} AS SELECT i AS id,
  repeat('x', CASE WHEN i {at} THEN {wide} ELSE 1 END) AS doc FROM generate_series(1, {rows}) i;
"""


@pytest.mark.parametrize(
    ("name", "at", "wide", "rows"),
    [
        ("first_wide", "<= 90", 1_000_000, 200),
        ("too_wide", "<= 20", 5_000_000, 40),
        ("later_wide", "> 300", 40_000, 2_300),
    ],
)
def test_rows_may_be_wide(
    shop: Shop, bench: EngineBench, name: str, at: str, wide: int, rows: int
) -> None:
    """More of them than a reader's buffer holds, before or behind narrow ones."""
    shop.link.execute(WIDE.format(name=name, at=at, wide=wide, rows=rows))
    shop.source.table(
        "public", name, [("id", "integer", "int"), ("doc", "text", "string")]
    )
    bench.policy("wes", sources=["shop_pg"])
    client = bench.connect("wes")
    counted = f"select count(*), max(length(doc)) from shop_pg.public.{name}"
    assert client.rows(counted) == [(rows, wide)]
    client.close()


def test_columns_whose_names_differ_in_case_are_told_apart_by_nobody(
    shop: Shop, bench: EngineBench
) -> None:
    twins = [("id", "integer", "int"), ("Note", "text", "string")]
    shop.source.table("public", "twins", [*twins, ("note", "text", "string")])
    bench.policy("tom", sources=["shop_pg"])
    client = bench.connect("tom")
    for statement in ("select id from {}", "describe {}"):
        found = client.run(statement.format("shop_pg.public.twins"))
        assert found.sql_state == "42711", found
        assert "Rename one at the source" in found.error
    client.close()


def test_parts_by_ranges_of_the_key_are_the_whole(
    shop: Shop, bench: EngineBench
) -> None:
    shop.link.execute(
        "CREATE TABLE many (id bigint PRIMARY KEY);"
        " INSERT INTO many SELECT i * 7 - 50000 FROM generate_series(1, 20000) i"
    )
    shop.source.table(
        "public", "many", [("id", "bigint", "bigint")], split_by="id", rows=400_000
    )
    bench.policy("mia", sources=["shop_pg.public.many"])
    client = bench.connect("mia")
    found = client.rows(
        "select count(*), sum(v), count(distinct p) from"
        " (select id + 0 as v, spark_partition_id() as p from shop_pg.public.many)"
    )
    assert found == [(20000, 20000 * 20001 // 2 * 7 - 50000 * 20000, 4)]
    client.close()
