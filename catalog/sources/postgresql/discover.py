"""Reads PostgreSQL's catalogs: SourceReader for one database of one server.

Schemas are the middle level. Knows nothing of rows, jobs or the lake.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import compress, takewhile
from typing import Any

from psycopg.errors import LockNotAvailable

from catalog.schema.types import Column, TableSchema
from catalog.sources.access import SourceAccess, resolved
from catalog.sources.port import (
    DiscoveredTable,
    Overview,
    Page,
    TableKind,
    Trait,
    zone_delay,
)
from catalog.sources.postgresql import log, statements
from catalog.sources.postgresql.answers import Link
from catalog.sources.postgresql.columns import COLUMNS
from catalog.sources.postgresql.connect import connect, transaction
from catalog.sources.postgresql.types import SourceType, key_forms, lake_type

# Bounds the memory of a page of wide tables: PostgreSQL allows 1,600 columns each.
MOST_COLUMNS_PER_PAGE = 20_000

_KINDS: dict[str, TableKind] = {
    "r": "table",
    "p": "partitioned table",
    "v": "view",
    "m": "materialized view",
    "f": "foreign table",
}
# As `statements.TRAITS` has them.
_TRAITS: tuple[Trait, ...] = ("children", "foreign", "unlogged")


@dataclass(frozen=True, slots=True)
class _Found:
    """A row of PAGE. `width` counts dropped columns too."""

    oid: int
    schema: str
    name: str
    kind: str
    width: int
    comment: str
    is_readable: bool
    hides_rows: bool


@dataclass(slots=True)
class _Indexes:
    """Column numbers by table: the key in its order, unique sets, leading columns."""

    primary: dict[int, list[int]] = field(default_factory=dict)
    unique: dict[int, list[list[int]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    leading: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))


class PostgresReader:
    """See `SourceReader`. Connects on entering the `with` block."""

    def __init__(self, access: SourceAccess) -> None:
        self._access = access
        self._link: Link | None = None

    def __enter__(self) -> PostgresReader:
        self._link = connect(self._access, resolved(self._access))
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._link is not None:
            self._link.close()

    def overview(self) -> Overview:
        with self._transaction() as link:
            names = link.execute(statements.DATABASES, self._filter).fetchall()
            row = link.execute(statements.COUNT, self._filter).fetchone()
            server = link.execute(log.SERVER).fetchone()
            zone = link.execute(statements.ZONE).fetchone()
        tables, sees_all, is_standby = row or (0, False, False)
        return Overview(
            databases=tuple(name for (name,) in names),
            tables=tables,
            sees_all_transactions=sees_all,
            is_standby=is_standby,
            log_lacks=tuple(log.lacks_of(server, self._access.username))
            if server
            else (),
            zone_delay=zone_delay(*zone) if zone else 0,
        )

    def page(self, after: tuple[str, str] | None, *, limit: int) -> Page:
        schema, table = after or ("", "")
        bounds = {"after_schema": schema, "after_table": table, "limit": limit}
        with self._transaction() as link:
            rows = link.execute(statements.PAGE, {**self._filter, **bounds}).fetchall()
            found = _within_width([_Found(*row) for row in rows])
            tables = self._described(link, found)
        is_last = len(rows) < limit and len(found) == len(rows)
        last = found[-1] if found and not is_last else None
        return Page(tables, (last.schema, last.name) if last else None)

    def table(self, database: str, name: str) -> DiscoveredTable | None:
        names = {"schema": database, "table": name}
        with self._transaction() as link:
            row = link.execute(
                statements.ONE_TABLE, {**self._filter, **names}
            ).fetchone()
            tables = self._described(link, [_Found(*row)] if row else [])
        return tables[0] if tables else None

    @property
    def _filter(self) -> dict[str, list[str]]:
        return {
            "include": list(self._access.include),
            "exclude": list(self._access.exclude),
        }

    def _transaction(self) -> contextlib.AbstractContextManager[Link]:
        if self._link is None:
            raise RuntimeError("PostgresReader is used outside its with block")
        return transaction(self._link, self._access)

    def _described(
        self, link: Link, found: list[_Found]
    ) -> tuple[DiscoveredTable, ...]:
        if not found:
            return ()
        oids = {"oids": [table.oid for table in found]}
        indexes = _indexes(link.execute(statements.INDEXES, oids))
        columns: dict[int, dict[int, Column]] = defaultdict(dict)
        forms: dict[int, dict[str, str]] = defaultdict(dict)
        rows = link.execute(COLUMNS, oids).fetchall()
        hidden = _hidden(rows, {table.oid for table in found if table.is_readable})
        hidden_keys = _without_hidden(indexes, hidden, rows)
        for oid, number, *facts, is_nondeterministic, _ in rows:
            if number in hidden[oid]:
                continue
            key = indexes.primary.get(oid, [])
            position = key.index(number) + 1 if number in key else 0
            column = columns[oid][number] = _column(facts, key=position)
            form = key_forms(
                column.source_type, is_nondeterministic=is_nondeterministic
            )
            if form and any(number in k for k in (key, *indexes.unique[oid])):
                forms[oid][column.source_name] = form
        sizes = self._sizes(link, oids)
        shows = {
            root: frozenset(compress(_TRAITS, flags))
            for root, *flags in link.execute(statements.TRAITS, oids)
        }
        logs = log.table_logs(link.execute(log.TABLES, oids))
        return tuple(
            replace(
                _table(t, columns[t.oid], indexes, sizes.get(t.oid, (0, 0, 0))),
                traits=shows.get(t.oid, frozenset()),
                key_forms=forms[t.oid],
                hidden=tuple(hidden[t.oid].values()),
                hidden_key=hidden_keys.get(t.oid, ()),
                log=logs.get(t.oid),
            )
            for t in found
        )

    def _sizes(
        self, link: Link, oids: Mapping[str, Any]
    ) -> dict[int, tuple[int, int, int]]:
        """root oid → rows, bytes, bytes of never analysed tables."""
        try:
            with link.transaction():
                rows = link.execute(statements.SIZES, oids).fetchall()
        except LockNotAvailable:
            rows = link.execute(statements.SIZES_WITHOUT_LOCK, oids).fetchall()
        return {root: (n or 0, size or 0, fresh or 0) for root, n, size, fresh in rows}


def _hidden(
    rows: Iterable[tuple[Any, ...]], readable: Collection[int]
) -> dict[int, dict[int, str]]:
    """By table of `readable`, the columns that the login may not SELECT: number →
    name. Of rows of COLUMNS."""
    hidden: dict[int, dict[int, str]] = defaultdict(dict)
    for oid, number, name, *_, may_select in rows:
        if oid in readable and not may_select:
            hidden[oid][number] = name
    return hidden


def _without_hidden(
    indexes: _Indexes,
    hidden: Mapping[int, Mapping[int, str]],
    rows: Iterable[tuple[Any, ...]],
) -> dict[int, tuple[str, ...]]:
    """Takes primary keys that have a hidden column out of `indexes`, since the rest of
    their columns identifies no row; the names of their columns by table."""
    keys = {
        oid: indexes.primary.pop(oid)
        for oid, numbers in hidden.items()
        if set(numbers) & set(indexes.primary.get(oid, ()))
    }
    names = {(oid, number): name for oid, number, name, *_ in rows if oid in keys}
    return {
        oid: tuple(names[oid, number] for number in key) for oid, key in keys.items()
    }


def _within_width(found: list[_Found]) -> list[_Found]:
    """As many tables from the front as the column bound allows, at least one."""
    total = 0

    def fits(table: _Found) -> bool:
        nonlocal total
        total += table.width
        return total <= MOST_COLUMNS_PER_PAGE

    return list(takewhile(fits, found)) or found[:1]


def _indexes(rows: Iterable[tuple[Any, ...]]) -> _Indexes:
    result = _Indexes()
    for oid, is_primary, is_unique, numbers in rows:
        if is_primary:
            result.primary[oid] = list(numbers)
        elif is_unique:
            result.unique[oid].append(list(numbers))
        if numbers and numbers[0] and numbers[0] not in result.leading[oid]:
            result.leading[oid].append(numbers[0])
    return result


def _column(facts: list[Any], *, key: int) -> Column:
    name, text, kind, in_array, dimensions, not_null, comment, *_ = facts
    source = SourceType(
        text=f"{text}[]" if in_array else text,
        kind="b" if in_array else kind,
        element=text if in_array else "",
        element_kind=kind if in_array else "b",
        dimensions=dimensions,
    )
    return Column(
        source_name=name,
        name=name,
        source_type=source.text,
        type=lake_type(source).type,
        nullable=not not_null,
        key=key,
        comment=comment,
    )


def _table(
    found: _Found,
    columns: dict[int, Column],
    indexes: _Indexes,
    size: tuple[int, int, int],
) -> DiscoveredTable:
    rows, size_bytes, not_analysed = size
    return DiscoveredTable(
        database=found.schema,
        name=found.name,
        kind=_KINDS[found.kind],
        schema=TableSchema(tuple(columns.values())),
        comment=found.comment,
        estimated_rows=rows + not_analysed // (32 + 12 * max(len(columns), 1)),
        estimated_bytes=size_bytes,
        is_analysed=not not_analysed,
        unique_indexes=tuple(
            tuple(columns[number].source_name for number in numbers)
            for numbers in indexes.unique[found.oid]
            if all(n in columns and not columns[n].nullable for n in numbers)
        ),
        indexed=tuple(
            columns[n].source_name for n in indexes.leading[found.oid] if n in columns
        ),
        is_readable=found.is_readable,
        hides_rows=found.hides_rows,
    )
