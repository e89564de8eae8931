"""The schema tree beside the editor: databases of the lake, sources and their
databases, tables, columns.

Each level is read when it is opened.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlencode

from catalog.access.policy import Principal
from catalog.like import escaped
from catalog.schema.naming import is_system_column
from catalog.selectors.lake import (
    lake_columns_of,
    lake_databases_matching,
    lake_tables_matching,
)
from catalog.selectors.live import live_columns, live_names
from frontend.reading.completion import quoted

MOST = 200
_LEVELS = ("source", "database", "table")


@dataclass(frozen=True, slots=True)
class Branch:
    """text  as the editor takes it. at  the query of the level below, "" = a leaf.
    place: of the topmost ones "lake" or "source": a source is read in place, and a
    database of the lake may have its name"""

    name: str
    text: str
    detail: str = ""
    at: str = ""
    place: Literal["", "lake", "source"] = ""


@dataclass(frozen=True, slots=True)
class Level:
    branches: list[Branch]
    has_more: bool = False


def level_of(
    principal: Principal, database: str, table: str, *, source: str = ""
) -> Level:
    """Databases; the tables of one; or the columns of one table: of the lake, or of a
    live source."""
    if source:
        return _live_level(
            principal, [part for part in (source, database, table) if part]
        )
    if table:
        return Level(_columns(principal, database, table))
    if database:
        found: list[Any] = lake_tables_matching(principal, escaped(database), "%", MOST)
        return Level([_table(one) for one in found], has_more=len(found) >= MOST)
    names = lake_databases_matching(principal, "%", limit=MOST)
    sources = live_names(principal, limit=MOST)
    return Level(
        [*map(_database, names), *(_live([name]) for name in sources)],
        has_more=max(len(names), len(sources)) >= MOST,
    )


def _live_level(principal: Principal, above: list[str]) -> Level:
    if len(above) == len(_LEVELS):
        columns = live_columns(principal, above[0], above[1], above[2])
        return Level([Branch(c.name, quoted([c.name])[0], c.type) for c in columns])
    names = live_names(principal, *above, limit=MOST)
    return Level([_live([*above, name]) for name in names], has_more=len(names) >= MOST)


def _live(parts: list[str]) -> Branch:
    at = urlencode(dict(zip(_LEVELS, parts, strict=False)))
    text = ".".join(quoted(parts))
    return Branch(parts[-1], text, at=at, place="source" if len(parts) == 1 else "")


def _database(name: str) -> Branch:
    at = urlencode({"database": name})
    return Branch(name, ".".join(quoted([name])), at=at, place="lake")


def _table(one: Any) -> Branch:
    text = ".".join(quoted([one.database, one.name]))
    at = urlencode({"database": one.database, "table": one.name})
    return Branch(one.name, text, one.comment[:80], at)


def _columns(principal: Principal, database: str, table: str) -> list[Branch]:
    return [
        Branch(column.name, quoted([column.name])[0], column.type)
        for column in lake_columns_of(principal, database, table)
        if not is_system_column(column.name)
    ]
