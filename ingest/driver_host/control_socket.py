"""The control door: a Unix socket that submitted drivers come back to.

A pipe ends with its host; a driver that came through `spark-submit` outlives one, and
finds the next behind the same door. The directory is ours alone and the kernel tells
who knocks, so no secret is needed. Must not know what messages mean.
"""

from __future__ import annotations

import logging
import os
import socket
import struct
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.control_channel.channel import Channel, SocketStream
from core.control_channel.framing import MalformedMessage
from core.sockets import listen_unix, peer_uid

log = logging.getLogger(__name__)

_BACKLOG = 64
_GREETING_SECONDS = 10.0
# A driver that is stopped must not stop its host with it: seconds, microseconds.
_SEND_TIMEOUT = struct.pack("ll", 5, 0)

# Called with (job id, attempt, message), and never two for one at a time.
Hear = Callable[[str, int, dict[str, Any]], None]
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

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._heard = threading.Event()

    def wait_heard(self, seconds: float) -> None:
        """Until all that it said has been passed on; at most so long."""
        self._heard.wait(seconds)

    def note_heard(self) -> None:
        self._heard.set()

    def send(self, data: Mapping[str, Any]) -> None:
        try:
            self._channel.send(data)
        except MalformedMessage:
            log.exception("an order was not sent; its job will count as lost")
        except OSError:
            log.debug("a driver has hung up")

    def close(self) -> None:
        self._channel.close()


class ControlDoor:
    """Open from construction until `close`."""

    def __init__(self, path: Path, *, admit: Admit, hear: Hear) -> None:
        self._path = path
        self._admit, self._hear = admit, hear
        path.parent.mkdir(parents=True, exist_ok=True)
        path.parent.chmod(0o700)
        self._listener = listen_unix(path, backlog=_BACKLOG)
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
            if peer_uid(end) != os.geteuid():
                log.warning("an unauthenticated process connects to %s", self._path)
                return
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _SEND_TIMEOUT)
            end.settimeout(_GREETING_SECONDS)
            channel = Channel(SocketStream(end))
            greeting = _greeting(channel)
            if greeting is None:
                return
            end.settimeout(None)
            connection = Connection(channel)
            if not self._admit(greeting, connection):
                connection.send({"type": "stop"})
                return
            try:
                self._listen(channel, greeting)
            finally:
                connection.note_heard()

    def _listen(self, channel: Channel, greeting: Greeting) -> None:
        try:
            for message in channel.messages():
                self._hear(greeting.job_id, greeting.attempt, message)
        except OSError:
            log.debug("driver of job %s hung up", greeting.job_id)


def _greeting(channel: Channel) -> Greeting | None:
    try:
        found = channel.greeting()
        if found is None:
            return None
        job_id, attempt = str(found["job_id"]), int(found["attempt"])
        return Greeting(job_id, attempt, bool(found.get("is_accepted")))
    except (OSError, MalformedMessage, ValueError, KeyError, TypeError):
        return None
