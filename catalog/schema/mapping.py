"""What a PostgreSQL type becomes in the lake, and what is lost on the way.

Pure functions of catalog facts. A type that is not carried gets "" and a reason;
nothing is ever carried approximately in silence.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Lossy = Literal["", "null", "string"]

MAX_PRECISION = 38

_SIMPLE = {
    "boolean": "boolean",
    "smallint": "int",
    "integer": "int",
    "bigint": "bigint",
    "oid": "bigint",
    "real": "float",
    "double precision": "double",
    "text": "string",
    "character varying": "string",
    "character": "string",
    "bpchar": "string",
    "name": "string",
    "citext": "string",
    "uuid": "string",
    "json": "string",
    "jsonb": "string",
    "bytea": "binary",
    "date": "date",
    "timestamp without time zone": "timestamp_ntz",
    "timestamp with time zone": "timestamp",
    # Text compares equal with the source and holds 24:00, which no time type does.
    "time without time zone": "string",
}
_LATER = {
    "money": "money depends on the server's locale",
    "interval": "intervals have no exact lake type yet",
    "xml": "xml is not carried yet",
    "inet": "network addresses are not carried yet",
    "cidr": "network addresses are not carried yet",
    "macaddr": "network addresses are not carried yet",
    "macaddr8": "network addresses are not carried yet",
    "tsvector": "text search types are not carried yet",
    "tsquery": "text search types are not carried yet",
    "bit": "bit strings are not carried yet",
    "bit varying": "bit strings are not carried yet",
    "time with time zone": "times with a zone are not carried yet",
    "hstore": "hstore is not carried yet",
    "vector": "vectors are not carried yet",
    '"char"': "the internal one-byte type is not carried yet",
    **dict.fromkeys(
        ("point", "line", "lseg", "box", "path", "polygon", "circle"),
        "geometric types are not carried yet",
    ),
    **dict.fromkeys(("geometry", "geography"), "geometry is not carried yet"),
}
_KINDS = {
    "c": "composite types are not carried yet",
    "r": "range types are not carried yet",
    "m": "range types are not carried yet",
    "p": "pseudo-types hold no storable value",
}
_TYPE = re.compile(
    r"(?P<name>.+?)"
    r"(?:\((?P<precision>-?\d+)(?:,(?P<scale>-?\d+))?\)(?P<rest> .+)?)?"
)


@dataclass(frozen=True, slots=True)
class SourceType:
    """A PostgreSQL type as the catalog tells it, with domains already unwrapped.

    text        format_type() of the base type with the typmod that counts
    kind        pg_type.typtype of the base type: b base, e enum, c composite …
    element     format_type() of an array's element (domains unwrapped); "" = no array
    element_kind  its typtype
    dimensions  as declared; 0 and 1 both mean one
    """

    text: str
    kind: str = "b"
    element: str = ""
    element_kind: str = "b"
    dimensions: int = 0


@dataclass(frozen=True, slots=True)
class Mapped:
    """The lake type as text ("" = not carried, then `reason` says why).

    cannot_hold  values of the source's type that the lake type has no place for;
                 "" = none. They need a choice: null (counted) or the string type.
    """

    type: str
    reason: str = ""
    cannot_hold: str = ""


def lake_type(source: SourceType) -> Mapped:
    """What `source` becomes in the lake."""
    if source.element:
        return _array(source)
    name, found = _scalar(source.text, source.kind)
    if not name:
        return Mapped("", reason=found)
    return Mapped(name, cannot_hold=cannot_hold(source.text, name))


def cannot_hold(source_type: str, lake: str) -> str:
    """Which values of a column's type have no place in its lake type; "" = none."""
    base, _ = _split(source_type.removesuffix("[]"))
    element = lake.removeprefix("array<").removesuffix(">")
    if element.startswith("decimal"):
        return "NaN"
    if element in {"date", "timestamp", "timestamp_ntz"} and base != "text":
        return "infinity, -infinity and years outside 0001-9999"
    return ""


def chosen_type(lake: str, lossy: Lossy) -> str:
    """The lake type after the choice for values it cannot hold."""
    if lossy != "string":
        return lake
    return "array<string>" if lake.startswith("array<") else "string"


def unsupported_reason(source_type: str) -> str:
    """Why a column of this type is not carried, from the type's text alone."""
    text = source_type.removesuffix("[]")
    name, reason = _scalar(text, "")
    if not name:
        return reason
    return "arrays of more than one dimension are not carried yet"


def _array(source: SourceType) -> Mapped:
    if source.dimensions > 1:
        return Mapped("", "arrays of more than one dimension are not carried yet")
    name, reason = _scalar(source.element, source.element_kind)
    if not name:
        return Mapped("", f"an array of {source.element}: {reason}")
    lake = f"array<{name}>"
    return Mapped(lake, cannot_hold=cannot_hold(f"{source.element}[]", lake))


def _scalar(text: str, kind: str) -> tuple[str, str]:
    """(lake type, "") or ("", reason)."""
    if kind == "e":
        return "string", ""
    if kind in _KINDS:
        return "", _KINDS[kind]
    name, numbers = _split(text)
    if name == "numeric":
        return _numeric(numbers), ""
    if name in _SIMPLE:
        return _SIMPLE[name], ""
    return "", _LATER.get(name, f"type {text} is not carried yet")


def _numeric(numbers: tuple[int, ...]) -> str:
    """decimal(p,s) when it holds every value exactly, else string."""
    if not numbers:
        return "string"
    precision, scale = numbers[0], numbers[1] if len(numbers) > 1 else 0
    if scale < 0:
        precision, scale = precision - scale, 0
    precision = max(precision, scale)
    return f"decimal({precision},{scale})" if precision <= MAX_PRECISION else "string"


def _split(text: str) -> tuple[str, tuple[int, ...]]:
    """ "timestamp(3) with time zone" → ("timestamp with time zone", (3,))."""
    found = _TYPE.fullmatch(text)
    if not found:
        return text, ()
    numbers = tuple(int(n) for n in found.group("precision", "scale") if n)
    name = found["name"] + (found["rest"] or "")
    # An extension's type is shown with its schema when that is off the search path.
    return ("citext" if name.endswith(".citext") else name), numbers
