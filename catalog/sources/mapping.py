"""Questions about a source column's type, answered by its kind of source. Pure.

Each kind's folder describes its types; a type that is not synced has a reason, and
nothing is ever taken approximately in silence.
"""

from __future__ import annotations

from catalog.schema.mapped import Lossy
from catalog.sources.registry import kind_named


def cannot_hold(source_type: str, lake: str, *, kind: str) -> str:
    """Which values of a column's type have no place in its lake type; "" = none."""
    return kind_named(kind).types.cannot_hold(source_type, lake)


def unsupported_reason(source_type: str, *, kind: str) -> str:
    """Why a column of this type is not carried, from the type's text alone."""
    return kind_named(kind).types.unsupported_reason(source_type)


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
