"""Row sets written, cut and read; the public bindings are the oracle."""

from __future__ import annotations

import gc
import struct
import sys
import tracemalloc
from collections.abc import Callable

import pytest
from TCLIService import ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TTransport import TMemoryBuffer

from gateway.hs2 import calls, messages, rowset
from gateway.hs2.binary import encode
from gateway.hs2.errors import MessageError
from gateway.hs2.values import TableSchema, TypeId, column_desc

TYPES = (
    TypeId.BOOLEAN,
    TypeId.TINYINT,
    TypeId.SMALLINT,
    TypeId.INT,
    TypeId.BIGINT,
    TypeId.DOUBLE,
    TypeId.STRING,
    TypeId.BINARY,
)
ROWS = [
    (True, -1, 300, 70000, 2**62, 0.1, "ü", b"\xff\x00"),
    *[(None,) * 8] * 8,
    (False, 127, -5, 0, -(2**63), -0.0, "", b""),
]


def parse(data: bytes):
    value = ttypes.TRowSet()
    value.read(TBinaryProtocol(TMemoryBuffer(data)))
    return value


def reply_with(row_set: bytes) -> bytes:
    reply = messages.FetchResultsReply(results=row_set)
    return bytes(calls.encode_reply("FetchResults", reply, sequence=9))


def with_columns(rows: bytes, columns: bytes, promised: int) -> bytes:
    """A row set as our engine sends the first of a result."""
    head, kept = struct.pack("!bhq", 10, 1, -promised), rows[11:-1]
    return head + kept + struct.pack("!bhi", 11, 4, len(columns)) + columns + b"\0"


@pytest.mark.parametrize("rows", [ROWS, []])
def test_columns_that_come_with_rows_are_parted_from_them(rows):
    plain = rowset.encode_row_set(TYPES, rows)
    schema = TableSchema((column_desc("größe", TypeId.STRING, 1),))
    columns = encode(schema)
    sent = with_columns(plain, columns, len(columns))
    assert parse(sent).binaryColumns == columns
    cut = rowset.cut_fetch_reply(reply_with(sent), sequence=9)
    assert (bytes(cut.row_set), cut.columns) == (plain, schema)
    cut = rowset.cut_fetch_reply(reply_with(plain), sequence=9)
    assert (bytes(cut.row_set), cut.columns) == (plain, None)


@pytest.mark.parametrize("promised", [1, 5, 7, 2**40])
def test_columns_that_are_promised_and_not_there_are_no_reply(promised):
    plain = rowset.encode_row_set(TYPES, ROWS)
    sent = with_columns(plain, b"123456", promised)
    with pytest.raises(MessageError, match="columns"):
        rowset.cut_fetch_reply(reply_with(sent), sequence=9)


def test_the_public_bindings_read_our_row_sets():
    parsed = parse(rowset.encode_row_set(TYPES, ROWS))
    assert parsed.rows == []
    names = [
        "boolVal", "byteVal", "i16Val", "i32Val", "i64Val", "doubleVal",
        "stringVal", "binaryVal",
    ]  # fmt: skip
    for index, (name, column) in enumerate(zip(names, parsed.columns, strict=True)):
        got = getattr(column, name)
        assert got.values[0] == ROWS[0][index]
        assert got.values[9] == ROWS[9][index]
        assert got.nulls == b"\xfe\x01"


def test_reading_gives_back_what_was_written():
    data = rowset.encode_row_set(TYPES, ROWS)
    columns = rowset.decode_row_set(data)
    assert list(zip(*columns, strict=True)) == ROWS
    assert rowset.count_rows(data) == 10


def test_an_empty_row_set_keeps_its_columns():
    data = rowset.encode_row_set(TYPES, [])
    assert len(parse(data).columns) == 8
    assert rowset.count_rows(data) == 0
    assert rowset.decode_row_set(data) == [[]] * 8


@pytest.mark.parametrize("body", [b"", b"\x0a\x00\x01" + b"\0" * 9])
def test_a_row_set_without_columns_has_no_rows(body):
    assert rowset.count_rows(body) == 0
    assert rowset.decode_row_set(body) == []


def test_a_fetch_reply_is_cut_without_touching_its_rows():
    data = rowset.encode_row_set(TYPES, ROWS)
    reply = messages.FetchResultsReply(has_more_rows=True, results=data)
    frame = bytes(calls.encode_reply("FetchResults", reply, sequence=9))
    cut = rowset.cut_fetch_reply(frame, sequence=9)
    assert cut.row_set == data
    assert cut.has_more_rows
    assert cut.status.code == 0


def test_a_failed_fetch_has_a_status_and_no_rows():
    from gateway.hs2.values import failure

    reply = messages.FetchResultsReply(status=failure("gone"))
    frame = bytes(calls.encode_reply("FetchResults", reply, sequence=9))
    cut = rowset.cut_fetch_reply(frame, sequence=9)
    assert (cut.status.message, cut.row_set) == ("gone", b"")


@pytest.mark.parametrize("counts", [[1, 9], [7, 3], [8, 2], [1] * 10, [3, 3, 99], [99]])
def test_rows_handed_out_in_parts_are_row_sets_that_the_public_bindings_read(counts):
    rest = rowset.RowSetRest(memoryview(rowset.encode_row_set(TYPES, ROWS)))
    parts = [rest.take(count) for count in counts]
    handed_out = [rowset.count_rows(part) for part in parts]
    assert handed_out[:-1] == counts[:-1]
    assert (sum(handed_out), rest.rows) == (10, 0)
    columns = [rowset.decode_row_set(part) for part in parts]
    rows = [row for part in columns for row in zip(*part, strict=True)]
    assert rows == ROWS
    nulls = [column.stringVal.nulls for column in map(first_text, map(parse, parts))]
    assert [len(bits) for bits in nulls] == [(count + 7) // 8 for count in handed_out]


def test_null_bits_may_end_before_the_rows_do():
    written = rowset.encode_row_set([TypeId.INT], [(n,) for n in range(20)])
    assert written.endswith(b"\0\0\0\3" + b"\0" * 6)
    no_bits = written[:-10] + b"\0" * 7
    rest = rowset.RowSetRest(no_bits)
    assert [rowset.decode_row_set(rest.take(9)) for _ in range(3)] == [
        [[*range(9)]], [[*range(9, 18)]], [[18, 19]],
    ]  # fmt: skip


def test_a_row_set_that_is_cut_off_is_an_error():
    data = rowset.encode_row_set(TYPES, ROWS)
    for size in range(len(data) - 1):
        with pytest.raises(MessageError):
            rowset.RowSetRest(data[:size])


def test_a_row_costs_what_it_holds_wherever_in_its_batch_it_lies():
    rows = [(n, None if n % 3 else "x" * 1000) for n in range(4000)]
    data = rowset.encode_row_set([TypeId.BIGINT, TypeId.STRING], rows)
    rest = rowset.RowSetRest(data)
    costs = [cost_of(lambda: rest.take(1)) for _ in rows]
    assert rest.rows == 0
    assert max(calls for calls, _ in costs) < 100
    assert max(touched for _, touched in costs) < 10_000


def cost_of(work: Callable[[], object]) -> tuple[int, int]:
    """Calls of functions, C's among them, and bytes allocated at once."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    # a collection would call what others left to be finalised
    gc.disable()
    tracemalloc.start()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
        touched = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return calls, touched


def first_text(parsed):
    return next(column for column in parsed.columns if column.stringVal)


def test_rows_are_sent_from_where_they_are_and_read_as_before():
    data = rowset.encode_row_set(TYPES, ROWS)
    reply = messages.FetchResultsReply(has_more_rows=False, results=memoryview(data))
    parts = calls.encode_reply_in_parts("FetchResults", reply, sequence=3)
    assert parts[1] is reply.results
    assert b"".join(parts) == calls.encode_reply("FetchResults", reply, sequence=3)
