"""What stands on the wire of a control channel: one JSON object per line.

Pure: pieces of a stream in, whole messages out. Host and driver, gateway and engine
are started from the same release, and the engine's end is Java: lines stay lines.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping
from typing import Any

Message = dict[str, Any]

# Specs and reports of the widest tables have some megabytes.
LARGEST_MESSAGE = 64 * 1024 * 1024
# What a peer may send before it has said who it is.
LARGEST_GREETING = 4096


class MalformedMessage(ValueError):
    """What came is no message: too large, no JSON, or no object."""


def encode(message: Mapping[str, Any], *, limit: int = LARGEST_MESSAGE) -> bytes:
    """Return the message as it goes over the wire; MalformedMessage when no reader
    would take it."""
    line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
    if len(line) > limit:
        kind = message.get("type")
        raise MalformedMessage(f"a message {kind!r} of {len(line)} bytes is too large")
    return line


def decode(line: bytes) -> Message:
    """Return the message of one line; MalformedMessage when it is none."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise MalformedMessage(f"not JSON: {error}") from error
    if not isinstance(message, dict):
        raise MalformedMessage(f"a {type(message).__name__} in place of an object")
    return message


def has_secret(greeting: Mapping[str, Any], secret: str) -> bool:
    """Whether the greeting carries the secret, in a time that tells nothing of it."""
    given = str(greeting.get("secret", ""))
    # the bytes of whatever a stranger sends, halves of surrogate pairs included
    return hmac.compare_digest(
        given.encode("utf-8", "surrogatepass"), secret.encode("utf-8")
    )


class MessageBuffer:
    """Cuts messages out of the pieces in which a stream arrives.

    limit      the most bytes of one message; may be changed between two
    is_strict  what is no message raises MalformedMessage; otherwise it is skipped, as
               noise that a library printed or a line that was damaged
    """

    def __init__(
        self, *, limit: int = LARGEST_MESSAGE, is_strict: bool = False
    ) -> None:
        self.limit = limit
        self.is_strict = is_strict
        self._bytes = bytearray()
        self._searched = 0
        self._is_skipping = False

    def feed(self, data: bytes) -> None:
        """Take what the stream gave."""
        self._bytes += data

    def next(self) -> Message | None:
        """Return the next whole message; None while more has to come."""
        while (line := self._next_line()) is not None:
            try:
                return decode(line)
            except MalformedMessage:
                if self.is_strict:
                    raise
        return None

    def _next_line(self) -> bytes | None:
        """The next line that is not too long, without its end."""
        while True:
            end = self._bytes.find(b"\n", self._searched)
            length = len(self._bytes) if end < 0 else end + 1
            is_oversize = self._is_skipping or length > self.limit
            if end < 0:
                if is_oversize:
                    self._skip(length, to_end_of_line=True)
                self._searched = len(self._bytes)
                return None
            if not is_oversize:
                line = bytes(self._bytes[:end])
                self._drop(length)
                return line
            self._skip(length, to_end_of_line=False)

    def _skip(self, length: int, *, to_end_of_line: bool) -> None:
        """Forget so many bytes of a line that is too long, and the rest of it too."""
        if self.is_strict:
            raise MalformedMessage(f"a message of more than {self.limit} bytes")
        self._drop(length)
        self._is_skipping = to_end_of_line

    def _drop(self, length: int) -> None:
        del self._bytes[:length]
        self._searched = 0
