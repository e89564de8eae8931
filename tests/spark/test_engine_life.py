"""The engine over time: fresh data, fresh rights, a silent gateway."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spark.conftest import SYSTEM, Lake
from tests.spark.engine_bench import STALE_SECONDS, Client, EngineBench, write_table
from tests.waiting import wait_for

ABSENT_TABLE = "42P01"
NO_CATALOGUE = "08S01"


@pytest.fixture
def client(bench: EngineBench) -> Iterator[Client]:
    bench.policy("eve", select=["grow.*", "shop.orders"])
    opened = bench.connect("eve")
    yield opened
    opened.close()


def until(condition: Callable[[], bool]) -> bool:
    return wait_for(condition, "what the engine should do", pause=0.2)


def test_commits_columns_and_deletes_show_in_the_next_statement(
    bench: EngineBench, client: Client, spark: Any, tmp_path: Path
) -> None:
    path = tmp_path / "fresh"
    write_table(spark, path, f"select id, 'a' as v, {SYSTEM} from range(3) t(id)")
    bench.table("grow.fresh", path, 1)
    count = "select count(*) from grow.fresh"
    assert client.rows(count) == [(3,)]

    second = "cast(2 as bigint) as _sluice_seq"
    alive, dead = "false as _sluice_deleted", "true as _sluice_deleted"
    row = f"select 7L as id, 'b' as v, {second}, {alive}"
    write_table(spark, path, row, operation="upsert")
    assert client.rows(count) == [(4,)]

    column = f"select 8L as id, 'c' as v, {second}, {alive}, nullif('new', '') as extra"
    write_table(spark, path, column, operation="upsert")
    bench.table("grow.fresh", path, 2)
    seen = client.rows("select id, extra from grow.fresh where id > 6 order by id")
    assert seen == [(7, None), (8, "new")]
    assert ("extra", "string", None) in client.rows("describe grow.fresh")

    gone = f"select 7L as id, 'b' as v, cast(3 as bigint) as _sluice_seq, {dead}, nullif('x', '') as extra"
    write_table(spark, path, gone, operation="upsert")
    assert client.rows("select id from lake.grow.fresh where id > 6") == [(8,)]


def test_zeros_of_both_signs_are_equal(
    bench: EngineBench, client: Client, spark: Any, tmp_path: Path
) -> None:
    path = tmp_path / "zeros"
    columns = "id, 0.0D as d, cast(-0.0D as float) as f"
    write_table(spark, path, f"select {columns}, {SYSTEM} from range(3) t(id)")
    bench.table("grow.zeros", path, 1)
    for condition in (
        *("d = -0.0D", "d <= -0.0D", "d IN (7, -0.0D)"),
        *("f = 0", "f >= 0", "NOT f < 0", "f <=> 0.0D"),
    ):
        found = client.rows(f"select count(*) from grow.zeros where {condition}")
        assert found == [(3,)], condition


def test_a_table_can_move_go_and_come_back(
    bench: EngineBench, client: Client, lake: Lake
) -> None:
    count = "select count(*) from grow.wanderer"
    assert client.run(count).sql_state == ABSENT_TABLE
    bench.table("grow.wanderer", lake.place("shop.orders"), 1)
    assert client.rows(count) == [(20,)]
    bench.table("grow.wanderer", lake.place("shop.customers"), 1)
    assert client.rows(count) == [(5,)]
    bench.table("grow.wanderer", None)
    assert client.run(count).sql_state == ABSENT_TABLE
    bench.table("grow.wanderer", lake.place("shop.orders"), 2)
    assert client.rows(count) == [(20,)]


def test_reading_writes_nothing_into_the_lake(
    bench: EngineBench, client: Client, lake: Lake
) -> None:
    def everything() -> dict[str, float]:
        files = lake.place("shop.orders").rglob("*")
        return {str(path): path.stat().st_mtime for path in files if path.is_file()}

    before = everything()
    client.rows("select * from shop.orders")
    client.rows("describe extended shop.orders")
    assert everything() == before


def test_no_session_deletes_the_folder_of_another(
    bench: EngineBench, client: Client
) -> None:
    """Hive deletes a folder with its session: one for all was gone now and then when a
    session that was just being opened had seen it, and that was not opened."""

    def folders() -> set[str]:
        # unlike rglob it goes on when the engine removes a folder meanwhile
        found = (name for _, names, _ in os.walk(bench.home) for name in names)
        return {name for name in found if name.endswith("_resources")}

    assert client.rows("select 1") == [(1,)]
    before = folders()
    assert before
    second = bench.connect("eve")
    assert second.rows("select 1") == [(1,)]
    # the engine warms itself up in a session of its own, which comes and goes
    own = folders() - before
    assert own
    second.close()
    assert until(lambda: not own & folders())
    assert before & folders()


def test_cancel_stops_the_statement(bench: EngineBench, client: Client) -> None:
    heavy = "select count(*) from range(100000000) a cross join range(100000) b"

    async def scenario() -> str:
        operation = await client.session.execute(heavy)
        assert not (await client.session.status(operation)).state.is_terminal
        await client.session.cancel(operation)
        status = await client.session.status(operation)
        return str(status.state.value)

    assert bench.wait(scenario()) == "CANCELED"
    assert client.rows("select 1") == [(1,)]


def test_progress_is_told_while_a_statement_runs(
    bench: EngineBench, client: Client
) -> None:
    heavy = "select count(*) from range(100000000) a cross join range(100000) b"
    operation = bench.wait(client.session.execute(heavy))
    told: list[Any] = []

    def is_told() -> bool:
        told.append(bench.tell("progress", statement=operation.guid.hex())["progress"])
        return told[-1] is not None

    assert until(is_told)
    bench.wait(client.session.cancel(operation))
    last = told[-1]
    assert 0 <= last["tasks_done"] <= last["tasks"]
    assert last["tasks"] > 0
    # the next stage is known a moment after the one before has ended
    assert 0 <= last["stages_done"] <= last["stages"] > 0


@pytest.mark.parametrize(
    "source",
    [
        "range(0, 100000000000000, 1, 64)",
        "(select explode(sequence(1, 100000)) id from range(0, 100000000000, 1, 64))",
    ],
    ids=["range", "explode"],
)
def test_a_cancel_reaches_tasks_that_aggregate_objects(
    bench: EngineBench, client: Client, source: str
) -> None:
    """Else they would hold every core, and the last statement never be answered."""
    endless = f"select percentile(id % 10, 0.5) from {source}"
    operation = bench.wait(client.session.execute(endless))

    def runs() -> bool:
        told = bench.tell("progress", statement=operation.guid.hex())["progress"]
        return told is not None

    assert until(runs)
    bench.wait(client.session.cancel(operation))
    assert client.rows("select sum(id) from range(10)") == [(45,)]


MATCH, PLANNING = "match of a regular expression", "planning"
LOOP = "loop of generated code"
# each row of the one side meets all of the other before Spark looks for a cancel
CROSS_JOIN = (
    "select count(*) from range(100000000) a cross join range(350000) b"
    " where pow(a.id + b.id, 1.5) < 0"
)
ENDLESS_MATCH = "select count_if(x rlike '(.*a){25}$') from (select repeat('a', 60)"
# each level of the sub-queries doubles the filter that Spark moves into the innermost
GROWING = (
    "select * from "
    + "(select x + x as x from " * 20
    + "(select id as x from range(10))"
    + ")" * 20
    + " where x > 0"
)


@pytest.mark.parametrize(
    ("endless", "what"),
    [
        (f"{ENDLESS_MATCH} || id as x from range(0, 64, 1, 64))", MATCH),
        pytest.param(f"{ENDLESS_MATCH} || 'x' as x)", MATCH, marks=pytest.mark.long),
        pytest.param(CROSS_JOIN, LOOP, marks=pytest.mark.long),
        (GROWING, PLANNING),
    ],
    ids=["match in tasks", "match that is folded", "loop in tasks", "planning"],
)
def test_a_cancel_ends_what_looks_at_no_interrupt(
    bench: EngineBench, client: Client, endless: str, what: str
) -> None:
    pauses = itertools.count(1)

    async def cancelled_in_the_midst() -> None:
        operation = await client.session.execute(endless)
        await asyncio.sleep(next(pauses))
        await client.session.cancel(operation)

    def ended() -> int:
        said = bench.log.read_text("utf-8", "replace")
        return said.count(f"a cancelled {what} ends")

    def is_ended() -> bool:
        bench.wait(cancelled_in_the_midst())
        return ended() > before

    before = ended()
    assert until(is_ended)
    assert client.rows("select sum(id) from range(10)") == [(45,)]
    assert bench.tell("start")["java_pid"] == bench.java_pid


def test_a_cancel_ends_the_planning_of_many_tables(
    bench: EngineBench, client: Client
) -> None:
    """Its interrupt is lost among their files; its stack is deeper than is shown."""
    many = " union all ".join(f"select {n} from shop.orders" for n in range(2000))

    def ended() -> int:
        said = bench.log.read_text("utf-8", "replace")
        return said.count(f"a cancelled {PLANNING} ends")

    async def cancelled() -> None:
        operation = await client.session.execute(many)
        await asyncio.sleep(0.7)
        await client.session.cancel(operation)

    before = ended()
    bench.wait(cancelled())
    assert until(lambda: ended() > before)
    assert bench.tell("start")["java_pid"] == bench.java_pid


@pytest.mark.long
def test_planning_has_so_many_seconds(bench: EngineBench, client: Client) -> None:
    outcome = client.run(f"{ENDLESS_MATCH} || 'x' as x)")
    assert "[STATEMENT_TOO_COMPLEX] planning the statement took 60 s" in outcome.error
    assert outcome.sql_state == "54001"
    assert client.rows("select sum(id) from range(10)") == [(45,)]


def test_cancelling_leaves_the_control_channel_open(
    bench: EngineBench, client: Client
) -> None:
    """A cancel interrupts the statement's thread, maybe in the midst of a look-up."""

    def log() -> str:
        return bench.log.read_text("utf-8", "replace")

    async def storm() -> None:
        for pause in (0.0, 0.01, 0.02, 0.05, 0.1) * 4:
            operation = await client.session.execute("select * from shop.orders")
            await asyncio.sleep(pause)
            await client.session.cancel(operation)

    # others use this engine, too
    before = len(log())
    bench.wait(storm())
    assert client.rows("select count(*) from shop.orders") == [(20,)]
    assert "closed" not in log()[before:]


def test_an_old_reading_of_the_database_denies(
    bench: EngineBench, client: Client
) -> None:
    assert client.rows("select 1") == [(1,)]
    bench.tell("age", ms=int(STALE_SECONDS * 1000) + 60_000)
    denied = until(lambda: client.run("select 1").sql_state == NO_CATALOGUE)
    bench.tell("age", ms=0)
    assert denied
    assert until(lambda: not client.run("select 1").is_refused)


def test_a_stopped_gateway_denies_even_with_the_secret(
    bench: EngineBench, client: Client
) -> None:
    """Straight to the engine's own port: old and new sessions alike."""
    assert client.rows("select count(*) from shop.orders") == [(20,)]
    bench.gateway.send_signal(signal.SIGSTOP)
    try:
        denied = until(lambda: client.run("select 1").sql_state == NO_CATALOGUE)
        fresh = bench.connect("eve")
        second = fresh.run("select count(*) from shop.orders")
        fresh.close()
    finally:
        bench.gateway.send_signal(signal.SIGCONT)
    assert denied
    assert second.sql_state == NO_CATALOGUE
    assert until(lambda: not client.run("select 1").is_refused)


def test_probe_and_warm_reuse(bench: EngineBench) -> None:
    assert bench.tell("probe") == {"state": "READY"}
    assert bench.tell("start")["pid"] == bench.pid
