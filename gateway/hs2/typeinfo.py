"""SQL types as JDBC sees them: rows of GetTypeInfo, and numbers for GetColumns."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NULLABLE, _SEARCHABLE, _NONE = 1, 3, 0


@dataclass(frozen=True, slots=True)
class SqlType:
    """One type: its JDBC number (java.sql.Types), precision, scale and radix."""

    name: str
    jdbc: int
    precision: int | None = None
    scale: int | None = None
    radix: int | None = None
    is_signed: bool = False
    is_text: bool = False


TYPES: tuple[SqlType, ...] = (
    SqlType("VOID", 0),
    SqlType("BOOLEAN", 16, 1),
    SqlType("TINYINT", -6, 3, 0, 10, is_signed=True),
    SqlType("SMALLINT", 5, 5, 0, 10, is_signed=True),
    SqlType("INT", 4, 10, 0, 10, is_signed=True),
    SqlType("BIGINT", -5, 19, 0, 10, is_signed=True),
    SqlType("FLOAT", 6, 7, 7, 10, is_signed=True),
    SqlType("DOUBLE", 8, 15, 15, 10, is_signed=True),
    SqlType("STRING", 12, 2147483647, is_text=True),
    SqlType("VARCHAR", 12, 2147483647, is_text=True),
    SqlType("CHAR", 1, 255, is_text=True),
    SqlType("DATE", 91, 10),
    SqlType("TIMESTAMP", 93, 29, 9),
    SqlType("TIMESTAMP_NTZ", 93, 29, 9),
    SqlType("BINARY", -2, 2147483647),
    SqlType("DECIMAL", 3, 38, 38, 10, is_signed=True),
    SqlType("ARRAY", 2003),
    SqlType("MAP", 2000),
    SqlType("STRUCT", 2002),
)
_BY_NAME = {kind.name: kind for kind in TYPES}
_SHAPE = re.compile(r"(\w+)(?:\((\d+)(?:,\s*(\d+))?\))?")


def sql_type(text: str) -> SqlType:
    """Return the type of a lake type's text, e.g. `decimal(12,2)`; STRING if odd."""
    found = _SHAPE.match(text)
    known = _BY_NAME.get(found[1].upper()) if found else None
    if found is None or known is None:
        return _BY_NAME["STRING"]
    if known.name == "DECIMAL" and found[2]:
        precision, scale = int(found[2]), int(found[3] or 0)
        return SqlType("DECIMAL", known.jdbc, precision, scale, 10, is_signed=True)
    if known.name in {"VARCHAR", "CHAR"} and found[2]:
        return SqlType(known.name, known.jdbc, int(found[2]), is_text=True)
    return known


def type_info_rows() -> list[tuple[object, ...]]:
    """Return the rows of GetTypeInfo, in the columns of `metadata.TYPE_INFO`."""
    return [_row(kind) for kind in TYPES]


def _row(kind: SqlType) -> tuple[object, ...]:
    searchable = _NONE if kind.jdbc >= 2000 else _SEARCHABLE
    quote = "'" if kind.is_text or kind.jdbc in {91, 93} else None
    return (
        kind.name,
        kind.jdbc,
        kind.precision,
        quote,
        quote,
        None,
        _NULLABLE,
        kind.is_text,
        searchable,
        not kind.is_signed,
        False,
        False,
        None,
        0,
        kind.scale or 0,
        None,
        None,
        kind.radix,
    )
