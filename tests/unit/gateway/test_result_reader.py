"""Reading ahead: order, bounds, going back, errors, closing."""

from __future__ import annotations

import asyncio

import pytest

from gateway import result_reader
from gateway.budget import Budget
from gateway.engines.port import (
    EngineOperation,
    EngineRefused,
    EngineUnavailable,
    FetchedBatch,
    Orientation,
)
from gateway.hs2.rowset import RowSetRest, decode_row_set, encode_row_set
from gateway.hs2.values import TypeId
from gateway.result_reader import FIRST_ROWS, ResultReader, first_rows

NEXT, FIRST = Orientation.NEXT, Orientation.FIRST


class Engine:
    """A result of `rows` numbers; the fetch that reaches `bad` is refused."""

    def __init__(self, rows: int, bad: int | None = None) -> None:
        self.rows, self.bad, self.position = rows, bad, 0
        self.asked: list[tuple[Orientation, int]] = []
        self.running = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.is_closed = False

    async def fetch(self, operation, orientation, max_rows):
        self.asked.append((orientation, max_rows))
        assert self.running == 0, "two reads met in the engine"
        self.running += 1
        await self.gate.wait()
        self.running -= 1
        if orientation is FIRST:
            self.position = 0
        begin, end = self.position, min(self.position + max_rows, self.rows)
        self.position = end
        if self.bad is not None and begin <= self.bad < end:
            raise EngineRefused("row too far")
        row_set = encode_row_set([TypeId.BIGINT], [(n,) for n in range(begin, end)])
        return FetchedBatch(row_set if end > begin else b"", False, end - begin, ())


class Reading:
    def __init__(self, rows=1000, bad=None, total=1 << 20, per_batch=1 << 19) -> None:
        self.engine = Engine(rows, bad)
        self.room = Budget(total, per_batch)
        self.reader = ResultReader(self.engine, EngineOperation(b"", b""), self.room)

    async def begin(self):
        """As a statement is sent: with a question for as many rows as there is room."""
        most = first_rows(self.room)
        first = self.engine.fetch(EngineOperation(b"", b""), NEXT, most)
        return await self.reader.begin(first, most)

    def begun(self):
        return asyncio.create_task(self.begin())

    async def numbers(self, count, orientation=NEXT):
        batch = await self.reader.fetch(orientation, count)
        values = decode_row_set(batch.row_set)[0] if batch.rows else []
        assert len(values) == batch.rows <= count
        return values

    async def all(self, count):
        seen = []
        while values := await self.numbers(count):
            seen += values
        return seen


async def settled():
    """Everything that waits for nothing has been done."""
    for _ in range(50):
        await asyncio.sleep(0)


def run(scenario, **facts):
    async def within():
        return await scenario(Reading(**facts))

    return asyncio.run(within())


@pytest.mark.parametrize("count", [1, 3, FIRST_ROWS, 101, 400, 5000])
@pytest.mark.parametrize("rows", [0, 1, 99, 100, 101, 1000])
async def test_every_row_comes_once_and_in_order(rows, count):
    reading = Reading(rows=rows)
    await reading.begin()
    assert await reading.all(count) == list(range(rows))
    reading.reader.close()
    assert reading.room.held == 0


@pytest.mark.parametrize("count", [1, 7])
def test_a_batch_is_sliced_once_for_all_the_fetches_that_share_it(monkeypatch, count):
    sliced = []

    def slice_it(row_set):
        sliced.append(len(row_set))
        return RowSetRest(row_set)

    async def scenario(reading):
        await reading.begin()
        seen = await reading.numbers(count)
        held = reading.room.held
        while len(seen) < FIRST_ROWS - count:
            seen += await reading.numbers(count)
            assert reading.room.held == held
        assert seen == list(range(len(seen)))
        assert len(sliced) == 1

    for at_once in (0, 1 << 20):  # in a thread, and where it is
        sliced.clear()
        monkeypatch.setattr(result_reader, "SLICED_AT_ONCE", at_once)
        monkeypatch.setattr(result_reader, "RowSetRest", slice_it)
        run(scenario)


def test_a_client_that_left_while_a_batch_was_sliced_loses_no_row(monkeypatch):
    async def scenario(reading):
        await reading.begin()
        await settled()
        gate = asyncio.Event()

        async def slowly(row_set):
            await gate.wait()
            return RowSetRest(row_set)

        monkeypatch.setattr(result_reader, "_sliced", slowly)
        leaving = asyncio.create_task(reading.numbers(10))
        await settled()
        leaving.cancel()
        await settled()
        gate.set()
        assert await reading.all(10) == list(range(1000))
        assert reading.room.held == 0

    run(scenario)


async def test_the_next_batch_is_under_way_before_it_is_asked_for():
    reading = Reading()
    await reading.begin()
    await reading.numbers(300)
    await asyncio.sleep(0)
    assert reading.engine.asked == [(NEXT, FIRST_ROWS), (NEXT, 300)]
    assert reading.room.held > 0
    await reading.numbers(300)
    await asyncio.sleep(0)
    assert len(reading.engine.asked) == 3


async def test_a_result_of_one_row_costs_one_question():
    reading = Reading(rows=1)
    await reading.begin()
    assert await reading.numbers(1000) == [0]
    await settled()
    assert reading.engine.asked == [(NEXT, FIRST_ROWS)]


@pytest.mark.parametrize("bounds", [{"per_batch": 1000}, {"total": 1000}])
async def test_without_room_nothing_is_read_ahead_and_all_rows_come(bounds):
    reading = Reading(**bounds)
    await reading.begin()
    assert await reading.all(500) == list(range(1000))
    assert reading.room.held == 0


async def test_going_back_waits_for_the_read_under_way_and_begins_anew():
    reading = Reading()
    await reading.begin()
    assert await reading.numbers(50, FIRST) == list(range(50))
    assert await reading.numbers(50, FIRST) == list(range(50))
    assert await reading.numbers(50) == list(range(50, 100))
    reading.engine.gate.clear()
    back = asyncio.create_task(reading.numbers(10, FIRST))
    await settled()
    reading.engine.gate.set()
    assert await back == list(range(10))


async def test_after_an_error_rows_are_never_skipped_in_silence():
    reading = Reading(bad=150)
    await reading.begin()
    assert await reading.numbers(100) == list(range(100))
    for _ in range(3):
        with pytest.raises(EngineRefused, match="too far"):
            await reading.numbers(100)
    assert await reading.numbers(20, FIRST) == list(range(20))


async def test_closing_never_waits_and_gives_the_room_back():
    reading = Reading()
    reading.engine.gate.clear()
    reading.begun()
    await settled()
    await asyncio.sleep(0)
    reading.reader.close()
    reading.reader.close()
    with pytest.raises(EngineUnavailable):
        await reading.numbers(10)
    reading.engine.gate.set()
    await settled()
    assert reading.room.held == 0


async def test_a_client_that_left_while_waiting_leaves_the_read_to_the_next_one():
    reading = Reading()
    reading.engine.gate.clear()
    reading.begun()
    await settled()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reading.numbers(100), 0.01)
    reading.engine.gate.set()
    assert await reading.numbers(100) == list(range(100))


async def test_an_engine_that_is_gone_is_said_so():
    reading = Reading()
    await reading.begin()
    await settled()
    reading.engine.is_closed = True
    with pytest.raises(EngineUnavailable, match="run the statement again"):
        await reading.numbers(10)


async def test_a_result_that_was_ended_is_read_no_further():
    reading = Reading()
    assert await reading.numbers(3) == [0, 1, 2]
    reading.reader.end(EngineRefused("it was left", sql_state="HYT00"))
    for orientation in (NEXT, FIRST):
        with pytest.raises(EngineRefused, match="it was left") as refused:
            await reading.numbers(3, orientation)
        assert refused.value.sql_state == "HYT00"


async def test_a_read_under_way_ends_with_its_statement_whatever_the_engine_does():
    reading = Reading()
    reading.engine.gate.clear()
    asked = asyncio.create_task(reading.numbers(3))
    await settled()
    reading.reader.end(EngineRefused("it was left"))
    with pytest.raises(EngineRefused, match="it was left"):
        await asked


@pytest.mark.parametrize("is_ahead", [True, False])
async def test_what_the_engine_still_reads_is_known_until_it_has_come(
    is_ahead, monkeypatch
):
    reading = Reading(rows=50)
    now = [100.0]
    monkeypatch.setattr(result_reader.time, "monotonic", lambda: now[0])
    reading.engine.gate.clear()
    if is_ahead:
        reading.begun()
        await settled()
    asked = asyncio.create_task(reading.numbers(500))
    await settled()
    now[0] = 107.0
    assert reading.reader.seconds_under_way == 7.0
    reading.engine.gate.set()
    await asked
    await settled()
    assert reading.reader.seconds_under_way == 0.0


async def test_a_client_that_left_while_waiting_leaves_the_engine_at_work(monkeypatch):
    reading = Reading()
    now = [100.0]
    monkeypatch.setattr(result_reader.time, "monotonic", lambda: now[0])
    reading.engine.gate.clear()
    asked = asyncio.create_task(reading.numbers(3))
    await settled()
    asked.cancel()
    await settled()
    now[0] = 107.0
    assert reading.reader.seconds_under_way == 7.0


async def test_a_read_that_failed_is_not_under_way():
    reading = Reading(bad=50)
    with pytest.raises(EngineRefused):
        await reading.numbers(100)
    assert reading.reader.seconds_under_way == 0.0
