"""Telling a database that is away from one that refused or ended one statement, and
doing once more what it ended for a deadlock."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from django.db import (
    DatabaseError,
    InterfaceError,
    InternalError,
    OperationalError,
    transaction,
)

P = ParamSpec("P")
T = TypeVar("T")

# SQLSTATEs, or the two characters of their class, of a server that is there: it rolled
# one transaction back, a value is beyond a limit, a lock was not free, the statement
# took too long.
_OF_ONE = frozenset({"40", "54", "55", "57014"})
_READ_ONLY = "25006"
_DEADLOCK = "40P01"
_TRIES = 3


def is_away(error: BaseException) -> bool:
    """Return whether what follows would fail alike, so that it has to wait.

    A database error that nobody classified counts as away: psycopg has no other one for
    a result without SQLSTATE, as of a connection that broke.
    """
    sqlstate = getattr(error.__cause__, "sqlstate", None) or ""
    match error:
        case InterfaceError():
            return True
        case OperationalError():
            return not {sqlstate, sqlstate[:2]} & _OF_ONE
        case InternalError():
            return sqlstate == _READ_ONLY
        case _:
            return type(error) is DatabaseError


def repeat_after_deadlock(work: Callable[P, T]) -> Callable[P, T]:
    """Make `work` a transaction that is tried again when the database rolls it back for
    a deadlock. Requests lock a table's row and then its jobs, ends of jobs the other
    way round; neither knows beforehand what it will need."""

    @wraps(work)
    def repeated(*args: P.args, **kwargs: P.kwargs) -> T:
        for _ in range(_TRIES - 1):
            try:
                with transaction.atomic():
                    return work(*args, **kwargs)
            except OperationalError as error:
                if getattr(error.__cause__, "sqlstate", None) != _DEADLOCK:
                    raise
        with transaction.atomic():
            return work(*args, **kwargs)

    return repeated
