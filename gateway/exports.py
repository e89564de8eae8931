"""A stored result as a file, CSV, Parquet or Arrow, page by page: memory stays bounded.

Must not know HTTP or where the pages lie.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gateway.arrow_rows import json_rows

if TYPE_CHECKING:
    import pyarrow

Chunks = Generator[bytes, None, None]

# Rows of a group are in memory together; it ends with either.
GROUP_ROWS = 100_000
GROUP_BYTES = 16 * 1024 * 1024
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_MUST_QUOTE = re.compile(r'[",\r\n]')


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """`type` as SQL writes it, in lower case."""

    name: str
    type: str


# ---------------------------------------------------------------------------- CSV


def csv_chunks(
    columns: Sequence[ResultColumn], pages: Iterable[pyarrow.RecordBatch]
) -> Chunks:
    """RFC 4180 with a header, UTF-8. NULL is an empty field, "" an empty text; a line
    of nothing else is quoted, as readers skip blank lines.

    Values are never altered: what a spreadsheet might take for a formula stays.
    """
    yield _line([column.name for column in columns]).encode()
    for page in pages:
        yield "".join(map(_line, json_rows(page))).encode()


def _line(values: Sequence[object]) -> str:
    line = ",".join(map(_field, values))
    return (line if line.strip() else f'"{line}"') + "\r\n"


def _field(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    if not text or _MUST_QUOTE.search(text):
        return '"' + text.replace('"', '""') + '"'
    return text


# --------------------------------------------------------------- Parquet and Arrow


def parquet_chunks(
    columns: Sequence[ResultColumn], pages: Iterable[pyarrow.RecordBatch]
) -> Chunks:
    """Typed columns; arrays, maps and structs are JSON.

    Times are in UTC without a zone. A name that comes twice gets a number.
    """
    from pyarrow import parquet

    sink, schema = Sink(), _schema(columns)
    with parquet.ParquetWriter(sink, schema, compression="zstd") as writer:
        for group in _groups(schema, pages):
            writer.write_table(group)
            yield sink.taken()
    yield sink.taken()


def arrow_chunks(
    columns: Sequence[ResultColumn], pages: Iterable[pyarrow.RecordBatch]
) -> Chunks:
    """A stream of Arrow's, compressed inside; columns as in Parquet."""
    import pyarrow as pa

    sink, schema = Sink(), _schema(columns)
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, schema, options=options) as writer:
        for group in _groups(schema, pages):
            writer.write_table(group.combine_chunks())
            yield sink.taken()
    yield sink.taken()


def _groups(
    schema: pyarrow.Schema, pages: Iterable[pyarrow.RecordBatch]
) -> Iterator[pyarrow.Table]:
    waiting: list[pyarrow.RecordBatch] = []
    rows = size = 0
    for page in pages:
        waiting.append(page)
        rows, size = rows + page.num_rows, size + page.nbytes
        if rows >= GROUP_ROWS or size >= GROUP_BYTES:
            yield _table(schema, waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield _table(schema, waiting)


def _table(
    schema: pyarrow.Schema, pages: Sequence[pyarrow.RecordBatch]
) -> pyarrow.Table:
    import pyarrow as pa

    return pa.Table.from_batches(pages).rename_columns(schema.names).cast(schema)


class Sink:
    """What the writer has written and the reader has not taken yet."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._position = 0
        self.closed = False

    def write(self, data: Any) -> int:
        part = bytes(data)
        self._parts.append(part)
        self._position += len(part)
        return len(part)

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        """Nothing is kept back."""

    def close(self) -> None:
        self.closed = True

    def taken(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)


def _schema(columns: Sequence[ResultColumn]) -> pyarrow.Schema:
    import pyarrow as pa

    names = _distinct([column.name for column in columns])
    types = [_type(column.type) for column in columns]
    return pa.schema(list(zip(names, types, strict=True)))


def _type(name: str) -> pyarrow.DataType:
    """The Arrow type of a column; text for what has none of its own."""
    import pyarrow as pa

    if found := _DECIMAL.fullmatch(name):
        return pa.decimal128(int(found[1]), int(found[2]))
    types = {
        "boolean": pa.bool_(),
        "tinyint": pa.int8(),
        "smallint": pa.int16(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us"),
        "binary": pa.binary(),
    }
    return types.get(name, pa.string())


def _distinct(names: Sequence[str]) -> list[str]:
    """Parquet readers look columns up by name, so each needs its own."""
    taken = set(names)
    seen: set[str] = set()
    found = []
    for name in names:
        new, number = name, 2
        while new in seen or (new != name and new in taken):
            new, number = f"{name}_{number}", number + 1
        seen.add(new)
        found.append(new)
    return found
