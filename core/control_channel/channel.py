"""One end of a control channel: messages over a pipe, and its silence.

Any thread may send, one thread reads. It must not know what messages mean.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from core.control_channel.framing import Message, MessageBuffer, encode

READ_BYTES = 65536


class RawFile(Protocol):
    """An unbuffered file, as `FileIO` and the pipes of a child."""

    def read(self, size: int, /) -> bytes | None: ...

    def write(self, data: memoryview, /) -> int | None: ...

    def close(self) -> None: ...


class PipeStream:
    """Two pipes, one each way. OSError when one is broken or closed."""

    def __init__(self, inbound: RawFile, outbound: RawFile) -> None:
        self._in, self._out = inbound, outbound

    def read(self, size: int) -> bytes:
        """Return what is there, waiting for the first byte; b"" at the end."""
        with _closed_as_broken():
            return self._in.read(size) or b""

    def write(self, data: bytes) -> None:
        left = memoryview(data)
        with _closed_as_broken():
            while left:
                left = left[self._out.write(left) or 0 :]

    def close(self) -> None:
        for pipe in (self._in, self._out):
            with contextlib.suppress(OSError):
                pipe.close()


@contextlib.contextmanager
def _closed_as_broken() -> Iterator[None]:
    try:
        yield
    except ValueError as error:  # what a closed file object raises
        raise BrokenPipeError(str(error)) from error


class Silence:
    """How long a peer has said nothing; monotonic, so no clock's jump counts."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._received_at = clock()

    def note_heard(self) -> None:
        self._received_at = self._clock()

    @property
    def seconds(self) -> float:
        return self._clock() - self._received_at


class Channel:
    """Messages over one stream."""

    def __init__(self, stream: PipeStream, *, silence: Silence | None = None) -> None:
        self.silence = silence or Silence()
        self._stream = stream
        self._buffer = MessageBuffer()
        self._writing = threading.Lock()

    def send(self, message: Mapping[str, Any]) -> None:
        """Send it whole; OSError when the peer cannot read it any more,
        MalformedMessage when it is larger than a reader takes."""
        data = encode(message)
        with self._writing:
            self._stream.write(data)

    def messages(self) -> Iterator[Message]:
        """Yield messages until the peer hangs up. What is none is skipped: a damaged
        line must not stop running jobs."""
        while (message := self._next()) is not None:
            yield message

    def close(self) -> None:
        self._stream.close()

    def _next(self) -> Message | None:
        while (message := self._buffer.next()) is None:
            data = self._stream.read(READ_BYTES)
            if not data:
                return None
            self.silence.note_heard()
            self._buffer.feed(data)
        return message
