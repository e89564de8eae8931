"""Tables that a principal may see: one, or a filtered list, with their columns."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Q, QuerySet

from catalog import extensions
from catalog.access.enforcement import absent
from catalog.access.policy import Principal, Securable
from catalog.access.visibility import visible_tables
from catalog.models import Table
from catalog.names import LAKE, split_table_name
from core.errors import NotFound

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
    """Visible tables with datasource, columns and onboarding: two statements."""
    wanted = wanted or TableFilter()
    rows = _rows().filter(visible_tables(principal)).filter(_search(wanted.q))
    fields = {
        "database__datasource__name": wanted.datasource,
        "database__name": wanted.database,
        "status": wanted.status,
        "kind": wanted.kind,
    }
    return rows.filter(**{name: value for name, value in fields.items() if value})


def table_for(principal: Principal, table_id: int) -> Table:
    """The table of that id; NotFound when absent or hidden."""
    row = _rows().filter(visible_tables(principal), pk=table_id).first()
    if row is None:
        raise NotFound(f"there is no table {table_id}", code="table_not_found")
    return row


def table_named(principal: Principal, name: str) -> Table:
    """By `datasource.database.table`, or `database.table` in the lake."""
    return table_at(principal, *split_table_name(name))


def table_at(principal: Principal, datasource: str, database: str, name: str) -> Table:
    if datasource.lower() == LAKE:
        datasource, database, name = LAKE, database.lower(), name.lower()
    row = (
        _rows()
        .filter(
            visible_tables(principal),
            database__datasource__name=datasource,
            database__name=database,
            name=name,
        )
        .first()
    )
    if row is None:
        raise absent(Securable(datasource, database, name))
    return row


def securable_of(table: Table) -> Securable:
    """The table as a policy securable; needs `database__datasource`."""
    database = table.database
    return Securable(database.datasource.name, database.name, table.name)


def _rows() -> QuerySet[Table]:
    added = {name: make() for name, make in extensions.registered.annotations.items()}
    return (
        Table.objects.select_related("database__datasource")
        .prefetch_related("columns")
        .annotate(**added)
    )


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
