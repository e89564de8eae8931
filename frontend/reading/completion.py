"""Names of the lake that complete what a user types, as far as they may see them.

Every answer is one or two statements with a limit, however large the catalog is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from catalog.access.policy import Principal
from catalog.like import escaped
from catalog.selectors import (
    lake_columns_of,
    lake_databases_matching,
    lake_tables_matching,
)

MOST = 40
MOST_TABLES = 6
_HIDDEN = ("_hoodie_", "_sluice_")
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Proposal:
    """`text` is what is inserted; `kind` is database, table or column."""

    text: str
    kind: str
    detail: str = ""


def proposals_for(
    principal: Principal, typed: str, tables: Sequence[str]
) -> list[Proposal]:
    """What `typed` may become: `pre`, `database.pre` or `database.table.pre`.

    tables: `database.table` of the statement so far; their columns come first.
    """
    *path, prefix = _parts(typed)
    if len(path) > 1:
        found = _columns(principal, [f"{path[-2]}.{path[-1]}"], prefix)
        return [Proposal(".".join(quoted([*path, one.text])), one.kind, one.detail)
                for one in found][:MOST]  # fmt: skip
    if path:
        return _tables(principal, path[0], prefix)
    found = _columns(principal, tables[:MOST_TABLES], prefix)
    return [*found, *_databases(principal, prefix), *_tables(principal, "", prefix)][
        :MOST
    ]


def columns_for(principal: Principal, table: str, prefix: str) -> list[Proposal]:
    """Columns of `database.table`, for a name that stands for it in the statement."""
    return _columns(principal, [table], prefix.lower())[:MOST]


def _parts(typed: str) -> list[str]:
    return [part.replace("`", "").lower() for part in typed[:300].split(".")][-3:]


def _databases(principal: Principal, prefix: str) -> list[Proposal]:
    pattern = f"{escaped(prefix)}%"
    names = lake_databases_matching(principal, pattern, limit=MOST)
    return [Proposal(quoted([name])[0], "database") for name in names]


def _tables(principal: Principal, database: str, prefix: str) -> list[Proposal]:
    if not (database or prefix):
        return []
    place = escaped(database) if database else None
    found = lake_tables_matching(principal, place, f"{escaped(prefix)}%", MOST)
    return [
        Proposal(".".join(quoted([one.database, one.name])), "table", one.comment[:80])
        for one in found
    ]


def _columns(
    principal: Principal, tables: Sequence[str], prefix: str
) -> list[Proposal]:
    found: dict[str, Proposal] = {}
    for table in tables:
        database, _, name = table.replace("`", "").lower().partition(".")
        if not name:
            continue
        for column in lake_columns_of(principal, database, name):
            is_hidden = column.name.startswith(_HIDDEN) and not prefix.startswith("_")
            if column.name.lower().startswith(prefix) and not is_hidden:
                text = quoted([column.name])[0]
                found.setdefault(text, Proposal(text, "column", column.type))
    return list(found.values())


def quoted(names: Sequence[str]) -> list[str]:
    """Names as Spark takes them: backticks around what is not a plain word."""
    return [
        name if _PLAIN.fullmatch(name) else "`" + name.replace("`", "``") + "`"
        for name in names
    ]
