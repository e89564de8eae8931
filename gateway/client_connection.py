"""One client's connection: its login, its calls in order, and what it may hold.

Enforces the limits of time and bytes; what a call means is `handler`'s business.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from core.errors import SluiceError, TransientError
from gateway.connections import Connections
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
    answer_of,
    framed,
)
from gateway.hs2.errors import ProtocolError
from gateway.metrics import LOGINS
from gateway.partial_message_limit import Deadline
from gateway.peer import Peer
from gateway.services import Services

log = logging.getLogger(__name__)


class ClientProtocol(Peer):
    """One client's socket. Calls are served one after another, in order."""

    def __init__(self, connections: Connections, services: Services) -> None:
        super().__init__(connections)
        self._services = services
        self.handler: Handler | None = None
        self._connection = ServerConnection(max_request=connections.limits.max_request)
        self._is_paused = False
        self._unfinished = Deadline(
            connections.limits.message_seconds,
            lambda: self.drop_unfinished("a message was begun and not ended"),
        )
        self._worker: asyncio.Task[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Give the client a moment to log in."""
        if not self.begin(transport):
            self.reject()

    def data_received(self, data: bytes) -> None:
        """Keep the bytes and serve what they complete."""
        try:
            self._connection.feed(data)
        except ProtocolError as error:
            self._fall(error)
            return
        limits = self._connections.limits
        if self._worker is None:
            self._worker = asyncio.create_task(self._serve())
        elif self._connection.held > limits.pipelined_bytes and self._socket:
            self._is_paused = True
            self._socket.pause_reading()
        self._watch_unfinished()

    def connection_lost(self, exc: Exception | None) -> None:
        self.leave()
        if self._worker:
            self._worker.cancel()
        if self.handler:
            self._ending = asyncio.create_task(self.handler.close())

    def pause_writing(self) -> None:
        self._writable.clear()
        self.note_slow_reader()

    def resume_writing(self) -> None:
        self._writable.set()
        self.note_reader_caught_up()

    async def end(self, reason: str) -> None:
        """Close the sessions and the socket, this at the first step."""
        await super().end(reason)
        if self.handler:
            await self.handler.close()

    def leave(self) -> None:
        self._unfinished.stop()
        super().leave()

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
            self.hang_up("the gateway failed")
        finally:
            self._worker = None
            if self._is_paused and self._socket and not self._socket.is_closing():
                self._is_paused = False
                self._socket.resume_reading()
            self._watch_unfinished()

    def _watch_unfinished(self) -> None:
        """A message that has begun ends in time, unless reading is paused."""
        if not self._is_counted:
            return  # it is gone: what were noted now would stay for ever
        self._connections.unfinished.note(self, self._connection.held)
        if self._connection.is_begun and not self._is_paused:
            self._unfinished.start()
        else:
            self._unfinished.stop()

    async def _serve_one(self, event: Event) -> None:
        if isinstance(event, LoginRequested):
            await self._log_in(event.credentials)
        elif isinstance(event, CallRefused):
            self._write(framed([event.answer]))
        elif self.handler:
            await self._call(event, self.handler)

    async def _call(self, call: CallReceived, handler: Handler) -> None:
        await self._writable.wait()  # one reply at most is held for the client
        reply = await handler.handle(call.request)
        self._write(framed(answer_of(call, reply)))

    async def _log_in(self, credentials: framing.Credentials) -> None:
        user, refusal = await self._judge(credentials)
        if self._connection.state == "CLOSED":
            return
        if not refusal and not self.become(user):
            refusal = "too many connections of this user"
        if refusal:
            LOGINS.labels("refused").inc()
            self._write([self._connection.refuse_login(refusal)])
            self._close()
            return
        LOGINS.labels("accepted").inc()
        self.handler = Handler(self._services, user, self.address, proof=self.proof)
        self._write([self._connection.accept_login()])

    async def _judge(self, credentials: framing.Credentials) -> tuple[str, str]:
        """Return the user's name as Sluice has it, and why the login is refused."""
        counted, services = self._connections, self._services
        user = credentials.username
        if credentials.authzid and credentials.authzid != user:
            return "", "acting as another user is not allowed"
        if counted.per_user[user] >= counted.limits.connections_per_user:
            return "", "too many connections of this user"
        try:
            proven = await services.store.authenticate(
                user,
                credentials.password,
                address=self.address,
                gives_way=services.waste.is_much(user),
            )
        except TooManyWait:
            return "", "too many logins at the moment, try again later"
        except TransientError as error:  # the database, or the users' directory
            return "", f"{error} (08S01)"
        except SluiceError as error:
            return "", str(error)
        self.proof = proven.proof
        return proven.name, ""

    def _write(self, buffers: Iterable[Buffer]) -> None:
        if self._socket and not self._socket.is_closing():
            self._socket.writelines(buffers)

    def _fall(self, error: ProtocolError) -> None:
        log.info("%s broke the protocol: %s", self.address, error.message)
        self.hang_up(str(error))

    def hang_up(self, reason: str) -> None:
        self._write([self._connection.farewell(reason)])
        self._close()

    def _close(self) -> None:
        """Close once what was written is read, or was not in time."""
        if self._socket:
            self._socket.close()
            if self._is_counted:
                self._unread.start()
        elif self.handshake:
            self.handshake.cancel()
