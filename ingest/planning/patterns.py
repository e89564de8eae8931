"""Which tables a request means: `db.table`, `db.*`, `db.ord*`, `*`. Pure.

An exact name is tried first, so that a table whose name holds a dot or a star can
always be named.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True, slots=True)
class Selection:
    """Indexes of the matched names, in the order given; `unmatched` patterns."""

    matched: tuple[int, ...]
    unmatched: tuple[int, ...]


def matches(pattern: str, database: str, table: str) -> bool:
    if pattern in {"*", "*.*", f"{database}.{table}"}:
        return True
    if pattern == f"{database}.*":
        return True
    if "*" not in pattern:
        return False
    return fnmatchcase(f"{database}.{table}", _literal(pattern))


def _literal(pattern: str) -> str:
    """Only `*` is special to us; the other wildcards of fnmatch are not."""
    return pattern.replace("[", "[[]").replace("?", "[?]")


def select(
    names: Iterable[tuple[str, str]],
    *,
    include: tuple[str, ...],
    exclude: tuple[str, ...] = (),
) -> Selection:
    """Names that some `include` pattern means and no `exclude` pattern does.

    unmatched: indexes of include patterns that mean no name at all.
    """
    used: set[int] = set()
    matched: list[int] = []
    for index, (database, table) in enumerate(names):
        hits = [i for i, p in enumerate(include) if matches(p, database, table)]
        used.update(hits)
        if hits and not any(matches(p, database, table) for p in exclude):
            matched.append(index)
    unmatched = tuple(i for i in range(len(include)) if i not in used)
    return Selection(tuple(matched), unmatched)
