"""The HiveServer2 interface: listens and keeps the connections within their limits.

The gateway's only listening sockets towards clients. asyncio's own TLS servers show a
connection only after its handshake, and sockets that never end theirs would be in no
count: `TlsListener` counts a socket from its accept on.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Mapping

from catalog.access.proofs import Proof
from gateway.client_connection import ClientProtocol
from gateway.connections import Connections
from gateway.ending import end_all
from gateway.http_logins import HttpLogins
from gateway.peer import Peer
from gateway.services import Services

log = logging.getLogger(__name__)


BACKLOG = 1024
# out of files or memory: those that are open have to end first
RETRY_SECONDS = 0.5


class TlsListener:
    """Accepts sockets, counts them as `make_client`'s, and encrypts them."""

    def __init__(
        self,
        make_client: Callable[[], Peer],
        context: ssl.SSLContext,
        *,
        handshake_seconds: float,
    ) -> None:
        self._make_client = make_client
        self._context = context
        self._seconds = handshake_seconds
        self._sockets: list[socket.socket] = []
        self._acceptors: list[asyncio.Task[None]] = []

    async def start(self, host: str, port: int) -> int:
        """Listen at all addresses of `host`; return the first one's port."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, address in sorted({(info[0], info[4]) for info in found}):
            made = socket.create_server(address, family=family, backlog=BACKLOG)
            made.settimeout(0)
            self._sockets.append(made)
            self._acceptors.append(asyncio.create_task(self._accept(made)))
        chosen: int = self._sockets[0].getsockname()[1]
        return chosen

    def close(self) -> None:
        for acceptor in self._acceptors:
            acceptor.cancel()
        for made in self._sockets:
            made.close()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(listening)
            except OSError as error:
                log.warning("no connection could be accepted: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
                continue
            client = self._make_client()
            if client.arrive(str(address[0])):
                client.handshake = asyncio.create_task(self._secure(accepted, client))
            else:
                client.leave()
                accepted.close()

    async def _secure(self, accepted: socket.socket, client: Peer) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(
                lambda: client,
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=self._seconds,
            )
        except OSError as error:
            log.info("TLS handshake of %s failed: %r", client.address, error)
            client.leave()
        except asyncio.CancelledError:
            client.leave()
            accepted.close()
            raise


SWEEP_SECONDS = 30.0


class GatewayServer:
    """Listens and keeps track of the connections."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self.connections = Connections(services.limits)
        self.logins = HttpLogins(services.limits.http_login_seconds)
        self._listeners: list[asyncio.Server | TlsListener] = []
        self._sweeper: asyncio.Task[None] | None = None

    async def start(
        self, host: str, port: int, *, tls: ssl.SSLContext | None = None
    ) -> int:
        """Listen for the binary transport; return the port (the one chosen when `port`
        is 0)."""
        self._sweeper = asyncio.create_task(self._sweep())
        return await self.listen(self._client, host, port, tls=tls)

    async def listen(
        self,
        make_client: Callable[[], Peer],
        host: str,
        port: int,
        *,
        tls: ssl.SSLContext | None,
    ) -> int:
        """Listen for a transport; return its port."""
        if tls:
            seconds = self.services.limits.login_seconds
            secured = TlsListener(make_client, tls, handshake_seconds=seconds)
            self._listeners.append(secured)
            return await secured.start(host, port)
        loop = asyncio.get_running_loop()
        plain = await loop.create_server(make_client, host, port, backlog=BACKLOG)
        self._listeners.append(plain)
        chosen: int = plain.sockets[0].getsockname()[1]
        return chosen

    async def close(self) -> None:
        self.connections.is_closed = True
        sessions = self.services.sessions
        if self._sweeper:
            self._sweeper.cancel()
        for listener in self._listeners:
            listener.close()
        await end_all(
            (one.end("the gateway stops") for one in list(self.connections)), seconds=15
        )
        await end_all([sessions.end(list(sessions))], seconds=15)

    async def end_sessions_of(self, users: Iterable[str]) -> None:
        """End every login, connection and session of these users at once."""
        named = set(users)
        self.logins.end_of_users(named)
        await end_all(
            (
                *(
                    one.end("the user was disabled")
                    for one in list(self.connections)
                    if one.user in named
                ),
                self.services.sessions.end_of_users(named),
            )
        )

    async def end_lapsed(self, reasons: Mapping[Proof, str]) -> None:
        """End every login, connection and session that rested on one of these."""
        if not reasons:
            return
        self.logins.end_lapsed(reasons)
        await end_all(
            (
                *(
                    one.end(reasons[one.proof])
                    for one in list(self.connections)
                    if one.proof and one.proof in reasons
                ),
                self.services.sessions.end_lapsed(reasons),
            )
        )

    def proofs(self) -> set[Proof]:
        """Return what logins, connections and sessions rest on."""
        held = {one.proof for one in self.connections if one.proof}
        return held | self.services.sessions.proofs() | self.logins.proofs()

    def users(self) -> set[str]:
        held = {one.user for one in self.connections if one.user}
        return held | self.services.sessions.users() | self.logins.users()

    def _client(self) -> ClientProtocol:
        return ClientProtocol(self.connections, self.services)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            await self.services.sessions.end_idle(time.monotonic())
