"""Sockets: peers that are gone without a word."""

from __future__ import annotations

import socket


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
