"""Real replicas of MariaDB are known as such, whatever they say of
themselves, and are not complete beyond what they can know."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from typing import Any

import pytest

from core.errors import InvalidRequest, TransientError
from ingest.driver.capture.reading import read_bound
from ingest.sources.registry import open_source
from tests.hostile.proxy import proxy_of
from tests.integration.ingest.bound_runs import LAG, run_of, table_of
from tests.mariadb import MariaDbServer
from tests.source_access import mariadb_at
from tests.waiting import wait_for

TABLE = table_of("mirrored", "timestamp(6)")


@pytest.fixture
def started() -> Iterator[Any]:
    """Starts servers, all with one password, and ends them."""
    with ExitStack() as stack:

        def start(*options: str, password: str = "") -> MariaDbServer:
            server = MariaDbServer(options)
            stack.callback(server.destroy)
            server.password = password or server.password
            server.start()
            return server

        yield start


def ask(server: MariaDbServer, sql: str) -> Any:
    """The first row; None = there is none."""
    with closing(server.connect()) as link, link.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchone()


def has_row(server: MariaDbServer, number: int) -> bool:
    there = "SELECT 1 FROM information_schema.tables WHERE table_schema = 'mirrored'"
    return bool(ask(server, there)) and bool(
        ask(server, f"SELECT 1 FROM mirrored.o WHERE id = {number}")
    )


def follow(replica: MariaDbServer, primary: MariaDbServer, port: int = 0) -> None:
    primary.create_user("copy", "c", ["REPLICATION SLAVE ON *.*"])
    replica.run(
        f"CHANGE MASTER TO MASTER_HOST = '{primary.host}', MASTER_PORT ="
        f" {port or primary.port}, MASTER_USER = 'copy', MASTER_PASSWORD = 'c',"
        " MASTER_USE_GTID = no",
        "START SLAVE",
    )


def write(primary: MariaDbServer, number: int) -> datetime:
    """The time of the row."""
    primary.run(f"INSERT INTO mirrored.o (id) VALUES ({number})")
    sql = "SELECT CONVERT_TZ(at, @@time_zone, '+00:00') FROM mirrored.o WHERE id = %d"
    found: datetime = ask(primary, sql % number)[0]
    return found.replace(tzinfo=UTC)


def make_table(primary: MariaDbServer) -> None:
    primary.create_database("mirrored")
    primary.run(
        "CREATE TABLE mirrored.o (id int PRIMARY KEY, at timestamp(6) DEFAULT now(6))"
    )


MIRRORS = "--replicate-wild-do-table=mirrored.%"


@pytest.mark.long
def test_a_silent_primary_is_not_taken_for_an_idle_one(started: Any) -> None:
    primary, replica = started(), started("--server-id=2", MIRRORS)
    proxy = proxy_of("mariadb", primary.host, primary.port)
    try:
        follow(replica, primary, proxy.port)
        make_table(primary)
        write(primary, 1)
        wait_for(lambda: has_row(replica, 1), "the first row")
        proxy.freeze()
        written = write(primary, 2)
        now = "SELECT UTC_TIMESTAMP(6) - INTERVAL 2 SECOND"
        wait_for(
            lambda: ask(replica, now)[0].replace(tzinfo=UTC) > written, "the clock"
        )
        access = mariadb_at(replica)
        with open_source(access) as source:
            run = run_of(access.spec, TABLE, chosen=True)
            clock, bound = read_bound(run, source, lag_seconds=1, low=None)
        assert clock.now > written
        assert not has_row(replica, 2)
        assert bound.reach < written, "the row would be passed over"
        proxy.thaw()
        wait_for(lambda: has_row(replica, 2), "the row that came later")
    finally:
        proxy.close()


@pytest.mark.long
def test_a_replica_of_a_replica_waits(started: Any) -> None:
    primary = started()
    middle = started("--server-id=2", "--log-slave-updates=1", MIRRORS)
    last = started("--server-id=3", MIRRORS)
    follow(middle, primary)
    follow(last, middle)
    make_table(primary)
    write(primary, 1)
    wait_for(lambda: has_row(last, 1), "the first row")
    for server, waits in ((middle, False), (last, True)):
        access = mariadb_at(server)
        with open_source(access) as source:
            run = run_of(access.spec, TABLE, chosen=True)
            if not waits:
                read_bound(run, source, lag_seconds=LAG, low=None)
                continue
            with pytest.raises(TransientError) as refused:
                read_bound(run, source, lag_seconds=LAG, low=None)
            assert refused.value.code == "replication_stopped"
            assert "follows a server that is a replica" in refused.value.message


def test_a_replica_of_mariadb_is_known_without_read_only(
    mariadb_server: MariaDbServer,
) -> None:
    mariadb_server.create_database("mirrored")
    mariadb_server.create_user("copy", "c", ["REPLICATION SLAVE ON *.*"])
    replica = MariaDbServer(["--server-id=2"])
    try:
        replica.start()
        access = mariadb_at(replica)
        with open_source(access) as source:
            assert source.clock().replica is None
            replica.run(
                f"CHANGE MASTER TO MASTER_HOST = '{mariadb_server.host}', MASTER_PORT ="
                f" {mariadb_server.port}, MASTER_USER = 'copy', MASTER_PASSWORD = 'c',"
                " MASTER_USE_GTID = no",
            )
            stopped = run_of(access.spec, TABLE, chosen=True)
            with pytest.raises(TransientError) as waits:
                read_bound(stopped, source, lag_seconds=LAG, low=None)
            assert waits.value.code == "replication_stopped"
            with pytest.raises(InvalidRequest) as refused:
                read_bound(
                    run_of(access.spec, TABLE, chosen=False),
                    source,
                    lag_seconds=5,
                    low=None,
                )
            assert refused.value.code == "standby_without_lag"
        replica.create_user("weak", "w", ["SELECT ON *.*"])
        replica.run("SET GLOBAL read_only = 1")
        with open_source(mariadb_at(replica, "weak", "w")) as source:
            clock = source.clock()
            assert clock.replica is not None
            assert not clock.replica.may_ask
            assert clock.complete_until == clock.now
    finally:
        replica.destroy()
