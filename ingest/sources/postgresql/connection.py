"""Connections to PostgreSQL, psycopg's and those of Spark's JDBC, and their limits."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from urllib.parse import quote

import psycopg
from psycopg.rows import tuple_row

from catalog.schema.limits import LIBPQ_KEEPALIVE, LIMITS
from catalog.sources.postgresql.answers import answered_within
from core.sentences import Sentence
from ingest.sources.dialects import dialect_of
from ingest.sources.port import Row, Snapshot, SourceAccess, pinned_to, session_in_words
from ingest.sources.postgresql.snapshot import IMPORT, OPERATORS, UNLIMITED

DIALECT = dialect_of("postgresql")
_SSL = {"off": "disable", "require": "require", "verify": "verify-full"}

# Text of values must not depend on a role's or database's settings.
SESSION_SETTINGS = {
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "iso_8601",
    "TimeZone": "UTC",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    # so must what a text is as a value: keys are compared as they were printed
    "array_nulls": "on",
}
# With row security a statement fails instead of reading some rows only.
_WHOLE = {"row_security": "off"}
# The server looks so often whether the client of a running statement is there: else one
# whose engine was killed goes on until its limit. 14 and later, and not on all systems.
_ENDS_WITH_CLIENT = (
    "SELECT set_config(name, '1s', false) FROM pg_settings"
    " WHERE name = 'client_connection_check_interval' AND version() LIKE '%linux%'"
)
_LIMITING = {
    "lock_timeout": f"{LIMITS.lock}s",
    "statement_timeout": f"{LIMITS.statement}s",
}
CONTROL_SETTINGS = {
    **SESSION_SETTINGS,
    **_LIMITING,
    **_WHOLE,
    "idle_in_transaction_session_timeout": f"{LIMITS.abandoned}s",
    # discovery names types the same way: those of users always with their schema
    "search_path": "",
    "quote_all_identifiers": "off",
}


# Until its next rows: the server says so itself, before its silent socket is taken for
# dead.
LIVE_SECONDS = LIMITS.statement
# Constants get the type that their casts name.
LIVE_PROPERTIES = {"stringtype": "unspecified"}


def cancel_statements(access: SourceAccess) -> None:
    """See `Connections`."""
    with connect(access, application="sluice:cancel") as connection:
        connection.execute(f"SET statement_timeout = '{LIMITS.connect}s'")
        connection.execute(
            "SELECT pg_cancel_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = %s AND pid <> pg_backend_pid()"
            " AND state <> 'idle'",
            [access.application],
        )


def end_live(access: SourceAccess) -> None:
    """The server looks for its client by itself."""


def describe_sessions(access: SourceAccess) -> str:
    """See `Connections`."""
    found = _asked(access, _SESSIONS, [access.application])
    if not found:
        return Sentence("its server runs no statement of this job")
    pid, seconds, waits = found[0]
    what = Sentence(", which waits for %(waits)s", waits=waits) if waits else ""
    return session_in_words(pid, what, seconds)


def idle_sessions(access: SourceAccess, sessions: Collection[int]) -> frozenset[int]:
    """See `Connections`."""
    found = _asked(access, _IDLE, [access.application, list(sessions)])
    return frozenset(int(pid) for (pid,) in found)


def _asked(access: SourceAccess, sql: str, parameters: Sequence[object]) -> list[Row]:
    """By a new connection."""
    try:
        connection = connect(access, application="sluice:probe")
    except psycopg.errors.ConnectionTimeout as error:
        raise TimeoutError(str(error)) from error
    with contextlib.closing(connection), answered_within(connection, LIMITS.connect):
        try:
            return connection.execute(sql, parameters).fetchall()
        except psycopg.OperationalError as error:
            raise TimeoutError(str(error)) from error


_SESSIONS = """
SELECT pid, extract(epoch FROM clock_timestamp() - query_start),
  nullif(concat_ws(' ', wait_event_type, wait_event), '')
FROM pg_stat_activity
WHERE application_name = %s AND pid <> pg_backend_pid() AND state = 'active'
  AND query !~ 'pg_stat_clear_snapshot|pg_locks'
ORDER BY query_start LIMIT 1
"""
_IDLE = """
SELECT pid FROM pg_stat_activity
WHERE application_name = %s AND pid = ANY(%s)
  AND (state ~ '^idle' OR wait_event_type = 'Client')
"""


def connect(
    access: SourceAccess, *, application: str = "", replication: str | None = None
) -> psycopg.Connection[Row]:
    """replication: "database" for the log, by which SQL without parameters is spoken
    as well."""
    many = max(1, len(access.addresses))
    return psycopg.connect(
        LIBPQ_KEEPALIVE,
        # the name is for the certificate, the address is where it goes
        host=",".join([access.spec.host] * many),
        hostaddr=",".join(access.addresses) or None,
        port=access.spec.port,
        dbname=access.spec.database,
        user=access.spec.username,
        password=access.password,
        sslmode=_ssl_mode(access),
        sslrootcert=(access.authorities or "system")
        if access.spec.tls == "verify"
        else None,
        application_name=application or access.application,
        connect_timeout=LIMITS.connect,
        autocommit=True,
        client_encoding="utf8",
        replication=replication,
        row_factory=tuple_row,
    )


def jdbc_options(access: SourceAccess, sql: str, snapshot: Snapshot) -> dict[str, str]:
    """One partition with the rows of `sql`, as of the exported `snapshot`."""
    first = [
        IMPORT,
        f"SET TRANSACTION SNAPSHOT {DIALECT.literal(snapshot.id)}",
        *(f"SET LOCAL {k} = {DIALECT.literal(v)}" for k, v in SESSION_SETTINGS.items()),
        *snapshot.guard,
    ]
    always = {**_LIMITING, **_WHOLE}
    session = [f"SET {k} = {DIALECT.literal(v)}" for k, v in always.items()]
    return {
        **jdbc_connection(access),
        "dbtable": f"({sql}) AS source_rows",
        "connectionProvider": "sluice",
        # also for the connection that only asks for the columns of the statement
        "sluiceSession": "; ".join([*session, UNLIMITED, *OPERATORS]),
        "sessionInitStatement": "; ".join(first),
    }


def jdbc_connection(access: SourceAccess) -> dict[str, str]:
    """How JDBC connects, whatever it then reads: `url`, `driver`, its properties."""
    source = access.spec
    host = f"[{source.host}]" if ":" in source.host else source.host
    return {
        "url": f"jdbc:postgresql://{host}:{source.port}/{quote(source.database, '')}",
        "driver": "org.postgresql.Driver",
        "user": source.username,
        "password": access.password,
        "sslmode": _ssl_mode(access),
        "ApplicationName": access.application,
        "loginTimeout": str(LIMITS.connect),
        "connectTimeout": str(LIMITS.connect),
        "socketTimeout": str(LIMITS.silent),
        "tcpKeepAlive": "true",
        # more rows at a time as long as they fit; too many bytes at once are an error,
        # where they would else be the end of the driver of all tables
        "adaptiveFetch": "true",
        "maxResultBuffer": str(LIMITS.result_bytes),
        **pinned_to(access, "io.sluice.lake.PinnedSocketFactory"),
        **_trust(access),
    }


def live_session(seconds: int) -> tuple[str, ...]:
    """For a statement of a SQL user, which may take so long there. Functions and
    operators are PostgreSQL's own, and rows are all there or an error."""
    settings = {
        **SESSION_SETTINGS,
        **_WHOLE,
        "search_path": "",
        "lock_timeout": f"{LIMITS.lock}s",
        "statement_timeout": f"{seconds}s",
        "idle_in_transaction_session_timeout": f"{LIMITS.reader_idle}s",
    }
    return (
        *(f"SET {k} = {DIALECT.literal(v)}" for k, v in settings.items()),
        _ENDS_WITH_CLIENT,
    )


def _trust(access: SourceAccess) -> dict[str, str]:
    """By default the driver trusts a file in a user's home directory."""
    if access.spec.tls != "verify":
        return {}
    if access.authorities:
        return {"sslrootcert": access.authorities}
    return {"sslfactory": "org.postgresql.ssl.DefaultJavaSSLFactory"}


def _ssl_mode(access: SourceAccess) -> str:
    return _SSL[access.spec.tls]
