"""How each kind of source wants its SQL: names, literals, casts, comparisons.

Pure. A new kind is one module beside these and one line in `_DIALECTS`.
"""

from __future__ import annotations

from core.errors import InvalidRequest
from ingest.changes.dialects.mariadb import MariadbDialect
from ingest.changes.dialects.port import Dialect, Read
from ingest.changes.dialects.postgresql import PostgresDialect

__all__ = ["Dialect", "Read", "dialect_of"]

_MARIADB = MariadbDialect()
_DIALECTS: dict[str, Dialect] = {
    "postgresql": PostgresDialect(),
    "mariadb": _MARIADB,
    "mysql": _MARIADB,
}


def dialect_of(kind: str) -> Dialect:
    """The dialect of a kind of datasource; InvalidRequest `not_yet` otherwise."""
    found = _DIALECTS.get(kind)
    if found is None:
        raise InvalidRequest(
            f"sources of kind '{kind}' cannot be read yet", code="not_yet"
        )
    return found
