"""What the reader of MariaDB's log makes of its events, without a server."""

from __future__ import annotations

import struct
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest

from catalog.sources.mariadb.log import LogServer
from core.errors import TransientError
from ingest.contract.job import SourceSpec
from ingest.contract.source_positions import MariaDbLog
from ingest.contract.table import ColumnSpec, TableSpec
from ingest.sources.mariadb.log import reader as binlog_reader
from ingest.sources.mariadb.log.columns import FoundTable, Identity, SourceColumn
from ingest.sources.mariadb.log.connection import LogConnection
from ingest.sources.mariadb.log.control import LogFile
from ingest.sources.mariadb.log.reader import MariaDbLogReader
from ingest.sources.mariadb.log.statements import Name
from ingest.sources.port import SourceAccess
from tests.unit.ingest.test_binlog import END, FORMAT, GTID, event, query

# of every event there
WHEN = 1_700_000_000
STOP = event(3, b"")

START = MariaDbLog(1, "", "b.", 1, WHEN, 4)
# of a statement that stands alone
ALONE = event(162, struct.pack("<QIB", 5, 0, 1) + bytes(6))
TABLE = TableSpec(
    1,
    "Shop",
    "Orders",
    "lake",
    "orders",
    "/l",
    "/s",
    (ColumnSpec("id", "id", "int(11)", "int"),),
    ("id",),
)


class _Source:
    """Of a server that compares names like this."""

    def __init__(self, events: Collection[bytes], **settings: str) -> None:
        self._settings: Mapping[str, str] = settings
        self._events = [*events]
        self.silent_for = 0.0
        self.session = 7
        self.locked = set[Name]()
        self.uniques: dict[str, frozenset[str]] = {}
        self.columns = {"id": SourceColumn("int(11)")}

    def server(self) -> LogServer:
        return LogServer(self._settings, frozenset())

    def tables(self, wanted: Any) -> dict[Name, FoundTable]:
        if self.locked:
            return {}
        one = FoundTable("InnoDB", self.columns, uniques=self.uniques)
        return {("Shop", "Orders"): one}

    def place(self) -> MariaDbLog:
        return replace(START, offset=4)

    def read(self, seconds: float) -> list[bytes]:
        found, self._events = self._events, []
        return found


def reader_of(source: Any) -> MariaDbLogReader:
    access = SourceAccess(SourceSpec(1, "mariadb", "h", 1, "", "u", "s"), "", "a")
    return MariaDbLogReader(access, source, source, START)


@pytest.mark.parametrize(
    ("lower_case", "is_same"), [("0", False), ("1", True), ("2", True)]
)
@pytest.mark.parametrize(
    "statement", [b"ALTER TABLE ORDERS DROP PARTITION p", b"DROP DATABASE SHOP"]
)
def test_statements_name_tables_as_the_server_compares_them(
    lower_case: str, statement: bytes, *, is_same: bool
) -> None:
    events = [FORMAT, ALONE, query(statement, database=b"SHOP")]
    reader = reading(events, lower_case_table_names=lower_case)
    assert (TABLE.table_id in reader.lost()) == is_same


def reading(events: Collection[bytes], **settings: str) -> MariaDbLogReader:
    """Of a reader that stands in a file, all that came."""
    reader = reader_of(_Source(events, **settings))
    reader.follow([TABLE])
    reader.read(0)
    return reader


@pytest.mark.parametrize(
    ("statement", "is_doubted"),
    [(b"INSERT INTO v VALUES (1)", True), (b"SELECT `x`.`f`(1)", True), (b"GRANT x", False)],
)  # fmt: skip
def test_a_statement_in_place_of_rows_is_a_doubt_about_every_table(
    statement: bytes, *, is_doubted: bool
) -> None:
    """Views, triggers and functions write to tables that no text names."""
    reader = reading([FORMAT, GTID, query(statement, database=b"x"), END])
    assert ("may have been changed" in reader.lost().get(1, "")) == is_doubted


ROTATE = event(4, struct.pack("<Q", 4) + b"b.000002", flags=0x20)


def file_of(started: int) -> bytes:
    body = struct.pack("<H50sIB", 4, b"10.11.19-MariaDB-log", started, 19)
    return event(15, body + bytes(60) + b"\1")


def test_no_place_to_go_on_from_is_in_a_file_that_is_not_known_yet() -> None:
    """Killed there, nobody could tell another log of that name from this one."""
    reader = reading([file_of(0), ROTATE])
    assert ":b.000001:" in reader.position
    assert f":b.000002:{WHEN}:" in reading([file_of(0), ROTATE, file_of(0)]).position


@pytest.mark.parametrize(
    ("between", "started", "flush", "is_doubted"),
    [
        ([], 1, "0", True),
        ([], 1, "2", True),
        ([], 1, "1", False),  # the log's end says what is lost
        ([STOP], 1, "0", False),
        ([], 0, "0", False),  # the next file of a server that lives
    ],
)
def test_a_server_that_died_may_have_lost_what_its_log_has(
    between: list[bytes], started: int, flush: str, *, is_doubted: bool
) -> None:
    events = [file_of(0), GTID, END, *between, ROTATE, file_of(started)]
    reader = reading(events, innodb_flush_log_at_trx_commit=flush)
    assert ("server died" in reader.lost().get(1, "")) == is_doubted


def test_a_stop_is_seen_again_by_who_goes_on_behind_it() -> None:
    before = reading([file_of(0), GTID, END]).position
    assert reading([file_of(0), GTID, END, STOP]).position == before


@pytest.mark.parametrize(
    "answer",
    [
        ("Binlog Dump", "Master has sent all binlog to slave; waiting for more"),
        ("", ""),  # there is no such session any more
        OSError("no answer"),
    ],
)
def test_a_connection_of_which_nothing_comes_is_named(
    monkeypatch: pytest.MonkeyPatch, answer: tuple[str, str] | OSError
) -> None:
    """DBZ-9755, risingwave PR #25233: half a connection, and RUNNING for ever."""
    source = _Source([])
    reader = reader_of(source)
    reader.read(0)
    monkeypatch.setattr(binlog_reader, "sender_state", Mock(side_effect=[answer]))
    source.silent_for = 60.0
    with pytest.raises(TransientError) as silent:
        reader.read(0)
    assert silent.value.code == "log_silent"


def test_a_server_at_work_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    source = _Source([])
    reader = reader_of(source)
    works = ("Binlog Dump", "Finished reading one binlog; switching to next binlog")
    monkeypatch.setattr(binlog_reader, "sender_state", Mock(return_value=works))
    source.silent_for = 60.0
    reader.read(0)
    assert "works on its log" in reader.waits
    source.silent_for = 0.0
    reader.read(0)
    assert reader.waits == ""


def test_an_incident_is_about_every_table_and_reading_goes_on() -> None:
    """The server wrote that changes are missing from its log."""
    incident = event(26, struct.pack("<HB", 1, 4) + b"lost")
    reader = reading([FORMAT, incident, GTID, END])
    assert "changes are missing from its log" in reader.lost()[1]
    assert not reader.is_within
    assert reader.position.endswith(":0-7-5")


@pytest.mark.parametrize(
    ("age", "files", "status"),
    [(400, 2, "expiring"), (100, 2, ""), (400, 1, "")],
)
def test_a_log_that_is_read_late_is_said_to_expire(
    age: int, files: int, status: str
) -> None:
    source = _Source([FORMAT, GTID, END], binlog_expire_logs_seconds="600")
    source.files = lambda: [LogFile("b.", n + 1, 10_000) for n in range(files)]
    reader = reader_of(source)
    reader.follow([TABLE])
    reader.read(0)
    reader._place.when = int(time.time()) - age
    assert reader.look().status == status


class _Session:
    """A connection that notes what is asked of it."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.dumped = b""
        self._sock = Mock()

    def query(self, statement: str) -> None:
        self.said.append(statement)

    def escape(self, text: str) -> str:
        return f"'{text}'"

    def _execute_command(self, command: int, said: bytes) -> None:
        self.dumped = said

    def _read_ok_packet(self) -> None:
        pass


@pytest.mark.parametrize(
    ("offset", "dump"),
    [((1 << 32) - 1, (0xFFFF_FFFF, b"b.000001")), (1 << 32, (4, b""))],
)
def test_a_place_beyond_four_gigabytes_is_asked_for_by_its_transactions(
    offset: int, dump: tuple[int, bytes]
) -> None:
    """A dump has 32 bits: cut off, it would begin somewhere else in the file."""
    session: Any = _Session()
    place = replace(START, offset=offset, gtids="0-3-4,0-1-7,5-1-2")
    LogConnection(session, 9, "sluice").start(MariaDbLog.decode(place.encode()))
    at, _, _ = struct.unpack_from("<IHI", session.dumped)
    assert (at, session.dumped[10:]) == dump
    state = [one for one in session.said if "slave_connect_state" in one]
    is_far = offset >> 32
    assert state == (["SET @slave_connect_state = '0-1-7,5-1-2'"] if is_far else [])


class _Busy(_Source):
    """Others write all the time: each time the log's end is asked for it is another."""

    def __init__(self, events: Collection[bytes]) -> None:
        super().__init__(events)
        self.ends: list[int] = [100]
        self.looks: list[int] = []

    def place(self) -> MariaDbLog:
        self.ends.append(self.ends[-1] + 100)
        return replace(START, number=2, offset=self.ends[-1])

    def tables(self, wanted: Any) -> dict[Name, FoundTable]:
        self.looks.append(self.ends[-1])
        return super().tables(wanted)


def test_a_look_is_between_two_ends_of_the_log() -> None:
    """One of before says what it has surely seen, one of behind what it has not."""
    source = _Busy([])
    reader = reader_of(source)
    reader.follow([TABLE])

    def known() -> tuple[int, int]:
        identity = Identity.decode(reader.identities[1])
        begin, end = map(MariaDbLog.decode, (identity.looked, identity.until))
        return begin.offset, end.offset

    assert (known(), source.looks) == ((200, 300), [200])
    alter = query(b"ALTER TABLE Orders ADD v int", database=b"Shop")
    reader._place.here = replace(START, number=3)
    source._events = [FORMAT, ALONE, alter]
    reader.read(0)
    assert (known(), source.looks) == ((400, 500), [200, 400])


def test_a_table_that_is_locked_stops_no_reader_and_is_looked_at_again() -> None:
    """It may be so for hours. What a statement did to it that cannot be seen is a
    doubt about it alone."""
    source = _Source([FORMAT])
    source.locked = {("Shop", "Orders")}
    reader = reader_of(source)
    reader.follow([TABLE])
    assert "locked" in reader.problems[1]
    assert not reader.identities
    source.locked.clear()
    reader._look_at_tables()
    assert not reader.problems
    known = {**reader.identities}
    source.locked = {("Shop", "Orders")}
    again = reader_of(source)
    # as it is opened, before the stream is read
    again.follow([TABLE])
    again.follow([TABLE], loaded=known)
    assert (again.problems, again.lost()) == ({}, {})
    assert again._is_to_look
    altered = query(b"ALTER TABLE Orders ADD c int", database=b"Shop")
    source._events = [FORMAT, ALONE, altered]
    again.started = again._place.here = replace(START, offset=400)
    again.read(0)
    assert "it is locked" in again.lost()[1]


@pytest.mark.parametrize(
    ("statements", "is_doubted"),
    [
        (["DROP INDEX `PRIMARY` ON Orders"], False),
        (["DROP INDEX UK ON Orders", "ALTER TABLE Orders DROP KEY wide"], False),
        (["ALTER TABLE Orders RENAME KEY uk TO u, DROP INDEX `PRIMARY`"], False),
        (["DROP INDEX uk ON Orders", "DROP INDEX `PRIMARY` ON Orders"], True),
        (["ALTER TABLE Orders DROP KEY uk, DROP CONSTRAINT `PRIMARY`"], True),
        (
            [
                "ALTER TABLE Orders RENAME KEY uk TO u",
                "CREATE OR REPLACE INDEX `PRIMARY` ON Orders (id)",
                "DROP INDEX u ON Orders",
            ],
            True,
        ),
    ],
)
def test_a_table_whose_key_nothing_keeps_unique_any_more_needs_a_resync(
    statements: list[str], *, is_doubted: bool
) -> None:
    """Two rows may have one key then, and a delete of one of them is a delete of the
    only one in the lake."""
    sent = [query(text.encode(), database=b"Shop") for text in statements]
    source = _Source([FORMAT, *(one for text in sent for one in (ALONE, text))])
    id_ = frozenset({"id"})
    source.uniques = {"primary": id_, "uk": id_, "wide": id_ | {"v"}}
    reader = reader_of(source)
    reader.follow([TABLE])
    reader.read(0)
    assert ("was changed at the source" in reader.lost().get(1, "")) is is_doubted


def test_a_column_is_new_once_the_statement_is_read_that_adds_it() -> None:
    """A look sees it as later statements left it: without the default that it gave to
    the rows that were there."""
    added = b"ALTER TABLE Orders ADD m int DEFAULT 4"
    dropped = b"ALTER TABLE Orders ALTER m DROP DEFAULT"
    events = [FORMAT]
    for statement in (added, dropped):
        events += [ALONE, query(statement, database=b"Shop")]
    source = _Source(events)
    before = FoundTable("InnoDB", source.columns)
    known = Identity.of(before, (replace(START, offset=1), replace(START, offset=1)))
    source.columns = {**source.columns, "m": SourceColumn("int(11)", is_nullable=True)}
    reader = reader_of(source)
    reader.follow([TABLE], loaded={1: known.encode()})
    assert (reader.new_columns, reader.older) == ({}, {})
    reader.read(0)
    assert reader.new_columns == {1: ("m",)}
    assert reader.older == {1: {"m": "4"}}
