"""The binary form of segments, and what their records say of tables."""

from __future__ import annotations

import dataclasses
import struct
import zlib

import pytest

from core.errors import TerminalError
from ingest.contract.segments import (
    HEADER,
    TRAILER_BYTES,
    Beginning,
    Control,
    Segment,
    StreamTable,
    TablePart,
    checked,
    decode_beginning,
    decode_segment,
    encode_beginning,
    encode_segment,
    footer_bytes,
    part_of,
    state_of,
)

ROWS = b"rows of seven"
PART = part_of(7, ROWS, rows=3, schema_version=2, offset=len(HEADER))
FULL = Segment(
    "pg",
    12,
    "a:1",
    "a:2",
    "a",
    "writer",
    (PART, TablePart(8, 1, 4, 0, 9, 1, "beside")),
    (Control("cut", 7, load="ü"), Control("deferred", 8, reason="too far behind")),
    1_700_000_000_000_000,
)


def test_a_segment_is_read_from_its_end() -> None:
    data = encode_segment(FULL, ROWS)
    assert data[PART.offset : PART.offset + PART.bytes] == ROWS
    size = footer_bytes(data[-TRAILER_BYTES:])
    assert decode_segment(data[-size:]) == decode_segment(data) == FULL
    assert FULL.files == {"beside"}
    assert FULL.tables == {7, 8}
    assert FULL.parts_of(7) == (PART,)


def test_members_of_a_later_release_are_ignored() -> None:
    data = encode_segment(FULL)
    footer = data[len(HEADER) : -TRAILER_BYTES].replace(b'"stream"', b'"x":1,"stream"')
    trailer = struct.pack(">II8s", len(footer), zlib.crc32(footer), HEADER)
    assert decode_segment(footer + trailer) == FULL


@pytest.mark.parametrize("cut", [0, 1, TRAILER_BYTES - 1, TRAILER_BYTES, 40])
def test_half_a_segment_is_damaged(cut: int) -> None:
    data = encode_segment(FULL, ROWS)
    with pytest.raises(TerminalError) as error:
        decode_segment(data[len(data) - cut :])
    assert error.value.code == "segment_damaged"


def test_any_changed_byte_of_the_footer_is_found() -> None:
    data = encode_segment(FULL, ROWS)
    for place in range(len(HEADER) + len(ROWS), len(data)):
        other = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        with pytest.raises(TerminalError):
            decode_segment(other)


def test_a_later_version_is_refused_by_name() -> None:
    data = encode_segment(FULL)
    with pytest.raises(TerminalError) as error:
        decode_segment(data[:-2] + (9).to_bytes(2, "big"))
    assert error.value.code == "segment_too_new"
    text = encode_beginning(Beginning(1)).replace('"v":1', '"v":9')
    with pytest.raises(TerminalError) as error:
        decode_beginning(text)
    assert error.value.code == "stream_too_new"


@pytest.mark.parametrize("data", [None, b"", b"rows of eight", ROWS + b"x"])
def test_a_part_is_what_it_was(data: bytes | None) -> None:
    assert checked(PART, ROWS) == ROWS
    with pytest.raises(TerminalError) as error:
        checked(PART, data)
    assert error.value.code == "segment_damaged"


def test_the_beginning_keeps_what_was_said() -> None:
    kept = Beginning(40, {7: StreamTable("cut", 39, 12, "load")})
    assert decode_beginning(encode_beginning(kept)) == kept
    assert (kept.last_lost(7), kept.last_lost(8)) == (39, 0)
    with pytest.raises(TerminalError) as error:
        decode_beginning("{}")
    assert error.value.code == "stream_damaged"


def test_what_records_say() -> None:
    said = [
        (1, Control("added", 7)),
        (2, Control("cut", 7, load="a", identity="t")),
        (3, Control("finished", 7, at="x")),
        (4, Control("deferred", 8)),
        (5, Control("removed", 9)),
    ]
    found = state_of({7: StreamTable(last=1)}, said)
    assert found[7] == StreamTable("finished", 1, 2, "a", "x", "t")
    assert (found[8].state, found[9].state) == ("deferred", "removed")
    again = [Control("added", 7), Control("cut", 8, load="b"), Control("added", 9)]
    anew = state_of(found, [(6, one) for one in again])
    assert anew[7] == found[7]
    assert (anew[8].state, anew[9].state) == ("cut", "added")


def test_a_cut_that_is_said_again_stays_where_it_was() -> None:
    """airbyte#48717: each attempt of a load began at another place, and lacked rows."""
    said = [(n, Control("cut", 7, load=load)) for n, load in ((2, "a"), (4, "a"))]
    assert state_of({}, said)[7] == StreamTable("cut", 0, 2, "a")
    assert state_of({}, [*said, (5, Control("cut", 7, load="b"))])[7].cut == 5


@pytest.mark.parametrize(
    ("state", "cut", "applied", "lost", "expected"),
    [
        ("added", 0, None, 0, None),
        ("cut", 5, None, 0, 5),
        ("cut", 5, None, 5, 5),
        ("cut", 5, None, 6, None),  # what the load needs is gone
        ("cut", 5, 3, 0, 5),  # its former rows do not go on
        ("finished", 5, 3, 0, 5),  # nor after it went back to a savepoint
        ("finished", 5, 9, 9, 9),
        ("finished", 5, 9, 10, None),
        ("deferred", 5, 9, 0, None),
        ("removed", 5, 9, 0, None),
    ],
)
def test_what_a_table_needs(
    state: str, cut: int, applied: int | None, lost: int, expected: int | None
) -> None:
    table = dataclasses.replace(StreamTable(), state=state, cut=cut)
    assert table.holds_after(applied, lost=lost) == expected
