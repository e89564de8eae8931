"""Questions about a source column's type, answered by its kind of source. Pure.

The types themselves are told by one module per family of sources; a type that is not
carried has a reason, and nothing is ever carried approximately in silence.
"""

from __future__ import annotations

from collections.abc import Callable

from catalog.schema.mapped import Lossy
from catalog.sources.families import Family, family_of
from catalog.sources.mariadb import types as mariadb
from catalog.sources.postgresql import types as postgresql

_CANNOT_HOLD: dict[Family, Callable[[str, str], str]] = {
    "postgresql": postgresql.cannot_hold,
    "mariadb": mariadb.cannot_hold,
}
_UNSUPPORTED: dict[Family, Callable[[str], str]] = {
    "postgresql": postgresql.unsupported_reason,
    "mariadb": mariadb.unsupported_reason,
}


def cannot_hold(source_type: str, lake: str, *, kind: str) -> str:
    """Which values of a column's type have no place in its lake type; "" = none."""
    return _CANNOT_HOLD[family_of(kind)](source_type, lake)


def unsupported_reason(source_type: str, *, kind: str) -> str:
    """Why a column of this type is not carried, from the type's text alone."""
    return _UNSUPPORTED[family_of(kind)](source_type)


def proposed_choice(source_type: str, lake: str, *, kind: str) -> Lossy:
    """What to do with values the lake type cannot hold, unless somebody chooses.

    A number too wide for any lake type became a string: that is a choice as well.
    """
    if not lake:
        return ""
    if lake == "string" and source_type.startswith(("numeric", "decimal")):
        return "string"
    return "null" if cannot_hold(source_type, lake, kind=kind) else ""


def chosen_type(lake: str, lossy: Lossy) -> str:
    """The lake type after the choice for values it cannot hold."""
    if lossy != "string":
        return lake
    return "array<string>" if lake.startswith("array<") else "string"
