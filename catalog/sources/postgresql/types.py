"""What a PostgreSQL type becomes in the lake, and what is lost on the way.

Pure functions of catalog facts. A type that is not carried gets "" and a reason;
nothing is ever carried approximately in silence.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from catalog.schema.types import MAX_PRECISION, Mapped

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
# Their text says all: its form is pinned per session (DateStyle ISO, TimeZone UTC,
# IntervalStyle iso_8601, extra_float_digits 3). Money is read as a number.
_AS_TEXT = frozenset(
    {"money", "interval", "time with time zone", "xml", "jsonpath", "pg_lsn", '"char"'}
    | {"inet", "cidr", "macaddr", "macaddr8", "bit", '"bit"', "bit varying"}
    | {"tsvector", "tsquery"}
    | {"point", "line", "lseg", "box", "path", "polygon", "circle"}
)
# Types of extensions whose text form is exact; PostGIS writes EWKB in hex digits.
_EXTENSIONS = frozenset(
    {"citext", "hstore", "ltree", "cube"}
    | {"vector", "halfvec", "sparsevec", "geometry", "geography"}
)
_NAMES = frozenset(
    {"regclass", "regcollation", "regconfig", "regdictionary", "regnamespace"}
    | {"regoper", "regoperator", "regproc", "regprocedure", "regrole", "regtype"}
)
_FLOATS = frozenset({"real", "double precision", "float", "double"})
_FORMS_BY_TYPE = {
    "numeric": "1.0 and 1.00",
    "citext": "upper and lower case",
    "jsonb": "1.0 and 1.00 inside",
    "interval": "1 day and 24 hours",
    "numrange": "1.0 and 1.00 as bounds",
}
_PSEUDO = "pseudo-types hold no storable value"
# Enum, composite, range and multirange.
_TEXT_KINDS = frozenset("ecrm")
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


@lru_cache(maxsize=4096)
def lake_type(source: SourceType) -> Mapped:
    """What `source` becomes in the lake."""
    if source.element:
        return _array(source)
    name, found = _scalar(source.text, source.kind)
    if not name:
        return Mapped("", reason=found)
    return Mapped(name)


def cannot_hold(source_type: str, lake: str) -> str:
    """Which values of a column's type have no place in its lake type; "" = none."""
    base, _ = _split(source_type.removesuffix("[]"))
    element = lake.removeprefix("array<").removesuffix(">")
    found = []
    if element.startswith("decimal"):
        found.append("NaN")
    if element in {"date", "timestamp", "timestamp_ntz"} and base != "text":
        found.append("infinity, -infinity and years outside 0001-9999")
    if element != lake:
        # what a column declares of its dimensions binds no value
        found.append("arrays of several dimensions")
    return "; ".join(found)


def key_forms(source_type: str, *, is_nondeterministic: bool) -> str:
    """Values of a key that are equal there and differ in the lake, which compares byte
    by byte; by example, "" = nothing does."""
    if is_nondeterministic:
        return "letters that its collation takes for the same"
    base = source_type.removesuffix("[]").rpartition(".")[2]
    if base in _FLOATS:
        return "0 and -0"
    return _FORMS_BY_TYPE.get(base, "")


def _array(source: SourceType) -> Mapped:
    name, reason = _scalar(source.element, source.element_kind)
    if not name:
        return Mapped("", f"an array of {source.element}: {reason}")
    if source.dimensions > 1:
        # The lake's arrays have one dimension; PostgreSQL's text tells them all.
        return Mapped("string")
    return Mapped(f"array<{name}>")


def _scalar(text: str, kind: str) -> tuple[str, str]:
    """(lake type, "") or ("", reason)."""
    if kind == "p":
        return "", _PSEUDO
    if kind in _TEXT_KINDS:
        return "string", ""
    name, numbers = _split(text)
    if name == "numeric":
        return _numeric(numbers), ""
    if name in _SIMPLE:
        return _SIMPLE[name], ""
    # "interval day to second" is one of its many names
    if name in _AS_TEXT or name in _EXTENSIONS or name.startswith("interval "):
        return "string", ""
    if name in _NAMES:
        return "", f"{text} is the name of something inside the source's server"
    return "", f"type {text} is not synced yet"


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
    # An extension's type is shown with its schema when that is off the search path,
    # and with words in brackets.
    own = name.partition("(")[0].rpartition(".")[2]
    return (own if own in _EXTENSIONS else name), numbers
