"""A cancel always ends, whatever the driver answers, and never leaves a lane held."""

from __future__ import annotations

import pytest

from core.errors import StaleState
from core.models import Job, Lease
from ingest.driver_host import attempts, host
from ingest.driver_host.attempts import UNANSWERED_SECONDS
from ingest.driver_host.host import ABANDONED_SECONDS
from ingest.jobs.queue import LANE_LIMITS
from ingest.pipelines import table_commands
from tests.doubles.launcher import Fault
from tests.long_tests import first_then_long

pytestmark = pytest.mark.django_db


class Clock:
    """Monotonic seconds; stands still unless told to go on."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        self.now += 0.6
        return self.now


@pytest.fixture
def clock(world) -> Clock:
    made = Clock()
    world.host.clock = world.host._jobs._clock = world.clock = made
    return made


def running(world, name: str, fault: Fault) -> Job:
    world.fail_with("snapshot", fault)
    world.onboard(name)
    world.until(lambda: snapshot(world, name).state == "RUNNING")
    return snapshot(world, name)


def snapshot(world, name: str) -> Job:
    return Job.objects.get(kind="snapshot", subject=str(world.lake(name)))


def test_one_cancelled_between_claim_and_hand_over_ends(world, clock) -> None:
    """Another process claims it, and a person cancels it before the host has looked."""
    world.steps(3)
    world.onboard("orders")
    assert attempts.claim_queued()
    job = snapshot(world, "orders")
    table_commands.cancel_job(job.pk, actor="ann")
    world.until(lambda: snapshot(world, "orders").state == "CANCELLED")
    assert world.launcher.submitted == []
    assert world.pipeline("orders").state == "PAUSED"
    assert not Lease.objects.exclude(owner="").exists()


def test_an_unanswered_cancel_ends_within_a_minute(world, clock) -> None:
    job = running(world, "orders", Fault.DEAF)
    table_commands.cancel_job(job.pk, actor="ann")
    world.steps(3)
    asked = clock.now
    assert snapshot(world, "orders").state == "CANCELLING"
    clock.now = asked + UNANSWERED_SECONDS
    world.until(lambda: snapshot(world, "orders").state == "CANCELLED", steps=5)
    assert clock.now - asked < 60
    assert "did not answer the cancel within 45 s" in snapshot(world, "orders").reason
    assert not Lease.objects.exclude(owner="").exists()
    # the driver goes on: what others do in it is not lost at once
    assert len(world.launcher.starts) == 1
    assert world.launcher.is_running


def test_a_driver_with_threads_that_never_end_is_ended(world, clock) -> None:
    """The other jobs of that driver run again, and none of it counts against them."""
    job = running(world, "orders", Fault.DEAF)
    other = running(world, "items", Fault.HANG)
    table_commands.cancel_job(job.pk, actor="ann")
    world.steps(3)
    clock.now += UNANSWERED_SECONDS
    world.until(lambda: snapshot(world, "orders").state == "CANCELLED")
    assert len(world.launcher.starts) == 1
    clock.now += ABANDONED_SECONDS
    world.until(lambda: len(world.launcher.starts) == 2)
    world.until_live("items")
    again = Job.objects.get(pk=other.pk)
    assert (again.state, again.attempts) == ("SUCCEEDED", 2)
    assert again.max_attempts == other.max_attempts + 1
    assert not again.payload.get("deaths")


def test_a_lane_is_free_again_after_unanswered_cancels(world, clock) -> None:
    limit = LANE_LIMITS["snapshot"] - 1  # as many as one source may have
    names = [f"t{number}" for number in range(limit)]
    for name in names:
        running(world, name, Fault.DEAF)
    for name in names:
        table_commands.cancel_job(snapshot(world, name).pk, actor="ann")
    world.steps(3)
    clock.now += UNANSWERED_SECONDS
    world.onboard("orders")
    world.until_live("orders")
    assert {snapshot(world, name).state for name in names} == {"CANCELLED"}


def test_a_pause_that_is_not_answered_ends_too(world, clock) -> None:
    running(world, "orders", Fault.DEAF)
    table_commands.pause(world.lake("orders"), actor="ann")
    world.steps(3)
    clock.now += UNANSWERED_SECONDS
    world.until(lambda: snapshot(world, "orders").state == "CANCELLED")
    assert world.pipeline("orders").state == "PAUSED"


def test_a_table_resumed_while_its_load_still_stops_goes_on(world, clock) -> None:
    paused = running(world, "orders", Fault.DEAF)
    table_commands.pause(world.lake("orders"), actor="ann")
    table_commands.resume(world.lake("orders"), actor="ann")
    world.steps(3)
    clock.now += UNANSWERED_SECONDS
    world.until(lambda: Job.objects.get(pk=paused.pk).state == "CANCELLED")
    world.until_live("orders")


def test_a_job_in_its_own_process_is_ended_with_it(world, clock) -> None:
    world.fail_with("snapshot", Fault.DIE_RUNNING, Fault.DIE_RUNNING, Fault.DEAF)
    world.onboard("orders")
    world.until(
        lambda: (
            world.launcher.isolated != []
            and snapshot(world, "orders").state == "RUNNING"
        )
    )
    table_commands.cancel_job(snapshot(world, "orders").pk, actor="ann")
    world.steps(3)
    starts = len(world.launcher.starts)
    clock.now += UNANSWERED_SECONDS
    world.until(lambda: snapshot(world, "orders").state == "CANCELLED")
    assert len(world.launcher.starts) == starts


# ----------------------------------------------------- the host outlives its defects


def test_a_report_that_meets_a_moved_row_is_written_the_next_time(
    world, monkeypatch
) -> None:
    finish, refusals = attempts.finish, [StaleState("another was first")] * 2

    def failing(report):
        if refusals:
            raise refusals.pop()
        return finish(report)

    monkeypatch.setattr("ingest.driver_host.attempts.finish", failing)
    world.onboard("orders")
    world.until_live("orders")
    assert world.jobs("snapshot")[0].attempts == 1


@pytest.mark.parametrize(
    "error", first_then_long(KeyError("rows"), StaleState("another was first"))
)
def test_a_report_that_is_always_refused_stops_nothing(
    world, monkeypatch, error
) -> None:
    """The lake says what became of its job; those of the others are written."""
    finish = attempts.finish

    def failing(report):
        job = Job.objects.get(pk=report.job_id)
        if job.subject.endswith("orders") and job.kind == "snapshot":
            raise error
        return finish(report)

    monkeypatch.setattr("ingest.driver_host.attempts.finish", failing)
    world.onboard("orders", "items")
    world.until_live("orders", "items")
    job = snapshot(world, "orders")
    assert (job.state, job.attempts) == ("SUCCEEDED", 1)
    assert "its report could not be recorded" in job.reason


def test_one_that_fails_and_whose_report_is_always_refused_ends(
    world, clock, monkeypatch
) -> None:
    """Each attempt counts, also where its driver had it for less than a second: else
    it would run again and again without a pause."""

    def failing(_: object) -> None:
        raise KeyError("facts")

    monkeypatch.setattr("ingest.driver_host.attempts.finish", failing)
    monkeypatch.setattr(host, "FLUSH_SECONDS", clock.now / 2)
    world.fail_with("snapshot", *[Fault.TRANSIENT] * 50)
    world.onboard("orders")

    def is_over() -> bool:
        Job.objects.filter(kind="snapshot").update(not_before=None)
        return any(job.is_finished for job in world.jobs("snapshot"))

    world.until(is_over, steps=200)
    (job,) = world.jobs("snapshot")
    assert (job.state, job.error_code) == ("FAILED", "driver_died")
