"""Results larger than the engine may hold: they flow part by part, or fail clearly."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from gateway.engines.port import EngineRefused, OperationState, Orientation
from gateway.faults import clean
from gateway.result_reader import ReadAheadRoom, ResultReader
from tests.spark.engine_bench import MAX_RESULT_MIB, Client, EngineBench

ROWS = 40_000
# A hash has 128 characters that do not compress: over 5 MB in all.
HASHES = "select id, sha2(cast(id as string), 512) from range(0, {rows}, 1, {parts})"
ENDLESS = "select a.id from range(1) a cross join range(100000000000) b where b.id < 0"


@pytest.fixture
def client(bench: EngineBench) -> Iterator[Client]:
    bench.policy("eve")
    opened = bench.connect("eve")
    yield opened
    opened.close()


def test_a_result_beyond_the_limit_arrives_whole_in_small_parts(client: Client) -> None:
    rows = client.rows(HASHES.format(rows=ROWS, parts=8))
    assert sum(len(row[1]) for row in rows) > 2 * MAX_RESULT_MIB * 1024 * 1024
    assert [row[0] for row in rows] == list(range(ROWS))


def test_a_part_beyond_the_limit_fails_in_our_words_and_the_session_goes_on(
    client: Client,
) -> None:
    outcome = client.run(HASHES.format(rows=ROWS, parts=1))
    fault = clean(outcome.error, sql_state=outcome.sql_state)
    assert (outcome.rows, fault.sql_state) == ([], "54000")
    assert "RESULT_TOO_LARGE" in fault.message
    assert f"at most {MAX_RESULT_MIB}.0 MiB" in fault.message
    assert "REPARTITION" in fault.message
    spread = HASHES.format(rows=ROWS, parts=1).replace(
        "select", "select /*+ REPARTITION(8) */", 1
    )
    assert len(client.rows(spread)) == ROWS


def test_closing_a_result_stops_the_job_that_reads_ahead(client: Client) -> None:
    async def scenario() -> None:
        session = client.session
        operation = await session.execute(ENDLESS)
        status = await session.status(operation)
        while not status.state.is_terminal:
            status = await session.status(operation)
        assert status.state is OperationState.FINISHED
        room = ReadAheadRoom(1 << 20, 1 << 20)
        reader = ResultReader(session, operation, room)
        reader.begin()
        waiting = asyncio.create_task(reader.fetch(Orientation.NEXT, 10))
        await asyncio.sleep(1.0)
        reader.close()
        await session.close_operation(operation)
        with pytest.raises(EngineRefused):
            await waiting
        assert room.held == 0

    client._bench.wait(scenario())
    assert client.rows("select 1") == [(1,)]
