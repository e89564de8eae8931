"""Results over REST on disk: bounded over all users."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from core.errors import InvalidRequest
from gateway.desk import Statement, StatementDesk
from gateway.limits import GatewayLimits
from gateway.rows import ResultFile


async def nothing() -> None: ...


def desk_with(tmp_path: Path, kept: list[tuple[str, int, bool]]) -> StatementDesk:
    """Results of (user, bytes, is done), the oldest first, where 100 bytes fit."""
    services = SimpleNamespace(limits=GatewayLimits(result_bytes=100))
    desk = StatementDesk(cast(Any, services), tmp_path)
    for age, (user, size, is_done) in enumerate(kept):
        result = ResultFile(tmp_path / f"{age}.jsonl", page_rows=1, size=size)
        session = cast(Any, SimpleNamespace(close=nothing))
        made = Statement(user, session, cast(Any, None), result, 1, id=str(age))
        made.touched = age
        if is_done:
            made.done.set()
        desk._statements[made.id] = made
    return desk


@pytest.mark.parametrize(
    ("kept", "left"),
    [
        ([("ann", 50, True), ("bob", 50, True)], ["0", "1"]),
        ([("bob", 30, True), ("ann", 40, True), ("ann", 40, True)], ["0", "2"]),
        ([("ann", 60, False), ("bob", 20, True), ("bob", 30, True)], ["0", "2"]),
    ],
)
def test_the_oldest_result_of_whoever_keeps_most_goes(tmp_path, kept, left):
    desk = desk_with(tmp_path, kept)
    asyncio.run(desk._make_room())
    assert list(desk._statements) == left


def test_without_a_result_to_spare_the_growing_one_is_refused(tmp_path):
    desk = desk_with(tmp_path, [("ann", 60, False), ("bob", 60, False)])
    with pytest.raises(InvalidRequest, match="take 100 bytes") as raised:
        asyncio.run(desk._make_room())
    assert raised.value.code == "results_full"
    assert len(desk._statements) == 2
