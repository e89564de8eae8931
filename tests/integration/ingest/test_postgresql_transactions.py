"""When a load may begin behind a place of PostgreSQL's log: everything that the log has
by then can be seen."""

from __future__ import annotations

import itertools
import threading
import uuid
from collections.abc import Iterator

import psycopg
import pytest

from ingest.contract.source_positions import PostgresLog
from ingest.sources.postgresql.reader import PostgresSource, open_source
from tests.source_access import postgresql_at
from tests.waiting import wait_for


@pytest.fixture
def dsn(source_pg) -> str:
    made: str = source_pg.create_database(f"seen_{uuid.uuid4().hex[:8]}")
    with psycopg.connect(made, autocommit=True) as link:
        link.execute("CREATE TABLE t (id int PRIMARY KEY)")
    return made


@pytest.fixture
def source(dsn: str) -> Iterator[PostgresSource]:
    with open_source(postgresql_at(dsn)) as opened:
        yield opened


def begin_commit(
    writer: psycopg.Connection, other: psycopg.Connection, row: int
) -> threading.Thread:
    """Until it waits for a standby, or is over: a server that has not read its new
    settings yet waits for none."""
    waits = "SELECT wait_event = 'SyncRep' FROM pg_stat_activity WHERE pid = %s"
    pid = writer.info.backend_pid
    # servers of tests wait for nothing else
    writer.execute("SET LOCAL synchronous_commit = on")
    writer.execute("INSERT INTO t VALUES (%s)", [row])
    commit = threading.Thread(target=writer.commit)
    commit.start()

    def is_decided() -> bool:
        waiting = other.execute(waits, [pid]).fetchone() == (True,)
        return waiting or not commit.is_alive()

    wait_for(is_decided, "its commit to wait or to end")
    return commit


def test_a_commit_that_is_in_the_log_and_that_nobody_sees_yet_is_waited_for(
    dsn: str, source: PostgresSource
) -> None:
    """It waits for a standby that does not answer: a follower of the log has it by
    then, and the upper end of a snapshot is its own number, so it is below none."""
    with psycopg.connect(dsn) as writer, psycopg.connect(dsn, autocommit=True) as other:
        other.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        other.execute("SELECT pg_reload_conf()")
        pid = writer.info.backend_pid
        try:
            for row in itertools.count():
                commit = begin_commit(writer, other, row)
                if commit.is_alive():
                    break
            assert source.one("SELECT count(*) FROM public.t") == (row,)
            newest = source.newest_transaction()
            holder = source.who_is_open(newest)
            assert f"pid {pid}" in holder
            assert "SyncRep" in holder
        finally:
            other.execute("ALTER SYSTEM RESET synchronous_standby_names")
            other.execute("SELECT pg_reload_conf()")
            commit.join()
        assert source.who_is_open(newest) == ""
        moment = source.moment()
        assert int(moment.snapshot.partition(":")[0]) >= newest


def test_who_holds_a_load_up_is_named(dsn: str, source: PostgresSource) -> None:
    with psycopg.connect(dsn) as writer:
        writer.execute("INSERT INTO t VALUES (1)")
        newest = source.newest_transaction()
        assert f"pid {writer.info.backend_pid}" in source.who_is_open(newest)
        assert source.who_is_open(newest - 1) == "", "it had not begun"
    assert source.who_is_open(newest) == ""


def test_a_moment_is_behind_all_that_it_shows_and_never_renewed(
    dsn: str, source: PostgresSource
) -> None:
    with psycopg.connect(dsn, autocommit=True) as link:
        before = source.moment()
        link.execute("INSERT INTO t VALUES (1)")
        after = source.moment()
    first, second = map(PostgresLog.decode, (before.at, after.at))
    assert first.order(second) == "before"
    assert first.identity == second.identity
    assert before.snapshot != after.snapshot
