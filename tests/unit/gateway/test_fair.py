"""Places are handed out in turn, and a call that went away gives its place back."""

from __future__ import annotations

import asyncio

import pytest

from gateway.fair import Caller, FairPlaces, TooManyWait
from gateway.logins import MOST_REMEMBERED, PAUSE_SECONDS, LoginTurns

MANY, ONE = Caller("many", 2), Caller("one", 2)


def places(count: int = 1, *, waiting: int = 100, each: int = 100) -> FairPlaces:
    return FairPlaces(count, waiting=waiting, waiting_each=each)


async def taken(shared: FairPlaces, order: list[str], caller: Caller) -> None:
    await shared.acquire(caller)
    order.append(caller.name)
    shared.release(caller)


def test_who_asks_a_hundred_times_lets_others_between() -> None:
    async def scene() -> list[str]:
        shared, order = places(), list[str]()
        await shared.acquire(MANY)
        tasks = [asyncio.create_task(taken(shared, order, MANY)) for _ in range(5)]
        await asyncio.sleep(0)
        tasks += [asyncio.create_task(taken(shared, order, ONE)) for _ in range(2)]
        await asyncio.sleep(0)
        shared.release(MANY)
        await asyncio.gather(*tasks)
        assert shared.waiting == 0
        return order

    order = asyncio.run(scene())
    assert order == ["many", "one", "many", "one", "many", "many", "many"]


async def test_nobody_holds_more_than_his_places() -> None:
    shared = places(3)
    await shared.acquire(MANY)
    await shared.acquire(MANY)
    assert shared.must_wait(MANY)
    third = asyncio.create_task(shared.acquire(MANY))
    await asyncio.sleep(0)
    assert not shared.must_wait(ONE)
    await shared.acquire(ONE)
    shared.release(ONE)
    await asyncio.sleep(0)
    assert not third.done()
    shared.release(MANY)
    await third


async def test_a_caller_that_rests_leaves_his_place_to_others_only() -> None:
    shared = places(1)
    alone = Caller("alone", 1)
    await shared.acquire(alone)
    order: list[str] = []
    his = asyncio.create_task(taken(shared, order, alone))
    await asyncio.sleep(0)
    shared.release(alone, rest=0.05)
    assert shared.must_wait(alone)
    assert not shared.must_wait(ONE)
    await shared.acquire(ONE)
    assert order == []
    shared.release(ONE)
    await his
    assert order == ["alone"]


async def test_who_gives_way_has_one_place_while_others_hold_any() -> None:
    gives_way = {"many"}
    shared = FairPlaces(4, waiting=9, waiting_each=9, gives_way=gives_way.__contains__)
    await shared.acquire(MANY)
    assert not shared.must_wait(MANY)  # he is alone
    await shared.acquire(ONE)
    assert shared.must_wait(MANY)
    second = asyncio.create_task(shared.acquire(MANY))
    await asyncio.sleep(0)
    await shared.acquire(ONE)
    shared.release(ONE)
    await asyncio.sleep(0)
    assert not second.done()
    shared.release(ONE)  # alone again
    await second


@pytest.mark.parametrize(("waiting", "each"), [(2, 100), (100, 2)])
async def test_room_to_wait_is_bounded(waiting: int, each: int) -> None:
    shared = places(waiting=waiting, each=each)
    await shared.acquire(MANY)
    tasks = [asyncio.create_task(shared.acquire(MANY)) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(TooManyWait):
        await shared.acquire(MANY)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert shared.waiting == 0


async def test_a_place_given_in_the_moment_of_a_cancel_is_given_on() -> None:
    shared = places()
    await shared.acquire(MANY)
    tasks = [asyncio.create_task(shared.acquire(c)) for c in (MANY, ONE, MANY)]
    await asyncio.sleep(0)
    tasks[0].cancel()  # before its turn
    shared.release(MANY)  # to the second, cancelled before it sees that
    tasks[1].cancel()
    await tasks[2]
    assert shared.must_wait(ONE)
    shared.release(MANY)
    assert not shared.must_wait(ONE)


def test_strangers_of_an_address_share_a_turn_and_acquaintances_do_not() -> None:
    turns = LoginTurns()

    def caller(user: str, secret: str, address: str) -> Caller:
        async def scene() -> Caller:
            async with turns.turn(user, secret, address=address) as found:
                return found

        return asyncio.run(scene())

    first = caller("ann", "secret", "1.2.3.4")
    assert first == caller("eve", "guess", "1.2.3.4")
    assert first != caller("ann", "secret", "5.6.7.8")
    assert first != caller("eve", "slt_guess", "1.2.3.4")
    turns.remember("ann", address="1.2.3.4")
    assert caller("ann", "secret", "1.2.3.4") != first
    for number in range(MOST_REMEMBERED):
        turns.remember(f"u{number}", address="1.2.3.4")
    assert caller("ann", "secret", "1.2.3.4") == first


def test_a_pool_of_connections_waits_for_its_first_login() -> None:
    async def scene() -> list[str]:
        turns, as_whom, go = LoginTurns(), list[str](), asyncio.Event()

        async def log_in() -> None:
            async with turns.turn("ann", "secret", address="1.2.3.4") as caller:
                as_whom.append(caller.name)
                await go.wait()
                turns.remember("ann", address="1.2.3.4")

        pool = [asyncio.create_task(log_in()) for _ in range(3)]
        await asyncio.sleep(0)
        assert as_whom == ["password@1.2.3.4"]
        go.set()
        await asyncio.gather(*pool)
        return as_whom

    assert asyncio.run(scene())[1:] == ["ann@1.2.3.4"] * 2


def test_who_gives_way_comes_in_slowly() -> None:
    async def scene() -> list[Caller]:
        turns, seen = LoginTurns(), []
        turns.remember("ann", address="::1")
        for gives_way in (False, True):
            turn = turns.turn("ann", "x", address="::1", gives_way=gives_way)
            async with turn as caller:
                seen.append(caller)
        return seen

    quick, slow = asyncio.run(scene())
    assert (quick.places, quick.pause) == (2, 0.0)
    assert (slow.places, slow.pause) == (1, PAUSE_SECONDS)
    assert quick.name != slow.name
