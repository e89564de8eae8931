"""The HiveServer2 interface: listens and keeps the connections within their limits.

The gateway's only listening socket towards clients.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import Counter
from collections.abc import Iterable, Mapping

from catalog.access.proofs import Proof
from gateway.client_connection import ClientProtocol
from gateway.ending import end_all
from gateway.services import Services
from gateway.tls_listener import BACKLOG, TlsListener
from gateway.unauthenticated import UnauthenticatedPeers
from gateway.unfinished import HeldBytes

SWEEP_SECONDS = 30.0


class GatewayServer:
    """Listens and keeps track of the connections."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self.connections: set[ClientProtocol] = set()
        self.per_user: Counter[str] = Counter()
        self.per_address: Counter[str] = Counter()
        self.unauthenticated = UnauthenticatedPeers(
            services.limits.connections_before_login
        )
        self.unfinished: HeldBytes[ClientProtocol] = HeldBytes(
            services.limits.unfinished_bytes,
            lambda one: one.drop_unfinished(
                "too many bytes of unfinished messages are held"
            ),
        )
        self.unread: HeldBytes[ClientProtocol] = HeldBytes(
            services.limits.unread_bytes, lambda one: one.drop_unread()
        )
        self.is_draining = False
        self._listener: asyncio.Server | TlsListener | None = None
        self._sweeper: asyncio.Task[None] | None = None

    async def start(
        self, host: str, port: int, *, tls: ssl.SSLContext | None = None
    ) -> int:
        """Listen; return the port (the one chosen when `port` is 0)."""
        self._sweeper = asyncio.create_task(self._sweep())
        if tls:
            seconds = self.services.limits.login_seconds
            self._listener = TlsListener(self._client, tls, handshake_seconds=seconds)
            return await self._listener.start(host, port)
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            self._client, host, port, backlog=BACKLOG
        )
        chosen: int = self._listener.sockets[0].getsockname()[1]
        return chosen

    async def close(self) -> None:
        """Stop listening, end all connections and their sessions."""
        self.is_draining = True
        if self._sweeper:
            self._sweeper.cancel()
        if self._listener:
            self._listener.close()
        await end_all(
            (one.end("the gateway stops") for one in list(self.connections)), seconds=15
        )

    def admits(self, network: str) -> bool:
        """True when one more may come from there, for whom another may have to go that
        has not logged in; False when all that are here have."""
        limits = self.services.limits
        if self.is_draining:
            return False
        if self.per_address[network] >= limits.connections_per_address:
            return self.unauthenticated.evict_one(network)
        is_full = len(self.connections) >= limits.connections
        if is_full or self.unauthenticated.is_full:
            return self.unauthenticated.evict_one()
        return True

    async def end_sessions_of(self, users: Iterable[str]) -> None:
        """End every connection of these users at once."""
        named = set(users)
        await end_all(
            connection.end("the user was disabled")
            for connection in list(self.connections)
            if connection.handler and connection.handler.user in named
        )

    async def end_lapsed(self, reasons: Mapping[Proof, str]) -> None:
        """End every connection whose login rested on one of these."""
        await end_all(
            connection.end(reasons[connection.proof])
            for connection in list(self.connections)
            if connection.proof and connection.proof in reasons
        )

    def proofs(self) -> set[Proof]:
        """Return what the logins rest on."""
        return {c.proof for c in self.connections if c.proof}

    def users(self) -> set[str]:
        """Return who is logged in."""
        return {c.handler.user for c in self.connections if c.handler}

    def _client(self) -> ClientProtocol:
        return ClientProtocol(self)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            for connection in list(self.connections):
                if connection.handler:
                    await connection.handler.end_idle(time.monotonic())
