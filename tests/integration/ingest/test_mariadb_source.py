"""MariaDB's side of the source port, held against a real server, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from catalog.schema.limits import LIMITS
from catalog.sources.mariadb.types import lake_type
from core.errors import InvalidRequest, TerminalError
from ingest.contract.job import JobSpec, SyncWork
from ingest.contract.positions import Bound, SourceClock
from ingest.contract.table import ColumnSpec, FenceSpec, TableSpec
from ingest.driver.apply.jobrun import JobRun
from ingest.driver.capture.chunking import cut_table, key_parts
from ingest.driver.capture.jdbc import Fetch, fetch_rows
from ingest.driver.capture.keys import refuse_shared_texts
from ingest.driver.capture.timestamp import _window
from ingest.sources.chunks import KeyPart, predicate_for
from ingest.sources.mariadb.dialect import MariadbDialect
from ingest.sources.port import Source
from ingest.sources.registry import open_source
from ingest.sources.statements import never_read
from tests.mariadb import MariaDbServer
from tests.source_access import mariadb_at
from tests.waiting import LIMIT_SECONDS, wait_for

KEYS = [
    ("k tinyint unsigned", "seq"),
    ("k bigint unsigned", "18446744073709551615 - seq * 3"),
    ("k bigint", "-9223372036854775808 + cast(seq as signed) * 1000000007"),
    ("k decimal(30,6)", "seq * 1.000001"),
    ("k varchar(30) collate utf8mb4_general_ci", "concat('Ä', seq, '\\'\\\\ ')"),
    ("k char(8) character set latin1", "concat('é', seq)"),
    ("k varbinary(9)", "unhex(lpad(hex(seq), 8, '0'))"),
    ("k datetime(6)", "'2024-01-01' + interval seq microsecond"),
    ("k timestamp(3)", "'2024-01-01' + interval seq second"),
    ("k date", "'2024-01-01' + interval seq day"),
    ("k time(3)", "sec_to_time(cast(seq as signed) - 50)"),
    ("k year", "1950 + seq"),
    ("k bit(20)", "seq"),
    ("k uuid", "uuid()"),
    ("k inet6", "concat('::', hex(seq))"),
]
# type → bytes of keys, in no order
ODD_TEXTS = {
    "varchar(10) character set cp1251 collate cp1251_bin": "31 32 61 7A 98",
    "char(10) character set cp1251 collate cp1251_general_ci": "31 3F 7A 98",
    "varchar(10) character set greek collate greek_bin": "31 3F AE D2 FF C1",
    "varchar(10) character set hebrew": "3F A1 BF DF E0 FB",
    "varchar(10) character set cp1250 collate cp1250_bin": "3F 81 83 98 E1",
    "varchar(10) character set cp1256 collate cp1256_bin": "3F 8A AA FF C7",
    # one character by two codes
    "varchar(10) character set sjis collate sjis_bin": "61 81E0 815F B1 E040",
    "varchar(10) character set cp932 collate cp932_bin": "61 81E0 8790 EE40 FA5C",
    "varchar(10) character set eucjpms collate eucjpms_bin": "61 A2E2 ADB5 8EB1",
    "varchar(10) character set gbk collate gbk_bin": "61 8140 A2A0 A6B9 FEFE",
    "char(10) character set euckr collate euckr_bin": "61 A1A1 C8FE FEFE",
    "varchar(10) character set big5 collate big5_bin": "61 A15A A1C3 F9FE",
    "varchar(10) character set ucs2 collate ucs2_bin": "0061 0000 D800 FFFF 0041",
    "varchar(10) character set utf16 collate utf16_bin": "0061 0000 D83DDE00 FFFF",
    "varchar(10) character set utf8mb4 collate utf8mb4_unicode_ci": "61 C3A9 F09F9880 C39F",
    "varchar(10) character set utf8mb4 collate utf8mb4_nopad_bin": "61 6100 6120 6109",
    # NUL, and what else is short of a space
    "varchar(10) collate utf8mb4_bin": "61 7A007A 7A 00 0000 61092D 5C",
    "char(10) character set latin1": "61 7A007A 00 5C27",
    "varchar(10) character set binary": "61 7A007A 00 98 FF",
}  # fmt: skip
# Indexes with an order that comparisons do not have.
UNORDERED = [
    "char(6) character set utf8mb4 collate utf8mb4_nopad_bin",
    "char(6) character set cp1256 collate cp1256_general_nopad_ci",
    "char(6) character set utf8mb4 collate utf8mb4_uca1400_nopad_as_cs",
    "char(6) character set tis620 collate tis620_thai_ci",
]
UNWALKED = [
    ("k double", "seq / 3"),
    ("k float", "seq / 3"),
    ("k enum('z','y','x')", "elt(1 + seq % 3, 'z', 'y', 'x')"),
    ("k set('z','y')", "seq % 4"),
]


@pytest.fixture
def source(mariadb_server: MariaDbServer) -> Iterator[Source]:
    mariadb_server.create_database("keys")
    with open_source(mariadb_at(mariadb_server)) as opened:
        yield opened


def spec_of(table: str, key: tuple[str, ...]) -> TableSpec:
    return TableSpec(1, "keys", table, "keys", "k", "/p", "/s", (), key)


def run_for(table: TableSpec) -> JobRun:
    fence = FenceSpec("/f", 1)
    spec = JobSpec("j", 1, "snapshot", "snapshot", "/lake", table, fence)
    return JobRun(spec, lambda ref: pytest.fail(f"asked for {ref}"))


def fill(server: MariaDbServer, column: str, value: str) -> None:
    server.run(
        "SET time_zone = '+00:00'",
        "DROP TABLE IF EXISTS k",
        f"CREATE TABLE k ({column} NOT NULL, n int NOT NULL, PRIMARY KEY (k, n))",
        f"INSERT INTO k SELECT {value}, seq FROM seq_1_to_100",
        "ANALYZE TABLE k",
        database="keys",
    )


@pytest.mark.parametrize(("column", "value"), KEYS)
def test_chunks_by_any_key_hold_every_row_once(
    source: Source, mariadb_server: MariaDbServer, column: str, value: str
) -> None:
    fill(mariadb_server, column, value)
    table = spec_of("k", ("k", "n"))
    facts = source.key_facts(table, table.key)
    assert (facts.is_unique, facts.is_walkable, facts.is_not_null) == (True,) * 3
    cut = cut_table(run_for(table), source, table, facts, chunk_rows=30, readers=1)
    assert (cut.by, len(cut.chunks)) == ("key", 4)
    parts = key_parts(table, facts)
    found: list[Any] = []
    for chunk in cut.chunks:
        where = predicate_for(source.dialect, cut.by, parts, chunk)
        rows = source.rows(f"SELECT n FROM `keys`.`k` WHERE {where}")
        assert rows
        found += [row[0] for row in rows]
        # read by the index from its beginning, not by a scan
        plan = source.rows(f"EXPLAIN SELECT n FROM `keys`.`k` WHERE {where}")
        assert plan[0][3] in {"range", "index"}, plan
    assert sorted(found) == list(range(1, 101))


@pytest.mark.parametrize("key", [("k",), ("n", "k")])
@pytest.mark.parametrize("type", ODD_TEXTS)
def test_text_keys_are_cut_by_the_bytes_of_their_own_character_set(
    source: Source, mariadb_server: MariaDbServer, type: str, key: tuple[str, ...]
) -> None:
    """By way of Unicode some have no text of their own: each is a boundary here."""
    texts = ODD_TEXTS[type].split()
    charset = type.partition("character set ")[2].split() or ["utf8mb4"]
    mariadb_server.run(
        f"CREATE OR REPLACE TABLE odd (k {type} NOT NULL, n int NOT NULL, v int,"
        f" PRIMARY KEY ({', '.join(key)})) CHARACTER SET utf8mb4",
        *(
            f"INSERT INTO odd VALUES (_{charset[0]} X'{text}', {n % 2}, {n})"
            for n, text in enumerate(texts)
        ),
        database="keys",
    )
    table = spec_of("odd", key)
    facts = source.key_facts(table, key)
    assert facts.is_walkable
    is_unicode = charset[0] in {"utf8mb4", "ucs2", "utf16", "latin1", "binary"}
    assert facts.is_exact == is_unicode
    cut = cut_table(run_for(table), source, table, facts, chunk_rows=1, readers=1)
    assert len(cut.chunks) == len(texts)
    for chunk in cut.chunks:
        where = predicate_for(source.dialect, cut.by, key_parts(table, facts), chunk)
        [(hexed,)] = source.rows(f"SELECT hex(k) FROM `keys`.odd WHERE {where}")
        texts.remove(hexed)
    assert texts == []


@pytest.mark.parametrize(
    ("charset", "own", "shared"),
    [
        ("cp932", "81E0", "8790"),
        ("sjis", "815F", "5C"),
        ("cp1251", "3F", "98"),
        ("greek", "61", "AE"),
        ("ascii", "3F", "E9"),
        ("latin1", "E9", ""),
    ],
)
def test_a_key_whose_text_can_be_that_of_another_is_refused(
    source: Source, mariadb_server: MariaDbServer, charset: str, own: str, shared: str
) -> None:
    """A sync wrote one row over the other."""
    mariadb_server.run(
        "SET sql_mode = ''",
        f"CREATE OR REPLACE TABLE s (k varchar(9) CHARACTER SET {charset}"
        f" COLLATE {charset}_bin PRIMARY KEY)",
        f"INSERT INTO s VALUES (_{charset} X'{own}')",
        database="keys",
    )
    table = spec_of("s", ("k",))
    types = source.key_facts(table, table.key).types
    refuse_shared_texts(source, table, types, where="1 = 1")
    if not shared:
        return
    mariadb_server.run(
        "SET sql_mode = ''",
        f"INSERT INTO s VALUES (_{charset} X'{shared}')",
        database="keys",
    )
    with pytest.raises(InvalidRequest, match=rf"'k' \(.*X'{shared}'") as caught:
        refuse_shared_texts(source, table, types, where="1 = 1")
    assert caught.value.code == "key_text_shared"
    refuse_shared_texts(source, table, types, where=f"hex(k) <> '{shared}'")


@pytest.mark.parametrize("type", UNORDERED)
def test_text_keys_whose_index_has_another_order_are_read_whole(
    source: Source, mariadb_server: MariaDbServer, type: str
) -> None:
    """Of CHAR without padding the index still has the spaces: 'a' stands behind
    'a\\t' there, and compares as less."""
    fill(mariadb_server, f"k {type}", "concat('a', char(seq))")
    facts = source.key_facts(spec_of("k", ("k", "n")), ("k", "n"))
    assert (facts.is_unique, facts.is_walkable) == (True, False)


def test_a_boundary_that_does_not_grow_ends_the_walk(
    source: Source, mariadb_server: MariaDbServer
) -> None:
    """It sent thousands of statements a second, for ever."""

    class Stuck(MariadbDialect):
        def key_value(self, text: str, type: str) -> str:
            return "''"

    fill(mariadb_server, "k varchar(9)", "seq")
    source.dialect = Stuck()  # type: ignore[misc]
    table = spec_of("k", ("k",))
    facts = source.key_facts(table, table.key)
    with pytest.raises(TerminalError, match="behind a boundary") as caught:
        cut_table(run_for(table), source, table, facts, chunk_rows=3, readers=1)
    assert caught.value.code == "key_not_walkable"


@pytest.mark.parametrize(("column", "value"), UNWALKED)
def test_keys_whose_text_does_not_sort_like_them_are_read_whole(
    source: Source, mariadb_server: MariaDbServer, column: str, value: str
) -> None:
    fill(mariadb_server, column, value)
    table = spec_of("k", ("k", "n"))
    facts = source.key_facts(table, table.key)
    assert not facts.is_walkable
    cut = cut_table(run_for(table), source, table, facts, chunk_rows=30, readers=1)
    assert (cut.by, len(cut.chunks)) == ("whole", 1)


def test_prefixes_and_nullable_columns_are_no_keys(
    source: Source, mariadb_server: MariaDbServer
) -> None:
    mariadb_server.run(
        "CREATE TABLE p (a text NOT NULL, b int, UNIQUE (a(10)), UNIQUE (b))",
        database="keys",
    )
    table = spec_of("p", ("a",))
    prefix = source.key_facts(table, ("a",))
    assert (prefix.is_unique, prefix.is_walkable) == (False, False)
    nullable = source.key_facts(table, ("b",))
    assert (nullable.is_unique, nullable.is_not_null) == (True, False)
    wider = source.key_facts(table, ("a", "b"))
    assert (wider.is_unique, wider.is_walkable) == (True, False), "b alone tells rows"


ODD_CURSORS = {
    "timestamp not null": ["0"],
    "timestamp null": ["0", "NULL"],
    "datetime not null": ["0"],
    "datetime(6) null": [
        *("0", "NULL", "'2024-00-10 01:02:03'", "'2024-02-00'", "'2025-00-00'"),
        "'0000-12-31'",
    ],
}


@pytest.mark.parametrize("type", ODD_CURSORS)
def test_cursors_below_every_position_are_counted_like_null(
    source: Source, mariadb_server: MariaDbServer, type: str
) -> None:
    """They were neither read nor told of."""
    odd = ODD_CURSORS[type]
    rows = [*odd, "'2024-01-31 23:59:59'", "'2024-02-01'", "'2026-11-26'"]
    mariadb_server.run(
        "SET sql_mode = '', time_zone = '+00:00'",
        f"CREATE OR REPLACE TABLE c (id int PRIMARY KEY, at {type}, KEY (at))",
        "INSERT INTO c SELECT 1000 + seq, '2025-01-01' + INTERVAL seq MINUTE"
        " FROM seq_1_to_5000",
        *(f"INSERT INTO c VALUES ({i}, {value})" for i, value in enumerate(rows)),
        "ANALYZE TABLE c",
        database="keys",
    )
    lake = lake_type(type).type
    at = ColumnSpec("at", "at", type, lake)
    table = replace(spec_of("c", ("id",)), columns=(at,), cursor="at")
    unseen = never_read(source.dialect, table, position="2026-11-26T00:00:00")
    found = source.rows(f"SELECT id FROM `keys`.c WHERE {unseen}")
    assert sorted(row[0] for row in found) == list(range(len(odd)))
    [plan] = source.rows(f"EXPLAIN SELECT id FROM `keys`.c WHERE {unseen}")
    assert plan[3] in {"range", "ref", "ref_or_null"}, plan


def test_a_window_is_not_cut_at_a_date_of_no_calendar(
    source: Source, mariadb_server: MariaDbServer
) -> None:
    """The driver gives such a one as text."""
    mariadb_server.run(
        "SET sql_mode = ''",
        "CREATE OR REPLACE TABLE c (id int PRIMARY KEY, at datetime)",
        "INSERT INTO c VALUES (1, '2024-02-01'), (2, '2024-03-00'), (3, '2024-03-02'),"
        " (4, '2024-03-03')",
        database="keys",
    )
    at = ColumnSpec("at", "at", "datetime", "timestamp_ntz")
    table = replace(spec_of("c", ("id",)), columns=(at,), cursor="at")
    run = run_for(table)
    work = SyncWork("2024-01-01T00:00:00", 0, max_rows=2)
    run.spec = replace(run.spec, sync=work)
    now = datetime(2026, 11, 26, tzinfo=UTC)
    window = _window(run, source, SourceClock(now, (), True), Bound(now, now))
    assert (window.high, window.more) == ("2024-03-02T00:00:00.000000", True)
    assert window.null_cursors == 1


@pytest.mark.parametrize("tls", ["off", "require"])
def test_the_address_is_the_servers(mariadb_server: MariaDbServer, tls: str) -> None:
    access = mariadb_at(mariadb_server)
    access = replace(access, spec=replace(access.spec, host="nowhere.invalid", tls=tls))
    with open_source(replace(access, addresses=("127.0.0.99", "127.0.0.1"))) as opened:
        assert opened.address == "127.0.0.1"
        cipher = opened.one("SHOW STATUS LIKE 'Ssl_cipher'")[1]
        assert bool(cipher) == (tls == "require")


def test_numbers_are_compared_as_numbers(source: Source) -> None:
    """A quoted 18446744073709551614 is a DOUBLE to the server, like its neighbours."""
    dialect, part = source.dialect, KeyPart("k", "bigint(20) unsigned")
    value = dialect.key_value("18446744073709551614", part.type)
    assert source.one(f"SELECT 18446744073709551615 > {value}")[0] == 1


@pytest.mark.parametrize(
    "text", ["it's", "back\\slash", '名"字`', "", "a b.c:d+e-f", "😀", "%s ?"]
)
def test_literals_mean_their_text_in_every_mode(source: Source, text: str) -> None:
    for mode in ("", "NO_BACKSLASH_ESCAPES", "ANSI_QUOTES"):
        source.rows(f"SET sql_mode = '{mode}'")
        assert source.one(f"SELECT {source.dialect.literal(text)}")[0] == text


def test_the_clock_knows_who_may_still_write(mariadb_server: MariaDbServer) -> None:
    server = mariadb_server
    server.create_database("keys")
    server.run("CREATE TABLE t (id int PRIMARY KEY)", database="keys")
    server.create_user("plain", "p", ["SELECT ON `keys`.*"])
    access = mariadb_at(server)
    with (
        open_source(access) as source,
        server.connect("keys", autocommit=False) as writer,
        server.connect("keys", autocommit=False) as reader,
    ):
        for link, words in ((writer, "INSERT INTO t VALUES (1)"), (reader, "START TRANSACTION READ ONLY")):  # fmt: skip
            with link.cursor() as cursor:
                cursor.execute(words)
        clock = source.clock()
        assert clock.sees_others
        assert [t.pid for t in clock.transactions] == [writer.thread_id()]
        age = clock.now - clock.transactions[0].since
        assert timedelta(seconds=1) < age < timedelta(seconds=30)
        writer.rollback()
        wait_for(lambda: not source.clock().transactions, "the end of its transaction")
        assert clock.offsets == (0, 0)
        server.run("SET GLOBAL time_zone = '-03:30'")
        assert source.clock().offsets == (-12600, -12600)
        server.run("SET GLOBAL time_zone = DEFAULT")
    weak = mariadb_at(server, "plain", "p")
    with open_source(weak) as source:
        assert not source.clock().sees_others
        assert source.right_to_see_others == "PROCESS"
    # by a role it counts as well, as it does at discovery
    server.run(
        "CREATE OR REPLACE ROLE watch",
        "GRANT PROCESS ON *.* TO watch",
        "GRANT watch TO plain@'%'",
        "SET DEFAULT ROLE watch FOR plain@'%'",
    )
    with open_source(weak) as source:
        assert source.clock().sees_others


def test_a_statement_that_waits_for_its_table_counts_as_a_writer(
    mariadb_server: MariaDbServer,
) -> None:
    """It has read the clock and has no transaction yet."""
    import threading

    server = mariadb_server
    server.create_database("keys")
    server.run("CREATE TABLE w (id int PRIMARY KEY, at timestamp)", database="keys")
    with (
        open_source(mariadb_at(server)) as source,
        server.connect("keys") as locker,
        server.connect("keys") as waiter,
    ):
        with locker.cursor() as cursor:
            cursor.execute("LOCK TABLES w WRITE")

        def insert() -> None:
            with waiter.cursor() as late:
                late.execute("INSERT INTO w VALUES (1, now())")

        thread = threading.Thread(target=insert)
        thread.start()
        wait_for(
            lambda: waiter.thread_id() in {t.pid for t in source.clock().transactions},
            "the one that waits to be told of",
        )
        with locker.cursor() as cursor:
            cursor.execute("UNLOCK TABLES")
        thread.join(LIMIT_SECONDS)
        wait_for(lambda: not source.clock().transactions, "the end of both")


def test_a_prepared_xa_transaction_holds_the_bound(
    mariadb_server: MariaDbServer,
) -> None:
    server = mariadb_server
    server.create_database("keys")
    server.run("CREATE TABLE x (id int PRIMARY KEY)", database="keys")
    with server.connect("keys") as link, link.cursor() as cursor:
        for words in ("XA START 'a'", "INSERT INTO x VALUES (1)", "XA END 'a'", "XA PREPARE 'a'"):  # fmt: skip
            cursor.execute(words)
    with open_source(mariadb_at(server)) as source:
        [held] = source.clock().transactions
        assert held.is_prepared
        server.run("XA ROLLBACK 'a'")
        wait_for(lambda: not source.clock().transactions, "the end of both")


def test_few_rows_of_types_without_a_bound_are_fetched_at_a_time(
    mariadb_server: MariaDbServer, source: Source
) -> None:
    mariadb_server.run(
        "CREATE TABLE keys.plain (id int PRIMARY KEY, v varchar(200), at datetime)",
        "CREATE TABLE keys.wide (id int PRIMARY KEY, v longtext, j json)",
    )
    (packet,) = source.one("SELECT @@global.max_allowed_packet")
    assert fetch_rows(source.widths(spec_of("plain", ("id",)))) == Fetch(500, 10_000)
    found = source.widths(spec_of("wide", ("id",)))
    assert found.widest == packet
    assert fetch_rows(found).first * packet <= LIMITS.result_bytes


def test_a_text_beyond_a_packet_equals_no_constant(
    mariadb_server: MariaDbServer, source: Source
) -> None:
    """What MariaDB computes of it is NULL, by which it would be in no answer."""
    mariadb_server.run(
        "CREATE TABLE keys.beyond (id int, v text CHARACTER SET latin1)",
        "INSERT INTO keys.beyond VALUES (1, 'x'), (2, ''), (3, NULL),"
        " (4, repeat(_latin1 X'E9', 12000))",
    )
    (packet,) = source.one("SELECT @@global.max_allowed_packet")
    text = ColumnSpec("v", "v", "text", "string")
    [(raw, value)] = MariadbDialect().compared(text).pairs
    same, found = f"{raw} = {value}", {}
    try:
        mariadb_server.run("SET GLOBAL max_allowed_packet = 16384")
        with mariadb_server.connect("keys") as link, link.cursor() as cursor:
            for constant in ("x", ""):
                for condition in (same, f"NOT ({same})"):
                    where = condition.replace("?", f"'{constant}'")
                    cursor.execute(f"SELECT id FROM beyond WHERE {where} ORDER BY id")
                    found[constant, condition == same] = sum(cursor.fetchall(), ())
    finally:
        mariadb_server.run(f"SET GLOBAL max_allowed_packet = {packet}")
    assert found == {
        ("x", True): (1,),
        ("x", False): (2, 4),
        ("", True): (2,),
        ("", False): (1, 4),
    }


def test_a_table_made_anew_while_it_is_looked_at_has_columns(
    source: Source, mariadb_server: MariaDbServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would have lost them all, which waits for a person."""
    asked: list[str] = []
    real = source.rows

    def rows(sql: str, *given: Any) -> Any:
        if not asked:
            assert real(sql, *given) == []
            mariadb_server.run("CREATE TABLE keys.anew (id int PRIMARY KEY, v int)")
            asked.append(sql)
            return []
        return real(sql, *given)

    monkeypatch.setattr(source, "rows", rows)
    assert [*source.columns(spec_of("anew", ("id",)))] == ["id", "v"]
