"""A MariaDB source from registration to rows over JDBC, on the real product."""

from __future__ import annotations

from typing import Any

import pytest

from tests.mariadb import MariaDbServer
from tests.product import Product, manage
from tests.waiting import wait_for

ROWS = 5_000
DATABASE = "shop-2 店"
CREATE = """
CREATE TABLE `Or``der s` (
  `K ey` bigint unsigned PRIMARY KEY, `id` int, small tinyint(1), flags bit(12),
  price decimal(12,4), huge decimal(60,20), ratio double, score float,
  born year, day date, at datetime(6), took time(3), state enum('new','paid',''),
  tags set('a','b'), doc json, raw varbinary(16), note varchar(40),
  updated_at timestamp(6) NOT NULL DEFAULT now(6) ON UPDATE now(6),
  KEY (updated_at)) DEFAULT CHARSET utf8mb4
"""
FILL = f"""
INSERT INTO `Or``der s`
SELECT 18446744073709551615 - seq, seq, seq % 100, seq % 4096, seq * 1.0001,
  concat('1234567890123456789012345678901234567890.', seq), seq / 7, seq / 3,
  1901 + seq % 200, '2024-01-01' + INTERVAL seq % 9000 DAY,
  '1969-12-31 23:59:59.999999' + INTERVAL seq MICROSECOND,
  sec_to_time(cast(seq AS signed) * 4 - 9000), elt(1 + seq % 3, 'new', 'paid', ''),
  seq % 4, json_object('n', seq), unhex(lpad(hex(seq), 8, '0')),
  if(seq % 10, concat('it''s \\\\ 😀 ', seq), NULL), now(6) - INTERVAL 1 DAY
FROM seq_1_to_{ROWS}
"""
# the same text on both sides
SOURCE_SIDE = """
SELECT cast(`K ey` AS char), cast(`id` AS char), cast(small AS char),
  cast(flags + 0 AS char), cast(price AS char), cast(huge AS char),
  cast(round(ratio * 1000) AS char), cast(born AS char), cast(day AS char),
  date_format(at, '%Y-%m-%d %H:%i:%s.%f'), cast(took AS char), state, tags,
  cast(doc AS char), hex(raw), note FROM `Or``der s` ORDER BY `id`
"""
LAKE_SIDE = """
SELECT cast({key} AS string), cast({id} AS string), cast(small AS string),
  cast(flags AS string), cast(price AS string), huge,
  cast(cast(round(ratio * 1000) AS bigint) AS string), cast(born AS string),
  cast(day AS string), date_format(at, 'yyyy-MM-dd HH:mm:ss.SSSSSS'), took, state,
  tags, doc, hex(raw), note FROM lake.{table} ORDER BY cast({id} AS bigint)
"""


@pytest.fixture(scope="module")
def maria(product: Product, mariadb_server: MariaDbServer) -> MariaDbServer:
    server = mariadb_server
    server.create_database(DATABASE)
    server.run("SET time_zone = '+00:00'", CREATE, FILL, database=DATABASE)
    server.run(
        "CREATE TABLE plain (a int, b varchar(9))",
        "INSERT INTO plain VALUES (1, 'x'), (1, 'x'), (NULL, '')",
        "CREATE TABLE zero (id int PRIMARY KEY, d date)",
        "SET sql_mode = ''",
        "INSERT INTO zero VALUES (1, '0000-00-00'), (2, '2024-02-29')",
        database=DATABASE,
    )
    server.create_user(
        "reader", "r-e'a\\d", [f"SELECT ON `{DATABASE}`.*", "PROCESS ON *.*"]
    )
    product.api.post(
        "/datasources",
        {
            "name": "maria",
            "kind": "mariadb",
            "host": server.host,
            "port": server.port,
            "username": "reader",
            "password": "r-e'a\\d",
            "tls": "require",
        },
        status=201,
    )
    return server


@pytest.fixture(scope="module")
def onboarded(product: Product, maria: MariaDbServer) -> Any:
    """The lake's name of each table."""
    tried = product.api.wait_job(product.api.post("/datasources/maria:test")["id"])
    assert tried["state"] == "SUCCEEDED", tried
    product.discover("maria")
    product.api.post(
        "/onboardings",
        {
            "datasource": "maria",
            "include": [f"{DATABASE}.*"],
            "capture": "timestamp",
            "schedule": {"every_seconds": 5},
            "target_database": "maria_shop",
            "approve": True,
            "exclude": [f"{DATABASE}.plain", f"{DATABASE}.zero"],
        },
    )
    product.api.post(
        "/onboardings",
        {
            "datasource": "maria",
            "include": [f"{DATABASE}.plain", f"{DATABASE}.zero"],
            "capture": "snapshot",
            "target_database": "maria_shop",
            "approve": True,
            "tables": {f"{DATABASE}.plain": {"record_key": "row_hash"}},
        },
    )
    items = product.api.get("/tables?q=maria_shop&page_size=50")["items"]
    names = {
        i["source_name"]: i["qualified_name"]
        for i in items
        if i["datasource"] == "lake"
    }
    assert len(names) == 3, items
    return names


def differences(product: Product, maria: MariaDbServer, body: Any) -> list[Any]:
    names = {c["source_name"]: f"`{c['name']}`" for c in body["columns"]}
    with maria.connect(DATABASE) as link, link.cursor() as cursor:
        cursor.execute(SOURCE_SIDE)
        wanted = list(cursor.fetchall())
    table = f"{body['database']}.`{body['name']}`"
    with product.hive() as connection, connection.cursor() as cursor:
        cursor.execute(LAKE_SIDE.format(table=table, key=names["K ey"], **names))
        found = cursor.fetchall()
    assert len(found) == len(wanted)
    return [
        pair
        for left, right in zip(wanted, found, strict=True)
        for pair in zip(left, right, strict=True)
        if pair[0] != pair[1]
    ][:5]


def test_every_row_arrives_and_changes_follow(
    product: Product, maria: MariaDbServer, onboarded: Any
) -> None:
    name = onboarded[f"{DATABASE}.Or`der s"]
    body = product.api.wait_live(name)
    # no lock, no shared snapshot: said, if there was more than one chunk
    assert "re-sync" not in (body["status_reason"] or "")
    assert differences(product, maria, body) == []
    maria.run(
        "UPDATE `Or``der s` SET note = 'changed' WHERE id % 1000 = 0",
        "INSERT INTO `Or``der s` (`K ey`, id, note) VALUES (7, 99999, 'born')",
        database=DATABASE,
    )
    wait_for(lambda: changed_rows(product, body) == ROWS // 1000 + 1, "the changes")
    assert differences(product, maria, body) == []
    said = manage(product.home, "verify", name.removeprefix("lake."), seconds=900)
    assert f"Equal: {ROWS + 1:,} rows on both sides." in said


def changed_rows(product: Product, body: Any) -> Any:
    """Asked for often; to compare every row would cost seconds each time."""
    asked = "SELECT count(*) FROM lake.{}.`{}` WHERE note IN ('changed', 'born')"
    with product.hive() as connection, connection.cursor() as cursor:
        cursor.execute(asked.format(body["database"], body["name"]))
        return cursor.fetchone()[0]


def test_a_table_without_key_and_dates_of_no_calendar(
    product: Product, maria: MariaDbServer, onboarded: Any
) -> None:
    for source, sql, expected in (
        ("plain", "SELECT a, b FROM {t} ORDER BY a", [(None, ""), (1, "x")]),
        ("zero", "SELECT id, cast(d AS string) FROM {t} ORDER BY id", [(1, None), (2, "2024-02-29")]),
    ):  # fmt: skip
        body = product.api.wait_live(onboarded[f"{DATABASE}.{source}"])
        with product.hive() as connection, connection.cursor() as cursor:
            cursor.execute(sql.format(t=f"lake.{body['database']}.{body['name']}"))
            assert cursor.fetchall() == expected
