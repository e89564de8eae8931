"""The SELECT that reads a source table: an explicit list in the lake's forms.

Columns come back as c0, c1, … in the spec's order, so no source name reaches Spark.
How one column is asked for is its dialect's to say. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catalog.schema.types import DataType
from ingest.contract.table import SHARD, ColumnSpec, TableSpec
from ingest.sources.dialect import Read
from ingest.sources.dialects import Dialect

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

    def sql(self, relation: str, where: str) -> str:
        """The statement for one range of a quoted table. A value the lake cannot
        hold reads as NULL and sets its bit in a mask column, so that it is counted."""
        items = [f"{c.expression} AS {c.alias}" for c in self.columns]
        items += [
            f"{m} AS {a}" for m, a in zip(self.masks, self.mask_aliases, strict=True)
        ]
        return f"SELECT {', '.join(items)} FROM {relation} WHERE {where}"


def relation_of(dialect: Dialect, table: TableSpec) -> str:
    """The source table as its dialect names it in a statement."""
    return dialect.qualified(table.source_schema, table.source_table)


def select_of(dialect: Dialect, table: TableSpec) -> Selection:
    """Of one table of the source; see `sources_of`."""
    shard = table.shards[0].value if table.shards else ""
    return select_columns(dialect, table.columns, shard=shard)


def select_columns(
    dialect: Dialect, columns: Sequence[ColumnSpec], *, shard: str = ""
) -> Selection:
    """shard: what the column `SHARD` has."""
    selected: list[SelectedColumn] = []
    masks: list[list[tuple[str, int]]] = []
    bit = 0
    for number, column in enumerate(columns):
        DataType.parse(column.type)
        is_shard = column.source_name == SHARD
        read = Read(dialect.literal(shard)) if is_shard else dialect.read(column)
        own_bit = -1
        if read.fits:
            own_bit, bit = bit, bit + 1
            if own_bit % _MASK_BITS == 0:
                masks.append([])
            masks[-1].append((read.fits, 1 << own_bit % _MASK_BITS))
        selected.append(
            SelectedColumn(
                f"c{number}", column.name, column.type, read.expression, own_bit
            )
        )
    return Selection(tuple(selected), tuple(dialect.mask(m) for m in masks))


def mask_of(bit: int) -> tuple[int, int]:
    """(number of the mask column, flag inside it) of a selected column's bit."""
    return bit // _MASK_BITS, 1 << bit % _MASK_BITS
