"""What a principal may see: datasources, databases, and tables with their columns."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Q, QuerySet

from catalog.access.enforcement import absent
from catalog.access.policy import Principal, Securable
from catalog.access.scope import in_scope, scope_of
from catalog.access.visibility import visible_databases, visible_datasources
from catalog.models import Database, Datasource, Table
from catalog.selectors.lookups import annotated_tables

SHORTEST_TRIGRAM = 3


@dataclass(frozen=True, slots=True)
class TableFilter:
    """What to list; "" = any. `q` is a part of a name, or `database.prefix`; `owner`
    "user:ann" or "group:bi"."""

    datasource: str = ""
    database: str = ""
    status: str = ""
    kind: str = ""
    q: str = ""
    tag: str = ""
    owner: str = ""


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
        "owner": wanted.owner,
        "tags__contains": [wanted.tag] if wanted.tag else [],
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


def datasources_for(
    principal: Principal, *, q: str = "", tag: str = "", owner: str = ""
) -> QuerySet[Datasource]:
    """q: a part of the name; "" = any."""
    wanted = {
        "name__icontains": q,
        "tags__contains": [tag.lower()] if tag else [],
        "owner": owner,
    }
    wanted = {name: value for name, value in wanted.items() if value}
    return Datasource.objects.filter(visible_datasources(principal), **wanted)


def datasource_for(principal: Principal, name: str) -> Datasource:
    """The datasource of that name; NotFound when absent or hidden."""
    row = datasources_for(principal).filter(name=name).first()
    if row is None:
        raise absent(Securable(name))
    return row


def databases_for(principal: Principal, datasource: str) -> QuerySet[Database]:
    """Visible databases of one datasource, with it."""
    return Database.objects.filter(
        visible_databases(principal), datasource__name=datasource
    ).select_related("datasource")


def database_for(principal: Principal, datasource: str, name: str) -> Database:
    row = databases_for(principal, datasource).filter(name=name).first()
    if row is None:
        raise absent(Securable(datasource, name))
    return row
