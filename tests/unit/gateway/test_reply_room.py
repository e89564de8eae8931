"""Replies on their way hold a bounded number of bytes, and get room in turn."""

from __future__ import annotations

import asyncio

import pytest

from gateway import response_memory_limit as reply_room
from gateway.fair import TooManyWait
from gateway.response_memory_limit import ReplyRoom


class Replies:
    """Of a room of 100 bytes. `sent` are those that found room, in order."""

    def __init__(self) -> None:
        self.room = ReplyRoom(100)
        self.sent: list[str] = []
        self._read: dict[str, asyncio.Event] = {}

    async def begin(self, name: str, size: int) -> asyncio.Task[None]:
        async def send() -> None:
            async with self.room.hold(size):
                self.sent.append(name)
                await self._read[name].wait()

        self._read[name] = asyncio.Event()
        made = asyncio.create_task(send())
        await settled()
        return made

    async def read(self, name: str) -> None:
        self._read[name].set()
        await settled()


async def settled() -> None:
    """Everything that waits for nothing has been done."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_replies_wait_for_room_in_turn() -> None:
    replies = Replies()
    for name, size in [("a", 60), ("b", 30), ("c", 50), ("d", 5)]:
        await replies.begin(name, size)
    assert (replies.sent, replies.room.held) == (["a", "b"], 90)
    await replies.read("a")
    assert (replies.sent, replies.room.held) == (["a", "b", "c", "d"], 85)
    for name in "bcd":
        await replies.read(name)
    assert replies.room.held == 0


async def test_what_is_larger_than_the_room_has_it_alone() -> None:
    replies = Replies()
    for name, size in [("a", 1), ("large", 500), ("b", 1)]:
        await replies.begin(name, size)
    assert replies.sent == ["a"]
    await replies.read("a")
    assert replies.sent == ["a", "large"]
    await replies.read("large")
    assert replies.sent == ["a", "large", "b"]


async def test_who_leaves_holds_nobody_up() -> None:
    replies = Replies()
    await replies.begin("a", 100)
    leaving = await replies.begin("b", 100)
    await replies.begin("c", 10)
    leaving.cancel()
    await replies.read("a")
    assert (replies.sent, replies.room.held) == (["a", "c"], 10)


async def test_who_leaves_as_his_turn_comes_gives_the_room_on() -> None:
    replies = Replies()
    first = await replies.begin("a", 100)
    second = await replies.begin("b", 100)
    await replies.begin("c", 100)
    first.cancel()
    await asyncio.sleep(0)  # what it held is given to `b`, who does not know yet
    second.cancel()
    await settled()
    assert (replies.sent, replies.room.held) == (["a", "c"], 100)


async def test_what_is_there_already_waits_for_nothing_and_counts() -> None:
    replies = Replies()
    await replies.begin("a", 90)
    with replies.room.count(500):
        await replies.begin("b", 1)
        assert (replies.sent, replies.room.held) == (["a"], 590)
    await settled()
    assert replies.sent == ["a", "b"]


def test_nobody_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        replies = Replies()
        await replies.begin("a", 100)
        late = await replies.begin("b", 1)
        with pytest.raises(TooManyWait, match="100 bytes of replies"):
            await late
        await replies.read("a")
        assert replies.room.held == 0

    monkeypatch.setattr(reply_room, "WAIT_SECONDS", 0.01)
    asyncio.run(scenario())
