"""A JVM that cannot serve further jobs is ended with the job that met it."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest

from ingest.contract.job import DRIVER_DIED
from ingest.driver import run as jobs


@pytest.mark.parametrize(("is_broken", "kills"), [(True, 1), (False, 0)])
def test_it_is_ended_before_anything_else_runs_in_it(
    monkeypatch: pytest.MonkeyPatch, is_broken: bool, kills: int
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("as the JVM said")

    jvm, undone = MagicMock(), MagicMock()
    jvm.is_gone.return_value = False
    monkeypatch.setattr(jobs, "_work", fail)
    monkeypatch.setattr(jobs, "_undo", undone)
    monkeypatch.setattr(jobs, "Jvm", lambda spark: jvm)
    monkeypatch.setattr(jobs, "breaks_jvm", lambda error: is_broken)
    monkeypatch.setattr(jobs, "named", lambda error, spec, scratch: error)
    run = MagicMock(stop_mode=None, warnings=())
    report = jobs.run_job(run, MagicMock(), MagicMock())
    assert jvm.kill.call_count == kills
    assert undone.call_count == 1 - kills
    assert (report.error is not None and report.error.code == DRIVER_DIED) is is_broken
