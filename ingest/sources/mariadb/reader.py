"""The control side of a MariaDB or MySQL source: clock, facts, cancelling.

Connections there cannot share a snapshot without a lock on the server, so each
statement sees its own moment. It must not know the lake.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pymysql

from catalog.schema.limits import LIMITS
from catalog.sources.mariadb.types import OPEN_TRANSACTIONS
from core.errors import TransientError
from core.sentences import Sentence
from ingest.contract.positions import OpenTransaction, SourceClock
from ingest.contract.source_positions import MariaDbLog
from ingest.contract.table import TableSpec
from ingest.sources.fingerprint import ServerFingerprint
from ingest.sources.mariadb.connection import DIALECT, Connection, connect, mark
from ingest.sources.mariadb.dialect import is_exact, is_walkable, text_type
from ingest.sources.mariadb.fingerprint import read_fingerprint, read_replica
from ingest.sources.mariadb.log.places import place_number, read_place, shown_number
from ingest.sources.port import (
    KeyFacts,
    Moment,
    Row,
    Snapshot,
    SourceAccess,
    Waits,
    Widths,
)
from ingest.sources.select import relation_of


class MariadbSource:
    """See `Source`. One open connection, autocommit."""

    dialect = DIALECT
    right_to_see_others = "PROCESS"

    def __init__(
        self, connection: Connection, address: str, access: SourceAccess
    ) -> None:
        self._connection = connection
        self._address = address
        self._access = access.at(address)
        self._mark = mark(access.application)
        self._lock = threading.Lock()
        self._waits = Waits()
        self._watch: Watch | None = None
        self.gave_way = ""

    @property
    def address(self) -> str:
        """The IP address this connection went to."""
        return self._address

    def rows(self, sql: str, parameters: Sequence[object] | None = None) -> list[Row]:
        # marked, so that a cancel finds it
        with self._waits.answer(), self._connection.cursor() as cursor:
            cursor.execute(f"{self._mark} {sql}", parameters)
            return list(cursor.fetchall())

    def one(self, sql: str, parameters: Sequence[object] | None = None) -> Row:
        return self.rows(sql, parameters)[0]

    @contextmanager
    def reading(
        self, table: TableSpec, *, can_renew: bool = True
    ) -> Iterator[Snapshot]:
        """Each statement sees its own moment, and no transaction is left open."""
        with self._lock:
            if self._watch is None:
                self.gave_way = ""
                self._watch = Watch(self._access, table.source_table)
        yield Snapshot()

    @contextmanager
    def within(self, table: TableSpec) -> Iterator[None]:
        yield

    def give_back(self) -> None:
        """There is no snapshot; the watch over who waits for the table ends."""
        with self._lock:
            watch, self._watch = self._watch, None
        if watch is not None:
            self.gave_way = watch.gave_way
            watch.close()

    def hang_up(self) -> None:
        """Wakes the thread that waits on this connection with an end of file."""
        held: socket.socket | None = getattr(self._connection, "_sock", None)
        if held is not None:
            with contextlib.suppress(OSError):
                held.shutdown(socket.SHUT_RDWR)

    def waiting(self, seconds: float) -> dict[str, int]:
        session: int = self._connection.thread_id()  # type: ignore[no-untyped-call]
        return dict.fromkeys(self._waits.longer_than(seconds), session)

    def newest_transaction(self) -> int:
        return place_number(self._place())

    def who_is_open(self, before: int) -> str:
        if shown_number(self.rows) >= before:
            return ""
        return Sentence("a commit that is in its log and not visible yet")

    def here(self) -> str:
        return self._place().encode()

    def moment(self) -> Moment:
        """Connections share no snapshot."""
        return Moment("", "")

    def _place(self) -> MariaDbLog:
        return read_place(self.rows)

    def definition(self, table: TableSpec) -> str:
        """Columns, unique indexes, when the table was made, and InnoDB's numbers of it
        and its partitions: a TRUNCATE shows in these, and they only with PROCESS."""
        names = _named(table)
        facts = [self.rows(sql, names) for sql in _DEFINITION]
        facts.append(self._innodb_numbers(*names))
        return hashlib.sha256(str(facts).encode()).hexdigest()[:16]

    def _innodb_numbers(self, schema: str, table: str) -> list[Row]:
        name = f"{file_name(schema)}/{file_name(table)}"
        # of MariaDB, of MySQL
        for catalog in ("innodb_sys_tables", "innodb_tables"):
            try:
                return self.rows(
                    f"SELECT table_id FROM information_schema.{catalog}"
                    " WHERE name = %s OR left(name, char_length(%s)) = %s",
                    [name, *[f"{name}#"] * 2],
                )
            except pymysql.MySQLError as error:
                if error.args[:1] == (_PRIVILEGE_MISSING,):
                    return []
                if error.args[:1] != (_NO_SUCH_CATALOG,):
                    raise
        return []

    def lock_holders(self, table: TableSpec) -> str:
        """Needs PROCESS; MariaDB does not say who holds a lock on a table, only who
        waits for it."""
        if self.gave_way:
            return Sentence(
                "asked for by %(gave_way)s, for which reading stopped",
                gave_way=self.gave_way,
            )
        found = self.rows(_LOCK_WAITERS)
        if not found:
            return ""
        pid, query = found[0]
        return Sentence("asked for by pid %(pid)s (%(query)s)", pid=pid, query=query)

    def columns(self, table: TableSpec) -> dict[str, tuple[str, bool]]:
        found = self._columns(table)
        return {name: (type, nullable == "NO") for name, type, nullable, *_ in found}

    def _columns(self, table: TableSpec) -> list[Row]:
        """Name, type, whether it is nullable, character set and collation, of columns
        that the login may SELECT; of all, which are refused, where there is none."""
        if not (found := self.rows(_COLUMNS, _named(table))):
            # says in the server's words whether it is absent or forbidden
            relation = relation_of(DIALECT, table)
            self.rows(f"SELECT 1 FROM {relation} LIMIT 0")
            found = self.rows(_COLUMNS, _named(table))  # made anew between the two
        readable = [tuple(row) for *row, may_select in found if may_select]
        return readable or [tuple(row) for *row, _ in found]

    def estimated_rows(self, table: TableSpec) -> int:
        return self._statistics(table)[0]

    def widths(self, table: TableSpec) -> Widths:
        """The widest that the types allow: looking at values would read them whole.
        Few rows at a time cost nothing here, for the server sends them all anyway."""
        found = self.one(
            "SELECT least(sum(CASE WHEN data_type IN ('json', 'geometry')"
            " THEN 4294967296 ELSE coalesce(character_octet_length, 64) END),"
            " @@global.max_allowed_packet) FROM information_schema.columns"
            " WHERE table_schema = %s AND table_name = %s",
            _named(table),
        )
        return Widths(self._statistics(table)[1], int(found[0] or 0))

    def pages(self, table: TableSpec) -> int:
        return -1

    def _statistics(self, table: TableSpec) -> tuple[int, int]:
        found = self.rows(
            "SELECT coalesce(table_rows, 0), coalesce(avg_row_length, 0)"
            " FROM information_schema.tables"
            " WHERE table_schema = %s AND table_name = %s",
            _named(table),
        )
        return (int(found[0][0]), int(found[0][1])) if found else (0, 0)

    def key_facts(self, table: TableSpec, key: Sequence[str]) -> KeyFacts:
        found = self._columns(table)
        columns = {name: (type, *order) for name, type, _, *order in found}
        not_null = {name for name, _, nullable, *_ in found if nullable == "NO"}
        indexes: dict[str, list[tuple[bool, str | None]]] = {}
        # a prefix or an expression is no column: rows beyond it are not told apart
        for index, is_unique, column, is_ordered in self.rows(
            "SELECT index_name, non_unique = 0,"
            " CASE WHEN sub_part IS NULL THEN column_name END, index_type = 'BTREE'"
            " FROM information_schema.statistics"
            " WHERE table_schema = %s AND table_name = %s"
            " ORDER BY index_name, seq_in_index",
            _named(table),
        ):
            if is_ordered:
                indexes.setdefault(index, []).append((bool(is_unique), column))
        wanted = list(key)
        types = tuple(text_type(*columns[k]) for k in wanted)
        parts = [(unique[0][0], [c for _, c in unique]) for unique in indexes.values()]
        return KeyFacts(
            types=types,
            is_unique=any(
                unique and set(names) <= set(wanted) for unique, names in parts
            ),
            is_walkable=all(is_walkable(t) for t in types)
            and any(names[: len(wanted)] == wanted for _, names in parts),
            is_not_null=not_null >= set(wanted),
            is_exact=all(is_exact(t) for t in types),
        )

    def clock(self) -> SourceClock:
        sees = self._sees_others()
        now, lowest, highest = self.one(_CLOCK)
        running = self.rows(_RUNNING_OF_OTHERS if sees else _RUNNING)
        found = self._open_transactions(now) if sees else []
        begun = {t.pid: t.since for t in found}
        # A transaction begins for InnoDB when a statement first touches it: the
        # statement, and so its reading of the clock, may be much older.
        found += [
            OpenTransaction(int(pid), since)
            for pid, age in running
            if (since := _utc(now) - timedelta(seconds=int(age) + 1))
            < begun.get(int(pid), _LATEST)
        ]
        offsets = int(lowest), int(highest)
        with self._waits.answer():
            replica = read_replica(self._connection, now)
        return SourceClock(_utc(now), tuple(found), sees, offsets, replica)

    def bad_text(self, table: TableSpec) -> str:
        # what its character set does not have in Unicode reads as question marks
        return ""

    def source_fingerprint(self, table: TableSpec) -> ServerFingerprint:
        numbers = self._innodb_numbers(table.source_schema, table.source_table)
        return read_fingerprint(
            self.rows, table, [int(number) for (number,) in numbers]
        )

    def _sees_others(self) -> bool:
        try:
            self.rows(OPEN_TRANSACTIONS)
        except pymysql.MySQLError as error:
            if error.args[:1] != (_PRIVILEGE_MISSING,):
                raise
            return False
        return True

    def _open_transactions(self, now: datetime) -> list[OpenTransaction]:
        """InnoDB shows a copy, made anew when nobody looked for a tenth of a second:
        one in which a transaction of our own is, begun after `now`, is new enough."""
        for _ in range(_LOOKS):
            self.rows("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            try:
                time.sleep(_COPY_SECONDS)
                started = {int(pid): (at, e) for pid, at, e in self.rows(_OPEN)}
            finally:
                self.rows("ROLLBACK")
            own = started.pop(self._connection.thread_id(), None)  # type: ignore[no-untyped-call]
            if own is not None:
                # The zone in which InnoDB writes its times is the server's.
                shift = _whole_quarters(own[0] - now)
                return [
                    _open(pid, _utc(at - shift - timedelta(seconds=int(earlier))))
                    for pid, (at, earlier) in started.items()
                ]
        raise TransientError(
            "the server's list of open transactions is not brought up to date",
            code="source_clock_stale",
            hint="something reads information_schema.innodb_trx many times a second",
        )


_COLUMNS = """
SELECT column_name, column_type, is_nullable, character_set_name, collation_name,
  FIND_IN_SET('select', privileges) > 0
FROM information_schema.columns
WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position
"""
_DEFINITION = (
    "SELECT create_time, engine, table_type FROM information_schema.tables"
    " WHERE table_schema = %s AND table_name = %s",
    "SELECT ordinal_position, column_name, column_type, is_nullable, collation_name"
    " FROM information_schema.columns WHERE table_schema = %s AND table_name = %s"
    " ORDER BY ordinal_position",
    "SELECT index_name, seq_in_index, column_name, sub_part"
    " FROM information_schema.statistics WHERE table_schema = %s AND table_name = %s"
    " AND non_unique = 0 ORDER BY index_name, seq_in_index",
    "SELECT partition_name, subpartition_name, create_time"
    " FROM information_schema.partitions WHERE table_schema = %s AND table_name = %s"
    " ORDER BY partition_name, subpartition_name",
    "SELECT view_definition FROM information_schema.views"
    " WHERE table_schema = %s AND table_name = %s",
)
_LOCK_WAITERS = """
SELECT p.id, left(coalesce(p.info, ''), 80) FROM information_schema.processlist p
WHERE p.state LIKE 'Waiting for table metadata lock%'
  AND coalesce(p.info, '') NOT LIKE '%sluice:%' ORDER BY p.time DESC LIMIT 1
"""
_PRIVILEGE_MISSING = 1227
_NO_SUCH_CATALOG = 1109
# The zone is the one that sessions get by default, not the one we set.
_CLOCK = """
WITH RECURSIVE weeks AS (
  SELECT -52 AS n UNION ALL SELECT n + 1 FROM weeks WHERE n < 52
), moments AS (
  SELECT UTC_TIMESTAMP() + INTERVAL n WEEK AS utc FROM weeks
), offsets AS (
  SELECT TIMESTAMPDIFF(SECOND, utc, CONVERT_TZ(utc, '+00:00', @@global.time_zone)) AS s
  FROM moments
)
SELECT UTC_TIMESTAMP(6), min(s), max(s) FROM offsets
"""
# Our own, and those that may write; of several that were prepared and have lost their
# connection the oldest. Times are local, and when summer time ends an hour comes twice:
# one that may have begun before that did.
_OPEN = """
SELECT pid, begun,
  CASE WHEN CONVERT_TZ(begun - INTERVAL ahead + 3600 SECOND, '+00:00', 'SYSTEM') = begun
    THEN 3600 ELSE 0 END
FROM (
  SELECT trx_mysql_thread_id AS pid, min(trx_started) AS begun,
    TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(),
      CONVERT_TZ(UTC_TIMESTAMP(), '+00:00', 'SYSTEM')) AS ahead
  FROM information_schema.innodb_trx
  WHERE trx_mysql_thread_id = CONNECTION_ID()
    OR (trx_is_read_only = 0 AND trx_autocommit_non_locking = 0)
  GROUP BY trx_mysql_thread_id
) AS open_ones
"""
# A statement reads the clock when it begins, and touches InnoDB later: while it waits
# for a lock on its table it has no transaction yet. Events are said to connect, as is
# what applies a log. Ours only read, and are of our login: what others write may have
# our mark in it.
_RUNNING = """
SELECT p.id, p.time FROM information_schema.processlist p
WHERE (p.command IN ('Query', 'Execute', 'Bulk_execute') OR p.command = 'Connect'
    AND p.user <> 'system user' AND p.info IS NOT NULL)
  AND p.id <> CONNECTION_ID()
  AND NOT (coalesce(p.info, '') LIKE '%sluice:%' AND p.user = (
    SELECT own.user FROM information_schema.processlist own
    WHERE own.id = CONNECTION_ID()))
"""
_RUNNING_OF_OTHERS = (
    _RUNNING
    + """
  AND p.id NOT IN (SELECT t.trx_mysql_thread_id FROM information_schema.innodb_trx t
                   WHERE t.trx_is_read_only = 1 OR t.trx_autocommit_non_locking = 1)
"""
)
_COPY_SECONDS = 0.11
_LOOKS = 20
_LATEST = datetime.max.replace(tzinfo=UTC)
# The first statement of a transaction read the clock shortly before it began.
_CLOCK_BEFORE_START = timedelta(seconds=2)


def _named(table: TableSpec) -> list[str]:
    return [table.source_schema, table.source_table]


def _open(pid: int, since: datetime) -> OpenTransaction:
    # after a restart of the server a prepared one seems to have begun then
    return OpenTransaction(
        pid, since - _CLOCK_BEFORE_START, is_prepared=pid == 0, name="XA"
    )


def file_name(name: str) -> str:
    """A name as InnoDB has it, which is that of the file; letters with accents have
    names of their own there and are not found."""
    return "".join(
        c if c.isascii() and (c.isalnum() or c == "_") else f"@{ord(c):04x}"
        for c in name
    )


def _whole_quarters(shift: timedelta) -> timedelta:
    """Offsets of zones are multiples of a quarter of an hour."""
    return timedelta(minutes=15 * round(shift / timedelta(minutes=15)))


def _utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC)


@contextmanager
def open_source(access: SourceAccess) -> Iterator[MariadbSource]:
    connection, address = connect(access)
    with contextlib.closing(connection):
        source = MariadbSource(connection, address, access)
        try:
            yield source
        finally:
            source.give_back()


# ------------------------------------------------------ readers in the way of others

# A SELECT keeps its lock on the table's definition until its last row was taken; all
# that comes behind a waiting ALTER TABLE waits, too. Seeing others needs PROCESS.


log = logging.getLogger(__name__)

# Which table is waited for is not shown; the statement that waits names it.
_WAITING = """
SELECT id FROM information_schema.processlist
WHERE state LIKE 'Waiting for table metadata lock%%' AND id <> CONNECTION_ID()
  AND info NOT LIKE '%%sluice:%%' AND locate(%s, info) > 0
"""
_OURS = """
SELECT id FROM information_schema.processlist
WHERE info LIKE %s AND id <> CONNECTION_ID()
  AND state NOT LIKE 'Waiting for table metadata lock%%'
"""


class Watch:
    """A connection of its own, which looks every two seconds until it is closed."""

    def __init__(self, access: SourceAccess, table: str) -> None:
        self._table = table
        self._mark = f"%{mark(access.application)}%"
        self._connection, _ = connect(access, read_timeout=LIMITS.unanswered)
        self._ended = threading.Event()
        # who waits → since when
        self._waits: dict[int, float] = {}
        self.gave_way = ""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._thread.join(LIMITS.connect)
        with contextlib.suppress(pymysql.MySQLError):
            self._connection.close()

    def _run(self) -> None:
        try:
            while not self._ended.wait(LIMITS.beat):
                self._look()
        except (pymysql.MySQLError, OSError) as error:
            log.info("the watch over waiters ended for %s: %s", self._table, error)

    def _look(self) -> None:
        now = time.monotonic()
        waiting = self._ids(_WAITING, self._table)
        self._waits = {w: self._waits.get(w, now) for w in waiting}
        late = [w for w, at in self._waits.items() if now - at >= LIMITS.give_way]
        if not late:
            return
        self.gave_way = f"pid {late[0]}"
        for reader in self._ids(_OURS, self._mark):
            with (
                contextlib.suppress(pymysql.MySQLError),
                self._connection.cursor() as c,
            ):
                # a reader that waits for its client to take rows hears nothing less
                c.execute(f"KILL CONNECTION {reader}")

    def _ids(self, statement: str, value: str) -> list[int]:
        with self._connection.cursor() as cursor:
            cursor.execute(statement, [value])
            return [int(row[0]) for row in cursor.fetchall()]
