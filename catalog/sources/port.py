"""The port through which a kind of source is tested and discovered.

Each kind's folder has a module `discoverer` with its `DISCOVERER`. It is imported by
name, when it is needed, because the registry is pure and a client of a database is not.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Literal, Protocol

from catalog.schema.source_log import Lack, TableLog
from catalog.schema.types import TableSchema
from catalog.sources.access import SourceAccess
from catalog.sources.registry import kind_named
from catalog.sources.steps import Steps

TableKind = Literal[
    "table", "partitioned table", "view", "materialized view", "foreign table"
]
# It has children that inherit from it; some of its rows are at another server; it is
# emptied by a crash; it keeps former versions of its rows.
Trait = Literal["children", "foreign", "unlogged", "versioned"]
SYNCED_KINDS = frozenset({"table", "partitioned table"})


@dataclass(frozen=True, slots=True)
class DiscoveredTable:
    """A table as the source's own catalog describes it.

    estimated_bytes   of the rows, without indexes; 0 = unknown
    is_analysed       whether the source ever counted rows; else their number is a guess
    unique_indexes    column names of each unique index without expressions or
                      conditions, all of its columns not null; the key not repeated
    indexed           columns that lead some index
    is_readable       whether the login may SELECT it, or some of its columns
    hidden            columns that it may not SELECT where it may others; not in
                      `schema`
    hidden_key        the primary key where some of its columns are hidden; then no
                      column of `schema` is of a key
    hides_indexes     whether the source shows the login no indexes, and no names of
                      columns that it has no right to
    hides_rows        whether row security gives the login some rows only
    traits            what else decides what a SELECT on it shows
    key_forms         columns of a key → values that are equal there and differ in the
                      lake, by example
    log               None = the log of such a source is not followed
    """

    database: str
    name: str
    kind: TableKind
    schema: TableSchema
    comment: str = ""
    estimated_rows: int = 0
    estimated_bytes: int = 0
    is_analysed: bool = True
    unique_indexes: tuple[tuple[str, ...], ...] = ()
    indexed: tuple[str, ...] = ()
    is_readable: bool = True
    hidden: tuple[str, ...] = ()
    hidden_key: tuple[str, ...] = ()
    hides_indexes: bool = False
    hides_rows: bool = False
    traits: frozenset[Trait] = frozenset()
    key_forms: Mapping[str, str] = field(default_factory=dict)
    log: TableLog | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """Some tables in the order of (database, name), and where the next page begins.

    next_after None = there is nothing more.
    """

    tables: tuple[DiscoveredTable, ...]
    next_after: tuple[str, str] | None


@dataclass(frozen=True, slots=True)
class Overview:
    """Asked for once, before the first page.

    is_standby  whether the server repeats what others commit, as a standby, a replica
                or one of several members of a cluster; None = the login may not ask
    log_lacks   what keeps its log from being followed
    zone_delay  seconds that a wall clock of the server's zone may be away from UTC's,
                so much later rows of a cursor without zone are read; 0 = on UTC
    """

    databases: tuple[str, ...]
    tables: int
    sees_all_transactions: bool
    is_standby: bool | None = False
    log_lacks: tuple[Lack, ...] = ()
    zone_delay: int = 0


def zone_delay(lowest: object, highest: object) -> int:
    """Of the zone's offsets within a year, in seconds; None = it has no name here."""
    return max(0, int(str(highest or 0))) - min(0, int(str(lowest or 0)))


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


@dataclass(frozen=True, slots=True)
class Discoverer:
    """reader  reads the source's own catalog; steps  of a connection test"""

    reader: Callable[[SourceAccess], SourceReader]
    steps: Callable[[SourceAccess, contextlib.ExitStack], Steps]


def discoverer_of(kind: str) -> Discoverer:
    """InvalidRequest for a kind that is unknown or of a later release."""
    module = import_module(f"{kind_named(kind).folder}.discoverer")
    found: Discoverer = module.DISCOVERER
    return found
