"""Ranked search over names, columns and comments, cheap however large the catalog is.

One statement looks from the best kind of match to the weakest and stops as soon as the
page is full; each kind has an index of its own. Says what matched.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from django.db import connection

from catalog.access.policy import Principal
from catalog.access.scope import Reach, Scope, scope_of
from catalog.like import literally
from catalog.selectors import search_sql
from catalog.selectors.tables import TableFilter

MOST = 1_000
SHORTEST_FUZZY = 3
MOST_WORDS = 4
LONGEST = 300


@dataclass(frozen=True, slots=True)
class Hit:
    """A table that was found. field: name, database, column or comment; the text of a
    column's comment begins with the column's name.
    """

    table_id: int
    field: str
    text: str


@dataclass(frozen=True, slots=True)
class Hits:
    """Best first. Nothing is said about how many there are in all."""

    items: list[Hit]
    has_more: bool


def search_tables(
    principal: Principal, wanted: TableFilter, *, limit: int, offset: int = 0
) -> Hits:
    """Visible tables that match `wanted.q` (and its filters), best first.

    Words of `q` all have to occur; `database.prefix` names a place. Below three letters
    only beginnings of names count. At most MOST are found. Two statements, one for
    administrators.
    """
    scope = scope_of(principal, wanted.datasource)
    # no name holds a NUL, and PostgreSQL takes none
    wanted = replace(wanted, q=wanted.q.replace("\x00", " ").strip()[:LONGEST])
    words = wanted.q.split()[:MOST_WORDS]
    if scope.reach is Reach.NOTHING or not words or offset >= MOST:
        return Hits([], has_more=False)
    enough = min(offset + limit, MOST) + 1
    sql, params = _statement(scope, wanted, words)
    with connection.cursor() as cursor:
        cursor.execute(sql, params | {"enough": enough})
        rows = cursor.fetchall()
    found: dict[int, Hit] = {}
    for table_id, field, text in rows:
        found.setdefault(table_id, Hit(table_id, field, text))
    page = list(found.values())[offset : min(offset + limit, MOST)]
    return Hits(page, has_more=len(rows) == enough and offset + limit < MOST)


def _statement(
    scope: Scope, wanted: TableFilter, words: list[str]
) -> tuple[str, dict[str, Any]]:
    q = wanted.q
    params: dict[str, Any] = {
        "q": q,
        "prefix": literally(q) + "%",
        "fuzzy": max(words, key=len).lower(),
        "databases": list(scope.databases),
        "tables": list(scope.tables),
        "kind": wanted.kind,
        "status": wanted.status,
        "datasource": wanted.datasource,
        "database": wanted.database,
    }
    params |= {f"word{n}": f"%{literally(word)}%" for n, word in enumerate(words)}
    place, dot, rest = q.rpartition(".")
    stages: tuple[str, ...] = search_sql.ALL
    if dot:
        params |= {"place": place.rpartition(".")[2], "rest": literally(rest) + "%"}
        stages = search_sql.PLACED
    elif len(q) < SHORTEST_FUZZY:
        stages = search_sql.SHORT
    filters = [
        text for name, text in search_sql.FILTERS.items() if getattr(wanted, name)
    ]
    sql = search_sql.statement(stages, words=words, filters=filters, reach=scope.reach)
    return sql, params
