"""How many sockets one session has in its engine, and who waits for them."""

from __future__ import annotations

import asyncio

import pytest

from gateway.engines.port import EngineUnavailable
from gateway.engines.session_channels import MOST_CHANNELS, SessionChannels
from gateway.engines.spark_settings import spark_settings
from gateway.limits import GatewayLimits


class Channel:
    def __init__(self) -> None:
        self.is_closed = False
        self.is_at_rest = True

    def close(self) -> None:
        self.is_closed = True


class Link:
    """A session's channels, opened once `gate` is set; long calls run until `go`."""

    def __init__(self) -> None:
        self.opened = [Channel()]
        self.gate, self.go = asyncio.Event(), asyncio.Event()
        self.gate.set()
        self.served: list[int] = []
        self.channels = SessionChannels(self.open, self.opened[0])

    async def open(self) -> Channel:
        await self.gate.wait()
        self.opened.append(Channel())
        return self.opened[-1]

    @property
    def count(self) -> int:
        return sum(not one.is_closed for one in self.opened)

    async def long_call(self, number: int = 0) -> None:
        async with self.channels.one():
            self.served.append(number)
            await self.go.wait()

    def begin(self, calls: int) -> list[asyncio.Task[None]]:
        return [asyncio.create_task(self.long_call(n)) for n in range(calls)]


async def settled() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


def run(scenario) -> None:
    async def within() -> None:
        await scenario(Link())

    asyncio.run(within())


async def test_callers_at_once_open_no_more_than_the_session_may_have():
    link = Link()
    link.gate.clear()
    calls = link.begin(50)
    await settled()
    link.gate.set()
    await settled()
    assert link.served == list(range(MOST_CHANNELS - 1))
    await link.channels.control()
    assert link.count == MOST_CHANNELS
    link.go.set()
    await asyncio.gather(*calls)
    assert link.served == list(range(50))
    assert link.count == MOST_CHANNELS


async def test_what_is_answered_at_once_waits_for_no_long_call():
    link = Link()
    assert await link.channels.at_once() is link.channels.owner
    calls = link.begin(50)
    await settled()
    one, two = await asyncio.gather(link.channels.at_once(), link.channels.control())
    assert one is two
    assert link.count == MOST_CHANNELS
    link.go.set()
    await asyncio.gather(*calls)


async def test_what_nobody_uses_goes_but_the_owner():
    link = Link()
    calls = link.begin(3)
    await settled()
    busy = await link.channels.control()
    busy.is_at_rest = False
    link.channels.close_idle()
    assert link.count == 4
    link.go.set()
    await asyncio.gather(*calls)
    link.channels.close_idle()
    assert [one for one in link.opened if not one.is_closed] == [
        link.channels.owner,
        busy,
    ]
    busy.is_at_rest = True
    link.channels.close_idle()
    assert link.count == 1
    assert await link.channels.control() is not busy


async def test_a_channel_that_broke_gives_its_place_back():
    link = Link()
    for _ in range(3 * MOST_CHANNELS):
        async with link.channels.one(), link.channels.one() as second:
            second.close()
    assert link.count == 1


async def test_an_engine_that_opens_nothing_keeps_no_place():
    link = Link()

    async def refuse():
        raise EngineUnavailable("full")

    link.channels._opener = refuse
    async with link.channels.one():
        for _ in range(3 * MOST_CHANNELS):
            with pytest.raises(EngineUnavailable, match="full"):
                async with link.channels.one():
                    pass


async def test_the_end_closes_all_and_those_that_are_being_opened():
    link = Link()
    calls = link.begin(2)
    await settled()
    link.gate.clear()
    calls += link.begin(MOST_CHANNELS)
    await settled()
    link.channels.close()
    link.gate.set()
    link.go.set()
    ends = await asyncio.gather(*calls, return_exceptions=True)
    gone = [one for one in ends if isinstance(one, EngineUnavailable)]
    assert len(gone) == MOST_CHANNELS
    assert link.count == 0


def test_the_engine_has_threads_for_all_channels_of_all_sessions(tmp_path):
    settings = spark_settings(tmp_path, cores=2, max_result="256m")
    threads = int(settings["spark.hadoop.hive.server2.thrift.max.worker.threads"])
    assert threads >= GatewayLimits().engine_sessions * MOST_CHANNELS + 100
