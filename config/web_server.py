"""The HTTP server of the web process: nobody holds a thread by being slow.

One loop reads requests and writes replies; a request gets one of few threads when it is
there as a whole, and gives it back when its reply is made, read or not. Knows no route.
"""

from __future__ import annotations

import logging
import signal
import socket
import time
from typing import Any
from wsgiref.types import WSGIApplication

from waitress import wasyncore
from waitress.server import create_server

THREADS = 16
CONNECTIONS = 1_000
# More than REST takes, so that REST can name its own limit.
BODY_BYTES = 6 * 2**20
HEADER_BYTES = 64 * 1024
IDLE_SECONDS = 30
UNREAD_SECONDS = 60
STOP_SECONDS = 5.0
_MEMORY_BYTES = 64 * 1024  # of an unfinished body; the rest lies in a file


def serve(
    application: WSGIApplication, host: str, port: int, *, proxy: str = ""
) -> None:
    """Serve until SIGTERM or SIGINT, then end what was begun for STOP_SECONDS.

    proxy  address of the one whose last `X-Forwarded-For` is the client's; "" for none
    """
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)  # one line a request
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=1024)
    # accepted ones inherit it: who reads nothing for so long loses his connection
    unread = UNREAD_SECONDS * 1_000
    listener.setsockopt(socket.SOL_TCP, socket.TCP_USER_TIMEOUT, unread)
    # of a proxy on this machine: whether the browser speaks TLS; who asks only of one
    # that is named, for whoever works here could say who he is
    told = {"x-forwarded-proto", "x-forwarded-for"} if proxy else {"x-forwarded-proto"}
    server = create_server(
        application,
        sockets=[listener],
        threads=THREADS,
        connection_limit=CONNECTIONS,
        max_request_body_size=BODY_BYTES,
        max_request_header_size=HEADER_BYTES,
        inbuf_overflow=_MEMORY_BYTES,
        channel_timeout=IDLE_SECONDS,
        cleanup_interval=IDLE_SECONDS // 3,
        asyncore_use_poll=True,
        ident="",
        trusted_proxy=proxy or "127.0.0.1",
        trusted_proxy_headers=told,
        clear_untrusted_proxy_headers=True,
    )
    stop = _stop_signals(server)
    while not stop:
        _turn(server)
    server.accepting = False
    until = time.monotonic() + STOP_SECONDS
    while time.monotonic() < until and _is_busy(server):
        _turn(server)
    server.task_dispatcher.shutdown(timeout=0)  # what still runs ends with the process
    wasyncore.close_all(server._map)


def _stop_signals(server: Any) -> list[int]:
    """Those that come from now on; the server's loop wakes up for each."""
    numbers: list[int] = []

    def told(number: int, _: object) -> None:
        numbers.append(number)
        server.pull_trigger()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, told)
    return numbers


def _turn(server: Any) -> None:
    wasyncore.loop(timeout=1.0, use_poll=True, map=server._map, count=1)


def _is_busy(server: Any) -> bool:
    channels = list(server.active_channels.values())
    return any(one.requests or one.total_outbufs_len for one in channels)
