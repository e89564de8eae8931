"""A user whose tasks are on all places gives some to who has none, and loses nothing
but time."""

from __future__ import annotations

import asyncio

import pytest

from gateway.engines.port import (
    EngineOperation,
    EngineRefused,
    EngineUnavailable,
    FetchedBatch,
    OperationState,
    Orientation,
)
from tests.long_tests import first_then_long
from tests.spark.engine_bench import Client, EngineBench
from tests.spark.test_planning_places import RUNS_FOR_EVER, clients
from tests.waiting import LIMIT_SECONDS, wait_for

__all__ = ["clients"]

PLACES = 8  # of the engine under test
# looks for no interrupt within its first row
MATCH = (
    "select count_if(x rlike '(.*a){25}$')"
    " from (select repeat('a', 60) || id as x from range(0, 64, 1, 64))"
)
# its only task runs while it is fetched, and finds no row
FETCHED = "select id from range(0, 100000000000000, 1, 1) where id < 0"
SMALL = "select sum(id) from range(100)"


def given_way(bench: EngineBench) -> int:
    said = bench.log.read_text("utf-8", "replace")
    return said.count("give way to users who have no place")


async def answer_a_small_one(client: Client) -> None:
    async with asyncio.timeout(LIMIT_SECONDS):
        assert (await client._run(SMALL)).rows == [(4950,)]


async def until_finished(client: Client, operation: EngineOperation) -> None:
    while not (await client.session.status(operation)).state.is_terminal:
        pass
    status = await client.session.status(operation)
    assert status.state is OperationState.FINISHED, status.message


@pytest.mark.parametrize(
    "endless", first_then_long(MATCH, RUNS_FOR_EVER), ids=["match", "objects"]
)
def test_a_statement_on_all_places_lets_others_through(
    bench: EngineBench, clients: tuple[Client, Client], endless: str
) -> None:
    eve, ann = clients
    before = given_way(bench)
    operation = bench.wait(eve.session.execute(endless))

    def a_query_had_to_wait() -> bool:
        bench.wait(answer_a_small_one(ann))
        return given_way(bench) > before

    assert wait_for(a_query_had_to_wait, "tasks that give way")
    status = bench.wait(eve.session.status(operation))
    assert status.state is OperationState.RUNNING, status.message
    bench.wait(eve.session.cancel(operation))
    status = bench.wait(eve.session.status(operation))
    assert status.state is OperationState.CANCELED
    assert eve.rows(SMALL) == [(4950,)]


@pytest.mark.long
def test_results_that_are_fetched_for_ever_let_others_through(
    bench: EngineBench, clients: tuple[Client, Client]
) -> None:
    ann = clients[1]
    eves = [bench.connect("eve") for _ in range(2)]
    before = given_way(bench)

    async def begun(eve: Client) -> list[asyncio.Task[FetchedBatch]]:
        session = eve.session
        operations = [await session.execute(FETCHED) for _ in range(PLACES // 2)]
        for operation in operations:
            await until_finished(eve, operation)
        return [
            asyncio.create_task(session.fetch(operation, Orientation.NEXT, 10))
            for operation in operations
        ]

    async def scenario() -> None:
        fetches = [fetch for eve in eves for fetch in await begun(eve)]
        while given_way(bench) == before:
            await answer_a_small_one(ann)
        assert not any(fetch.done() for fetch in fetches)
        for eve in eves:
            await eve.session.close()
        ends = await asyncio.gather(*fetches, return_exceptions=True)
        assert all(isinstance(end, EngineRefused | EngineUnavailable) for end in ends)

    bench.wait(scenario())
    assert ann.rows(SMALL) == [(4950,)]


@pytest.mark.long
def test_a_statement_that_gave_way_comes_to_its_right_end(
    bench: EngineBench, clients: tuple[Client, Client]
) -> None:
    """Larger ones are tried until one was long enough to give way."""
    eve, ann = clients
    rows = 50_000_000

    async def beside_small_ones() -> list[tuple[object, ...]]:
        parts = f"range(0, {rows}, 1, {2 * PLACES})"
        counting = f"select percentile(id % 10, 0.5), count(*) from {parts}"
        large = asyncio.create_task(eve._run(counting))
        while not large.done():
            await answer_a_small_one(ann)
        return list((await large).rows)

    def a_large_one_gave_way() -> bool:
        nonlocal rows
        before = given_way(bench)
        assert bench.wait(beside_small_ones()) == [(4.5, rows)]
        rows *= 2
        return given_way(bench) > before

    assert wait_for(a_large_one_gave_way, "a statement that gives way")
