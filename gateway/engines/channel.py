"""Client side of one framed Thrift connection to an engine's loopback port.

One call at a time per channel, in order. Must not know what the calls mean.
"""

from __future__ import annotations

import asyncio
import socket

from gateway.engines.port import EngineUnavailable
from gateway.hs2 import framing, sasl
from gateway.hs2.errors import ProtocolError

CONNECT_SECONDS = 10.0


class _Wire(asyncio.Protocol):
    """Collects frames; at most one reader waits at a time."""

    def __init__(self) -> None:
        self.frames = framing.FrameBuffer(limit=framing.MAX_REPLY)
        self.arrived: asyncio.Future[None] | None = None
        self.lost: BaseException | None = None

    def data_received(self, data: bytes) -> None:
        self.frames.feed(data)
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = exc or ConnectionResetError("the engine closed the connection")
        self._wake()

    async def wait(self) -> None:
        """Return when more bytes came; raise when none will."""
        if self.lost:
            raise EngineUnavailable(f"the engine is gone: {self.lost}")
        self.arrived = asyncio.get_running_loop().create_future()
        await self.arrived

    def _wake(self) -> None:
        if self.arrived and not self.arrived.done():
            self.arrived.set_result(None)


class EngineChannel:
    """One logged-in connection. `exchange` sends a message and returns its reply."""

    def __init__(self, transport: asyncio.Transport, wire: _Wire) -> None:
        self._transport = transport
        self._wire = wire
        self._turn = asyncio.Lock()
        self._sequence = 0

    @classmethod
    async def open(
        cls, host: str, port: int, *, username: str, secret: str
    ) -> EngineChannel:
        """Connect and log in; EngineUnavailable when that does not work."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                transport, wire = await loop.create_connection(_Wire, host, port)
                raw = transport.get_extra_info("socket")
                raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                transport.write(sasl.client_opening(username, secret))
                await _logged_in(wire)
        except (OSError, TimeoutError) as error:
            raise EngineUnavailable(f"the engine does not answer: {error!r}") from error
        return cls(transport, wire)

    @property
    def is_closed(self) -> bool:
        """True when no further exchange can work."""
        return self._wire.lost is not None or self._transport.is_closing()

    @property
    def is_busy(self) -> bool:
        """True while an exchange is under way."""
        return self._turn.locked()

    def next_sequence(self) -> int:
        """Return a sequence number for the next message."""
        self._sequence = self._sequence % 0x7FFFFFFF + 1
        return self._sequence

    async def exchange(self, message: bytes | bytearray) -> bytes:
        """Send one message and return the reply's bytes.

        A cancelled exchange closes the channel: its reply would answer the next.
        """
        async with self._turn:
            if self.is_closed:
                raise EngineUnavailable("the connection to the engine is closed")
            self._transport.writelines([framing.length_prefix(len(message)), message])
            try:
                return await self._reply()
            except BaseException:
                self.close()
                raise

    async def _reply(self) -> bytes:
        while True:
            try:
                reply = self._wire.frames.next_message()
            except ProtocolError as error:
                raise EngineUnavailable(f"the engine babbles: {error}") from error
            if reply is not None:
                return reply
            await self._wire.wait()

    def close(self) -> None:
        """End the connection. Idempotent."""
        self._transport.close()


async def _logged_in(wire: _Wire) -> None:
    while True:
        try:
            frame = wire.frames.next_sasl()
        except ProtocolError as error:
            raise EngineUnavailable(f"the engine babbles: {error}") from error
        if frame is None:
            await wire.wait()
        elif frame.status == framing.COMPLETE:
            return
        elif frame.status in {framing.BAD, framing.ERROR}:
            text = frame.payload.decode("utf-8", "replace")
            raise EngineUnavailable(f"the engine refused the gateway's login: {text}")
