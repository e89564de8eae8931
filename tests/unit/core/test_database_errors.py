"""Which errors keep others from their turn, and which belong to one of them."""

from __future__ import annotations

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
