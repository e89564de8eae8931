"""MariaDB through the same jobs as PostgreSQL: types, names, keys, rounds, stops."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spark.lake_bench import assert_done
from tests.spark.mariadb_bench import MariadbBench


@pytest.fixture
def bench(spark: Any, mariadb_server: Any, tmp_path: Path) -> Iterator[MariadbBench]:
    made = MariadbBench(spark, mariadb_server, tmp_path)
    yield made
    made.close()


# type → (values as SQL, what the lake has to hold as text)
EDGES: dict[str, list[tuple[str, str | None]]] = {
    "tinyint(1)": [("5", "5"), ("-128", "-128")],
    "smallint unsigned": [("65535", "65535")],
    "mediumint": [("-8388608", "-8388608")],
    "int unsigned": [("4294967295", "4294967295")],
    "bigint": [("-9223372036854775808", "-9223372036854775808")],
    "bigint unsigned": [("18446744073709551615", "18446744073709551615"), ("0", "0")],
    "int(5) unsigned zerofill": [("42", "42")],
    "bit(1)": [("b'1'", "true"), ("b'0'", "false")],
    "bit(10)": [("b'1010101010'", "682")],
    "bit(64)": [("0xFFFFFFFFFFFFFFFF", "18446744073709551615")],
    "decimal(38,10)": [("-1234567890123456789012345678.0123456789",) * 2],
    "decimal(65,10)": [
        ("1234567890123456789012345678901234567890123456789012345.0123456789",) * 2
    ],
    "float": [("0.1", "0.1"), ("16777217", "1.6777216E7"), ("1e-38", "1.0E-38")],
    "double": [("0.1", "0.1"), ("1.7976931348623157e308", "1.7976931348623157E308")],
    "year": [("2024", "2024"), ("0", "0")],
    "date": [("'1582-10-10'", "1582-10-10"), ("'9999-12-31'", "9999-12-31")],
    "datetime(6)": [
        ("'1582-10-10 23:59:59.999999'", "1582-10-10 23:59:59.999999"),
        ("'9999-12-31 23:59:59.999999'", "9999-12-31 23:59:59.999999"),
    ],
    "datetime": [("'2024-02-29 12:00:00'", "2024-02-29 12:00:00")],
    "timestamp(3) null": [("'2024-03-31 01:30:00.123'", "2024-03-31 01:30:00.123")],
    "time(6)": [("'-838:59:59'", "-838:59:59.000000"), ("'24:00:00.5'", "24:00:00.500000")],
    "char(5)": [("'x '", "x"), ("''", "")],
    "varchar(20)": [("'a  '", "a  "), ("'😀\\\\ \\'q\\''", "😀\\ 'q'")],
    "varchar(9) character set latin1": [("'é'", "é")],
    "text": [("repeat('ä', 300)", "ä" * 300)],
    "enum('a','b ,c','')": [("'b ,c'", "b ,c"), ("''", "")],
    "set('x','z')": [("'x,z'", "x,z"), ("''", "")],
    "json": [("'{\"b\": 1.0, \"a\":2}'", '{"b": 1.0, "a":2}')],
    "binary(4)": [("0x0100", "01000000")],
    "varbinary(9)": [("0x00FF00", "00FF00"), ("''", "")],
    "blob": [("0xC328", "C328")],
    "uuid": [("'12345678-1234-1234-1234-123456789abc'",) * 1 + ("12345678-1234-1234-1234-123456789abc",)],
    "inet6": [("'::1'", "::1")],
    "point": [("ST_PointFromText('POINT(1 2)')", "000000000101000000000000000000F03F0000000000000040")],
}  # fmt: skip


def test_every_type_keeps_its_edges(bench: MariadbBench) -> None:
    types = list(EDGES)
    columns = ", ".join(f"c{i} {t}" for i, t in enumerate(types))
    bench.sql(f"CREATE TABLE edges (id int PRIMARY KEY, {columns})")
    bench.sql("SET sql_mode = ''")
    bench.sql("SET time_zone = '+00:00'")
    most = max(len(v) for v in EDGES.values())
    for row in range(most):
        values = [v[row % len(v)][0] for v in EDGES.values()]
        bench.sql(f"INSERT INTO edges VALUES ({row}, {', '.join(values)})")
    bench.sql(f"INSERT INTO edges (id) VALUES ({most})")
    table = bench.table("edges")
    assert_done(bench.load(table))
    for number, (type, wanted) in enumerate(EDGES.items()):
        column = table.columns[number + 1]
        form = "hex" if column.type == "binary" else "string"
        found = bench.texts(table, column.name, form=form)
        expected = [wanted[row % len(wanted)][1] for row in range(most)]
        assert found == [*expected, None], (type, column.type)
    report = assert_done(bench.verify(table))
    assert report.facts["verdict"] == "equal", report.facts


ODD_DATES = ["0000-00-00", "2024-00-10", "2024-02-00"]


@pytest.mark.parametrize("choice", ["null", "string"])
def test_dates_of_no_calendar_are_counted_or_kept_as_text(
    bench: MariadbBench, choice: str
) -> None:
    bench.sql("SET sql_mode = 'ALLOW_INVALID_DATES'")
    bench.sql("CREATE TABLE z (id int PRIMARY KEY, d date, t datetime(3), s timestamp)")
    odd = [*ODD_DATES, "2023-02-29", "2024-02-31"]
    for number, text in enumerate(odd):
        stamp = "'0000-00-00'" if number == 0 else "'2024-01-01'"
        values = f"{number}, '{text}', '{text} 01:02:03.004', {stamp}"
        bench.sql(f"INSERT INTO z VALUES ({values})")
    bench.sql("INSERT INTO z VALUES (90, '2024-02-29', '0001-01-01', '2024-01-01')")
    bench.sql("INSERT INTO z VALUES (91, NULL, NULL, NULL)")
    types = dict.fromkeys(("type_d", "type_t", "type_s"), "string")
    table = bench.table("z", **(types if choice == "string" else {}))
    report = assert_done(bench.load(table))
    dates = bench.texts(table, "d")
    if choice == "string":
        assert dates == [*odd, "2024-02-29", None]
        assert bench.texts(table, "s")[0] == "0000-00-00 00:00:00"
        return
    assert dates == [None] * 5 + ["2024-02-29", None]
    assert bench.texts(table, "t")[5] == "0001-01-01 00:00:00"
    assert report.facts["lossy"]["d"] == 5
    assert report.facts["lossy"]["t"] == 5
    assert report.facts["lossy"]["s"] >= 1
    assert assert_done(bench.verify(table)).facts["verdict"] == "equal"


HOSTILE = [
    "a`b",
    "select",
    "a.b",
    "Mixed Case",
    "it's",
    "back\\slash",
    "名字",
    "a;--",
    "?",
    '"',
    "%s",
]


def test_names_that_break_sql_load_and_compare_equal(bench: MariadbBench) -> None:
    def quoted(name: str) -> str:
        return "`" + name.replace("`", "``") + "`"

    source, key = "ta'ble \\ 表 ?", "k` # --"
    columns = ", ".join(f"{quoted(c)} varchar(20)" for c in HOSTILE)
    bench.sql(
        f"CREATE TABLE {quoted(source)} ({quoted(key)} int PRIMARY KEY, {columns})"
    )
    values = ", ".join(f"'v{i}'" for i, _ in enumerate(HOSTILE))
    bench.sql(f"INSERT INTO {quoted(source)} SELECT seq, {values} FROM seq_1_to_9")
    rename = {c: f"c{i}" for i, c in enumerate([key, *HOSTILE])}
    table = bench.table(source, (key,), rename=rename)
    assert_done(bench.load(table, chunk_rows=3))
    assert bench.frame(table).count() == 9
    assert bench.texts(table, "c3") == ["v2"] * 9
    assert assert_done(bench.verify(table)).facts["verdict"] == "equal"


KEYS = [
    ("k bigint unsigned", "18446744073709551615 - seq * 3"),
    ("k bigint", "-9223372036854775808 + seq * 1000000007"),
    ("k decimal(30,6)", "seq * 1.000001"),
    ("k varchar(30) collate utf8mb4_general_ci", "concat('Ä', seq, '\\'\\\\ ')"),
    ("k char(8) character set latin1", "concat('é', seq)"),
    ("k varbinary(9)", "unhex(lpad(hex(seq), 8, '0'))"),
    ("k datetime(6)", "'2024-01-01' + interval seq microsecond"),
    ("k date", "'2024-01-01' + interval seq day"),
    ("k time(3)", "sec_to_time(seq - 50)"),
    ("k double", "seq / 3"),
    ("k enum('z','y','x')", "elt(1 + seq % 3, 'z', 'y', 'x')"),
    ("k bit(20)", "seq"),
    ("k uuid", "uuid()"),
]  # fmt: skip


@pytest.mark.parametrize(("column", "value"), KEYS)
def test_chunks_by_any_key_hold_every_row_once(
    bench: MariadbBench, column: str, value: str
) -> None:
    bench.sql(f"CREATE TABLE k ({column} NOT NULL, n int NOT NULL, PRIMARY KEY (k, n))")
    bench.sql(f"INSERT INTO k SELECT {value}, seq FROM seq_1_to_100")
    bench.sql("ANALYZE TABLE k")
    table = bench.table("k", ("k", "n"))
    report = assert_done(bench.load(table, chunk_rows=30))
    assert report.facts["rows"] == 100
    is_walked = not column.startswith(("k double", "k enum"))
    assert (report.facts["chunks"] > 1) == is_walked
    assert report.facts["consistency"] == ("per_chunk" if is_walked else "snapshot")


def test_a_single_integer_key_is_cut_evenly(bench: MariadbBench) -> None:
    bench.sql("CREATE TABLE e (id bigint unsigned PRIMARY KEY, v int)")
    bench.sql("INSERT INTO e SELECT 9223372036854775800 + seq, seq FROM seq_1_to_100")
    bench.sql("ANALYZE TABLE e")
    report = assert_done(bench.load(bench.table("e"), chunk_rows=25))
    assert (report.facts["rows"], report.facts["chunks"]) == (100, 4)


def test_a_table_without_key_counts_equal_rows(bench: MariadbBench) -> None:
    bench.sql("CREATE TABLE h (a varchar(9), b int)")
    bench.sql("INSERT INTO h SELECT 'x', seq % 3 FROM seq_1_to_30")
    table = bench.table("h", (), row_hash=True)
    assert_done(bench.load(table))
    assert bench.frame(table).count() == 3
    assert assert_done(bench.verify(table)).facts["verdict"] == "equal"
