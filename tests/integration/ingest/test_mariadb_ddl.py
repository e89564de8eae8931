"""What MariaDB does to readers whose table is altered, and what the product relies on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pymysql
import pytest

from catalog.schema import limits
from catalog.schema.widening import keeps_values
from ingest.contract.table import TableSpec
from ingest.sources.failures import failure_of
from ingest.sources.fingerprint import SourceFingerprint, is_maybe_emptied, what_changed
from ingest.sources.mariadb import connection
from ingest.sources.mariadb.connection import SESSION, mark
from ingest.sources.port import Source, SourceAccess
from ingest.sources.registry import open_source
from tests.mariadb import MariaDbServer
from tests.source_access import mariadb_at
from tests.waiting import LIMIT_SECONDS, wait_for

TABLE = TableSpec(1, "altered", "o", "shop", "o", "/l", "/s", (), ("id",))
APPLICATION = "sluice:7f"
PARTED = "(id int PRIMARY KEY, v int, KEY (v)) PARTITION BY HASH (id) PARTITIONS 2"


@pytest.fixture
def server(mariadb_server: MariaDbServer) -> MariaDbServer:
    mariadb_server.create_database("altered")
    run(mariadb_server, *made("o"))
    return mariadb_server


def made(table: str) -> tuple[str, str]:
    return (
        f"CREATE TABLE {table} {PARTED}",
        f"INSERT INTO {table} SELECT seq, seq FROM seq_1_to_100",
    )


def run(server: MariaDbServer, *statements: str) -> None:
    server.run(*statements, database="altered")


@pytest.fixture
def source(server: MariaDbServer) -> Iterator[Source]:
    with open_source(access_to(server)) as opened:
        yield opened


def access_to(server: MariaDbServer) -> SourceAccess:
    return mariadb_at(server, application=APPLICATION)


def until(check: Callable[[], Any]) -> None:
    wait_for(check, "what the test waits for")


CHANGES = [
    "ALTER TABLE {} MODIFY v bigint",
    "ALTER TABLE {} CHANGE v w int",
    "TRUNCATE {}",
    "ALTER TABLE {} TRUNCATE PARTITION p0",
    "ALTER TABLE {} DROP PRIMARY KEY, ADD PRIMARY KEY (id, v)",
    f"CREATE OR REPLACE TABLE {{}} {PARTED}",
]


def test_every_change_of_a_table_shows_in_its_definition(
    server: MariaDbServer, source: Source
) -> None:
    tables = [f"o{number}" for number in range(len(CHANGES))]
    for name in tables:
        run(server, *made(name))
    # times of creation are whole seconds
    time.sleep(1.1)
    for name, change in zip(tables, CHANGES, strict=True):
        table = replace(TABLE, source_table=name)
        before = source.definition(table)
        run(server, f"INSERT INTO {name} VALUES (1000, 1)")
        run(server, f"DELETE FROM {name} WHERE id < 5")
        assert source.definition(table) == before
        run(server, change.format(name))
        assert source.definition(table) != before, change


@pytest.mark.parametrize("kind", ["ENUM", "SET"])
def test_a_label_that_is_written_in_other_letters_changes_the_type(
    server: MariaDbServer, source: Source, kind: str
) -> None:
    """Every row reads otherwise, and the server takes both for equal."""
    run(server, f"CREATE TABLE e (id int PRIMARY KEY, v {kind}('Sad', 'ok'))")
    run(server, "INSERT INTO e VALUES (1, 'Sad')")
    table = replace(TABLE, source_table="e")
    before, _ = source.columns(table)["v"]
    run(server, f"ALTER TABLE e MODIFY v {kind}('sad', 'ok')")
    assert source.one("SELECT v FROM altered.e") == ("sad",)
    now, _ = source.columns(table)["v"]
    assert not keeps_values(before, now)


@pytest.mark.parametrize("change", ["ALTER TABLE o ADD COLUMN x int, ALGORITHM=COPY", "TRUNCATE o"])  # fmt: skip
def test_an_older_read_view_of_an_altered_table_is_refused(
    server: MariaDbServer, change: str
) -> None:
    """InnoDB itself: a view that is older than the table is never read as empty."""
    with server.connect("altered") as link, link.cursor() as cursor:
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        run(server, change)
        with pytest.raises(pymysql.MySQLError) as raised:
            cursor.execute("SELECT * FROM o")
        assert raised.value.args[0] == 1412
        assert failure_of(raised.value).error.code == "source_rewritten"


def test_partitioned_or_not_a_truncated_table_has_a_new_number(
    server: MariaDbServer, source: Source
) -> None:
    run(server, "CREATE TABLE `a-b c` (id int PRIMARY KEY)")
    table = replace(TABLE, source_table="a-b c")
    before = source.definition(table)
    run(server, "TRUNCATE `a-b c`")
    assert source.definition(table) != before


EMPTIED = {
    # statements and whether it may be another table than before
    "truncated": (("TRUNCATE c",), True),
    "truncated and filled": (("TRUNCATE c", "INSERT INTO c (v) SELECT seq FROM seq_1_to_20"), True),
    "rows deleted": (("DELETE FROM c",), False),
    "more rows": (("INSERT INTO c (v) SELECT seq FROM seq_1_to_90",), False),
}  # fmt: skip


@pytest.mark.parametrize("how", EMPTIED)
@pytest.mark.parametrize("login", ["sees InnoDB's numbers", "sees its tables only"])
def test_a_truncated_table_is_looked_at(
    server: MariaDbServer, how: str, login: str
) -> None:
    statements, is_maybe = EMPTIED[how]
    run(server, "CREATE TABLE c (id int AUTO_INCREMENT PRIMARY KEY, v int)")
    run(server, "INSERT INTO c (v) SELECT seq FROM seq_1_to_100")
    access, table = access_to(server), replace(TABLE, source_table="c")
    if login == "sees its tables only":
        server.create_user("few", "p", ["SELECT ON `altered`.*"])
        access = replace(access, spec=replace(access.spec, username="few"), password="p")  # fmt: skip
    with open_source(access) as source:
        before = source.source_fingerprint(table)
        assert bool(before.files) is (login != "sees its tables only")
        run(server, *statements)
        now = source.source_fingerprint(table)
    assert is_maybe_emptied(before, now) is is_maybe
    assert not what_changed(SourceFingerprint(before), now, datetime.now(UTC))


def test_a_reader_waits_for_a_lock_only_so_long(
    server: MariaDbServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual, short = (f"lock_wait_timeout = {s}" for s in (limits.LIMITS.lock, 1))
    settings = connection._CONTROL_SESSION.replace(usual, short)
    monkeypatch.setattr(connection, "_CONTROL_SESSION", settings)
    with server.connect("altered") as locker, open_source(access_to(server)) as source:
        with locker.cursor() as cursor:
            cursor.execute("LOCK TABLES o WRITE")
        with pytest.raises(pymysql.MySQLError) as raised:
            source.rows("SELECT * FROM altered.o")
    assert failure_of(raised.value).error.code == "source_locked"


def test_a_reader_ends_for_who_waits_for_its_table(
    server: MariaDbServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "ingest.sources.mariadb.reader.LIMITS",
        limits.SourceLimits(give_way=1, beat=0.1),
    )
    failed: list[BaseException] = []
    with (
        server.connect("altered") as reader,
        open_source(access_to(server)) as source,
        source.reading(TABLE),
    ):

        def read() -> None:
            try:
                with reader.cursor() as cursor:
                    cursor.execute(SESSION)
                    cursor.execute(f"{mark(APPLICATION)} SELECT sleep(9) FROM o")
            except pymysql.MySQLError as error:
                failed.append(error)

        job = threading.Thread(target=read)
        job.start()
        running = (
            "SELECT id FROM information_schema.processlist"
            " WHERE info LIKE '%sleep(9) FROM o' AND id <> CONNECTION_ID()"
        )
        until(lambda: source.rows(running))
        run(server, "SET lock_wait_timeout = 60", "ALTER TABLE o ADD COLUMN y int")
        job.join(LIMIT_SECONDS)
        source.give_back()
    assert failed
    assert source.gave_way.startswith("pid ")


def test_statements_of_a_job_have_limits(server: MariaDbServer, source: Source) -> None:
    found = source.one("SELECT @@max_statement_time, @@lock_wait_timeout")
    assert (float(found[0]), int(found[1])) == (900, 5)
    with server.connect("altered") as reader, reader.cursor() as cursor:
        cursor.execute(SESSION)
        cursor.execute("SELECT @@max_statement_time, @@net_write_timeout")
        assert [float(each) for each in cursor.fetchone() or ()] == [21_600, 600]
