"""How each kind of source wants its SQL: names, literals, casts, comparisons.

Pure. A new kind is one folder beside these and one line in `_DIALECTS`.
"""

from __future__ import annotations

from catalog.sources.registry import family_of
from ingest.sources.dialect import Dialect, Read
from ingest.sources.mariadb.dialect import MariadbDialect
from ingest.sources.postgresql.dialect import PostgresDialect

__all__ = ["Dialect", "Read", "dialect_of"]

_DIALECTS: dict[str, Dialect] = {
    "postgresql": PostgresDialect(),
    "mariadb": MariadbDialect(),
}


def dialect_of(kind: str) -> Dialect:
    """The dialect of a kind of datasource; InvalidRequest `not_yet` otherwise."""
    return _DIALECTS[family_of(kind)]
