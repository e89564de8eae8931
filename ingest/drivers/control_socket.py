"""The control door: a Unix socket that submitted drivers come back to.

A pipe ends with its host; a driver that came through `spark-submit` outlives one, and
finds the next behind the same door. The directory is ours alone and the kernel tells
who knocks, so no secret is needed. Must not know what messages mean.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

log = logging.getLogger(__name__)

_BACKLOG = 64
_LONGEST_GREETING = 4096
_GREETING_SECONDS = 10.0
_CREDENTIALS = struct.Struct("3i")
# A driver that is stopped must not stop its host with it: seconds, microseconds.
_SEND_TIMEOUT = struct.pack("ll", 5, 0)

# Called with (job id, attempt, line) for each line, and never two for one at a time.
Hear = Callable[[str, int, bytes], None]
# Called with who it is; False sends the driver away.
Admit = Callable[["Greeting", "Connection"], bool]


@dataclass(frozen=True, slots=True)
class Greeting:
    """is_accepted: it has got its job before, from us or from an earlier host."""

    job_id: str
    attempt: int
    is_accepted: bool


class Connection:
    """One driver's end. Sending to one that is gone is no error: it comes back."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._lock = threading.Lock()
        self._heard = threading.Event()

    def wait_heard(self, seconds: float) -> None:
        """Until all that it said has been passed on; at most so long."""
        self._heard.wait(seconds)

    def note_heard(self) -> None:
        self._heard.set()

    def send(self, data: Mapping[str, Any]) -> None:
        line = json.dumps(data, ensure_ascii=False).encode() + b"\n"
        try:
            with self._lock:
                self._end.sendall(line)
        except OSError:
            log.debug("a driver has hung up")

    def close(self) -> None:
        try:
            self._end.shutdown(socket.SHUT_RDWR)
        except OSError:
            return


class ControlDoor:
    """Open from construction until `close`."""

    def __init__(self, path: Path, *, admit: Admit, hear: Hear) -> None:
        self._path = path
        self._admit, self._hear = admit, hear
        path.parent.mkdir(parents=True, exist_ok=True)
        path.parent.chmod(0o700)
        path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            # a socket's name holds 107 bytes, the path of a home may not
            self._listener.bind(f"/proc/self/fd/{directory}/{path.name}")
        finally:
            os.close(directory)
        self._listener.listen(_BACKLOG)
        threading.Thread(target=self._serve, name="door", daemon=True).start()

    def close(self) -> None:
        try:
            self._listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            log.debug("the door is closed already")
        self._listener.close()
        self._path.unlink(missing_ok=True)

    def _serve(self) -> None:
        while True:
            try:
                end, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._meet, args=(end,), daemon=True).start()

    def _meet(self, end: socket.socket) -> None:
        with end:
            if not _is_ours(end):
                log.warning("somebody else's process knocks at %s", self._path)
                return
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _SEND_TIMEOUT)
            end.settimeout(_GREETING_SECONDS)
            with end.makefile("rb") as lines:
                greeting = _greeting(lines)
                if greeting is None:
                    return
                end.settimeout(None)
                connection = Connection(end)
                if not self._admit(greeting, connection):
                    connection.send({"type": "stop"})
                    return
                try:
                    self._listen(lines, greeting)
                finally:
                    connection.note_heard()

    def _listen(self, lines: Iterable[bytes], greeting: Greeting) -> None:
        try:
            for line in lines:
                self._hear(greeting.job_id, greeting.attempt, line)
        except OSError:
            log.debug("driver of job %s hung up", greeting.job_id)


def _greeting(lines: BinaryIO) -> Greeting | None:
    try:
        told = json.loads(lines.readline(_LONGEST_GREETING))
        job_id, attempt = str(told["job_id"]), int(told["attempt"])
        return Greeting(job_id, attempt, bool(told.get("is_accepted")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _is_ours(end: socket.socket) -> bool:
    """By SO_PEERCRED (unix(7)): pid, uid, gid of whoever connected."""
    told = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(told)
    return bool(uid == os.geteuid())
