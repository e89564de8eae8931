"""The connection test's steps at PostgreSQL, each over its own short transaction."""

from __future__ import annotations

import contextlib
import struct
from typing import Any

import psycopg
from psycopg import sql

from catalog.sources.access import SourceAccess
from catalog.sources.postgresql import log, privileges, statements
from catalog.sources.postgresql.answers import Link
from catalog.sources.postgresql.connect import connect, transaction
from catalog.sources.postgresql.errors import source_error
from catalog.sources.steps import (
    NOTHING_TO_READ,
    WITHOUT_TLS,
    Outcome,
    Steps,
    followable,
    readable_of,
    sampled,
    secured,
    too_old,
)
from catalog.sources.tls import tls_context
from core.errors import SluiceError
from core.sentences import Sentence

OLDEST_VERSION = 120_000
_SSL_REQUEST = struct.pack("!II", 8, 80_877_103)


class PostgresSteps(Steps):
    """See `Steps`."""

    errors = (SluiceError, psycopg.Error, OSError)

    def __init__(self, access: SourceAccess, stack: contextlib.ExitStack) -> None:
        super().__init__(access, stack)
        self._link: Link | None = None
        self._readable: tuple[str, str] | None = None

    def explained(self, error: Exception) -> SluiceError:
        return source_error(error, self.access)

    @property
    def connection(self) -> Link:
        if self._link is None:
            raise RuntimeError("this step needs the login step before it")
        return self._link

    def tls(self) -> Outcome:
        if self.access.tls == "off" or self.socket is None:
            return WITHOUT_TLS
        with self.socket as plain:
            plain.settimeout(self.access.connect_timeout)
            plain.sendall(_SSL_REQUEST)
            answer = plain.recv(1)
            if answer == b"N":
                raise psycopg.OperationalError("server does not support SSL")
            if answer != b"S":
                raise psycopg.OperationalError("invalid response to SSL negotiation")
            context = tls_context(self.access.tls)
            name = self.access.host
            with context.wrap_socket(plain, server_hostname=name) as wrapped:
                version = wrapped.version()
        return secured(str(version), self.access.tls)

    def login(self) -> Outcome:
        link = connect(self.access, self.addresses)
        self._link = self.stack.enter_context(contextlib.closing(link))
        return Outcome(
            Sentence(
                "user '%(user)s' is in database '%(database)s'",
                user=self.access.username,
                database=self.access.database,
            )
        )

    def version(self) -> Outcome:
        with transaction(self.connection, self.access) as link:
            (number, text, is_standby) = _one(link, _VERSION)
        self.facts |= {"server_version": text, "is_standby": is_standby}
        if number < OLDEST_VERSION:
            raise too_old(f"PostgreSQL {text}", "PostgreSQL 12")
        server = f"PostgreSQL {text}"
        if is_standby:
            return Outcome(Sentence("%(server)s, a standby", server=server))
        return Outcome(server)

    def privileges(self) -> Outcome:
        access = self.access
        names = {"include": list(access.include), "exclude": list(access.exclude)}
        with transaction(self.connection, access) as link:
            schemas = [row[0] for row in link.execute(statements.DATABASES, names)]
            found = _one(link, _READABLE, names)
        total, readable, sees_all, schema, table, hidden = found
        self.facts |= {
            "tables": total,
            "readable_tables": readable,
            "sees_all_transactions": sees_all,
        }
        self._readable = (schema, table) if schema is not None else None
        wanted = privileges.statements_for(access.username, access.database, schemas)
        return readable_of(
            total,
            readable,
            user=access.username,
            grants=wanted,
            missing=privileges.read_grants(access.username, hidden or ()),
            stats_grant="" if sees_all else privileges.stats_grant(access.username),
        )

    def log(self) -> Outcome:
        with transaction(self.connection, self.access) as link:
            server = _one(link, log.SERVER)
            lacks = tuple(log.lacks_of(server, self.access.username))
            doubts = log.doubts_of(*_one(link, log.KEEPING))
        self.facts["log_lacks"] = [[lack.reason, lack.statement] for lack in lacks]
        return followable(lacks, doubts)

    def sample(self) -> Outcome:
        if self._readable is None:
            return NOTHING_TO_READ
        name = sql.Identifier(*self._readable)
        query = sql.SQL("SELECT count(*) FROM (SELECT 1 FROM {} LIMIT 1) AS sample")
        with transaction(self.connection, self.access) as link:
            found = _one(link, query.format(name))[0]
        return sampled(".".join(self._readable), has_rows=bool(found))


_VERSION = """
SELECT current_setting('server_version_num')::int, current_setting('server_version'),
       pg_is_in_recovery()
"""
_READABLE = f"""
WITH visible AS (
    SELECT n.nspname, c.relname, c.relkind,
           coalesce(has_schema_privilege(n.oid, 'USAGE')
                    AND has_any_column_privilege(c.oid, 'SELECT'), false) AS is_readable
    {statements.TABLES}
)
SELECT count(*), count(*) FILTER (WHERE is_readable),
       pg_has_role(current_user, 'pg_read_all_stats', 'USAGE'),
       (array_agg(nspname::text) FILTER (WHERE is_readable AND relkind = 'r'))[1],
       (array_agg(relname::text) FILTER (WHERE is_readable AND relkind = 'r'))[1],
       array_agg(DISTINCT nspname::text) FILTER (WHERE NOT is_readable)
FROM visible
"""


def _one(
    link: Link, query: str | sql.Composed, values: dict[str, Any] | None = None
) -> tuple[Any, ...]:
    row = link.execute(query, values).fetchone()
    if row is None:
        raise psycopg.OperationalError("the source gave no row")
    return row
