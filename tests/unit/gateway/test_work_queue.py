"""Blocking work on the metadata database, without one."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from typing import Any

import pytest

from gateway.fair import Caller
from gateway.work_queue import WorkQueue


def test_the_error_of_a_call_whose_caller_is_gone_is_not_logged() -> None:
    """As wrong logins of those who hang up: each would be a traceback of the log."""
    said: list[dict[str, Any]] = []

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: said.append(context))
        queue = WorkQueue("test", threads=1, seconds=60)
        work: asyncio.Future[None] = loop.create_future()
        asking = asyncio.create_task(queue.answered(work))
        await asyncio.sleep(0)
        asking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asking
        work.set_exception(ValueError("wrong"))
        await asyncio.sleep(0)
        del work, asking
        gc.collect()
        await queue.close()

    asyncio.run(scenario())
    assert said == []


@pytest.mark.parametrize(("is_right", "rests"), [(True, False), (False, True)])
async def test_only_work_that_failed_costs_its_caller_a_rest(
    is_right: bool, rests: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.work_queue.LONGEST_REST", 0.01)
    guest = Caller("guest", 1, rests=1e9)

    def work() -> None:
        if not is_right:
            raise ValueError("wrong")

    queue = WorkQueue("test", threads=2, seconds=60)
    with contextlib.suppress(ValueError):
        await queue.run(guest, work)
    assert queue._places.must_wait(guest) is rests
    assert not queue._places.must_wait(Caller("another", 1))
    with contextlib.suppress(ValueError):
        await queue.run(guest, work)  # its turn comes, after the rest
    await queue.close()
