"""JSON documents as MySQL keeps them; bytes and texts are those of MySQL 8.0."""

from __future__ import annotations

import json
import math
import random
import struct
from typing import Any

import pytest

from ingest.sources.mariadb.log.json_binary import double_text, json_text

TWO_NAMES = (
    b"\0\2\0(\0\x12\0\4\0\x16\0\4\0\x0c\x1a\0\x0c!\0key1key2\6value1\6value2"
)  # fmt: skip
DOUBLES = {
    "1.0": 1.0, "0.0": 0.0, "-0.0": -0.0, "-3.0": -3.0, "0.1": 0.1,
    "169.09": 169.09, "0.000015": 1.5e-5, "0.000000000000001": 1e-15,
    "1e-16": 1e-16, "5e-324": 5e-324, "999999999999999.9": 9.999999999999999e14,
    "100000000000000.0": 1e14, "1e15": 1e15, "1234567890123456.8": 1.2345678901234568e15,
    "1.5e16": 1.5e16, "9.007199254740992e15": 9.007199254740992e15,
    "6.02214076e23": 6.02214076e23, "0.000000000000012345678901234567": 1.2345678901234567e-14,
    "-1e25": -1e25, "1.7976931348623157e308": 1.7976931348623157e308,
}  # fmt: skip


def sized(data: bytes) -> bytes:
    size = len(data)
    return (
        bytes([size]) + data
        if size < 128
        else bytes([size & 127 | 128, size >> 7]) + data
    )


def document(value: Any, width: int = 2) -> tuple[int, bytes]:
    """(type, bytes) of a value; width: of places in it."""
    if value is None or isinstance(value, bool):
        return 4, bytes([0 if value is None else 1 if value else 2])
    if isinstance(value, int):
        for kind, form in ((5, "<h"), (7, "<i"), (9, "<q"), (10, "<Q")):
            try:
                return kind, struct.pack(form, value)
            except struct.error:
                continue
    if isinstance(value, float):
        return 11, struct.pack("<d", value)
    if isinstance(value, str):
        return 12, sized(value.encode())
    is_object = isinstance(value, dict)
    names = [name.encode() for name in value] if is_object else []
    members = [document(one, width) for one in (value.values() if is_object else value)]
    at = 2 * width + len(names) * (width + 2) + len(members) * (width + 1)
    heads, entries, tail = b"", b"", b""
    for name in names:
        heads += (at + len(tail)).to_bytes(width, "little") + struct.pack(
            "<H", len(name)
        )
        tail += name
    for kind, data in members:
        is_short = kind in ((4, 5) if width == 2 else (4, 5, 7))
        own = data if is_short else (at + len(tail)).to_bytes(width, "little")
        entries += bytes([kind]) + own.ljust(width, b"\0")
        tail += b"" if is_short else data
    size = (at + len(tail)).to_bytes(width, "little")
    count = len(members).to_bytes(width, "little")
    kind = (0 if is_object else 2) + (width == 4)
    return kind, count + size + heads + entries + tail


@pytest.mark.parametrize("width", [2, 4])
def test_documents(width: int) -> None:
    value = {
        "": None, "a": [True, False, [], {}], "ß": -1, "n": [32767, -70_000, 2**40, 2**64 - 1],
        "text": 'a "b" \\ \n\t\x01 ü€😀' + "x" * 200, "d": 1.5,
    }  # fmt: skip
    kind, data = document(value, width)
    assert json_text(bytes([kind]) + data) == json.dumps(value, ensure_ascii=False)


def test_a_recorded_document() -> None:
    assert json_text(TWO_NAMES) == '{"key1": "value1", "key2": "value2"}'
    assert json_text(b"") == "null"


@pytest.mark.parametrize(("text", "value"), DOUBLES.items(), ids=DOUBLES)
def test_doubles(text: str, value: float) -> None:
    assert double_text(value) == text


def test_a_double_comes_back_from_its_text() -> None:
    chance = random.Random(7)
    for _ in range(2_000):
        (value,) = struct.unpack("<d", chance.randbytes(8))
        if math.isfinite(value):
            assert float(double_text(value)) == value


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x0f\xf6\4\4\2\x8c\x22", "12.34"),
        (b"\x0f\xfc\4\xde\xad\xbe\xef", '"base64:type252:3q2+7w=="'),
        (
            b"\x0f\x0c\x08" + struct.pack("<q", (((2015 * 13 + 1) * 32 + 15) * 131072 + (23 * 64 + 24) * 64 + 25) << 24 | 120_000),
            '"2015-01-15 23:24:25.120000"',
        ),
        (b"\x0f\x0a\x08" + struct.pack("<q", ((2015 * 13 + 1) * 32 + 15) << 41), '"2015-01-15"'),
        (b"\x0f\x0b\x08" + struct.pack("<q", -((23 * 64 + 24) * 64 + 25 << 24 | 500_000)), '"-23:24:25.500000"'),
    ],
)  # fmt: skip
def test_values_that_json_has_no_form_for(data: bytes, text: str) -> None:
    assert json_text(data) == text


@pytest.mark.parametrize("cut", range(1, len(TWO_NAMES)))
def test_a_document_that_is_cut_off(cut: int) -> None:
    with pytest.raises((ValueError, LookupError)):
        json_text(TWO_NAMES[:cut])
    with pytest.raises(ValueError, match="requires a buffer"):
        json_text(b"\x0b" + bytes(7))


def test_a_document_in_itself() -> None:
    with pytest.raises(ValueError, match="100 deep"):
        json_text(b"\2\1\0\7\0\2\0\0")
