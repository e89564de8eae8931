"""A kind of job that this release does not know is an error, and frees its table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from core.errors import TerminalError
from core.jobs import pages
from core.jobs.moves import kind_of
from core.models import Job, Lease
from ingest.contract.job import JobReport
from ingest.driver_host import attempts
from ingest.jobs import leases, queue, reconcile
from ingest.maintenance.compact_job import start_compaction
from ingest.pipelines import table_commands
from ingest.scheduler import tick
from tests.doubles.launcher import Fault
from tests.integration.ingest.job_kinds.dummy_kinds import (
    count,
    ended,
    now,
    polish,
    unregister,
)

pytestmark = pytest.mark.django_db


def test_an_unknown_kind_is_an_error_everywhere(table) -> None:
    job = polish(table)
    unregister("polish")
    with pytest.raises(TerminalError, match="'polish' is no kind of job"):
        kind_of("polish")
    with pytest.raises(TerminalError, match="no kind of job"):
        queue.new_job(table.pipeline("orders"), "polish", actor="ann")
    attempts.claim_queued()
    found = Job.objects.get(pk=job.pk)
    assert (found.state, found.error_code) == ("FAILED", "unknown_job_kind")


def test_an_unknown_kind_can_be_cancelled_while_it_waits(world) -> None:
    job = count()
    unregister("count")
    tick.Ticking().tick()
    assert now(job)[0] == "QUEUED"
    table_commands.cancel_job(job.pk, actor="ann")
    assert now(job)[0] == "CANCELLED"


def test_an_unknown_kind_can_be_cancelled_between_its_pages(world) -> None:
    job = count()
    pages.advance(job.pk)
    unregister("count")
    table_commands.cancel_job(job.pk, actor="ann")
    assert now(job)[0] == "CANCELLED"
    assert (job.reason, job.is_finished) == ("cancelled by ann", True)


@pytest.fixture
def running(world: Any) -> Iterator[Job]:
    """A job of a kind that this release does not know, in a driver that lives."""
    for name in ("orders", "customers"):
        world.onboard(name)
        world.until_live(name)
    job = polish(world, Fault.HANG)
    world.until(lambda: Job.objects.get(pk=job.pk).state == "RUNNING")
    # as in a process of the release before, which never knew it
    unregister("polish")
    queue._taken.cache_clear()
    job.refresh_from_db()
    yield job
    queue._taken.cache_clear()


def lose_driver(job: Job) -> None:
    gone = {"boot": "00000000-0000-0000-0000-000000000001"}
    Job.objects.filter(pk=job.pk).update(handle=job.handle | gone)


def test_an_unknown_kind_frees_its_table_when_its_driver_is_gone(
    world, running
) -> None:
    following = start_compaction(world.pipeline("orders").lake_table, actor="ann")
    before = dict(Lease.objects.values_list("name", "token"))
    lose_driver(running)
    tick.Ticking().tick()
    running.refresh_from_db()
    assert (running.state, running.error_code) == ("FAILED", "unknown_job_kind")
    assert running.reason == (
        "its driver is gone, and this release does not know polish jobs: whether"
        f" polish of {running.subject} committed is unknown"
    )
    # whatever still writes for it is shut out
    for scope in ("write", "service"):
        name = f"table:{running.subject_id}:{scope}"
        assert Lease.objects.get(name=name).token > before[name]
    ended(world, following, "SUCCEEDED")


def test_a_cancelled_one_ends_so(world, running) -> None:
    table_commands.cancel_job(running.pk, actor="ann")
    running.refresh_from_db()
    assert running.state == "CANCELLING"
    lose_driver(running)
    tick.Ticking().tick()
    running.refresh_from_db()
    assert running.state == "CANCELLED"
    assert running.reason.startswith("its driver is gone")


def test_a_report_of_an_unknown_kind_ends_it(world, running) -> None:
    report = JobReport(str(running.pk), running.attempts, "succeeded")
    with pytest.raises(TerminalError, match="no kind of job"):
        attempts.finish(report)
    # as the driver host does then
    assert reconcile.judge_lost(running.pk, "its report could not be recorded")
    running.refresh_from_db()
    assert (running.state, running.error_code) == ("FAILED", "unknown_job_kind")


def test_a_lake_that_is_away_leaves_it_unknown(world, running, monkeypatch) -> None:
    def away(*_: object) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr(leases, "raise_fence", away)
    lose_driver(running)
    reconcile.reconcile_jobs()
    running.refresh_from_db()
    assert running.state == "UNKNOWN"


def test_an_unknown_kind_that_runs_keeps_no_place(world, running) -> None:
    other = start_compaction(world.pipeline("customers").lake_table, actor="ann")
    attempts.claim_queued()
    other.refresh_from_db()
    assert other.state != "QUEUED", other.reason
    running.refresh_from_db()
    assert running.state == "RUNNING"  # its driver lives
