"""PostgreSQL's side of the source port, held against a real server, without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import psycopg
import pytest

from catalog.sources.access import SourceAccess as DiscoveryAccess
from catalog.sources.postgresql.discover import PostgresReader
from core.errors import TerminalError
from ingest.contract.table import SHARD, ColumnSpec, TableSpec
from ingest.driver.capture.chunking import cut_table, key_parts
from ingest.driver.capture.jdbc import Fetch, fetch_rows
from ingest.driver.capture.keys import repeated_at_source
from ingest.sources.chunks import predicate_for
from ingest.sources.failures import failure_of
from ingest.sources.fingerprint import (
    SourceFingerprint,
    is_maybe_emptied,
    values_altered,
    what_changed,
)
from ingest.sources.port import Snapshot
from ingest.sources.postgresql.connection import jdbc_options, live_session
from ingest.sources.postgresql.reader import PostgresSource
from ingest.sources.registry import open_source
from ingest.sources.select import relation_of, select_columns
from ingest.sources.statements import never_read
from tests.source_access import postgresql_at
from tests.waiting import wait_for


@pytest.fixture
def dsn(source_pg) -> str:
    return str(source_pg.create_database("port"))


@pytest.fixture
def link(dsn: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(dsn, autocommit=True) as opened:
        yield opened


@pytest.fixture
def source(dsn: str) -> Iterator[PostgresSource]:
    with open_source(postgresql_at(dsn)) as opened:
        assert isinstance(opened, PostgresSource)
        yield opened


def spec_of(table: str, key: tuple[str, ...] = ("id",)) -> TableSpec:
    return TableSpec(1, "public", table, "port", "t", "/p", "/s", (), key)


def test_rows_that_row_security_hides_are_an_error(
    link: psycopg.Connection, source: PostgresSource, dsn: str
) -> None:
    """Even where a policy lets this login see all rows of now."""
    link.execute("CREATE TABLE secured (id bigint PRIMARY KEY); CREATE ROLE few")
    link.execute("CREATE POLICY all_of_now ON secured TO few USING (true)")
    try:
        link.execute("GRANT SELECT ON secured TO few")
        source.rows("SELECT set_config('role', 'few', false)")
        assert list(source.columns(spec_of("secured"))) == ["id"]
        link.execute("ALTER TABLE secured ENABLE ROW LEVEL SECURITY")
        with pytest.raises(TerminalError, match=r"rows of public\.secured") as told:
            source.columns(spec_of("secured"))
        assert told.value.code == "source_rows_hidden"
        # a statement that runs all the same, of a job that is past that look
        with pytest.raises(psycopg.Error) as raised:
            source.rows("SELECT count(*) FROM public.secured")
        found = failure_of(raised.value)
        assert (found.outcome, found.error.code) == ("terminal", "source_rows_hidden")
        assert "secured" in found.error.message
        session = jdbc_options(postgresql_at(dsn), "SELECT 1", Snapshot())[
            "sluiceSession"
        ]
        assert "SET row_security = 'off'" in session
    finally:
        link.execute("DROP OWNED BY few; DROP ROLE few")


def test_limits_of_the_role_do_not_end_our_sessions(
    link: psycopg.Connection, dsn: str
) -> None:
    """An hour of reading is one transaction, and a connection waits for its turn."""
    limits = ("idle_session_timeout", "transaction_timeout")
    link.execute("CREATE ROLE hasty LOGIN SUPERUSER PASSWORD 'p'")
    try:
        for name in limits:
            link.execute(f"ALTER ROLE hasty SET {name} = '300ms'")
        access = postgresql_at(dsn)
        spec = replace(access.spec, username="hasty")
        access = replace(access, spec=spec, password="p")
        link.execute("CREATE TABLE o (id bigint PRIMARY KEY)")
        with open_source(access) as hasty, hasty.reading(spec_of("o")):
            found = [hasty.one(f"SHOW {name}")[0] for name in limits]
            assert found == ["0", "0"]
            link.execute("SELECT pg_sleep(1)")
            held = link.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE usename = 'hasty'"
                " AND state = 'idle in transaction'"
            ).fetchone()
            assert held == (1,)
        session = jdbc_options(access, "SELECT 1", Snapshot())["sluiceSession"]
        for name in limits:
            assert name in session
    finally:
        link.execute("DROP ROLE hasty")


HOSTILE = """
CREATE EXTENSION ltree; CREATE EXTENSION citext; CREATE SCHEMA evil;
CREATE DOMAIN evil.text AS pg_catalog.varchar(1);
CREATE FUNCTION evil.pg_export_snapshot() RETURNS pg_catalog.text
  LANGUAGE sql AS $$SELECT ''$$;
CREATE TABLE trees (k ltree PRIMARY KEY);
INSERT INTO trees SELECT ('A.b' || n)::ltree FROM generate_series(1, 30) n;
CREATE TABLE words (k citext PRIMARY KEY);
INSERT INTO words SELECT CASE n % 2 WHEN 0 THEN upper(md5(n::text)) ELSE md5(n::text) END
  FROM generate_series(1, 30) n;
CREATE TABLE lists (k text[] PRIMARY KEY);
INSERT INTO lists SELECT ARRAY['a' || n, NULL] FROM generate_series(1, 30) n;
"""


@pytest.mark.parametrize("table", ["trees", "words", "lists"])
@pytest.mark.parametrize("path", ["''", '"$user", public', "evil, pg_catalog, public"])
def test_keys_are_in_one_range_each_whatever_a_database_sets(
    link: psycopg.Connection, dsn: str, table: str, path: str
) -> None:
    """The type of an extension had no operators, an element NULL became the word, and
    names of types and functions were those of somebody's schema."""
    link.execute(HOSTILE)
    database = link.info.dbname
    link.execute(f'ALTER DATABASE "{database}" SET search_path = {path}')
    link.execute(f'ALTER DATABASE "{database}" SET array_nulls = off')
    access, spec = postgresql_at(dsn), spec_of(table, ("k",))
    column = ColumnSpec("k", "k", "text", "string")
    with open_source(access) as source:
        facts = source.key_facts(spec, spec.key)
        parts = key_parts(spec, facts)
        with source.within(spec):
            cut = cut_table(Mock(), source, spec, facts, chunk_rows=7, readers=1)
        assert len(cut.chunks) > 3
        with source.reading(spec) as snapshot:
            read: list[str] = []
            for chunk in cut.chunks:
                where = predicate_for(source.dialect, cut.by, parts, chunk)
                sql = select_columns(source.dialect, [column]).sql(
                    relation_of(source.dialect, spec), where
                )
                read += read_as_jdbc(dsn, jdbc_options(access, sql, snapshot))
    wanted = link.execute(f"SELECT k::text FROM public.{table}").fetchall()
    assert sorted(read) == sorted(key for (key,) in wanted)


@pytest.mark.parametrize("table", ["trees", "words"])
def test_keys_of_types_of_extensions_may_be_repeated(
    link: psycopg.Connection, dsn: str, table: str
) -> None:
    """Each sync of such a table failed: the type had no operator."""
    link.execute(HOSTILE)
    link.execute(f"ALTER TABLE {table} DROP CONSTRAINT {table}_pkey")
    link.execute(f"INSERT INTO {table} SELECT k FROM {table} LIMIT 3")
    spec = spec_of(table, ("k",))
    with open_source(postgresql_at(dsn)) as source:
        assert repeated_at_source(source, spec, "true") == 3


def read_as_jdbc(dsn: str, options: Mapping[str, str]) -> list[str]:
    with psycopg.connect(dsn, autocommit=True) as reader:
        reader.execute(options["sluiceSession"].encode())
        reader.execute("BEGIN")
        reader.execute(options["sessionInitStatement"].encode())
        found = reader.execute(f"SELECT * FROM {options['dbtable']}".encode())
        return [text for text, *_ in found.fetchall()]


def test_who_may_still_write_is_seen_without_the_servers_statistics(
    link: psycopg.Connection, source: PostgresSource, dsn: str
) -> None:
    """With track_activities = off nobody says when a transaction began: its rows were
    passed over without a word."""
    link.execute("CREATE TABLE o (id bigint PRIMARY KEY)")
    assert source.clock().sees_others
    with psycopg.connect(dsn, options="-c track_activities=off") as other:
        began = source.clock().now
        other.execute("SELECT 1")
        clock = source.clock()
        assert (clock.sees_others, clock.transactions) == (False, ())
        other.execute("INSERT INTO o VALUES (1)")
        (held,) = source.clock().transactions
        assert held.pid == other.info.backend_pid
        assert held.since <= began
    # the server ends a backend after its client has left
    wait_for(lambda: source.clock().sees_others or None, "the other session to end")


def test_a_prepared_transaction_may_still_commit(
    link: psycopg.Connection, source: PostgresSource, dsn: str
) -> None:
    link.execute("CREATE TABLE o (id bigint PRIMARY KEY)")
    with psycopg.connect(dsn, autocommit=True) as other:
        other.execute("BEGIN")
        other.execute("INSERT INTO o VALUES (1)")
        other.execute("PREPARE TRANSACTION 'two-phase'")
    try:
        [held] = source.clock().transactions
        assert (held.is_prepared, held.name) == (True, "two-phase")
    finally:
        link.execute("ROLLBACK PREPARED 'two-phase'")
    assert not source.clock().transactions


@pytest.mark.parametrize(
    ("change", "is_maybe"),
    [("TRUNCATE {}", True), ("DELETE FROM {}", False), ("VACUUM {}", False)],
)
@pytest.mark.parametrize("table", ["whole", "parted"])
def test_a_truncated_table_is_looked_at(
    link: psycopg.Connection,
    source: PostgresSource,
    table: str,
    change: str,
    is_maybe: bool,
) -> None:
    link.execute("CREATE TABLE whole (id bigint PRIMARY KEY)")
    link.execute("CREATE TABLE parted (id bigint PRIMARY KEY) PARTITION BY LIST (id)")
    link.execute("CREATE TABLE p1 PARTITION OF parted FOR VALUES IN (1)")
    link.execute("CREATE TABLE p2 PARTITION OF parted FOR VALUES IN (2)")
    before = source.source_fingerprint(spec_of(table))
    assert len(before.files) == (2 if table == "parted" else 1)
    link.execute("CREATE TABLE p3 PARTITION OF parted FOR VALUES IN (3)")
    link.execute("DROP TABLE p1")
    link.execute(change.format(table))
    now = source.source_fingerprint(spec_of(table))
    assert is_maybe_emptied(before, now) is is_maybe
    assert not what_changed(SourceFingerprint(before), now, source.clock().now)


@pytest.mark.parametrize("table", ["whole", "parted"])
def test_a_table_that_a_subscription_fills_is_one_of_another_server(
    source_pg: Any, link: psycopg.Connection, source: PostgresSource, table: str
) -> None:
    """Its rows have cursor values of that one's clock and are applied at any time.

    It is registered, and never runs: a worker of it on the server it is fed by makes
    a slot there, which waits for the end of every open transaction, such as the one
    that drops the subscription and waits for the worker."""
    tables = (
        "CREATE TABLE whole (id bigint PRIMARY KEY);"
        "CREATE TABLE parted (id bigint PRIMARY KEY) PARTITION BY LIST (id);"
        "CREATE TABLE p1 PARTITION OF parted FOR VALUES IN (1)"
    )
    publisher = str(source_pg.create_database("publisher"))
    with psycopg.connect(publisher, autocommit=True) as other:
        other.execute(tables)
        other.execute("CREATE PUBLICATION p FOR TABLE whole, parted")
    link.execute(tables)
    assert not source.source_fingerprint(spec_of(table)).is_subscriber
    link.execute(
        f"CREATE SUBSCRIPTION fed CONNECTION '{publisher}' PUBLICATION p WITH"
        " (enabled = false, create_slot = false, slot_name = NONE, copy_data = false)"
    )
    try:
        assert source.source_fingerprint(spec_of(table)).is_subscriber
    finally:
        link.execute("DROP SUBSCRIPTION fed")


MOODS = """
CREATE TYPE mood AS ENUM ('sad', 'calm');
CREATE DOMAIN my_mood AS mood;
CREATE TYPE pair AS (a int, b mood);
CREATE TYPE span AS RANGE (subtype = mood);
CREATE TYPE other AS ENUM ('sad');
CREATE TABLE m (id bigint PRIMARY KEY, e mood, many mood[], d my_mood, p pair, r span,
                rs {multi}, o other, v int, g int GENERATED ALWAYS AS (v + 1) STORED);
"""
# statement → columns whose values read otherwise behind it
ALTERED = {
    "ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'": "e many d p r rs",
    "ALTER TYPE mood ADD VALUE 'blue' BEFORE 'sad'": "",
    "ALTER TYPE mood RENAME TO feeling": "",
    "ALTER TYPE pair ADD ATTRIBUTE c int": "p",
    "ALTER TYPE pair DROP ATTRIBUTE a": "p",
    "ALTER TYPE pair RENAME ATTRIBUTE a TO z": "",
    "ALTER TABLE m ALTER g DROP EXPRESSION": "",
    "ALTER TABLE m ALTER g SET EXPRESSION AS (v + 2)": "g",
    "VACUUM FULL m": "",
}


@pytest.mark.parametrize("statement", ALTERED)
def test_values_that_read_otherwise_in_rows_nobody_wrote(
    link: psycopg.Connection, source: PostgresSource, statement: str
) -> None:
    version = link.info.server_version
    if "SET EXPRESSION" in statement and version < 170_000:
        pytest.skip("came with PostgreSQL 17")
    link.execute(
        MOODS.format(multi="span_multirange" if version >= 140_000 else "span")
    )
    columns = tuple(
        ColumnSpec(name, name, type, "string")
        for name, (type, _) in source.columns(spec_of("m")).items()
    )
    table = replace(spec_of("m"), columns=columns)
    before = source.source_fingerprint(table)
    link.execute(statement)
    now = source.source_fingerprint(table)
    assert {*values_altered(before, now)} == {*ALTERED[statement].split()}
    left_out = replace(table, columns=columns[:1])
    assert not source.source_fingerprint(left_out).forms


DOMAINS = """
CREATE DOMAIN positive AS integer CHECK (VALUE > 0);
CREATE DOMAIN money2 AS numeric(12,2);
CREATE DOMAIN small_money AS money2 NOT NULL;
CREATE TYPE mood AS ENUM ('calm');
CREATE DOMAIN calm_mood AS mood;
CREATE TABLE dom (id bigint PRIMARY KEY, c positive, m small_money, many positive[],
                  e calm_mood, plain varchar(7)[], at timestamp(3));
"""


def test_columns_have_the_types_that_discovery_plans_with(
    dsn: str, link: psycopg.Connection, source: PostgresSource
) -> None:
    """A column of a domain was never readable: its two names differed."""
    link.execute(DOMAINS)
    spec = postgresql_at(dsn).spec
    access = DiscoveryAccess(
        kind="postgresql",
        host=spec.host,
        port=spec.port,
        database=spec.database,
        username=spec.username,
        password=postgresql_at(dsn).password,
        tls="off",
    )
    with PostgresReader(access) as reader:
        planned = reader.table("public", "dom")
    assert planned is not None
    wanted = {c.source_name: c.source_type for c in planned.schema.columns}
    read = {name: text for name, (text, _) in source.columns(spec_of("dom")).items()}
    assert read == wanted
    assert read["c"] == "integer"
    assert read["m"] == "numeric(12,2)"
    assert read["many"] == "integer[]"


def test_a_parent_of_children_has_no_unique_key_and_counts_their_rows(
    link: psycopg.Connection, source: PostgresSource
) -> None:
    link.execute("CREATE TABLE parent (id int PRIMARY KEY, v text)")
    assert source.key_facts(spec_of("parent"), ("id",)).is_unique
    assert source.key_facts(spec_of("parent"), ("id", "v")).is_unique
    assert not source.key_facts(spec_of("parent"), ("v",)).is_unique
    link.execute("CREATE TABLE child () INHERITS (parent)")
    link.execute("INSERT INTO parent VALUES (1, 'p')")
    link.execute("INSERT INTO child SELECT g, 'c' FROM generate_series(1, 2000) g")
    link.execute("ANALYZE parent, child")
    facts = source.key_facts(spec_of("parent"), ("id",))
    assert not facts.is_unique, "the child repeats a key of the parent"
    assert facts.is_walkable
    assert source.estimated_rows(spec_of("parent")) == 2001
    assert source.pages(spec_of("parent")) > 1
    link.execute("CREATE TABLE parts (id int PRIMARY KEY) PARTITION BY RANGE (id)")
    link.execute("CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (9)")
    assert source.key_facts(spec_of("parts"), ("id",)).is_unique


@pytest.mark.parametrize("zone", ["with", "without"])
def test_cursors_below_every_position_are_counted_like_null(
    link: psycopg.Connection, source: PostgresSource, zone: str
) -> None:
    """They were neither read nor told of."""
    type = f"timestamp {zone} time zone"
    link.execute(f"CREATE TABLE c (id int PRIMARY KEY, at {type})")
    link.execute("CREATE INDEX ON c (at)")
    link.execute(
        "INSERT INTO c SELECT 1000 + g, now() FROM generate_series(1, 20000) g"
    )
    odd = ["NULL", "'-infinity'", "'0044-03-15 BC'"]
    for i, value in enumerate([*odd, "'0001-01-01 00:00+00'", "now()", "'infinity'"]):
        link.execute(f"INSERT INTO c VALUES ({i}, {value})")
    link.execute("ANALYZE c")
    lake = "timestamp" if zone == "with" else "timestamp_ntz"
    at = ColumnSpec("at", "at", type, lake)
    table = replace(spec_of("c"), columns=(at,), cursor="at")
    unseen = never_read(source.dialect, table, position="")
    found = source.rows(f"SELECT id FROM public.c WHERE {unseen}")
    assert sorted(row[0] for row in found) == [0, 1, 2]
    plan = str(source.rows(f"EXPLAIN SELECT id FROM public.c WHERE {unseen}"))
    assert "Seq Scan" not in plan, plan


def test_the_clock_is_read_before_the_list_of_transactions(
    source: PostgresSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction that begins in between is younger than the clock's reading; read
    the other way round, it was in no list and older than the watermark."""
    asked: list[str] = []
    one = source.one

    def listening(sql: str, *parameters: object) -> tuple[object, ...]:
        asked.append(sql)
        return one(sql, *parameters)

    monkeypatch.setattr(source, "one", listening)
    source.clock()
    clocks = [i for i, sql in enumerate(asked) if "clock_timestamp()" in sql]
    lists = [i for i, sql in enumerate(asked) if "pg_stat_activity" in sql]
    assert len(clocks) == len(lists) == 1
    assert clocks < lists


def test_the_widest_row_is_known_before_any_is_read(
    link: psycopg.Connection, source: PostgresSource
) -> None:
    """The average on disk hides it: values are compressed, and most rows are small."""
    link.execute(
        "CREATE TABLE w (id int PRIMARY KEY, v text, b bytea, a varchar(3)[], c char[])"
    )
    types = {"id": "integer", "v": "text", "b": "bytea"}
    types |= {"a": "character varying(3)[]", "c": "character(1)[]"}
    # of a sharded table, too, which has a column that its source has not
    types |= {SHARD: ""}
    columns = tuple(
        ColumnSpec(name, name, type, "string") for name, type in types.items()
    )
    table = replace(spec_of("w"), columns=columns)
    link.execute("INSERT INTO w SELECT g, 'small' FROM generate_series(1, 5000) g")
    link.execute("ANALYZE w")
    assert fetch_rows(source.widths(table)) == Fetch(500, 10_000)
    link.execute(
        "INSERT INTO w VALUES (0, repeat('x', 4194304), repeat('y', 99)::bytea)"
    )
    found = source.widths(table)
    assert found.average < 100
    assert 4_194_304 < found.widest < 4_200_000
    assert fetch_rows(found) == Fetch(15, 15)
    link.execute(
        "INSERT INTO w VALUES (-1, NULL, decode(repeat('00', 40000000), 'hex'))"
    )
    with pytest.raises(
        TerminalError, match=r"public\.w has a row of about 76 MiB"
    ) as told:
        source.widths(table)
    assert told.value.code == "source_row_too_wide"


def test_a_statement_ends_with_its_client(link: psycopg.Connection, dsn: str) -> None:
    """As of an engine that reads a live source and is killed."""

    def running() -> int:
        row = link.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
            " AND datname = current_database()"
        ).fetchone()
        assert row
        return int(row[0])

    with psycopg.connect(dsn, autocommit=True) as client:
        for setting in live_session(600):
            client.execute(setting)
        client.pgconn.send_query(b"SELECT pg_sleep(600)")
        wait_for(lambda: running() == 1, "it runs there")
        client.pgconn.finish()
        wait_for(lambda: running() == 0, "it is over there")
