"""How much waits for a table while its changes cannot be applied."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest

from ingest.contract.applying import Applied, ApplyProblem
from ingest.contract.job import ErrorFact
from ingest.driver.apply.log_read import Stream
from ingest.driver.apply.log_session import Task, _with_waiting

SINCE = 5
PROBLEM = ApplyProblem(7, "transient", ErrorFact("storage_full", "the disk is full"))
KNOWN = Applied(7, epoch=10, position="", is_live=True, waiting=1, oldest=SINCE)


@pytest.mark.parametrize(
    ("problem", "waiting"),
    [
        # its next commit tells
        (None, 1),
        (PROBLEM, 30),
    ],
)
def test_what_came_while_it_failed_is_counted_and_not_listed(
    problem: ApplyProblem | None, waiting: int
) -> None:
    stream = Mock(spec=Stream)
    stream.about.side_effect = AssertionError("as long as what waits")
    stream.waiting.side_effect = lambda table, *, after: (after + 1, 40 - after)
    nothing: Any = Mock()
    task = Task(nothing, nothing, nothing, since=SINCE, applied=KNOWN, problem=problem)
    task.is_busy = True
    assert _with_waiting(task, stream) == replace(KNOWN, waiting=waiting)
