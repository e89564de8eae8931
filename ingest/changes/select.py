"""The SELECT that reads a PostgreSQL table: an explicit list with casts.

Driver defaults cut fractions, shift zones and turn infinity into year 9999, so
each column is asked for in the form the lake can hold. Columns come back as c0,
c1, … in the spec's order, so no source name reaches Spark. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catalog.schema.types import DataType
from ingest.changes.quoting import name, qualified
from ingest.contract import ColumnSpec

_MASK_BITS = 62


@dataclass(frozen=True, slots=True)
class SelectedColumn:
    """A column of the SELECT: alias there, name and lake type in the lake.

    bit  position in the masks of unfit values, -1 when all values fit
    """

    alias: str
    name: str
    type: str
    expression: str
    bit: int = -1


@dataclass(frozen=True, slots=True)
class Selection:
    columns: tuple[SelectedColumn, ...]
    masks: tuple[str, ...]

    @property
    def mask_aliases(self) -> tuple[str, ...]:
        return tuple(f"m{i}" for i in range(len(self.masks)))

    def sql(self, schema: str, table: str, where: str) -> str:
        """The statement for one range. A value the lake cannot hold reads as
        NULL and sets its bit in a mask column, so that it is counted."""
        items = [f"{c.expression} AS {c.alias}" for c in self.columns]
        items += [
            f"{m} AS {a}" for m, a in zip(self.masks, self.mask_aliases, strict=True)
        ]
        return (
            f"SELECT {', '.join(items)} FROM {qualified(schema, table)} WHERE {where}"
        )


def select_columns(columns: Sequence[ColumnSpec]) -> Selection:
    selected: list[SelectedColumn] = []
    masks: list[list[str]] = []
    bit = 0
    for number, column in enumerate(columns):
        quoted = name(column.source_name)
        expression, fits = _read(column, quoted)
        own_bit = -1
        if fits:
            own_bit, bit = bit, bit + 1
            if own_bit % _MASK_BITS == 0:
                masks.append([])
            flag = 1 << own_bit % _MASK_BITS
            masks[-1].append(f"CASE WHEN NOT ({fits}) THEN {flag}::bigint ELSE 0 END")
        selected.append(
            SelectedColumn(f"c{number}", column.name, column.type, expression, own_bit)
        )
    return Selection(tuple(selected), tuple(" | ".join(m) for m in masks))


def mask_of(bit: int) -> tuple[int, int]:
    """(number of the mask column, flag inside it) of a selected column's bit."""
    return bit // _MASK_BITS, 1 << bit % _MASK_BITS


def _read(column: ColumnSpec, quoted: str) -> tuple[str, str]:
    """(expression, condition under which a value fits; "" when all do)."""
    kind = DataType.parse(column.type)
    if kind.name in _PLAIN:
        return f"{quoted}::{_PLAIN[kind.name]}", ""
    if kind.name in _RANGES:
        cast, low, high, number = _RANGES[kind.name]
        value = f"{quoted}::{cast}"
        fits = f"{value} >= '{low}'::{cast} AND {value} < '{high}'::{cast}"
        return f"CASE WHEN {fits} THEN {number.format(value)} END", fits
    if kind.name == "decimal":
        fits = f"{quoted} <> 'NaN'::numeric"
        # cast outside: a CASE has no precision, and Spark would invent one
        cast = f"numeric({kind.precision},{kind.scale})"
        return f"(CASE WHEN {fits} THEN {quoted} END)::{cast}", fits
    if kind.name == "array":
        # the lake's arrays have one dimension; empty ones have none
        fits = f"coalesce(array_ndims({quoted}), 1) = 1"
        return f"CASE WHEN {fits} THEN {quoted}::text[] END", fits
    return f"{quoted}::text", ""


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
# years before 1 and after 9999. They travel as days or microseconds since 1970,
# because Java's own dates have no 5th to 14th of October 1582.
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
