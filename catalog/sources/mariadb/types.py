"""What a type of MariaDB or MySQL becomes in the lake, and what is lost on the way.

Pure functions of COLUMN_TYPE, the type's text in information_schema. The lake's type
holds every value exactly but for dates that are in no calendar.
"""

from __future__ import annotations

import re

from catalog.schema.types import MAX_PRECISION, Mapped

# Needs PROCESS, by whatever grant or role it comes: whether a login sees transactions
# of others is found out by this statement, at discovery and before each read alike.
OPEN_TRANSACTIONS = "SELECT 1 FROM information_schema.INNODB_TRX LIMIT 1"

_SIMPLE = {
    "tinyint": "int",
    "smallint": "int",
    "mediumint": "int",
    "int": "int",
    "integer": "int",
    "bigint": "bigint",
    "float": "float",
    "double": "double",
    "year": "int",
    "date": "date",
    "datetime": "timestamp_ntz",
    "timestamp": "timestamp",
    # -838:59:59 to 838:59:59 is a length of time more than a time of day.
    "time": "string",
    **dict.fromkeys(
        ("char", "varchar", "tinytext", "text", "mediumtext", "longtext"), "string"
    ),
    **dict.fromkeys(("enum", "set", "json", "uuid", "inet4", "inet6"), "string"),
    **dict.fromkeys(
        ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"), "binary"
    ),
    # four bytes of SRID, then well-known binary
    **dict.fromkeys(
        ("geometry", "point", "linestring", "polygon", "multipoint"), "binary"
    ),
    **dict.fromkeys(
        ("multilinestring", "multipolygon", "geometrycollection", "geomcollection"),
        "binary",
    ),
}
_UNSIGNED = {"int": "bigint", "integer": "bigint", "bigint": "decimal(20,0)"}
_PADDED = re.compile(r"^(var)?char\b|text\b", re.IGNORECASE)
_COLLATED = re.compile(r"^(var)?char\b|text\b|^enum\b|^set\b", re.IGNORECASE)
_FLOATS = frozenset({"real", "double precision", "float", "double"})
_LATER = {"vector": "vectors are not synced yet"}
_CALENDAR = frozenset({"date", "timestamp", "timestamp_ntz"})
# The text may go on with UNSIGNED, ZEROFILL, or a version's comment, or be cut off in a
# long list of an enum's values.
_TYPE = re.compile(r"(?P<name>\w+)\s*(?:\((?P<numbers>[\d, ]+)\))?(?P<rest>.*)", re.S)


def lake_type(source_type: str) -> Mapped:
    """What a column of this COLUMN_TYPE becomes in the lake."""
    name, numbers, is_unsigned = _split(source_type)
    lake = _lake(name, numbers, is_unsigned=is_unsigned)
    if not lake:
        return Mapped("", reason=_unsupported_reason(source_type))
    return Mapped(lake)


def cannot_hold(source_type: str, lake: str) -> str:
    """Which values of a column's type have no place in its lake type; "" = none."""
    if lake in _CALENDAR:
        return "zero dates, dates with a zero month or day"
    return ""


def _unsupported_reason(source_type: str) -> str:
    """Why a column of this type is not carried."""
    name, *_ = _split(source_type)
    return _LATER.get(name, f"type {source_type} is not synced yet")


def key_forms(source_type: str, collation: str | None) -> str:
    """Values of a key that are equal there and differ in the lake, which compares byte
    by byte; by example, "" = nothing does. `collation`: None for types without one."""
    base = source_type.partition("(")[0].partition(" ")[0].lower()
    if base in _FLOATS:
        return "0 and -0"
    if collation is None or not _COLLATED.search(source_type):
        return ""
    is_exact = collation == "binary" or collation.endswith("_bin")
    # MySQL's collations of Unicode 9 and later pad nothing, MariaDB's say so
    pads = "nopad" not in collation and "_0900_" not in collation
    # values of CHAR are read without the spaces at their end
    keeps_spaces = _PADDED.search(source_type) is not None and base != "char"
    found = [
        "" if is_exact else "upper and lower case, accents",
        "spaces at the end" if pads and keeps_spaces and collation != "binary" else "",
    ]
    return ", ".join(text for text in found if text)


def _lake(name: str, numbers: tuple[int, ...], *, is_unsigned: bool) -> str:
    if name in {"decimal", "numeric"}:
        precision, scale = (*numbers, 0, 0)[:2]
        is_exact = 0 < precision <= MAX_PRECISION
        return f"decimal({precision},{scale})" if is_exact else "string"
    if name == "bit":
        return _bits(numbers[0] if numbers else 1)
    if is_unsigned and name in _UNSIGNED:
        return _UNSIGNED[name]
    return _SIMPLE.get(name, "")


def _bits(width: int) -> str:
    if width == 1:
        return "boolean"
    return "bigint" if width < 64 else "decimal(20,0)"


def _split(text: str) -> tuple[str, tuple[int, ...], bool]:
    """ "decimal(10,2) unsigned" → ("decimal", (10, 2), True)."""
    found = _TYPE.match(text.strip().lower())
    if not found:
        return text, (), False
    numbers = tuple(int(n) for n in (found["numbers"] or "").split(",") if n.strip())
    # zerofill makes a column unsigned, said or not
    words = found["rest"].split()
    return found["name"], numbers, bool({"unsigned", "zerofill"} & set(words))
