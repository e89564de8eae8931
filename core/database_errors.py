"""Telling a database that is away from one that refused or ended one statement."""

from __future__ import annotations

from django.db import (
    DatabaseError,
    InterfaceError,
    InternalError,
    OperationalError,
)

# SQLSTATEs, or the two characters of their class, of a server that is there: it rolled
# one transaction back, a value is beyond a limit, a lock was not free, the statement
# took too long.
_OF_ONE = frozenset({"40", "54", "55", "57014"})
_READ_ONLY = "25006"


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
