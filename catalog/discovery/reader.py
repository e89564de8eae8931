"""The port through which discovery reads a source; one implementation per kind.

Values only: an implementation knows its database, nobody else does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from catalog.schema.types import TableSchema

TableKind = Literal[
    "table", "partitioned table", "view", "materialized view", "foreign table"
]
CARRIED_KINDS = frozenset({"table", "partitioned table"})


@dataclass(frozen=True, slots=True)
class DiscoveredTable:
    """A table as the source's own catalog describes it.

    estimated_bytes   of the rows, without indexes; 0 = unknown
    unique_indexes    column names of each unique index without expressions or
                      conditions, all of its columns not null; the key not repeated
    indexed           columns that lead some index
    is_readable       whether the login may SELECT it
    hides_rows        whether row security gives the login some rows only
    """

    database: str
    name: str
    kind: TableKind
    schema: TableSchema
    comment: str = ""
    estimated_rows: int = 0
    estimated_bytes: int = 0
    unique_indexes: tuple[tuple[str, ...], ...] = ()
    indexed: tuple[str, ...] = ()
    is_readable: bool = True
    hides_rows: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """Some tables in the order of (database, name), and where the next page begins.

    next_after None = there is nothing more.
    """

    tables: tuple[DiscoveredTable, ...]
    next_after: tuple[str, str] | None


@dataclass(frozen=True, slots=True)
class Overview:
    """Asked for once, before the first page."""

    databases: tuple[str, ...]
    tables: int
    sees_all_transactions: bool


class SourceReader(Protocol):
    """One connection to a source; close it by leaving the `with` block."""

    def __enter__(self) -> SourceReader: ...

    def __exit__(self, *exc_info: object) -> None: ...

    def overview(self) -> Overview:
        """Names of all databases (schemas) and how many tables there are."""
        ...

    def page(self, after: tuple[str, str] | None, *, limit: int) -> Page:
        """At most `limit` tables behind `after`; few statements, bounded memory."""
        ...

    def table(self, database: str, name: str) -> DiscoveredTable | None:
        """One table as it is now; None when it is not there."""
        ...
