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
    wanted, unwanted = _Patterns.of(include), _Patterns.of(exclude)
    used: set[int] = set()
    matched: list[int] = []
    for index, (database, table) in enumerate(names):
        hits = wanted.hits(database, table)
        used.update(hits)
        if hits and not unwanted.hits(database, table):
            matched.append(index)
    unmatched = tuple(i for i in range(len(include)) if i not in used)
    return Selection(tuple(matched), unmatched)


@dataclass(frozen=True, slots=True)
class _Patterns:
    """Plain names are looked up: thousands of them against thousands of tables."""

    exact: dict[str, list[int]]
    wild: list[tuple[int, str]]

    @classmethod
    def of(cls, patterns: tuple[str, ...]) -> _Patterns:
        exact: dict[str, list[int]] = {}
        for index, pattern in enumerate(patterns):
            exact.setdefault(pattern, []).append(index)
        return cls(exact, [(i, p) for i, p in enumerate(patterns) if "*" in p])

    def hits(self, database: str, table: str) -> set[int]:
        found = set(self.exact.get(f"{database}.{table}", ()))
        return found.union(i for i, p in self.wild if matches(p, database, table))
