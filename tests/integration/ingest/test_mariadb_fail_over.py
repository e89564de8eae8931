"""A follower of MariaDB goes on at a replica that took the place of its primary."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ingest.contract.following import FollowTable
from ingest.contract.source_positions import MariaDbLog
from tests.integration.ingest.mariadb_following import (
    MariaWorld,
    maria_table,
    maria_world,
)
from tests.mariadb import MariaDbServer
from tests.waiting import wait_for

FIRST = FollowTable(maria_table(1), load="first", finished_at="")


@pytest.fixture
def replica(mariadb_server: MariaDbServer) -> Iterator[MariaDbServer]:
    """Of the server that all share, from now on."""
    server = MariaDbServer(["--server-id=2", "--log-slave-updates=1"])
    try:
        server.start()
        mariadb_server.create_user("copy", "c", ["REPLICATION SLAVE ON *.*"])
        with closing(mariadb_server.connect()) as link, link.cursor() as cursor:
            cursor.execute("SELECT @@gtid_binlog_pos")
            ((state,),) = cursor.fetchall()
        server.run(
            "RESET MASTER",
            f"SET GLOBAL gtid_slave_pos = '{state}'",
            f"CHANGE MASTER TO MASTER_HOST = '{mariadb_server.host}', MASTER_PORT ="
            f" {mariadb_server.port}, MASTER_USER = 'copy', MASTER_PASSWORD = 'c',"
            " MASTER_USE_GTID = slave_pos",
            "START SLAVE",
        )
        yield server
    finally:
        server.destroy()


@pytest.fixture
def maria(
    replica: MariaDbServer, mariadb_server: MariaDbServer, tmp_path: Path
) -> Iterator[MariaWorld]:
    with maria_world(mariadb_server, tmp_path) as world:
        world.run("CREATE TABLE t (id int PRIMARY KEY, v text)")
        yield world


def state_of(server: MariaDbServer) -> str:
    with closing(server.connect()) as link, link.cursor() as cursor:
        cursor.execute("SELECT @@gtid_binlog_pos")
        return str(cursor.fetchone()[0])


def test_nothing_is_lost_and_nothing_comes_twice(
    maria: MariaWorld, mariadb_server: MariaDbServer, replica: MariaDbServer
) -> None:
    run = maria.following(FIRST)
    maria.run("INSERT INTO t VALUES (1, 'a')")
    maria.durable(run)
    # its load is over, so the table goes on
    done = maria.of(FollowTable(maria_table(1), load="first", finished_at=maria.here()))
    run.want(done)
    run.until(lambda s: s.tables[0].state == "finished", "the end of its load")
    maria.durable(run)
    run.kill()
    maria.run("INSERT INTO t VALUES (2, 'b')", "ALTER TABLE t ADD n int DEFAULT 5")
    wait_for(lambda: state_of(replica) == state_of(mariadb_server), "the replica")
    replica.run("STOP SLAVE", "RESET SLAVE ALL", "FLUSH BINARY LOGS")
    maria.server = replica
    maria.run("INSERT INTO t VALUES (3, 'c', 6)")
    run = maria.following(done)
    maria.durable(run)
    assert [one.values["id"] for one in maria.changes()] == [1, 2, 3]
    assert run.problem(1) == ""
    run.kill()
    run = maria.following(done)
    maria.run("INSERT INTO t VALUES (4, 'd', 7)")
    maria.durable(run)
    assert [one.values["id"] for one in maria.changes()] == [1, 2, 3, 4]
    newest = maria.newest()
    assert newest is not None
    assert MariaDbLog.decode(newest.end).server == 2
    assert maria.reasons() == []
    run.kill()
    # the former primary has nothing of that, and something else
    mariadb_server.run("INSERT INTO t VALUES (9, 'x', 1)", database=maria.dsn)
    maria.server = mariadb_server
    outcome, error = maria.start(done).until_failed()
    assert (outcome, error.code) == ("terminal", "source_changed")
    for server in (mariadb_server, replica):
        assert state_of(server) in error.message
    assert "it lacks 0-2-" in error.message


def test_a_load_that_was_not_over_is_named(
    maria: MariaWorld, mariadb_server: MariaDbServer, replica: MariaDbServer
) -> None:
    run = maria.following(FIRST)
    maria.durable(run)
    run.kill()
    wait_for(lambda: state_of(replica) == state_of(mariadb_server), "the replica")
    maria.server = replica
    run = maria.following(FIRST)
    run.until(lambda s: s.tables[0].state == "deferred", "its deferral")
    assert "its load was not over as another server" in maria.reasons()[-1]
