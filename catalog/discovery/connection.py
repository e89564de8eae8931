"""Connections of discovery and tests to PostgreSQL: pinned address, time-outs, TLS.

Every statement runs in a short read-only transaction whose settings are local to
it, so a connection pooler in between does no harm.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
from psycopg import IsolationLevel

from catalog.discovery import postgresql_sql
from catalog.discovery.access import SourceAccess
from catalog.discovery.errors import source_error
from catalog.schema.limits import LIBPQ_KEEPALIVE, LIMITS

Link = psycopg.Connection[tuple[Any, ...]]

# Seconds. A page and its connection must end well within the limit of a task.
LONGEST_STATEMENT = 25
HANG_UP_AFTER = 5

SSL_MODES = {"off": "disable", "require": "require", "verify": "verify-full"}
_SYSTEM_CAS = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")


def connect(access: SourceAccess, addresses: Sequence[str]) -> Link:
    """A connection to one of `addresses`, in this order; SluiceError otherwise."""
    many = len(addresses)
    try:
        link = psycopg.connect(
            LIBPQ_KEEPALIVE,
            host=",".join([access.host] * many),
            hostaddr=",".join(addresses),
            port=access.port,
            user=access.username,
            password=access.password,
            dbname=access.database,
            connect_timeout=access.connect_timeout,
            application_name=access.application,
            client_encoding="UTF8",
            sslmode=SSL_MODES[access.tls],
            sslrootcert=(ca_file() or "system") if access.tls == "verify" else None,
            # Nothing of this machine's own PostgreSQL client settings takes part.
            sslcertmode="disable",
            gssencmode="disable",
            passfile=os.devnull,
            options="",
            autocommit=True,
            prepare_threshold=None,
        )
    except (psycopg.Error, OSError) as error:
        raise source_error(error, access) from error
    link.isolation_level = IsolationLevel.REPEATABLE_READ
    link.read_only = True
    return link


@contextlib.contextmanager
def transaction(link: Link, access: SourceAccess) -> Iterator[Link]:
    """One read-only transaction with time-outs on both sides of the wire."""
    seconds = min(access.statement_timeout, LONGEST_STATEMENT)
    # A stopped server cannot time its statements out, so the client does too.
    guard = threading.Timer(seconds + HANG_UP_AFTER, _hang_up, [link])
    guard.daemon = True
    guard.start()
    try:
        with link.transaction():
            limits = {
                "statement_ms": str(int(seconds * 1_000)),
                "lock_ms": str(LIMITS.glance_lock * 1_000),
                "idle_ms": str(LIMITS.abandoned * 1_000),
            }
            link.execute(postgresql_sql.SETTINGS, limits)
            yield link
    except (psycopg.Error, OSError) as error:
        raise source_error(error, access) from error
    finally:
        guard.cancel()


def tls_context(tls: str) -> ssl.SSLContext:
    """For 'require' and 'verify', when it is we who speak TLS."""
    if tls == "verify":
        return ssl.create_default_context(cafile=ca_file())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def ca_file() -> str | None:
    """The authorities that tls 'verify' trusts: SSL_CERT_FILE, else the system's."""
    known = (os.environ.get("SSL_CERT_FILE"), ssl.get_default_verify_paths().cafile)
    for path in (*known, *_SYSTEM_CAS):
        if path and Path(path).is_file() and Path(path).stat().st_size:
            return path
    return None


def _hang_up(link: Link) -> None:
    """Wake the thread that waits on this connection with an end of file."""
    with (
        contextlib.suppress(OSError, psycopg.Error),
        socket.socket(fileno=os.dup(link.fileno())) as twin,
    ):
        twin.shutdown(socket.SHUT_RDWR)
