"""A table as the binary log describes it before its rows (TABLE_MAP_EVENT). Pure.

Names, signs and character sets are in it only under binlog_row_metadata = FULL.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from core.sentences import Sentence

# Types of columns in the log, by their numbers there.
TINY, SHORT, LONG, FLOAT, DOUBLE = 1, 2, 3, 4, 5
OLD_TIMESTAMP, LONGLONG, INT24, DATE, OLD_TIME, OLD_DATETIME, YEAR = range(7, 14)
VARCHAR, BIT, TIMESTAMP, DATETIME, TIME = range(15, 20)
COMPRESSED_BLOB, COMPRESSED_VARCHAR = 140, 141
VECTOR, JSON, DECIMAL, ENUM, SET = 242, 245, 246, 247, 248
BLOB, VAR_STRING, STRING, GEOMETRY = 252, 253, 254, 255

_NUMBERS = frozenset({TINY, SHORT, INT24, LONG, LONGLONG, YEAR, FLOAT, DOUBLE, DECIMAL})
_TEXTS = frozenset(
    {VARCHAR, BLOB, VAR_STRING, STRING, COMPRESSED_BLOB, COMPRESSED_VARCHAR}
)
# Bytes that describe a column of a type; 0 of all others.
_TWO = frozenset({VARCHAR, COMPRESSED_VARCHAR, BIT, DECIMAL, ENUM, SET})
_TWO |= {STRING, VAR_STRING}
_ONE = frozenset({FLOAT, DOUBLE, BLOB, COMPRESSED_BLOB, GEOMETRY, JSON, VECTOR})
_ONE |= {TIMESTAMP, DATETIME, TIME}
# Parts of the optional metadata.
_SIGNS, _CHARSET, _CHARSETS, _NAMES, _SETS, _ENUMS = range(1, 7)
_LIST_CHARSET, _LIST_CHARSETS = 10, 11


@dataclass(frozen=True, slots=True)
class LogColumn:
    """type, length: as the log has them; of BIT, in bits. scale: digits of a DECIMAL's
    fraction; of ENUM, SET and blobs nothing. digits: of a second's fraction.
    collation: its number, 0 = none. words: of ENUM and SET, in that collation's bytes.
    """

    name: str
    type: int
    length: int = 0
    scale: int = 0
    digits: int = 0
    is_unsigned: bool = False
    is_nullable: bool = True
    collation: int = 0
    words: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class TableMap:
    """columns: all that rows in the log have, hidden and generated ones, too. problem:
    why its rows cannot be read; "" = they can."""

    schema: str
    name: str
    columns: tuple[LogColumn, ...]
    problem: str = ""

    def positions(self, names: tuple[str, ...]) -> tuple[int, ...]:
        """Of these columns. KeyError when one is not there."""
        places = {column.name: n for n, column in enumerate(self.columns)}
        return tuple(places[name] for name in names)


def table_name(body: bytes) -> tuple[str, str]:
    """Of a map, which is: the event from its schema's name on."""
    schema, at = _short(body, 0)
    name, _ = _short(body, at)
    return schema, name


def table_map(body: bytes, *, is_mariadb: bool) -> TableMap:
    """MariaDB counts geometries among the texts. ValueError says what it lacks,
    IndexError that it is cut off."""
    schema, at = _short(body, 0)
    name, at = _short(body, at)
    count, at = packed_int(body, at)
    types = body[at : at + count]
    size, at = packed_int(body, at + count)
    described = list(_described(types, body[at : at + size]))
    at += size
    nullable = int.from_bytes(body[at : at + (count + 7) // 8], "little")
    parts = dict(_parts(body, at + (count + 7) // 8))
    if _NAMES not in parts:
        raise ValueError(
            Sentence(
                "its log has no names of columns (binlog_row_metadata is not FULL)"
            )
        )
    kinds = [kind for kind, *_ in described]
    names = list(_strings(parts[_NAMES]))
    texts = _TEXTS | {GEOMETRY} if is_mariadb else _TEXTS
    unsigned = _signs(_places(kinds, _NUMBERS), parts.get(_SIGNS, b""))
    collations = _collations(kinds, texts, parts)
    words = _words(kinds, parts)
    if len(names) != count:
        raise ValueError(
            Sentence(
                "its log has %(count)s columns and %(named)s names",
                count=count,
                named=len(names),
            )
        )
    columns = tuple(
        LogColumn(
            names[n].decode(),
            *described[n],
            is_unsigned=n in unsigned,
            is_nullable=bool(nullable >> n & 1),
            collation=collations.get(n, 0),
            words=words.get(n, ()),
        )
        for n in range(count)
    )
    return TableMap(schema, name, columns)


def packed_int(data: bytes, at: int) -> tuple[int, int]:
    """A length-encoded integer, and where it ends."""
    first = data[at]
    if first < 251:
        return first, at + 1
    width = {252: 2, 253: 3, 254: 8}[first]
    return int.from_bytes(data[at + 1 : at + 1 + width], "little"), at + 1 + width


def _short(data: bytes, at: int) -> tuple[str, int]:
    """A text of at most 255 bytes, with a zero behind it."""
    end = at + 1 + data[at]
    if data[end]:
        raise ValueError("a name without its end")
    return data[at + 1 : end].decode(), end + 1


def _described(types: bytes, data: bytes) -> Iterator[tuple[int, int, int, int]]:
    """(type, length, scale, digits) of each column."""
    at = 0
    for type in types:
        width = 2 if type in _TWO else 1 if type in _ONE else 0
        own = data[at : at + width]
        if len(own) != width:
            raise IndexError("metadata that is cut off")
        at += width
        yield _form(type, own)
    if at != len(data):
        raise ValueError("metadata of unknown columns")


def _form(type: int, own: bytes) -> tuple[int, int, int, int]:
    if type == STRING:
        # two bits of long lengths are in the type's own
        real = own[0] | 0x30
        if real in (ENUM, SET):
            return real, own[1], 0, 0
        return type, own[1] | (own[0] & 0x30 ^ 0x30) << 4, 0, 0
    if type in (TIMESTAMP, DATETIME, TIME):
        return type, 0, 0, own[0]
    if type == DECIMAL:
        return type, own[0], own[1], 0
    if type == BIT:
        return type, own[0] + 8 * own[1], 0, 0
    if type in (ENUM, SET):
        return type, own[1], 0, 0
    return type, int.from_bytes(own, "little"), 0, 0


def _parts(body: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    while at < len(body):
        kind = body[at]
        size, at = packed_int(body, at + 1)
        if at + size > len(body):
            raise IndexError("metadata that is cut off")
        yield kind, body[at : at + size]
        at += size


def _strings(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        size, at = packed_int(data, at)
        yield data[at : at + size]
        at += size


def _numbers(data: bytes) -> Iterator[int]:
    at = 0
    while at < len(data):
        number, at = packed_int(data, at)
        yield number


def _places(kinds: list[int], wanted: Collection[int]) -> list[int]:
    return [n for n, kind in enumerate(kinds) if kind in wanted]


def _signs(places: list[int], data: bytes) -> set[int]:
    return {n for k, n in enumerate(places) if data[k // 8] & 128 >> k % 8}


def _collations(
    kinds: list[int], texts: Collection[int], parts: dict[int, bytes]
) -> dict[int, int]:
    found = _collations_of(
        _places(kinds, texts), parts.get(_CHARSET), parts.get(_CHARSETS, b"")
    )
    return found | _collations_of(
        _places(kinds, (ENUM, SET)),
        parts.get(_LIST_CHARSET),
        parts.get(_LIST_CHARSETS, b""),
    )


def _collations_of(
    places: list[int], default: bytes | None, each: bytes
) -> dict[int, int]:
    if default is None:
        return dict(zip(places, _numbers(each), strict=True))
    usual, *others = _numbers(default)
    found = dict.fromkeys(places, usual)
    for n, collation in zip(others[::2], others[1::2], strict=True):
        found[places[n]] = collation
    return found


def _words(kinds: list[int], parts: dict[int, bytes]) -> dict[int, tuple[bytes, ...]]:
    def of(kind: int, data: bytes) -> dict[int, tuple[bytes, ...]]:
        lists = list(_lists(data))
        return dict(zip(_places(kinds, (kind,)), lists, strict=True))

    return of(ENUM, parts.get(_ENUMS, b"")) | of(SET, parts.get(_SETS, b""))


def _lists(data: bytes) -> Iterator[tuple[bytes, ...]]:
    at = 0
    while at < len(data):
        count, at = packed_int(data, at)
        words = []
        for _ in range(count):
            size, at = packed_int(data, at)
            words.append(data[at : at + size])
            at += size
        yield tuple(words)
