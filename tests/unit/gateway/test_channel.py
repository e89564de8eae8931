"""A channel to an engine: replies in order, of every size, and what a loss means."""

from __future__ import annotations

import asyncio
import struct

import pytest

from gateway.engines.channel import EngineChannel
from gateway.engines.port import EngineUnavailable
from gateway.hs2 import framing

OPENING = framing.client_opening("ann", "secret")


class EchoEngine:
    """Logs in whoever comes and sends every message back, `pieces` bytes at a time."""

    def __init__(self, pieces: int = 1 << 20) -> None:
        self.pieces = pieces
        self.gate = asyncio.Event()
        self.gate.set()

    async def serve(self, reader, writer):
        await reader.readexactly(len(OPENING))
        writer.write(framing.sasl_frame(framing.COMPLETE))
        try:
            while head := await reader.readexactly(4):
                message = await reader.readexactly(*struct.unpack("!I", head))
                await self.gate.wait()
                frame = head + message
                for start in range(0, len(frame), self.pieces):
                    writer.write(frame[start : start + self.pieces])
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        port = self.server.sockets[0].getsockname()[1]
        self.channel = await EngineChannel.open(
            "127.0.0.1", port, username="ann", secret="secret"
        )
        return self

    async def __aexit__(self, *_):
        self.channel.close()
        self.server.close()
        await self.server.wait_closed()


def run(scenario, **facts):
    async def within():
        async with EchoEngine(**facts) as engine:
            return await scenario(engine, engine.channel)

    return asyncio.run(within())


@pytest.mark.parametrize("pieces", [7001, 65536, 1 << 20])
def test_replies_of_every_size_come_whole_and_in_order(pieces):
    sizes = [0, 5, 65531, 65532, 65533, 65536, 200_000, 3, 1_000_000]
    messages = [bytes([n]) * size for n, size in enumerate(sizes)]

    async def scenario(engine, channel):
        asked = [asyncio.create_task(channel.exchange(m)) for m in messages]
        assert [bytes(reply) for reply in await asyncio.gather(*asked)] == messages
        assert not channel.is_busy

    run(scenario, pieces=pieces)


def test_a_brief_call_keeps_the_channel_open_for_others():
    async def scenario(engine, channel):
        engine.gate.clear()
        brief = asyncio.create_task(channel.exchange(b"brief", is_brief=True))
        await asyncio.sleep(0)
        assert not channel.is_busy
        long = asyncio.create_task(channel.exchange(b"long"))
        await asyncio.sleep(0)
        assert channel.is_busy
        engine.gate.set()
        assert [await brief, await long] == [b"brief", b"long"]

    run(scenario)


def test_a_cancelled_call_closes_the_channel_for_all():
    async def scenario(engine, channel):
        engine.gate.clear()
        one = asyncio.create_task(channel.exchange(b"one"))
        two = asyncio.create_task(channel.exchange(b"two"))
        await asyncio.sleep(0)
        one.cancel()
        with pytest.raises(EngineUnavailable):
            await two
        assert channel.is_closed
        with pytest.raises(EngineUnavailable):
            await channel.exchange(b"three")
        engine.gate.set()

    run(scenario)


def test_an_announced_giant_fails_the_call():
    async def scenario(engine, channel):
        giant = struct.pack("!I", framing.MAX_REPLY + 1)
        engine.gate.clear()
        asked = asyncio.create_task(channel.exchange(b"x"))
        await asyncio.sleep(0)
        channel._wire.frames.feed(giant)
        engine.gate.set()
        with pytest.raises(EngineUnavailable, match="announced"):
            await asked

    run(scenario)
