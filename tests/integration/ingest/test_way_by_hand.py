"""What a person asks for on a table's way: pause, resume, cancel, resync, sync."""

from __future__ import annotations

import pytest

from core.models import Job
from ingest.contract.job import JobReport
from ingest.driver_host import attempts
from ingest.pipelines import table_commands
from tests.doubles.launcher import Fault

pytestmark = pytest.mark.django_db


def test_pause_and_resume_in_the_middle_of_a_load(world) -> None:
    world.fail_with("snapshot", Fault.HANG)
    world.onboard("orders")
    world.until(lambda: world.jobs("snapshot")[0].state == "RUNNING")
    name = world.pipeline("orders").load_name
    table_commands.pause(world.lake("orders"), actor="ann")
    assert world.pipeline("orders").state == "PAUSED"
    world.until(lambda: world.jobs("snapshot")[0].state == "CANCELLED")
    world.steps(5)
    assert len(world.jobs("snapshot")) == 1
    table_commands.resume(world.lake("orders"), actor="ann")
    assert world.pipeline("orders").state == "SNAPSHOTTING"
    world.until_live("orders")
    assert world.pipeline("orders").load_name == name != ""


def test_a_load_that_commits_while_it_is_paused_is_not_done_again(world) -> None:
    world.fail_with("snapshot", Fault.HANG)
    world.onboard("orders")
    world.until(lambda: world.jobs("snapshot")[0].state == "RUNNING")
    job = world.jobs("snapshot")[0]
    table_commands.pause(world.lake("orders"), actor="ann")
    facts = {"instant": "20260101000000000", "bound": "b", "consistency": "snapshot"}
    assert attempts.finish(
        JobReport(str(job.pk), job.attempts, "succeeded", facts=facts)
    )
    assert world.pipeline("orders").state == "PAUSED"
    table_commands.resume(world.lake("orders"), actor="ann")
    assert world.pipeline("orders").state == "CATCHING_UP"
    assert world.pipeline("orders").position == "b"


def test_cancel_of_a_load_pauses_the_table_by_name(world) -> None:
    world.fail_with("snapshot", Fault.HANG)
    world.onboard("orders")
    world.until(lambda: world.jobs("snapshot")[0].state == "RUNNING")
    table_commands.cancel_job(world.jobs("snapshot")[0].pk, actor="bob")
    world.until(lambda: world.jobs("snapshot")[0].state == "CANCELLED")
    pipeline = world.pipeline("orders")
    assert pipeline.state == "PAUSED"
    assert "by bob" in pipeline.status_reason


def test_cancel_reaches_a_job_whose_driver_is_dead(world) -> None:
    world.fail_with("snapshot", Fault.HANG)
    world.onboard("orders")
    world.until(lambda: world.jobs("snapshot")[0].state == "RUNNING")
    table_commands.cancel_job(world.jobs("snapshot")[0].pk, actor="bob")
    world.launcher.kill()
    world.until(lambda: world.jobs("snapshot")[0].state == "CANCELLED")


def test_resync_replaces_and_goes_on(world) -> None:
    world.onboard("orders", schedule={"every_seconds": 60})
    world.until_live("orders")
    before = world.pipeline("orders").load_name
    job = table_commands.start_resync(world.lake("orders"), actor="ann")
    assert world.pipeline("orders").state == "RESYNCING"
    assert world.lake("orders").is_queryable
    world.until_live("orders")
    job.refresh_from_db()
    assert job.state == "SUCCEEDED"
    assert world.pipeline("orders").load_name not in {"", before}


def test_a_resync_waits_for_no_verification(world) -> None:
    """That of a table which its log brings on no more waits in vain for minutes."""
    world.onboard("orders")
    world.until_live("orders")
    world.fail_with("verify", Fault.HANG)
    verify = table_commands.start_verify(world.lake("orders"), actor="ann")
    world.until(lambda: Job.objects.get(pk=verify.pk).state == "RUNNING")
    waits = table_commands.start_verify(world.lake("orders"), actor="ann")
    assert waits.pk != verify.pk
    job = table_commands.start_resync(world.lake("orders"), actor="bob")
    world.until(lambda: Job.objects.get(pk=job.pk).state == "SUCCEEDED")
    ended = Job.objects.filter(pk__in=[verify.pk, waits.pk])
    assert [each.state for each in ended] == ["CANCELLED"] * 2


def test_a_cancelled_resync_keeps_the_old_copy_and_position(world) -> None:
    world.onboard("orders", schedule={"every_seconds": 60})
    world.until_live("orders")
    position = world.pipeline("orders").position
    world.fail_with("resync", Fault.HANG)
    job = table_commands.start_resync(world.lake("orders"), actor="ann")
    world.until(lambda: Job.objects.get(pk=job.pk).state == "RUNNING")
    table_commands.cancel_job(job.pk, actor="ann")
    world.until(lambda: world.pipeline("orders").state == "PAUSED")
    assert world.pipeline("orders").position == position
    table_commands.resume(world.lake("orders"), actor="ann")
    world.until_live("orders")


def test_sync_by_hand_asked_twice_is_one_round(world) -> None:
    world.onboard("orders")
    world.until_live("orders")
    first = table_commands.start_sync(world.lake("orders"), actor="ann")
    second = table_commands.start_sync(world.lake("orders"), actor="ann")
    assert first.pk == second.pk
