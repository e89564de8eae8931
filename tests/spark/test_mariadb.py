"""MariaDB through the same jobs as PostgreSQL: types, names, keys, syncs, stops."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ingest.contract.table import TableSpec
from ingest.driver.run import run_job
from ingest.driver.table_services.savepoints import ask_reach
from ingest.lake.staging import ChunkManifest, StagingArea
from ingest.sources.port import SourceAccess
from tests.spark.lake_bench import assert_done
from tests.spark.mariadb_bench import MariadbBench
from tests.spark.test_light_commits import both_frames
from tests.waiting import LIMIT_SECONDS, wait_for


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


def test_every_type_keeps_its_edges(
    bench: MariadbBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a load, and in a commit of a few rows."""
    types = list(EDGES)
    columns = ", ".join(f"c{i} {t}" for i, t in enumerate(types))
    bench.sql(
        f"CREATE TABLE edges (id int PRIMARY KEY, {columns},"
        " at timestamp(6) NOT NULL DEFAULT '2020-01-01 00:00:00')"
    )
    bench.sql("SET sql_mode = ''")
    bench.sql("SET time_zone = '+00:00'")
    most = max(len(v) for v in EDGES.values())
    for row in range(most):
        values = [v[row % len(v)][0] for v in EDGES.values()]
        bench.sql(f"INSERT INTO edges VALUES ({row}, {', '.join(values)}, DEFAULT)")
    bench.sql(f"INSERT INTO edges (id) VALUES ({most})")
    table = bench.table("edges", cursor="at")
    low = assert_done(bench.load(table)).facts["bound"]
    require_edges(bench, table)
    bench.sql("UPDATE edges SET at = now(6)")
    pairs = both_frames(monkeypatch)
    assert_done(bench.sync(table, low))
    assert [ours == sparks for ours, sparks, *_ in pairs] == [True]
    require_edges(bench, table)
    report = assert_done(bench.verify(table))
    assert report.facts["verdict"] == "equal", report.facts


def require_edges(bench: MariadbBench, table: TableSpec) -> None:
    most = max(len(v) for v in EDGES.values())
    shown = [
        f"hex(`{c.name}`)" if c.type == "binary" else f"cast(`{c.name}` as string)"
        for c in table.columns[1:-1]
    ]
    rows = bench.frame(table).orderBy("id").selectExpr(*shown).collect()
    for number, (type, wanted) in enumerate(EDGES.items()):
        expected = [wanted[row % len(wanted)][1] for row in range(most)]
        found = [row[number] for row in rows]
        assert found == [*expected, None], (type, table.columns[number + 1].type)


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


def test_a_zero_date_in_the_key_is_named(bench: MariadbBench) -> None:
    bench.sql("SET sql_mode = ''")
    bench.sql("CREATE TABLE k (id int, d date, PRIMARY KEY (id, d))")
    bench.sql("INSERT INTO k VALUES (1, '2024-01-01'), (2, '0000-00-00')")
    report = bench.load(bench.table("k", ("id", "d")))
    assert report.error is not None
    assert report.error.code == "key_without_form"
    assert "'d' (date) is of the key and has 0000-00-00" in report.error.message


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


def test_chunks_walk_a_composite_key_of_text_and_numbers(bench: MariadbBench) -> None:
    """Every other type of key is held against the server alone, without Spark, in
    tests/integration/ingest/test_mariadb_source.py."""
    bench.sql(
        "CREATE TABLE k (k varchar(30) NOT NULL, n bigint unsigned NOT NULL,"
        " at timestamp(6) NOT NULL DEFAULT now(6), v int, PRIMARY KEY (k, n))"
    )
    bench.sql(
        "INSERT INTO k (k, n) SELECT concat('Ä', seq % 7, '\\'\\\\ ,%'),"
        " 18446744073709551615 - seq FROM seq_1_to_100"
    )
    bench.sql("ANALYZE TABLE k")
    table = bench.table("k", ("k", "n"), cursor="at")
    report = assert_done(bench.load(table, chunk_rows=30))
    assert report.facts["rows"] == 100
    assert report.facts["chunks"] == 4
    # no lock, no shared snapshot: each chunk is of its own moment, and it is said
    assert report.facts["consistency"] == "per_chunk"
    bench.sql("UPDATE k SET v = 7, at = now(6)")
    assert_done(bench.sync(table, report.facts["bound"]))
    assert bench.frame(table).count() == 100
    facts = assert_done(bench.verify(table)).facts
    assert (facts["verdict"], facts["pending"]) == ("equal", 0)


@pytest.fixture
def cyrillic(bench: MariadbBench) -> Any:
    """A table with keys of a byte without a character, and with a NUL."""
    bench.sql(
        "CREATE TABLE c (k varchar(10) CHARACTER SET cp1251 COLLATE cp1251_bin"
        " PRIMARY KEY, v int, at timestamp(6) NOT NULL DEFAULT '2024-01-01')"
    )
    bench.sql("INSERT INTO c (k, v) VALUES ('1', 1), ('2', 2), ('a', 3), ('z', 4)")
    bench.sql("INSERT INTO c (k, v) VALUES (_cp1251 X'98', 5)")
    bench.sql("INSERT INTO c (k, v) VALUES (concat('z', char(0), 'z'), 6)")
    bench.sql("ANALYZE TABLE c")
    return bench.table("c", ("k",), cursor="at")


def test_a_key_without_a_text_in_unicode_of_its_own_is_refused(
    bench: MariadbBench, cyrillic: Any
) -> None:
    """Else a sync would write one row over another, which were '?' both."""
    failed = bench.load(cyrillic, chunk_rows=2)
    assert failed.error.code == "key_text_shared"  # type: ignore[union-attr]
    bench.sql("DELETE FROM c WHERE v = 5")
    report = assert_done(bench.load(cyrillic, chunk_rows=2))
    assert (report.facts["rows"], report.facts["chunks"]) == (5, 3)
    bench.sql("INSERT INTO c VALUES (_cp1251 X'98', 5, now(6))")
    failed = bench.sync(cyrillic, report.facts["bound"])
    assert failed.error.code == "key_text_shared"  # type: ignore[union-attr]
    bench.sql("DELETE FROM c WHERE v = 5")
    bench.sql("UPDATE c SET v = v + 3, at = now(6)")
    assert_done(bench.sync(cyrillic, report.facts["bound"]))
    assert sorted(bench.texts(cyrillic, "v")) == list("45679")


@pytest.mark.long
def test_a_verification_whose_ranges_lack_rows_has_no_verdict(
    bench: MariadbBench, cyrillic: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.sql("DELETE FROM c WHERE v = 5")
    assert assert_done(bench.load(cyrillic)).facts["rows"] == 5
    monkeypatch.setattr(
        "ingest.driver.capture.source_tables.predicate_for", lambda *_: "v = 1"
    )
    failed = bench.verify(cyrillic, chunk_rows=2)
    assert failed.error.code == "rows_not_read"  # type: ignore[union-attr]


@pytest.fixture
def loaded(bench: MariadbBench) -> tuple[MariadbBench, Any, str]:
    """(bench, table spec, bound): rows 1 to 5, a cursor of whole seconds."""
    bench.sql(
        "CREATE TABLE o (id int PRIMARY KEY, v varchar(9),"
        " at timestamp NOT NULL DEFAULT now() ON UPDATE now())"
    )
    bench.sql(
        "INSERT INTO o SELECT seq, 'load', now() - interval 1 day FROM seq_1_to_5"
    )
    table = bench.table("o", cursor="at")
    return bench, table, assert_done(bench.load(table)).facts["bound"]


def test_before_a_restore_it_tells_what_a_sync_would_find_behind_an_older_position(
    loaded: Any,
) -> None:
    bench, table, low = loaded
    bench.sql("INSERT INTO o (id, at) VALUES (7, now() + interval 1 hour)")
    bench.sql("UPDATE o SET at = now() + interval 1 hour WHERE id < 3")
    run = bench.start(bench.spec("repair", table))
    access = SourceAccess(bench.source, bench.password, run.application)
    reach = ask_reach(run, lambda: access, low)
    assert (reach.later, reach.unmarked, reach.reaches_back) == (3, 0, True)


def test_a_stop_reaches_the_statement_at_the_source(bench: MariadbBench) -> None:
    bench.sql("CREATE TABLE kept (id int PRIMARY KEY)")
    bench.sql("INSERT INTO kept SELECT seq FROM seq_1_to_50")
    bench.sql("CREATE VIEW slow AS SELECT id, sleep(60) AS s FROM kept")
    run = bench.start(bench.spec("snapshot", bench.table("slow", type_s="int")))
    ours = "SELECT count(*) FROM information_schema.processlist WHERE info LIKE '%/* sluice%' AND info LIKE '%`slow`%' AND id <> CONNECTION_ID()"
    reports: list[Any] = []
    thread = threading.Thread(
        target=lambda: reports.append(run_job(run, bench.spark, bench.gates)),
        daemon=True,
    )
    thread.start()
    wait_for(lambda: bench.sql(ours)[0][0] > 0, "the statement to run")
    run.request_stop("cancel")
    wait_for(lambda: bench.sql(ours)[0][0] == 0, "the statement to end")
    thread.join(LIMIT_SECONDS)
    assert reports[0].outcome == "cancelled"


def test_failures_of_the_source_have_names(bench: MariadbBench) -> None:
    bench.sql("CREATE TABLE f (id int PRIMARY KEY, v int)")
    table = bench.table("f")
    bench.sql("ALTER TABLE f MODIFY v bigint")
    assert bench.load(table).error.code == "source_changed"  # type: ignore[union-attr]
    bench.sql("DROP TABLE f")
    assert bench.load(table).error.code == "source_table_missing"  # type: ignore[union-attr]
    bench.server.create_user("weak", "w")
    bench.source = replace(bench.source, username="weak")
    bench.password = "w"
    bench.sql("CREATE TABLE f (id int PRIMARY KEY, v int)")
    assert bench.load(table).error.code == "source_privilege_missing"  # type: ignore[union-attr]
    bench.password = "wrong"
    failed = bench.load(table)
    assert (failed.outcome, failed.error.code) == (
        "invalid_request",
        "wrong_password",
    )  # type: ignore[union-attr]


def test_settings_of_the_server_hide_no_row_and_show_no_uncommitted_one(
    bench: MariadbBench,
) -> None:
    """They are what sessions begin with, and a verification reads by the same ones."""
    bench.sql("CREATE TABLE s (id int PRIMARY KEY, v int, at timestamp(6) NOT NULL)")
    bench.sql("INSERT INTO s SELECT seq, 0, '2024-01-01' FROM seq_1_to_9")
    chosen = "sql_select_limit = 2, GLOBAL tx_isolation = 'READ-UNCOMMITTED'"
    bench.sql(f"SET GLOBAL {chosen}")
    writer = bench.server.connect("shop", autocommit=False)
    try:
        with writer.cursor() as cursor:
            cursor.execute("INSERT INTO s VALUES (0, 1, '2024-01-01')")
            cursor.execute("UPDATE s SET v = 1 WHERE id = 1")
        table = bench.table("s", cursor="at")
        report = assert_done(bench.load(table))
        assert report.facts["rows"] == 9
        assert bench.texts(table, "v") == ["0"] * 9
        writer.rollback()
        bench.sql("UPDATE s SET v = 2, at = now(6) - INTERVAL 30 SECOND")
        assert_done(bench.sync(table, report.facts["bound"]))
        assert bench.texts(table, "v") == ["2"] * 9
        found = assert_done(bench.verify(table)).facts
        assert (found["verdict"], found["source_rows"]) == ("equal", 9)
    finally:
        writer.close()
        bench.sql("SET GLOBAL sql_select_limit = 18446744073709551615")
        bench.sql("SET GLOBAL tx_isolation = 'REPEATABLE-READ'")


@pytest.mark.long
def test_a_text_that_grows_beyond_a_packet_in_unicode_is_read(
    bench: MariadbBench,
) -> None:
    """Of the server's packet of 16 MiB; a CAST to a longer one is NULL there."""
    bench.sql(
        "CREATE TABLE wide (id int PRIMARY KEY, v longtext CHARACTER SET latin1,"
        " at timestamp(6) NOT NULL DEFAULT now(6))"
    )
    bench.sql("INSERT INTO wide (id, v) VALUES (1, repeat(_latin1 X'E9', 9000000))")
    bench.sql("INSERT INTO wide (id, v) VALUES (2, 'é '), (3, NULL), (4, '')")
    table = bench.table("wide", cursor="at")
    report = assert_done(bench.load(table))
    wanted = [(1, 9_000_000), (2, 2), (3, None), (4, 0)]
    assert lengths(bench, table) == wanted
    bench.sql("UPDATE wide SET at = now(6)")
    assert_done(bench.sync(table, report.facts["bound"]))
    assert lengths(bench, table) == wanted


def test_values_beyond_a_packet_are_read(bench: MariadbBench) -> None:
    """Whatever the server was told to take from others meanwhile."""
    bench.sql(
        "CREATE TABLE small (id int PRIMARY KEY, t text CHARACTER SET latin1,"
        " v varchar(9000) CHARACTER SET latin1, g linestring, b mediumblob)"
    )
    line = "ST_GeomFromText(concat('LINESTRING(', repeat('1 1,', 2000), '2 2)'))"
    values = "repeat(_latin1 X'E9', 60000), repeat(_latin1 X'E9', 9000)"
    bench.sql(f"INSERT INTO small VALUES (1, {values}, {line}, repeat('x', 99999))")
    table = bench.table("small")
    (packet,) = bench.sql("SELECT @@global.max_allowed_packet")[0]
    try:
        bench.sql("SET GLOBAL max_allowed_packet = 16384")
        report = assert_done(bench.load(table))
        facts = assert_done(bench.verify(table)).facts
    finally:
        bench.sql(f"SET GLOBAL max_allowed_packet = {packet}")
    assert (report.facts["lossy"], facts["verdict"]) == ({}, "equal")
    found = bench.frame(table).selectExpr("length(t)", "length(v)", "length(g)", "length(b)")  # fmt: skip
    assert [tuple(row) for row in found.collect()] == [(60_000, 9_000, 32_029, 99_999)]


def lengths(bench: MariadbBench, table: Any) -> list[tuple[int, int | None]]:
    found = bench.frame(table).selectExpr("id", "length(v) AS n").orderBy("id")
    return [(row["id"], row["n"]) for row in found.collect()]


@pytest.mark.parametrize("shows_keys", [True, False])
def test_a_login_with_grants_on_columns_reads_those(
    bench: MariadbBench, *, shows_keys: bool
) -> None:
    bench.sql("CREATE TABLE g (id int PRIMARY KEY, v int, at timestamp(6), s text)")
    bench.sql("INSERT INTO g SELECT seq, 1, now(6), 's' FROM seq_1_to_1000")
    table = bench.table("g", cursor="at")
    seen = replace(table, columns=tuple(table.columns[:3]))
    grants = ["SELECT (id, v, at) ON `shop`.`g`"]
    grants += ["REFERENCES ON `shop`.`g`"] if shows_keys else []
    bench.server.create_user("partly", "p", grants)
    bench.source = replace(bench.source, username="partly")
    bench.password = "p"
    low = assert_done(bench.load(seen, chunk_rows=300)).facts["bound"]
    bench.sql("UPDATE g SET v = 2, at = now(6) WHERE id = 7")
    report = assert_done(bench.sync(seen, low))
    assert bench.frame(seen).where("v = 2").count() == 1
    assert bench.frame(seen).count() == 1000
    if shows_keys:
        bench.server.run("REVOKE SELECT (v) ON `shop`.`g` FROM partly@'%'")
        report = bench.sync(seen, report.facts["position"]["to"])
        assert report.error is not None
        assert report.error.code == "source_changed"


def test_files_of_a_staged_chunk_end_by_what_came_not_by_what_types_allow(
    bench: MariadbBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A LONGTEXT may have a packet, of which a driver holds four rows. 90,000 narrow
    rows (16 MiB) are one file, and 20 MiB of wide ones three."""
    bench.sql("CREATE TABLE narrow (id int PRIMARY KEY, v longtext, j json)")
    bench.sql(
        "INSERT INTO narrow SELECT seq, repeat('y', 99), '[]' FROM seq_1_to_90000"
    )
    bench.sql("CREATE TABLE wide (id int PRIMARY KEY, v longtext CHARACTER SET latin1)")
    bench.sql("INSERT INTO wide SELECT seq, repeat('x', 1 << 20) FROM seq_1_to_20")
    files: list[int] = []
    finish = StagingArea.finish

    def finished(staging: StagingArea, manifest: ChunkManifest) -> None:
        folder = Path(staging.chunk_folder(manifest.number).uri)
        rows = (pq.read_metadata(one).num_rows for one in folder.glob("*.parquet"))
        files.extend(sorted(rows))
        finish(staging, manifest)

    monkeypatch.setattr(StagingArea, "finish", finished)
    for name, wanted in (("narrow", [90_000]), ("wide", [4, 8, 8])):
        table = replace(bench.table(name), key=(), row_hash=True)
        files.clear()
        report = assert_done(bench.load(table))
        assert (report.facts["rows"], files) == (sum(wanted), wanted)
        assert bench.frame(table).count() == sum(wanted)
