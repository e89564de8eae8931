"""Connections to MariaDB and MySQL, PyMySQL's and those of Spark's JDBC, and their
limits."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Collection, Sequence

import pymysql
from pymysql.constants import CR

from catalog.schema.limits import EVERY_ROW, KEEPALIVE, LIMITS
from core.sentences import Sentence
from core.sockets import keep_alive
from ingest.sources.dialects import dialect_of
from ingest.sources.port import Row, Snapshot, SourceAccess, pinned_to, session_in_words

Connection = pymysql.Connection

# Control connections are idle while chunks are read.
_IDLE_SECONDS = 28_800
_SSL = {"off": "disable", "require": "trust", "verify": "verify-full"}
DIALECT = dialect_of("mariadb")

# Values, and definitions of tables, must not depend on what the server or its
# administrator chose; the empty mode neither refuses zero dates in comparisons nor pads
# CHAR. Nor must it depend on that which rows there are: a limit cuts every SELECT off
# without a word, and another level of isolation shows rows that were never committed.
_SETTINGS = (
    "SET time_zone = '+00:00', sql_mode = '',"
    f" sql_select_limit = {EVERY_ROW}, sql_big_selects = 1,"
    " sql_quote_show_create = 1,"
    # Spark may be slow to take rows while it writes others
    f" net_write_timeout = {LIMITS.reader_idle}, wait_timeout = {_IDLE_SECONDS},"
    f" lock_wait_timeout = {LIMITS.lock}, innodb_lock_wait_timeout = {LIMITS.lock}"
)


def _session(seconds: int) -> str:
    """With a limit for each statement. The first is for MariaDB only, the second for
    MySQL only."""
    level = "'REPEATABLE-READ'"
    return (
        f"{_SETTINGS}"
        f" /*M! , tx_isolation = {level}, max_statement_time = {seconds} */"
        f" /*!50799 , transaction_isolation = {level},"
        f" max_execution_time = {seconds * 1_000} */"
    )


_CONTROL_SESSION = _session(LIMITS.statement)
# A reader's statement lasts as long as its rows are taken.
SESSION = _session(LIMITS.reader)


def mark(application: str) -> str:
    """A comment by which statements of an application are found at the server."""
    return f"/* {application.replace('*', '')} */"


# Until the last row of a statement is taken.
LIVE_SECONDS = 3_600
LIVE_PROPERTIES: dict[str, str] = {}


def cancel_statements(access: SourceAccess) -> None:
    """Every server address that the job may read from is asked."""
    for address in access.addresses or ("",):
        connection, _ = connect(access.at(address), read_timeout=LIMITS.connect)
        with contextlib.closing(connection):
            _kill(connection, access.application)


end_live = cancel_statements


def describe_sessions(access: SourceAccess) -> str:
    """See `Connections`."""
    found = _asked(access, _SESSIONS, [f"%{mark(access.application)}%"])
    if not found:
        return Sentence("its server runs no statement of this job")
    number, seconds, state = found[0]
    what = Sentence(", which is '%(state)s'", state=state) if state else ""
    return session_in_words(number, what, seconds)


def idle_sessions(access: SourceAccess, sessions: Collection[int]) -> frozenset[int]:
    """See `Connections`."""
    return frozenset(int(n) for (n,) in _asked(access, _IDLE, [tuple(sessions)]))


def _asked(access: SourceAccess, sql: str, parameters: Sequence[object]) -> list[Row]:
    """By a new connection."""
    try:
        connection, _ = connect(access, read_timeout=LIMITS.connect)
        with contextlib.closing(connection), connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            return list(cursor.fetchall())
    except pymysql.MySQLError as error:
        if "timed out" not in str(error):
            raise
        raise TimeoutError(str(error)) from error


_SESSIONS = """
SELECT id, time, state FROM information_schema.processlist
WHERE info LIKE %s AND id <> CONNECTION_ID() AND command IN ('Query', 'Execute')
ORDER BY time DESC LIMIT 1
"""
# The second is MySQL's word for the first.
_IDLE = """
SELECT id FROM information_schema.processlist
WHERE id IN %s
  AND (command = 'Sleep' OR state IN ('Writing to net', 'Sending to client'))
"""


def _kill(connection: Connection, application: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id FROM information_schema.processlist"
            " WHERE info LIKE %s AND id <> CONNECTION_ID()",
            [f"%{mark(application)}%"],
        )
        for (number,) in cursor.fetchall():
            # it may have ended by now
            with contextlib.suppress(pymysql.MySQLError):
                cursor.execute(f"KILL QUERY {int(number)}")


def jdbc_options(access: SourceAccess, sql: str, snapshot: Snapshot) -> dict[str, str]:
    """One partition with the rows of `sql` as of the moment it is read.

    The scheme is MySQL's because of Spark 3.5: for jdbc:mariadb it knows no dialect
    and quotes columns with '"', which the server reads as text."""
    return {
        **jdbc_connection(access),
        "dbtable": f"({mark(access.application)} {sql}) AS source_rows",
        "sessionInitStatement": SESSION,
        "connectionProvider": "sluice",
        # also for the connection that only asks for the columns of the statement
        "sluiceSession": f"SET lock_wait_timeout = {LIMITS.lock}",
    }


def live_session(seconds: int) -> tuple[str, ...]:
    """For a statement of a SQL user, which may take so long there."""
    return (_session(seconds), "START TRANSACTION READ ONLY")


def jdbc_connection(access: SourceAccess) -> dict[str, str]:
    """How JDBC connects, whatever it then reads: `url`, `driver`, its properties."""
    source = access.spec
    host = f"[{source.host}]" if ":" in source.host else source.host
    return {
        "url": f"jdbc:mysql://{host}:{source.port}/?permitMysqlScheme=true",
        "driver": "org.mariadb.jdbc.Driver",
        "user": source.username,
        "password": access.password,
        "sslMode": _SSL[source.tls],
        "connectTimeout": str(LIMITS.connect * 1_000),
        "socketTimeout": str(LIMITS.silent * 1_000),
        "connectionAttributes": f"program_name:{access.application}",
        "tcpKeepAlive": "true",
        "allowLocalInfile": "false",
        **_trust(access),
        **pinned_to(access, "io.sluice.lake.PinnedMariadbSocketFactory"),
    }


def _trust(access: SourceAccess) -> dict[str, str]:
    if access.spec.tls == "verify" and access.authorities:
        return {"serverSslCert": access.authorities}
    return {}


def connect(
    access: SourceAccess, *, read_timeout: int = LIMITS.silent
) -> tuple[Connection, str]:
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
        connect_timeout=LIMITS.connect,
        ssl=_tls_context(access),
        ssl_disabled=spec.tls == "off",
        local_infile=False,
        init_command=_CONTROL_SESSION,
        read_timeout=LIMITS.connect,
        write_timeout=LIMITS.unacknowledged,
        program_name=access.application,
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
    # PyMySQL has one limit for the greeting of the server and for all that follows
    connection._read_timeout = read_timeout  # type: ignore[attr-defined]
    return connection, address


def _socket_to(access: SourceAccess) -> socket.socket:
    """MySQLError as for all else of connecting: an OSError would be a file's."""
    failure: OSError | None = None
    for host in access.addresses or (access.spec.host,):
        try:
            link = socket.create_connection(
                (host, access.spec.port), timeout=LIMITS.connect
            )
        except OSError as error:
            failure = error
            continue
        link.settimeout(None)
        keep_alive(link, **KEEPALIVE)
        return link
    why = (failure.strerror or str(failure)) if failure else "its name has no address"
    raise pymysql.OperationalError(
        CR.CR_CONN_HOST_ERROR, f"no connection to {access.spec.host}: {why}"
    ) from failure


def _tls_context(access: SourceAccess) -> ssl.SSLContext | None:
    if access.spec.tls == "off":
        return None
    if access.spec.tls == "verify":
        return ssl.create_default_context(cafile=access.authorities or None)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
