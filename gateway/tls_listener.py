"""Listens with TLS: a socket counts from its accept on, not from its handshake's end.

asyncio's own TLS servers show a connection only after its handshake: sockets that never
end theirs would be in no count.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable

from gateway.client_connection import ClientProtocol

log = logging.getLogger(__name__)

BACKLOG = 1024
# out of files or memory: those that are open have to end first
RETRY_SECONDS = 0.5


class TlsListener:
    """Accepts sockets, counts them as `make_client`'s, and encrypts them."""

    def __init__(
        self,
        make_client: Callable[[], ClientProtocol],
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
        """Accept no more. Idempotent."""
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

    async def _secure(self, accepted: socket.socket, client: ClientProtocol) -> None:
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
