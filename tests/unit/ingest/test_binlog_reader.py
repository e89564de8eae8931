"""What the reader of MariaDB's log makes of its events, without a server."""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping
from typing import Any
from unittest.mock import Mock

import pytest

from catalog.sources.mariadb.log import LogServer
from core.errors import TransientError
from ingest.contract.job import SourceSpec
from ingest.contract.source_positions import MariaDbLog
from ingest.contract.table import ColumnSpec, TableSpec
from ingest.sources.mariadb.log import reader as binlog_reader
from ingest.sources.mariadb.log.reader import MariaDbLogReader
from ingest.sources.mariadb.log.tables import FoundTable, Name
from ingest.sources.port import SourceAccess
from tests.unit.ingest.test_binlog import FORMAT, event, query

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

    def __init__(self, lower_case: str, events: Collection[bytes]) -> None:
        self._settings: Mapping[str, str] = {"lower_case_table_names": lower_case}
        self._events = [*events]
        self.silent_for = 0.0
        self.session = 7

    def server(self) -> LogServer:
        return LogServer(self._settings, frozenset())

    def tables(self, wanted: Any) -> dict[Name, FoundTable]:
        return {("Shop", "Orders"): FoundTable("InnoDB", {"id": "int(11)"})}

    def read(self, seconds: float) -> list[bytes]:
        found, self._events = self._events, []
        return found


def reader_of(source: Any) -> MariaDbLogReader:
    access = SourceAccess(SourceSpec(1, "mariadb", "h", 1, "", "u", "s"), "", "a")
    place = MariaDbLog(1, "", "b.", 1, 0, 4)
    return MariaDbLogReader(access, source, source, place)


@pytest.mark.parametrize(
    ("lower_case", "is_same"), [("0", False), ("1", True), ("2", True)]
)
@pytest.mark.parametrize(
    "statement", [b"ALTER TABLE ORDERS DROP PARTITION p", b"DROP DATABASE SHOP"]
)
def test_statements_name_tables_as_the_server_compares_them(
    lower_case: str, statement: bytes, *, is_same: bool
) -> None:
    source = _Source(lower_case, [FORMAT, ALONE, query(statement, database=b"SHOP")])
    reader = reader_of(source)
    reader.follow([TABLE])
    reader.read(0)
    assert (TABLE.table_id in reader.lost()) == is_same


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
    source = _Source("0", [])
    reader = reader_of(source)
    reader.read(0)
    monkeypatch.setattr(binlog_reader, "sender_state", Mock(side_effect=[answer]))
    source.silent_for = 60.0
    with pytest.raises(TransientError) as silent:
        reader.read(0)
    assert silent.value.code == "log_silent"


def test_a_server_at_work_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    source = _Source("0", [])
    reader = reader_of(source)
    works = ("Binlog Dump", "Finished reading one binlog; switching to next binlog")
    monkeypatch.setattr(binlog_reader, "sender_state", Mock(return_value=works))
    source.silent_for = 60.0
    reader.read(0)
    assert "works on its log" in reader.waits
    source.silent_for = 0.0
    reader.read(0)
    assert reader.waits == ""
