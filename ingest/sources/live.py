"""What an engine of SQL needs to read a source's tables by itself, as a load would.

Values only; must not know grants. The engine's part is `SourceTable.java` and its
neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from catalog.schema.limits import LIMITS
from catalog.schema.types import DataType
from catalog.sources.registry import family_of
from ingest.contract.table import ColumnSpec
from ingest.sources.dialects import dialect_of
from ingest.sources.mariadb import connection as mariadb
from ingest.sources.port import SourceAccess
from ingest.sources.postgresql import connection as postgresql

_URL, _DRIVER = "url", "driver"


@dataclass(frozen=True, slots=True)
class _Kind:
    """seconds: a statement may take so long at the source, on PostgreSQL until its next
    rows, on MariaDB until its last row is taken. end: of a client that is gone."""

    connection: Callable[[SourceAccess], dict[str, str]]
    session: Callable[[int], tuple[str, ...]]
    seconds: int
    more: dict[str, str]
    end: Callable[[SourceAccess], None]


_KINDS = {
    "postgresql": _Kind(
        postgresql.jdbc_connection,
        postgresql.live_session,
        # the server says so itself, before its silent socket is taken for dead
        LIMITS.statement,
        # constants get the type that their casts name
        {"stringtype": "unspecified"},
        # it looks for its client by itself
        lambda access: None,
    ),
    "mariadb": _Kind(
        mariadb.jdbc_connection,
        mariadb.live_session,
        3_600,
        {},
        mariadb.cancel_statements,
    ),
}


def described_columns(
    kind: str, columns: Sequence[tuple[ColumnSpec, bool]]
) -> list[dict[str, object]]:
    """Each column, and whether it may be NULL, as the engine reads and compares it."""
    dialect = dialect_of(kind)
    found: list[dict[str, object]] = []
    for column, is_nullable in columns:
        DataType.parse(column.type)
        read, compared = dialect.read(column), dialect.compared(column)
        found.append(
            {
                "name": column.name,
                "type": column.type,
                "nullable": is_nullable,
                "stored": dialect.name(column.source_name),
                "read": read.expression,
                "fits": read.fits,
                "compared": [list(pair) for pair in compared.pairs],
                "ordered": compared.is_ordered,
            }
        )
    return found


def described_access(access: SourceAccess, *, connections: int) -> dict[str, object]:
    """How the engine reaches the source, with its password: for a channel that nobody
    else reads. connections: that all statements may have there at once."""
    of_kind = _KINDS[family_of(access.spec.kind)]
    options = of_kind.connection(access) | of_kind.more
    url, driver = options.pop(_URL), options.pop(_DRIVER)
    return {
        "url": url,
        "driver": driver,
        "properties": options,
        "session": list(of_kind.session(of_kind.seconds)),
        "connections": connections,
    }


def end_statements(access: SourceAccess) -> None:
    """Those with the mark that `access.application` is, of a client that is gone."""
    _KINDS[family_of(access.spec.kind)].end(access)


def relation(kind: str, schema: str, table: str) -> str:
    """The table's name in the source's SQL."""
    return dialect_of(kind).qualified(schema, table)
