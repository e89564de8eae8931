"""Each kind of failure has a turn, a code and words."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import psycopg
import pymysql
import pytest
from py4j.protocol import Py4JError, Py4JJavaError

from core.errors import (
    AccessDenied,
    InvalidRequest,
    SluiceError,
    StaleState,
    TerminalError,
    TransientError,
)
from ingest.contract.job import CONNECTIONS_USED_UP, ErrorFact, error_from
from ingest.contract.members import as_data, value_of
from ingest.contract.table import SourceSpec
from ingest.driver import jvm
from ingest.driver.capture.jdbc import NARROWINGS, Fetch, fetch_rows
from ingest.driver.jvm import breaks_jvm, failure_of
from ingest.sources.failures import source_failure
from ingest.sources.mariadb import connection as mariadb
from ingest.sources.port import SourceAccess, Widths
from ingest.sources.postgresql import connection as postgresql
from ingest.sources.registry import SOURCE_ERRORS

CONNECT: dict[str, Callable[[SourceAccess], Any]] = {
    "postgresql": postgresql.connect,
    "mariadb": mariadb.connect,
}


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (TransientError("x"), "transient"),
        (StaleState("x"), "transient"),
        (InvalidRequest("x"), "invalid_request"),
        (AccessDenied("x"), "invalid_request"),
        (TerminalError("x"), "terminal"),
        (ValueError("x"), "terminal"),
        (OSError(5, "x"), "transient"),
    ],
)
def test_the_class_says_whose_turn_it_is(error: Exception, outcome: str) -> None:
    assert failure_of(error).outcome == outcome


@pytest.mark.parametrize(
    ("state", "outcome", "code"),
    [
        ("28P01", "invalid_request", "wrong_password"),
        ("28000", "invalid_request", "login_not_allowed"),
        ("3D000", "invalid_request", "database_missing"),
        ("42P01", "invalid_request", "source_table_missing"),
        ("42703", "invalid_request", "source_changed"),
        ("42501", "invalid_request", "source_privilege_missing"),
        ("42704", "transient", "source_snapshot_lost"),
        ("22023", "transient", "source_snapshot_lost"),
        ("22003", "terminal", "source_value_refused"),
        ("57P01", "transient", "source_ended_session"),
        ("55P03", "transient", "source_locked"),
        ("53300", "transient", "source_connections_used_up"),
        ("53200", "transient", "source_exhausted"),
        ("57P03", "transient", "source_starting"),
        ("22021", "terminal", "source_text_refused"),
        ("57P05", "transient", "source_ended_session"),
        ("25P03", "transient", "source_ended_session"),
        ("25P04", "transient", "source_ended_session"),
    ],
)
def test_states_of_the_source(state: str, outcome: str, code: str) -> None:
    error = psycopg.errors.lookup(state)("it said so")
    failure = failure_of(error)
    assert (failure.outcome, failure.error.code) == (outcome, code)
    assert "it said so" in failure.error.message


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ('FATAL:  password authentication failed for user "x"', "wrong_password"),
        ("fe_sendauth: no password supplied", "wrong_password"),
        ('FATAL:  role "x" does not exist', "wrong_password"),
        ('FATAL:  no pg_hba.conf entry for host "::1"', "login_not_allowed"),
        ('FATAL:  database "x" does not exist', "database_missing"),
        ("Connection refused", "source_unreachable"),
        ('FATAL:  permission denied for database "x"', "source_not_let_in"),
        ('FATAL:  too many connections for role "x"', CONNECTIONS_USED_UP),
        ('FATAL:  too many connections for database "x"', CONNECTIONS_USED_UP),
        ("FATAL:  sorry, too many clients already", CONNECTIONS_USED_UP),
        (
            "FATAL:  remaining connection slots are reserved for roles with the"
            " SUPERUSER attribute",
            CONNECTIONS_USED_UP,
        ),
        ("FATAL:  the database system is starting up", "source_starting"),
    ],
)
def test_a_refused_login_is_known_by_its_words(words: str, code: str) -> None:
    error = psycopg.OperationalError(f"connection failed: {words}")
    assert failure_of(error).error.code == code


@pytest.mark.parametrize(
    ("number", "code"),
    [(1045, "wrong_password"), (1698, "wrong_password"), (1130, "login_not_allowed")],
)
def test_a_refused_login_is_named_as_a_test_of_the_connection_names_it(
    number: int, code: str
) -> None:
    error = pymysql.OperationalError(number, "Access denied for user 'x'@'y'")
    assert failure_of(error).error.code == code
    said = "[SQLSTATE 28000] Access denied for user 'x'@'y' (using password: YES)"
    assert source_failure("28000", said).error.code == "wrong_password"


@pytest.mark.parametrize("number", [1040, 1203, 1226])
def test_a_server_without_a_free_connection_is_known(number: int) -> None:
    error = pymysql.OperationalError(number, "User 'x' has exceeded the resource")
    assert failure_of(error).error.code == CONNECTIONS_USED_UP


@pytest.mark.parametrize(
    "error",
    [
        TypeError("argument of type 'NoneType' is not iterable"),
        KeyError("NoneType secret"),
        AssertionError("NoneType"),
    ],
)
def test_words_of_our_own_defects_are_no_reason(error: Exception) -> None:
    fact = failure_of(error).error
    assert fact.code == "defect"
    shown = f"{fact.message} {fact.hint}"
    assert "NoneType" not in shown
    assert type(error).__name__ not in shown


def test_words_of_javas_defects_are_no_reason() -> None:
    thrown = (
        "java.lang.NullPointerException: Cannot invoke compareTo(Object)",
        "org.apache.hudi.exception.HoodieException: File /x/y does not exist",
    )
    for words in thrown:
        fact = jvm._java_failure(RuntimeError(), words).error
        assert fact.code == "spark_failed"
        assert words.partition(":")[2] not in fact.message


def test_words_and_hint_of_our_own_errors_are_kept() -> None:
    error: SluiceError = TransientError("full", code="staging_full", hint="free space")
    fact = failure_of(error).error
    assert (fact.code, fact.message, fact.hint) == (
        "staging_full",
        "full",
        "free space",
    )


@pytest.mark.parametrize(
    ("widths", "first", "most"),
    [
        (Widths(), 500, 10_000),
        (Widths(100), 500, 10_000),
        (Widths(1 << 20), 16, 16),
        (Widths(1 << 30), 1, 1),
        (Widths(16_384), 500, 1_024),
        # 4 MiB among small ones: no batch is more than the buffer
        (Widths(100, 4 << 20), 16, 16),
        (Widths(0, 1 << 30), 1, 1),
    ],
)
def test_wide_rows_are_fetched_a_few_at_a_time(
    widths: Widths, first: int, most: int
) -> None:
    assert fetch_rows(widths) == Fetch(first, most)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ('invalid input syntax for type integer: "sluice.rewritten 16385"', "source_rewritten"),
        ("Table definition has changed, please retry transaction", "source_rewritten"),
        ("canceling statement due to lock timeout", "source_locked"),
        ("Lock wait timeout exceeded; try restarting transaction", "source_locked"),
        ("canceling statement due to statement timeout", "source_slow"),
        ("Result set exceeded maxResultBuffer limit. Received:  67108900", "source_rows_wide"),
    ],
)  # fmt: skip
def test_what_is_worth_another_try_has_a_code(words: str, code: str) -> None:
    for error in (psycopg.OperationalError(words), pymysql.OperationalError(0, words)):
        failure = failure_of(error)
        assert (failure.outcome, failure.error.code) == ("transient", code)


FULL_PG = 'could not write to file "base/pgsql_tmp/t1.0": No space left on device'
FULL_MARIADB = (
    """Error writing file '/tmp/MYfd=1' (Errcode: 28 "No space left on device")"""
)


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_a_closed_port_of_the_source_is_no_failure_of_a_file(kind: str) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # and does not listen
        spec = SourceSpec(1, kind, *closed.getsockname(), "shop", "ann", "datasource:1")
        with pytest.raises(SOURCE_ERRORS) as refused:
            CONNECT[kind](SourceAccess(spec, "secret", "sluice:test"))
    found = failure_of(refused.value)
    assert (found.outcome, found.error.code) == ("transient", "source_unreachable")
    assert "Connection refused" in found.error.message


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (psycopg.errors.DiskFull(FULL_PG), "source_full"),
        (pymysql.OperationalError(3, FULL_MARIADB), "source_full"),
        (OSError(28, "No space left on device", "/lake/x"), "storage_full"),
    ],
)
def test_a_full_disk_is_told_by_whose_it_is(error: Exception, code: str) -> None:
    failure = failure_of(error)
    assert (failure.outcome, failure.error.code) == ("transient", code)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (f"Lost task 0.0: org.postgresql.util.PSQLException: ERROR: {FULL_PG}", "source_full"),
        (f"[SQLSTATE 53100] ERROR: {FULL_PG}", "source_full"),
        (f"[SQLSTATE HY000] (conn=3) {FULL_MARIADB}", "source_full"),
        ("Lost task 0.0: java.io.IOException: No space left on device", "storage_full"),
    ],
)  # fmt: skip
def test_a_full_disk_is_told_by_who_says_it_in_spark(words: str, code: str) -> None:
    assert jvm._java_failure(RuntimeError(), words).error.code == code


def test_rows_that_were_too_wide_are_asked_for_by_ever_fewer() -> None:
    tries = [fetch_rows(Widths(1_000), n).first for n in range(NARROWINGS + 1)]
    assert tries == [500, 31, 1]


class Thrown:
    """A Java exception as py4j shows one."""

    def __init__(self, words: str, cause: Thrown | None = None) -> None:
        self._words = words
        self._cause = cause

    def toString(self) -> str:
        return self._words

    getMessage = toString

    def getCause(self) -> Thrown | None:
        return self._cause


FULL = "Exception java.lang.VirtualMachineError: Out of space in CodeCache for adapters"


@pytest.mark.parametrize(
    ("thrown", "is_broken"),
    [
        (
            Thrown("java.lang.VirtualMachineError: Out of space in CodeCache for it"),
            True,
        ),
        (
            Thrown(
                "java.lang.NoClassDefFoundError: Could not initialize class a.B",
                Thrown(f"java.lang.ExceptionInInitializerError: {FULL}"),
            ),
            True,
        ),
        (Thrown(f"org.postgresql.util.PSQLException: {FULL}"), False),
        # a deep plan is its statement's own fault, and a missing class stays missing
        (Thrown("java.lang.StackOverflowError"), False),
        (Thrown("java.lang.NoClassDefFoundError: a/B"), False),
        (None, False),
    ],
)
def test_what_the_jvm_does_not_survive(thrown: Thrown | None, is_broken: bool) -> None:
    error = Py4JJavaError.__new__(Py4JJavaError)
    error.java_exception = thrown
    assert breaks_jvm(error) is is_broken


class Unreachable(Thrown):
    """One that is asked over a connection which has just broken."""

    def toString(self) -> str:
        raise Py4JError("An error occurred while calling o1.toString")


@pytest.mark.parametrize(
    ("thrown", "is_broken"),
    [
        (Unreachable(""), False),
        (Thrown("java.lang.NoClassDefFoundError: a.B", Unreachable("")), False),
        (Thrown(f"java.lang.VirtualMachineError: {FULL}", Unreachable("")), True),
    ],
)
def test_what_cannot_be_asked_any_more_raises_nothing(
    thrown: Thrown, is_broken: bool
) -> None:
    """The report of a job is its only way out."""
    error = Py4JJavaError.__new__(Py4JJavaError)
    error.java_exception = thrown
    assert breaks_jvm(error) is is_broken


def test_errors_of_python_break_no_jvm() -> None:
    assert not breaks_jvm(ValueError(FULL))


def test_an_error_keeps_what_its_sentences_were_made_of_on_its_way() -> None:
    fact = source_failure("57P05", "terminating connection").error
    came = value_of(ErrorFact, as_data(fact))
    error = error_from("transient", came)
    assert error.message == "the source reports: terminating connection (57P05)"
    assert error.message.parameters["state"] == "57P05"
    assert error_from("transient", ErrorFact("x", "50 % gone")).message == "50 % gone"
