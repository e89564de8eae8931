"""Results larger than the engine may hold: they wait on its disk, or fail clearly."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from gateway.arrow_rows import batch_of, json_rows
from gateway.budget import Budget
from gateway.engines.port import (
    EngineRefused,
    EngineStatus,
    OperationState,
    Orientation,
)
from gateway.engines.spark_thrift import run_statement
from gateway.faults import DISK_FULL, clean
from gateway.hs2.rowset import decode_row_set
from gateway.result_reader import ResultReader
from tests.spark.engine_bench import (
    MAX_RESULT_MIB,
    SPOOL_MIB,
    Client,
    EngineBench,
    Outcome,
)

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


def test_a_part_of_any_size_arrives_whole_from_the_disk(client: Client) -> None:
    rows = client.rows(HASHES.format(rows=ROWS, parts=1))
    assert sum(len(row[1]) for row in rows) > 2 * MAX_RESULT_MIB * 1024 * 1024
    assert [row[0] for row in rows] == list(range(ROWS))


def test_a_result_beyond_its_room_is_made_as_it_is_read(client: Client) -> None:
    rows = client.rows(HASHES.format(rows=5 * ROWS, parts=20))
    assert sum(len(row[1]) for row in rows) > 2 * SPOOL_MIB * 1024 * 1024
    assert [row[0] for row in rows] == list(range(5 * ROWS))


def test_a_part_beyond_its_users_room_fails_in_our_words_and_leaves_nothing(
    client: Client, bench: EngineBench
) -> None:
    outcome = client.run(HASHES.format(rows=6 * ROWS, parts=1))
    fault = clean(outcome.error, sql_state=outcome.sql_state)
    assert (outcome.rows, fault.sql_state) == ([], DISK_FULL)
    assert "[UNREAD_RESULTS_FULL]" in fault.message
    assert f"{SPOOL_MIB}.0 MiB, as much as yours may have" in fault.message
    assert not bench.spooled
    assert client.rows("select 1") == [(1,)]


def test_who_has_less_gets_room_of_those_who_leave_theirs_unread(
    client: Client, bench: EngineBench
) -> None:
    """Two have all of it; the one with most loses a result, and is told so."""
    left = {}
    for user, rows in (("hal", 3.5 * ROWS), ("ian", 3 * ROWS)):
        bench.policy(user)
        held = bench.connect(user)
        statement = HASHES.format(rows=int(rows), parts=1)
        operation = bench.wait(run_statement(held.session, statement))
        bench.wait(held.session.fetch(operation, Orientation.NEXT, 10))
        left[user] = held, operation
    taken = sum(path.stat().st_size for path in bench.spooled)
    assert taken > (SPOOL_MIB << 20) * 1.3
    rows = client.rows(HASHES.format(rows=3 * ROWS, parts=1))
    assert len(rows) == 3 * ROWS
    (hal, lost), (ian, kept) = left["hal"], left["ian"]
    with pytest.raises(EngineRefused, match="UNREAD_RESULT_REMOVED") as told:
        bench.wait(hal.session.fetch(lost, Orientation.NEXT, 10))
    assert clean(str(told.value), sql_state=told.value.sql_state).sql_state == DISK_FULL
    assert bench.wait(ian.session.fetch(kept, Orientation.NEXT, 10)).rows == 10
    for held, _ in left.values():
        held.close()
    assert not bench.spooled


def test_a_client_that_reads_on_leaves_the_rest_to_the_disk(
    client: Client, bench: EngineBench
) -> None:
    """Also in order, and it can be read again from its start."""
    ordered = HASHES.format(rows=ROWS, parts=8) + " order by 2"

    async def scenario() -> None:
        session = client.session
        operation = await session.execute(ordered)
        while not (await session.status(operation)).state.is_terminal:
            pass
        rows = []
        for _ in range(3):
            batch = await session.fetch(operation, Orientation.NEXT, 10)
            rows += decode_row_set(batch.row_set)[1]
        assert rows == sorted(rows)
        while not (await session.status(operation)).is_whole:
            pass
        assert bench.spooled
        batch = await session.fetch(operation, Orientation.FIRST, 30)
        again = decode_row_set(batch.row_set)[1]
        # a busy machine's parts have fewer rows than were asked for
        assert again[: len(rows)] == rows
        rows = again
        while batch.rows:
            batch = await session.fetch(operation, Orientation.NEXT, 10_000)
            rows += decode_row_set(batch.row_set)[1] if batch.rows else []
        assert (len(rows), rows) == (ROWS, sorted(rows))
        assert not bench.spooled, "what was read is removed"
        batch = await session.fetch(operation, Orientation.FIRST, 30)
        assert decode_row_set(batch.row_set)[1] == rows[: batch.rows] != []
        while not (await session.status(operation)).is_whole:
            await session.fetch(operation, Orientation.NEXT, 10)
        await session.close_operation(operation)
        assert not bench.spooled

    client._bench.wait(scenario())


# of REST: what it is in JSON, beside the expression
IN_JSON = {
    "true": True,
    "cast(-128 as tinyint)": -128,
    "9007199254740993L": "9007199254740993",
    "cast(0.1 as float)": 0.1,
    "double('NaN')": "NaN",
    "cast(1.5 as decimal(38, 10))": "1.5000000000",
    "cast(0 as decimal(38, 18))": "0.000000000000000000",
    "date'2024-02-29'": "2024-02-29",
    "timestamp'1969-12-31 23:59:59.5'": "1969-12-31 23:59:59.5",
    "timestamp_ntz'2024-02-29 12:00:00'": "2024-02-29 12:00:00",
    "date'+20000-01-01'": "+20000-01-01",
    "unhex('00ff')": "00ff",
    "'ü'": "ü",
    "null": None,
    "cast(null as array<int>)": None,
    "array(1, null)": "[1,null]",
    "map('a', 1.50)": '{"a":1.50}',
    """named_struct('a"b', unhex('ff'), 'c', null)""": '{"a\\"b":"/w==","c":null}',
    "array(named_struct('at', date'2024-02-29'))": '[{"at":"2024-02-29"}]',
    "interval '1-2' year to month": "1-2",
    "interval '1 02:03:04' day to second": "1 02:03:04.000000000",
}
IN_ARROW = {"set:hiveconf:sluice.results": "arrow"}


def pages_of(bench: EngineBench, statement: str) -> list[tuple[int, bytes]]:
    client = bench.connect("eve", configuration=IN_ARROW)
    try:
        return [(rows, page) for rows, page in client.rows(statement)]
    finally:
        client.close()


def test_pages_hold_every_type_as_rest_shows_it(
    client: Client, bench: EngineBench
) -> None:
    ((rows, page),) = pages_of(bench, f"select {', '.join(IN_JSON)}")
    assert rows == 1
    assert dict(zip(IN_JSON, *json_rows(batch_of(page)), strict=True)) == IN_JSON


def test_pages_are_bounded_in_rows_and_bytes_and_come_in_order(
    client: Client, bench: EngineBench
) -> None:
    pages = pages_of(bench, HASHES.format(rows=1_200, parts=1))
    assert [rows for rows, _ in pages] == [500, 500, 200]
    found = [row[0] for _, page in pages for row in json_rows(batch_of(page))]
    assert found == list(range(1_200))
    pages = pages_of(bench, "select repeat('x', 600000), id from range(0, 5, 1, 1)")
    assert [rows for rows, _ in pages] == [2, 2, 1]
    assert pages_of(bench, "select 1 where false") == []


@pytest.mark.long
def test_rows_that_come_slowly_leave_before_the_next_is_computed(
    client: Client,
) -> None:
    """A client of one socket sends its cancel between two fetches."""

    async def scenario() -> None:
        session = client.session
        operation = await session.execute(
            "select id from range(0, 1500000, 1, 3) where"
            " length(sha2(cast(id as string), 512)) = 128 and id % 500000 = 0"
        )
        status = await session.status(operation)
        while not status.state.is_terminal:
            status = await session.status(operation)
        counts = []
        while not counts or counts[-1]:
            batch = await session.fetch(operation, Orientation.NEXT, 100)
            counts.append(batch.rows)
        assert (counts[0], sum(counts)) == (1, 3)
        await session.close_operation(operation)

    client._bench.wait(scenario())


def test_closing_a_result_stops_the_job_that_reads_ahead(client: Client) -> None:
    async def scenario() -> None:
        session = client.session
        operation = await session.execute(ENDLESS)
        status = await session.status(operation)
        while not status.state.is_terminal:
            status = await session.status(operation)
        assert status.state is OperationState.FINISHED
        room = Budget(1 << 20, 1 << 20)
        reader = ResultReader(session, operation, room)
        first = session.fetch(operation, Orientation.NEXT, 10)
        ahead = asyncio.create_task(reader.begin(first, 10))
        await asyncio.sleep(0)
        waiting = asyncio.create_task(reader.fetch(Orientation.NEXT, 10))
        await asyncio.sleep(1.0)
        reader.close()
        await session.close_operation(operation)
        for read in (waiting, ahead):
            with pytest.raises(EngineRefused):
                await read
        assert room.held == 0

    client._bench.wait(scenario())
    assert client.rows("select 1") == [(1,)]


@pytest.mark.long
def test_closing_a_result_stops_the_read_that_has_no_job_yet(client: Client) -> None:
    """A batch of many parts takes a job each: Spark cancels those that are there."""
    many = "select 1" + " union all select 1" * 150

    async def scenario() -> None:
        session = client.session
        for _ in range(3):
            operation = await session.execute(many)
            while not (await session.status(operation)).state.is_terminal:
                pass
            fetch = session.fetch(operation, Orientation.NEXT, 1_000)
            reading = asyncio.create_task(fetch)
            await asyncio.sleep(0)  # it is sent, and not yet at its first job
            await session.close_operation(operation)
            with pytest.raises(EngineRefused):
                await reading

    client._bench.wait(scenario())
    assert client.rows("select 1") == [(1,)]


WIDE = "select id, repeat('x', 1000000) from range(40)"
HOARD = (
    "select length(concat_ws('', collect_list(repeat(cast(id as string), 20000))))"
    " from range(100000, 120000, 1, 2)"
)


def test_a_batch_is_bounded_in_bytes_whatever_number_of_rows_is_asked_for(
    client: Client,
) -> None:
    async def scenario() -> list[tuple[int, int]]:
        session = client.session
        operation = await session.execute(WIDE)
        while not (await session.status(operation)).state.is_terminal:
            pass
        batches = []
        while not batches or batches[-1][0]:
            batch = await session.fetch(operation, Orientation.NEXT, 10_000)
            batches.append((batch.rows, len(batch.row_set)))
        first = await session.fetch(operation, Orientation.FIRST, 10_000)
        assert 0 < first.rows < 40
        await session.close_operation(operation)
        return batches

    batches = client._bench.wait(scenario())
    assert sum(rows for rows, _ in batches) == 40
    assert max(size for _, size in batches) < 10 * 1024 * 1024


def test_a_row_beyond_the_limit_ends_its_statement_with_the_limit_named(
    client: Client,
) -> None:
    outcome = client.run("select repeat('x', 20000000)")
    assert outcome.sql_state == "54000"
    assert "[ROW_TOO_LARGE]" in outcome.error
    assert "at most 16.0 MiB" in outcome.error


@pytest.mark.parametrize(
    "statement",
    ["select length(repeat('x', 1900000000))", HOARD],
    ids=["one value", "many values"],
)
def test_a_statement_beyond_the_memory_ends_before_the_engine_does(
    bench: EngineBench, client: Client, statement: str
) -> None:
    outcome = client.run(statement)
    assert "[STATEMENT_TOO_LARGE]" in outcome.error
    assert outcome.sql_state == "54000"
    assert client.rows("select 1") == [(1,)]
    assert bench.tell("start")["java_pid"] == bench.java_pid


HOG = "select size(collect_list(repeat(id, 100))) from range(0, 20000000)"
SMALL = "select sum(id) from range(1000)"


def test_small_statements_go_on_while_the_memory_of_others_goes(
    bench: EngineBench, client: Client
) -> None:
    """Of hogs, one after the other, one leaves in the midst; the small ones never end
    for them, nor wait until a hog has."""
    bench.policy("good")
    good, leaver = bench.connect("good"), bench.connect("eve")

    async def scenario() -> tuple[list[Outcome], Outcome]:
        await leaver.session.execute(HOG)
        hog = asyncio.create_task(client._run(HOG))
        small = [await good._run(SMALL) for _ in range(2)]
        await leaver.session.close()
        while not hog.done():
            small.append(await good._run(SMALL))
        small += [await good._run(SMALL) for _ in range(20)]
        return small, await hog

    small, hog = bench.wait(scenario())
    good.close()
    assert {(outcome.error, *outcome.rows) for outcome in small} == {("", (499_500,))}
    assert "[STATEMENT_TOO_LARGE]" in hog.error
    assert bench.tell("start")["java_pid"] == bench.java_pid


# Each literal is cast to the type of the column: over 100 MB of plan.
LONG_LIST = (
    f"select id from range(10) where id in ({','.join(map(str, range(60_000)))})"
)


@pytest.mark.long
def test_plans_of_open_statements_are_charged_to_their_user(
    bench: EngineBench, client: Client
) -> None:
    """No task took memory, and nobody reads: whoever left the plans open loses one."""
    bench.policy("good")
    good = bench.connect("good")

    async def scenario() -> list[EngineStatus]:
        held = []
        for _ in range(8):
            held.append(await client.session.execute(LONG_LIST))
            while not (await client.session.status(held[-1])).state.is_terminal:
                pass
        found = [await client.session.status(operation) for operation in held]
        for operation in held:
            await client.session.close_operation(operation)
        return found

    found = bench.wait(scenario())
    ended = [status for status in found if status.state is not OperationState.FINISHED]
    assert {status.sql_state for status in ended} == {"54000"}
    assert len(ended) < len(found)
    assert good.rows(SMALL) == [(499_500,)]
    good.close()
    assert bench.tell("start")["java_pid"] == bench.java_pid
