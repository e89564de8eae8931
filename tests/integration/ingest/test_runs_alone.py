"""A table that ends its driver runs alone from then on; one lake has one host."""

from __future__ import annotations

import pytest

from core.models import Job
from ingest.contract.job import DRIVER_DIED, ErrorFact, JobReport
from ingest.driver_host.host import DriverHost
from ingest.models import DriverIncarnation
from ingest.pipelines import table_commands
from tests.doubles.launcher import FakeLauncher, Fault
from tests.integration.catalog.conftest import *  # noqa: F403  the same people

pytestmark = pytest.mark.django_db


def snapshot(world, name: str) -> Job:
    return Job.objects.get(kind="snapshot", subject=str(world.lake(name)))


def test_who_runs_out_of_memory_runs_alone_and_costs_others_nothing(
    world, admin
) -> None:
    world.fail_with("snapshot", Fault.HANG, Fault.OUT_OF_MEMORY)
    world.onboard("items")
    world.until(lambda: snapshot(world, "items").state == "RUNNING")
    before = snapshot(world, "items")
    world.onboard("orders")
    world.until_live("orders", "items")
    after = snapshot(world, "items")
    assert after.max_attempts - after.attempts == before.max_attempts - before.attempts
    assert world.launcher.isolated != []
    alone = {spec.table.name for spec in world.launcher.submitted
             if spec.job_id in world.launcher.isolated}  # fmt: skip
    assert alone == {"orders"}
    reason = world.pipeline("orders").alone_reason
    assert reason == "out of memory while reading wide rows ended the shared driver"
    # its later jobs too
    sync = table_commands.start_sync(world.lake("orders"), actor="ann")
    world.until(lambda: Job.objects.get(pk=sync.pk).state == "SUCCEEDED")
    assert str(sync.pk) in world.launcher.isolated
    # until somebody undoes it
    verb = f"tables/{world.lake('orders').pk}:share-driver"
    assert admin("POST", verb).status_code == 202
    sync = table_commands.start_sync(world.lake("orders"), actor="ann")
    world.until(lambda: Job.objects.get(pk=sync.pk).state == "SUCCEEDED")
    assert str(sync.pk) not in world.launcher.isolated
    refused = admin("POST", verb)
    assert (refused.status_code, refused.json()["code"]) == (400, "nothing_to_do")


def test_who_runs_out_of_memory_alone_fails_and_says_what_helps(world) -> None:
    """Nothing beside it used memory: nine more attempts would end in the same way."""
    world.fail_with("snapshot", *[Fault.OUT_OF_MEMORY] * 2)
    world.onboard("orders")
    world.until(lambda: world.pipeline("orders").state == "FAILED")
    job = snapshot(world, "orders")
    assert (job.state, job.attempts, job.error_code) == ("FAILED", 2, "out_of_memory")
    assert job.subject in job.reason
    assert "in a driver of its own" in job.reason
    assert "SLUICE_DRIVER_MEMORY" in job.error_hint


def test_who_dies_alone_after_two_shared_drivers_is_kept_alone(world) -> None:
    world.fail_with("snapshot", *[Fault.DIE_RUNNING] * 3)
    world.onboard("orders")
    world.until_live("orders")
    reason = world.pipeline("orders").alone_reason
    assert reason == "its driver died 3 times, the last time alone"


def test_two_deaths_of_a_shared_driver_keep_nobody_alone(world) -> None:
    """It was there, and goes well alone: perhaps another table ended them."""
    world.fail_with("snapshot", *[Fault.DIE_RUNNING] * 2)
    world.onboard("orders")
    world.until_live("orders")
    assert world.pipeline("orders").alone_reason == ""


def test_a_report_of_a_dead_jvm_is_no_attempt(world) -> None:
    """Each job in a driver whose JVM has ended reports that, just before the end."""
    world.fail_with("snapshot", Fault.HANG)
    world.onboard("orders")
    world.until(lambda: snapshot(world, "orders").state == "RUNNING")
    job = snapshot(world, "orders")
    died = ErrorFact(DRIVER_DIED, "the JVM of the driver ended")
    report = JobReport(str(job.pk), job.attempts, "transient", error=died)
    world.host._on_report(report)
    world.launcher.kill()
    world.until_live("orders")
    after = snapshot(world, "orders")
    assert after.max_attempts - after.attempts == job.max_attempts - job.attempts
    assert after.payload["deaths"] == 1


# -------------------------------------------------------------- one host for a lake


def host_at(world, place: str) -> DriverHost:
    return DriverHost(FakeLauncher(), place=place, clock=world.clock)


def test_a_second_host_starts_no_driver_and_says_why(world, caplog) -> None:
    """Its drivers would not see the locks that ours hold in memory."""
    world.onboard("orders")
    world.until_live("orders")
    second = host_at(world, "elsewhere:/srv/sluice")
    for _ in range(5):
        second.step(0)
        world.steps(1)
    assert second.launcher.starts == []
    assert "another driver host serves this lake already" in second.refusal
    assert caplog.text.count("no driver starts here") == 1
    assert DriverIncarnation.objects.filter(ended_at=None).count() == 1
    # it takes over once the first has gone
    world.host.stop()
    for _ in range(10):
        second.step(0)
    assert len(second.launcher.starts) == 1
    assert second.refusal == ""


def test_a_host_that_was_silent_for_too_long_ends_its_drivers(world) -> None:
    """It hears of its successor before it does anything else."""
    world.fail_with("snapshot", Fault.HANG)
    world.onboard("orders")
    world.until(lambda: snapshot(world, "orders").state == "RUNNING")
    DriverIncarnation.objects.update(heartbeat_at="2026-01-01T00:00:00Z")
    second = host_at(world, "elsewhere:/srv/sluice")
    second.step(0)
    assert len(second.launcher.starts) == 1
    starts = len(world.launcher.starts)
    for _ in range(4):
        world.host.step(0)
    assert not world.launcher.is_running
    assert len(world.launcher.starts) == starts
    assert "another driver host" in world.host.refusal
