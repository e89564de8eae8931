"""Words of servers, drivers and sockets → code, class of recovery, next step."""

from __future__ import annotations

import pathlib
import ssl
from dataclasses import replace

import psycopg
import pymysql
import pytest
from psycopg import errors as pg

from catalog.sources.access import SourceAccess
from catalog.sources.mariadb.errors import source_error as mariadb_error
from catalog.sources.postgresql.errors import source_error
from core.errors import InvalidRequest, TerminalError, TransientError
from core.redaction import remember_secret

ACCESS = SourceAccess(
    "db.example", 5432, "shop", "ann", "a-long-password", kind="postgresql"
)
AT = 'connection failed: connection to server at "10.0.0.1", port 5432 failed: '


def lost(text: str) -> psycopg.Error:
    return psycopg.OperationalError(AT + text)


CASES = [
    (lost('FATAL:  password authentication failed for user "ann"'), "wrong_password", TerminalError),
    (lost("fe_sendauth: no password supplied"), "wrong_password", TerminalError),
    (lost('FATAL:  role "ann" does not exist'), "wrong_password", TerminalError),
    (lost('FATAL:  no pg_hba.conf entry for host "10.0.0.9", user "ann", database "shop", no encryption'), "login_not_allowed", TerminalError),
    (lost('FATAL:  role "ann" is not permitted to log in'), "login_not_allowed", TerminalError),
    (lost('FATAL:  database "shop" does not exist'), "database_missing", TerminalError),
    (lost("FATAL:  sorry, too many clients already"), "too_many_connections", TransientError),
    (lost("FATAL:  remaining connection slots are reserved for roles with the SUPERUSER attribute"), "too_many_connections", TransientError),
    (lost('FATAL:  too many connections for role "ann"'), "too_many_connections", TransientError),
    (lost("FATAL:  the database system is starting up"), "source_starting", TransientError),
    (lost('FATAL:  permission denied for database "shop"'), "missing_privilege", TerminalError),
    (lost("server does not support SSL, but SSL was required"), "tls_not_offered", TerminalError),
    (lost("SSL error: certificate verify failed"), "tls_certificate", TerminalError),
    (lost('root certificate file "system" does not exist'), "tls_certificate", TerminalError),
    (ssl.SSLCertVerificationError("certificate verify failed: certificate has expired"), "tls_certificate", TerminalError),
    (ssl.SSLError("[SSL: WRONG_VERSION_NUMBER] wrong version number"), "not_postgresql", TerminalError),
    (lost("Connection refused"), "connection_refused", TransientError),
    (ConnectionRefusedError(111, "Connection refused"), "connection_refused", TransientError),
    (TimeoutError("timed out"), "source_timeout", TransientError),
    (psycopg.errors.ConnectionTimeout("connection timeout expired"), "source_timeout", TransientError),
    (OSError(113, "No route to host"), "unreachable", TransientError),
    (OSError(101, "Network is unreachable"), "unreachable", TransientError),
    (ConnectionResetError(104, "Connection reset by peer"), "connection_lost", TransientError),
    (psycopg.OperationalError("consuming input failed: server closed the connection unexpectedly"), "connection_lost", TransientError),
    (psycopg.OperationalError("the connection is lost"), "connection_lost", TransientError),
    (pg.AdminShutdown("terminating connection due to administrator command"), "connection_lost", TransientError),
    (pg.QueryCanceled("canceling statement due to statement timeout"), "source_timeout", TransientError),
    (pg.LockNotAvailable("canceling statement due to lock timeout"), "source_locked", TransientError),
    (pg.InsufficientPrivilege("Zugriff verweigert"), "missing_privilege", TerminalError),
    (pg.UndefinedTable('relation "x" does not exist'), "source_error", TerminalError),
    (psycopg.OperationalError("etwas ganz anderes"), "source_error", TransientError),
    (OSError("something"), "source_error", TransientError),
]  # fmt: skip


@pytest.mark.parametrize(("error", "code", "kind"), CASES, ids=lambda v: str(v)[-50:])
def test_each_error_has_its_code_and_way_to_recovery(error, code, kind) -> None:
    found = source_error(error, ACCESS)
    assert found.code == code
    assert type(found) is kind
    assert found.hint
    assert "{" not in found.message + found.hint
    assert found.facts["raw"]


@pytest.mark.parametrize("tls", ["off", "require"])
def test_a_refused_login_tells_of_the_anonymous_user_that_is_taken_first(tls) -> None:
    words = "Access denied for user 'ann'@'localhost' (using password: YES)"
    access = replace(ACCESS, kind="mariadb", tls=tls)
    found = mariadb_error(pymysql.OperationalError(1045, words), access)
    assert found.code == "wrong_password"
    assert found.facts["raw"] == words
    assert "DROP USER ''@'localhost'" in found.hint
    assert "create 'ann'@'localhost'" in found.hint
    assert ("REQUIRE SSL" in found.hint) is (tls == "off")


def test_an_error_of_our_own_stays_as_it_is() -> None:
    mine = InvalidRequest("denied", code="network_denied")
    assert source_error(mine, ACCESS) is mine


def test_the_password_is_never_in_what_is_shown() -> None:
    remember_secret("a-long-password")
    found = source_error(lost("password=a-long-password a-long-password"), ACCESS)
    assert "a-long-password" not in f"{found}{found.facts}{ACCESS!r}"


def test_no_module_of_discovery_takes_a_url_or_runs_a_shell() -> None:
    folder = pathlib.Path(source_error.__code__.co_filename).parent
    text = "".join(path.read_text() for path in folder.glob("*.py"))
    assert "subprocess" not in text
    assert "conninfo" not in text
