"""One behaviour suite for every engine behind the port: the fake and the real one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from catalog.access.principal_policy import PrincipalPolicy
from catalog.selectors.locations import LakeLocation
from gateway.engines.launch import EngineSpec
from gateway.engines.port import (
    EngineClient,
    EngineRefused,
    EngineState,
    EngineUnavailable,
    OperationState,
    Orientation,
)
from gateway.engines.spark_thrift import SparkEngine
from gateway.hs2.rowset import decode_row_set
from tests.doubles.engine import FakeAnswer, FakeEngine, answer_to

SLOW = "SELECT sum(a.id * b.id % 7) FROM range(3000000) a CROSS JOIN range(3000000) b"


class NoTables:
    async def look_up(self, database: str, table: str) -> LakeLocation | None:
        return None

    async def list_tables(
        self, principal: str, database: str, pattern: str
    ) -> list[tuple[str, str]]:
        return []

    async def columns_by_table(
        self, principal: str, database: str, pattern: str
    ) -> dict[str, list[tuple[str, str, bool]]]:
        return {}

    async def live_names(
        self, principal: str, datasource: str, database: str
    ) -> list[str]:
        return []

    def db_read_age_ms(self) -> int:
        return 0


def fake_answers(statement: str) -> FakeAnswer:
    return FakeAnswer(seconds=60) if statement == SLOW else answer_to(statement)


class Driver:
    """Runs coroutines on one loop for a whole module."""

    def __init__(self, link: EngineClient) -> None:
        self.link = link
        self.runner = asyncio.Runner()

    def __call__(self, coroutine: Any) -> Any:
        return self.runner.run(coroutine)


@pytest.fixture(scope="module", params=["fake", "real"])
def engine(
    request: pytest.FixtureRequest,
    engine_jars: tuple[Path, ...],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Driver]:
    link: EngineClient = FakeEngine(answers=fake_answers)
    if request.param == "real":
        home = tmp_path_factory.mktemp("port_home")
        spec = EngineSpec(home=home, jars=engine_jars, memory="900m")
        link = SparkEngine(spec, NoTables(), engine_id="port")
    driver = Driver(link)
    driver(driver.link.start())
    yield driver
    driver(driver.link.stop(grace_seconds=10))
    driver.runner.close()


def policy(version: int, *, active: bool = True) -> PrincipalPolicy:
    return PrincipalPolicy("ann", version, active, is_admin=False)


async def opened(link: EngineClient):
    await link.push_policy(policy(max(link.acknowledged_version("ann"), 1)))
    return await link.open_session("ann", {})


async def ended(session, handle):
    status = await session.status(handle)
    while not status.state.is_terminal:
        status = await session.status(handle)
    return status


def test_it_is_ready_and_answers_probes(engine):
    assert engine.link.facts().state is EngineState.READY
    engine(engine.link.probe())


def test_a_policy_is_acknowledged_with_its_version(engine):
    engine(engine.link.push_policy(policy(7)))
    assert engine.link.acknowledged_version("ann") == 7
    assert engine.link.acknowledged_version("nobody") == -1


def test_a_statement_gives_columns_and_rows(engine):
    async def scenario():
        session = await opened(engine.link)
        handle = await session.execute("SELECT 7")
        assert (await ended(session, handle)).state is OperationState.FINISHED
        batch = await session.fetch(handle, Orientation.NEXT, 10)
        empty = await session.fetch(handle, Orientation.NEXT, 10)
        again = await session.fetch(handle, Orientation.FIRST, 10)
        await session.close_operation(handle)
        await session.close_operation(handle)
        await session.close()
        await session.close()
        return batch, empty, again

    batch, empty, again = engine(scenario())
    assert [(c.name, c.type_id) for c in batch.columns] == [("7", 3)]
    assert empty.columns is again.columns is None
    assert (batch.rows, decode_row_set(batch.row_set)) == (1, [[7]])
    assert (empty.rows, empty.row_set) == (0, b"")
    assert decode_row_set(again.row_set) == [[7]]


async def queried(session, statement, most):
    """What the question behind a statement brings, and how the statement stands."""
    handle, first = await session.query(statement, None, most)
    batch = await first
    return handle, batch


def test_the_first_rows_are_asked_for_with_the_statement(engine):
    async def scenario():
        session = await opened(engine.link)
        handle, batch = await queried(session, "SELECT * FROM range(2500)", 100)
        second = await session.fetch(handle, Orientation.NEXT, 100)
        none, columns = await queried(session, "SELECT 7", 0)
        rows = await session.fetch(none, Orientation.NEXT, 10)
        await session.close()
        return batch, second, columns, rows

    batch, second, columns, rows = engine(scenario())
    assert [column.name for column in batch.columns] == ["id"]
    read = [*decode_row_set(batch.row_set)[0], *decode_row_set(second.row_set)[0]]
    assert (sorted(read), second.columns) == (list(range(200)), None)
    assert ([c.name for c in columns.columns], columns.rows) == (["7"], 0)
    assert (decode_row_set(rows.row_set), rows.columns) == ([[7]], None)


def test_a_statement_that_came_to_nothing_has_no_columns_but_a_status(engine):
    async def scenario():
        session = await opened(engine.link)
        handle, batch = await queried(session, "SELEC 1", 100)
        status = await session.status(handle)
        _, batch_after = await queried(session, "SELECT 7", 100)
        await session.close()
        return batch, status, batch_after

    batch, status, after = engine(scenario())
    assert (batch.rows, batch.columns) == (0, None)
    assert (status.state, status.sql_state) == (OperationState.ERROR, "42601")
    assert decode_row_set(after.row_set) == [[7]]


def test_a_statement_that_runs_on_has_no_columns_yet_and_can_be_cancelled(engine):
    async def scenario():
        session = await opened(engine.link)
        handle, first = await session.query(SLOW, None, 100)
        await session.cancel(handle)
        batch = await first
        state = (await ended(session, handle)).state
        await session.close()
        return batch, state

    batch, state = engine(scenario())
    assert (batch.columns, state) == (None, OperationState.CANCELED)


def test_batches_cover_the_result(engine):
    async def scenario():
        session = await opened(engine.link)
        handle = await session.execute("SELECT * FROM range(2500)")
        await ended(session, handle)
        seen = []
        while True:
            batch = await session.fetch(handle, Orientation.NEXT, 1000)
            if not batch.rows:
                break
            seen += decode_row_set(batch.row_set)[0]
        await session.close()
        return seen

    assert sorted(engine(scenario())) == list(range(2500))


def test_a_wrong_statement_ends_in_error_with_class_and_state(engine):
    async def scenario():
        session = await opened(engine.link)
        try:
            return await ended(session, await session.execute("SELEC 1"))
        except EngineRefused as error:
            return error
        finally:
            await session.close()

    failed = engine(scenario())
    assert failed.sql_state == "42601"
    assert "PARSE_SYNTAX_ERROR" in failed.message


def test_cancel_does_not_wait_behind_status_and_is_idempotent(engine):
    async def scenario():
        session = await opened(engine.link)
        handle = await session.execute(SLOW)
        waiting = asyncio.create_task(ended(session, handle))
        await asyncio.sleep(1.0)
        await session.cancel(handle)
        await session.cancel(handle)
        state = (await waiting).state
        await session.close()
        return state

    assert engine(scenario()) is OperationState.CANCELED


def test_without_an_active_policy_nothing_runs(engine):
    async def scenario():
        session = await opened(engine.link)
        version = engine.link.acknowledged_version("ann")
        await engine.link.push_policy(policy(version + 1, active=False))
        try:
            return await ended(session, await session.execute("SELECT 7"))
        except EngineRefused:
            return None
        finally:
            await session.close()
            await engine.link.push_policy(policy(version + 2))

    status = engine(scenario())
    assert status is None or status.state is OperationState.ERROR


def test_a_stopped_engine_is_unavailable_and_starts_again(engine):
    async def scenario():
        session = await opened(engine.link)
        await engine.link.stop(grace_seconds=0)
        assert engine.link.acknowledged_version("ann") == -1
        with pytest.raises(EngineUnavailable):
            await session.execute("SELECT 1")
        await session.close()
        with pytest.raises(EngineUnavailable):
            await engine.link.push_policy(policy(9))
        await engine.link.start()
        fresh = await opened(engine.link)
        status = await ended(fresh, await fresh.execute("SELECT 1"))
        await fresh.close()
        return status

    status = engine(scenario())
    assert status.state is OperationState.FINISHED, status
    assert engine.link.facts().open_sessions == 0
