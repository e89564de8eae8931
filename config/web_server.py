"""The HTTP server of the web process: nobody holds a thread by being slow.

One loop reads requests and writes replies; a request gets one of few threads when it is
there as a whole, and gives it back when its reply is made, read or not. Knows no route.
"""

from __future__ import annotations

import logging
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from operator import attrgetter
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication

from waitress import wasyncore
from waitress.channel import HTTPChannel
from waitress.server import create_server

from config.web_requests import NotYet, Parser, Turns
from core.addresses import network_of

THREADS = 16
CONNECTIONS = 1_000
# More than REST takes, so that REST can name its own limit.
BODY_BYTES = 6 * 2**20
BODIES_BYTES = 128 * 2**20
# Of replies that their clients have not read yet.
REPLIES_BYTES = 128 * 2**20
# So much is read and written from one count of both to the next, which asks each
# connection.
UNCOUNTED_BYTES = 2**20
HEADER_BYTES = 64 * 1024
IDLE_SECONDS = 30
UNREAD_SECONDS = 60
# Of a reply that the kernel keeps for its client, which takes twice of it; by itself
# it takes 4 MiB, and of a thousand connections more than a container may have.
SENT_AHEAD_BYTES = 128 * 1024
STOP_SECONDS = 5.0
_MEMORY_BYTES = 64 * 1024  # of an unfinished body; the rest lies in a file
_OWN_SOCKETS = 2  # the listener, and what wakes the loop


class Channel(HTTPChannel):  # type: ignore[misc]
    """A connection whose requests are worked on one at a time: the next one is begun
    when its client has read the reply before. Else it would hold a thread until then.
    """

    request: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._rest = b""  # of one read at most
        super().__init__(*args, **kwargs)

    def parser_class(self, adj: Any) -> Parser:
        """What the next bytes are read as; also made to hold an error."""
        return NotYet(adj) if self.requests and self.request is None else Parser(adj)

    def received(self, data: bytes) -> bool:
        is_kept: bool = super().received(data)
        with self.requests_lock:
            if isinstance(self.request, NotYet):
                self._rest, self.request = self.request.data, None
        self.server.uncounted_bytes += len(data)
        return is_kept

    def write_soon(self, data: Any) -> int:
        """Part of a reply, by the thread that makes it."""
        written: int = super().write_soon(data)
        self.server.uncounted_bytes += written
        return written

    def _flush_some(self, **given: bool) -> bool:
        is_sent: bool = super()._flush_some(**given)
        if is_sent and not self.total_outbufs_len:
            # else what was sent is kept until the connection's next reply
            self.outbufs[-1].prune()
        return is_sent

    @property
    def body_bytes(self) -> int:
        """Of bodies that no thread has read yet, which lie in files."""
        parsed = [*self.requests, *([self.request] if self.request else ())]
        return sum(one.body_bytes_received for one in parsed)

    def readable(self) -> bool:
        is_closing = self.will_close or self.close_when_flushed
        if self._rest and self.connected and not is_closing:
            self._read_rest()
        return not self._rest and bool(super().readable())

    def _read_rest(self) -> None:
        """When the reply before is read."""
        if not self.requests and not self.total_outbufs_len:
            rest, self._rest = self._rest, b""
            self.received(rest)

    def service(self) -> None:
        """Nothing is done for a client that left while its request waited for a thread:
        a connection with a request is not read, so nobody has noticed."""
        with suppress(OSError):  # nothing to read yet
            if not self.socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT):
                self.connected = False
        super().service()

    def hang_up(self) -> None:
        """From any thread, whatever the client has not read; the loop sees it."""
        with suppress(OSError):  # it is closed
            self.socket.shutdown(socket.SHUT_RDWR)

    @property
    def is_at_work(self) -> bool:
        return bool(self.requests or self._rest) and not self.total_outbufs_len


def serve(
    application: WSGIApplication, host: str, port: int, *, proxy: str = ""
) -> None:
    """Serve until SIGTERM or SIGINT, then end what was begun for STOP_SECONDS.

    proxy  address of the one whose last `X-Forwarded-For` is the client's; "" for none
    """
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)  # one line a request
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=1024)
    # connections inherit both: that of a client which reads nothing for so long ends
    unread = UNREAD_SECONDS * 1_000
    listener.setsockopt(socket.SOL_TCP, socket.TCP_USER_TIMEOUT, unread)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SENT_AHEAD_BYTES)
    # Any process of this machine is believed whether the browser speaks TLS. Whom a
    # request is from is believed of a named proxy only: others could name anybody.
    told = {"x-forwarded-proto", "x-forwarded-for"} if proxy else {"x-forwarded-proto"}
    server = create_server(
        partial(_with_hang_up, application),
        sockets=[listener],
        threads=THREADS,
        connection_limit=CONNECTIONS + _OWN_SOCKETS,
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
    server.channel_class = Channel
    server.uncounted_bytes = 0
    server.task_dispatcher.queue = Turns(partial(_client_of, proxy))
    stop = _stop_signals(server)
    while not stop:
        _turn(server)
    server.accepting = False
    until = time.monotonic() + STOP_SECONDS
    while time.monotonic() < until and _is_busy(server):
        _turn(server)
    server.task_dispatcher.shutdown(timeout=0)  # what still runs ends with the process
    wasyncore.close_all(server._map)


def _with_hang_up(
    application: WSGIApplication, environ: dict[str, Any], start: StartResponse
) -> Iterable[bytes]:
    """`sluice.hang_up` ends the request's connection."""
    channel = environ["waitress.client_disconnected"].__self__
    environ["sluice.hang_up"] = channel.hang_up
    return application(environ, start)


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
    if len(server.active_channels) >= CONNECTIONS:
        _make_room(list(server.active_channels.values()))
    wasyncore.loop(timeout=1.0, use_poll=True, map=server._map, count=1)
    if server.uncounted_bytes >= UNCOUNTED_BYTES:
        server.uncounted_bytes = 0
        channels = list(server.active_channels.values())
        _bound(channels, attrgetter("body_bytes"), BODIES_BYTES)
        _bound(channels, attrgetter("total_outbufs_len"), REPLIES_BYTES)


def _make_room(channels: list[Channel]) -> None:
    """Close a connection at rest, of the address that has most: whoever fills the
    places keeps nobody out."""
    counts = Counter(network_of(one.addr[0]) for one in channels)
    at_rest = [one for one in channels if not one.is_at_work]
    if at_rest:
        greediest = max(at_rest, key=lambda one: _rank(one, counts))
        greediest.handle_close()


def _bound(
    channels: list[Channel], size_of: Callable[[Channel], int], most: int
) -> None:
    """While all of them hold too much together, close the connection that holds most,
    of the address that holds most."""
    sizes = {one: size_of(one) for one in channels}
    held: Counter[str] = Counter()
    for one, size in sizes.items():
        held[network_of(one.addr[0])] += size
    while held.total() > most:
        greediest = held.most_common(1)[0][0]
        theirs = (one for one in sizes if network_of(one.addr[0]) == greediest)
        largest = max(theirs, key=sizes.__getitem__)
        held[greediest] -= sizes.pop(largest)
        largest.handle_close()


def _client_of(proxy: str, channel: Channel) -> str:
    """The network that a request is from; of a named proxy, that which it names."""
    address = str(channel.addr[0])
    if proxy and address == proxy and channel.requests:
        told = channel.requests[0].headers.get("X_FORWARDED_FOR", "")
        address = told.rpartition(",")[2].strip() or address
    return network_of(address)


def _rank(one: Channel, counts: Counter[str]) -> tuple[int, float]:
    return counts[network_of(one.addr[0])], -one.last_activity


def _is_busy(server: Any) -> bool:
    channels = list(server.active_channels.values())
    return any(one.requests or one.total_outbufs_len for one in channels)
