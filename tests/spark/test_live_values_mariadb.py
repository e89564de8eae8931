"""Values of live sources as their copies in the lake have them, and conditions over
texts that mean what they mean in Spark."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import psycopg
import pytest

from catalog.sources.mariadb.types import lake_type
from catalog.sources.postgresql.types import SourceType
from catalog.sources.postgresql.types import lake_type as postgresql_type
from ingest.contract.table import TableSpec
from tests.source_access import mariadb_at, postgresql_at
from tests.spark.engine_bench import Client, EngineBench
from tests.spark.lake_bench import LakeBench, assert_done
from tests.spark.live_bench import LiveSource
from tests.spark.mariadb_bench import MariadbBench
from tests.spark.test_light_commits import EVERY_TYPE, changed_types
from tests.spark.test_mariadb import EDGES, ODD_DATES
from tests.spark.test_odd_values import ARRAYS, planned

TEXTS = ["abc", "ABC", "abc ", "äbc", "abc\0", "a'b", "a\\b", "", "ß", "ss"]
# What is text in the lake, and numbers beyond it.
AS_TEXT = {
    "numeric(60,20)": "1.00000000000000000001",
    "varchar(9)": " v ",
    "char(5)": "ab",
    "json": '{"b": 1,  "a": "\\u00e9"}',
    "money": "-1234.50",
    "interval": "1 mon -2 days 03:04:05.000006",
    "timetz": "24:00:00+05:30",
    '"char"': "x",
    "inet": "192.168.0.1/24",
    "cidr": "2001:db8::/32",
    "macaddr": "08:00:2b:01:02:03",
    "bit(3)": "101",
    "varbit(9)": "",
    "tsvector": "a:1 'b c':2",
    "tsquery": "a & !b",
    "point": "(0.1,1e300)",
    "circle": "<(1,2),3>",
    "pg_lsn": "16/B374D848",
    "int4range": "(,7]",
    "tstzrange": "empty",
    "mood": "so, so",
    "pair": '(1,"a ""b""")',
    "mood[]": '{"so, so",NULL}',
}
AS_TEXT_TYPES = """
CREATE TYPE mood AS ENUM ('so, so', '');
CREATE TYPE pair AS (n int, t text);
"""


@pytest.fixture(scope="module")
def maria(bench: EngineBench, mariadb_server: Any) -> Iterator[LiveSource]:
    mariadb_server.create_database("live")
    access = mariadb_at(mariadb_server, application="sluice:sql")
    yield LiveSource(bench, "shop_my", access)
    mariadb_server.drop_database("live")


@pytest.fixture(scope="module")
def reader(bench: EngineBench) -> Iterator[Client]:
    bench.policy("max", select=["copies.*"], sources=["shop_my", "odd_pg", "old_pg"])
    client = bench.connect("max")
    yield client
    client.close()


def described(maria: LiveSource, server: Any, table: str) -> list[Any]:
    with server.connect("information_schema") as link, link.cursor() as cursor:
        cursor.execute(
            "SELECT column_name, column_type FROM columns WHERE table_schema = 'live'"
            " AND table_name = %s ORDER BY ordinal_position",
            [table],
        )
        columns = [(n, t, lake_type(t).type) for n, t in cursor.fetchall()]
    maria.table("live", table, columns)
    return columns


def require_same(
    reader: Client, source: LiveSource, copy: LakeBench, table: TableSpec
) -> None:
    """Names, types and bytes of all columns, through the source and the lake."""
    assert_done(copy.load(table))
    copied = f"copies.{source.name}_{table.name}"
    source.bench.table(copied, table.path)
    columns = [(c.source_name, c.source_type, c.type) for c in table.columns]
    source.table(table.source_schema, table.source_table, columns)
    names = ", ".join(f"`{column.name}`" for column in table.columns)
    live, lake = (
        reader.run(f"select {names} from {of} order by {', '.join(table.key)}")
        for of in (
            f"{source.name}.{table.source_schema}.{table.source_table}",
            f"lake.{copied}",
        )
    )
    assert (live.error, lake.error, live.columns) == ("", "", lake.columns)
    assert lake.rows
    for here, there in zip(live.rows, lake.rows, strict=True):
        for column, one, other in zip(table.columns, here, there, strict=True):
            # as text: NaN is not itself, and -0.0 is 0.0
            assert repr(one) == repr(other), (column, here[0])


def test_tables_of_postgresql_are_their_copies(
    bench: EngineBench, lake_bench: LakeBench, reader: Client
) -> None:
    source = LiveSource(bench, "odd_pg", postgresql_at(lake_bench.dsn))
    lake_bench.link.execute(EVERY_TYPE)
    changed_types(lake_bench)
    types = planned(lake_bench, "types", key=("id", "name"))
    require_same(reader, source, lake_bench, types)
    lake_bench.link.execute(ARRAYS)
    require_same(reader, source, lake_bench, planned(lake_bench, "arrays"))
    lake_bench.link.execute(AS_TEXT_TYPES)
    columns = ", ".join(f"c{at} {kind}" for at, kind in enumerate(AS_TEXT))
    lake_bench.sql(f"CREATE TABLE others (id int PRIMARY KEY, {columns})")
    places = ", ".join(f"%s::{kind}" for kind in AS_TEXT)
    lake_bench.link.execute(
        f"INSERT INTO others VALUES (1, {places})", list(AS_TEXT.values())
    )
    lake_bench.sql("INSERT INTO others (id) VALUES (2)")
    require_same(reader, source, lake_bench, lake_bench.table("others"))


def test_a_table_of_mariadb_is_its_copy(
    spark: Any, mariadb_server: Any, tmp_path: Path, maria: LiveSource, reader: Client
) -> None:
    copy = MariadbBench(spark, mariadb_server, tmp_path)
    columns = ", ".join(f"c{i} {t}" for i, t in enumerate(EDGES))
    copy.sql(
        f"CREATE TABLE edges (id int PRIMARY KEY, {columns}, d date, t datetime(3))"
    )
    copy.sql("SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'")
    odd = [*ODD_DATES, "2024-02-31"]
    for row, day in enumerate(odd):
        values = ", ".join(v[row % len(v)][0] for v in EDGES.values())
        copy.sql(
            f"INSERT INTO edges VALUES ({row}, {values}, '{day}', '{day} 01:02:03.004')"
        )
    copy.sql(f"INSERT INTO edges (id) VALUES ({len(odd)})")
    require_same(reader, maria, copy, copy.table("edges"))
    copy.close()


@pytest.mark.parametrize(
    "collation", ["utf8mb4_general_ci", "utf8mb4_bin", "latin1_swedish_ci"]
)
def test_texts_are_compared_byte_by_byte(
    maria: LiveSource, mariadb_server: Any, reader: Client, collation: str
) -> None:
    name = f"texts_{collation}"
    charset = collation.partition("_")[0]
    values = ", ".join(
        f"({i}, CONVERT(_utf8mb4 X'{text.encode().hex()}' USING {charset}))"
        for i, text in enumerate(TEXTS)
    )
    mariadb_server.run(
        f"CREATE TABLE {name} (id int PRIMARY KEY,"
        f" v varchar(20) CHARACTER SET {charset} COLLATE {collation})",
        f"INSERT INTO {name} VALUES {values}",
        database="live",
    )
    described(maria, mariadb_server, name)
    for sign, text in product(("=", "<>"), TEXTS):
        literal = text.replace("\\", "\\\\").replace("'", "\\'").replace("\0", "\\0")
        wanted = [i for i, t in enumerate(TEXTS) if (t == text) is (sign == "=")]
        found = reader.rows(
            f"select id from shop_my.live.{name} where v {sign} '{literal}' order by id"
        )
        assert [row[0] for row in found] == wanted, (sign, text)


def test_a_database_need_not_have_every_character(
    bench: EngineBench, source_pg: Any, reader: Client
) -> None:
    """PostgreSQL refuses what another encoding than UTF-8 lacks."""
    dsn = source_pg.create_database("older", like="template0", encoding="LATIN1")
    with psycopg.connect(dsn, autocommit=True, client_encoding="utf8") as link:
        link.execute(
            "CREATE TABLE t AS SELECT * FROM (VALUES (1, 'é'), (2, 'e')) t(i, v)"
        )
    source = LiveSource(bench, "old_pg", postgresql_at(dsn, application="sluice:sql"))
    source.table("public", "t", [("i", "integer", "int"), ("v", "text", "string")])
    for condition, wanted in (
        ("v = 'é'", [1]),
        ("v = '漢'", []),
        ("v <> '漢'", [1, 2]),
        ("v in ('漢', 'é', '😀', 'e')", [1, 2]),
        ("v not in ('漢', 'e') or i = 7", [1]),
    ):
        found = reader.run(
            f"select i from old_pg.public.t where {condition} order by i"
        )
        assert ([row[0] for row in found.rows], found.error) == (wanted, ""), condition


# The type that discovery found, a value that such a column may have by now, its type.
CHANGED_MARIADB = {
    "int": [("'abc'", "varchar(9)"), ("1.5", "decimal(5,2)"), ("'2026-01-02'", "date")],
    "bigint": [("18446744073709551615", "bigint unsigned"), ("1.5", "double")],
    "decimal(10,2)": [("1.239", "decimal(10,3)"), ("123456789.5", "decimal(12,2)")],
    "double": [("'1x'", "text")],
    "float": [("0.1234567890123", "double")],
    "date": [("'2026-01-02 03:04:05'", "datetime")],
    "datetime": [("'2026-01-02 03:04:05'", "timestamp")],
}
WIDER_MARIADB = {
    "int": [("7", "smallint"), ("7", "bigint"), ("7", "int unsigned")],
    "decimal(10,2)": [("1.25", "decimal(9,2)")],
    "varchar(9)": [("'abc'", "varchar(20)"), ("'abc'", "longtext")],
}
CHANGED_POSTGRESQL = {
    "integer": [("1.5", "numeric(5,2)"), ("1.5", "real")],
    "numeric(10,2)": [("1.239", "numeric(10,3)"), ("1.239", "numeric")],
    "real": [("0.1234567890123", "double precision")],
    "boolean": [("5", "integer")],
    "date": [("'2026-01-02 03:04:05'", "timestamp")],
    "timestamp without time zone": [("'2026-01-02 03:04:05+08'", "timestamptz")],
    "integer[]": [("'{x}'", "text[]"), ("'{}'", "text")],
    "numeric(10,2)[]": [("'{1.255}'", "numeric(10,3)[]")],
}
WIDER_POSTGRESQL = {
    "integer": [("7", "smallint"), ("7", "bigint")],
    "numeric(10,2)": [("1.25", "numeric(9,2)")],
    "character varying(9)": [("'abc'", "text")],
    "oid": [("4294967295", "oid")],
    "integer[]": [("'{7}'", "smallint[]"), ("'{7}'", "positive[]")],
    "numeric(10,2)[]": [("'{1.25}'", "numeric(9,2)[]")],
}


def kinds(found: dict[str, list[tuple[str, str]]]) -> list[tuple[str, str, str]]:
    return [(of, value, now) for of, all in found.items() for value, now in all]


@pytest.mark.parametrize("is_changed", [True, False])
def test_a_column_of_another_type_has_to_be_discovered(
    bench: EngineBench,
    maria: LiveSource,
    mariadb_server: Any,
    lake_bench: LakeBench,
    reader: Client,
    is_changed: bool,
) -> None:
    """Sources convert: a text that is no number would read as 0."""
    odd_pg = LiveSource(bench, "odd_pg", postgresql_at(lake_bench.dsn))
    found = kinds(CHANGED_MARIADB if is_changed else WIDER_MARIADB)
    for at, (before, value, now) in enumerate(found):
        name = f"now_{is_changed}_{at}".lower()
        mariadb_server.run(
            f"CREATE TABLE {name} (id int PRIMARY KEY, other int, v {now})",
            f"INSERT INTO {name} VALUES (1, 1, {value})",
            database="live",
        )
        planned = [("id", "int(11)", "int"), ("v", before, lake_type(before).type)]
        maria.table("live", name, planned)
        require_told(reader, f"shop_my.live.{name}", is_changed, now)
    found = kinds(CHANGED_POSTGRESQL if is_changed else WIDER_POSTGRESQL)
    lake_bench.sql("CREATE DOMAIN positive AS integer CHECK (VALUE > 0)")
    for at, (before, value, now) in enumerate(found):
        name = f"now_{is_changed}_{at}".lower()
        lake_bench.sql(f"CREATE TABLE {name} (id int PRIMARY KEY, v {now})")
        lake_bench.sql(f"INSERT INTO {name} VALUES (1, {value})")
        element = before.removesuffix("[]") if before.endswith("[]") else ""
        lake = postgresql_type(SourceType(before, element=element)).type
        odd_pg.table("public", name, [("id", "integer", "int"), ("v", before, lake)])
        require_told(reader, f"odd_pg.public.{name}", is_changed, now)


def require_told(reader: Client, table: str, is_changed: bool, now: str) -> None:
    assert reader.rows(f"select count(id), max(id) from {table} where id > 0") == [
        (1, 1)
    ], "v is in nobody's way"
    for statement in (
        f"select v from {table}",
        f"select id from {table} where v is not null",
        f"select count(v) from {table}",
    ):
        told = reader.run(statement)
        if is_changed:
            assert "discover it again" in told.error, (now, statement, told.rows)
        else:
            assert (told.error, len(told.rows)) == ("", 1), (now, statement)
