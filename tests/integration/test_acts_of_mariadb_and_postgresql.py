"""Those who change a hostile source, without any job: their statements are right, what
they commit is seen, and a wait for the product is measured."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.hostile.actors import Actor
from tests.hostile.acts import ACTS, MOVES, NETWORK, RESTART, SERVER, Act
from tests.hostile.history import History
from tests.hostile.play import Stage
from tests.hostile.schedules import KINDS
from tests.hostile.source import SOURCE_ERRORS
from tests.spark.lake_bench import LakeBench
from tests.spark.mariadb_bench import MariadbBench
from tests.waiting import LIMIT_SECONDS, wait_for


@pytest.fixture(scope="module", params=KINDS)
def stage(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    """Without Spark: no job runs here."""
    root: Path = tmp_path_factory.mktemp("acts")
    bench: LakeBench
    if request.param == "postgresql":
        server = request.getfixturevalue("source_pg")
        bench = LakeBench(None, server.create_database("acts"), root)
    else:
        bench = MariadbBench(None, request.getfixturevalue("mariadb_server"), root)
    made = Stage(bench)
    yield made
    made.close()


def actor_of(stage: Stage, act: Act, name: str) -> tuple[Actor, History]:
    stage.create(name, act.shape)
    history = History(stage.bench, stage.bench.table(name, cursor="at"))
    script = act.script(stage.side.kind, name)
    made = Actor(stage.bench, stage.side, script, committed=history.look, network={})
    return made, history


def test_every_act_is_done_on_a_quiet_source(stage: Stage) -> None:
    by_sql = [one for one in ACTS.values() if one not in (*NETWORK, *SERVER, *MOVES)]
    for number, act in enumerate(by_sql):
        actor, history = actor_of(stage, act, f"a{number}")
        history.look()
        while not actor.is_done:
            actor.advance()
        assert actor.errors == [], act.name
        assert actor.waits == [], act.name
        before, after = history.states[0], history.states[-1]
        assert len(before) == 12
        changes_rows = {"truncate-and-insert", "writes", "swap-partition", "prepared"}
        assert (before != after) or act.name not in changes_rows
        actor.end()
        history.close()


HOLD = {
    "postgresql": "SELECT pg_sleep(600) FROM waits LIMIT 1",
    "mariadb": "SELECT /* sluice:test */ sleep(600) FROM waits LIMIT 1",
}
HOLDS = {
    "postgresql": "SELECT 1 FROM pg_stat_activity WHERE application_name ="
    " 'sluice:test' AND wait_event = 'PgSleep'",
    "mariadb": "SELECT 1 FROM information_schema.processlist WHERE state = 'User sleep'",
}


@contextmanager
def held_by_us(stage: Stage) -> Iterator[None]:
    """A statement of the product's reads the table `waits`, and reads on."""
    ours, monitor = (stage.side.connect(stage.bench) for _ in range(2))
    if stage.side.kind == "postgresql":
        ours.run("SET application_name = 'sluice:test'")

    def read() -> None:
        with suppress(*SOURCE_ERRORS):
            ours.run(HOLD[stage.side.kind])

    reader = threading.Thread(target=read)
    reader.start()
    wait_for(lambda: monitor.run(HOLDS[stage.side.kind]), "the statement to run")
    try:
        yield
    finally:
        monitor.run(stage.side.end.format(number=ours.number))
        reader.join()
        ours.close()
        monitor.close()


def test_a_definition_that_waits_for_the_product_is_measured(stage: Stage) -> None:
    actor, history = actor_of(stage, ACTS["drop-column"], "waits")
    with held_by_us(stage):
        actor.advance()
        assert actor.is_busy
        assert actor.waits == []
    assert actor.settle(LIMIT_SECONDS)
    (wait,) = actor.waits
    assert (wait.statement, wait.seconds > 0) == (
        "ALTER TABLE waits DROP COLUMN n",
        True,
    )
    actor.end()
    history.close()


def test_a_restart_breaks_every_connection_and_nothing_else(stage: Stage) -> None:
    actor, history = actor_of(stage, ACTS["open-transaction"], "restarted")
    for _ in range(3):
        actor.advance()
    stage.bench.restart()
    history.look()
    history.look()
    assert actor.advance(), "its connection is made again"
    actor.end()
    state = history.states[-1]
    assert len(state) == 12, "what was not committed is gone"
    assert stage.bench.sql("SELECT count(*) FROM restarted") == [(12,)]
    history.close()


def test_a_prepared_transaction_outlives_a_restart_and_nothing_else(
    stage: Stage,
) -> None:
    act = ACTS["prepared-over-a-restart"]
    stage.create("kept", act.shape)
    history = History(stage.bench, stage.bench.table("kept", cursor="at"))
    script, network = (
        act.script(stage.side.kind, "kept"),
        {RESTART: stage.bench.restart},
    )
    for steps, rows in ((script, 13), (script[:-1], 12)):
        stage.bench.sql("DELETE FROM kept WHERE id = 63")
        actor = Actor(
            stage.bench, stage.side, steps, committed=history.look, network=network
        )
        while actor.advance():
            pass
        actor.end()
        history.look()
        assert actor.errors == []
        assert len(history.states[-1]) == rows
    history.close()
