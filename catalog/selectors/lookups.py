"""Tables by id or name with their columns: one statement, whatever it is."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from django.db.models import BooleanField, QuerySet, TextField
from django.db.models.expressions import RawSQL

from catalog import extensions
from catalog.access.enforcement import absent
from catalog.access.policy import Principal, Privilege, Securable, granting
from catalog.compiled import CompiledQuery, CompiledValues
from catalog.models import Column, Table
from catalog.names import LAKE, split_table_name
from core.errors import NotFound

_COLUMN_FIELDS = tuple(field.attname for field in Column._meta.concrete_fields)
_COLUMNS = (
    "(SELECT json_agg("
    "json_build_array("
    + ", ".join(f'c."{field.column}"' for field in Column._meta.concrete_fields)
    + ") ORDER BY c.position)::text FROM catalog_column c"
    " WHERE c.table_id = catalog_table.id)"
)
_NAME, _GROUPS, _ID = "\x01name", ["\x01groups"], -(2**62)
_IDS = [_ID]
_PLACE = ("\x01datasource", "\x01database", "\x01table")
_GIVEN: dict[str, tuple[object, ...]] = {"id": (_ID,), "ids": (_IDS,), "place": _PLACE}
# The rules of `policy.decide` for one row; a test holds the two against each other.
_IS_GRANTED = """EXISTS (SELECT 1 FROM catalog_grant g
 WHERE g.datasource = catalog_datasource.name
 AND (g.database = '' OR (g.database = catalog_database.name
   AND g."table" IN ('', catalog_table.name)))
 AND g.privilege = ANY(%s) AND g.columns = '[]'
 AND ((g.principal_kind = 'user' AND g.principal_name = %s)
   OR (g.principal_kind = 'group' AND g.principal_name = ANY(%s))))"""

R = TypeVar("R")
_Where = tuple[int] | tuple[str, str, str]  # an id, or the names down to it
Compile = Callable[[QuerySet[Table], Sequence[object]], CompiledValues[R]]


def annotated_tables() -> QuerySet[Table]:
    """Tables with their datasource and what packages above know of them."""
    added = {name: make() for name, make in extensions.registered.annotations.items()}
    return Table.objects.select_related("database__datasource").annotate(**added)


class TableLookup(Generic[R]):
    """Finds tables and reads each as an `R`, with SQL that is compiled once.

    compile   says what is read of the filtered rows it gets
    """

    def __init__(self, compile: Compile[R]) -> None:
        self._compile = compile
        self._compiled: dict[tuple[str, bool], CompiledValues[R]] = {}

    def by_id(self, principal: Principal, table_id: int) -> R:
        """The table of that id; NotFound when absent or hidden."""
        found = self._found(principal, (table_id,)) if table_id < 2**63 else None
        if found is None:
            raise NotFound(
                "there is no table %(name)s",
                name=table_id,
                code="table_not_found",
            )
        return found

    def at(self, principal: Principal, datasource: str, database: str, name: str) -> R:
        """The table at that place; NotFound when absent or hidden."""
        place = place_of(datasource, database, name)
        found = self._found(principal, place)
        if found is None:
            raise absent(Securable(*place))
        return found

    def named(self, principal: Principal, name: str) -> R:
        """By `datasource.database.table`, or `database.table` in the lake."""
        return self.at(principal, *split_table_name(name))

    def by_ids(self, ids: Sequence[int]) -> list[R]:
        """These tables, in this order. Says nothing about rights."""
        if not ids:
            return []
        rows: list[Any] = self._sought("ids", is_checked=False).all(list(ids))
        found = {row.id: row for row in rows}
        return [found[one] for one in ids if one in found]

    def _found(self, principal: Principal, given: _Where) -> R | None:
        if not principal.is_active:
            return None
        by = "id" if len(given) == 1 else "place"
        if principal.is_admin:
            return self._sought(by, is_checked=False).first(*given)
        who = (principal.name, sorted(principal.groups))
        return self._sought(by, is_checked=True).first(*given, *who)

    def _sought(self, by: str, *, is_checked: bool) -> CompiledValues[R]:
        found = self._compiled.get((by, is_checked))
        if found is None:
            found = self._compile(*_filtered(by, is_checked=is_checked))
            self._compiled[by, is_checked] = found
        return found


def place_of(datasource: str, database: str, name: str) -> tuple[str, str, str]:
    """The names as they are stored: the lake's fold to lower case."""
    if datasource.lower() == LAKE:
        return LAKE, database.lower(), name.lower()
    return datasource, database, name


def _filtered(
    by: str, *, is_checked: bool
) -> tuple[QuerySet[Table], tuple[object, ...]]:
    """Rows with sentinels in the place of what is asked for, and the sentinels."""
    rows, given = annotated_tables().order_by(), _GIVEN[by]
    if by == "id":
        rows = rows.filter(pk=_ID)
    elif by == "ids":
        among = RawSQL("catalog_table.id = ANY(%s)", [_IDS], BooleanField())
        rows = rows.filter(among)
    else:
        rows = rows.filter(
            database__datasource__name=_PLACE[0],
            database__name=_PLACE[1],
            name=_PLACE[2],
        )
    if is_checked:
        held = sorted(granting(Privilege.DISCOVER))
        granted = RawSQL(_IS_GRANTED, [held, _NAME, _GROUPS], BooleanField())
        rows, given = rows.filter(granted), (*given, _NAME, _GROUPS)
    return rows, given


class _WithColumns(CompiledQuery[Table]):
    """Tables whose columns are read beside them as `prefetch_related` leaves them."""

    def __init__(self, rows: QuerySet[Table], given: Sequence[object]) -> None:
        columns = RawSQL(_COLUMNS, [], TextField())
        super().__init__(rows.annotate(columns_read=columns), given)

    def _instance(self, *row: Any) -> Table:
        table = super()._instance(*row)
        held: Any = table
        values = json.loads(held.columns_read or "[]")
        rows = [Column.from_db(table._state.db, _COLUMN_FIELDS, one) for one in values]
        # a caller that filters or sorts it again asks the database about this very
        # table
        found: Any = Column.objects.filter(table=table.pk)
        found._result_cache, found._prefetch_done = rows, True
        held._prefetched_objects_cache = {"columns": found}
        return table


_tables: TableLookup[Table] = TableLookup(_WithColumns)
table_for, table_at, table_named = _tables.by_id, _tables.at, _tables.named
tables_by_ids = _tables.by_ids
