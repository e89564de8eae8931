"""The driver's end of its control channel: pipes of its host, or a socket of any host.

It must not know what messages mean.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from core.control_channel.channel import Channel, Silence, SocketStream
from core.sockets import connect_unix

_RETRY_SECONDS = 0.5
# Sent once and decisive; heartbeats, lines and questions are sent again or outdated.
_KEPT = frozenset({"report"})


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


class ControlSocket:
    """Of a submitted driver, whose host may be killed and replaced while the job goes
    on: a broken connection is no end, and a report that found nobody is kept for the
    next host. Only the driver's own patience with silence ends it.

    job_id, attempt: what the host knows us by.
    """

    def __init__(self, path: Path, *, job_id: str, attempt: int) -> None:
        self._path = path
        self._greeting = {"type": "connect", "job_id": job_id, "attempt": attempt}
        self._is_accepted = False
        self._channel: Channel | None = None
        self._lock = threading.Lock()
        self._kept: list[dict[str, Any]] = []
        self._silence = Silence()

    def silent_for(self) -> float:
        return self._silence.seconds

    def send(self, kind: str, **payload: Any) -> None:
        """Never raises: whoever is not there now may be there later."""
        message = {"type": kind, **payload}
        with self._lock:
            self._is_accepted = self._is_accepted or kind == "accepted"
            if not self._give(message) and kind in _KEPT:
                self._kept.append(message)

    def messages(self) -> Iterator[dict[str, Any]]:
        """Never ends by itself. Silence counts from here: a session starts slowly."""
        self._silence.note_heard()
        while True:
            with self._connect() as end:
                channel = self._greet(end)
                with contextlib.suppress(OSError):
                    yield from channel.messages()
                with self._lock:
                    self._channel = None
            time.sleep(_RETRY_SECONDS)

    def flush(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            with self._lock:
                if not self._kept:
                    return
            time.sleep(0.1)

    def _connect(self) -> socket.socket:
        while True:
            try:
                return connect_unix(self._path)
            except OSError:
                time.sleep(_RETRY_SECONDS)

    def _greet(self, end: socket.socket) -> Channel:
        """Say who we are before anything else is sent, then what was kept."""
        channel = Channel(SocketStream(end), silence=self._silence)
        with self._lock:
            self._channel = channel
            self._give({**self._greeting, "is_accepted": self._is_accepted})
            self._kept = [message for message in self._kept if not self._give(message)]
        return channel

    def _give(self, message: dict[str, Any]) -> bool:
        if self._channel is None:
            return False
        try:
            self._channel.send(message)
        except OSError:
            return False
        return True
