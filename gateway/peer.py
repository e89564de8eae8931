"""A client's connection as the limits see it, whatever it speaks: counted from its
accept on by address and by user, and hung up on when it holds too much.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket

from catalog.access.proofs import Proof
from core.addresses import network_of
from gateway.connections import Connections
from gateway.metrics import CONNECTIONS
from gateway.partial_message_limit import Deadline

log = logging.getLogger(__name__)

# Of replies that are not read, in the kernel, which takes twice of it. By itself that
# grows to 4 MiB, past `limits.unread_bytes`: 6 GB for the connections of one user.
SENT_AHEAD_BYTES = 256 * 1024
_OPTIONS = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 20),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_SNDBUF, SENT_AHEAD_BYTES),
)


class Peer(asyncio.Protocol):
    """What the transports' connections share. `user` is empty before the login; `proof`
    is what the connection itself rests on, as a whole."""

    def __init__(self, connections: Connections) -> None:
        self.user = ""
        self.proof: Proof | None = None
        self.address = ""
        self.network = ""
        self.handshake: asyncio.Task[None] | None = None
        self._connections = connections
        self._socket: asyncio.Transport | None = None
        self._unread = Deadline(connections.limits.unread_seconds, self.drop_unread)
        self._login_timer: asyncio.TimerHandle | None = None
        self._is_counted = False

    @property
    def who(self) -> str:
        """The user, before the login the address."""
        return self.user or self.address

    def arrive(self, address: str) -> bool:
        """Count the connection by its address; False when there is no place for it."""
        self.address, self.network = address, network_of(address)
        self._is_counted = True
        CONNECTIONS.inc()
        return self._connections.add(self)

    def begin(self, transport: asyncio.BaseTransport) -> bool:
        """Take the socket and give the client a moment to log in; False when there is
        no place for it. With TLS it has arrived before."""
        self._socket = transport  # type: ignore[assignment]
        limits = self._connections.limits
        self._socket.set_write_buffer_limits(high=limits.write_high_water)  # type: ignore[union-attr]
        _set_up(transport)
        if not self._is_counted:
            name = transport.get_extra_info("peername")
            if not self.arrive(str(name[0]) if isinstance(name, tuple) else ""):
                return False
        loop = asyncio.get_running_loop()
        self._login_timer = loop.call_later(limits.login_seconds, self.login_too_slow)
        return True

    def become(self, user: str) -> bool:
        """Count the connection as that proven user's; False for one too many, and when
        it is gone by now."""
        if not self._is_counted or user == self.user:
            return self._is_counted
        if not self._connections.name(self, user):
            return False
        if self._login_timer:
            self._login_timer.cancel()
        self.user = user
        return True

    def leave(self) -> None:
        """Count the connection no more. Idempotent."""
        if not self._is_counted:
            return
        self._is_counted = False
        CONNECTIONS.dec()
        if self._login_timer:
            self._login_timer.cancel()
        self._unread.stop()
        self._connections.discard(self)

    def hang_up(self, reason: str) -> None:
        """Close with that reason, where the client can still read one."""
        raise NotImplementedError

    async def end(self, reason: str) -> None:
        """Close the socket, at the first step, and what ends with it."""
        log.info("connection of %s ends: %s", self.address, reason)
        self.hang_up(reason)

    def reject(self) -> None:
        """Hang up before the login: the place is needed."""
        self.hang_up("too many connections; try again later")

    def login_too_slow(self) -> None:
        self.hang_up("the login took too long")

    def drop_unfinished(self, why: str) -> None:
        log.warning("%s of %s is hung up on: %s", self.who, self.address, why)
        self.hang_up(why)

    def drop_unread(self) -> None:
        log.warning("%s of %s does not read its replies", self.who, self.address)
        if self._socket:
            self._socket.abort()

    def note_slow_reader(self) -> None:
        """What is written waits for the client, and only so long."""
        self._unread.start()
        if self._socket and self._is_counted:
            self._connections.unread.note(self, self._socket.get_write_buffer_size())

    def note_reader_caught_up(self) -> None:
        """Nothing waits for the client any more."""
        self._connections.unread.note(self, 0)
        if self._socket and not self._socket.is_closing():
            self._unread.stop()


def _set_up(transport: asyncio.BaseTransport) -> None:
    """Let the system ask a silent peer, send small replies at once, and keep little."""
    raw = transport.get_extra_info("socket")
    if raw is None:
        return
    for level, option, value in _OPTIONS:
        with contextlib.suppress(OSError):
            raw.setsockopt(level, option, value)
