"""Reads information_schema: SourceReader for a server of MariaDB or MySQL.

Its databases are the middle level. Knows nothing of rows, jobs or the lake.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pymysql

from catalog.schema.source_log import Lack
from catalog.schema.types import Column, TableSchema
from catalog.sources.access import SourceAccess, resolved
from catalog.sources.mariadb import log as mariadb_log
from catalog.sources.mariadb import statements as mariadb_sql
from catalog.sources.mariadb.clusters import membership_of
from catalog.sources.mariadb.connect import Link, connect, statements
from catalog.sources.mariadb.older import older_of
from catalog.sources.mariadb.privileges import account
from catalog.sources.mariadb.replicas import (
    PRIVILEGE_MISSING,
    REPLICA_STATUS,
    SYNTAX_ERROR,
)
from catalog.sources.mariadb.types import OPEN_TRANSACTIONS, key_forms, lake_type
from catalog.sources.port import DiscoveredTable, Overview, Page, TableKind, zone_delay

# Bounds the memory of a page of wide tables: there may be 4,096 columns in each.
MOST_COLUMNS_PER_PAGE = 20_000

Name = tuple[str, str]
# TABLE_TYPE; what is not here (sequences, temporary tables) is no table to carry.
_KINDS: dict[str, TableKind] = {
    "BASE TABLE": "table",
    "SYSTEM VERSIONED": "table",
    "VIEW": "view",
}
# Engines whose rows are at another server or in a file that others write.
_ELSEWHERE = frozenset({"FEDERATED", "CONNECT", "SPIDER", "OQGRAPH"})
_PRIMARY = "PRIMARY"


@dataclass(frozen=True, slots=True)
class _Table:
    """A row of TABLES that is a table or a view."""

    kind: TableKind
    comment: str
    rows: int
    size: int
    engine: str
    is_versioned: bool


@dataclass(slots=True)
class _Columns:
    """The columns of one table that the login may see.

    is_readable  whether it may SELECT some of them
    hidden       those that it may not SELECT
    is_partial   there is a sign that the table has more columns or keys than are seen
    of_whole     rights beside SELECT to all of them: then all columns and keys are seen
    collations   by column; None for types that have none
    row_end      columns that the server adds to every key of a versioned table
    defaults     rows for `older_of`
    """

    facts: list[tuple[str, str, bool, str]] = field(default_factory=list)
    is_readable: bool = False
    hidden: list[str] = field(default_factory=list)
    is_partial: bool = False
    of_whole: set[str] = field(default_factory=set)
    row_end: set[str] = field(default_factory=set)
    collations: dict[str, str | None] = field(default_factory=dict)
    defaults: list[tuple[Any, ...]] = field(default_factory=list)


@dataclass(slots=True)
class _Index:
    """Columns in order; None = a prefix of a column, or an expression."""

    is_unique: bool
    is_ordered: bool
    columns: list[str | None] = field(default_factory=list)
    is_nullable: bool = False


class MariadbReader:
    """See `SourceReader`. Connects on entering the `with` block."""

    def __init__(self, access: SourceAccess) -> None:
        self._access = access
        self._link: Link | None = None

    def __enter__(self) -> MariadbReader:
        self._link = connect(self._access, resolved(self._access))
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._link is not None:
            self._link.leave()

    def overview(self) -> Overview:
        wanted = filter_of(self._access)
        with self._statements() as link:
            names = tuple(
                str(name) for (name,) in link.rows(mariadb_sql.DATABASES, wanted)
            )
            ((tables,),) = link.rows(mariadb_sql.COUNT, wanted)
            sees_all = sees_all_transactions(link)
            standby = membership_of(link.rows) is not None or is_standby(link)
            lacks = log_lacks(link)
            (zone,) = link.rows(mariadb_sql.ZONE)
        delay = zone_delay(*zone)
        return Overview(names, int(tables), sees_all, standby, lacks, delay)

    def page(self, after: Name | None, *, limit: int) -> Page:
        schema, table = after or ("", "")
        bounds = {"after_schema": schema, "after_table": table, "limit": limit}
        with self._statements() as link:
            values = {**filter_of(self._access), **bounds}
            names = [(str(s), str(t)) for s, t in link.rows(mariadb_sql.NAMES, values)]
            taken = _within_width(names, link)
            tables = described(link, taken)
        is_last = len(names) < limit and len(taken) == len(names)
        return Page(tables, None if is_last else taken[-1])

    def table(self, database: str, name: str) -> DiscoveredTable | None:
        wanted = filter_of(self._access)
        with self._statements() as link:
            known = {
                str(found) for (found,) in link.rows(mariadb_sql.DATABASES, wanted)
            }
            tables = described(link, [(database, name)]) if database in known else ()
        return tables[0] if tables else None

    def _statements(self) -> contextlib.AbstractContextManager[Link]:
        if self._link is None:
            raise RuntimeError("MariadbReader is used outside its with block")
        return statements(self._link, self._access)


def filter_of(access: SourceAccess) -> dict[str, Any]:
    """Values for the statements over all databases; an IN list is never empty."""
    return {
        "everything": not access.include,
        "include": list(access.include) or [""],
        "exclude": list(access.exclude) or [""],
    }


def sees_all_transactions(link: Link) -> bool:
    """Whether the login has PROCESS, by a grant or a role."""
    try:
        link.rows(OPEN_TRANSACTIONS)
    except (pymysql.OperationalError, pymysql.ProgrammingError):
        return False
    return True


def is_standby(link: Link) -> bool | None:
    """Whether it replicates from another server; None = the login may not ask."""
    for statement in REPLICA_STATUS:
        try:
            return bool(link.rows(statement))
        except pymysql.MySQLError as error:
            if error.args[:1] == (SYNTAX_ERROR,):
                continue
            if error.args[:1] == (PRIVILEGE_MISSING,):
                return None
            raise
    return None


def log_place(link: Link) -> list[tuple[Any, ...]] | None:
    """Where its log is, and what is not in it; None = the login may not ask."""
    try:
        return link.rows(mariadb_log.PLACE)
    except pymysql.MySQLError as error:
        if error.args[:1] in {(PRIVILEGE_MISSING,), (SYNTAX_ERROR,)}:
            return None
        raise


def log_lacks(link: Link) -> tuple[Lack, ...]:
    """What keeps its log from being followed."""
    server = mariadb_log.read_server(
        link.rows, place=log_place(link), is_replica=is_standby(link)
    )
    ((current,),) = link.rows("SELECT CURRENT_USER()")
    who = account(*str(current).rsplit("@", 1))
    return tuple(mariadb_log.lacks_of(server, who))


def log_doubts(link: Link) -> tuple[str, ...]:
    """What may end following it one day."""
    found = link.rows(mariadb_log.SETTINGS)
    settings = {str(name).lower(): str(value) for name, value in found}
    changers = [str(name) for (name,) in link.rows(mariadb_log.CHANGERS)]
    return mariadb_log.doubts_of(settings, changers)


def _within_width(names: list[Name], link: Link) -> list[Name]:
    """As many tables from the front as the column bound allows, at least one."""
    if not names:
        return []
    widths = {
        (schema, table): int(width)
        for schema, table, width in link.rows(
            *mariadb_sql.of_names(mariadb_sql.WIDTHS, names)
        )
    }
    total = 0
    for number, name in enumerate(names):
        total += widths.get(name, 0)
        if total > MOST_COLUMNS_PER_PAGE and number:
            return names[:number]
    return names


def described(link: Link, names: Sequence[Name]) -> tuple[DiscoveredTable, ...]:
    """Those of `names` that are there and are tables or views, in the same order."""
    if not names:
        return ()

    def rows(statement: str) -> list[tuple[Any, ...]]:
        return link.rows(*mariadb_sql.of_names(statement, names))

    tables = dict(_tables(rows(mariadb_sql.TABLES)))
    columns = _columns(rows(mariadb_sql.COLUMNS))
    for schema, table in rows(mariadb_sql.COLUMN_GRANTS):
        columns[(schema, table)].is_partial = True
    versioned = {name for name, table in tables.items() if table.is_versioned}
    indexes = _indexes(rows(mariadb_sql.INDEXES), columns, versioned)
    server = mariadb_log.read_server(link.rows, place=log_place(link), is_replica=None)
    return tuple(
        replace(
            _table(name, tables[name], columns[name], indexes[name]),
            log=mariadb_log.table_log(
                server,
                name[0],
                engine=tables[name].engine,
                collations=columns[name].collations,
                older=older_of(columns[name].defaults),
            ),
        )
        for name in names
        if name in tables
    )


def _tables(rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Name, _Table]]:
    for schema, name, table_type, engine, comment, count, size in rows:
        kind = _KINDS.get(table_type)
        if kind is None:
            continue
        if str(engine or "").upper() in _ELSEWHERE:
            kind = "foreign table"
        # a view's comment is VIEW, or what is wrong with it
        text = "" if kind == "view" else str(comment or "")
        versioned = table_type == "SYSTEM VERSIONED"
        yield (
            (schema, name),
            _Table(kind, text, int(count or 0), int(size or 0), str(engine), versioned),
        )


def _columns(rows: Iterable[tuple[Any, ...]]) -> dict[Name, _Columns]:
    found: dict[Name, _Columns] = defaultdict(_Columns)
    for schema, table, *of_column in rows:
        name, text, nullable, comment, may_select, is_row_end, *of_column = of_column
        collation, is_keyed, rights, *facts = of_column
        one = found[(schema, table)]
        one.is_partial = one.is_partial or bool(is_keyed)
        others = {*_text(rights).split(",")} - {"select", ""}
        one.of_whole = others & one.of_whole if one.facts else others
        one.collations[name] = collation
        one.defaults.append((name, _text(text), *facts))
        one.facts.append((name, _text(text), nullable == "YES", _text(comment)))
        one.is_readable = one.is_readable or bool(may_select)
        if not may_select:
            one.hidden.append(name)
        if is_row_end:
            one.row_end.add(name)
    return found


def _indexes(
    rows: Iterable[tuple[Any, ...]],
    columns: dict[Name, _Columns],
    versioned: Collection[Name],
) -> dict[Name, dict[str, _Index]]:
    """Puts columns of which an index alone tells among the hidden ones."""
    found: dict[Name, dict[str, _Index]] = defaultdict(dict)
    seen = {
        name: {fact[0] for fact in one.facts} - one.row_end
        for name, one in columns.items()
    }
    for schema, table, name, is_unique, column, is_whole, is_nullable, ordered in rows:
        known = seen.get((schema, table), set())
        if column is not None and column not in known:
            if (schema, table) in versioned:
                continue  # the end of a version's time, which current rows all share
            if column not in columns[(schema, table)].hidden:
                columns[(schema, table)].hidden.append(column)
        index = found[(schema, table)].setdefault(
            name, _Index(bool(is_unique), bool(ordered))
        )
        # A key over the beginning of a column is one over the column, too.
        index.columns.append(column if is_whole or name == _PRIMARY else None)
        index.is_nullable = index.is_nullable or bool(is_nullable)
    return found


def _table(
    name: Name, table: _Table, columns: _Columns, indexes: dict[str, _Index]
) -> DiscoveredTable:
    hidden = columns.hidden if columns.is_readable else []
    primary = indexes.get(_PRIMARY)
    key = primary.columns if primary else []
    hides_key = bool(set(key) & set(hidden))
    shown = [fact for fact in columns.facts if fact[0] not in hidden]
    return DiscoveredTable(
        database=name[0],
        name=name[1],
        kind=table.kind,
        schema=TableSchema(
            tuple(_column(fact, [] if hides_key else key) for fact in shown)
        ),
        comment=table.comment,
        estimated_rows=table.rows,
        estimated_bytes=table.size,
        unique_indexes=tuple(
            tuple(column for column in index.columns if column is not None)
            for index_name, index in indexes.items()
            if index.is_unique
            and not index.is_nullable
            and not {None, *hidden} & set(index.columns)
            and index_name != _PRIMARY
        ),
        indexed=tuple(n for n in _leading(indexes.values()) if n not in hidden),
        is_readable=columns.is_readable,
        hidden=tuple(hidden),
        hidden_key=tuple(name for name in key if name) if hides_key else (),
        hides_indexes=columns.is_partial and not columns.of_whole and not indexes,
        traits=frozenset({"versioned"} if table.is_versioned else ()),
        key_forms=_forms(columns, indexes.values()),
    )


def _forms(columns: _Columns, indexes: Iterable[_Index]) -> dict[str, str]:
    """Of the columns of unique indexes."""
    keyed = {name for index in indexes if index.is_unique for name in index.columns}
    found = {
        name: key_forms(text, columns.collations.get(name))
        for name, text, *_ in columns.facts
        if name in keyed
    }
    return {name: forms for name, forms in found.items() if forms}


def _leading(indexes: Iterable[_Index]) -> tuple[str, ...]:
    first = (index.columns[0] for index in indexes if index.is_ordered)
    return tuple(dict.fromkeys(name for name in first if name is not None))


def _column(fact: tuple[str, str, bool, str], key: Sequence[str | None]) -> Column:
    name, text, nullable, comment = fact
    return Column(
        source_name=name,
        name=name,
        source_type=text,
        type=lake_type(text).type,
        nullable=nullable,
        key=key.index(name) + 1 if name in key else 0,
        comment=comment,
    )


def _text(value: object) -> str:
    """MySQL 8 gives some of its catalog's texts as bytes."""
    return value.decode() if isinstance(value, bytes) else str(value or "")
