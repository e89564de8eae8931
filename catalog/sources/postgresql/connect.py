"""Connections of discovery and tests to PostgreSQL: pinned address, time-outs, TLS.

Every statement runs in a short read-only transaction whose settings are local to
it, so a connection pooler in between does no harm.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence

import psycopg
from psycopg import IsolationLevel

from catalog.schema.limits import LIBPQ_KEEPALIVE, LIMITS
from catalog.sources.access import HANG_UP_AFTER, LONGEST_STATEMENT, SourceAccess
from catalog.sources.postgresql import statements
from catalog.sources.postgresql.answers import Link, answered_within
from catalog.sources.postgresql.errors import source_error
from catalog.sources.tls import ca_file

SSL_MODES = {"off": "disable", "require": "require", "verify": "verify-full"}


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
    try:
        # A stopped server cannot time its statements out, so the client does too.
        with answered_within(link, seconds + HANG_UP_AFTER), link.transaction():
            limits = {
                "statement_ms": str(int(seconds * 1_000)),
                "lock_ms": str(LIMITS.glance_lock * 1_000),
                "idle_ms": str(LIMITS.abandoned * 1_000),
            }
            link.execute(statements.SETTINGS, limits)
            yield link
    except (psycopg.Error, OSError) as error:
        raise source_error(error, access) from error
