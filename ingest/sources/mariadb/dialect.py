"""SQL for MariaDB and MySQL: quoting, casts and comparisons. Pure.

Written for a session with time_zone '+00:00'; no literal holds a quote or a backslash,
so what sql_mode says about these does not matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from catalog.schema.types import DataType
from core.errors import InvalidRequest
from ingest.contract.table import ColumnSpec
from ingest.sources.dialect import Compared, Read, refuse_nul

_HARMLESS = re.compile(r"[A-Za-z0-9 _.:+-]*")
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_TYPE = re.compile(r"(?P<name>[a-z0-9_]+)(\((?P<numbers>[\d,]+)\))?")

_INTEGERS = frozenset(
    {"tinyint", "smallint", "mediumint", "int", "integer", "bigint", "year"}
)
_NUMBERS = _INTEGERS | {"decimal", "numeric", "bit"}
_BYTES = frozenset(
    {"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"}
)
# As `text_type` has it.
_TEXT = re.compile(r"CHARACTER SET (?P<charset>\w+) COLLATE (?P<collation>\w+)$")
_EXACT = frozenset(
    {"utf8", "utf8mb3", "utf8mb4", "ucs2", "utf16", "utf16le", "utf32"} | {"latin1"}
)
_PADS_OTHERWISE = re.compile("nopad|tis620_thai_ci")
# What a CAST makes of a value that is longer than max_allowed_packet is NULL. These the
# server itself sends in the character set of the connection, however long they become.
_TEXTS = frozenset(
    {"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"}
)
_GEOMETRY = frozenset(
    {"geometry", "point", "linestring", "polygon", "multipoint"}
    | {"multilinestring", "multipolygon", "geometrycollection", "geomcollection"}
)
_CALENDAR = {
    "date": "CAST(? AS DATE)",
    "timestamp": "CAST(? AS DATETIME(6))",
    "timestamp_ntz": "CAST(? AS DATETIME(6))",
}
# Dates with a zero month or day are looked for in the years before a position: each has
# a dozen ranges of an index.
_YEARS_BACK = 10
# Whole days and microseconds since 1970, proleptic Gregorian.
_DAYS = "TO_DAYS({}) - 719528"
_MICROS = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', {})"
# Zero dates, dates with a zero part and, under ALLOW_INVALID_DATES, 31 February are
# values of these types and of no calendar. NULL stays unknown, so it is not counted.
_IS_DATE = (
    "YEAR({0}) >= 1 AND MONTH({0}) >= 1 AND DAYOFMONTH({0}) >= 1"
    " AND DAYOFMONTH({0}) <= DAYOFMONTH(LAST_DAY({0}))"
)


class MariadbDialect:
    """See `Dialect`."""

    def name(self, text: str) -> str:
        refuse_nul(text)
        return "`" + text.replace("`", "``") + "`"

    def qualified(self, schema: str, table: str) -> str:
        return f"{self.name(schema)}.{self.name(table)}"

    def literal(self, text: str) -> str:
        # What a backslash means depends on sql_mode, which bytes do not ask.
        refuse_nul(text)
        if _HARMLESS.fullmatch(text):
            return f"'{text}'"
        return f"_utf8mb4 X'{text.encode().hex()}'"

    def read(self, column: ColumnSpec) -> Read:
        quoted = self.name(column.source_name)
        kind = DataType.parse(column.type)
        if kind.name in {"date", "timestamp", "timestamp_ntz"}:
            number = (_DAYS if kind.name == "date" else _MICROS).format(quoted)
            fits = _IS_DATE.format(quoted)
            return Read(f"CAST(CASE WHEN {fits} THEN {number} END AS SIGNED)", fits)
        if kind.name == "string" and _base(column.source_type) == "json":
            # MySQL's; the server sends it as another type than text
            text = f"CAST({quoted} AS CHAR CHARACTER SET utf8mb4)"
            return Read(text, f"{quoted} IS NULL OR {text} IS NOT NULL")
        return Read(self._plain(quoted, column.source_type, kind))

    def _plain(self, quoted: str, source_type: str, kind: DataType) -> str:
        base = _base(source_type)
        if kind.name in {"int", "bigint", "boolean"}:
            # "+ 0" because the value of a bit is bytes
            value = f"{quoted} + 0" if base == "bit" else quoted
            return f"CAST({value} AS SIGNED)"
        if kind.name == "decimal":
            value = f"CAST({quoted} + 0 AS UNSIGNED)" if base == "bit" else quoted
            return f"CAST({value} AS DECIMAL({kind.precision},{kind.scale}))"
        if kind.name in {"float", "double"}:
            # a FLOAT as text has six digits, as DOUBLE all of them
            return f"CAST({quoted} AS DOUBLE)"
        if kind.name == "binary":
            # of geometries: four bytes of SRID, then WKB
            return quoted
        if base in _TEXTS:
            return quoted
        if kind.name == "string":
            return f"CAST({quoted} AS CHAR CHARACTER SET utf8mb4)"
        raise InvalidRequest(f"{source_type} cannot be read as {kind}")

    def compared(self, column: ColumnSpec) -> Compared:
        quoted = self.name(column.source_name)
        base, kind = _base(column.source_type), DataType.parse(column.type)
        if kind.name in _CALENDAR:
            return Compared(((quoted, _CALENDAR[kind.name]),), is_ordered=True)
        if base in _TEXTS - {"enum", "set"}:
            # what Spark has: bytes in UTF-8, whatever the collation takes for equal
            exact = f"CAST(CONVERT({quoted} USING utf8mb4) AS BINARY)"
            # longer than max_allowed_packet it is NULL, and equals no constant either
            other = f"IF({quoted} IS NULL, NULL, X'FF')"
            return Compared(((f"COALESCE({exact}, {other})", "CAST(? AS BINARY)"),))
        if base not in _NUMBERS - {"bit", "year"} or kind.name == "string":
            return Compared()
        constant = "CAST(? AS SIGNED)"
        if kind.name == "decimal":
            constant = f"CAST(? AS DECIMAL({kind.precision},{kind.scale}))"
        return Compared(((quoted, constant),), is_ordered=True)

    def mask(self, flags: Sequence[tuple[str, int]]) -> str:
        # "+", for the result of "|" is unsigned
        terms = (f"CASE WHEN NOT ({fits}) THEN {f} ELSE 0 END" for fits, f in flags)
        return f"CAST({' + '.join(terms)} AS SIGNED)"

    def shown(self, expression: str) -> str:
        return f"CAST({expression} AS CHAR CHARACTER SET utf8mb4)"

    def key_text(self, expression: str, type: str) -> str:
        base = _base(type)
        if base in _BYTES or _TEXT.search(type):
            # by way of Unicode some texts come back as others, and some not at all
            return f"HEX({expression})"
        if base == "bit":
            expression = f"{expression} + 0"
        return f"CAST({expression} AS CHAR CHARACTER SET utf8mb4)"

    def key_value(self, text: str, type: str) -> str:
        base = _base(type)
        if base in _NUMBERS:
            # a quoted number would be compared as DOUBLE
            if not _NUMBER.fullmatch(text):
                raise InvalidRequest(f"'{text}' is no {type}")
            return text
        if base in _BYTES:
            return f"X'{bytes.fromhex(text).hex()}'"
        if found := _TEXT.search(type):
            its_bytes = f"_{found['charset']} X'{bytes.fromhex(text).hex()}'"
            return f"{its_bytes} COLLATE {found['collation']}"
        return self.literal(text)

    def comes_back(self, expression: str, type: str) -> str:
        if is_exact(type) or not (text := _TEXT.search(type)):
            return ""
        there = f"CONVERT({expression} USING utf8mb4)"
        back = f"CONVERT({there} USING {text['charset']})"
        return f"HEX({back}) = HEX({expression})"

    def beyond(self, columns: Sequence[str], values: Sequence[str]) -> str:
        return _compared(columns, values, strict=">", last=">")

    def up_to(self, columns: Sequence[str], values: Sequence[str]) -> str:
        return _compared(columns, values, strict="<", last="<=")

    def is_integer(self, type: str) -> bool:
        return _base(type) in _INTEGERS

    def moment(self, text: str, *, has_zone: bool) -> str:
        # TIMESTAMP columns compare in the session's zone, which is UTC
        return f"'{text.removesuffix('Z').replace('T', ' ')}'"

    def below_all(self, column: ColumnSpec, *, position: str) -> str:
        quoted = self.name(column.source_name)
        if column.type == "timestamp":
            # of what is in no calendar the type holds this only
            return f"{quoted} = '0000-00-00 00:00:00'"
        last = int(position[:4]) if position else 0
        years = range(max(1, last - _YEARS_BACK), last + 1)
        return " OR ".join(
            f"{quoted} >= {low} AND {quoted} < {high}"
            for low, high in _days_of_no_calendar(years)
        )

    def fraction_digits(self, type: str) -> int:
        found = _TYPE.match(type.lower())
        return int(found["numbers"]) if found and found["numbers"] else 0


def _compared(
    columns: Sequence[str], values: Sequence[str], *, strict: str, last: str
) -> str:
    """(a, b) > (x, y) spelled out: row values use no index for ranges there. The
    condition on the first column alone lets the index begin or end at its place."""
    ways = []
    for i, (column, value) in enumerate(zip(columns, values, strict=True)):
        same = [f"{columns[j]} = {values[j]}" for j in range(i)]
        sign = last if i == len(columns) - 1 else strict
        ways.append(" AND ".join([*same, f"{column} {sign} {value}"]))
    if len(ways) == 1:
        return ways[0]
    return f"{columns[0]} {strict}= {values[0]} AND (({') OR ('.join(ways)}))"


def _days_of_no_calendar(years: Iterable[int]) -> Iterator[tuple[int, int]]:
    """[low, high) as YYYYMMDD. An index finds these ranges, and no function."""
    yield 0, 1_01_01
    for year in years:
        yield year * 1_00_00, year * 1_00_00 + 1_01
        for month in range(2, 13):
            start = year * 1_00_00 + month * 1_00
            yield start, start + 1


def text_type(type: str, charset: str | None, collation: str | None) -> str:
    """A column's type with what its values are compared by; None = it has no such."""
    if not charset or not collation:
        return type
    return f"{type} CHARACTER SET {charset} COLLATE {collation}"


def is_exact(type: str) -> bool:
    """Whether each text of this type has one of its own in Unicode: others have bytes
    without a character, which all become '?', or characters of two codes."""
    text = _TEXT.search(type)
    return text is None or text["charset"] in _EXACT


def is_walkable(type: str) -> bool:
    """Whether an index on this type is in the order in which constants compare:
    ENUM and SET sort by number and compare as text, floats lose digits as text. An
    index has the spaces that fill a CHAR up, which its values lack."""
    base, text = _base(type), _TEXT.search(type)
    if base == "char" and text and _PADS_OTHERWISE.search(text["collation"]):
        return False
    return base not in {"float", "double", "real", "enum", "set", *_GEOMETRY}


def _base(type: str) -> str:
    found = _TYPE.match(type.lower())
    return found["name"] if found else type
