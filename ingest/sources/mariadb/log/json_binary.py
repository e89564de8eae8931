"""JSON documents as MySQL keeps them, as the text that a CAST makes of them. Pure.

A value is a type and its bytes. An object or array: how many members, how many bytes;
of an object where each name is and its length; of each member its type and where it
is, or itself where it is short. Places count from behind the type.
"""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from decimal import Decimal

from ingest.sources.mariadb.log.decimals import decimal_groups, plain_text, unscaled

_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY, _LITERAL = range(5)
_TEXT, _OPAQUE = 12, 15
_LITERALS = {0: "null", 1: "true", 2: "false"}
_NUMBERS = {
    5: struct.Struct("<h"),
    6: struct.Struct("<H"),
    7: struct.Struct("<i"),
    8: struct.Struct("<I"),
    9: struct.Struct("<q"),
    10: struct.Struct("<Q"),
}
_DOUBLE, _DOUBLES = 11, struct.Struct("<d")
# Those that stand in the place of where they are, in small and in large documents.
_SHORT = ({_LITERAL, 5, 6}, {_LITERAL, 5, 6, 7, 8})
_TIMESTAMP, _DATE, _TIME, _DATETIME, _DECIMAL = 7, 10, 11, 12, 246
_PACKED = struct.Struct("<q")
_DEEPEST = 100


def json_text(data: bytes) -> str:
    """ValueError or LookupError when it is no such document."""
    try:
        return _value(data[0], data, 1, 0) if data else "null"
    except struct.error as error:
        raise ValueError(str(error)) from error


def _value(kind: int, data: bytes, at: int, depth: int) -> str:
    if kind <= _LARGE_ARRAY:
        if depth == _DEEPEST:
            raise ValueError(f"a document that is more than {_DEEPEST} deep")
        return _members(kind, data[at:], depth + 1)
    if kind == _LITERAL:
        return _LITERALS[data[at]]
    if number := _NUMBERS.get(kind):
        return str(number.unpack_from(data, at)[0])
    if kind == _DOUBLE:
        return double_text(_DOUBLES.unpack_from(data, at)[0])
    if kind == _TEXT:
        return _quoted(_sized(data, at))
    if kind == _OPAQUE:
        return _opaque(data[at], _sized(data, at + 1))
    raise ValueError(f"a value of the unknown kind {kind}")


def _members(kind: int, data: bytes, depth: int) -> str:
    is_large = kind in (_LARGE_OBJECT, _LARGE_ARRAY)
    width = 4 if is_large else 2
    is_object = kind in (_SMALL_OBJECT, _LARGE_OBJECT)

    def number(at: int) -> int:
        return int.from_bytes(data[at : at + width], "little")

    count, first = number(0), 2 * width
    if len(data) < first or number(width) > len(data):
        raise ValueError("a document that is cut off")
    values = first + count * (width + 2) if is_object else first
    found = []
    for n in range(count):
        at = values + n * (width + 1)
        inner = data[at]
        place = at + 1 if inner in _SHORT[is_large] else number(at + 1)
        text = _value(inner, data, place, depth)
        if is_object:
            head = first + n * (width + 2)
            start = number(head)
            size = int.from_bytes(data[head + width : head + width + 2], "little")
            text = f"{_quoted(data[start : start + size])}: {text}"
        found.append(text)
    return f"{{{', '.join(found)}}}" if is_object else f"[{', '.join(found)}]"


def _sized(data: bytes, at: int) -> bytes:
    """Its length is in seven bits of each byte, the lowest first."""
    size, shift = 0, 0
    while True:
        part = data[at]
        at += 1
        size |= (part & 127) << shift
        shift += 7
        if part < 128:
            break
    found = data[at : at + size]
    if len(found) != size:
        raise ValueError("a text that is cut off")
    return found


def _quoted(data: bytes) -> str:
    return json.dumps(data.decode(), ensure_ascii=False)


def double_text(value: float) -> str:
    """The shortest digits that are this number, as MySQL puts them."""
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    if not isinstance(exponent, int):
        raise ValueError(f"{value} is no number of JSON")
    text = "".join(map(str, digits)).lstrip("0").rstrip("0") or "0"
    mark = "-" if sign else ""
    if text == "0":
        return f"{mark}0.0"
    point = len("".join(map(str, digits)).lstrip("0")) + exponent
    if -14 <= point <= 15 or (point == 16 and len(text) > 16):
        whole = text[: max(point, 0)].ljust(point, "0") or "0"
        return f"{mark}{whole}.{'0' * -point + text[max(point, 0) :] or '0'}"
    rest = f".{text[1:]}" if len(text) > 1 else ""
    return f"{mark}{text[0]}{rest}e{point - 1}"


def _opaque(kind: int, data: bytes) -> str:
    if kind == _DECIMAL:
        groups = decimal_groups(data[0], data[1])
        return plain_text(unscaled(data[2:], groups), data[1])
    if kind in (_DATE, _DATETIME, _TIMESTAMP):
        packed = _PACKED.unpack(data)[0]
        whole, micros = packed >> 24, packed & 0xFFFFFF
        months, time = whole >> 22, whole & 0x1FFFF
        day = f"{months // 13:04}-{months % 13:02}-{whole >> 17 & 31:02}"
        return f'"{day}"' if kind == _DATE else f'"{day} {_clock(time, micros)}"'
    if kind == _TIME:
        packed = _PACKED.unpack(data)[0]
        sign, packed = ("-", -packed) if packed < 0 else ("", packed)
        return f'"{sign}{_clock(packed >> 24, packed & 0xFFFFFF)}"'
    return f'"base64:type{kind}:{b64encode(data).decode()}"'


def _clock(whole: int, micros: int) -> str:
    return f"{whole >> 12:02}:{whole >> 6 & 63:02}:{whole & 63:02}.{micros:06}"
