"""Sockets: unix sockets below any path, and peers that are gone without a word."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_CREDENTIALS = struct.Struct("3i")


def keep_alive(
    link: socket.socket, *, idle: int, interval: int, probes: int, unacknowledged: int
) -> None:
    """Seconds of silence before the first probe, between two, how many; and how long
    sent data may stay without an acknowledgement."""
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, idle)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, interval)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, probes)
    limit = unacknowledged * 1_000
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, limit)


def listen_unix(path: Path, *, backlog: int) -> socket.socket:
    """Listen at `path`, in place of whatever was there."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with _short(path) as name:
        listener.bind(name)
    listener.listen(backlog)
    return listener


def connect_unix(path: Path) -> socket.socket:
    """Return a connection to the listener at `path`; OSError without one."""
    end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _short(path) as name:
            end.connect(name)
    except OSError:
        end.close()
        raise
    return end


def peer_uid(end: socket.socket) -> int:
    """Return whose process connected, by SO_PEERCRED (unix(7)): pid, uid, gid."""
    found = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(found)
    return int(uid)


@contextmanager
def _short(path: Path) -> Iterator[str]:
    """By way of the directory: a socket's name holds 107 bytes, a path may not."""
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)
