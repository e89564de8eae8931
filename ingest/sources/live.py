"""What an engine of SQL needs to read a source's tables by itself, as a load would.

Values only; must not know grants. The engine's part is `SourceTable.java` and its
neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence

from catalog.schema.types import DataType
from ingest.contract.table import ColumnSpec
from ingest.sources.connections import connections_of
from ingest.sources.dialects import dialect_of
from ingest.sources.port import SourceAccess

_URL, _DRIVER = "url", "driver"


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
    here = connections_of(access)
    options = {**here.jdbc_connection(access), **here.LIVE_PROPERTIES}
    url, driver = options.pop(_URL), options.pop(_DRIVER)
    return {
        "url": url,
        "driver": driver,
        "properties": options,
        "session": list(here.live_session(here.LIVE_SECONDS)),
        "connections": connections,
    }


def relation(kind: str, schema: str, table: str) -> str:
    """The table's name in the source's SQL."""
    return dialect_of(kind).qualified(schema, table)
