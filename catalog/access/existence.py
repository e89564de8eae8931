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
from core.sentences import Sentence, joined

MOST = 40
MOST_COMPARED, MOST_NEAR = 2_000, 3
_MEANT = "did you mean %(name)s?"
_ALLOW = 'Send "allow_unknown": true for a name that will be'
_NEAR = 'did you mean %(names)s? Send "allow_unknown": true for a name that will be'


def what_is_missing(on: Securable) -> str:
    """A sentence on the first part that is not there; "" when all are."""
    # the lake is always there; it has no row before its first table
    is_there = Datasource.objects.filter(name=on.datasource).exists
    if on.datasource != LAKE and not is_there():
        missing = Sentence(
            "there is no datasource '%(datasource)s'", datasource=on.datasource
        )
        return joined([missing, _meant(on)])
    of_source = _names_in([on.datasource])
    if on.database and not of_source.filter(name=on.database).exists():
        missing = Sentence(
            "%(datasource)s has no database '%(database)s'",
            datasource=on.datasource,
            database=on.database,
        )
        return joined([missing, _meant(on)])
    tables = _names_in([on.datasource, on.database])
    if on.table and not tables.filter(name=on.table).exists():
        return Sentence(
            "%(database)s has no table '%(table)s'",
            database=f"{on.datasource}.{on.database}",
            table=on.table,
        )
    return ""


def require_known(on: Securable) -> None:
    """InvalidRequest, with the names that are nearest, when something is not there."""
    if not (missing := what_is_missing(on)):
        return
    near = nearest(on)
    raise InvalidRequest(
        missing,
        code="unknown_name",
        hint=Sentence(_NEAR, names=", ".join(near)) if near else _ALLOW,
        facts={"errors": [{"pointer": "/on", "detail": missing}], "nearest": near},
    )


def require_columns(on: Securable, columns: Iterable[str]) -> None:
    """InvalidRequest when the table has no column of such a name."""
    known = set(columns_of(on).values_list("name", flat=True))
    missing = sorted({c for c in columns if c.lower() not in known})
    if missing:
        raise InvalidRequest(
            "%(table)s has no column '%(column)s'",
            table=on,
            column=missing[0],
            code="unknown_column",
            hint=_ALLOW,
            facts={"errors": [{"pointer": "/columns", "detail": missing[0]}]},
        )


def columns_of(on: Securable) -> QuerySet[Column]:
    """Of the table of that name."""
    return Column.objects.filter(
        table__database__datasource__name=on.datasource,
        table__database__name=on.database,
        table__name=on.table,
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
    *above, begun = typed.split(".", 2)
    rows = _names_in(above).filter(name__like=f"{escaped(begun)}%").order_by("name")
    return [join_name(*above, each.name) for each in rows.only("name")[:MOST]]


def _meant(on: Securable) -> str:
    """Names without `lake.` are read as those of a source."""
    lake = Database.objects.filter(datasource__name=LAKE, name=on.datasource)
    if on.table or not lake.exists():
        return ""
    meant = [name for name in (LAKE, on.datasource, on.database) if name]
    return Sentence(_MEANT, name=join_name(*meant))
