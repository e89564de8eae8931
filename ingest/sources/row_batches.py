"""Rows of a log as Arrow: what a part of a segment holds (`ingest.contract.segments`).

Fields are `op`, `xid` and `unchanged`, then c0, c1, … in the form that staged rows
have, each with its source name and lake type, then masks m0, … of values that have no
form in the lake. So a batch is read without a catalog.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa

from ingest.contract.epochs import SealedColumn
from ingest.contract.segments import OP, UNCHANGED, XID

_COLUMN = b"column"
HEAD_FIELDS = (
    pa.field(OP, pa.int8(), nullable=False),
    pa.field(XID, pa.uint32(), nullable=False),
    pa.field(UNCHANGED, pa.binary()),
)


def schema_of(
    columns: Sequence[SealedColumn], types: Sequence[pa.DataType], masks: int = 0
) -> pa.Schema:
    """types: of the columns, one by one. masks: how many there are."""
    fields = [
        pa.field(column.alias, type, metadata={_COLUMN: _said(column)})
        for column, type in zip(columns, types, strict=True)
    ]
    flags = [pa.field(f"m{number}", pa.int64()) for number in range(masks)]
    return pa.schema([*HEAD_FIELDS, *fields, *flags])


def columns_in(schema: pa.Schema) -> tuple[SealedColumn, ...]:
    """What the schema says of its columns."""
    said = (one.metadata[_COLUMN] for one in schema if _COLUMN in (one.metadata or {}))
    return tuple(SealedColumn(*json.loads(one)) for one in said)


def _said(column: SealedColumn) -> bytes:
    said = [column.alias, column.source_name, column.type, column.bit]
    return json.dumps(said, ensure_ascii=False).encode()
