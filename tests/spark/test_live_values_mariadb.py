"""Values of live sources as their copies in the lake have them, and conditions over
texts that mean what they mean in Spark."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import psycopg
import pytest

from catalog.sources.mariadb.types import lake_type
from tests.source_access import mariadb_at, postgresql_at
from tests.spark.engine_bench import Client, EngineBench
from tests.spark.live_bench import LiveSource
from tests.spark.test_mariadb import EDGES
from tests.spark.test_odd_values import ARRAYS, ELEMENTS

TEXTS = ["abc", "ABC", "abc ", "äbc", "abc\0", "a'b", "a\\b", "", "ß", "ss"]
ARRAY_COLUMNS = [
    ("id", "integer", "int"),
    ("b", "bytea[]", "array<binary>"),
    ("d", "date[]", "array<date>"),
    ("plain", "timestamp without time zone[]", "array<timestamp_ntz>"),
    ("zoned", "timestamp with time zone[]", "array<timestamp>"),
    ("n", "numeric(5,2)[]", "array<decimal(5,2)>"),
    ("e", "double precision[]", "array<double>"),
    ("k", "boolean[]", "array<boolean>"),
]


@pytest.fixture(scope="module")
def maria(bench: EngineBench, mariadb_server: Any) -> Iterator[LiveSource]:
    mariadb_server.create_database("live")
    access = mariadb_at(mariadb_server, application="sluice:sql")
    yield LiveSource(bench, "shop_my", access)
    mariadb_server.drop_database("live")


@pytest.fixture(scope="module")
def reader(bench: EngineBench) -> Iterator[Client]:
    bench.policy("max", sources=["shop_my", "odd_pg"])
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


def test_every_type_of_mariadb_keeps_its_edges(
    maria: LiveSource, mariadb_server: Any, reader: Client
) -> None:
    columns = ", ".join(f"c{i} {t}" for i, t in enumerate(EDGES))
    most = max(len(v) for v in EDGES.values())
    rows = [
        f"INSERT INTO edges VALUES ({row},"
        f" {', '.join(v[row % len(v)][0] for v in EDGES.values())})"
        for row in range(most)
    ]
    mariadb_server.run(
        f"CREATE TABLE edges (id int PRIMARY KEY, {columns})",
        "SET sql_mode = '', time_zone = '+00:00'",
        *rows,
        f"INSERT INTO edges (id) VALUES ({most})",
        database="live",
    )
    known = described(maria, mariadb_server, "edges")
    shown = [
        f"hex({n})" if lake == "binary" else f"cast({n} as string)"
        for n, _, lake in known[1:]
    ]
    found = reader.rows(
        f"select {', '.join(shown)} from shop_my.live.edges order by id"
    )
    for number, (type_name, wanted) in enumerate(EDGES.items()):
        expected = [wanted[row % len(wanted)][1] for row in range(most)]
        assert [row[number] for row in found] == [*expected, None], type_name


def test_arrays_of_postgresql_are_those_of_the_lake(
    bench: EngineBench, source_pg: Any, reader: Client
) -> None:
    dsn = source_pg.create_database("live_arrays")
    with psycopg.connect(dsn, autocommit=True) as link:
        link.execute(ARRAYS)
    source = LiveSource(bench, "odd_pg", postgresql_at(dsn))
    source.table("public", "arrays", ARRAY_COLUMNS)
    names = list(ELEMENTS[1])
    shown = [
        f"to_json(transform({n}, v -> hex(v)))"
        if n == "b"
        else f"to_json(transform({n}, v -> cast(v as string)))"
        for n in names
    ]
    found = reader.rows(
        f"select id, {', '.join(shown)} from odd_pg.public.arrays order by id"
    )
    for key, *texts in found:
        for name, text in zip(names, texts, strict=True):
            wanted = ELEMENTS[key][name]
            if name == "b" and wanted is not None:
                wanted = [v if v is None else v.hex().upper() for v in wanted]
            assert (None if text is None else _json(text)) == wanted, (key, name)


def _json(text: str) -> Any:
    import json

    return json.loads(text)


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
