"""The control channel of a submitted driver: a socket that may break and come again.

Its host may be killed and replaced while the job goes on. So a broken connection is no
end: it knocks again, and only the driver's own patience with silence ends it. A report
that found nobody is told to the next host. It must not know what messages mean.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ingest.spark.pipe import decoded

_KNOCK_SECONDS = 0.5
# Told once and decisive; heartbeats, lines and questions are said again or outdated.
_KEPT = frozenset({"report"})


class ControlSocket:
    """job_id, attempt: what the host knows us by."""

    def __init__(self, path: Path, *, job_id: str, attempt: int) -> None:
        self._path = path
        self._greeting = {"type": "connect", "job_id": job_id, "attempt": attempt}
        self._is_accepted = False
        self._end: socket.socket | None = None
        self._lock = threading.Lock()
        self._kept: list[bytes] = []
        self._heard = time.monotonic()

    def silent_for(self) -> float:
        return time.monotonic() - self._heard

    def send(self, kind: str, **payload: Any) -> None:
        """Never raises: whoever is not there now may be there later."""
        line = _line({"type": kind, **payload})
        with self._lock:
            self._is_accepted = self._is_accepted or kind == "accepted"
            if not self._give(line) and kind in _KEPT:
                self._kept.append(line)

    def messages(self) -> Iterator[dict[str, Any]]:
        """Never ends by itself. Silence counts from here: a session starts slowly."""
        self._heard = time.monotonic()
        while True:
            end = self._connect()
            buffer = b""
            while block := _read(end):
                self._heard = time.monotonic()
                buffer += block
                *lines, buffer = buffer.split(b"\n")
                for line in lines:
                    if (message := decoded(line)) is not None:
                        yield message
            with self._lock:
                self._end = None
            end.close()
            time.sleep(_KNOCK_SECONDS)

    def flush(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            with self._lock:
                if not self._kept:
                    return
            time.sleep(0.1)

    def _connect(self) -> socket.socket:
        while True:
            end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                _knock(end, self._path)
            except OSError:
                end.close()
                time.sleep(_KNOCK_SECONDS)
                continue
            with self._lock:
                self._end = end
                self._give(_line({**self._greeting, "is_accepted": self._is_accepted}))
                self._kept = [line for line in self._kept if not self._give(line)]
            return end

    def _give(self, line: bytes) -> bool:
        if self._end is None:
            return False
        try:
            self._end.sendall(line)
        except OSError:
            return False
        return True


def _knock(end: socket.socket, path: Path) -> None:
    """By way of the directory: a socket's name holds 107 bytes, a path may not."""
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        end.connect(f"/proc/self/fd/{directory}/{path.name}")
    finally:
        os.close(directory)


def _read(end: socket.socket) -> bytes:
    try:
        return end.recv(65536)
    except OSError:
        return b""


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"
