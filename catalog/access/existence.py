"""Whether the thing that a grant names is there, and names that complete what is typed.

Grants by name may come before their tables; a mistyped name is reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

from django.db.models import QuerySet

from catalog.access.policy import Securable
from catalog.like import escaped
from catalog.models import Column, Database, Datasource, Table
from catalog.names import LAKE, join_name
from core.errors import InvalidRequest

MOST = 40
MOST_COMPARED, MOST_NEAR = 2_000, 3


def what_is_missing(on: Securable) -> str:
    """A sentence on the first part that is not there; "" when all are."""
    # the lake is always there; it has no row before its first table
    is_there = Datasource.objects.filter(name=on.datasource).exists
    if on.datasource != LAKE and not is_there():
        return f"there is no datasource '{on.datasource}'{_meant(on)}"
    of_source = Database.objects.filter(datasource__name=on.datasource)
    if on.database and not of_source.filter(name=on.database).exists():
        return f"{on.datasource} has no database '{on.database}'{_meant(on)}"
    tables = Table.objects.filter(
        database__datasource__name=on.datasource, database__name=on.database
    )
    if on.table and not tables.filter(name=on.table).exists():
        return f"{on.datasource}.{on.database} has no table '{on.table}'"
    return ""


def require_known(on: Securable) -> None:
    """InvalidRequest, with the names that are nearest, when something is not there."""
    if not (missing := what_is_missing(on)):
        return
    near = nearest(on)
    meant = f"did you mean {' or '.join(near)}? " if near else ""
    raise InvalidRequest(
        missing,
        code="unknown_name",
        hint=f'{meant}Send "allow_unknown": true for a name that will be',
        facts={"errors": [{"pointer": "/on", "detail": missing}], "nearest": near},
    )


def require_columns(on: Securable, columns: Iterable[str]) -> None:
    """InvalidRequest when the table has no column of such a name."""
    known = set(
        Column.objects.filter(
            table__database__datasource__name=on.datasource,
            table__database__name=on.database,
            table__name=on.table,
        ).values_list("name", flat=True)
    )
    missing = sorted({c for c in columns if c.lower() not in known})
    if missing:
        raise InvalidRequest(
            f"{on} has no column '{missing[0]}'",
            code="unknown_column",
            hint='Send "allow_unknown": true for a name that will be',
            facts={"errors": [{"pointer": "/columns", "detail": missing[0]}]},
        )


def nearest(on: Securable) -> list[str]:
    """Full names like that of the first part that is not there, the likeliest first."""
    parts = [part for part in (on.datasource, on.database, on.table) if part]
    above: list[str] = []
    for wrong in parts:
        known = _names_in(above)
        if not known.filter(name=wrong).exists():
            names = known.order_by("name").values_list("name", flat=True)
            found = get_close_matches(wrong, names[:MOST_COMPARED], n=MOST_NEAR)
            return [join_name(*above, name) for name in found]
        above.append(wrong)
    return []


def _names_in(above: Sequence[str]) -> QuerySet[Any]:
    """What lies below these parts of a name: datasources, databases or tables."""
    if not above:
        return Datasource.objects.all()
    if len(above) == 1:
        return Database.objects.filter(datasource__name=above[0])
    return Table.objects.filter(
        database__datasource__name=above[0], database__name=above[1]
    )


def names_like(typed: str) -> list[str]:
    """Full names that begin like `typed`, part by part."""
    parts = typed.split(".")
    if len(parts) == 1:
        rows = Datasource.objects.filter(name__like=_prefix(typed))
        return list(rows.order_by("name").values_list("name", flat=True)[:MOST])
    source, *rest = parts
    if len(rest) == 1:
        found = Database.objects.filter(
            datasource__name=source, name__like=_prefix(rest[0])
        )
        names = found.order_by("name").values_list("name", flat=True)[:MOST]
        return [join_name(source, name) for name in names]
    table = ".".join(rest[1:])
    tables = Table.objects.filter(
        database__datasource__name=source,
        database__name=rest[0],
        name__like=_prefix(table),
    )
    last = tables.order_by("name").values_list("name", flat=True)[:MOST]
    return [join_name(source, rest[0], name) for name in last]


def _meant(on: Securable) -> str:
    """Names without `lake.` are read as those of a source."""
    lake = Database.objects.filter(datasource__name=LAKE, name=on.datasource)
    if on.table or not lake.exists():
        return ""
    meant = [name for name in (LAKE, on.datasource, on.database) if name]
    return f"; did you mean {join_name(*meant)}?"


def _prefix(text: str) -> str:
    return f"{escaped(text)}%"
