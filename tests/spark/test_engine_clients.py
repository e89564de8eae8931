"""What clients of Hive's kind need of an engine, and the settings they may change."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.spark.conftest import Lake
from tests.spark.engine_bench import Client, EngineBench, write_table

Opener = Callable[..., Client]
NO_PRIVILEGE, ABSENT_TABLE = "42501", "42P01"


@pytest.fixture
def opened(bench: EngineBench) -> Iterator[Opener]:
    """Opens sessions of a reader of two tables, with settings."""
    bench.policy(
        "una", select=["shop.orders", "shop.customers"], discover=["shop.discoverable"]
    )
    clients: list[Client] = []

    def client(**settings: str) -> Client:
        named = {f"set:hiveconf:{k.replace('__', '.')}": v for k, v in settings.items()}
        clients.append(bench.connect("una", configuration=named))
        return clients[-1]

    yield client
    for one in clients:
        one.close()


def names(client: Client, statement: str) -> list[str]:
    outcome = client.run(statement)
    assert not outcome.is_refused, outcome.error
    return [column.name for column in outcome.columns]


@pytest.mark.parametrize(
    ("compat", "statement", "is_hives"),
    [
        ("spark", "show tables in shop", False),
        ("hive", "show tables in shop like '*'", True),
        ("pyhive", "show tables in shop", True),
        ("pyhive", "show tables in shop like '*'", False),
    ],
)
def test_show_tables_has_the_shape_that_the_client_reads(
    opened: Opener, compat: str, statement: str, is_hives: bool
) -> None:
    rows = opened(sluice__compat=compat).rows(statement)
    tables = ("customers", "discoverable", "orders")
    assert rows == [(t,) if is_hives else ("shop", t, False) for t in tables]


def test_dbt_finds_the_relations_of_a_schema(opened: Opener) -> None:
    """By their names, their kind, and columns as its pattern cuts them out."""
    client = opened(sluice__compat="pyhive")
    statement = "show table extended in shop like '*'"
    shape = ["namespace", "tableName", "isTemporary", "information"]
    assert names(client, statement) == shape
    rows = client.rows(statement)
    tables = ["customers", "discoverable", "orders"]
    assert [row[:3] for row in rows] == [("shop", name, False) for name in tables]
    assert all("Type: EXTERNAL\nProvider: hudi\n" in row[3] for row in rows)
    column = re.compile(r"^ \|-- (.*): (.*) \(nullable = (.*)\b", re.MULTILINE)
    assert column.findall(rows[0][3])[:2] == [
        ("id", "long", "false"),
        ("paid", "array", "true"),
    ]
    one = client.rows("show table extended in lake.shop like 'ord*|none'")
    assert [row[1] for row in one] == ["orders"]
    assert client.rows("show table extended in shop like 'none'") == []
    assert client.run("show table extended in vault like '*'").is_refused


def test_meta_columns_are_left_out_of_every_star_when_asked(opened: Opener) -> None:
    client = opened(sluice__hide_meta_columns="true")
    plain = ["id", "name"]
    star = "select * from shop.customers"
    assert names(client, star) == plain
    assert names(client, f"{star} order by id limit 2") == plain
    assert names(client, f"with c as ({star}) select * from c") == plain
    assert names(client, f"{star} union all {star}") == plain
    assert names(client, f"select c.*, 1 as one from ({star}) c") == [*plain, "one"]
    both = "select * from shop.customers a join shop.customers b on a.id = b.id"
    assert names(client, both) == plain * 2
    asked = "select _sluice_seq, * from shop.customers"
    assert set(names(client, asked)) == {"_sluice_seq", *plain}
    assert names(client, "select _hoodie_file_name from shop.customers") == [
        "_hoodie_file_name"
    ]
    assert client.rows("select count(*) from shop.customers") == [(5,)]
    assert client.rows(f"{star} order by id limit 1") == [(1, "name1")]
    assert "_sluice_seq" in names(opened(), star)


def test_tables_are_described_without_their_place(opened: Opener) -> None:
    client = opened()
    ((text,),) = client.rows("show create table shop.customers")
    assert text.startswith("CREATE TABLE shop.customers (\n")
    assert "  id BIGINT,\n  name STRING,\n" in text
    assert text.endswith(")\nUSING hudi\n")
    properties = dict(client.rows("show tblproperties shop.customers"))
    assert (properties["provider"], properties["partition_columns"]) == ("hudi", "")
    assert client.rows("show tblproperties shop.customers ('provider')") == [
        ("provider", "hudi")
    ]


def test_an_unpartitioned_table_has_no_partitions_to_show(opened: Opener) -> None:
    """As in Spark and in Hive, and without reading a row of it."""
    refused = opened().run("show partitions shop.customers")
    assert refused.sql_state == "42601"
    assert "shop.customers, which is not partitioned" in refused.error


def test_partitions_are_those_that_hold_rows(
    opened: Opener, bench: EngineBench, spark: Any, lake: Lake
) -> None:
    place = lake.root / "shop" / "parted"
    rows = "select id, id % 2 as half, 1L as _sluice_seq from range(4)"
    more = {
        "hoodie.datasource.write.partitionpath.field": "half",
        "hoodie.datasource.write.keygenerator.class": (
            "org.apache.hudi.keygen.SimpleKeyGenerator"
        ),
    }
    write_table(spark, place, rows, more=more)
    bench.table("shop.parted", place)
    bench.policy("una", select=["shop.parted"])
    found = opened().rows("show partitions shop.parted")
    assert sorted(found) == [("0",), ("1",)]
    properties = dict(opened().rows("show tblproperties shop.parted"))
    assert properties["partition_columns"] == "half"


NTZ = "select timestamp_ntz'2024-01-01' as t, array(timestamp_ntz'2024-01-01') as many"


@pytest.mark.parametrize(
    ("compat", "name"),
    [("spark", "timestamp_ntz"), ("hive", "timestamp"), ("pyhive", "timestamp")],
)
def test_types_have_names_that_the_client_knows(
    opened: Opener,
    bench: EngineBench,
    spark: Any,
    lake: Lake,
    compat: str,
    name: str,
) -> None:
    """SQLAlchemy reflects a column of another type as one of none."""
    place = lake.root / "shop" / f"times_{compat}"
    write_table(spark, place, f"select 1L as id, 1L as _sluice_seq, q.* from ({NTZ}) q")
    bench.table("shop.times", place, version=1)
    bench.policy("una", select=["shop.times"])
    client = opened(sluice__compat=compat)
    for statement in ("describe shop.times", f"describe query {NTZ}"):
        types = {row[0]: row[1] for row in client.rows(statement)}
        assert (types["t"], types["many"]) == (name, f"array<{name}>")
    of_column = dict(client.rows("describe shop.times t"))
    assert of_column["data_type"] == name


@pytest.mark.parametrize(
    "statement",
    ["show create table {}", "show tblproperties {}", "show partitions {}"],
)
def test_descriptions_of_hidden_tables_are_those_of_absent_ones(
    opened: Opener, statement: str
) -> None:
    client = opened()
    assert client.run(statement.format("vault.secrets")).sql_state == ABSENT_TABLE
    seen = client.run(statement.format("shop.discoverable"))
    is_query = "partitions" in statement
    assert seen.sql_state == (NO_PRIVILEGE if is_query else ""), seen.error


EPOCH = "select cast(timestamp_seconds(0) as string) as t"
SHANGHAI = {"spark.sql.session.timeZone": "Asia/Shanghai"}


def test_settings_of_one_statement_hold_for_it_alone(opened: Opener) -> None:
    client = opened()
    client.rows("use shop")
    client.rows("set spark.sql.ansi.enabled=true")
    assert client.rows(EPOCH, SHANGHAI) == [("1970-01-01 08:00:00",)]
    assert client.rows(EPOCH) == [("1970-01-01 00:00:00",)]
    # all else is the session's: user, database, other settings
    assert client.rows("select count(*) from customers", SHANGHAI) == [(5,)]
    assert client.rows("select current_user()", SHANGHAI) == [("una",)]
    assert client.run("select 1 / 0", SHANGHAI).sql_state == "22012"
    assert client.run("select * from vault.secrets", SHANGHAI).sql_state == ABSENT_TABLE


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.sql.shuffle.partitions", "20000000"),
        ("spark.sql.variable.substitute", "true"),
        ("spark.sql.runSQLOnFiles", "true"),
    ],
)
def test_settings_of_one_statement_have_the_range_of_a_session(
    opened: Opener, key: str, value: str
) -> None:
    """The gateway filters these; the engine does not rely on it."""
    assert opened().run("select 1", {key: value}).is_refused


def test_one_range_for_set_and_for_sessions(opened: Opener) -> None:
    refused = opened().run("set spark.sql.shuffle.partitions=20000000")
    assert (refused.sql_state, "between 1 and 999" in refused.error) == (
        NO_PRIVILEGE,
        True,
    )
    client = opened(spark__sql__shuffle__partitions="20000000")
    assert "between 1 and 999" in client.run("select 1").error
    whole = "set spark.sql.thriftServer.incrementalCollect=false"
    assert "must be true" in opened().run(whole).error
    assert "must be" in opened().run("set sluice.compat=impala").error


def test_names_made_by_expressions_are_refused_with_the_reason(opened: Opener) -> None:
    refused = opened().run("select * from identifier('shop.orders')")
    assert refused.sql_state == NO_PRIVILEGE
    assert "IDENTIFIER() is not open" in refused.error
    refused = opened().run("insert into shop.orders values (1)")
    assert "INSERT INTO is not open" in refused.error
