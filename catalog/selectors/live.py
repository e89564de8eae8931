"""Tables of live sources for SQL, as far as a principal may see or read them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from django.db.models import Q
from django.db.models.functions import Upper

from catalog.access.enforcement import decision_for
from catalog.access.grants import grants_around
from catalog.access.policy import Principal, Privilege, Securable
from catalog.access.rules import limits_for
from catalog.access.scope import in_scope, scope_of
from catalog.access.table_rights import Limits, limits_of
from catalog.access.visibility import visible_databases, visible_datasources
from catalog.extensions import registered
from catalog.like import for_sql, is_everything, matcher
from catalog.models import Column, Database, Datasource, Table
from catalog.names import LAKE
from catalog.selectors.lake import LakeColumn
from catalog.selectors.locations import LiveTable


@dataclass(frozen=True, slots=True)
class LiveName:
    """A source's table; `on` has the names as the catalog spells them."""

    pk: int
    on: Securable


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
    source = found.database.datasource
    access = registered.live_access(source) if may_read else None
    described = registered.live_table(found, columns)
    return LiveTable(described, access, source.name, _version(source))


def live_versions(sources: Collection[str]) -> dict[str, str]:
    """By name, of those that there are, what changes with how they are reached."""
    found = Datasource.objects.filter(name__in=sources).only("name", "version")
    return {source.name: _version(source) for source in found}


def _version(source: Datasource) -> str:
    return f"{source.pk}:{source.version}"


def end_statements(source: str, mark: str) -> None:
    """Those of an engine that is gone, which go on at a source that is still known.
    SluiceError and the source's own errors when it cannot be reached."""
    for found in Datasource.objects.filter(name=source):
        registered.live_end(found, mark)


def live_names(
    principal: Principal, datasource: str = "", database: str = "", *, limit: int
) -> list[str]:
    """Names that the principal may see, in order: of sources; of the databases of one;
    of the tables in one of these. The names above may be in other case."""
    if not datasource:
        seen = visible_datasources(principal, for_sql=True)
        sources = Datasource.objects.exclude(name=LAKE).filter(seen)
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
    tables = Table.objects.filter(_seen(principal), database=one, kind=Table.SOURCE)
    return list(tables.order_by("name").values_list("name", flat=True)[:limit])


def live_tables_matching(
    principal: Principal,
    datasource: str,
    patterns: tuple[str | None, str | None],
    *,
    limit: int,
) -> list[LiveName]:
    """Tables of a source that the principal may see, in order. patterns: JDBC's, of
    database and table, in any case. Two statements."""
    databases = Database.objects.filter(
        visible_databases(principal, for_sql=True), datasource__name__iexact=datasource
    ).exclude(datasource__name=LAKE)
    matches = matcher(patterns[0])
    within = [pk for pk, name in databases.values_list("pk", "name") if matches(name)]
    rows = Table.objects.filter(
        _seen(principal), database__in=within, kind=Table.SOURCE
    )
    if patterns[1] is not None and not is_everything(patterns[1]):
        rows = rows.annotate(folded=Upper("name"))
        rows = rows.filter(folded__like=for_sql(patterns[1]).upper())
    found = rows.order_by("database__name", "name", "pk").values_list(
        "pk", "database__datasource__name", "database__name", "name"
    )
    return [LiveName(pk, Securable(*parts)) for pk, *parts in found[:limit]]


def live_columns_matching(
    principal: Principal, tables: Sequence[LiveName], pattern: str | None
) -> list[LakeColumn]:
    """Columns that exist for the principal of tables of one source that they may see,
    in order of table and column, as queries see them. Three statements."""
    if not tables:
        return []
    limits = limits_for(principal, tables[0].on.datasource)
    columns = Column.objects.filter(table__in=[one.pk for one in tables])
    by_table: dict[int, list[Column]] = {}
    for column in columns.exclude(type="").order_by("table", "position"):
        by_table.setdefault(column.table_id, []).append(column)
    matches = matcher(pattern)
    return [
        column
        for one in tables
        for column in _as_queried(one.on, by_table.get(one.pk, []), limits)
        if matches(column.name)
    ]


def live_columns(
    principal: Principal, datasource: str, database: str, table: str
) -> list[LakeColumn]:
    """Those that exist for the principal, in order; [] when the table does not."""
    found = _named(datasource, database, table)
    if found is None:
        return []
    on = Securable(found.database.datasource.name, found.database.name, found.name)
    is_seen = decision_for(principal, Privilege.DISCOVER, on).allowed
    limits = limits_for(principal, on.datasource)
    if not is_seen and limits.at(on).columns is None:
        return []
    columns = Column.objects.filter(table=found).exclude(type="").order_by("position")
    return _as_queried(on, list(columns), limits)


def _as_queried(
    on: Securable, columns: list[Column], limits: Limits
) -> list[LakeColumn]:
    rights = limits.at(on)
    shown = [c for c in columns if rights.shows(c.name, shows_keys=False)]
    return [
        LakeColumn(
            database=on.database,
            table=on.table,
            name=column.name,
            type=column.type,
            position=position,
            nullable=column.nullable,
            key=column.key,
            comment=column.comment,
        )
        for position, column in enumerate(shown, start=1)
    ]


def _seen(principal: Principal) -> Q:
    """Tables on which the principal has a grant, be it on some columns only."""
    return in_scope(scope_of(principal, for_sql=True))


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
