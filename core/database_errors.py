"""Telling a database that ended one statement from one that is away."""

from __future__ import annotations

from django.db import OperationalError

# SQLSTATEs of a server that is there: the statement took too long, waited too long for
# a lock, or two transactions waited for each other.
_ENDED = frozenset({"57014", "55P03", "40P01"})


def is_of_one_statement(error: OperationalError) -> bool:
    """Whether the next statement may go well, so that others need not wait."""
    return getattr(error.__cause__, "sqlstate", None) in _ENDED
