"""Whoever ends a statement of the engine ends what it runs at a live source."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import psycopg
import pytest

from core.errors import SluiceError
from gateway.engines.port import (
    EngineOperation,
    EngineRefused,
    OperationState,
    Orientation,
)
from tests.source_access import mariadb_at, postgresql_at
from tests.spark.engine_bench import Client, EngineBench
from tests.spark.live_bench import LiveSource
from tests.waiting import wait_for

ID = [("id", "integer", "int")]
# The first sleeps before its first row; the second behind several batches of rows, each
# of which the driver asks for by itself; the third until it is cancelled twice, as one
# that is cancelled just before it is sent.
VIEWS = """
CREATE VIEW slow AS SELECT i AS id FROM generate_series(1, 9) i
  WHERE pg_sleep(600) IS NOT NULL;
CREATE VIEW late AS SELECT i AS id FROM generate_series(1, 1000) i
  WHERE i <= 500 OR pg_sleep(600) IS NOT NULL;
CREATE FUNCTION doze() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  RETURN pg_sleep(600) IS NOT NULL;
EXCEPTION WHEN query_canceled THEN
  RETURN pg_sleep(600) IS NOT NULL;
END $$;
CREATE VIEW deaf AS SELECT i AS id FROM generate_series(1, 9) i WHERE doze();
CREATE TABLE few AS SELECT i AS id FROM generate_series(1, 9) i;
"""
SLOW, LATE = "slow_pg.public.slow", "slow_pg.public.late"
SLEEPY = ["slow_pg", "narrow_pg", "three_pg", "split_pg"]
Ending = Callable[[EngineOperation], Awaitable[None]]


@dataclass(frozen=True)
class Sleeper:
    """A user of sources whose statements sleep, and how many of them do."""

    bench: EngineBench
    client: Client
    asleep: Callable[[], int]

    async def wait(self, *, sleeps: bool) -> None:
        what = (
            "a statement to sleep there" if sleeps else "no statement to be left there"
        )
        await asyncio.to_thread(
            wait_for, lambda: (self.asleep() > 0) is sleeps or None, what
        )

    async def fetched(self, statement: str) -> tuple[EngineOperation, Any]:
        """Under way at the source for a fetch, which waits for rows."""
        session = self.client.session
        operation = await session.execute(statement)
        while not (await session.status(operation)).state.is_terminal:
            pass  # each answer is waited for; rows are read as they are fetched
        fetch = asyncio.create_task(session.fetch(operation, Orientation.NEXT, 1000))
        await self.wait(sleeps=True)
        return operation, fetch

    def until_it_waits(self, operation: EngineOperation, source: str) -> None:
        name, reason = operation.guid.hex(), f"waits for a connection to {source}"

        def does() -> bool:
            told = self.bench.tell("progress", statement=name)["progress"]
            return bool(told) and reason in told["waits_for"]

        wait_for(does, f"that it {reason}", pause=0.2)

    def end(self, statement: str, ending: Ending) -> None:
        """While its rows are fetched."""

        async def ended() -> None:
            operation, fetch = await self.fetched(statement)
            await ending(operation)
            await self.wait(sleeps=False)
            with pytest.raises(SluiceError):
                await fetch

        self.bench.wait(ended())

    def cancel_running(self, statement: str) -> None:
        """While the engine plans it, or computes what has to be at once."""
        session = self.client.session

        async def cancelled() -> None:
            operation = await session.execute(statement)
            while not self.asleep():
                status = await session.status(operation)  # waits for a while itself
                assert not status.state.is_terminal, status
            await session.cancel(operation)
            await self.wait(sleeps=False)
            status = await session.status(operation)
            assert status.state is OperationState.CANCELED

        self.bench.wait(cancelled())


@pytest.fixture(scope="module")
def link(bench: EngineBench, source_pg: Any) -> Iterator[psycopg.Connection[Any]]:
    dsn = source_pg.create_database("sleepy")
    access = postgresql_at(dsn, application="sluice:sql")
    for name, connections in (("slow_pg", 2), ("narrow_pg", 1), ("three_pg", 3)):
        source = LiveSource(bench, name, access, connections)
        for table in ("slow", "late", "few"):
            source.table("public", table, ID)
    split = LiveSource(bench, "split_pg", access)
    split.table("public", "deaf", ID, split_by="id", rows=400_000)
    with psycopg.connect(dsn, autocommit=True) as made:
        made.execute(VIEWS)
        yield made


@pytest.fixture
def client(bench: EngineBench) -> Iterator[Client]:
    bench.policy("sly", sources=[*SLEEPY, "slow_my"])
    made = bench.connect("sly")
    yield made
    made.close()


@pytest.fixture
def sleeper(
    bench: EngineBench, link: psycopg.Connection[Any], client: Client
) -> Sleeper:
    def asleep() -> int:
        row = link.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND wait_event = 'PgSleep'"
        ).fetchone()
        assert row
        return int(row[0])

    return Sleeper(bench, client, asleep)


@pytest.mark.parametrize("table", [SLOW, LATE])
def test_a_result_that_is_closed(sleeper: Sleeper, table: str) -> None:
    sleeper.end(f"select * from {table}", sleeper.client.session.close_operation)


def test_a_session_that_is_closed(sleeper: Sleeper) -> None:
    async def closed(operation: EngineOperation) -> None:
        await sleeper.client.session.close()

    sleeper.end(f"select * from {LATE}", closed)


def test_a_statement_that_is_cancelled(sleeper: Sleeper) -> None:
    greatest = f"(select max(id + 0) from {LATE})"  # computed before the first row
    sleeper.cancel_running(f"select id from slow_pg.public.few where id > {greatest}")


def test_a_statement_that_is_cancelled_while_it_is_planned(sleeper: Sleeper) -> None:
    sleeper.cancel_running("select * from split_pg.public.deaf")


def test_a_cancelled_statement_waits_for_no_connection(sleeper: Sleeper) -> None:
    session = sleeper.client.session
    few = "narrow_pg.public.few"
    waiting = f"select id from {few} where id < (select max(id + 1) from {few})"

    async def cancelled() -> None:
        first, fetch = await sleeper.fetched("select * from narrow_pg.public.slow")
        second = await session.execute(waiting)
        await asyncio.to_thread(sleeper.until_it_waits, second, "narrow_pg")
        await session.cancel(second)
        assert (await session.status(second)).state is OperationState.CANCELED
        assert sleeper.asleep() == 1
        await session.close_operation(first)
        await sleeper.wait(sleeps=False)
        with pytest.raises(SluiceError):
            await fetch

    sleeper.bench.wait(cancelled())
    assert len(sleeper.client.rows(waiting)) == 9


def test_one_user_leaves_a_connection_to_the_others(
    bench: EngineBench, sleeper: Sleeper
) -> None:
    session = sleeper.client.session
    count = "select count(id + 0) from slow_pg.public.few"
    bench.policy("eve", sources=["slow_pg"])
    eve = bench.connect("eve")

    async def waited() -> None:
        first, fetch = await sleeper.fetched(f"select * from {SLOW}")
        second = await session.execute(count)
        status = await session.status(second)
        while "waits for a connection to slow_pg" not in status.message:
            assert not status.state.is_terminal, status
            status = await session.status(second)
        assert (await eve._run(count)).rows == [(9,)]
        third = await session.execute("select id from slow_pg.public.few")
        rows = asyncio.create_task(session.fetch(third, Orientation.NEXT, 1000))
        await asyncio.to_thread(sleeper.until_it_waits, third, "slow_pg")
        await session.close_operation(first)
        assert (await rows).rows
        while not status.state.is_terminal:
            status = await session.status(second)
        assert status.state is OperationState.FINISHED
        with pytest.raises(SluiceError):
            await fetch

    bench.wait(waited())
    eve.close()


def test_several_users_leave_a_connection_to_the_others(
    bench: EngineBench, sleeper: Sleeper
) -> None:
    """Who has most gives one to who has none, and goes on."""
    session = sleeper.client.session
    sleeps = "select count(id + 0) from three_pg.public.slow"
    for name in ("eve", "ann"):
        bench.policy(name, sources=["three_pg"])
    eve, ann = bench.connect("eve"), bench.connect("ann")

    async def through() -> None:
        begun = [await session.execute(sleeps), await session.execute(sleeps)]
        full = partial(wait_for, lambda: sleeper.asleep() == 2, "two to sleep there")
        await asyncio.to_thread(full)
        third = await eve.session.execute(sleeps)
        full = partial(wait_for, lambda: sleeper.asleep() == 3, "all to sleep there")
        await asyncio.to_thread(full)
        counted = await ann._run("select count(id + 0) from three_pg.public.few")
        assert counted.rows == [(9,)], counted.error
        for operation in begun:
            status = await session.status(operation)
            assert status.state is OperationState.RUNNING, status
            await session.cancel(operation)
        await eve.session.cancel(third)
        await sleeper.wait(sleeps=False)

    bench.wait(through())
    eve.close()
    ann.close()


def test_who_changes_the_table_does_not_wait_for_the_whole_statement(
    sleeper: Sleeper, link: psycopg.Connection[Any]
) -> None:
    """The ALTER returns, though rows of the statement come for ten minutes."""

    async def altered() -> None:
        _, fetch = await sleeper.fetched(f"select * from {LATE}")
        alter = "ALTER VIEW late SET (security_barrier = false)"
        await asyncio.to_thread(link.execute, alter)
        with pytest.raises(EngineRefused, match="has waited for 10 s for a lock"):
            await fetch

    sleeper.bench.wait(altered())


@pytest.fixture
def sleepy_mariadb(mariadb_server: Any) -> Iterator[Any]:
    mariadb_server.create_database("sleepy")
    mariadb_server.run(
        "CREATE TABLE few (id int PRIMARY KEY)",
        "INSERT INTO few VALUES (1), (2), (3)",
        "CREATE VIEW slow AS SELECT id FROM few WHERE sleep(600) = 0",
        database="sleepy",
    )
    yield mariadb_server
    mariadb_server.drop_database("sleepy")


@pytest.fixture
def mariadb_sleeper(
    bench: EngineBench, client: Client, sleepy_mariadb: Any
) -> Iterator[Sleeper]:
    access = mariadb_at(sleepy_mariadb, application="sluice:sql")
    LiveSource(bench, "slow_my", access).table("sleepy", "slow", [("id", "int", "int")])

    with sleepy_mariadb.connect("information_schema") as link, link.cursor() as cursor:

        def asleep() -> int:
            cursor.execute(
                "SELECT count(*) FROM processlist WHERE state = 'User sleep'"
            )
            return int(cursor.fetchone()[0])

        yield Sleeper(bench, client, asleep)


def test_a_result_of_mariadb_that_is_closed(mariadb_sleeper: Sleeper) -> None:
    mariadb_sleeper.end(
        "select * from slow_my.sleepy.slow",
        mariadb_sleeper.client.session.close_operation,
    )


def test_who_changes_a_table_of_mariadb_does_not_wait_either(
    mariadb_sleeper: Sleeper, sleepy_mariadb: Any
) -> None:
    async def altered() -> None:
        _, fetch = await mariadb_sleeper.fetched("select * from slow_my.sleepy.slow")
        # it names what the statement reads, as an ALTER of a table does
        alter = "ALTER TABLE few COMMENT 'slow', FORCE"
        await asyncio.to_thread(sleepy_mariadb.run, alter, database="sleepy")
        with pytest.raises(EngineRefused, match="has waited for 10 s for a lock"):
            await fetch

    mariadb_sleeper.bench.wait(altered())
