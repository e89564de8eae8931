"""Which errors keep others from their turn, and which belong to one of them."""

from __future__ import annotations

import contextlib

import psycopg
import pytest
from django.db import (
    DatabaseError,
    DataError,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
)
from psycopg import errors

from core import database_errors
from core.database_errors import is_away
from core.errors import TransientError

AWAY: list[tuple[type[Exception], type[Exception] | None]] = [
    (OperationalError, None),
    (OperationalError, errors.AdminShutdown),
    (OperationalError, errors.CannotConnectNow),
    (OperationalError, errors.ConnectionFailure),
    (OperationalError, errors.DiskFull),
    (OperationalError, errors.TooManyConnections),
    (InterfaceError, None),
    (InternalError, errors.ReadOnlySqlTransaction),
    (DatabaseError, None),
]
OF_ONE: list[tuple[type[Exception], type[Exception] | None]] = [
    (OperationalError, errors.QueryCanceled),
    (OperationalError, errors.LockNotAvailable),
    (OperationalError, errors.DeadlockDetected),
    (OperationalError, errors.SerializationFailure),
    (OperationalError, errors.ProgramLimitExceeded),
    (DataError, None),
    (DataError, errors.NumericValueOutOfRange),
    (IntegrityError, errors.UniqueViolation),
    (ProgrammingError, errors.UndefinedColumn),
    (InternalError, errors.DataCorrupted),
    (NotSupportedError, errors.FeatureNotSupported),
    (TransientError, None),
    (KeyError, None),
]


def caused(error: type[Exception], cause: type[Exception] | None) -> Exception:
    found = error("x")
    found.__cause__ = cause("x") if cause else None
    return found


@pytest.mark.parametrize(("error", "cause"), AWAY)
def test_the_database_is_away(
    error: type[Exception], cause: type[Exception] | None
) -> None:
    assert is_away(caused(error, cause))


@pytest.mark.parametrize(("error", "cause"), OF_ONE)
def test_the_next_one_may_go_well(
    error: type[Exception], cause: type[Exception] | None
) -> None:
    assert not is_away(caused(error, cause))


@pytest.mark.parametrize(
    ("ended", "times", "done"),
    [
        (errors.DeadlockDetected, 2, True),
        (errors.DeadlockDetected, 3, False),
        (errors.LockNotAvailable, 1, False),
    ],
)
def test_what_a_deadlock_rolled_back_is_done_again(
    monkeypatch: pytest.MonkeyPatch,
    ended: type[psycopg.Error],
    times: int,
    done: bool,
) -> None:
    monkeypatch.setattr(database_errors.transaction, "atomic", contextlib.nullcontext)
    left = [ended("ended")] * times

    @database_errors.repeat_after_deadlock
    def work(text: str) -> str:
        if left:
            error = left.pop()
            raise OperationalError(str(error)) from error
        return text

    if done:
        assert work("done") == "done"
    else:
        with pytest.raises(OperationalError):
            work("done")
