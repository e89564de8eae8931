"""Client side of one framed Thrift connection to an engine's loopback port.

Calls are answered in the order they were sent; a second one may be sent before the
first is answered. Must not know what the calls mean.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque

from core.sentences import as_sentence
from gateway.engines.port import EngineUnavailable
from gateway.hs2 import framing
from gateway.hs2.errors import ProtocolError

CONNECT_SECONDS = 10.0
SCRATCH = 64 * 1024

Frame = bytes | bytearray


class _Wire(asyncio.BufferedProtocol):
    """Receives frames; a large one straight into the memory that it will stay in."""

    def __init__(self) -> None:
        self.frames = framing.FrameBuffer(limit=framing.MAX_REPLY)
        self.arrived: asyncio.Future[None] | None = None
        self.lost: BaseException | None = None
        self._waiting: deque[asyncio.Future[Frame]] = deque()
        self._scratch = memoryview(bytearray(SCRATCH))
        self._large: bytearray | None = None
        self._filled = 0
        self._is_logged_in = False

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._large is not None:
            return memoryview(self._large)[self._filled :]
        return self._scratch

    def buffer_updated(self, nbytes: int) -> None:
        if self._large is None:
            self.frames.feed(self._scratch[:nbytes])
            self._cut()
            return
        self._filled += nbytes
        if self._filled == len(self._large):
            frame, self._large = self._large, None
            self._deliver(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        self.fail(exc or ConnectionResetError("the engine closed the connection"))

    def fail(self, why: BaseException) -> None:
        """Nothing more will come: end all waits."""
        self.lost = self.lost or why
        self._wake()
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_exception(_gone(why))

    def next_frame(self) -> asyncio.Future[Frame]:
        """Return what will hold the next reply that has no waiter yet."""
        waiting: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        return waiting

    @property
    def has_waiting(self) -> bool:
        """True while a reply is to come, though nobody may want it any more."""
        return bool(self._waiting)

    async def logged_in(self) -> None:
        """Return once the engine said so; EngineUnavailable when it refuses."""
        while not self._is_logged_in:
            frame = self.frames.next_sasl()
            if frame is None:
                await self._more()
            elif frame.status == framing.COMPLETE:
                self._is_logged_in = True
            elif frame.status in {framing.BAD, framing.ERROR}:
                text = frame.payload.decode("utf-8", "replace")
                raise EngineUnavailable(
                    "the query engine refused the login of the gateway: %(text)s",
                    text=text,
                )

    async def _more(self) -> None:
        if self.lost:
            raise _gone(self.lost)
        self.arrived = asyncio.get_running_loop().create_future()
        await self.arrived

    def _cut(self) -> None:
        if not self._is_logged_in:
            self._wake()
            return
        try:
            while (frame := self.frames.next_message()) is not None:
                self._deliver(frame)
            missing = self.frames.missing()
        except ProtocolError as error:
            self.fail(error)
            return
        if missing >= SCRATCH:
            begun = self.frames.take_begun()
            self._large = bytearray(len(begun) + missing)
            self._large[: len(begun)] = begun
            self._filled = len(begun)

    def _deliver(self, frame: Frame) -> None:
        if not self._waiting:
            self.fail(ProtocolError("a reply came without a request"))
            return
        waiting = self._waiting.popleft()
        if not waiting.done():
            waiting.set_result(frame)

    def _wake(self) -> None:
        if self.arrived and not self.arrived.done():
            self.arrived.set_result(None)


def _gone(why: BaseException) -> EngineUnavailable:
    return EngineUnavailable(
        "the query engine is gone: %(why)s", why=as_sentence(str(why))
    )


class EngineChannel:
    """One logged-in connection. `exchange` sends a message and returns its reply."""

    def __init__(self, transport: asyncio.Transport, wire: _Wire) -> None:
        self._transport = transport
        self._wire = wire
        self._long_calls = 0
        self._sequence = 0

    @classmethod
    async def open(
        cls, host: str, port: int, *, username: str, secret: str
    ) -> EngineChannel:
        """Connect and log in; EngineUnavailable when that does not work."""
        loop = asyncio.get_running_loop()
        transport = None
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                transport, wire = await loop.create_connection(_Wire, host, port)
                raw = transport.get_extra_info("socket")
                raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                transport.write(framing.client_opening(username, secret))
                await wire.logged_in()
        except BaseException as error:
            if transport is not None:
                transport.close()
            if not isinstance(error, OSError | TimeoutError | ProtocolError):
                raise
            raise EngineUnavailable(
                "the query engine does not answer: %(error)s", error=repr(error)
            ) from error
        return cls(transport, wire)

    @property
    def is_closed(self) -> bool:
        return self._wire.lost is not None or self._transport.is_closing()

    @property
    def is_busy(self) -> bool:
        """True while a call is under way that may take its time."""
        return self._long_calls > 0

    @property
    def is_at_rest(self) -> bool:
        """True while no call at all waits for its reply."""
        return not self._wire.has_waiting

    def next_sequence(self) -> int:
        self._sequence = self._sequence % 0x7FFFFFFF + 1
        return self._sequence

    def send(self, message: Frame) -> asyncio.Future[Frame]:
        """Send one message; return what will hold the reply's bytes."""
        if self.is_closed:
            raise EngineUnavailable("the connection to the query engine is closed")
        self._transport.writelines([framing.length_prefix(len(message)), message])
        return self._wire.next_frame()

    async def exchange(self, message: Frame, *, is_brief: bool = False) -> Frame:
        """Send one message and return the reply's bytes.

        A brief call does not make the channel busy: others may follow behind it.
        A cancelled exchange closes the channel, whose calls all fail then.
        """
        reply = self.send(message)
        self._long_calls += not is_brief
        try:
            return await reply
        except BaseException:
            self.close()
            raise
        finally:
            self._long_calls -= not is_brief

    def close(self) -> None:
        self._transport.close()
        self._wire.fail(ConnectionResetError("the gateway closed the connection"))
