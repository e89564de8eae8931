"""Queries whose SQL is made once per process and planned once per connection.

Building a query of some size in the ORM costs more than running it. The SQL is still
the ORM's own, so models and annotations stay the one description of a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

import psycopg
from django.db import DEFAULT_DB_ALIAS, connection, connections
from django.db.models import Model, QuerySet
from django.db.models.query import get_related_populators
from psycopg.types.numeric import Int8

M = TypeVar("M", bound=Model)
R = TypeVar("R")

# Above any count of runs: psycopg prepares nothing but what asks for it.
_NEVER = 2**31


class _Prepared(psycopg.Cursor[Any]):
    """Has the server keep the plan of every statement it runs."""

    def execute(self, query: Any, params: Any = None, **more: Any) -> Any:
        return super().execute(query, params, **{**more, "prepare": True})


def prepared_cursor() -> Any:
    """Like `connection.cursor()`, for SQL that is the same each time."""
    ours: Any = connections[
        DEFAULT_DB_ALIAS
    ]  # once: `connection` looks it up each time
    ours.close_if_health_check_failed()
    ours.ensure_connection()
    link = ours.connection
    if link.prepare_threshold is None:
        link.prepare_threshold = _NEVER
    return ours._prepare_cursor(_Prepared(link))


class CompiledValues(Generic[R]):
    """`rows.values_list(…)` with other parameters, each row made into an `R`.

    rows   filters hold the sentinels of `given` in the place of real values
    make   takes the columns of a row
    """

    def __init__(
        self, rows: QuerySet[Any, Any], given: Sequence[object], make: Callable[..., R]
    ) -> None:
        self._make = make
        self._compiler = rows.query.get_compiler(connection=connection)
        self._sql, params = self._compiler.as_sql()
        self._constants = list(params)
        self._places = [
            [at for at, value in enumerate(params) if value == sentinel]
            for sentinel in given
        ]
        assert all(self._places), "a parameter is not part of the statement"
        selected = [one[0] for one in self._compiler.select]
        self._converters = self._compiler.get_converters(selected)

    def first(self, *given: object) -> R | None:
        """The first row, or None."""
        return next(iter(self._run(given)), None)

    def all(self, *given: object) -> list[R]:
        """The rows for these values, in one statement."""
        return list(self._run(given))

    def _run(self, given: tuple[object, ...]) -> Iterable[R]:
        params = list(self._constants)
        for places, value in zip(self._places, given, strict=True):
            for at in places:
                params[at] = _typed(value)
        with prepared_cursor() as cursor:
            cursor.execute(self._sql, params)
            found = cursor.fetchall()
        return (self._make(*self._converted(row)) for row in found)

    def _converted(self, row: tuple[Any, ...]) -> Sequence[Any]:
        if not self._converters:
            return row
        values = list(row)
        for at, (converters, expression) in self._converters.items():
            for convert in converters:
                values[at] = convert(values[at], expression, connection)
        return values


class AnyRow:
    """`rows().exists()`, for what is asked again and again. Times in its filters are
    the database's."""

    def __init__(self, rows: Callable[[], QuerySet[Any, Any]]) -> None:
        self._rows = rows
        self._made: CompiledValues[bool] | None = None

    def __call__(self) -> bool:
        if self._made is None:
            rows = self._rows().order_by().values_list("pk")[:1]
            self._made = CompiledValues(rows, (), lambda pk: True)
        return bool(self._made.all())


class CompiledQuery(CompiledValues[M]):
    """The same for rows of a model, with what is selected and annotated beside them."""

    def __init__(self, rows: QuerySet[M], given: Sequence[object]) -> None:
        super().__init__(rows, given, self._instance)
        self._model = rows.model
        select, info = self._compiler.select, self._compiler.klass_info
        fields = info["select_fields"]
        self._own = slice(fields[0], fields[-1] + 1)
        self._names = [column[0].target.attname for column in select[self._own]]
        populators: Any = get_related_populators  # newer Djangos take more
        self._related = populators(info, select, connection.alias)
        self._added = dict(self._compiler.annotation_col_map)

    def _instance(self, *row: Any) -> M:
        instance = self._model.from_db(connection.alias, self._names, row[self._own])
        for populator in self._related:
            populator.populate(row, instance)
        for name, at in self._added.items():
            setattr(instance, name, row[at])
        return instance


def _typed(value: object) -> object:
    """Numbers of one size: the server keeps a plan for each."""
    if isinstance(value, int):
        return Int8(value)
    if isinstance(value, list) and value and isinstance(value[0], int):
        return [Int8(each) for each in value]
    return value
