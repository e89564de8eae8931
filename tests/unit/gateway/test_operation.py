"""The states of an operation: what cancel and close do to it."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.engines.port import OperationState
from gateway.faults import Fault
from gateway.hs2.values import OperationType
from gateway.operation import OPERATION, LocalRows, Operation, Run, RunEnd, new_handle
from tests.waiting import LIMIT_SECONDS


def operation() -> Operation:
    return Operation(OperationType.EXECUTE_STATEMENT, "select 1")


def test_nothing_comes_behind_its_close():
    assert OPERATION.legal(OperationState.CLOSED) == ()


@pytest.mark.parametrize("end", ["finish", "fail", "cancel", "time_out"])
def test_the_first_end_wins(end):
    one = operation()
    one.advance("queue")
    one.advance(end)
    state = one.state
    one.finish()
    one.fail(Fault("late"))
    assert one.stop("cancel") is False
    assert one.state is state


def test_cancel_and_time_out_carry_their_states():
    cancelled, late = operation(), operation()
    assert cancelled.stop("cancel")
    assert late.stop("time_out")
    assert (cancelled.fault.sql_state, late.fault.sql_state) == ("HY008", "HYT00")


async def test_waiting_ends_with_the_operation_or_the_time():
    one = operation()
    await one.wait(0.01)
    assert one.is_alive
    asyncio.get_running_loop().call_later(0.01, one.finish)
    await one.wait(LIMIT_SECONDS)
    assert one.state is OperationState.FINISHED


def test_log_lines_are_read_once():
    one = operation()
    one.log_line("a")
    assert one.new_log_lines() == ["a"]
    one.log_line("b")
    assert one.new_log_lines() == ["b"]
    assert one.new_log_lines() == []


def test_local_rows_are_taken_in_order():
    rows = LocalRows((7,), [(n,) for n in range(5)])

    async def counts():
        return [len(await rows.take(2)) for _ in range(4)]

    assert asyncio.run(counts()) == [2, 2, 1, 0]


def test_further_pages_are_read_when_they_are_wanted_and_kept():
    pages = [[(2,), (3,)], [(4,)], []]
    read = []

    async def more():
        read.append(len(pages))
        return pages.pop(0)

    async def walk():
        rows = LocalRows((7,), [(0,), (1,)], more)
        assert len(await rows.take(2)) == 2
        assert read == []
        assert [row[0] for row in await rows.take(2)] == [2, 3]
        assert len(read) == 1
        assert [row[0] for row in await rows.take(9)] == [4]
        assert await rows.take(9) == []
        rows.position = 0
        assert [row[0] for row in await rows.take(9)] == [0, 1, 2, 3, 4]

    asyncio.run(walk())
    assert pages == []


def test_handles_do_not_repeat():
    assert len({new_handle().guid for _ in range(1000)}) == 1000


def test_what_the_engine_did_is_wasted_while_there_is_no_result() -> None:
    one = operation()
    assert one.seconds_wasted() == 0, "no engine had it yet"
    one.runs.append(a_run())
    assert one.seconds_wasted() >= 5
    one.finish()
    assert one.seconds_wasted() >= 5, "no row can be read"
    one.run.reader = SimpleNamespace(is_at_end=False)
    assert one.seconds_wasted() == 0
    one.run.end = RunEnd.ENGINE
    assert one.seconds_wasted() == 0, "its second run waits for an engine"
    one.runs.append(a_run())
    assert one.seconds_wasted() >= 5


def a_run() -> Run:
    return Run(cast(Any, None), cast(Any, None), 1, began=time.monotonic() - 5)


@pytest.mark.parametrize("event", ["cancel", "time_out"])
@pytest.mark.parametrize("is_at_end", [True, False])
def test_a_result_whose_rows_are_still_made_can_be_stopped(event, is_at_end):
    one = operation()
    one.runs.append(a_run())
    one.run.reader = SimpleNamespace(is_at_end=is_at_end)
    one.finish()
    assert one.stop(event) is not is_at_end
    assert one.is_left is not is_at_end


@pytest.mark.parametrize(
    ("event", "is_left"),
    [
        ("finish", False),
        ("fail", False),
        ("cancel", True),
        ("time_out", True),
        ("close", True),
    ],
)
def test_who_ends_a_statement_before_it_does_has_left(
    event: str, is_left: bool
) -> None:
    one = operation()
    assert not one.is_left
    one.advance(event)
    assert one.is_left is is_left
