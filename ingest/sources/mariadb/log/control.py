"""Statements at the source beside its log: its settings, its files, the tables that are
wanted, and who else receives it. Each is answered soon, or the connection is given up.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pymysql

from catalog.sources.mariadb.log import LogServer, read_server, setting_lacks
from catalog.sources.mariadb.older import FACTS, is_made, older_of
from catalog.sources.mariadb.replicas import PRIVILEGE_MISSING
from core.errors import InvalidRequest
from core.sentences import joined
from ingest.contract.source_positions import MariaDbLog
from ingest.contract.table import TableSpec
from ingest.sources.mariadb.connection import DIALECT, Connection, connect
from ingest.sources.mariadb.log.columns import FoundTable, SourceColumn
from ingest.sources.mariadb.log.places import Gtids, log_place, parts_of, read_place
from ingest.sources.mariadb.log.statements import Name
from ingest.sources.port import SourceAccess

_SECONDS, _LOCK_SECONDS = 15, 2
_COLUMNS = f"""
SELECT column_name, column_type, {FACTS}, character_set_name, generation_expression,
  FIND_IN_SET('select', privileges) > 0
FROM information_schema.columns
WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position
"""
_SESSION = """
SELECT command, coalesce(state, '') FROM information_schema.processlist WHERE id = %s
"""
_NO_TABLE = frozenset({1146, 1049, 1142, 1356})
# Somebody makes it anew, or alters it with LOCK=EXCLUSIVE, which may take hours.
_LOCKED = (1205,)
_ENGINE = re.compile(r"^\) .*?\bENGINE=(\w+)", re.MULTILINE)
_UNIQUE = re.compile(
    r"^ +(?:PRIMARY KEY|UNIQUE KEY `(?P<name>(?:[^`]|``)+)`)"
    r" \((?P<columns>(?:`(?:[^`]|``)+`(?:\(\d+\))?(?: ASC| DESC)?,?)+)\)",
    re.MULTILINE,
)
_NAME = re.compile(r"`((?:[^`]|``)+)`")
# Rows of a table with one of these are changed by the engine, of which the log says
# nothing.
_CASCADES = re.compile(
    r"CONSTRAINT (`(?:[^`]|``)*`) FOREIGN KEY [^\n]*"
    r" ON (?:DELETE|UPDATE) (?:CASCADE|SET NULL|SET DEFAULT)"
)


@dataclass(frozen=True, slots=True)
class LogFile:
    base: str
    number: int
    size: int

    @property
    def name(self) -> str:
        return f"{self.base}{self.number:06}"


@dataclass(slots=True)
class Control:
    """locked: of the tables that were wanted last, those that could not be looked
    at."""

    connection: Connection
    locked: set[Name] = field(default_factory=set)

    def rows(self, sql: str, parameters: Sequence[object] | None = None) -> list[Any]:
        """pymysql.MySQLError, of a source that does not answer, too."""
        with self.connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            return list(cursor.fetchall())

    def server(self) -> LogServer:
        """InvalidRequest `source_log_off` when its settings lack something."""
        place = log_place(self.rows)
        found = read_server(self.rows, place=place, is_replica=None)
        if lacks := setting_lacks(found.settings):
            raise InvalidRequest(
                "the log of the source lacks what following it needs: %(reasons)s",
                statements=" ".join(one.statement for one in lacks if one.statement),
                reasons=joined(lack.reason for lack in lacks),
                code="source_log_off",
                hint="at the source: %(statements)s",
            )
        return found

    def place(self) -> MariaDbLog:
        """Where the log ends now."""
        return read_place(self.rows)

    def here(self) -> MariaDbLog:
        """See `read_place`; with the GTIDs of that place."""
        state = Gtids.of(self._shown("gtid_binlog_state"))
        place = self.place()
        found = self.rows("SELECT BINLOG_GTID_POS(%s, %s)", [place.file, place.offset])
        # that has the last of each domain only, and the other is of a moment before
        newest = Gtids.of(str(found[0][0] or "")).newest
        for domain, (server, number) in newest.items():
            state.take(domain, server, number)
        return replace(place, gtids=state.encode())

    def replayed(self) -> Gtids:
        """The last of each domain that came from other servers."""
        return Gtids.of(self._shown("gtid_slave_pos"))

    def _shown(self, name: str) -> str:
        return str(self.rows(f"SELECT @@global.{name}")[0][0] or "")

    def files(self) -> list[LogFile]:
        """Of the log, the oldest first."""
        return [
            LogFile(*parts_of(str(name)), int(size))
            for name, size, *_ in self.rows("SHOW BINARY LOGS")
        ]

    def others(self) -> Mapping[int, str]:
        """Number → name of those that receive the log; {} where the login may not
        ask."""
        try:
            found = self.rows("SHOW SLAVE HOSTS")
        except pymysql.MySQLError as error:
            if error.args[:1] != (PRIVILEGE_MISSING,):
                raise
            return {}
        return {int(number): str(host) for number, host, *_ in found}

    def tables(self, wanted: Sequence[TableSpec]) -> dict[Name, FoundTable]:
        """Those that are there, by database and name. The log's reader waits: for one
        lock at most."""
        found = {}
        self.locked = set()
        for table in wanted:
            name = table.source_schema, table.source_table
            try:
                if one := self._table(name):
                    found[name] = one
            except pymysql.MySQLError as error:
                if error.args[:1] != _LOCKED:
                    raise
                self.locked.add(name)
                self.connection.query("SET lock_wait_timeout = 0")
        if self.locked:
            self.connection.query(f"SET lock_wait_timeout = {_LOCK_SECONDS}")
        return found

    def definition(self, table: TableSpec) -> str:
        """The statement that makes it as it is; "" = it is not there, or locked."""
        try:
            return self._definition((table.source_schema, table.source_table)) or ""
        except pymysql.MySQLError as error:
            if error.args[:1] != _LOCKED:
                raise
            return ""

    def _table(self, name: Name) -> FoundTable | None:
        text = self._definition(name)
        if text is None:
            return None
        engine = _ENGINE.search(text)
        cascade = _CASCADES.search(text)
        # of a table that is locked since it has none
        if not (rows := self.rows(_COLUMNS, list(name))):
            raise pymysql.OperationalError(*_LOCKED, "locked")
        return FoundTable(
            engine[1] if engine else "",
            {row[0]: _column(*row[1:]) for row in rows},
            cascade[1] if cascade else "",
            "WITH SYSTEM VERSIONING" in text.rpartition("\n) ")[2],
            frozenset(name for name, *_, may_read in rows if not may_read),
            older_of(row[:5] for row in rows),
            dict(map(_unique, _UNIQUE.finditer(text))),
        )

    def _definition(self, name: Name) -> str | None:
        try:
            ((_, text, *_),) = self.rows(
                f"SHOW CREATE TABLE {DIALECT.qualified(*name)}"
            )
        except pymysql.MySQLError as error:
            if error.args[0] in _NO_TABLE:
                return None
            raise
        return str(text)


def _unique(found: re.Match[str]) -> tuple[str, frozenset[str]]:
    """By its name, as statements name it."""
    names = (name.replace("``", "`") for name in _NAME.findall(found["columns"]))
    name = (found["name"] or "primary").replace("``", "`")
    return name.lower(), frozenset(names)


def _column(
    type: str, _: str, is_nullable: int, extra: str, charset: str, made: str, __: int
) -> SourceColumn:
    made = f"{extra} {made or ''}".strip() if is_made(extra) else ""
    return SourceColumn(type, charset or "", bool(is_nullable), made)


@contextlib.contextmanager
def open_control(access: SourceAccess) -> Iterator[tuple[Control, str]]:
    """With the address that it went to."""
    connection, address = connect(access, read_timeout=2 * _SECONDS)
    with contextlib.closing(connection):
        connection.query(
            f"SET max_statement_time = {_SECONDS}, lock_wait_timeout = {_LOCK_SECONDS}"
        )
        yield Control(connection), address


def sender_state(access: SourceAccess, session: int) -> tuple[str, str]:
    """What the session does that sends the log, by a new connection; ("", "") = it is
    gone."""
    connection, _ = connect(access, read_timeout=10)
    with contextlib.closing(connection):
        found = Control(connection).rows(_SESSION, [session])
    return (str(found[0][0]), str(found[0][1])) if found else ("", "")
