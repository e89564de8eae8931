"""SQL for PostgreSQL: quoting, casts and comparisons. Pure.

Driver defaults cut fractions, shift zones and turn infinity into year 9999, so each
column is asked for in the form the lake can hold.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from catalog.schema.types import DataType
from ingest.contract.table import ColumnSpec
from ingest.sources.dialect import Compared, Read, refuse_nul

_PLAIN = {
    "boolean": "boolean",
    "int": "int4",
    "bigint": "int8",
    "float": "float4",
    "double": "float8",
    "binary": "bytea",
    "string": "text",
}
# Beyond these the lake's types, or the readers of them, have no value: infinity,
# years before 1 and after 9999.
_DAYS = "({} - '1970-01-01'::date)"
_MICROS = "(extract(epoch FROM {}) * 1000000)::int8"
_RANGES = {
    "date": ("date", "0001-01-01", "10000-01-01", _DAYS),
    "timestamp_ntz": ("timestamp", "0001-01-01", "10000-01-01", _MICROS),
    "timestamp": (
        "timestamptz",
        "0001-01-01 00:00+00",
        "10000-01-01 00:00+00",
        _MICROS,
    ),
}
# Whole numbers of any width share one family of index.
_CONSTANTS = {
    ("smallint", "int"): "?::int8",
    ("integer", "int"): "?::int8",
    ("bigint", "bigint"): "?::int8",
    ("boolean", "boolean"): "?::boolean",
    ("real", "float"): "?::float4",
    ("double precision", "double"): "?::float8",
}
_CALENDAR = {
    "date": "?::date",
    "timestamp_ntz": "?::timestamp",
    "timestamp": "(?::timestamp AT TIME ZONE 'UTC')",
}
# CHAR pads, and other types are text in the lake only.
_TEXT = re.compile(r"text|character varying(\(\d+\))?")
_INTEGERS = frozenset({"smallint", "integer", "bigint"})
_FRACTION = re.compile(r"\((\d)\)")


class PostgresDialect:
    """See `Dialect`."""

    def name(self, text: str) -> str:
        refuse_nul(text)
        return '"' + text.replace('"', '""') + '"'

    def qualified(self, schema: str, table: str) -> str:
        return f"{self.name(schema)}.{self.name(table)}"

    def literal(self, text: str) -> str:
        refuse_nul(text)
        quoted = text.replace("'", "''")
        if "\\" in quoted:
            return " E'" + quoted.replace("\\", "\\\\") + "'"
        return f"'{quoted}'"

    def read(self, column: ColumnSpec) -> Read:
        quoted = self.name(column.source_name)
        kind = DataType.parse(column.type)
        if column.source_type.removesuffix("[]") == "money":
            # its text is the locale's, the number in it is the same everywhere
            many = "[]" if column.source_type.endswith("[]") else ""
            quoted = f"{quoted}::numeric{many}"
        if kind.name in _PLAIN:
            return Read(f"{quoted}::{_PLAIN[kind.name]}")
        if kind.name in _RANGES:
            cast, low, high, number = _RANGES[kind.name]
            value = f"{quoted}::{cast}"
            fits = f"{value} >= '{low}'::{cast} AND {value} < '{high}'::{cast}"
            return Read(f"CASE WHEN {fits} THEN {number.format(value)} END", fits)
        if kind.name == "decimal":
            fits = f"{quoted} <> 'NaN'::numeric"
            # cast outside: a CASE has no precision, and Spark would invent one
            cast = f"numeric({kind.precision},{kind.scale})"
            return Read(f"(CASE WHEN {fits} THEN {quoted} END)::{cast}", fits)
        return _array(quoted, DataType.parse(kind.element))

    def compared(self, column: ColumnSpec) -> Compared:
        quoted = self.name(column.source_name)
        if constant := _CONSTANTS.get((column.source_type, column.type)):
            return Compared(((quoted, constant),), is_ordered=True)
        kind = DataType.parse(column.type).name
        if kind in _CALENDAR:
            return Compared(((quoted, _CALENDAR[kind]),), is_ordered=True)
        if kind == "decimal":
            return Compared(((quoted, "?::numeric"),), is_ordered=True)
        if _TEXT.fullmatch(column.source_type):
            # the first finds an index, the second is exact whatever the collation
            exact = f'{quoted} COLLATE "C"'
            return Compared(((quoted, "?::text"), (exact, "?::text")))
        return Compared()

    def mask(self, flags: Sequence[tuple[str, int]]) -> str:
        return " | ".join(
            f"CASE WHEN NOT ({fits}) THEN {flag}::bigint ELSE 0 END"
            for fits, flag in flags
        )

    def shown(self, expression: str) -> str:
        return f"{expression}::text"

    def key_text(self, expression: str, type: str) -> str:
        return f"{expression}::text"

    def key_value(self, text: str, type: str) -> str:
        return f"{self.literal(text)}::{type}"

    def comes_back(self, expression: str, type: str) -> str:
        return ""

    def beyond(self, columns: Sequence[str], values: Sequence[str]) -> str:
        # row values, which PostgreSQL takes to an index
        return f"{_row(columns)} > {_row(values)}"

    def up_to(self, columns: Sequence[str], values: Sequence[str]) -> str:
        return f"{_row(columns)} <= {_row(values)}"

    def is_integer(self, type: str) -> bool:
        return type in _INTEGERS

    def moment(self, text: str, *, has_zone: bool) -> str:
        return f"{self.literal(text)}::{'timestamptz' if has_zone else 'timestamp'}"

    def below_all(self, column: ColumnSpec, *, position: str) -> str:
        cast, first, *_ = _RANGES[DataType.parse(column.type).name]
        return f"{self.name(column.source_name)} < '{first}'::{cast}"

    def fraction_digits(self, type: str) -> int:
        found = _FRACTION.search(type)
        return int(found[1]) if found else 6


def _array(quoted: str, element: DataType) -> Read:
    """The lake's arrays have one dimension; empty ones have none. An element without a
    form in the lake reads as NULL, and its row is counted."""
    is_flat = f"coalesce(array_ndims({quoted}), 1) = 1"
    fits = _element_fits(element)
    if not fits:
        return Read(f"CASE WHEN {is_flat} THEN {quoted}::text[] END", is_flat)
    elements = (
        f"ARRAY(SELECT CASE WHEN {fits} THEN e.v END"
        f" FROM unnest({quoted}) WITH ORDINALITY AS e(v, n) ORDER BY e.n)::text[]"
    )
    misfits = f"SELECT 1 FROM unnest({quoted}) AS e(v) WHERE NOT ({fits})"
    return Read(
        f"CASE WHEN {quoted} IS NOT NULL AND {is_flat} THEN {elements} END",
        f"{is_flat} AND NOT EXISTS ({misfits})",
    )


def _element_fits(element: DataType) -> str:
    """Of `e.v`; "" = every value does."""
    if element.name in _RANGES:
        cast, low, high, _ = _RANGES[element.name]
        value = f"e.v::{cast}"
        return f"{value} >= '{low}'::{cast} AND {value} < '{high}'::{cast}"
    return "e.v <> 'NaN'::numeric" if element.name == "decimal" else ""


def _row(items: Sequence[str]) -> str:
    return f"({', '.join(items)})" if len(items) > 1 else items[0]
