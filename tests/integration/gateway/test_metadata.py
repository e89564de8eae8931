"""Metadata calls through a real client, answered from real catalog rows."""

from __future__ import annotations

import pytest
from pyhive.exc import OperationalError
from TCLIService import ttypes

from tests.integration.gateway.test_pyhive import connect


@pytest.fixture
def lake_tables(users):
    from catalog.access.grants import grant
    from catalog.datasources import lake_database
    from catalog.models import Column, Table

    for database, name in (
        ("shop", "orders"),
        ("shop", "customers"),
        ("hr", "salaries"),
    ):
        table = Table.objects.create(
            database=lake_database(database),
            name=name,
            source_name=f"public.{name}",
            kind=Table.LAKE,
            path=f"/srv/lake/{database}/{name}",
            is_queryable=True,
            comment=f"all {name}",
        )
        columns = [("id", "bigint", 1), ("amount", "decimal(12,2)", 0)]
        for position, (column, kind, key) in enumerate(columns, start=1):
            Column.objects.create(
                table=table,
                position=position,
                name=column,
                source_name=column,
                source_type=kind,
                type=kind,
                nullable=not key,
                key=key,
            )
    grant(principal="user:ann", privilege="select", on="lake.shop", by="root")


@pytest.fixture
def ask(lake_tables, gateway):
    """Calls a metadata method as ann and gives rows as tuples."""
    with connect(gateway) as connection:

        def call(method: str, **arguments):
            request_class = getattr(ttypes, f"T{method}Req")
            request = request_class(connection._sessionHandle, **arguments)
            reply = getattr(connection.client, method)(request)
            assert reply.status.statusCode == 0, reply.status
            cursor = connection.cursor()
            cursor._operationHandle = reply.operationHandle
            cursor._state = cursor._STATE_FINISHED
            rows = cursor._connection.client.FetchResults(
                ttypes.TFetchResultsReq(reply.operationHandle, 0, 10_000)
            ).results
            from pyhive.hive import _unwrap_column

            columns = [_unwrap_column(column) for column in rows.columns]
            names = [column[0] for column in cursor.description]
            return [
                dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)
            ]

        yield call


@pytest.fixture
def live_orders(users):
    from catalog.access.grants import grant
    from catalog.models import Column, Database, Datasource, Table

    source = Datasource.objects.create(name="erp", kind="postgresql", host="db.example")
    for schema in ("public", "hr"):
        database = Database.objects.create(datasource=source, name=schema)
        table = Table.objects.create(database=database, name="orders")
        Column.objects.create(table=table, position=1, name="id", type="bigint")
        Column.objects.create(table=table, position=2, name="pay", type="int")
    on = "erp.public.orders"
    grant(principal="user:ann", privilege="select", on=on, columns=["id"], by="root")


def test_a_live_source_is_a_catalog(live_orders, ask):
    assert [row["TABLE_CAT"] for row in ask("GetCatalogs")] == ["erp", "lake"]
    schemas = ask("GetSchemas", catalogName="erp", schemaName="%")
    assert [row["TABLE_SCHEM"] for row in schemas] == ["public"]
    tables = ask("GetTables", catalogName="erp", schemaName="pub%", tableName="%")
    assert [row["TABLE_NAME"] for row in tables] == ["orders"]
    columns = ask("GetColumns", catalogName="erp", tableName="orders")
    assert [(r["TABLE_CAT"], r["COLUMN_NAME"]) for r in columns] == [("erp", "id")]
    assert ask("GetColumns", catalogName="other", tableName="orders") == []
    assert {r["TABLE_CAT"] for r in ask("GetTables", tableName="%")} == {"lake"}


def test_use_of_a_live_source_says_what_to_write(live_orders, gateway):
    for used in ("erp", "ERP.public"):
        with pytest.raises(OperationalError, match="write whole names") as told:
            connect(gateway, database=used)
        assert told.value.args[0].status.sqlState == "0A000"


def test_use_of_a_live_source_tells_nothing_to_who_may_not_see_it(live_orders, gateway):
    with pytest.raises(OperationalError, match="SCHEMA_NOT_FOUND"):
        connect(gateway, user="bob", database="erp")


def test_catalogs_types_and_functions(ask):
    assert [row["TABLE_CAT"] for row in ask("GetCatalogs")] == ["lake"]
    assert {row["TABLE_TYPE"] for row in ask("GetTableTypes")} == {"TABLE", "VIEW"}
    types = {row["TYPE_NAME"]: row["DATA_TYPE"] for row in ask("GetTypeInfo")}
    assert (types["BIGINT"], types["DECIMAL"], types["TIMESTAMP"]) == (-5, 3, 93)
    functions = [
        row["FUNCTION_NAME"] for row in ask("GetFunctions", functionName="date_%")
    ]
    assert "date_trunc" in functions
    assert "upper" not in functions


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (None, ["default", "shop"]),
        ("%", ["default", "shop"]),
        (".*", ["default", "shop"]),
        ("sh_p", ["shop"]),
        ("SHOP", ["shop"]),
        ("hr", []),
    ],
)
def test_schemas_are_filtered_by_right_and_pattern(ask, pattern, found):
    rows = ask("GetSchemas", schemaName=pattern)
    assert [row["TABLE_SCHEM"] for row in rows] == found


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({}, ["customers", "orders"]),
        ({"schemaName": "shop", "tableName": "ord%"}, ["orders"]),
        ({"tableName": "order_"}, ["orders"]),
        ({"tableName": "salaries"}, []),
        ({"schemaName": "hr"}, []),
        ({"tableTypes": ["TABLE"]}, ["customers", "orders"]),
        ({"tableTypes": ["VIEW"]}, []),
        ({"catalogName": "lake"}, ["customers", "orders"]),
        ({"catalogName": "elsewhere"}, []),
    ],
)
def test_tables_are_filtered_by_right_and_pattern(ask, arguments, found):
    rows = ask("GetTables", **arguments)
    assert [row["TABLE_NAME"] for row in rows] == found
    assert all(row["TABLE_SCHEM"] == "shop" for row in rows)


def test_columns_have_jdbc_types_and_positions(ask):
    rows = ask("GetColumns", schemaName="shop", tableName="orders")
    by_name = {row["COLUMN_NAME"]: row for row in rows}
    assert next(iter(by_name)) == "_hoodie_commit_time"
    amount = by_name["amount"]
    assert (amount["DATA_TYPE"], amount["COLUMN_SIZE"], amount["DECIMAL_DIGITS"]) == (
        3, 12, 2,
    )  # fmt: skip
    assert by_name["id"]["IS_NULLABLE"] == "NO"
    assert [row["ORDINAL_POSITION"] for row in rows] == list(range(1, len(rows) + 1))
    assert ask("GetColumns", tableName="salaries") == []
    assert len(ask("GetColumns", tableName="orders", columnName="am%")) == 1


def test_a_type_has_the_name_that_results_give_it(ask):
    from catalog.models import Column

    times = {"id": "timestamp_ntz", "amount": "array<timestamp_ntz>"}
    for name, kind in times.items():
        Column.objects.filter(table__name="orders", name=name).update(type=kind)
    rows = ask("GetColumns", tableName="orders")
    types = {row["COLUMN_NAME"]: (row["TYPE_NAME"], row["DATA_TYPE"]) for row in rows}
    assert types["id"] == ("TIMESTAMP", 93)
    assert types["amount"] == ("ARRAY<TIMESTAMP>", 2003)
    known = [row["TYPE_NAME"] for row in ask("GetTypeInfo")]
    assert "TIMESTAMP" in known
    assert "TIMESTAMP_NTZ" not in known


@pytest.mark.parametrize(
    ("keys", "added"),
    [
        ({"id": 1}, []),
        ({"id": 1, "amount": 2}, ["_sluice_key"]),
        ({"amount": 1}, ["_sluice_key"]),
        ({}, ["_sluice_key", "_sluice_count"]),
    ],
)
def test_columns_that_sluice_adds_are_told(ask, keys, added):
    from catalog.models import Column

    columns = Column.objects.filter(table__name="orders")
    columns.update(key=0)
    for name, place in keys.items():
        columns.filter(name=name).update(key=place)
    rows = ask("GetColumns", tableName="orders")
    names = [row["COLUMN_NAME"] for row in rows]
    assert [name for name in names if name.startswith("_sluice")] == [
        *added,
        "_sluice_seq",
        "_sluice_deleted",
    ]


def test_primary_keys_come_from_the_catalog_and_hide_what_is_hidden(ask):
    keys = ask("GetPrimaryKeys", schemaName="shop", tableName="orders")
    assert [(row["COLUMN_NAME"], row["KEQ_SEQ"]) for row in keys] == [("id", 1)]
    assert ask("GetPrimaryKeys", schemaName="hr", tableName="salaries") == []


def test_use_of_a_visible_database_reaches_the_engine_with_the_next_statement(
    lake_tables, gateway
):
    with connect(gateway, database="shop") as connection, connection.cursor() as cursor:
        assert gateway.engine.journal == []
        cursor.execute("SELECT 1")
        assert gateway.engine.journal == [("ann", "USE `shop`"), ("ann", "SELECT 1")]
