"""Results over REST on disk: bounded over all users."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from core.errors import InvalidRequest
from gateway.hs2.values import OperationType
from gateway.limits import GatewayLimits
from gateway.operation import Operation
from gateway.rows import ResultFile
from gateway.services import Services
from gateway.statement_service import Statement, StatementService


async def nothing() -> None: ...


def service_with(tmp_path: Path, kept: list[tuple[str, int, bool]]) -> StatementService:
    """Results of (user, bytes, is done), the oldest first, where 100 bytes fit, and 90
    of one user."""
    limits = GatewayLimits(result_bytes=100, result_bytes_per_user=90)
    services = Services(cast(Any, None), cast(Any, None), limits)
    service = StatementService(services, tmp_path)
    for age, (user, size, is_done) in enumerate(kept):
        result = ResultFile(tmp_path / f"{age}.pages", size=size)
        session = cast(Any, SimpleNamespace(close=nothing))
        operation = Operation(OperationType.EXECUTE_STATEMENT)
        made = Statement(user, session, operation, result, 1, id=str(age))
        made.touched = age
        if is_done:
            made.done.set()
        service._statements[made.id] = made
        service._results.hold(user, made, size)
    return service


@pytest.mark.parametrize(
    ("kept", "left"),
    [
        ([("ann", 50, True), ("bob", 50, True)], ["0", "1"]),
        ([("bob", 30, True), ("ann", 40, True), ("ann", 40, True)], ["0", "2"]),
        ([("ann", 60, False), ("bob", 20, True), ("bob", 30, True)], ["0", "2"]),
        ([("bob", 5, True), ("ann", 20, True), ("ann", 75, False)], ["0", "2"]),
    ],
)
def test_the_oldest_result_of_whoever_keeps_most_goes(tmp_path, kept, left):
    service = service_with(tmp_path, kept)
    asyncio.run(service._make_room([*service._statements.values()][-1]))
    assert list(service._statements) == left


@pytest.mark.parametrize(
    ("kept", "words"),
    [
        ([("bob", 60, False), ("ann", 60, False)], "all statements over REST take 100"),
        ([("bob", 5, True), ("ann", 95, False)], "your statements over REST take 90"),
    ],
)
def test_without_a_result_to_spare_the_growing_one_is_refused(tmp_path, kept, words):
    service = service_with(tmp_path, kept)
    with pytest.raises(InvalidRequest, match=words) as raised:
        asyncio.run(service._make_room(service._statements["1"]))
    assert raised.value.code == "results_full"
    assert len(service._statements) == 2
