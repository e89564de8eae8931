"""Tables of a source to choose from: which match a search, and which can be synced.

A client never gets all of them: "all of this search" is decided here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Q, QuerySet

from catalog.access.policy import Principal
from catalog.discovery.store import (
    HIDES_ROWS,
    NO_PRIVILEGE,
    NOT_SYNCED,
    UNSUPPORTED,
    VANISHED,
)
from catalog.like import escaped
from catalog.models import Table
from catalog.selectors.tables import TableFilter, tables_for
from catalog.sources.registry import kind_named
from core.sentences import Sentence


@dataclass(frozen=True, slots=True)
class Uncarried:
    """name  `database.table`. way_out  a sentence on what would change it"""

    name: str
    reason: str
    way_out: str


def uncarried(
    database: str, table: str, *, status: str, reason: str, login: tuple[str, str]
) -> Uncarried:
    """Of a table whose status is one of NOT_SYNCED; login: kind and user name."""
    kind, username = login
    grant = kind_named(kind).privileges.select_grant(username, database, table)
    ways = {
        NO_PRIVILEGE: Sentence("run %(grant)s and discover again", grant=grant),
        UNSUPPORTED: "sync the tables behind it, and define it again in the lake",
        VANISHED: "discover the source again, if it is back",
    }
    way_out = _see_all(kind, username) if reason == HIDES_ROWS else ways[status]
    return Uncarried(f"{database}.{table}", reason, way_out)


def _see_all(kind: str, username: str) -> str:
    statement = kind_named(kind).privileges.all_rows_grant(username)
    return Sentence(
        "run %(statement)s and discover again; of a table that holds"
        " some rows only, sync a copy",
        statement=statement,
    )


MOST_COUNTED = 100_000
UNSYNCED = Q(("lake_table", None))  # an annotation of the selector
CANNOT = Q(status__in=NOT_SYNCED)
FREE = UNSYNCED & ~CANNOT
MOST_PASSED_OVER = 50
WILD = "*"


@dataclass(frozen=True, slots=True)
class Search:
    """q: part of a name, `database.prefix`, or with stars a pattern of whole names."""

    q: str = ""
    database: str = ""
    is_free: bool = False

    @classmethod
    def of(cls, given: Mapping[str, Any], prefix: str = "") -> Search:
        return cls(
            q=str(given.get(f"{prefix}q", "")).strip()[:300],
            database=str(given.get(f"{prefix}database", "")),
            is_free=given.get(f"{prefix}show", "") == "free",
        )

    def rows(self, principal: Principal, source: str) -> QuerySet[Table]:
        """In the order of the list."""
        q = "" if WILD in self.q else self.q
        wanted = TableFilter(source, self.database, kind=Table.SOURCE, q=q)
        rows = tables_for(principal, wanted).prefetch_related(None)
        if WILD in self.q:
            rows = rows.filter(_pattern(self.q))
        if self.is_free:
            rows = rows.filter(FREE)
        return rows.order_by("database__name", "name", "id")


def counts_of(rows: QuerySet[Table]) -> dict[str, int]:
    """How many match, how many of these can be chosen, and how many never can."""
    bare = rows.order_by()
    return {
        "total": bare.values("pk")[:MOST_COUNTED].count(),
        "free": bare.filter(FREE).values("pk")[:MOST_COUNTED].count(),
        "cannot": bare.filter(CANNOT).values("pk")[:MOST_COUNTED].count(),
    }


def names_of(rows: QuerySet[Table], *, without: set[str]) -> list[str]:
    """`database.table` of all that are not synced yet, but for those named."""
    free = rows.filter(FREE).values_list("database__name", "name")
    names = (f"{database}.{table}" for database, table in free[:MOST_COUNTED])
    return [name for name in names if name not in without]


def passed_over(rows: QuerySet[Table]) -> list[Uncarried]:
    """Those of a search that cannot be synced, as "Choose all" passes them over."""
    return [why_not(table) for table in rows.filter(CANNOT)[:MOST_PASSED_OVER]]


def why_not(table: Table) -> Uncarried:
    """Of a table whose status says that it cannot be synced."""
    source = table.database.datasource
    return uncarried(
        table.database.name,
        table.name,
        status=table.status,
        reason=table.status_reason,
        login=(source.kind, source.username),
    )


def _pattern(q: str) -> Q:
    """`public.order*` or `*_log`: whole names, a star for any text."""
    database, dot, name = q.rpartition(".")
    wanted = Q(name__like=_like(name))
    return wanted & Q(database__name__like=_like(database)) if dot else wanted


def _like(pattern: str) -> str:
    return "%".join(escaped(part) for part in pattern.split(WILD))
