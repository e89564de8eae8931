"""Each kind of failure has a turn, a code and words."""

from __future__ import annotations

import psycopg
import pytest

from core.errors import (
    AccessDenied,
    InvalidRequest,
    SluiceError,
    StaleState,
    TerminalError,
    TransientError,
)
from ingest.spark.failures import failure_of
from ingest.spark.jdbc import fetch_rows


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (TransientError("x"), "transient"),
        (StaleState("x"), "transient"),
        (InvalidRequest("x"), "caller"),
        (AccessDenied("x"), "caller"),
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
        ("28P01", "caller", "source_login_failed"),
        ("3D000", "caller", "source_database_missing"),
        ("42P01", "caller", "source_table_missing"),
        ("42703", "caller", "source_changed"),
        ("42501", "caller", "source_privilege_missing"),
        ("42704", "transient", "source_snapshot_lost"),
        ("22023", "transient", "source_snapshot_lost"),
        ("22003", "terminal", "source_value_refused"),
        ("57P01", "transient", "source_unreachable"),
        ("53300", "transient", "source_exhausted"),
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
        ('FATAL:  password authentication failed for user "x"', "source_login_failed"),
        ('FATAL:  role "x" does not exist', "source_login_failed"),
        ('FATAL:  no pg_hba.conf entry for host "::1"', "source_login_failed"),
        ('FATAL:  database "x" does not exist', "source_database_missing"),
        ("Connection refused", "source_unreachable"),
    ],
)
def test_a_refused_login_is_known_by_its_words(words: str, code: str) -> None:
    error = psycopg.OperationalError(f"connection failed: {words}")
    assert failure_of(error).error.code == code


def test_words_and_hint_of_our_own_errors_are_kept() -> None:
    error: SluiceError = TransientError("full", code="staging_full", hint="free space")
    fact = failure_of(error).error
    assert (fact.code, fact.message, fact.hint) == (
        "staging_full",
        "full",
        "free space",
    )


@pytest.mark.parametrize(
    ("row_bytes", "rows"), [(0, 10_000), (100, 10_000), (1 << 20, 20), (16_384, 1024)]
)
def test_wide_rows_are_fetched_a_few_at_a_time(row_bytes: int, rows: int) -> None:
    assert fetch_rows(row_bytes) == rows
