"""Names of the lake and of live sources that complete what a user types, as far as they
may see them.

Every answer is a few statements with a limit, however large the catalog is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from catalog.access.policy import Principal
from catalog.like import escaped
from catalog.names import LAKE
from catalog.selectors.lake import (
    LakeColumn,
    lake_columns_of,
    lake_databases_matching,
    lake_tables_matching,
)
from catalog.selectors.live import live_columns, live_names, live_tables_matching

MOST, MOST_NAMES = 40, 1_000
MOST_TABLES = 6
_HIDDEN = ("_hoodie_", "_sluice_")
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Proposal:
    """`text` is what is inserted; `kind` is source, database, table or column."""

    text: str
    kind: str
    detail: str = ""


def proposals_for(
    principal: Principal, typed: str, tables: Sequence[str]
) -> list[Proposal]:
    """What `typed` may become: `pre`, `database.pre` or `database.table.pre`, each also
    below the name of a live source.

    tables: `database.table`, or `source.database.table`, of the statement so far; their
    columns come first.
    """
    *path, prefix = _parts(typed)
    if len(path) == 3:
        found = _below(path, _columns(principal, [path], prefix))
    elif len(path) == 2:
        columns = _below(path, _columns(principal, [path], prefix))
        found = [*columns, *_live_tables(principal, path, prefix)]
    elif path:
        found = [
            *_tables(principal, path[0], prefix),
            *_live_names(principal, path, prefix),
        ]
    else:
        named = [_parts(table) for table in tables[:MOST_TABLES]]
        found = [
            *_columns(principal, named, prefix),
            *_databases(principal, prefix),
            *_live_names(principal, path, prefix),
            *_tables(principal, "", prefix),
        ]
    first: dict[str, Proposal] = {}
    for one in found:
        first.setdefault(one.text, one)
    return list(first.values())[:MOST]


def columns_for(principal: Principal, table: str, prefix: str) -> list[Proposal]:
    """Columns of `database.table`, or `source.database.table`, for a name that stands
    for it in the statement."""
    return _columns(principal, [_parts(table)], prefix.lower())[:MOST]


def _parts(typed: str) -> list[str]:
    parts = [part.replace("`", "").lower() for part in typed[:600].split(".")]
    return parts[1:] if parts[0] == LAKE and len(parts) > 1 else parts


def _below(path: list[str], found: list[Proposal]) -> list[Proposal]:
    return [
        Proposal(".".join([*quoted(path), one.text]), one.kind, one.detail)
        for one in found
    ]


def _live_names(principal: Principal, path: list[str], prefix: str) -> list[Proposal]:
    """Sources, or the databases of one."""
    if not (path or prefix):
        return []
    kind = "database" if path else "source"
    return [
        Proposal(".".join(quoted([*path, name])), kind)
        for name in live_names(principal, *path, limit=MOST_NAMES)
        if name.lower().startswith(prefix)
    ]


def _live_tables(principal: Principal, path: list[str], prefix: str) -> list[Proposal]:
    patterns = (escaped(path[1]), f"{escaped(prefix)}%")
    found = live_tables_matching(principal, path[0], patterns, limit=MOST)
    return [Proposal(".".join(quoted(one.on.parts)), "table") for one in found]


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
    principal: Principal, tables: Sequence[Sequence[str]], prefix: str
) -> list[Proposal]:
    found: dict[str, Proposal] = {}
    for table in tables:
        for column in _columns_of(principal, table):
            is_hidden = column.name.startswith(_HIDDEN) and not prefix.startswith("_")
            if column.name.lower().startswith(prefix) and not is_hidden:
                text = quoted([column.name])[0]
                found.setdefault(text, Proposal(text, "column", column.type))
    return list(found.values())


def _columns_of(principal: Principal, table: Sequence[str]) -> list[LakeColumn]:
    if len(table) == 3:
        return live_columns(principal, *table)
    return lake_columns_of(principal, *table) if len(table) == 2 else []


def quoted(names: Sequence[str]) -> list[str]:
    """Names as Spark takes them: backticks around what is not a plain word."""
    return [
        name if _PLAIN.fullmatch(name) else "`" + name.replace("`", "``") + "`"
        for name in names
    ]
