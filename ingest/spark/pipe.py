"""The control pipe: JSON lines on the process's original stdin and stdout.

Everything else that prints (Spark, the JVM, libraries) is turned to stderr, so
the pipe carries nothing but messages. It must not know what they mean.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from io import FileIO
from typing import Any, Protocol

_STDIN, _STDOUT, _STDERR = 0, 1, 2


class Control(Protocol):
    """Where a driver's orders come from and its news go to."""

    def silent_for(self) -> float:
        """Seconds since the host was heard last, monotonic."""
        ...

    def send(self, kind: str, **payload: Any) -> None:
        """OSError when nobody will ever listen any more."""
        ...

    def messages(self) -> Iterator[dict[str, Any]]:
        """Until the host is gone for good."""
        ...

    def flush(self, seconds: float) -> None:
        """Wait at most so long until a report that was sent has left us."""
        ...


class ControlPipe:
    """Thread-safe for sending; one thread reads. `silent_for` is monotonic."""

    def __init__(self, inbound: FileIO, outbound: FileIO) -> None:
        self._in = inbound
        self._out = outbound
        self._lock = threading.Lock()
        self._heard = time.monotonic()

    def silent_for(self) -> float:
        return time.monotonic() - self._heard

    def send(self, kind: str, **payload: Any) -> None:
        """Raises BrokenPipeError when nobody listens any more."""
        line = json.dumps({"type": kind, **payload}, separators=(",", ":")) + "\n"
        data = memoryview(line.encode())
        with self._lock:
            while data:
                data = data[self._out.write(data) :]

    def messages(self) -> Iterator[dict[str, Any]]:
        """Messages until the other side closes. Lines that are no JSON object are
        skipped: a damaged line must not stop running jobs."""
        buffer = b""
        while block := self._in.read(65536):
            self._heard = time.monotonic()
            buffer += block
            *lines, buffer = buffer.split(b"\n")
            for line in lines:
                message = decoded(line)
                if message is not None:
                    yield message

    def flush(self, seconds: float) -> None:
        """What was sent has left already."""


def take_over_stdio() -> ControlPipe:
    """Moves stdin and stdout to private descriptors that no child inherits."""
    inbound, outbound = os.dup(_STDIN), os.dup(_STDOUT)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, _STDIN)
    os.close(nothing)
    os.dup2(_STDERR, _STDOUT)
    return ControlPipe(FileIO(inbound, "rb"), FileIO(outbound, "wb"))


def decoded(line: bytes) -> dict[str, Any] | None:
    try:
        message = json.loads(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) else None
