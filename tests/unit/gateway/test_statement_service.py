"""How many statements over REST one user may have."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from core.errors import InvalidRequest
from core.sentences import Sentence
from gateway.hs2.values import OperationType
from gateway.limits import GatewayLimits
from gateway.operation import Operation, RunEnd
from gateway.rows import ResultFile
from gateway.services import Services
from gateway.statement_service import PER_USER, Statement, StatementService


async def nothing(*_: object) -> None: ...


AUDIT = SimpleNamespace(write=nothing, note=lambda line: None)


def add(service: StatementService, path: Path, user: str, *, is_done: bool) -> None:
    session = cast(Any, SimpleNamespace(close=nothing))
    result = ResultFile(path / f"{len(service._statements)}.pages")
    made = Statement(
        user, session, Operation(OperationType.EXECUTE_STATEMENT), result, 1
    )
    made.touched = len(service._statements)
    if is_done:
        made.done.set()
    service._statements[made.id] = made


def service_of(path: Path) -> StatementService:
    services = Services(cast(Any, AUDIT), cast(Any, None), GatewayLimits())
    return StatementService(services, path)


def test_a_statement_says_what_it_waits_for_until_an_engine_has_it(
    tmp_path: Path,
) -> None:
    service, why = service_of(tmp_path), Sentence("%(count)s wait", count=7)
    add(service, tmp_path, "ann", is_done=False)
    (made,) = service._statements.values()
    assert made.describe()["waits_for"] is None
    made.operation.log_line(why)
    told = made.describe()
    assert (told["waits_for"], told["sentences"]) == (why, {why: why.origin})
    run = SimpleNamespace(end=None)
    made.operation.runs.append(cast(Any, run))
    assert made.describe()["waits_for"] is None
    run.end = RunEnd.ENGINE
    made.operation.log_another_run()
    assert "runs again" in made.describe()["waits_for"]


def test_a_user_has_so_many_running_statements(tmp_path: Path) -> None:
    service = service_of(tmp_path)
    for _ in range(PER_USER):
        add(service, tmp_path, "ann", is_done=False)
    with pytest.raises(InvalidRequest, match=f"{PER_USER} of your statements"):
        asyncio.run(service.submit("ann", "SELECT 1", row_limit=None))


def test_the_oldest_ended_statement_makes_room_for_a_new_one(tmp_path: Path) -> None:
    async def submit() -> StatementService:
        service = service_of(tmp_path)
        for number in range(PER_USER):
            add(service, tmp_path, "ann", is_done=number in {3, 7})
        made = await service.submit("ann", "SELECT 1", row_limit=None)
        await made.done.wait()
        return service

    service = asyncio.run(submit())
    ages = {int(s.touched) for s in service._statements.values()}
    assert len(service._statements) == PER_USER
    assert 3 not in ages
    assert 7 in ages


async def test_one_whose_engine_does_not_answer_holds_up_no_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Channels that rest are closed in sessions of REST, too."""
    monkeypatch.setattr("gateway.statement_service.SWEEP_SECONDS", 0)
    monkeypatch.setattr("gateway.ending.ENDING_SECONDS", 0)

    service, swept = service_of(tmp_path), asyncio.Event()
    for end_overdue in (asyncio.Event().wait, nothing):
        add(service, tmp_path, "ann", is_done=False)
        newest = [*service._statements.values()][-1]
        newest.session = cast(
            Any,
            SimpleNamespace(
                close=nothing, end_overdue=end_overdue, close_idle=swept.set
            ),
        )
    service.open()
    await swept.wait()
    await service.close()
