"""A look-up whose SQL is made once per process and planned once per connection.

Building a query of this size in the ORM costs more than running it. The SQL is still
the ORM's own, so models and annotations stay the one description of a row.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import copy
from typing import Any

import psycopg
from django.db import connection
from django.db.models import QuerySet, TextField
from django.db.models.expressions import RawSQL
from django.db.models.query import get_related_populators
from psycopg.types.numeric import Int8

from catalog.models import Column, Table

# Above any count of runs: psycopg prepares nothing but what asks for it.
_NEVER = 2**31
_COLUMN_FIELDS = tuple(field.attname for field in Column._meta.concrete_fields)
_COLUMNS = (
    "(SELECT json_agg("
    "json_build_array("
    + ", ".join(f'c."{field.column}"' for field in Column._meta.concrete_fields)
    + ") ORDER BY c.position) FROM catalog_column c"
    " WHERE c.table_id = catalog_table.id)"
)


class _Prepared(psycopg.Cursor[Any]):
    """Has the server keep the plan of every statement it runs."""

    def execute(self, query: Any, params: Any = None, **more: Any) -> Any:
        return super().execute(query, params, **{**more, "prepare": True})


def prepared_cursor() -> Any:
    """Like `connection.cursor()`, for SQL that is the same each time."""
    connection.close_if_health_check_failed()
    connection.ensure_connection()
    link = connection.connection
    if link.prepare_threshold is None:
        link.prepare_threshold = _NEVER
    return connection._prepare_cursor(_Prepared(link))  # type: ignore[attr-defined]


class TableLookup:
    """Tables by the parameters of `rows`, with their columns, in one statement.

    rows      its filters hold the sentinels of `given` in the place of real values
    """

    def __init__(self, rows: QuerySet[Table], given: Sequence[object]) -> None:
        rows = rows.prefetch_related(None).order_by()
        rows = rows.annotate(columns_read=RawSQL(_COLUMNS, [], TextField()))
        self._compiler = rows.query.get_compiler(connection=connection)
        self._sql, params = self._compiler.as_sql()
        self._constants = list(params)
        self._places = [
            [at for at, value in enumerate(params) if value == sentinel]
            for sentinel in given
        ]
        assert all(self._places), "a parameter is not part of the statement"
        select, info = self._compiler.select, self._compiler.klass_info
        fields = info["select_fields"]
        self._own = slice(fields[0], fields[-1] + 1)
        self._names = [column[0].target.attname for column in select[self._own]]
        populators: Any = get_related_populators  # newer Djangos take more
        self._related = populators(info, select, connection.alias)
        self._added = dict(self._compiler.annotation_col_map)
        self._columns_at = self._added.pop("columns_read")
        self._converters = self._compiler.get_converters([one[0] for one in select])

    def find(self, *given: object) -> Table | None:
        """The table, or None."""
        found = self.rows(*given)
        return found[0] if found else None

    def rows(self, *given: object) -> list[Table]:
        """The tables in the order of `rows`."""
        params = list(self._constants)
        for places, value in zip(self._places, given, strict=True):
            for at in places:
                params[at] = _typed(value)
        with prepared_cursor() as cursor:
            cursor.execute(self._sql, params)
            found = cursor.fetchall()
        return [self._table(list(row)) for row in found]

    def _table(self, row: list[Any]) -> Table:
        for at, (converters, expression) in self._converters.items():
            for convert in converters:
                row[at] = convert(row[at], expression, connection)
        table = Table.from_db(connection.alias, self._names, row[self._own])
        for populator in self._related:
            populator.populate(row, table)
        for name, at in self._added.items():
            setattr(table, name, row[at])
        _attach(table, row[self._columns_at])
        return table


def _typed(value: object) -> object:
    """Numbers of one size: the server keeps a plan for each."""
    if isinstance(value, int):
        return Int8(value)
    if isinstance(value, list) and value and isinstance(value[0], int):
        return [Int8(each) for each in value]
    return value


_READ = Column.objects.none()


def _attach(table: Table, columns: str | list[list[Any]] | None) -> None:
    """As `prefetch_related("columns")` leaves them on the table."""
    values = json.loads(columns) if isinstance(columns, str) else columns or []
    found = copy(_READ)
    rows = [Column.from_db(connection.alias, _COLUMN_FIELDS, each) for each in values]
    cached: Any = found
    cached._result_cache, cached._prefetch_done = rows, True
    held: Any = table
    held._prefetched_objects_cache = {"columns": found}
