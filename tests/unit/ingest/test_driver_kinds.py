"""What a driver does for each kind of job, and what follows when it was stopped."""

from __future__ import annotations

from typing import Any, get_args
from unittest.mock import MagicMock

import pytest

from core.errors import InvalidRequest
from core.jobs.moves import names_of
from ingest.contract.job import (
    COMPACT,
    LOADS,
    RECOVER,
    REPAIR,
    VERIFY,
    RepairAction,
    RepairWork,
)
from ingest.driver import run as jobs
from ingest.driver.run import KINDS, Work, work_of
from ingest.jobs.kinds import DriverKind


def job(kind: str, **members: Any) -> Any:
    run = MagicMock(stop_mode=None, warnings=())
    run.spec = MagicMock(kind=kind, source=None, repair=None)
    run.spec.configure_mock(**members)
    return run


def test_every_kind_that_is_registered_is_done() -> None:
    # whoever recovers a table asks the driver itself
    assert set(KINDS) - {RECOVER} == set(names_of(DriverKind))


def test_what_is_known_of_each_kind() -> None:
    assert {k for k, work in KINDS.items() if work.stages} == LOADS
    beside = {k for k, work in KINDS.items() if not work.owns_inflight}
    assert beside == {COMPACT, VERIFY}


@pytest.mark.parametrize("kind", sorted({*KINDS} - {REPAIR}))
def test_whoever_writes_instants_needs_a_clock(kind: str) -> None:
    writes = KINDS[kind].makes_instants(job(kind).spec)
    assert writes is (kind not in {VERIFY, RECOVER})


@pytest.mark.parametrize("action", get_args(RepairAction))
def test_undoing_is_never_refused_for_a_clock(action: RepairAction) -> None:
    spec = job(REPAIR, repair=RepairWork(action)).spec
    writes = KINDS[REPAIR].makes_instants(spec)
    assert writes is (action not in {"rollback", "unschedule"})


@pytest.mark.parametrize("kind", ["sync", *sorted(LOADS), VERIFY])
def test_a_source_is_asked_for_before_anything_is_read(kind: str) -> None:
    with pytest.raises(InvalidRequest, match=f"of kind {kind} needs a source"):
        KINDS[kind].run(job(kind), MagicMock(), MagicMock())


def test_an_unknown_kind_touches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    touched = MagicMock()
    for name in ("open_lake", "forget_instants_ahead", "recover_table"):
        monkeypatch.setattr(jobs, name, touched)
    monkeypatch.setattr(
        jobs, "Jvm", lambda spark: MagicMock(is_gone=lambda grace: False)
    )
    monkeypatch.setattr(jobs, "named", lambda error, spec, scratch: error)
    monkeypatch.setattr(jobs, "_pending", lambda spec: {})
    with pytest.raises(InvalidRequest, match="no jobs of kind 'unheard-of'"):
        work_of("unheard-of")
    report = jobs.run_job(job("unheard-of"), MagicMock(), MagicMock())
    assert (report.outcome, report.error and report.error.code) == (
        "invalid_request",
        "unknown_job_kind",
    )
    assert not touched.called


@pytest.mark.parametrize("owns_inflight", [True, False])
@pytest.mark.parametrize("stages", [True, False])
@pytest.mark.parametrize("mode", ["cancel", "pause"])
def test_a_stopped_job_ends_as_its_kind_says(
    monkeypatch: pytest.MonkeyPatch, mode: str, stages: bool, owns_inflight: bool
) -> None:
    work = Work(run=MagicMock(), stages=stages, owns_inflight=owns_inflight)
    monkeypatch.setitem(KINDS, "unheard-of", work)
    undone, staging = MagicMock(), MagicMock()
    monkeypatch.setattr(jobs, "recover_table", undone)
    monkeypatch.setattr(jobs, "StagingArea", staging)
    monkeypatch.setattr(jobs, "committed_load", lambda run: None)
    monkeypatch.setattr(jobs, "require_fence", MagicMock())
    monkeypatch.setattr(jobs, "_pending", lambda spec: {})
    run = job("unheard-of")
    run.stop_mode = mode
    outcome = jobs._stopped(run, MagicMock()).outcome
    assert outcome == {"cancel": "cancelled", "pause": "paused"}[mode]
    assert undone.called is owns_inflight
    assert staging.return_value.clear.called is (stages and mode == "cancel")


def test_a_stop_that_came_after_the_commit_is_a_success(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(jobs, "recover_table", MagicMock())
    monkeypatch.setattr(jobs, "committed_load", lambda run: {"rows": 3})
    monkeypatch.setattr(jobs, "_pending", lambda spec: {})
    run = job("snapshot")
    run.stop_mode = "cancel"
    report = jobs._stopped(run, MagicMock())
    assert (report.outcome, report.facts) == ("succeeded", {"rows": 3})
