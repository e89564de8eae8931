"""Which tables a request means: `db.table`, `db.*`, `db.ord*`, `*`. Pure.

An exact name is tried first, so that a table whose name holds a dot or a star can
always be named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Selection:
    """Indexes of the matched names, in the order given; `unmatched` patterns."""

    matched: tuple[int, ...]
    unmatched: tuple[int, ...]


def is_wild(pattern: str) -> bool:
    """Whether it has to be tried on each name: a star, and not `*` or `db.*` alone."""
    return "*" in pattern.removesuffix(".*") and pattern not in {"*", "*.*"}


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
    """Names, `db.*` and `*` are looked up: thousands of them against thousands of
    tables. Only what is wild is tried on each name, in time that grows with it."""

    exact: dict[str, list[int]]
    wild: list[tuple[int, re.Pattern[str]]]

    @classmethod
    def of(cls, patterns: tuple[str, ...]) -> _Patterns:
        exact: dict[str, list[int]] = {}
        for index, pattern in enumerate(patterns):
            exact.setdefault(pattern, []).append(index)
        wild = [(i, _compiled(p)) for i, p in enumerate(patterns) if is_wild(p)]
        return cls(exact, wild)

    def hits(self, database: str, table: str) -> set[int]:
        name = f"{database}.{table}"
        dots = (at for at, letter in enumerate(name) if letter == ".")
        known = (name, "*", "*.*", *(f"{name[:at]}.*" for at in dots))
        found = {index for one in known for index in self.exact.get(one, ())}
        found.update(index for index, one in self.wild if one.fullmatch(name))
        return found


def _compiled(pattern: str) -> re.Pattern[str]:
    """Each part takes the first place that fits, for good; only `*` is special."""
    first, *middle, last = map(re.escape, pattern.split("*"))
    between = "".join(f"(?>.*?{part})" for part in middle if part)
    return re.compile(f"{first}{between}.*{last}", re.DOTALL)
