"""What reading requests may cost the one loop of the web server, whoever sends them.

waitress takes requests of any shape in time that grows with more than their length:
headers of blanks, chunks of one byte, lines of nothing. These are refused before.
"""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from typing import Any

from waitress.parser import HTTPRequestParser, ParsingError
from waitress.receiver import ChunkedReceiver
from waitress.utilities import BadRequest

MOST_HEADERS = 200
# waitress matches a header in time that grows with the square of such a run
LONGEST_BLANK = 32
# Bytes of a chunked body that are none of its content: so many, and a part of that.
FRAMING_BYTES, FRAMING_SHARE = 1024, 16
_AT_ONCE = 512  # bytes that are decoded until the framing is looked at
_BLANKS = re.compile(rb"[ \t]{%d}" % (LONGEST_BLANK + 1))
_LENGTHS = re.compile(rb"\n(content-length|transfer-encoding)[ \t]*:", re.IGNORECASE)
_FOLDED = re.compile(rb"\n[ \t]")


class Parser(HTTPRequestParser):  # type: ignore[misc]
    """A request that is there in part; costs little more than its bytes."""

    body_rcv: Any
    header_plus: bytes
    completed: bool

    def received(self, data: bytes) -> int:
        if self.body_rcv is not None or self.header_plus or self.completed:
            return int(super().received(data))
        # else each pair of empty lines before a request would be one of its own
        begun = data.lstrip(b"\r\n")
        skipped = len(data) - len(begun)
        return skipped + int(super().received(begun)) if begun else skipped

    def parse_header(self, header_plus: bytes) -> None:
        if header_plus.count(b"\n") > MOST_HEADERS:
            raise ParsingError(f"more than {MOST_HEADERS} headers")
        if _FOLDED.search(header_plus):
            raise ParsingError("a header of several lines")
        if _BLANKS.search(header_plus):
            raise ParsingError(f"more than {LONGEST_BLANK} blanks in a row")
        _refuse_two_lengths(header_plus)
        super().parse_header(header_plus)
        if self.chunked:
            self.body_rcv = Chunks(self.body_rcv.getbuf())


def _refuse_two_lengths(header_plus: bytes) -> None:
    """A proxy before us may go by the other one, and take for the next request what is
    the body of this: RFC 9112, 6.1. waitress closes the connection."""
    named = {name.lower() for name in _LENGTHS.findall(header_plus)}
    if b"transfer-encoding" not in named:
        return
    if b"content-length" in named:
        raise ParsingError("Content-Length and Transfer-Encoding")
    if not header_plus.partition(b"\n")[0].rstrip().endswith(b"HTTP/1.1"):
        raise ParsingError("Transfer-Encoding without HTTP/1.1")


class Chunks(ChunkedReceiver):  # type: ignore[misc]
    """A body in chunks, refused when it is made of little but these."""

    def __init__(self, buf: Any) -> None:
        super().__init__(buf)
        self._framing_bytes = 0

    def received(self, s: bytes) -> int:
        consumed = 0
        while consumed < len(s) and not (self.completed or self.error):
            consumed += self._decode(s[consumed : consumed + _AT_ONCE])
        return consumed

    def _decode(self, part: bytes) -> int:
        before = len(self)
        consumed = int(super().received(part))
        self._framing_bytes += consumed - (len(self) - before)
        if self._framing_bytes > FRAMING_BYTES + len(self) // FRAMING_SHARE:
            self.error = BadRequest("chunks too small, or lines between them too long")
        return consumed


class NotYet(Parser):
    """In place of a request while the one before is worked on: bytes, not looked at."""

    def __init__(self, adj: Any) -> None:
        super().__init__(adj)
        self.data = b""

    def received(self, data: bytes) -> int:
        self.data += data
        return len(data)


class Turns:
    """Tasks that wait for a thread: of each client in order, of all clients in turn.

    As the queue of `waitress.task.ThreadedTaskDispatcher`, used under its lock.
    """

    def __init__(self, client_of: Any) -> None:
        self._client_of = client_of
        self._waiting: OrderedDict[str, deque[Any]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, task: Any) -> None:
        self._waiting.setdefault(self._client_of(task), deque()).append(task)
        self._count += 1

    def popleft(self) -> Any:
        client, his = self._waiting.popitem(last=False)
        task = his.popleft()
        if his:
            self._waiting[client] = his  # behind all others
        self._count -= 1
        return task
