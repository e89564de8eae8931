"""Tables that a principal may see: one, or a filtered list, with their columns."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Q, QuerySet

from catalog.access.policy import Principal, Securable
from catalog.access.scope import in_scope, scope_of
from catalog.models import Table
from catalog.selectors.lookups import (
    annotated_tables,
    table_at,
    table_for,
    table_named,
)

__all__ = [
    "TableFilter",
    "securable_of",
    "table_at",
    "table_for",
    "table_named",
    "tables_for",
]

SHORTEST_TRIGRAM = 3


@dataclass(frozen=True, slots=True)
class TableFilter:
    """What to list; "" = any. `q` is a part of a name, or `database.prefix`."""

    datasource: str = ""
    database: str = ""
    status: str = ""
    kind: str = ""
    q: str = ""


def tables_for(
    principal: Principal, wanted: TableFilter | None = None
) -> QuerySet[Table]:
    """Visible tables with datasource, columns and onboarding.

    What may be seen is read at once (one statement, none for administrators), so that
    the list's own plan knows it; the list itself takes two statements.
    """
    wanted = wanted or TableFilter()
    rows = annotated_tables().prefetch_related("columns")
    rows = rows.filter(in_scope(scope_of(principal, wanted.datasource))).filter(
        _search(wanted.q)
    )
    fields = {
        "database__datasource__name": wanted.datasource,
        "database__name": wanted.database,
        "status": wanted.status,
        "kind": wanted.kind,
    }
    return rows.filter(**{name: value for name, value in fields.items() if value})


def securable_of(table: Table) -> Securable:
    """The table as a policy securable; needs `database__datasource`."""
    database = table.database
    return Securable(database.datasource.name, database.name, table.name)


def _search(q: str) -> Q:
    if not q:
        return Q()
    database, dot, prefix = q.rpartition(".")
    if dot:
        database = database.rpartition(".")[2]
        return Q(database__name__iexact=database, name__istartswith=prefix)
    if len(q) < SHORTEST_TRIGRAM:
        return Q(name__istartswith=q)
    return Q(name__icontains=q)
