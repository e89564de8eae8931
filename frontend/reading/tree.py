"""The schema tree beside the editor: databases, their tables, their columns.

Each level is read when it is opened.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from catalog.access.policy import Principal
from catalog.like import escaped
from catalog.schema.naming import is_system_column
from catalog.selectors import (
    lake_columns_of,
    lake_databases_matching,
    lake_tables_matching,
)
from frontend.reading.completion import quoted

MOST = 200


@dataclass(frozen=True, slots=True)
class Branch:
    """text  as the editor takes it. at  the query of the level below, "" = a leaf"""

    name: str
    text: str
    detail: str = ""
    at: str = ""


@dataclass(frozen=True, slots=True)
class Level:
    branches: list[Branch]
    has_more: bool = False


def level_of(principal: Principal, database: str, table: str) -> Level:
    """Databases; the tables of one; or the columns of one table."""
    if table:
        return Level(_columns(principal, database, table))
    if database:
        found: list[Any] = lake_tables_matching(principal, escaped(database), "%", MOST)
        return Level([_table(one) for one in found], has_more=len(found) >= MOST)
    names = lake_databases_matching(principal, "%", limit=MOST)
    return Level([_database(name) for name in names], has_more=len(names) >= MOST)


def _database(name: str) -> Branch:
    return Branch(name, ".".join(quoted([name])), at=urlencode({"database": name}))


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
