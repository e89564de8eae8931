"""Where statements begin and end in the bytes between a client and its server.

One reader per connection, fed in both directions. No TLS: a test asks for none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

_SSL, _GSS, _CANCEL = 80877103, 80877104, 80877102
_DEPRECATE_EOF = 1 << 24
_MORE_RESULTS = 0x0008


@dataclass(frozen=True, slots=True)
class Request:
    """Bytes for the server that belong together. text "" = no statement;
    reply: bytes for the client instead, when the server shall not see it."""

    data: bytes
    text: str = ""
    reply: bytes = b""


@dataclass(frozen=True, slots=True)
class Answer:
    """Bytes for the client. ends: with them the answer to a request is complete."""

    data: bytes
    ends: bool = False


class WireReader(Protocol):
    def requests(self, data: bytes) -> list[Request]: ...

    def answers(self, data: bytes) -> list[Answer]: ...


class PostgresWire:
    """The frontend/backend protocol 3.0. A statement is a Query, or what is executed
    up to a Sync; its answer ends with ReadyForQuery."""

    def __init__(self) -> None:
        self._from_client, self._from_server = bytearray(), bytearray()
        self._has_started = False
        self._batch, self._texts = bytearray(), list[str]()
        self._prepared: dict[bytes, str] = {}
        self._portals: dict[bytes, str] = {}

    def requests(self, data: bytes) -> list[Request]:
        self._from_client += data
        found: list[Request] = []
        while not self._has_started:
            if len(self._from_client) < 8:
                return found
            size = int.from_bytes(self._from_client[:4], "big")
            if len(self._from_client) < size:
                return found
            code = int.from_bytes(self._from_client[4:8], "big")
            message = _take(self._from_client, size)
            if code in {_SSL, _GSS}:
                found.append(Request(b"", reply=b"N"))
                continue
            self._has_started = True
            found.append(Request(message))
        while (message := self._message(self._from_client)) is not None:
            found += self._request(message)
        return found

    def answers(self, data: bytes) -> list[Answer]:
        self._from_server += data
        found = []
        while (message := self._message(self._from_server)) is not None:
            found.append(Answer(message, ends=message[:1] == b"Z"))
        return found

    @staticmethod
    def _message(buffer: bytearray) -> bytes | None:
        if len(buffer) < 5:
            return None
        size = 1 + int.from_bytes(buffer[1:5], "big")
        return _take(buffer, size) if len(buffer) >= size else None

    def _request(self, message: bytes) -> list[Request]:
        kind, body = message[:1], message[5:]
        if kind in b"pXdcfH":
            data = bytes(self._batch) + message
            self._batch.clear()
            return [Request(data)]
        self._batch += message
        if kind == b"Q":
            return self._batched(body[:-1].decode())
        if kind == b"P":
            name, text, _ = body.split(b"\0", 2)
            self._prepared[name] = text.decode()
        elif kind == b"B":
            portal, name, _ = body.split(b"\0", 2)
            self._portals[portal] = self._prepared.get(name, "")
        elif kind == b"E":
            self._texts.append(self._portals.get(body.partition(b"\0")[0], ""))
        elif kind == b"S":
            return self._batched("; ".join(t for t in self._texts if t))
        return []

    def _batched(self, text: str) -> list[Request]:
        data = bytes(self._batch)
        self._batch.clear()
        self._texts.clear()
        return [Request(data, text)]


class MysqlWire:
    """MariaDB's and MySQL's protocol. A statement is a COM_QUERY; its answer ends with
    the last packet of its last result."""

    def __init__(self) -> None:
        self._from_client, self._from_server = bytearray(), bytearray()
        self._is_in = False
        self._ends_with_ok = False
        # of the result that is being answered: column definitions yet to come
        self._columns = -1
        self._awaits_eof = False

    def requests(self, data: bytes) -> list[Request]:
        self._from_client += data
        found = []
        while (packet := _packet(self._from_client)) is not None:
            number, body = packet[3], packet[4:]
            if not self._is_in and number == 1:
                flags = int.from_bytes(body[:4], "little")
                self._ends_with_ok = bool(flags & _DEPRECATE_EOF)
            is_query = self._is_in and number == 0 and body[:1] == b"\x03"
            found.append(
                Request(packet, body[1:].decode(errors="replace") if is_query else "")
            )
        return found

    def answers(self, data: bytes) -> list[Answer]:
        self._from_server += data
        found = []
        while (packet := _packet(self._from_server)) is not None:
            found.append(Answer(packet, ends=self._ends(packet[4:])))
        return found

    def _ends(self, body: bytes) -> bool:
        head = body[0]
        if not self._is_in:
            self._is_in = head == 0
            return head in {0, 0xFF}
        if self._columns < 0:
            if head == 0:
                return not self._has_more(body)
            if head == 0xFF:
                return True
            self._columns = _length(body, 0)[0]
            self._awaits_eof = not self._ends_with_ok
            return False
        if self._columns:
            self._columns -= 1
            return False
        if head == 0xFE and len(body) < 0xFFFFFF and self._awaits_eof:
            self._awaits_eof = False
            return False
        if head == 0xFF or (head == 0xFE and len(body) < 0xFFFFFF):
            self._columns = -1
            return head == 0xFF or not self._has_more(body)
        return False

    def _has_more(self, body: bytes) -> bool:
        if body[0] == 0xFE and not self._ends_with_ok:
            status = body[3:5]
        else:
            _, at = _length(body, 1)
            _, at = _length(body, at)
            status = body[at : at + 2]
        return bool(int.from_bytes(status, "little") & _MORE_RESULTS)


def _packet(buffer: bytearray) -> bytes | None:
    if len(buffer) < 4:
        return None
    size = 4 + int.from_bytes(buffer[:3], "little")
    return _take(buffer, size) if len(buffer) >= size else None


def _take(buffer: bytearray, size: int) -> bytes:
    taken = bytes(buffer[:size])
    del buffer[:size]
    return taken


def _length(body: bytes, at: int) -> tuple[int, int]:
    """A length-encoded number and where it ends."""
    size = {0xFC: 2, 0xFD: 3, 0xFE: 8}.get(body[at], 0)
    if not size:
        return body[at], at + 1
    return int.from_bytes(body[at + 1 : at + 1 + size], "little"), at + 1 + size
