"""Waiting for PostgreSQL's answers no longer than one may: libpq would for ever."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from typing import Any

import psycopg

Link = psycopg.Connection[tuple[Any, ...]]


def hang_up(link: Link) -> None:
    """Wakes the thread that waits on this connection with an end of file."""
    with (
        contextlib.suppress(OSError, psycopg.Error),
        socket.socket(fileno=os.dup(link.fileno())) as twin,
    ):
        twin.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def answered_within(link: Link, seconds: float) -> Iterator[None]:
    """Hangs up when what waits on it inside has waited for so long."""
    guard = threading.Timer(seconds, hang_up, [link])
    guard.daemon = True
    guard.start()
    try:
        yield
    finally:
        guard.cancel()
