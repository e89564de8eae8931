"""Tables of live sources for SQL, as far as a principal may see or read them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from catalog.access.enforcement import decision_for
from catalog.access.grants import grants_around
from catalog.access.policy import Principal, Privilege, Securable
from catalog.access.table_rights import limits_of
from catalog.extensions import registered
from catalog.models import Column, Table
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
