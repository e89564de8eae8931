"""The connection test: one step after the other, each with its result in words.

The first failed step ends it and the rest are skipped; what is reported is enough to
act on. Connects only to addresses that the network policy allowed.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import psycopg
from psycopg import sql

from catalog.discovery import needs, postgresql_sql
from catalog.discovery.access import SourceAccess, resolved
from catalog.discovery.connection import Link, ca_file, connect, transaction
from catalog.discovery.errors import source_error
from core.errors import SluiceError, TerminalError

OLDEST_VERSION = 120_000
_SSL_REQUEST = struct.pack("!II", 8, 80_877_103)

Status = Literal["ok", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class Step:
    """One step's outcome. `hint` on an ok step is advice; `raw` the source's words."""

    name: str
    status: Status
    message: str
    hint: str = ""
    code: str = ""
    raw: str = ""
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a step says when it went well. `is_skipped`: there was nothing to do."""

    message: str
    hint: str = ""
    is_skipped: bool = False


@dataclass(slots=True)
class _Probe:
    """What earlier steps found out for later ones."""

    access: SourceAccess
    stack: contextlib.ExitStack
    addresses: tuple[str, ...] = ()
    socket: socket.socket | None = None
    link: Link | None = None
    readable: tuple[str, str] | None = None
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def connection(self) -> Link:
        if self.link is None:
            raise RuntimeError("this step needs the login step before it")
        return self.link


@dataclass(frozen=True, slots=True)
class Report:
    """All steps, and facts worth keeping (server version, privileges)."""

    steps: tuple[Step, ...]
    facts: dict[str, Any]

    @property
    def is_ok(self) -> bool:
        return all(step.status != "failed" for step in self.steps)

    @property
    def failed(self) -> Step | None:
        return next((step for step in self.steps if step.status == "failed"), None)

    def as_json(self) -> dict[str, Any]:
        return {
            "ok": self.is_ok,
            "steps": [step.as_json() for step in self.steps],
            "facts": self.facts,
        }


def run_probe(
    access: SourceAccess, *, on_step: Callable[[Step], None] = lambda _: None
) -> Report:
    """Try all steps; `on_step` hears each outcome as it comes."""
    steps: list[Step] = []
    with contextlib.ExitStack() as stack:
        probe = _Probe(access, stack)
        for name, action in STEPS:
            is_over = any(step.status == "failed" for step in steps)
            step = _skipped(name) if is_over else _tried(name, action, probe)
            steps.append(step)
            on_step(step)
        return Report(tuple(steps), probe.facts)


def _tried(name: str, action: Callable[[_Probe], Outcome], probe: _Probe) -> Step:
    started = time.monotonic()
    try:
        outcome = action(probe)
    except (SluiceError, psycopg.Error, OSError) as cause:
        error = source_error(cause, probe.access)
        return Step(
            name,
            "failed",
            error.message,
            hint=error.hint,
            code=error.code,
            raw=str(error.facts.get("raw", "")),
            seconds=round(time.monotonic() - started, 3),
        )
    status: Status = "skipped" if outcome.is_skipped else "ok"
    seconds = round(time.monotonic() - started, 3)
    return Step(name, status, outcome.message, hint=outcome.hint, seconds=seconds)


def _skipped(name: str) -> Step:
    return Step(name, "skipped", "not tried, because an earlier step failed")


def _resolve(probe: _Probe) -> Outcome:
    probe.addresses = resolved(probe.access)
    return Outcome(f"{probe.access.host} is {', '.join(probe.addresses)}")


def _tcp(probe: _Probe) -> Outcome:
    """The first address that accepts is the one all later steps use."""
    failure: OSError = OSError("no address")
    for address in probe.addresses:
        try:
            connection = socket.create_connection(
                (address, probe.access.port), timeout=probe.access.connect_timeout
            )
        except OSError as error:
            failure = error
            continue
        probe.socket = probe.stack.enter_context(contextlib.closing(connection))
        probe.addresses = (address,)
        return Outcome(f"{address}:{probe.access.port} accepts connections")
    raise failure


def _tls(probe: _Probe) -> Outcome:
    if probe.access.tls == "off" or probe.socket is None:
        hint = "set tls to 'verify' unless the network in between is trusted"
        return Outcome("TLS is switched off for this datasource", hint, is_skipped=True)
    with probe.socket as plain:
        plain.settimeout(probe.access.connect_timeout)
        plain.sendall(_SSL_REQUEST)
        answer = plain.recv(1)
        if answer == b"N":
            raise psycopg.OperationalError("server does not support SSL")
        if answer != b"S":
            raise psycopg.OperationalError("invalid response to SSL negotiation")
        context = _tls_context(probe.access.tls)
        name = probe.access.host
        with context.wrap_socket(plain, server_hostname=name) as secured:
            version = secured.version()
    checked = "checked" if probe.access.tls == "verify" else "not checked"
    return Outcome(f"{version}, certificate {checked}")


def _tls_context(tls: str) -> ssl.SSLContext:
    if tls == "verify":
        return ssl.create_default_context(cafile=ca_file())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _login(probe: _Probe) -> Outcome:
    link = connect(probe.access, probe.addresses)
    probe.link = probe.stack.enter_context(contextlib.closing(link))
    return Outcome(
        f"user '{probe.access.username}' is in database '{probe.access.database}'"
    )


def _version(probe: _Probe) -> Outcome:
    with transaction(probe.connection, probe.access) as link:
        (number, text, is_standby) = _one(link, _VERSION)
    probe.facts |= {"server_version": text, "is_standby": is_standby}
    if number < OLDEST_VERSION:
        raise TerminalError(
            f"PostgreSQL {text} is too old",
            code="version_too_old",
            hint="Sluice reads PostgreSQL 12 and later",
        )
    role = ", a standby" if is_standby else ""
    return Outcome(f"PostgreSQL {text}{role}")


def _privileges(probe: _Probe) -> Outcome:
    access = probe.access
    names = {"include": list(access.include), "exclude": list(access.exclude)}
    with transaction(probe.connection, access) as link:
        schemas = [row[0] for row in link.execute(postgresql_sql.DATABASES, names)]
        total, readable, sees_all, schema, table = _one(link, _READABLE, names)
    probe.facts |= {
        "tables": total,
        "readable_tables": readable,
        "sees_all_transactions": sees_all,
    }
    probe.readable = (schema, table) if schema is not None else None
    wanted = needs.statements_for(access.username, access.database, schemas)
    if total and not readable:
        raise TerminalError(
            f"user '{access.username}' may read none of {total} tables",
            code="missing_privilege",
            hint="run at the source: " + " ".join(wanted),
        )
    hints = []
    if readable < total:
        hints.append(f"{total - readable} tables stay unreadable without more grants")
    if not sees_all:
        hints.append(
            "timestamp capture cannot see open transactions of other users: "
            + needs.stats_grant(access.username)
        )
    return Outcome(f"{readable} of {total} tables can be read", "; ".join(hints))


def _sample(probe: _Probe) -> Outcome:
    if probe.readable is None:
        return Outcome("there is no table to read yet", is_skipped=True)
    name = sql.Identifier(*probe.readable)
    query = sql.SQL("SELECT count(*) FROM (SELECT 1 FROM {} LIMIT 1) AS sample")
    with transaction(probe.connection, probe.access) as link:
        found = _one(link, query.format(name))[0]
    shown = ".".join(probe.readable)
    return Outcome(f"{shown} was read" + ("" if found else ", it is empty"))


STEPS: tuple[tuple[str, Callable[[_Probe], Outcome]], ...] = (
    ("resolve", _resolve),
    ("tcp", _tcp),
    ("tls", _tls),
    ("login", _login),
    ("version", _version),
    ("privileges", _privileges),
    ("sample", _sample),
)

_VERSION = """
SELECT current_setting('server_version_num')::int, current_setting('server_version'),
       pg_is_in_recovery()
"""
_READABLE = f"""
WITH visible AS (
    SELECT n.nspname, c.relname, c.relkind,
           coalesce(has_schema_privilege(n.oid, 'USAGE')
                    AND has_table_privilege(c.oid, 'SELECT'), false) AS is_readable
    {postgresql_sql.TABLES}
)
SELECT count(*), count(*) FILTER (WHERE is_readable),
       pg_has_role(current_user, 'pg_read_all_stats', 'USAGE'),
       (array_agg(nspname::text) FILTER (WHERE is_readable AND relkind = 'r'))[1],
       (array_agg(relname::text) FILTER (WHERE is_readable AND relkind = 'r'))[1]
FROM visible
"""


def _one(
    link: Link, query: str | sql.Composed, values: dict[str, Any] | None = None
) -> tuple[Any, ...]:
    row = link.execute(query, values).fetchone()
    if row is None:
        raise psycopg.OperationalError("the source gave no row")
    return row
