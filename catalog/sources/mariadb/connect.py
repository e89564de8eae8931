"""Connections of discovery and tests to MariaDB and MySQL: pinned address, time-outs,
TLS.

The socket is ours, so the name in the datasource is never looked up a second time; it
is what a certificate has to be for.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import struct
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pymysql
from pymysql.constants import CR

from catalog.schema.limits import EVERY_ROW, KEEPALIVE, LIMITS
from catalog.sources.access import HANG_UP_AFTER, LONGEST_STATEMENT, SourceAccess
from catalog.sources.mariadb.errors import source_error
from catalog.sources.tls import tls_context
from core.sockets import keep_alive

log = logging.getLogger(__name__)

if TYPE_CHECKING:
    _Connection = pymysql.Connection[pymysql.cursors.Cursor]
else:
    _Connection = pymysql.Connection

Row = tuple[Any, ...]
# Ways of logging in that send the password as it is.
_READABLE_LOGINS = (b"mysql_clear_password", b"dialog")
# What pymysql and who reads its rows trip over when other bytes come than the
# protocol's, or other rows than were asked for.
_NOT_THE_PROTOCOL = (
    *(ValueError, LookupError, AssertionError, struct.error),
    *(RuntimeError, TypeError, AttributeError),
)
_COMMON_SETTINGS = (
    # what the administrator limits would be taken for all columns or tables there are,
    # or be refused for a server of some thousand tables (max_join_size)
    f"time_zone = '+00:00', sql_mode = '', sql_select_limit = {EVERY_ROW},"
    " sql_big_selects = 1,"
    f" lock_wait_timeout = {LIMITS.glance_lock},"
    " net_read_timeout = 30, net_write_timeout = 30"
)


class Link(_Connection):
    """A connection that shows no password to an eavesdropper, and knows its TLS.

    tls_version  what was agreed, even when the login was refused afterwards
    """

    tls_version: str | None = None

    def rows(self, statement: str, values: object = None) -> list[Row]:
        with self.cursor() as cursor:
            cursor.execute(statement, values)
            return list(cursor.fetchall())

    def wait_for_answers(self, seconds: float) -> None:
        self._read_timeout = self._write_timeout = seconds

    def leave(self) -> None:
        """Close, whatever state it is in."""
        with contextlib.suppress(pymysql.MySQLError, OSError):
            self.close()

    def hang_up(self) -> None:
        """Wake the thread that waits on this connection with an end of file."""
        held: socket.socket | None = getattr(self, "_sock", None)
        if held is not None:
            with contextlib.suppress(OSError):
                held.shutdown(socket.SHUT_RDWR)

    def _request_authentication(self) -> None:
        try:
            super()._request_authentication()  # type: ignore[misc]
        finally:
            held = getattr(self, "_sock", None)
            if isinstance(held, ssl.SSLSocket):
                self.tls_version = held.version()

    def _process_auth(
        self, plugin_name: bytes, auth_packet: Any, handler: Any = None
    ) -> Any:
        if plugin_name in _READABLE_LOGINS and not isinstance(
            getattr(self, "_sock", None), ssl.SSLSocket
        ):
            raise pymysql.OperationalError(
                CR.CR_AUTH_PLUGIN_CANNOT_LOAD,
                "the server asks for the password in readable form without TLS",
            )
        return super()._process_auth(plugin_name, auth_packet, handler)  # type: ignore[misc]


def reach(access: SourceAccess, addresses: Sequence[str]) -> socket.socket:
    """A socket to the first of `addresses` that accepts; OSError otherwise."""
    failure: OSError = OSError("no address")
    for address in addresses:
        try:
            made = socket.create_connection(
                (address, access.port), timeout=access.connect_timeout
            )
            keep_alive(made, **KEEPALIVE)
            return made
        except OSError as error:
            failure = error
    raise failure


def new_link(access: SourceAccess) -> Link:
    """Not connected yet: see `log_in`."""
    return Link(
        host=access.host,
        port=access.port,
        user=access.username,
        password=access.password,
        database=access.database or None,
        charset="utf8mb4",
        autocommit=True,
        local_infile=False,
        ssl=None if access.tls == "off" else tls_context(access.tls),
        ssl_disabled=access.tls == "off",
        read_timeout=access.connect_timeout,
        write_timeout=access.connect_timeout,
        program_name=access.application,
        defer_connect=True,
    )


def log_in(link: Link, access: SourceAccess, connection: socket.socket) -> None:
    """TLS, login and the session's settings over a connected socket; SluiceError."""
    with _limited(link, access, access.connect_timeout):
        link.connect(connection)
        # Asked for, because a proxy in between greets with a version of its own.
        ((version,),) = link.rows("SELECT VERSION()")
        link.rows(f"SET SESSION {_COMMON_SETTINGS}, {_limit(str(version), access)}")
        link.rows("SET SESSION TRANSACTION READ ONLY")
    link.wait_for_answers(_longest(access) + HANG_UP_AFTER)


def connect(access: SourceAccess, addresses: Sequence[str]) -> Link:
    """A connection to one of `addresses`, in this order; SluiceError otherwise."""
    link = new_link(access)
    try:
        connection = reach(access, addresses)
    except OSError as error:
        raise source_error(error, access) from error
    try:
        log_in(link, access, connection)
    except BaseException:
        link.leave()
        connection.close()
        raise
    return link


@contextlib.contextmanager
def statements(link: Link, access: SourceAccess) -> Iterator[Link]:
    """Errors in clear words, and a client that gives up when the server stands still.

    No transaction: information_schema is not of one.
    """
    with _limited(link, access, _longest(access) + HANG_UP_AFTER):
        yield link


@contextlib.contextmanager
def _limited(link: Link, access: SourceAccess, seconds: float) -> Iterator[None]:
    late = threading.Event()

    def hang_up() -> None:
        late.set()
        link.hang_up()

    guard = threading.Timer(seconds, hang_up)
    guard.daemon = True
    guard.start()
    try:
        yield
    except (pymysql.MySQLError, OSError) as error:
        cause = (
            TimeoutError(f"timed out after {seconds:g} s") if late.is_set() else None
        )
        raise source_error(cause or error, access) from error
    except _NOT_THE_PROTOCOL as error:
        log.warning("%s:%s answered oddly", access.host, access.port, exc_info=True)
        odd = pymysql.InternalError(0, f"unexpected packet: {error}")
        raise source_error(odd, access) from error
    finally:
        guard.cancel()


def _limit(version: str, access: SourceAccess) -> str:
    """MariaDB counts seconds, for all statements; MySQL milliseconds, for SELECTs."""
    seconds = _longest(access)
    if "mariadb" in version.lower():
        return f"max_statement_time = {seconds:g}"
    # MySQL keeps sizes for a day otherwise, zeros of tables just made included.
    return (
        f"max_execution_time = {int(seconds * 1_000)},"
        " information_schema_stats_expiry = 0"
    )


def _longest(access: SourceAccess) -> float:
    return min(access.statement_timeout, LONGEST_STATEMENT)
