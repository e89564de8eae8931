"""Since when a transaction of MariaDB is open, where its server does not say it."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pymysql
import pytest
from pymysql.constants import COMMAND

from ingest.sources.registry import open_source
from tests.mariadb import MariaDbServer
from tests.source_access import mariadb_at
from tests.waiting import LIMIT_SECONDS, wait_for


def test_a_statement_counts_from_its_beginning_when_its_transaction_began_late(
    mariadb_server: MariaDbServer,
) -> None:
    """Its rows have the time at which it began; InnoDB first heard of it later."""
    server = mariadb_server
    server.create_database("late")
    server.run("CREATE TABLE o (id int PRIMARY KEY, at timestamp(6))", database="late")
    # InnoDB tells whole seconds; between its two rows the statement waits for us
    slow = (
        "INSERT INTO o SELECT"
        " seq + 0 * if(seq = 1, sleep(2), get_lock('looked', 60)), now(6)"
        " FROM seq_1_to_2"
    )
    with (
        open_source(mariadb_at(server)) as source,
        server.connect("late") as writer,
        server.connect("late") as holder,
    ):
        with holder.cursor() as cursor:
            cursor.execute("DO get_lock('looked', 0)")
        number = writer.thread_id()

        def insert() -> None:
            with writer.cursor() as cursor:
                cursor.execute(slow)

        thread = threading.Thread(target=insert)
        thread.start()
        begun = (
            "SELECT trx_started FROM information_schema.innodb_trx"
            f" WHERE trx_mysql_thread_id = {number}"
        )
        wait_for(
            # the list is a copy, made anew when nobody looked for a tenth of a second
            lambda: source.rows("DO sleep(0.2)") or source.rows(begun),
            "its transaction to begin",
        )
        told = [t.since for t in source.clock().transactions if t.pid == number]
        with holder.cursor() as cursor:
            cursor.execute("DO release_lock('looked')")
        thread.join(LIMIT_SECONDS)
        ((first,),) = source.rows("SELECT min(at) FROM late.o")
    assert min(told) <= first.replace(tzinfo=UTC)


class _Bulk(pymysql.Connection):  # type: ignore[type-arg]
    """A client that may send many rows by one prepared statement, as MariaDB's own
    drivers do for batches."""

    def write_packet(self, payload: bytes) -> None:
        if self._next_seq_id == 1:
            # the first bit off: more of what it can do is in the last four bytes
            (flags,) = struct.unpack_from("<I", payload)
            more = struct.pack("<I", 4)
            payload = (
                struct.pack("<I", flags & ~1) + payload[4:28] + more + payload[32:]
            )
        super().write_packet(payload)

    def prepare(self) -> None:
        self._execute_command(
            COMMAND.COM_STMT_PREPARE, "INSERT INTO w VALUES (?, now(6), 'x')"
        )
        (self.number,) = struct.unpack_from("<I", self._read_packet().get_all_data(), 1)
        self._read_packet()  # the parameter
        self._read_packet()  # its end

    def insert_many(self, numbers: list[int]) -> None:
        rows = b"".join(struct.pack("<Bq", 0, n) for n in numbers)
        head = struct.pack("<IHBB", self.number, 128, 8, 0)
        self._execute_command(0xFA, head + rows)
        assert self._read_packet().is_ok_packet()


def with_many(link: Any) -> None:
    link.insert_many([1, 2])


def with_our_mark(link: Any) -> None:
    with link.cursor() as cursor:
        cursor.execute("INSERT INTO w VALUES (1, now(6), 'sluice:x')")


def by_an_event(link: Any) -> None:
    with link.cursor() as cursor:
        cursor.execute(
            "CREATE OR REPLACE EVENT e ON SCHEDULE AT now()"
            " DO INSERT INTO many.w VALUES (1, now(6), 'x')"
        )


@pytest.mark.parametrize("insert", [with_many, with_our_mark, by_an_event])
def test_whoever_waits_for_its_table_is_a_writer(
    mariadb_server: MariaDbServer, insert: Callable[[Any], None]
) -> None:
    """It has read the clock and has no transaction yet."""
    server = mariadb_server
    server.create_database("many")
    server.create_user("app", "p", ["ALL ON `many`.*"])
    server.run(
        "SET GLOBAL event_scheduler = ON",
        "CREATE OR REPLACE TABLE w (id int PRIMARY KEY, at timestamp(6), v text)",
        database="many",
    )
    with (
        open_source(mariadb_at(server)) as source,
        server.connect("many") as locker,
        _connected(server) as writer,
    ):
        writer.prepare()
        with locker.cursor() as cursor:
            cursor.execute("LOCK TABLES w WRITE")
        thread = threading.Thread(target=insert, args=[writer])
        thread.start()
        waits = (
            "SELECT id, command, info FROM information_schema.processlist"
            " WHERE state LIKE 'Waiting for table metadata%'"
        )
        (waiting,) = wait_for(lambda: source.rows(waits), "somebody to wait")
        told = {t.pid for t in source.clock().transactions}
        with locker.cursor() as cursor:
            cursor.execute("UNLOCK TABLES")
        thread.join(LIMIT_SECONDS)
        assert waiting[0] in told, waiting
        wait_for(lambda: not source.clock().transactions, "it to end")


@contextmanager
def _connected(server: MariaDbServer) -> Iterator[_Bulk]:
    with _Bulk(
        host=server.host,
        port=server.port,
        user="app",
        password="p",
        database="many",
        autocommit=True,
        read_timeout=60,
    ) as link:
        yield link


@pytest.mark.long
def test_a_transaction_that_is_open_when_summer_time_ends_keeps_its_beginning() -> None:
    """InnoDB writes local times, and one hour of them comes twice."""
    server = MariaDbServer()
    try:
        server.start()
        server.create_database("summer")
        server.run("CREATE TABLE o (id int PRIMARY KEY)", database="summer")
        # the server may take longer to start anew than summer time is to last
        seconds = 4
        while not is_kept_over_its_end(server, seconds):
            seconds *= 4
    finally:
        server.destroy()


def is_kept_over_its_end(server: MariaDbServer, seconds: int) -> bool:
    """False when summer time was over before the transaction began."""
    ends = datetime.now(UTC) + timedelta(seconds=seconds)
    server.restart_in(summer_time_until(ends))
    with (
        open_source(mariadb_at(server)) as source,
        server.connect("summer", autocommit=False) as writer,
    ):
        with writer.cursor() as cursor:
            cursor.execute("INSERT INTO o VALUES (1)")
        began = datetime.now(UTC)
        if ahead(source) != 7_200:
            return False
        wait_for(lambda: ahead(source) == 3_600, "summer time to end")
        (told,) = source.clock().transactions
        assert told.since <= began
        writer.rollback()
        # one that began since is not taken for one of an hour ago
        later = datetime.now(UTC)
        with writer.cursor() as cursor:
            cursor.execute("INSERT INTO o VALUES (1)")
        (told,) = source.clock().transactions
        assert told.since <= later
    return True


def summer_time_until(moment: datetime) -> str:
    """A zone one hour east of UTC, two until then."""
    local = moment + timedelta(hours=2)
    day = local.timetuple().tm_yday - 1
    return f"AAA-1BBB-2,{(day - 100) % 365}/0,{day}/{local:%H:%M:%S}"


def ahead(source: Any) -> int:
    ((seconds,),) = source.rows(
        "SELECT TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(),"
        " CONVERT_TZ(UTC_TIMESTAMP(), '+00:00', 'SYSTEM'))"
    )
    return int(seconds)
