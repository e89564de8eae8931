"""Rows of a log as Arrow: what a part of a segment holds (`ingest.contract.segments`).

Fields are `op`, `xid` and `unchanged`, then c0, c1, … in the form that staged rows
have, then masks m0, … of values that have no form in the lake. The schema says each
column's source name and lake type, so a batch is read without a catalog; among them may
be columns that the table's plan does not have yet. It says, too, which columns of the
plan they lack because these are gone at the source.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from catalog.schema.types import DataType
from core.errors import TerminalError
from ingest.contract.segments import OP, UNCHANGED, XID
from ingest.contract.table import ColumnSpec, SealedColumn
from ingest.sources.dialect import Dialect
from ingest.sources.select import Selection, mask_of, select_columns

_COLUMNS, _GONE = b"columns", b"gone"
_TYPES = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
# (values, places of those that have no form in the lake)
Converted = tuple[pa.Array, list[int]]
HEAD_FIELDS = (
    pa.field(OP, pa.int8(), nullable=False),
    pa.field(XID, pa.uint32(), nullable=False),
    pa.field(UNCHANGED, pa.binary()),
)


def arrow_type(type: DataType) -> pa.DataType:
    if type.name == "decimal":
        return pa.decimal128(type.precision, type.scale)
    if type.name == "array":
        return pa.list_(arrow_type(DataType.parse(type.element)))
    return _TYPES[type.name]


def schema_of(
    columns: Sequence[SealedColumn],
    types: Sequence[pa.DataType],
    masks: int = 0,
    *,
    gone: Sequence[str] = (),
) -> pa.Schema:
    """types: of the columns, one by one. masks: how many there are. gone: see
    `gone_in`."""
    fields = [
        pa.field(column.alias, type)
        for column, type in zip(columns, types, strict=True)
    ]
    flags = [pa.field(f"m{number}", pa.int64()) for number in range(masks)]
    said = [[c.alias, c.source_name, c.type, c.bit] for c in columns]
    # of the schema, once: of its fields it would be twice as long
    metadata = {_COLUMNS: json.dumps(said, ensure_ascii=False, separators=(",", ":"))}
    if gone:
        metadata[_GONE] = json.dumps([*gone], ensure_ascii=False)
    return pa.schema([*HEAD_FIELDS, *fields, *flags], metadata)


def columns_of(
    selection: Selection, columns: Sequence[ColumnSpec]
) -> tuple[SealedColumn, ...]:
    """What the schema of rows says that are read by this selection."""
    return tuple(
        SealedColumn(selected.alias, column.source_name, column.type, selected.bit)
        for selected, column in zip(selection.columns, columns, strict=True)
    )


def columns_in(schema: pa.Schema) -> tuple[SealedColumn, ...]:
    """What the schema says of its columns."""
    said = json.loads((schema.metadata or {}).get(_COLUMNS, "[]"))
    return tuple(SealedColumn(*one) for one in said)


def gone_in(schema: pa.Schema) -> tuple[str, ...]:
    """Source names of columns that the plan had as the rows were read, and that were
    dropped at the source before them."""
    return tuple(json.loads((schema.metadata or {}).get(_GONE, "[]")))


@dataclass(frozen=True, slots=True)
class BatchForm:
    """What batches of a table's rows have. masks: how many there are."""

    columns: tuple[SealedColumn, ...]
    schema: pa.Schema
    masks: int

    @classmethod
    def of(
        cls,
        dialect: Dialect,
        columns: Sequence[ColumnSpec],
        *,
        gone: Sequence[str] = (),
    ) -> BatchForm:
        selection = select_columns(dialect, columns)
        sealed = columns_of(selection, columns)
        types = [arrow_type(DataType.parse(column.type)) for column in columns]
        masks = len(selection.masks)
        return cls(sealed, schema_of(sealed, types, masks, gone=gone), masks)

    def batch(
        self, head: Sequence[pa.Array], found: Iterable[Converted]
    ) -> pa.RecordBatch:
        """head: arrays of `HEAD_FIELDS`. found: of the columns, one by one."""
        arrays, count = [*head], len(head[0])
        flags: list[dict[int, int]] = [{} for _ in range(self.masks)]
        for column, (values, bad) in zip(self.columns, found, strict=True):
            arrays.append(values)
            number, flag = mask_of(column.bit) if bad else (0, 0)
            for row in bad:
                flags[number][row] = flags[number].get(row, 0) | flag
        for said in flags:
            arrays.append(pa.array([said.get(n, 0) for n in range(count)], pa.int64()))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def value_unreadable(
    table: str, column: SealedColumn, error: Exception
) -> TerminalError:
    return TerminalError(
        "the source's log has a value in column %(column)s of %(table)s that is no"
        " %(type)s: %(error)s. Nothing of its transaction was written",
        column=column.source_name,
        table=table,
        type=column.type,
        error=str(error)[:200],
        code="log_value_unreadable",
        hint="discover the table again; report this when its type has not changed",
    )
