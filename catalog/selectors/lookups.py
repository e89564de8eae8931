"""Tables by id or name with their columns: one statement, whatever it is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

from django.db.models import BooleanField, QuerySet, TextField
from django.db.models.expressions import RawSQL

from catalog import extensions
from catalog.access.enforcement import absent
from catalog.access.policy import Principal, Privilege, Securable, granting
from catalog.compiled import CompiledQuery
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
_PLACE = ("\x01datasource", "\x01database", "\x01table")
# The rules of `policy.decide` for one row; a test holds the two against each other.
_IS_GRANTED = """EXISTS (SELECT 1 FROM catalog_grant g
 WHERE g.datasource = catalog_datasource.name
 AND (g.database = '' OR (g.database = catalog_database.name
   AND g."table" IN ('', catalog_table.name)))
 AND g.privilege = ANY(%s)
 AND ((g.principal_kind = 'user' AND g.principal_name = %s)
   OR (g.principal_kind = 'group' AND g.principal_name = ANY(%s))))"""


def annotated_tables() -> QuerySet[Table]:
    """Tables with their datasource and what packages above know of them."""
    added = {name: make() for name, make in extensions.registered.annotations.items()}
    return Table.objects.select_related("database__datasource").annotate(**added)


def table_for(principal: Principal, table_id: int) -> Table:
    """The table of that id; NotFound when absent or hidden."""
    row = _found(principal, "id", (table_id,)) if table_id < 2**63 else None
    if row is None:
        raise NotFound(f"there is no table {table_id}", code="table_not_found")
    return row


def table_named(principal: Principal, name: str) -> Table:
    """By `datasource.database.table`, or `database.table` in the lake."""
    return table_at(principal, *split_table_name(name))


def table_at(principal: Principal, datasource: str, database: str, name: str) -> Table:
    """The table at that place; NotFound when absent or hidden."""
    if datasource.lower() == LAKE:
        datasource, database, name = LAKE, database.lower(), name.lower()
    row = _found(principal, "place", (datasource, database, name))
    if row is None:
        raise absent(Securable(datasource, database, name))
    return row


def tables_by_ids(ids: Sequence[int]) -> list[Table]:
    """These tables with their columns, in this order. Says nothing about rights."""
    if not ids:
        return []
    found = {row.pk: _with_columns(row) for row in _by_ids().all(list(ids))}
    return [found[one] for one in ids if one in found]


@cache
def _by_ids() -> CompiledQuery[Table]:
    given = [-(2**62)]
    among = RawSQL("catalog_table.id = ANY(%s)", [given], BooleanField())
    return _compiled(annotated_tables().filter(among), [given])


def _found(principal: Principal, by: str, given: tuple[object, ...]) -> Table | None:
    if not principal.is_active:
        return None
    who: tuple[object, ...] = ()
    if not principal.is_admin:
        who = (principal.name, sorted(principal.groups))
    row = _lookup(by, is_checked=bool(who)).first(*given, *who)
    return _with_columns(row) if row else None


@cache
def _lookup(by: str, *, is_checked: bool) -> CompiledQuery[Table]:
    rows = annotated_tables()
    given: tuple[object, ...] = (_ID,) if by == "id" else _PLACE
    if by == "id":
        rows = rows.filter(pk=_ID)
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
    return _compiled(rows, given)


def _compiled(rows: QuerySet[Table], given: Sequence[object]) -> CompiledQuery[Table]:
    columns = RawSQL(_COLUMNS, [], TextField())
    return CompiledQuery(rows.order_by().annotate(columns_read=columns), given)


def _with_columns(table: Table) -> Table:
    """The columns read beside it as `prefetch_related` would have left them."""
    held: Any = table
    values = json.loads(held.columns_read or "[]")
    rows = [Column.from_db(table._state.db, _COLUMN_FIELDS, each) for each in values]
    # whoever filters or sorts it once more asks the database about this very table
    found: Any = Column.objects.filter(table=table.pk)
    found._result_cache, found._prefetch_done = rows, True
    held._prefetched_objects_cache = {"columns": found}
    return table
