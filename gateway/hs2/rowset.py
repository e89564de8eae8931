"""Columnar row sets: written for results the gateway makes itself, cut out of an
engine's replies without decoding, and read where they hold pages for REST.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gateway.hs2.binary import BOOL, Reader, decode
from gateway.hs2.calls import read_reply
from gateway.hs2.errors import MessageError
from gateway.hs2.messages import FetchResults
from gateway.hs2.values import OK, Status, TableSchema, TypeId

_FIELD = struct.Struct("!bh")
_LIST = struct.Struct("!bi")
_LENGTH = struct.Struct("!i")
_OFFSET_AND_ROWS = struct.Struct("!bhqbhbi")
_OFFSET = struct.Struct("!bhq")
_BYTES = struct.Struct("!bhi")
_BOOL, _BYTE, _I16, _I32, _I64, _DOUBLE, _TEXT, _BINARY = 1, 2, 3, 4, 5, 6, 7, 8
_KINDS = {
    TypeId.BOOLEAN: _BOOL,
    TypeId.TINYINT: _BYTE,
    TypeId.SMALLINT: _I16,
    TypeId.INT: _I32,
    TypeId.BIGINT: _I64,
    TypeId.FLOAT: _DOUBLE,
    TypeId.DOUBLE: _DOUBLE,
    TypeId.BINARY: _BINARY,
}
_CODES = {_BOOL: 2, _BYTE: 3, _I16: 6, _I32: 8, _I64: 10, _DOUBLE: 4}
_LAYOUTS = {_BOOL: "b", _BYTE: "b", _I16: "h", _I32: "i", _I64: "q", _DOUBLE: "d"}
_SIZES = {"b": 1, "h": 2, "i": 4, "q": 8, "d": 8}


def encode_row_set(type_ids: Sequence[int], rows: Sequence[Sequence[Any]]) -> bytes:
    """Return a TRowSet of `rows`; None is NULL. One column even when empty."""
    out = bytearray(_OFFSET_AND_ROWS.pack(10, 1, 0, 15, 2, 12, 0))
    out += _FIELD.pack(15, 3)
    out += _LIST.pack(12, len(type_ids))
    for index, type_id in enumerate(type_ids):
        _write_column(out, _kind(type_id), [row[index] for row in rows])
    out.append(0)
    return bytes(out)


def _kind(type_id: int) -> int:
    try:
        return _KINDS.get(TypeId(type_id), _TEXT)
    except ValueError:
        return _TEXT


def _write_column(out: bytearray, kind: int, values: list[Any]) -> None:
    out += _FIELD.pack(12, kind)
    out += _FIELD.pack(15, 1)
    out += _LIST.pack(_CODES.get(kind, 11), len(values))
    if kind in _LAYOUTS:
        filled = [0 if value is None else value for value in values]
        out += struct.pack(f"!{len(values)}{_LAYOUTS[kind]}", *filled)
    else:
        for value in values:
            encoded = value if isinstance(value, bytes) else str(value or "").encode()
            out += _LENGTH.pack(len(encoded))
            out += encoded
    nulls = bytearray((len(values) + 7) // 8)
    for index, value in enumerate(values):
        if value is None:
            nulls[index >> 3] |= 1 << (index & 7)
    out += _FIELD.pack(11, 2)
    out += _LENGTH.pack(len(nulls))
    out += nulls
    out += b"\0\0"


@dataclass(frozen=True, slots=True)
class FetchReply:
    """An engine's reply to FetchResults: `row_set` is its TRowSet, untouched. With the
    first one the engine tells the `columns`, too."""

    status: Status
    has_more_rows: bool
    row_set: bytes | memoryview
    columns: TableSchema | None = None


def cut_fetch_reply(data: bytes | bytearray, *, sequence: int) -> FetchReply:
    """Cut a FetchResults reply into status and row set in time independent of rows.

    The row set is the reply's last field, so it ends two stop bytes before the end.
    """
    reader = read_reply(data, FetchResults, sequence=sequence)
    status, has_more = OK, False
    while True:
        code = reader.take(1)[0]
        if code == 0:
            return FetchReply(status, has_more, b"")
        number = int.from_bytes(reader.take(2), "big")
        if (number, code) == (1, 12):
            status = decode(Status, reader)
        elif (number, code) == (2, 2):
            has_more = BOOL.read(reader)
        elif (number, code) == (3, 12):
            row_set = memoryview(data)[reader.position : -2]
            return FetchReply(status, has_more, *_cut_columns(row_set))
        else:
            reader.skip(code)


def _cut_columns(
    row_set: memoryview,
) -> tuple[bytes | memoryview, TableSchema | None]:
    """Part a row set from the columns that our engine has put at its end: so many bytes
    as its offset says, negated. Clients get it without both."""
    offset = _OFFSET.unpack_from(row_set)[2] if len(row_set) > _OFFSET.size else 0
    if offset >= 0:
        return row_set, None
    begin = len(row_set) + offset - 1
    end_of_rows = begin - _BYTES.size
    if end_of_rows < _OFFSET.size or _BYTES.unpack_from(row_set, end_of_rows) != (
        11,
        4,
        -offset,
    ):
        raise MessageError("a row set does not end with the columns it promises")
    columns = decode(TableSchema, Reader(row_set[begin:-1]))
    rows = row_set[_OFFSET.size : end_of_rows]
    return b"".join([_OFFSET.pack(10, 1, 0), rows, b"\0"]), columns


def count_rows(row_set: bytes | memoryview) -> int:
    """Return the number of rows by looking at the first column's length only."""
    reader = Reader(row_set)
    if not row_set or not _seek_columns(reader):
        return 0
    _, columns = reader.unpack(_LIST)
    if not columns:
        return 0
    reader.take(_FIELD.size * 2)
    _, size = reader.unpack(_LIST)
    return int(size)


def _seek_columns(reader: Reader) -> bool:
    while True:
        code = reader.take(1)[0]
        if code == 0:
            return False
        number = int.from_bytes(reader.take(2), "big")
        if number == 3:
            return code == 15
        reader.skip(code)


class RowSetRest:
    """Rows of a row set that are handed out few at a time, each touched once then.

    Making it goes through the lengths of all texts, for a column begins where the one
    before it ends; no byte of them is copied. MessageError for what is no row set.
    """

    def __init__(self, row_set: bytes | memoryview) -> None:
        reader = Reader(memoryview(row_set), max_items=max(len(row_set), 1))
        if not row_set or not _seek_columns(reader):
            raise MessageError("a row set without columns cannot be split")
        _, columns = reader.unpack(_LIST)
        self._columns = [_slice_column(reader) for _ in range(reader.count(columns))]
        self.rows = min((column.rows for column in self._columns), default=0)

    def take(self, most: int) -> bytes:
        """Return a row set of the next rows, `most` of them at most."""
        count = min(most, self.rows)
        self.rows -= count
        parts: list[bytes | memoryview] = [
            _OFFSET_AND_ROWS.pack(10, 1, 0, 15, 2, 12, 0)
        ]
        parts.append(_FIELD.pack(15, 3) + _LIST.pack(12, len(self._columns)))
        for column in self._columns:
            parts += column.take(count)
        parts.append(b"\0")
        return b"".join(parts)


@dataclass(slots=True)
class _Column:
    """A column's values and NULL bits where they lie. `rows` counts all of them,
    `taken` those handed out, whose bytes end at `position`."""

    kind: int
    code: int
    rows: int
    values: memoryview
    nulls: memoryview
    taken: int = 0
    position: int = 0

    def take(self, count: int) -> list[bytes | memoryview]:
        """Return the parts of a column of the next `count` rows."""
        end = _end_of_values(self.values, self.kind, (self.position, count))
        begin = self.taken & 7
        lying = self.nulls[self.taken >> 3 : (self.taken + count + 7) >> 3]
        bits = int.from_bytes(lying, "little") >> begin & ((1 << count) - 1)
        size = (count + 7) // 8
        head = _FIELD.pack(12, self.kind) + _FIELD.pack(15, 1)
        values = self.values[self.position : end]
        nulls = _FIELD.pack(11, 2) + _LENGTH.pack(size) + bits.to_bytes(size, "little")
        self.position, self.taken = end, self.taken + count
        return [head + _LIST.pack(self.code, count), values, nulls + b"\0\0"]


def _slice_column(reader: Reader) -> _Column:
    _, kind = reader.unpack(_FIELD)
    reader.unpack(_FIELD)
    code, rows = reader.unpack(_LIST)
    data, begin = memoryview(reader.data), reader.position
    end = _end_of_values(data, kind, (begin, reader.count(rows)))
    reader.position = end
    nulls = data[:0]
    if reader.unpack(_FIELD) == (11, 2):
        (size,) = reader.unpack(_LENGTH)
        nulls = data[reader.position : reader.position + size]
        reader.take(size)
    reader.take(2)
    return _Column(kind, code, rows, data[begin:end], nulls)


def _end_of_values(data: memoryview, kind: int, begin_and_rows: tuple[int, int]) -> int:
    """Return where so many values that begin there end."""
    position, rows = begin_and_rows
    layout = _LAYOUTS.get(kind)
    if layout:
        position += rows * _SIZES[layout]
    else:
        length_at = _LENGTH.unpack_from
        try:
            for _ in range(rows):
                # a negative length must not lead back
                position += 4 + max(length_at(data, position)[0], 0)
        except struct.error:
            raise MessageError("a row set ends inside a value") from None
    if position > len(data):
        raise MessageError("a row set ends inside a value")
    return position


def decode_row_set(row_set: bytes | memoryview) -> list[list[Any]]:
    """Return the columns' values, None for NULL; text and binary columns as they are.

    Used for pages of REST; the Thrift interface never decodes.
    """
    limit = max(len(row_set), 1)
    reader = Reader(row_set, text_errors="replace", max_text=limit, max_items=limit)
    if not row_set or not _seek_columns(reader):
        return []
    _, columns = reader.unpack(_LIST)
    return [_read_column(reader) for _ in range(reader.count(columns))]


def _read_column(reader: Reader) -> list[Any]:
    _, kind = reader.unpack(_FIELD)
    _, number = reader.unpack(_FIELD)
    if number != 1:
        raise MessageError("a column does not begin with its values")
    _, size = reader.unpack(_LIST)
    values = _read_values(reader, kind, reader.count(size))
    code, number = reader.unpack(_FIELD)
    if (code, number) == (11, 2):
        for index in _null_positions(reader.raw(), size):
            values[index] = None
    reader.take(2)
    return values


def _read_values(reader: Reader, kind: int, size: int) -> list[Any]:
    layout = _LAYOUTS.get(kind)
    if layout:
        raw = reader.take(size * _SIZES[layout])
        numbers = list(struct.unpack(f"!{size}{layout}", raw))
        return [bool(n) for n in numbers] if kind == _BOOL else numbers
    raws = [reader.raw() for _ in range(size)]
    if kind == _BINARY:
        return list(raws)
    return [raw.decode("utf-8", "replace") for raw in raws]


def _null_positions(bits: bytes, size: int) -> list[int]:
    if not any(bits):
        return []
    return [
        index
        for index in range(min(size, len(bits) * 8))
        if bits[index >> 3] >> (index & 7) & 1
    ]
