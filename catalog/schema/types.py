"""Data types of columns, in the lake and at the source. Pure values.

The lake's types are the words Spark and Hudi keep without loss in base files, log
files and through compaction. What a source's type becomes is decided in
the folder of its kind, `catalog.sources.<kind>.types`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from core.errors import InvalidRequest

# What becomes of values that the lake's type has no place for.
Lossy = Literal["", "null", "string"]
MAX_PRECISION = 38
SIMPLE = frozenset(
    {
        "boolean",
        "int",
        "bigint",
        "float",
        "double",
        "string",
        "binary",
        "date",
        "timestamp",
        "timestamp_ntz",
    }
)
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_ARRAY = re.compile(r"array<(.+)>")


@dataclass(frozen=True, slots=True)
class DataType:
    """A lake type: a simple word, decimal(precision, scale) or array<element>."""

    name: str
    precision: int = 0
    scale: int = 0
    element: str = ""

    def __str__(self) -> str:
        if self.name == "decimal":
            return f"decimal({self.precision},{self.scale})"
        if self.name == "array":
            return f"array<{self.element}>"
        return self.name

    @classmethod
    def parse(cls, text: str) -> DataType:
        """`str()` back to a value; InvalidRequest for anything else."""
        if text in SIMPLE:
            return cls(text)
        if found := _DECIMAL.fullmatch(text):
            return cls("decimal", int(found[1]), int(found[2]))
        if found := _ARRAY.fullmatch(text):
            return cls("array", element=str(cls.parse(found[1])))
        raise InvalidRequest(f"'{text}' is not a lake type", code="unknown_type")


@dataclass(frozen=True, slots=True)
class Column:
    """One column of one table, with both of its names and both of its types.

    source_name  as the source spells it
    name         as the lake spells it (pinned once; see catalog.schema.naming)
    source_type  the source's own type text, e.g. "numeric(12,2)"
    type         the lake type, as text; "" = unsupported
    nullable     as declared at the source
    key          1-based position in the source's primary key, 0 = not part of it
    """

    source_name: str
    name: str
    source_type: str
    type: str
    nullable: bool = True
    key: int = 0
    comment: str = ""

    @property
    def is_supported(self) -> bool:
        return bool(self.type)


@dataclass(frozen=True, slots=True)
class TableSchema:
    """The columns of a table in the source's order."""

    columns: tuple[Column, ...]

    @property
    def primary_key(self) -> tuple[str, ...]:
        """Source names of the key's columns, in key order."""
        keyed = sorted((c for c in self.columns if c.key), key=lambda c: c.key)
        return tuple(c.source_name for c in keyed)

    def column(self, source_name: str) -> Column:
        for column in self.columns:
            if column.source_name == source_name:
                return column
        raise InvalidRequest(
            f"there is no column '{source_name}'", code="unknown_column"
        )

    @property
    def unsupported(self) -> tuple[Column, ...]:
        return tuple(c for c in self.columns if not c.is_supported)


@dataclass(frozen=True, slots=True)
class Mapped:
    """The lake type as text ("" = not synced, then `reason` says why)."""

    type: str
    reason: str = ""
