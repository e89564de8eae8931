"""MariaDB's log over a connection of ours: when a load may begin behind a place of it,
and what comes."""

from __future__ import annotations

import ssl
import threading
import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from ingest.contract.source_positions import MariaDbLog
from ingest.sources.mariadb.log.connection import number_of, open_log
from ingest.sources.mariadb.log.control import open_control
from ingest.sources.mariadb.log.places import Place
from ingest.sources.mariadb.reader import MariadbSource, open_source
from tests.mariadb import MariaDbServer
from tests.source_access import mariadb_at
from tests.waiting import wait_for

XID = 16


@pytest.fixture
def database(mariadb_server: MariaDbServer) -> Iterator[str]:
    name = f"log_{uuid.uuid4().hex[:8]}"
    mariadb_server.create_database(name)
    mariadb_server.run("CREATE TABLE t (id int PRIMARY KEY, v text)", database=name)
    yield name
    mariadb_server.drop_database(name)


@pytest.fixture
def source(mariadb_server: MariaDbServer) -> Iterator[MariadbSource]:
    with open_source(mariadb_at(mariadb_server)) as opened:
        yield opened


def test_all_that_the_log_has_is_shown_by_a_later_snapshot(
    mariadb_server: MariaDbServer, database: str, source: MariadbSource
) -> None:
    before = source.here()
    mariadb_server.run("INSERT INTO t VALUES (1, 'a')", database=database)
    newest = source.newest_transaction()
    assert source.who_is_open(newest) == ""
    assert "not visible yet" in source.who_is_open(newest + 1)
    assert source.moment().at == "", "each chunk shows a moment of its own"
    first, second = MariaDbLog.decode(before), MariaDbLog.decode(source.here())
    assert first.order(second) == "before"


def test_a_dump_comes_over_tls(mariadb_server: MariaDbServer, database: str) -> None:
    """More than one record of TLS at once, and what it holds back until it is read."""
    access = mariadb_at(mariadb_server)
    access = replace(access, spec=replace(access.spec, tls="require"))
    with open_control(access) as (control, _):
        assert control.rows("SHOW STATUS LIKE 'Ssl_cipher'")[0][1]
        here = control.here()
    texts = "INSERT INTO t SELECT seq, repeat('a', 20000) FROM seq_1_to_100"
    mariadb_server.run(texts, database=database)
    seen = list[bytes]()

    def is_there() -> bool:
        seen.extend(log.read(0.1))
        return any(event[4] == XID for event in seen)

    with open_log(access, "tls", number_of(database)) as log:
        assert isinstance(log._socket, ssl.SSLSocket)
        log.start(here)
        wait_for(is_there, "what was written since")
    assert sum(map(len, seen)) > 2_000_000


def test_beyond_what_a_dump_has_bits_for_transactions_say_where_it_begins(
    mariadb_server: MariaDbServer, database: str
) -> None:
    access = mariadb_at(mariadb_server)
    with open_control(access) as (control, _):
        here = control.here()
    far = replace(here, offset=here.offset + (1 << 32))
    place, seen = Place(far), list[bytes]()
    mariadb_server.run("INSERT INTO t VALUES (1, 'a')", database=database)

    def is_there() -> bool:
        for event in log.read(0.1):
            place.take(event)
            seen.append(event)
        return any(event[4] == XID for event in seen)

    with open_log(access, "far", number_of(database)) as log:
        log.start(far)
        wait_for(is_there, "what was written since")
    assert [event[4] for event in seen].count(XID) == 1, "nothing of before"
    assert place.here.offset == far.offset
    assert place.gtids != here.gtids


def test_a_commit_that_is_in_the_log_and_that_nobody_sees_yet_is_waited_for(
    mariadb_server: MariaDbServer, database: str, source: MariadbSource
) -> None:
    """It waits for the word of a replica that does not answer, with the log synced."""
    server = mariadb_server
    server.run(
        "SET GLOBAL rpl_semi_sync_master_enabled = ON,"
        " GLOBAL rpl_semi_sync_master_wait_no_slave = ON,"
        " GLOBAL rpl_semi_sync_master_timeout = 600000,"
        " GLOBAL rpl_semi_sync_master_wait_point = 'AFTER_SYNC'"
    )
    try:
        with closing(server.connect(database)) as writer:

            def write() -> None:
                with writer.cursor() as cursor:
                    cursor.execute("INSERT INTO t VALUES (2, 'b')")

            at = source.newest_transaction()
            commit = threading.Thread(target=write)
            commit.start()
            wait_for(lambda: source.newest_transaction() > at, "its commit in the log")
            assert source.one(f"SELECT count(*) FROM {database}.t") == (0,)
            assert source.who_is_open(source.newest_transaction())
            server.run("SET GLOBAL rpl_semi_sync_master_enabled = OFF")
            commit.join()
    finally:
        server.run(
            "SET GLOBAL rpl_semi_sync_master_enabled = OFF,"
            " GLOBAL rpl_semi_sync_master_wait_no_slave = ON"
        )
    assert source.who_is_open(source.newest_transaction()) == ""
