"""One client's connection: its login, its calls in order, and what it may hold.

Enforces the limits of time and bytes; what a call means is `handler`'s business.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterable
from typing import TYPE_CHECKING

from catalog.access.proofs import Proof
from core.addresses import network_of
from core.counts import discount
from core.errors import SluiceError, TransientError
from gateway.fair import TooManyWait
from gateway.handler import Handler
from gateway.hs2 import framing
from gateway.hs2.connection import (
    Buffer,
    CallReceived,
    CallRefused,
    Event,
    LoginRequested,
    ServerConnection,
)
from gateway.hs2.errors import ProtocolError
from gateway.metrics import CONNECTIONS, LOGINS
from gateway.partial_message_limit import Deadline

if TYPE_CHECKING:
    from gateway.server import GatewayServer

log = logging.getLogger(__name__)

_KEEPALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 20),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
)


class ClientProtocol(asyncio.Protocol):
    """One client's socket. Calls are served one after another, in order."""

    def __init__(self, server: GatewayServer) -> None:
        self.handler: Handler | None = None
        self.proof: Proof | None = None
        self.handshake: asyncio.Task[None] | None = None
        self._server = server
        self._connection = ServerConnection(
            max_request=server.services.limits.max_request
        )
        self._transport: asyncio.Transport | None = None
        self._is_paused = False
        self._unfinished = Deadline(
            server.services.limits.message_seconds,
            lambda: self.drop_unfinished("a message was begun and not ended"),
        )
        self._unread = Deadline(server.services.limits.unread_seconds, self.drop_unread)
        self._worker: asyncio.Task[None] | None = None
        self._login_timer: asyncio.TimerHandle | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._is_counted = False
        self.address = ""
        self.network = ""

    @property
    def who(self) -> str:
        """The user, before the login the address."""
        return self.handler.user if self.handler else self.address

    def arrive(self, address: str) -> bool:
        """Count the connection by its address; False when there is no place for it."""
        self.address, self.network = address, network_of(address)
        server = self._server
        has_place = server.admits(self.network)
        server.connections.add(self)
        server.per_address[self.network] += 1
        self._is_counted = True
        CONNECTIONS.inc()
        if has_place:
            server.unauthenticated.add(self)
        return has_place

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Give the client a moment to log in; with TLS it has arrived before."""
        self._transport = transport  # type: ignore[assignment]
        limits = self._server.services.limits
        self._transport.set_write_buffer_limits(high=limits.write_high_water)  # type: ignore[union-attr]
        _keep_alive(transport)
        if not self._is_counted:
            peer = transport.get_extra_info("peername")
            if not self.arrive(str(peer[0]) if isinstance(peer, tuple) else ""):
                self.reject()
                return
        loop = asyncio.get_running_loop()
        self._login_timer = loop.call_later(limits.login_seconds, self._too_slow)

    def data_received(self, data: bytes) -> None:
        """Keep the bytes and serve what they complete."""
        try:
            self._connection.feed(data)
        except ProtocolError as error:
            self._fall(error)
            return
        limits = self._server.services.limits
        if self._worker is None:
            self._worker = asyncio.create_task(self._serve())
        elif self._connection.held > limits.pipelined_bytes and self._transport:
            self._is_paused = True
            self._transport.pause_reading()
        self._watch_unfinished()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection and end what it had open."""
        self.leave()
        if self._worker:
            self._worker.cancel()
        if self.handler:
            self._ending = asyncio.create_task(self.handler.close())

    def pause_writing(self) -> None:
        """The client reads slowly: stop producing, and wait for him only so long."""
        self._writable.clear()
        self._unread.start()
        if self._transport and self._is_counted:
            size = self._transport.get_write_buffer_size()
            self._server.unread.note(self, size)

    def resume_writing(self) -> None:
        """The client caught up."""
        self._writable.set()
        self._server.unread.note(self, 0)
        if self._transport and not self._transport.is_closing():
            self._unread.stop()

    async def end(self, reason: str) -> None:
        """Close the sessions and the socket, this at the first step."""
        log.info("connection of %s ends: %s", self.address, reason)
        self._hang_up(reason)
        if self.handler:
            await self.handler.close()

    async def _serve(self) -> None:
        try:
            while (event := self._connection.next_event()) is not None:
                self._unfinished.stop()
                await self._serve_one(event)
                if self._connection.held:
                    await asyncio.sleep(0)  # calls sent ahead let others between
        except ProtocolError as error:
            self._fall(error)
        except Exception:
            log.exception("a connection failed inside the gateway")
            self._hang_up("the gateway failed")
        finally:
            self._worker = None
            if self._is_paused and self._transport and not self._transport.is_closing():
                self._is_paused = False
                self._transport.resume_reading()
            self._watch_unfinished()

    def _watch_unfinished(self) -> None:
        """A message that has begun ends in time, unless reading is paused."""
        if not self._is_counted:
            return  # it is gone: what were noted now would stay for ever
        self._server.unfinished.note(self, self._connection.held)
        if self._connection.is_begun and not self._is_paused:
            self._unfinished.start()
        else:
            self._unfinished.stop()

    async def _serve_one(self, event: Event) -> None:
        if isinstance(event, LoginRequested):
            await self._log_in(event.credentials)
        elif isinstance(event, CallRefused):
            self._write([event.answer])
        elif self.handler:
            await self._call(event, self.handler)

    async def _call(self, call: CallReceived, handler: Handler) -> None:
        await self._writable.wait()  # one reply at most is held for him
        reply = await handler.handle(call.request)
        try:
            buffers = self._connection.reply(call, reply)
        except Exception:
            log.exception("a reply to %s could not be encoded", call.name)
            buffers = self._connection.fault(call, "the gateway failed")
        self._write(buffers)

    async def _log_in(self, credentials: framing.Credentials) -> None:
        user, refusal = await self._judge(credentials)
        if self._connection.state == "CLOSED":
            return
        if refusal:
            LOGINS.labels("refused").inc()
            self._write([self._connection.refuse_login(refusal)])
            self._close()
            return
        LOGINS.labels("accepted").inc()
        if self._login_timer:
            self._login_timer.cancel()
        self._server.unauthenticated.discard(self)
        self._server.per_user[user] += 1
        self.handler = Handler(self._server.services, user, self.address)
        self._write([self._connection.accept_login()])

    async def _judge(self, credentials: framing.Credentials) -> tuple[str, str]:
        """Return the user's name as Sluice has it, and why the login is refused."""
        server = self._server
        limits = server.services.limits
        user = credentials.username
        if credentials.authzid and credentials.authzid != user:
            return "", "acting as another user is not allowed"
        if server.per_user[user] >= limits.connections_per_user:
            return "", "too many connections of this user"
        try:
            proven = await server.services.store.authenticate(
                user,
                credentials.password,
                address=self.address,
                gives_way=server.services.waste.is_much(user),
            )
        except TooManyWait:
            return "", "too many logins at the moment, try again later"
        except TransientError as error:  # the database, or the users' directory
            return "", f"{error} (08S01)"
        except SluiceError as error:
            return "", str(error)
        if server.per_user[proven.name] >= limits.connections_per_user:
            return "", "too many connections of this user"
        self.proof = proven.proof
        return proven.name, ""

    def _write(self, buffers: Iterable[Buffer]) -> None:
        if self._transport and not self._transport.is_closing():
            self._transport.writelines(buffers)

    def _fall(self, error: ProtocolError) -> None:
        log.info("%s broke the protocol: %s", self.address, error.message)
        self._hang_up(str(error))

    def drop_unfinished(self, why: str) -> None:
        """Hang up on a client that does not end what he began."""
        log.warning("%s of %s is hung up on: %s", self.who, self.address, why)
        self._hang_up(why)

    def reject(self) -> None:
        """Hang up before the login: the place is needed."""
        self._hang_up("too many connections; try again later")

    def _too_slow(self) -> None:
        self._hang_up("the login took too long")

    def _hang_up(self, reason: str) -> None:
        self._write([self._connection.farewell(reason)])
        self._close()

    def _close(self) -> None:
        """Close once what was written is read, or was not in time."""
        if self._transport:
            self._transport.close()
            if self._is_counted:
                self._unread.start()
        elif self.handshake:
            self.handshake.cancel()

    def drop_unread(self) -> None:
        """Hang up on a client that does not read its replies."""
        log.warning("%s of %s does not read its replies", self.who, self.address)
        if self._transport:
            self._transport.abort()

    def leave(self) -> None:
        """Count the connection no more. Idempotent."""
        if not self._is_counted:
            return
        self._is_counted = False
        CONNECTIONS.dec()
        if self._login_timer:
            self._login_timer.cancel()
        self._unfinished.stop()
        self._unread.stop()
        server = self._server
        server.unfinished.note(self, 0)
        server.unread.note(self, 0)
        server.unauthenticated.discard(self)
        server.connections.discard(self)
        discount(server.per_address, self.network)
        if self.handler:
            discount(server.per_user, self.handler.user)


def _keep_alive(transport: asyncio.BaseTransport) -> None:
    """Let the system ask a silent peer, and send small replies at once."""
    raw = transport.get_extra_info("socket")
    if raw is None:
        return
    for level, option, value in _KEEPALIVE:
        with contextlib.suppress(OSError):
            raw.setsockopt(level, option, value)
