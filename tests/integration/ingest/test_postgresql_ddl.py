"""The control side of PostgreSQL: a snapshot without locks, and guards that see every
rewriting of what it is about to read. Readers here are what Spark's are: sessions that
import the snapshot and run its guard first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import urlparse

import psycopg
import pytest

from catalog.schema import limits
from core.errors import TransientError
from ingest.contract.table import TableSpec
from ingest.sources.failures import failure_of
from ingest.sources.port import Snapshot, Source, SourceAccess
from ingest.sources.postgresql import connection
from ingest.sources.postgresql import snapshot as snapshots
from ingest.sources.postgresql.snapshot import IMPORT
from ingest.sources.registry import open_source
from tests.source_access import postgresql_at
from tests.waiting import LIMIT_SECONDS, wait_for

TABLES = """
CREATE TABLE o (id int PRIMARY KEY, v text);
INSERT INTO o SELECT g, 'x' FROM generate_series(1, 9) g;
CREATE VIEW seen AS SELECT id, v FROM o;
CREATE VIEW twice AS SELECT id, v FROM seen;
CREATE MATERIALIZED VIEW kept AS SELECT id, v FROM o;
CREATE TABLE p (id int, v text) PARTITION BY LIST (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1);
CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2);
INSERT INTO p VALUES (1, 'x'), (2, 'x');
CREATE TABLE parent (id int, v text);
CREATE TABLE child () INHERITS (parent);
INSERT INTO child VALUES (1, 'x');
CREATE TABLE alone (id int, v text);
CREATE UNLOGGED TABLE fast (id int, v text);
INSERT INTO fast VALUES (1, 'x');
"""


@pytest.fixture
def dsn(source_pg: Any) -> str:
    made: str = source_pg.create_database("guarded")
    with psycopg.connect(made, autocommit=True) as link:
        link.execute(TABLES)
    return made


@pytest.fixture
def sql(dsn: str) -> Iterator[Callable[[str], list[Any]]]:
    with closing(psycopg.connect(dsn, autocommit=True)) as link:

        def run(statement: str) -> list[Any]:
            cursor = link.execute(statement)
            return cursor.fetchall() if cursor.description else []

        yield run


def access_of(dsn: str) -> SourceAccess:
    return postgresql_at(dsn, application="sluice:7f")


def table(name: str) -> TableSpec:
    return TableSpec(1, "public", name, "shop", name, "/l", "/s", (), ("id",))


@contextmanager
def reader(dsn: str, snapshot: Snapshot) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(dsn, autocommit=True, application_name="sluice:7f") as link:
        link.execute("BEGIN")
        link.execute(IMPORT)
        link.execute(f"SET TRANSACTION SNAPSHOT '{snapshot.id}'")
        for statement in snapshot.guard:
            link.execute(statement)
        yield link


def until(check: Callable[[], Any]) -> None:
    wait_for(check, "what the test waits for")


REWRITES = [
    ("alone", "ALTER TABLE alone ALTER id TYPE bigint"),
    ("o", "ALTER TABLE o ADD COLUMN x uuid DEFAULT gen_random_uuid()"),
    ("o", "ALTER TABLE o SET UNLOGGED"),
    ("fast", "ALTER TABLE fast SET LOGGED"),
    ("o", "BEGIN; TRUNCATE o; INSERT INTO o VALUES (1); COMMIT"),
    ("o", "CREATE TABLE n (LIKE o); DROP TABLE o CASCADE; ALTER TABLE n RENAME TO o"),
    ("seen", "ALTER TABLE o ADD COLUMN x uuid DEFAULT gen_random_uuid()"),
    ("twice", "BEGIN; TRUNCATE o; INSERT INTO o VALUES (1); COMMIT"),
    ("kept", "REFRESH MATERIALIZED VIEW kept"),
    ("p", "BEGIN; TRUNCATE p2; INSERT INTO p VALUES (2); COMMIT"),
    ("p", "CREATE TABLE p3 PARTITION OF p FOR VALUES IN (3)"),
    ("parent", "BEGIN; TRUNCATE child; INSERT INTO child VALUES (1); COMMIT"),
    ("o", "VACUUM FULL o"),
]


@pytest.mark.parametrize(("name", "statements"), REWRITES)
def test_a_rewritten_table_is_never_read_in_an_older_snapshot(
    dsn: str, sql: Any, name: str, statements: str
) -> None:
    with open_source(access_of(dsn)) as source, source.reading(table(name)) as old:
        before = source.definition(table(name))
        for statement in statements.split("; ") if "VACUUM" not in statements else [statements]:  # fmt: skip
            sql(statement)
        with pytest.raises(psycopg.Error) as raised, reader(dsn, old):
            pass
        assert failure_of(raised.value).error.code == "source_rewritten"
        if name not in {"seen", "twice", "parent"}:
            assert source.definition(table(name)) != before


@pytest.mark.parametrize("name", ["o", "seen", "twice", "kept", "p", "parent", "fast"])
def test_what_changes_only_rows_does_not_disturb(dsn: str, sql: Any, name: str) -> None:
    with open_source(access_of(dsn)) as source, source.reading(table(name)) as snapshot:
        before = source.definition(table(name))
        for statement in (
            "UPDATE o SET v = 'y'",
            "DELETE FROM p",
            "DELETE FROM parent",
            "VACUUM ANALYZE o",
            "CREATE INDEX ON o (v)",
            "DELETE FROM fast",
        ):
            sql(statement)
        with reader(dsn, snapshot) as link:
            rows = link.execute(f"SELECT DISTINCT v FROM public.{name}").fetchall()
        assert rows == [("x",)]
        assert source.definition(table(name)) == before


@pytest.mark.parametrize("name", ["o", "seen", "kept", "p", "parent"])
def test_select_on_the_table_is_the_only_privilege_a_guard_needs(
    dsn: str, sql: Any, name: str
) -> None:
    sql("DROP ROLE IF EXISTS least")
    sql("CREATE ROLE least LOGIN PASSWORD 'p' NOINHERIT")
    sql(f"GRANT SELECT ON {name} TO least")
    plain = urlparse(dsn)._replace(
        netloc=f"least:p@{urlparse(dsn).netloc.split('@')[1]}"
    )
    mine = plain.geturl()
    try:
        with open_source(access_of(mine)) as source:
            with source.reading(table(name)) as snapshot, reader(mine, snapshot):
                pass
            with source.within(table(name)):
                assert source.rows(f"SELECT 1 FROM public.{name} LIMIT 1")
            assert source.definition(table(name))
            assert source.lock_holders(table(name)) == ""
    finally:
        sql("DROP OWNED BY least")
        sql("DROP ROLE least")


def test_the_snapshot_holds_no_lock_and_its_transaction_ends_unused(
    dsn: str, sql: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = "FROM pg_stat_activity WHERE application_name = 'sluice:7f'"
    monkeypatch.setattr(
        "ingest.sources.postgresql.snapshot.LIMITS",
        limits.SourceLimits(unused=0, beat=0.05),
    )
    with open_source(access_of(dsn)) as source:
        with source.reading(table("o")) as first:
            assert sql(f"SELECT count(*) {ours}") == [(2,)]
            # nobody waits for a moment
            sql("SET lock_timeout = '1s'")
            sql("ALTER TABLE o ADD COLUMN z int")
        until(
            lambda: sql(f"SELECT count(*) {ours} AND xact_start IS NOT NULL") == [(0,)]
        )
        with source.reading(table("o")) as second:
            assert second.id != first.id
        until(
            lambda: sql(f"SELECT count(*) {ours} AND xact_start IS NOT NULL") == [(0,)]
        )
        with (
            pytest.raises(TransientError, match="given back"),
            source.reading(table("o"), can_renew=False),
        ):
            pass
    until(lambda: sql(f"SELECT count(*) {ours}") == [(0,)])


def test_the_source_ends_the_transaction_of_a_holder_that_fell_silent(
    dsn: str, sql: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "ingest.sources.postgresql.snapshot.LIMITS",
        limits.SourceLimits(abandoned=1, beat=3_600, connect=1),
    )
    open_ones = (
        "SELECT count(*) FROM pg_stat_activity WHERE xact_start IS NOT NULL"
        " AND application_name = 'sluice:7f'"
    )
    source: Source
    with open_source(access_of(dsn)) as source, source.reading(table("o")):
        until(lambda: sql(open_ones) == [(0,)])


def test_a_reader_ends_for_who_waits_for_its_lock(
    dsn: str, sql: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that is between two batches, and has no statement to cancel."""
    monkeypatch.setattr(
        "ingest.sources.postgresql.snapshot.LIMITS",
        limits.SourceLimits(give_way=1, beat=0.1),
    )
    sql("SET lock_timeout = '60s'")
    with (
        open_source(access_of(dsn)) as source,
        source.reading(table("o")) as snapshot,
        reader(dsn, snapshot) as idle,
    ):
        sql("ALTER TABLE o ADD COLUMN y int")
        with pytest.raises(psycopg.OperationalError):
            idle.execute("SELECT 1")
        source.give_back()
    assert source.gave_way.startswith("pid ")


def test_a_lock_is_waited_for_only_so_long_and_its_holder_has_a_name(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connection.CONTROL_SETTINGS, "lock_timeout", "1s")
    monkeypatch.setattr(snapshots, "LIMITS", limits.SourceLimits(lock=1))
    with psycopg.connect(dsn) as other, open_source(access_of(dsn)) as source:
        other.execute("LOCK TABLE p2 IN ACCESS EXCLUSIVE MODE")
        with (
            pytest.raises(psycopg.errors.LockNotAvailable),
            source.reading(table("p")) as snapshot,
            reader(dsn, snapshot),
        ):
            pass
        held = source.lock_holders(table("p"))
        assert held.startswith(f"held by pid {other.info.backend_pid} (LOCK TABLE p2")
        with pytest.raises(psycopg.errors.LockNotAvailable), source.within(table("p")):
            pass
        with source.within(table("o")):
            assert source.one("SELECT 1") == (1,)


def test_a_source_that_falls_silent_lets_go_of_who_hangs_up(dsn: str, sql: Any) -> None:
    failed: list[BaseException] = []

    with open_source(access_of(dsn)) as source:

        def wait() -> None:
            try:
                source.rows("SELECT pg_sleep(600)")
            except psycopg.Error as error:
                failed.append(error)

        waiting = threading.Thread(target=wait)
        waiting.start()
        until(
            lambda: (
                sql(
                    "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%sleep(600)'"
                    " AND application_name = 'sluice:7f' AND state = 'active'"
                )
                == [(1,)]
            )
        )
        source.hang_up()
        waiting.join(LIMIT_SECONDS)
        assert failed
