"""So many statements of a user are planned at once; nobody waits for another user."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.engines.port import EngineOperation, OperationState
from tests.spark.engine_bench import Client, EngineBench
from tests.waiting import wait_for

# the optimizer computes it, and would do so for ever
ENDLESS = (
    "select count_if(x rlike '(.*a){25}$') from (select repeat('a', 60) || 'x' as x)"
)
RUNS_FOR_EVER = "select percentile(id % 10, 0.5) from range(0, 100000000000000, 1, 64)"
WAITS = "waits to be planned: 2 other statements of this user are being planned"


@pytest.fixture
def clients(bench: EngineBench) -> Iterator[tuple[Client, Client]]:
    for name in ("eve", "ann"):
        bench.policy(name)
    both = bench.connect("eve"), bench.connect("ann")
    yield both
    for client in both:
        client.close()


class Statements:
    """Those of one client, of which some wait."""

    def __init__(self, bench: EngineBench, client: Client) -> None:
        self._bench = bench
        self._session = client.session
        self.begun: list[EngineOperation] = []

    def begin(self, text: str) -> EngineOperation:
        self.begun.append(self._bench.wait(self._session.execute(text)))
        return self.begun[-1]

    def state(self, operation: EngineOperation) -> tuple[OperationState, bool]:
        """And whether it waits for its place."""
        status = self._bench.wait(self._session.status(operation))
        return status.state, WAITS in status.message

    def cancel(self, operation: EngineOperation) -> None:
        self._bench.wait(self._session.cancel(operation))


RUNS, WAITS_ITS_TURN = (OperationState.RUNNING, False), (OperationState.RUNNING, True)


def test_plans_of_one_user_hold_up_nobody_else(
    bench: EngineBench, clients: tuple[Client, Client]
) -> None:
    eve, ann = clients
    hers = Statements(bench, eve)

    def one_waits() -> bool:
        return hers.state(hers.begin(ENDLESS)) == WAITS_ITS_TURN

    assert wait_for(one_waits, "a statement to wait for its place", pause=0.1)
    planned = [one for one in hers.begun if hers.state(one) == RUNS]
    waiting = [one for one in hers.begun if one not in planned]
    assert len(planned) == 2
    last = hers.begin("select 1")
    assert wait_for(lambda: hers.state(last) == WAITS_ITS_TURN, "the last one to wait")

    assert ann.rows("select sum(id) from range(10)") == [(45,)]
    assert [hers.state(one) for one in planned] == [RUNS, RUNS]
    assert hers.state(last) == WAITS_ITS_TURN

    for one in waiting:
        hers.cancel(one)
        assert hers.state(one) == (OperationState.CANCELED, False)
    assert hers.state(last) == WAITS_ITS_TURN

    hers.cancel(planned[0])
    ended = (OperationState.FINISHED, False)
    assert wait_for(lambda: hers.state(last) == ended, "the last one to have a place")
    assert hers.state(planned[1]) == RUNS
    hers.cancel(planned[1])
    assert eve.rows("select sum(id) from range(10)") == [(45,)]


def test_what_is_planned_holds_no_place(
    bench: EngineBench, clients: tuple[Client, Client]
) -> None:
    hers = Statements(bench, clients[0])
    for _ in range(2):
        hers.begin(RUNS_FOR_EVER)

    def all_run() -> bool:
        names = [one.guid.hex() for one in hers.begun]
        told = [bench.tell("progress", statement=name) for name in names]
        return all(one["progress"] for one in told)

    assert wait_for(all_run, "tasks of both statements", pause=0.2)
    third = hers.begin("select id from range(1) where id = 0")
    ended = (OperationState.FINISHED, False)
    assert wait_for(lambda: hers.state(third) == ended, "a third one to be planned")
    assert [hers.state(one) for one in hers.begun[:2]] == [RUNS, RUNS]
    for one in hers.begun:
        hers.cancel(one)
