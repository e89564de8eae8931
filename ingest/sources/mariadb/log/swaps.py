"""A table that a tool for schema changes (gh-ost, pt-online-schema-change) fills beside
a followed one, and then puts into its place.

What the tool copies is not read: it is rows of the followed table, which the lake has.
So it has to be known from its creation on that it was made as a copy, altered in ways
that are followed before it had rows, and filled. Whether the tool lost nothing is found
out by a comparison. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ingest.sources.mariadb.log.statements import Effect, Name

GH_OST, PT_OSC = "gh-ost", "pt-online-schema-change"
# Characters of a table's name, at most; both tools cut theirs off, in their own ways.
_LONGEST = 64
_GHOST = "_{}_gho"
_LONGEST_GHOST = _LONGEST - len(_GHOST.format(""))
_PREFIXES = ["_" * n for n in range(1, 11)]


@dataclass(frozen=True, slots=True)
class Shadow:
    """touches: columns, in lower case, that were altered before it had rows.
    is_filled: rows of it were in the log."""

    name: str
    touches: tuple[str, ...] = ()
    is_filled: bool = False


def tool_of(table: str, shadow: str) -> str:
    """Which tool calls a copy of the table so; "" = none."""
    if shadow == _GHOST.format(table[:_LONGEST_GHOST]):
        return GH_OST
    names = {f"{prefix}{table}_new"[:_LONGEST] for prefix in _PREFIXES}
    return PT_OSC if shadow in names else ""


def shadow_behind(
    shadow: Shadow | None, name: Name, effect: Effect, *, is_copy: Callable[[], bool]
) -> Shadow | None:
    """What is known behind a statement that does not swap them. name: of the followed
    table. is_copy: whether a table that the statement makes is defined as that is."""
    if effect.is_about(name):
        return None
    database, table = name
    found = [
        other for at, other in effect.tables if at == database and tool_of(table, other)
    ]
    if found and effect.is_new:
        is_like = effect.like == name if any(effect.like) else is_copy()
        return Shadow(found[0]) if is_like else None
    if shadow is None or shadow.name not in found:
        return shadow
    is_late = bool(effect.touches) and shadow.is_filled
    is_kept = effect.is_harmless and not (effect.drops or effect.is_unique)
    if is_late or not is_kept:
        return None
    touches = {*shadow.touches, *effect.touches}
    return replace(shadow, touches=tuple(sorted(touches)))


def is_swap(shadow: Shadow | None, name: Name, effect: Effect) -> bool:
    """Whether the shadow took the table's place, and both always had a place."""
    if shadow is None or not shadow.is_filled or len(effect.renames) != 2:
        return False
    (first, _), second = effect.renames
    return first == name and second == ((name[0], shadow.name), name)
