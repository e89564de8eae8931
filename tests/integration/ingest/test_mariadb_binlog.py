"""MariaDB's binary log as a real server writes it: what it says of rows is what a
snapshot reads."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from catalog.schema.types import DataType
from catalog.sources.mariadb.types import lake_type
from ingest.contract.table import ColumnSpec
from ingest.sources.mariadb.connection import DIALECT, Connection, connect
from ingest.sources.mariadb.log.binlog import (
    DELETE,
    INSERT,
    MOVED,
    UPDATE,
    Decoder,
    Missed,
    Rows,
    Statement,
)
from ingest.sources.mariadb.log.table_map import TableMap
from ingest.sources.mariadb.log.values import RowReader, emptied
from ingest.sources.select import select_columns
from tests.binlog import events_in
from tests.mariadb import MariaDbServer
from tests.source_access import mariadb_at

# Every byte of it that is a character.
BYTES = "x'" + "".join(f"{n:02x}" for n in range(256)) + "'"
# Types, and literals of values that have to be equal both ways.
TYPES = {
    "tinyint": ["-128", "127", "0"],
    "tinyint unsigned": ["255", "0"],
    "tinyint(1)": ["1", "2"],
    "smallint": ["-32768", "32767"],
    "smallint unsigned": ["65535"],
    "mediumint": ["-8388608", "8388607", "-1"],
    "mediumint unsigned": ["16777215"],
    "mediumint(5) zerofill": ["7"],
    "int": ["-2147483648", "2147483647"],
    "int unsigned": ["4294967295"],
    "bigint": ["-9223372036854775808", "9223372036854775807"],
    "bigint unsigned": ["18446744073709551615", "0"],
    "year": ["2024", "0", "1901", "2155"],
    "float": ["0.1", "-3.4028234e38", "1e-45", "-0.0"],
    "float unsigned": ["1.5"],
    "double": ["0.1", "5e-324", "-1.7976931348623157e308"],
    "decimal(1,0)": ["-9", "0"],
    "decimal(12,2)": ["9999999999.99", "-9999999999.99", "-0.01", "0"],
    "decimal(9,9)": ["0.123456789", "-0.000000001"],
    "decimal(18,0)": ["999999999999999999", "-999999999999999999"],
    "decimal(18,5)": ["1234567890123.12345", "-0.00001"],
    "decimal(19,1)": ["-999999999999999999.9"],
    "decimal(38,10)": ["9999999999999999999999999999.9999999999", "-0.0000000001"],
    "decimal(38,38)": ["-0.12345678901234567890123456789012345678"],
    "decimal(60,20)": ["1.00000000000000000001", "-123"],
    "decimal(65,0)": ["-" + "9" * 65, "0"],
    "decimal(10,3) unsigned": ["7.125"],
    "bit(1)": ["b'1'", "b'0'"],
    "bit(9)": ["b'101010101'"],
    "bit(63)": ["9223372036854775807"],
    "bit(64)": ["18446744073709551615", "1"],
    "date": ["'0001-01-01'", "'9999-12-31'", "'1582-10-10'", "'0000-00-00'", "'2024-00-10'", "'2024-02-00'", "'0000-05-05'", "'1969-12-31'", "'2023-02-29'"],
    "datetime": ["'0001-01-01'", "'9999-12-31 23:59:59'", "'0000-00-00'", "'2024-00-10 01:02:03'", "'2023-02-31 00:00:01'"],
    "datetime(1)": ["'2024-02-29 12:34:56.7'", "'1969-12-31 23:59:59.9'"],
    "datetime(3)": ["'2024-02-29 12:34:56.789'"],
    "datetime(6)": ["'2024-02-29 12:34:56.789012'", "'9999-12-31 23:59:59.999999'", "'0000-01-01 00:00:00.5'"],
    "timestamp": ["'2024-02-29 12:34:56'", "'1970-01-01 00:00:01'", "'0000-00-00'", "'2038-01-19 03:14:07'"],
    "timestamp(2)": ["'2024-02-29 12:34:56.78'", "'0000-00-00'"],
    "timestamp(6)": ["'2038-01-19 03:14:07.999999'"],
    "time": ["'-838:59:59'", "'00:00:00'", "'12:34:56'", "'-00:00:01'"],
    "time(1)": ["'-00:00:00.5'", "'100:00:00.1'"],
    "time(3)": ["'-10:00:00.001'", "'01:02:03.004'"],
    "time(6)": ["'838:59:59.999999'", "'-838:59:59.999999'", "'-00:00:00.000001'", "'-00:00:01'"],
    "char(5)": ["'ab   '", "''", "'ß€😀'"],
    "char(200)": ["repeat('€', 200)"],
    "char(255) character set utf8mb4": ["repeat('😀', 255)"],
    "varchar(5)": ["'ab   '", "''"],
    "varchar(300)": ["repeat('€', 300)"],
    "varchar(5) character set ucs2": ["'a€'", "x'fffd0061'"],
    "char(5) character set ucs2": ["'a€  '"],
    "varchar(5) character set utf16": ["'a😀'", "x'fffd0061'"],
    "char(5) character set utf16le": ["'a😀'"],
    "varchar(5) character set utf32": ["'a😀'"],
    "varchar(5) character set utf8mb3": ["'aß€'", "x'efbfbd'"],
    "varchar(9) character set gbk": ["'中文'"],
    "varchar(9) character set gb2312": ["'中文'"],
    "varchar(9) character set sjis": ["'漢字ｱ'"],
    "varchar(9) character set big5": ["'漢字'"],
    "varchar(9) character set euckr": ["'한자'"],
    "tinytext": ["''", "'ü\n\\\\ \\' '"],
    "text": ["repeat('x', 5000)"],
    "mediumtext": ["repeat('ü', 70000)", "''"],
    "longtext": ["repeat('y', 300)"],
    "text character set latin1": ["'é€'"],
    "binary(5)": ["'a'", "x'00ff00'", "''"],
    "binary(255)": ["'a'"],
    "varbinary(5)": ["x'00ff00'", "''", "'a '"],
    "varbinary(300)": ["repeat('z', 300)"],
    "tinyblob": ["''", "x'00ff'"],
    "blob": ["repeat(x'ff', 1000)"],
    "mediumblob": ["repeat(x'fe', 70000)"],
    "longblob": ["x'00'"],
    "enum('a','ß','c,d')": ["'ß'", "'c,d'", "0"],
    "enum('é') character set latin1": ["'é'"],
    "set('x','y','ß')": ["''", "'x,ß'", "'x,y,ß'"],
    "set('é','e') character set latin1 collate latin1_bin": ["'é,e'"],
    "json": ["'{\"b\" : 1, \"a\": 1.0}'"],
    "uuid": ["'123e4567-e89b-12d3-a456-426655440000'", "'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'", "'018f4567-e89b-7abc-8456-426655440001'"],
    "inet4": ["'1.2.3.4'", "'10.0.0.0'", "'0.0.0.0'"],
    "inet6": ["'::'", "'::1'", "'::1.2.3.4'", "'::ffff:1.2.3.4'", "'2001:db8::'", "'1:0:2:0:0:3:0:4'", "'1:2:3:4:5:6:7:0'", "'::1:0:0'", "'1:0:0:2:0:0:3:4'", "'0:1::'", "'::abcd'"],
    "point": ["ST_PointFromText('POINT(1 2.5)', 4326)", "POINT(-1, 0)"],
    "geometry": ["ST_GeomFromText('LINESTRING(0 0,1 1)')"],
    "varchar(100) compressed": ["repeat('ab€', 33)", "''", "'ab'"],
    "varchar(500) character set latin1 compressed": ["repeat('é', 500)"],
    "text compressed": ["repeat('ab', 9000)", "''"],
    "blob compressed": ["repeat(x'ff', 9000)", "''", "x'00'"],
    "varbinary(500) compressed": ["repeat(x'00', 400)"],
    "int invisible": ["7"],
    "bigint as (id + 1) virtual": ["default"],
    "varchar(20) as (concat('v', id)) stored": ["default"],
}  # fmt: skip
TYPES |= {
    f"varchar(300) character set {charset}": [BYTES]
    for charset in (
        *("ascii", "latin1", "latin2", "latin5", "latin7", "greek", "hebrew"),
        *("cp1250", "cp1251", "cp1256", "cp1257", "cp850", "cp852", "cp866"),
        *("koi8r", "koi8u", "macroman", "macce", "hp8"),
    )
}


@dataclass
class Logged:
    """A database of its own, and a file of the log that began with it."""

    server: MariaDbServer
    link: Connection
    database: str
    decoder: Decoder
    said: list[object]
    read: int = 4

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        with self.link.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall())

    def rows(self) -> list[Rows]:
        """Of all that is in the file by now."""
        name = self.run("SHOW MASTER STATUS")[0][0]
        (found,) = self.server.directory.rglob(name)
        for event in events_in(found.read_bytes(), self.read):
            self.said += self.decoder.decode(event)
            self.read += len(event)
        return self.decoder.take()


@pytest.fixture
def logged(mariadb_server: MariaDbServer) -> Iterator[Logged]:
    name = f"binlog_{uuid.uuid4().hex[:8]}"
    link, _ = connect(mariadb_at(mariadb_server))
    with closing(link):

        def wanted(table: TableMap) -> tuple[int, ...] | None:
            return table.positions(("id",)) if table.schema == name else None

        made = Logged(mariadb_server, link, name, Decoder(wanted), [])
        made.run(f"CREATE DATABASE {name} CHARACTER SET utf8mb4", f"USE {name}")
        made.run("FLUSH BINARY LOGS")
        yield made
        made.run(f"DROP DATABASE {name}")


def columns_of(logged: Logged, table: str) -> list[ColumnSpec]:
    found = logged.run(
        "SELECT column_name, column_type FROM information_schema.columns WHERE"
        f" table_schema = '{logged.database}' AND table_name = '{table}'"
        " ORDER BY ordinal_position"
    )
    return [ColumnSpec(n, n, type, lake_type(type).type) for n, type in found]


def as_read(column: ColumnSpec, values: list[Any]) -> list[Any]:
    """What the driver makes of a snapshot's column: days are dates, microseconds are
    moments."""
    type = DataType.parse(column.type)
    if type.name == "date":
        return pa.array(values, pa.int32()).cast(pa.date32()).to_pylist()
    if type.name.startswith("timestamp"):
        zone = "UTC" if type.name == "timestamp" else None
        moments = pa.array(values, pa.int64())
        return moments.cast(pa.timestamp("us", zone)).to_pylist()
    if type.name == "float":
        return pa.array(values, pa.float32()).to_pylist()
    if type.name == "boolean":
        return [None if value is None else bool(value) for value in values]
    return values


def differences(logged: Logged, table: str, rows: Rows) -> list[object]:
    """Of what the log said of a table's rows and what a snapshot reads."""
    columns = columns_of(logged, table)
    selection = select_columns(DIALECT, columns)
    relation = DIALECT.qualified(logged.database, table)
    read = logged.run(f"{selection.sql(relation, 'true')} ORDER BY id")
    expected = list(zip(*read, strict=True))
    batch = RowReader.of(rows.table, columns).batch(rows)
    assert emptied(columns).schema.equals(batch.schema, check_metadata=True)
    found: list[object] = []
    for place, column in enumerate(columns):
        mine = batch[f"c{place}"].to_pylist()
        theirs = as_read(column, list(expected[place]))
        if repr(mine) != repr(theirs):
            found.append((column.source_type, mine, theirs))
    masks = expected[-1] if len(expected) > len(columns) else ()
    if masks and batch["m0"].to_pylist() != [*masks]:
        found.append((columns, batch["m0"].to_pylist(), masks))
    return found


def made_of_all_types(logged: Logged) -> list[str]:
    """A table with a column of each type and a row for each literal; what changes all
    its rows."""
    logged.run("SET sql_mode = 'ALLOW_INVALID_DATES'")
    columns, names = [], list(TYPES)
    for number, type in enumerate(names):
        # a TIMESTAMP that may be NULL is one only when that is said
        null = "" if " as (" in type or "invisible" in type else " NULL"
        plain = type.removesuffix(" compressed")
        packed = " COMPRESSED" if plain != type else ""
        columns.append(f"v{number} {plain}{packed}{null}")
    logged.run(f"CREATE TABLE t (id int PRIMARY KEY, {', '.join(columns)}, w int)")
    for row in range(1 + max(map(len, TYPES.values()))):
        values = [
            dict(enumerate(given)).get(row, "DEFAULT") for given in TYPES.values()
        ]
        places = ", ".join(f"v{number}" for number in range(len(names)))
        logged.run(f"INSERT INTO t (id, {places}) VALUES ({row}, {', '.join(values)})")
    return ["UPDATE t SET w = 1"]


def test_the_log_and_a_snapshot_read_equal_values(logged: Logged) -> None:
    """First as rows were made, then as an update of every row sends them again."""
    change = made_of_all_types(logged)
    (rows,) = logged.rows()
    assert differences(logged, "t", rows) == []
    logged.run(*change)
    (rows,) = logged.rows()
    assert set(rows.ops) == {UPDATE}
    assert differences(logged, "t", rows) == []


def kinds(said: list[object]) -> list[str]:
    """What was said, without what only other tables and new ones cause."""
    return [type(one).__name__ for one in said if not isinstance(one, TableMap)]


def test_rows_of_compressed_events(logged: Logged) -> None:
    logged.run("SET GLOBAL log_bin_compress = ON, log_bin_compress_min_len = 10")
    try:
        logged.run(
            "CREATE TABLE t (id int PRIMARY KEY, v varchar(200))",
            "INSERT INTO t SELECT seq, repeat('x', 100) FROM seq_1_to_300",
            "UPDATE t SET v = repeat('y', 100), id = id + 1000 WHERE id <= 100",
            "DELETE FROM t WHERE id > 1050",
        )
    finally:
        logged.run("SET GLOBAL log_bin_compress = OFF")
    (rows,) = logged.rows()
    statement = next(one for one in logged.said if isinstance(one, Statement))
    assert statement.text.startswith("CREATE TABLE t ")
    counts = [rows.ops.count(op) for op in (INSERT, DELETE, MOVED)]
    assert counts == [300, 100 + 50, 100]
    assert rows.values[-1] == (1100, b"y" * 100)


def test_ends_of_transactions(logged: Logged) -> None:
    """Rows of a table without transactions keep what was rolled back in the log."""
    logged.run(
        "CREATE TABLE t (id int PRIMARY KEY) ENGINE InnoDB",
        "CREATE TABLE plain (id int) ENGINE MyISAM",
    )
    logged.rows()
    logged.said.clear()
    logged.run(
        "BEGIN", "INSERT INTO t VALUES (1)", "COMMIT",
        "BEGIN", "INSERT INTO t VALUES (2)", "INSERT INTO plain VALUES (2)", "ROLLBACK",
        "BEGIN", "INSERT INTO t VALUES (3)", "SAVEPOINT here", "INSERT INTO t VALUES (4)",
        "INSERT INTO plain VALUES (4)", "ROLLBACK TO here", "INSERT INTO t VALUES (5)", "COMMIT",
        "INSERT INTO plain VALUES (6)",
        "CREATE TABLE copied (id int PRIMARY KEY) SELECT 7 AS id",
    )  # fmt: skip
    found = {rows.table.name: rows.values for rows in logged.rows()}
    assert found["t"] == [(1,), (3,), (5,)]
    assert found["copied"] == [(7,)]
    assert not logged.decoder.is_within


def test_transactions_of_several_servers(logged: Logged) -> None:
    logged.run("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (0)")
    logged.rows()
    logged.said.clear()
    logged.run(
        "XA START 'a'", "INSERT INTO t VALUES (1)", "XA END 'a'",
        "XA COMMIT 'a' ONE PHASE",
        "XA START 'b'", "INSERT INTO t VALUES (2)", "XA END 'b'", "XA PREPARE 'b'",
        "XA ROLLBACK 'b'",
        "XA START 'c','d',3", "INSERT INTO t VALUES (3)", "XA END 'c','d',3",
        "XA PREPARE 'c','d',3",
    )  # fmt: skip
    (rows,) = logged.rows()
    assert rows.values == [(1,)]
    assert not any(isinstance(one, Missed) for one in logged.said)
    logged.run("XA COMMIT 'c','d',3", "INSERT INTO t VALUES (4)")
    assert logged.rows() == []
    assert missed_by(logged) == [((logged.database, "t"),)]
    logged.decoder.look_again()
    logged.run("INSERT INTO t VALUES (5)")
    (rows,) = logged.rows()
    assert rows.values == [(5,)]


def missed_by(logged: Logged) -> list[object]:
    return [one.tables for one in logged.said if isinstance(one, Missed)]


def test_what_rows_lack_is_a_problem_of_their_table(logged: Logged) -> None:
    logged.run(
        "CREATE TABLE t (id int PRIMARY KEY, v int, w int)",
        "CREATE TABLE other (id int PRIMARY KEY)",
        "INSERT INTO t VALUES (1, 1, 1)",
        "SET binlog_row_image = 'MINIMAL'",
        "UPDATE t SET v = 2",
        "SET binlog_row_image = 'FULL'",
        "INSERT INTO other VALUES (1)",
        "INSERT INTO t VALUES (2, 2, 2)",
        "SET binlog_format = 'STATEMENT'",
        "DELETE FROM other",
        "SET binlog_format = 'ROW'",
    )
    found = {rows.table.name: rows.values for rows in logged.rows()}
    assert found == {"t": [(1, 1, 1)], "other": [(1,)]}
    assert missed_by(logged) == [((logged.database, "t"),)]
    (statement,) = (
        one
        for one in logged.said
        if isinstance(one, Statement) and one.text.startswith("DELETE")
    )
    assert (statement.text, statement.database) == (
        "DELETE FROM other",
        logged.database,
    )


def test_a_log_without_names_of_columns(logged: Logged) -> None:
    logged.run("SET GLOBAL binlog_row_metadata = 'MINIMAL'")
    try:
        logged.run("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    finally:
        logged.run("SET GLOBAL binlog_row_metadata = 'FULL'")
    logged.decoder = Decoder(lambda table: (0,))
    assert [rows for rows in logged.rows() if rows.table.name == "t"] == []
    (table,) = (
        one for one in logged.said if isinstance(one, TableMap) and one.name == "t"
    )
    assert "binlog_row_metadata" in table.problem
