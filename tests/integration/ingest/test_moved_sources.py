"""A source that is restarted, restored to an earlier moment or taken over by another
server, and clocks that are wrong: what a job notices of it, for each kind of source."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import psycopg
import pytest

from core.errors import TransientError
from ingest.contract.table import SourceSpec
from ingest.driver.apply.clocks import wall
from ingest.driver.capture.reading import read_bound
from ingest.sources.fingerprint import SourceFingerprint, what_changed
from ingest.sources.port import Source, SourceAccess
from ingest.sources.registry import open_source
from tests.integration.ingest.bound_runs import LAG, run_of, table_of
from tests.mariadb import MariaDbServer
from tests.spark.lake_bench import LakeBench
from tests.standby import StandbyPostgres
from tests.waiting import wait_for

POSTGRESQL = table_of("public", "timestamp with time zone")
MARIADB = table_of("moved", "timestamp(6)")
CREATE = "CREATE TABLE o (id int PRIMARY KEY, at timestamp(6) NULL)"


@dataclass(frozen=True)
class At:
    """Where a source answers."""

    spec: SourceSpec
    password: str

    @contextmanager
    def opened(self) -> Iterator[Source]:
        with open_source(SourceAccess(self.spec, self.password, "sluice:test")) as one:
            yield one

    def source_fingerprint(self, table: Any) -> Any:
        with self.opened() as source:
            return source.source_fingerprint(table)


def at_dsn(dsn: str) -> At:
    url = urlparse(dsn)
    place = (url.hostname or "", url.port or 0, url.path.strip("/"))
    return At(
        SourceSpec(1, "postgresql", *place, url.username or "", "x"),
        url.password or "",
    )


def at_server(server: MariaDbServer) -> At:
    place = (server.host, server.port, "", server.username)
    return At(SourceSpec(1, "mariadb", *place, "x"), server.password)


@pytest.fixture
def mariadb() -> Iterator[MariaDbServer]:
    """Of its own: it is stopped and set back."""
    server = MariaDbServer()
    try:
        server.start()
        server.create_database("moved")
        server.run(CREATE, database="moved")
        yield server
    finally:
        server.destroy()


@pytest.fixture
def postgresql(source_pg: Any) -> str:
    dsn = str(source_pg.create_database("moved"))
    with psycopg.connect(dsn, autocommit=True) as link:
        link.execute(CREATE.replace("timestamp(6)", "timestamptz"))
    return dsn


def told(before: Any, after: Any) -> str:
    """What a sync with the second signs says behind one with the first."""
    return "; ".join(what_changed(SourceFingerprint(before), after, wall()))


def test_a_restored_postgresql_is_noticed(
    source_pg: Any, postgresql: str, tmp_path: Path
) -> None:
    copy = StandbyPostgres(tmp_path, source_pg, follows=False)
    try:
        copy.prepare()
        with psycopg.connect(postgresql, autocommit=True) as link:
            for number in range(20):
                link.execute(f"INSERT INTO o VALUES ({number}, now())")
        before = at_dsn(postgresql).source_fingerprint(POSTGRESQL)
        restored = at_dsn(copy.start().url("moved"))
        after = restored.source_fingerprint(POSTGRESQL)
    finally:
        copy.destroy()
    assert "went back to an earlier moment" in told(before, after)


def test_a_restart_of_postgresql_is_no_event(postgresql: str, tmp_path: Path) -> None:
    bench = LakeBench(None, postgresql, tmp_path)
    before = at_dsn(postgresql).source_fingerprint(POSTGRESQL)
    bench.restart()
    bench.close()
    assert told(before, at_dsn(postgresql).source_fingerprint(POSTGRESQL)) == ""


def test_restarts_and_restores_of_mariadb(mariadb: MariaDbServer) -> None:
    mariadb.back_up()
    mariadb.run("INSERT INTO o VALUES (1, now(6))", database="moved")
    before = at_server(mariadb).source_fingerprint(MARIADB)
    mariadb.restart()
    assert told(before, at_server(mariadb).source_fingerprint(MARIADB)) == ""
    mariadb.restore()
    after = at_server(mariadb).source_fingerprint(MARIADB)
    assert "went back to an earlier moment" in told(before, after)


def test_a_replica_of_mariadb_that_takes_over_is_noticed(
    mariadb: MariaDbServer,
) -> None:
    mariadb.create_user("copy", "c", ["REPLICATION SLAVE ON *.*"])
    # its administrator's password is not the replica's
    mariadb.run("RESET MASTER")
    mariadb.create_database("moved")
    mariadb.run(CREATE, database="moved")
    before = at_server(mariadb).source_fingerprint(MARIADB)
    replica = MariaDbServer(["--server-id=2"])
    try:
        replica.start()
        replica.run(
            f"CHANGE MASTER TO MASTER_HOST = '{mariadb.host}', MASTER_PORT ="
            f" {mariadb.port}, MASTER_USER = 'copy', MASTER_PASSWORD = 'c',"
            " MASTER_LOG_FILE = 'binlog.000001', MASTER_LOG_POS = 4,"
            " MASTER_USE_GTID = no",
            "START SLAVE",
        )
        there = at_server(replica)
        wait_for(
            lambda: there.source_fingerprint(MARIADB).relation,
            "the table on the replica",
        )
        replica.run("STOP SLAVE", "RESET SLAVE ALL")
        with there.opened() as source:
            assert source.clock().replica is None, "a primary now"
        assert "another server answers" in told(
            before, there.source_fingerprint(MARIADB)
        )
    finally:
        replica.destroy()


@contextmanager
def clock_of(dsn: str, ahead: timedelta) -> Iterator[None]:
    """Sessions of this database read a clock that is ahead. MariaDB has no such place:
    only a session of its own can have another time there."""
    with psycopg.connect(dsn, autocommit=True) as link:
        # jobs look nowhere but in pg_catalog; of this database alone
        link.execute("SET allow_system_table_mods = on")
        link.execute(
            "CREATE OR REPLACE FUNCTION pg_catalog.clock_timestamp()"
            " RETURNS timestamptz LANGUAGE sql AS $$ SELECT statement_timestamp()"
            f" + interval '{ahead.total_seconds()} seconds' $$"
        )
    yield


@pytest.mark.parametrize("hours", [1, -0.1])
def test_a_sources_own_clock_decides(postgresql: str, hours: float) -> None:
    """Ahead of the driver's by an hour, behind it by some minutes."""
    at = at_dsn(postgresql)
    shift = timedelta(hours=hours)
    with clock_of(postgresql, shift), at.opened() as source:
        run = run_of(at.spec, POSTGRESQL, chosen=True)
        clock, bound = read_bound(run, source, lag_seconds=LAG, low=None)
    assert abs(clock.now - wall() - shift) < timedelta(minutes=5)
    assert bound.high <= clock.now - timedelta(seconds=LAG)


def test_a_driver_far_ahead_of_its_source_writes_nothing(postgresql: str) -> None:
    at = at_dsn(postgresql)
    run = run_of(at.spec, POSTGRESQL, chosen=True)
    with (
        clock_of(postgresql, -timedelta(hours=1)),
        at.opened() as source,
        pytest.raises(TransientError) as refused,
    ):
        read_bound(run, source, lag_seconds=LAG, low=None)
    assert refused.value.code == "clock_ahead"


def test_a_clock_that_is_set_back_is_told(postgresql: str) -> None:
    at = at_dsn(postgresql)
    with clock_of(postgresql, timedelta(hours=1)), at.opened() as source:
        run = run_of(at.spec, POSTGRESQL, chosen=True)
        _, ahead = read_bound(run, source, lag_seconds=LAG, low=None)
    with clock_of(postgresql, timedelta(0)), at.opened() as source:
        again = run_of(at.spec, POSTGRESQL, chosen=True)
        low = ahead.high.isoformat()
        _, bound = read_bound(again, source, lag_seconds=LAG, low=low)
    assert bound.high == ahead.high, "never below the position"
    assert any("it was set back" in w for w in again.warnings), again.warnings
