"""The control side of a MariaDB or MySQL source: clock, facts, cancelling.

Connections there cannot share a snapshot without a lock on the server, so each
statement sees its own moment. It must not know the lake.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pymysql

from catalog.schema.mariadb import OPEN_TRANSACTIONS
from core.errors import TransientError
from ingest.changes.dialects import dialect_of
from ingest.changes.dialects.mariadb import is_walkable
from ingest.changes.positions import OpenTransaction, SourceClock
from ingest.changes.select import relation_of
from ingest.contract import TableSpec
from ingest.spark.sources.port import KeyFacts, Row, SourceAccess, pinned_to

if TYPE_CHECKING:
    Connection = pymysql.Connection[pymysql.cursors.Cursor]

_CONNECT_SECONDS = 10
# Spark may be slow to take rows while it writes others.
_NET_SECONDS = 3_600
_IDLE_SECONDS = 28_800
_SSL = {"off": "disable", "require": "trust", "verify": "verify-full"}
DIALECT = dialect_of("mariadb")

# Values must not depend on what the server or its administrator chose; the empty
# mode neither refuses zero dates in comparisons nor pads CHAR.
SESSION = (
    "SET time_zone = '+00:00', sql_mode = '',"
    f" net_write_timeout = {_NET_SECONDS}, wait_timeout = {_IDLE_SECONDS}"
)


class MariadbSource:
    """See `Source`. One open connection, autocommit."""

    dialect = DIALECT
    right_to_see_others = "PROCESS"

    def __init__(self, connection: Connection, address: str, application: str) -> None:
        self._connection = connection
        self._address = address
        self._mark = mark(application)

    @property
    def address(self) -> str:
        """The IP address this connection went to."""
        return self._address

    def rows(self, sql: str, parameters: Sequence[object] | None = None) -> list[Row]:
        # marked, so that a cancel finds it
        with self._connection.cursor() as cursor:
            cursor.execute(f"{self._mark} {sql}", parameters)
            return list(cursor.fetchall())

    def one(self, sql: str, parameters: Sequence[object] | None = None) -> Row:
        return self.rows(sql, parameters)[0]

    def begin_snapshot(self) -> str:
        return ""

    def columns(self, table: TableSpec) -> dict[str, tuple[str, bool]]:
        found = self.rows(
            "SELECT column_name, column_type, is_nullable"
            " FROM information_schema.columns"
            " WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position",
            [table.source_schema, table.source_table],
        )
        if not found:
            # says in the server's words whether it is absent or forbidden
            relation = relation_of(DIALECT, table)
            self.rows(f"SELECT 1 FROM {relation} LIMIT 0")
        return {name: (type, nullable == "NO") for name, type, nullable in found}

    def estimated_rows(self, table: TableSpec) -> int:
        return self._statistics(table)[0]

    def row_bytes(self, table: TableSpec) -> int:
        return self._statistics(table)[1]

    def pages(self, table: TableSpec) -> int:
        return -1

    def _statistics(self, table: TableSpec) -> tuple[int, int]:
        found = self.rows(
            "SELECT coalesce(table_rows, 0), coalesce(avg_row_length, 0)"
            " FROM information_schema.tables"
            " WHERE table_schema = %s AND table_name = %s",
            [table.source_schema, table.source_table],
        )
        return (int(found[0][0]), int(found[0][1])) if found else (0, 0)

    def key_facts(self, table: TableSpec, key: Sequence[str]) -> KeyFacts:
        columns = self.columns(table)
        indexes: dict[str, list[tuple[bool, str | None]]] = {}
        # a prefix or an expression is no column: rows beyond it are not told apart
        for index, is_unique, column, is_ordered in self.rows(
            "SELECT index_name, non_unique = 0,"
            " CASE WHEN sub_part IS NULL THEN column_name END, index_type = 'BTREE'"
            " FROM information_schema.statistics"
            " WHERE table_schema = %s AND table_name = %s"
            " ORDER BY index_name, seq_in_index",
            [table.source_schema, table.source_table],
        ):
            if is_ordered:
                indexes.setdefault(index, []).append((bool(is_unique), column))
        wanted = list(key)
        types = tuple(columns[k][0] for k in wanted)
        parts = [(unique[0][0], [c for _, c in unique]) for unique in indexes.values()]
        return KeyFacts(
            types=types,
            is_unique=any(
                unique and None not in names and sorted(map(str, names)) == sorted(key)
                for unique, names in parts
            ),
            is_walkable=all(is_walkable(t) for t in types)
            and any(names[: len(wanted)] == wanted for _, names in parts),
            is_not_null=all(columns[k][1] for k in wanted),
        )

    def clock(self) -> SourceClock:
        sees = self._sees_others()
        now, lowest, highest = self.one(_CLOCK)
        running = self.rows(_RUNNING_OF_OTHERS if sees else _RUNNING)
        found = self._open_transactions(now) if sees else []
        writing = {t.pid for t in found}
        found += [
            OpenTransaction(int(pid), _utc(now) - timedelta(seconds=int(age) + 1))
            for pid, age in running
            if int(pid) not in writing
        ]
        offsets = int(lowest), int(highest)
        return SourceClock(_utc(now), tuple(found), sees, offsets)

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
                started = {int(pid): at for pid, at in self.rows(_OPEN)}
            finally:
                self.rows("ROLLBACK")
            own = started.pop(self._connection.thread_id(), None)  # type: ignore[no-untyped-call]
            if own is not None:
                # The zone in which InnoDB writes its times is the server's.
                shift = _whole_quarters(own - now)
                return [_open(pid, _utc(at - shift)) for pid, at in started.items()]
        raise TransientError(
            "the server's list of open transactions is not brought up to date",
            code="source_clock_stale",
            hint="something reads information_schema.innodb_trx many times a second",
        )


_PRIVILEGE_MISSING = 1227
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
# connection the oldest.
_OPEN = """
SELECT trx_mysql_thread_id, min(trx_started) FROM information_schema.innodb_trx
WHERE trx_mysql_thread_id = CONNECTION_ID()
  OR (trx_is_read_only = 0 AND trx_autocommit_non_locking = 0)
GROUP BY trx_mysql_thread_id
"""
# A statement reads the clock when it begins, and touches InnoDB later: while it waits
# for a lock on its table it has no transaction yet.
_RUNNING = """
SELECT p.id, p.time FROM information_schema.processlist p
WHERE p.command IN ('Query', 'Execute') AND p.id <> CONNECTION_ID()
  AND coalesce(p.info, '') NOT LIKE '%sluice:%'
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
# The first statement of a transaction read the clock shortly before it began.
_CLOCK_BEFORE_START = timedelta(seconds=2)


def _open(pid: int, since: datetime) -> OpenTransaction:
    # after a restart of the server a prepared one seems to have begun then
    return OpenTransaction(
        pid, since - _CLOCK_BEFORE_START, is_prepared=pid == 0, name="XA"
    )


def _whole_quarters(shift: timedelta) -> timedelta:
    """Offsets of zones are multiples of a quarter of an hour."""
    return timedelta(minutes=15 * round(shift / timedelta(minutes=15)))


def _utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC)


def mark(application: str) -> str:
    """A comment by which statements of an application are found at the server."""
    return f"/* {application.replace('*', '')} */"


@contextmanager
def open_source(access: SourceAccess) -> Iterator[MariadbSource]:
    connection, address = _connect(access)
    try:
        yield MariadbSource(connection, address, access.application)
    finally:
        connection.close()


def cancel_statements(access: SourceAccess) -> None:
    """Every server address that the job may read from is asked."""
    for address in access.addresses or ("",):
        connection, _ = _connect(access.at(address))
        with contextlib.closing(connection):
            _kill(connection, access.application)


def _kill(connection: Connection, application: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id FROM information_schema.processlist"
            " WHERE info LIKE %s AND id <> CONNECTION_ID()",
            [f"%{mark(application)}%"],
        )
        for (number,) in cursor.fetchall():
            # it may have ended meanwhile
            with contextlib.suppress(pymysql.MySQLError):
                cursor.execute(f"KILL QUERY {int(number)}")


def jdbc_options(access: SourceAccess, sql: str, snapshot: str) -> dict[str, str]:
    """One partition with the rows of `sql` as of the moment it is read.

    The scheme is MySQL's because of Spark 3.5: for jdbc:mariadb it knows no dialect
    and quotes columns with '"', which the server reads as text."""
    source = access.spec
    host = f"[{source.host}]" if ":" in source.host else source.host
    return {
        "url": f"jdbc:mysql://{host}:{source.port}/?permitMysqlScheme=true",
        "driver": "org.mariadb.jdbc.Driver",
        "user": source.username,
        "password": access.password,
        "sslMode": _SSL.get(source.tls, "verify-full"),
        "dbtable": f"({mark(access.application)} {sql}) AS source_rows",
        "sessionInitStatement": SESSION,
        "connectTimeout": str(_CONNECT_SECONDS * 1_000),
        "tcpKeepAlive": "true",
        "allowLocalInfile": "false",
        **_trust(access),
        **pinned_to(access.addresses, "io.sluice.lake.PinnedMariadbSocketFactory"),
    }


def _trust(access: SourceAccess) -> dict[str, str]:
    if access.spec.tls == "verify" and access.authorities:
        return {"serverSslCert": access.authorities}
    return {}


def _connect(access: SourceAccess) -> tuple[Connection, str]:
    """The connection and the address it went to."""
    spec = access.spec
    connection = pymysql.connect(
        # the name is for the certificate, the address is where it goes
        host=spec.host,
        port=spec.port,
        user=spec.username,
        password=access.password,
        charset="utf8mb4",
        autocommit=True,
        connect_timeout=_CONNECT_SECONDS,
        ssl=_tls_context(access),
        ssl_disabled=spec.tls == "off",
        local_infile=False,
        init_command=SESSION,
        defer_connect=True,
    )
    link = _socket_to(access)
    address = str(link.getpeername()[0])  # TLS takes the socket over
    try:
        connection.connect(link)
    except BaseException:
        with contextlib.suppress(pymysql.MySQLError):
            connection.close()
        raise
    return connection, address


def _socket_to(access: SourceAccess) -> socket.socket:
    failure: OSError | None = None
    for host in access.addresses or (access.spec.host,):
        try:
            link = socket.create_connection(
                (host, access.spec.port), timeout=_CONNECT_SECONDS
            )
        except OSError as error:
            failure = error
            continue
        link.settimeout(None)
        link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return link
    raise failure or OSError("no address to connect to")


def _tls_context(access: SourceAccess) -> ssl.SSLContext | None:
    if access.spec.tls == "off":
        return None
    if access.spec.tls == "verify":
        return ssl.create_default_context(cafile=access.authorities or None)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
