"""Thrift's strict binary protocol for declared structs, with every size bounded.

A struct is a dataclass whose fields were made by `wire`. Unknown fields are skipped,
a field of an unexpected type likewise, as generated bindings do. Must not know any
particular message.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from gateway.hs2.errors import MessageError

T = TypeVar("T")

STOP = 0
MAX_DEPTH = 24
MAX_TEXT = 8 * 1024 * 1024
MAX_ITEMS = 1_000_000
# of a client's message, read on the event loop at about a microsecond each
MAX_CLIENT_ITEMS = 10_000

_B = struct.Struct("!b")
_H = struct.Struct("!h")
_I = struct.Struct("!i")
_Q = struct.Struct("!q")
_D = struct.Struct("!d")
_FIELD = struct.Struct("!bh")
_LIST = struct.Struct("!bi")
_MAP = struct.Struct("!bbi")
_FIXED = {2: 1, 3: 1, 4: 8, 6: 2, 8: 4, 10: 8}
_TEXT, _STRUCT, _MAPCODE, _SET, _LISTCODE = 11, 12, 13, 14, 15


class Reader:
    """A position in received bytes. `text_errors` is how bad UTF-8 is met.

    max_items  fields and items that the whole message may have: reading one costs
               time whatever its size
    """

    __slots__ = ("data", "depth", "left", "max_text", "position", "text_errors")

    def __init__(
        self,
        data: bytes | bytearray | memoryview,
        *,
        position: int = 0,
        text_errors: str = "strict",
        max_text: int = MAX_TEXT,
        max_items: int = MAX_ITEMS,
    ) -> None:
        self.data = data
        self.position = position
        self.depth = 0
        self.text_errors = text_errors
        self.max_text = max_text
        self.left = max_items

    def unpack(self, layout: struct.Struct) -> tuple[Any, ...]:
        try:
            values = layout.unpack_from(self.data, self.position)
        except struct.error:
            raise MessageError("the message ends inside a value") from None
        self.position += layout.size
        return values

    def take(self, size: int) -> bytes:
        end = self.position + size
        if size < 0 or end > len(self.data):
            raise MessageError(f"a value of {size} bytes does not fit the message")
        taken = bytes(self.data[self.position : end])
        self.position = end
        return taken

    def raw(self) -> bytes:
        """Read one length-prefixed value."""
        (size,) = self.unpack(_I)
        if size > self.max_text:
            raise MessageError(
                f"a value of {size} bytes; at most {self.max_text} are accepted"
            )
        return self.take(size)

    def count(self, size: int) -> int:
        """Check an announced number of items against limit and remaining bytes."""
        if not 0 <= size <= min(self.left, len(self.data) - self.position):
            raise MessageError(f"a container of {size} items does not fit the message")
        self.left -= size
        return size

    def begin_field(self) -> None:
        """Count one field of a struct."""
        self.left -= 1
        if self.left < 0:
            raise MessageError("the message has too many fields and items")

    def enter(self) -> None:
        """Go one level deeper; every level is left by `depth -= 1`."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise MessageError(f"values are nested deeper than {MAX_DEPTH}")

    def skip(self, code: int) -> None:
        if code in _FIXED:
            self.take(_FIXED[code])
        elif code == _TEXT:
            self.raw()
        elif code == _STRUCT:
            self._skip_struct()
        elif code in {_SET, _LISTCODE}:
            item, size = self.unpack(_LIST)
            self._skip_items((item,), size)
        elif code == _MAPCODE:
            key, value, size = self.unpack(_MAP)
            self._skip_items((key, value), size)
        else:
            raise MessageError(f"{code} is not a type of the protocol")

    def _skip_struct(self) -> None:
        self.enter()
        while True:
            (code,) = self.unpack(_B)
            if code == STOP:
                break
            self.begin_field()
            self.take(2)
            self.skip(code)
        self.depth -= 1

    def _skip_items(self, codes: tuple[int, ...], size: int) -> None:
        self.enter()
        for _ in range(self.count(size)):
            for code in codes:
                self.skip(code)
        self.depth -= 1


class Wire(Protocol):
    """How one type is read and written. `code` is its type id on the wire."""

    @property
    def code(self) -> int: ...

    def read(self, reader: Reader) -> Any: ...

    def write(self, out: bytearray, value: Any) -> None: ...


@dataclass(frozen=True, slots=True)
class Fixed:
    code: int
    layout: struct.Struct

    def read(self, reader: Reader) -> Any:
        return reader.unpack(self.layout)[0]

    def write(self, out: bytearray, value: Any) -> None:
        out += self.layout.pack(value)


class _Bool:
    code = 2

    def read(self, reader: Reader) -> bool:
        return bool(reader.unpack(_B)[0])

    def write(self, out: bytearray, value: bool) -> None:  # noqa: FBT001
        out.append(1 if value else 0)


class _Text:
    code = _TEXT

    def read(self, reader: Reader) -> str:
        try:
            return reader.raw().decode("utf-8", reader.text_errors)
        except UnicodeDecodeError as error:
            raise MessageError(f"a text is not UTF-8: {error.reason}") from None

    def write(self, out: bytearray, value: str) -> None:
        encoded = value.encode("utf-8", "replace")
        out += _I.pack(len(encoded))
        out += encoded


class _Binary:
    code = _TEXT

    def read(self, reader: Reader) -> bytes:
        return reader.raw()

    def write(self, out: bytearray, value: bytes) -> None:
        out += _I.pack(len(value))
        out += value


@dataclass(frozen=True, slots=True)
class Opaque:
    """A struct written from its already encoded bytes; never read."""

    code: int = _STRUCT

    def read(self, reader: Reader) -> bytes:
        start = reader.position
        reader.skip(_STRUCT)
        return bytes(reader.data[start : reader.position])

    def write(self, out: bytearray, value: bytes) -> None:
        out += value


BOOL, TEXT, BINARY = _Bool(), _Text(), _Binary()
BYTE, I16, I32, I64 = Fixed(3, _B), Fixed(6, _H), Fixed(8, _I), Fixed(10, _Q)
DOUBLE = Fixed(4, _D)


@dataclass(frozen=True, slots=True)
class ListOf:
    item: Wire
    code: int = _LISTCODE

    def read(self, reader: Reader) -> tuple[Any, ...]:
        code, size = reader.unpack(_LIST)
        if size and code != self.item.code:
            raise MessageError(f"a list holds type {code}, not {self.item.code}")
        reader.enter()
        read = self.item.read
        items = tuple([read(reader) for _ in range(reader.count(size))])
        reader.depth -= 1
        return items

    def write(self, out: bytearray, value: Any) -> None:
        out += _LIST.pack(self.item.code, len(value))
        for item in value:
            self.item.write(out, item)


@dataclass(frozen=True, slots=True)
class MapOf:
    key: Wire
    value: Wire
    code: int = _MAPCODE

    def read(self, reader: Reader) -> dict[Any, Any]:
        key, value, size = reader.unpack(_MAP)
        if size and (key, value) != (self.key.code, self.value.code):
            raise MessageError(f"a map holds types {key} and {value}")
        reader.enter()
        pairs = {
            self.key.read(reader): self.value.read(reader)
            for _ in range(reader.count(size))
        }
        reader.depth -= 1
        return pairs

    def write(self, out: bytearray, value: Any) -> None:
        out += _MAP.pack(self.key.code, self.value.code, len(value))
        for key, item in value.items():
            self.key.write(out, key)
            self.value.write(out, item)


@dataclass(frozen=True, slots=True)
class StructOf:
    """A declared struct: what class it builds and which field id holds what."""

    build: Callable[..., Any]
    fields: tuple[tuple[int, str, Wire], ...]
    by_id: dict[int, tuple[str, Wire]]
    code: int = _STRUCT

    def read(self, reader: Reader) -> Any:
        reader.enter()
        values: dict[str, Any] = {}
        while True:
            (code,) = reader.unpack(_B)
            if code == STOP:
                break
            reader.begin_field()
            (number,) = reader.unpack(_H)
            known = self.by_id.get(number)
            if known is None or known[1].code != code:
                reader.skip(code)
                continue
            values[known[0]] = known[1].read(reader)
        reader.depth -= 1
        return self.build(**values)

    def write(self, out: bytearray, value: Any) -> None:
        for number, name, wire_type in self.fields:
            item = getattr(value, name)
            if item is None:
                continue
            out += _FIELD.pack(wire_type.code, number)
            wire_type.write(out, item)
        out.append(STOP)


def wire(number: int, kind: Wire | type, default: Any = None) -> Any:
    """Declare a field: its id, its type (a declared class for a struct), its default.

    A field whose value is None is not written.
    """
    return dataclasses.field(default=default, metadata={"wire": (number, kind)})


_STRUCTS: dict[type, StructOf] = {}


def struct_of(cls: type) -> StructOf:
    """Return how a declared class travels."""
    known = _STRUCTS.get(cls)
    if known is None:
        fields = tuple(
            (item.metadata["wire"][0], item.name, _resolve(item.metadata["wire"][1]))
            for item in dataclasses.fields(cls)
        )
        by_id = {number: (name, kind) for number, name, kind in fields}
        known = _STRUCTS[cls] = StructOf(cls, fields, by_id)
    return known


def _resolve(kind: Any) -> Wire:
    resolved: Wire = struct_of(kind) if isinstance(kind, type) else kind
    return resolved


def list_of(kind: Wire | type) -> ListOf:
    """A list of a type or of a declared class."""
    return ListOf(_resolve(kind))


def encode(value: object) -> bytes:
    out = bytearray()
    struct_of(type(value)).write(out, value)
    return bytes(out)


def decode(cls: type[T], reader: Reader) -> T:
    """Read a declared struct; MessageError when the bytes are not one."""
    result: T = struct_of(cls).read(reader)
    return result
