"""Tables of live sources for SQL, as far as a principal may see or read them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from django.db.models import Exists, OuterRef, Q

from catalog.access.enforcement import decision_for
from catalog.access.grants import grants_around, rows_for
from catalog.access.policy import Principal, Privilege, Securable
from catalog.access.rules import limits_for
from catalog.access.table_rights import limits_of
from catalog.access.visibility import visible_databases, visible_tables
from catalog.extensions import registered
from catalog.models import Column, Database, Datasource, Table
from catalog.names import LAKE


@dataclass(frozen=True, slots=True)
class LiveTable:
    """table   what an engine needs to know of it
    access  how it is reached, with the password; None for who may only see it
    """

    table: dict[str, Any]
    access: dict[str, Any] | None = field(repr=False)


def live_table(
    principal: Principal, datasource: str, database: str, table: str
) -> LiveTable | None:
    """The table under these names, spelled so or, when only one is, in other case;
    None when there is none that the principal may see."""
    found = _named(datasource, database, table)
    if found is None:
        return None
    on = Securable(found.database.datasource.name, found.database.name, found.name)
    may_read = _reads(principal, on)
    if not may_read and not decision_for(principal, Privilege.DISCOVER, on).allowed:
        return None
    columns = list(Column.objects.filter(table=found).order_by("position"))
    access = registered.live_access(found.database.datasource) if may_read else None
    return LiveTable(registered.live_table(found, columns), access)


def live_names(
    principal: Principal, datasource: str = "", database: str = "", *, limit: int
) -> list[str]:
    """Names that the principal may see, in order: of sources; of the databases of one;
    of the tables in one of these. The names above may be in other case."""
    if not datasource:
        sources = Datasource.objects.exclude(name=LAKE).filter(_granted(principal))
        return list(sources.order_by("name").values_list("name", flat=True)[:limit])
    databases = Database.objects.filter(
        visible_databases(principal, for_sql=True), datasource__name__iexact=datasource
    ).exclude(datasource__name=LAKE)
    if not database:
        return list(databases.order_by("name").values_list("name", flat=True)[:limit])
    found = list(databases.filter(name__iexact=database)[:100])
    exact = [each for each in found if each.name == database]
    one = next(iter(exact or (found if len(found) == 1 else [])), None)
    if one is None:
        return []
    tables = Table.objects.filter(database=one, kind=Table.SOURCE)
    if not principal.is_admin:
        held = rows_for(principal).exclude(columns=[])
        in_part = held.filter(datasource=one.datasource.name, database=one.name)
        seen = Q(name__in=in_part.values("table")) | visible_tables(principal)
        tables = tables.filter(seen)
    return list(tables.order_by("name").values_list("name", flat=True)[:limit])


def live_columns(
    principal: Principal, datasource: str, database: str, table: str
) -> list[Column]:
    """Those that exist for the principal, in order; [] when the table does not."""
    found = _named(datasource, database, table)
    if found is None:
        return []
    on = Securable(found.database.datasource.name, found.database.name, found.name)
    is_seen = decision_for(principal, Privilege.DISCOVER, on).allowed
    limits = limits_for(principal, on.datasource).at(on)
    if not is_seen and limits.columns is None:
        return []
    columns = Column.objects.filter(table=found).exclude(type="").order_by("position")
    return [c for c in columns if limits.shows(c.name, shows_keys=False)]


def _granted(principal: Principal) -> Q:
    """Sources with a grant on them or on something in them, on some columns, too."""
    if not principal.is_active:
        return Q(pk__in=[])
    if principal.is_admin:
        return Q()
    return Q(Exists(rows_for(principal).filter(datasource=OuterRef("name"))))


def _reads(principal: Principal, on: Securable) -> bool:
    """All of it, or some columns."""
    if decision_for(principal, Privilege.SELECT, on).allowed:
        return True
    if not principal.is_active:
        return False
    limits = limits_of(principal, grants_around(principal, on), ())
    return limits.at(on).columns is not None


def _named(datasource: str, database: str, table: str) -> Table | None:
    rows = (
        Table.objects.filter(
            database__datasource__name__iexact=datasource,
            database__name__iexact=database,
            name__iexact=table,
            kind=Table.SOURCE,
        )
        .exclude(database__datasource__name=LAKE)
        .select_related("database__datasource")
    )
    found = list(rows[:100])
    exact = [t for t in found if (t.database.name, t.name) == (database, table)]
    return next(iter(exact or (found if len(found) == 1 else [])), None)
