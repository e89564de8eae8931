"""Cuts a byte stream into SASL negotiation frames and length-prefixed messages, and
reads and writes SASL PLAIN as Hive's clients speak it.

Incremental: any split of the same bytes gives the same frames. Nothing is kept
beyond one announced frame, and an announced length is checked before it is awaited.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from gateway.hs2.errors import LimitExceeded, ProtocolError

MECHANISM = b"PLAIN"
REFUSED = "Error validating the login"
MAX_SASL_PAYLOAD = 16 * 1024
MAX_REQUEST = 16 * 1024 * 1024
MAX_REPLY = 1024 * 1024 * 1024

START, OK, BAD, ERROR, COMPLETE = 1, 2, 3, 4, 5
_STATUSES = frozenset({START, OK, BAD, ERROR, COMPLETE})
_SASL_HEADER = struct.Struct("!BI")
_LENGTH = struct.Struct("!I")


@dataclass(frozen=True, slots=True)
class SaslFrame:
    """One step of the negotiation: a status byte and its payload."""

    status: int
    payload: bytes


def sasl_frame(status: int, payload: bytes = b"") -> bytes:
    return _SASL_HEADER.pack(status, len(payload)) + payload


def length_prefix(size: int) -> bytes:
    return _LENGTH.pack(size)


class FrameBuffer:
    """Bytes received and not yet cut. `limit` bounds one message, in bytes."""

    def __init__(self, *, limit: int = MAX_REQUEST) -> None:
        self._buffer = bytearray()
        self._limit = limit

    def __len__(self) -> int:
        return len(self._buffer)

    def feed(self, data: bytes | memoryview) -> None:
        self._buffer += data

    def next_sasl(self) -> SaslFrame | None:
        """Cut one negotiation step, or return None while it is incomplete."""
        if not self._buffer:
            return None
        if self._buffer[0] not in _STATUSES:
            raise ProtocolError(
                f"the first byte is {self._buffer[0]}, not a SASL status",
                hint="connect with SASL PLAIN (binary transport), not NOSASL or HTTP",
            )
        if len(self._buffer) < _SASL_HEADER.size:
            return None
        status, size = _SASL_HEADER.unpack_from(self._buffer)
        if size > MAX_SASL_PAYLOAD:
            raise LimitExceeded(
                f"a SASL payload of {size} bytes was announced; "
                f"at most {MAX_SASL_PAYLOAD} are accepted"
            )
        payload = self._cut(_SASL_HEADER.size, size)
        return None if payload is None else SaslFrame(status, payload)

    def next_message(self) -> bytes | None:
        """Cut one length-prefixed message, or return None while it is incomplete."""
        if len(self._buffer) < _LENGTH.size:
            return None
        (size,) = _LENGTH.unpack_from(self._buffer)
        if size > self._limit:
            raise LimitExceeded(
                f"a message of {size} bytes was announced; "
                f"at most {self._limit} are accepted",
                hint="send a shorter statement",
                facts={"announced": size, "limit": self._limit},
            )
        return self._cut(_LENGTH.size, size)

    @property
    def is_begun(self) -> bool:
        """True while a message has begun and is not there as a whole."""
        return 0 < len(self._buffer) < _LENGTH.size or self.missing() > 0

    def missing(self) -> int:
        """Return how many bytes the begun message lacks; 0 when none was begun."""
        if len(self._buffer) < _LENGTH.size:
            return 0
        (size,) = _LENGTH.unpack_from(self._buffer)
        return max(int(size) + _LENGTH.size - len(self._buffer), 0)

    def take_begun(self) -> bytes:
        """Take what came of the begun message, without its length."""
        begun = bytes(memoryview(self._buffer)[_LENGTH.size :])
        self._buffer.clear()
        return begun

    def _cut(self, header: int, size: int) -> bytes | None:
        end = header + size
        if len(self._buffer) < end:
            return None
        payload = bytes(memoryview(self._buffer)[header:end])
        del self._buffer[:end]
        return payload


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a client claims. `authzid` is whom it wants to act as, usually empty."""

    username: str
    password: str = field(repr=False)
    authzid: str = ""


def parse_plain(payload: bytes) -> Credentials:
    """Read `authzid NUL user NUL password`."""
    parts = payload.split(b"\0")
    if len(parts) != 3:
        raise ProtocolError("the PLAIN response does not hold three parts")
    try:
        authzid, username, password = (part.decode() for part in parts)
    except UnicodeDecodeError:
        raise ProtocolError("the PLAIN response is not UTF-8") from None
    return Credentials(username, password, authzid)


def client_opening(username: str, password: str) -> bytes:
    """Return what a client sends at once: the mechanism and its initial response."""
    response = b"\0".join((b"", username.encode(), password.encode()))
    return sasl_frame(START, MECHANISM) + sasl_frame(OK, response)
