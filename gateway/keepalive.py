"""Sockets of clients that vanished without a word are found out."""

from __future__ import annotations

import asyncio
import contextlib
import socket

_KEEPALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 20),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
)


def keep_alive(transport: asyncio.BaseTransport) -> None:
    """Let the system ask a silent peer, and send small replies at once."""
    raw = transport.get_extra_info("socket")
    if raw is None:
        return
    for level, option, value in _KEEPALIVE:
        with contextlib.suppress(OSError):
            raw.setsockopt(level, option, value)
