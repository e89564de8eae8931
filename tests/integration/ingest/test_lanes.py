"""Sources and sizes share the lanes; deaths of drivers within seconds count once."""

from __future__ import annotations

import dataclasses
from typing import Any
from uuid import UUID

import pytest

from catalog.models import Table
from core.models import Job, JobEvent
from ingest.driver_host import attempts
from ingest.driver_host.launcher import Message
from ingest.jobs.queue import HeldJob
from ingest.pipelines import onboarding, table_commands
from ingest.pipelines.policies import store
from ingest.pipelines.requests import parse_request
from ingest.scheduler import tick
from tests.doubles.launcher import Fault
from tests.integration.ingest.world import ANN, make_source, make_tables

pytestmark = pytest.mark.django_db


def onboard(source, *names: str, rows: int = 5, **more) -> None:
    tables = make_tables(source, list(names))
    Table.objects.filter(pk__in=[t.pk for t in tables]).update(estimated_rows=rows)
    include = [f"public.{name}" for name in names]
    body = {"datasource": source.name, "include": include, "approve": True, **more}
    onboarding.start_onboarding(parse_request(body), principal=ANN)


def state_of(world, kind: str, name: str) -> str:
    return Job.objects.get(kind=kind, subject=str(world.lake(name))).state


def running(kind: str) -> list[Job]:
    return list(Job.objects.filter(kind=kind, state="RUNNING"))


def test_one_source_never_has_all_places(world) -> None:
    """Its tables answer nothing; those of another source are loaded all the same."""
    names = [f"t{number}" for number in range(6)]
    world.fail_with("snapshot", *[Fault.HANG] * 3)
    onboard(world.source, *names)
    world.steps(6)
    assert len(running("snapshot")) == 3
    waiting = Job.objects.filter(kind="snapshot", state="QUEUED")
    assert {job.reason for job in waiting} == {
        "waiting for a free place in the snapshot lane: jobs of the same source have"
        " 3 of 4, and the rest is left to other sources"
    }
    onboard(make_source("crm"), "people", schedule={"every_seconds": 60})
    world.until_live("people")
    assert len(running("snapshot")) == 3


def test_syncs_of_one_source_leave_a_place_to_others(world) -> None:
    names = [f"t{number}" for number in range(5)]
    onboard(world.source, *names, schedule={"every_seconds": 60})
    world.until_live(*names)
    world.fail_with("sync", *[Fault.HANG] * 3)
    from ingest.models import Pipeline

    Pipeline.objects.update(due_at="2026-01-01T00:00:00Z")
    world.until(lambda: len(running("sync")) == 3)
    onboard(make_source("crm"), "people", schedule={"every_seconds": 60})
    world.until_live("people")
    assert len(running("sync")) == 3


def test_syncs_of_a_schedule_need_no_message(world, monkeypatch) -> None:
    """The host finds them; a sync that a user requests wakes it."""
    from ingest.jobs import queue
    from ingest.models import Pipeline
    from ingest.pipelines import sync_job

    onboard(world.source, "orders", schedule={"every_seconds": 60})
    world.until_live("orders")
    sent: list[str] = []
    monkeypatch.setattr(queue, "wake_host", lambda: sent.append("host"))
    monkeypatch.setattr(queue, "send", lambda task: sent.append(task))
    Pipeline.objects.update(due_at="2026-01-01T00:00:00Z")
    sync_job.start_due_syncs()
    (job,) = Job.objects.filter(kind="sync").exclude(state="SUCCEEDED")
    for _ in range(20):
        world.host.step(0)
    job.refresh_from_db()
    assert (job.state, sent) == ("SUCCEEDED", [])
    sync_job.start_sync(world.pipeline("orders"), actor="ann")
    assert sent == ["host"]


def test_a_job_that_meets_a_defect_as_it_begins_stops_no_other(
    world, monkeypatch
) -> None:
    real = attempts.driver_kind

    def driver_kind(name: str) -> Any:
        kind = real(name)

        def spec_for(job: Job) -> Any:
            if "broken" in job.subject:
                raise KeyError("not there")
            return kind.spec_for(job)

        return dataclasses.replace(kind, spec_for=spec_for)

    monkeypatch.setattr(attempts, "driver_kind", driver_kind)
    onboard(world.source, "broken", "whole")
    world.until_live("whole")
    waits = Job.objects.get(subject__contains="broken")
    assert (waits.state, waits.reason.split(":")[0]) == (
        "QUEUED",
        "a defect of Sluice",
    )


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"v": 1}, "its spec cannot be read: "),
        ({"v": 99}, "its spec cannot be read: "),
        ("?", "its spec cannot be read: a defect of Sluice"),
    ],
)
def test_a_job_whose_spec_cannot_be_read_stops_no_other(
    world, monkeypatch, spec: Any, reason: str
) -> None:
    held_by = attempts.queue.held_by

    def spoilt(incarnation: UUID) -> list[HeldJob]:
        broken = Job.objects.get(subject__contains="broken").pk
        return [
            dataclasses.replace(one, spec=spec)
            if one.spec and one.id == str(broken)
            else one
            for one in held_by(incarnation)
        ]

    onboard(world.source, "broken", "whole")
    monkeypatch.setattr(attempts.queue, "held_by", spoilt)
    world.until_live("whole")
    world.until(lambda: state_of(world, "snapshot", "broken") == "FAILED")
    assert Job.objects.get(subject__contains="broken").reason.startswith(reason)


def test_a_small_table_does_not_wait_behind_large_ones(world) -> None:
    world.fail_with("snapshot", *[Fault.HANG] * 2)
    onboard(world.source, "huge", "vast", "wide", rows=6_000_000)
    world.until(lambda: len(running("snapshot")) == 2)
    onboard(world.source, "tiny", schedule={"every_seconds": 60})
    world.until_live("tiny")
    waits = Job.objects.get(kind="snapshot", state="QUEUED")
    assert waits.reason.endswith(
        "large tables of the same source have 2 of 4, and the rest is left to others"
    )
    # nor does a large one wait for the end of loads that take hours
    Job.objects.filter(state="RUNNING").update(started_at="2026-01-01T00:00:00Z")
    world.until(lambda: Job.objects.get(pk=waits.pk).state == "SUCCEEDED")
    assert len(running("snapshot")) == 2


def test_verifications_of_people_find_a_place_beside_those_of_policies(world) -> None:
    """These have budgets and take hours, whatever the sizes of their tables."""
    onboard(world.source, "orders", "tiny")
    onboard(make_source("crm"), "people", rows=6_000_000)
    onboard(make_source("erp"), "parts")
    world.until_live("orders", "tiny", "people", "parts")
    world.fail_with("verify", *[Fault.HANG] * 2)
    for name in ("orders", "people"):
        store.change_table_policy(world.pipeline(name), {"verify_every": 86_400})
    world.until(lambda: len(running("verify")) == 2)
    store.change_table_policy(world.pipeline("parts"), {"verify_every": 86_400})
    world.steps()
    assert len(world.jobs("verify")) == 2, "one more of a policy waits for their end"
    table_commands.start_verify(world.lake("tiny"), actor="ann")
    world.until(lambda: state_of(world, "verify", "tiny") == "SUCCEEDED")
    assert len(running("verify")) == 2


def test_a_small_verification_goes_before_a_large_one(world) -> None:
    onboard(world.source, "huge", rows=6_000_000)
    onboard(world.source, "tiny")
    world.until_live("huge", "tiny")
    for name in ("huge", "tiny"):
        table_commands.start_verify(world.lake(name), actor="ann")
    world.until(lambda: {j.state for j in world.jobs("verify")} == {"SUCCEEDED"})
    claimed = JobEvent.objects.filter(event="claim", job__kind="verify")
    first = claimed.order_by("id")[0].job
    assert first.subject == str(world.lake("tiny"))


def test_smaller_ones_overtake_within_bounds(world) -> None:
    """Ten minutes at most: whoever waits longer is not overtaken any more."""
    onboard(world.source, "old", "huge", rows=6_000_000)
    onboard(world.source, "tiny")
    lakes = {world.lake(name).pk: name for name in ("old", "huge", "tiny")}
    Job.objects.filter(subject=str(world.lake("old"))).update(
        queued_at="2026-01-01T00:00:00Z"
    )
    world.until(lambda: all(j.attempts for j in Job.objects.filter(kind="snapshot")))
    claimed = JobEvent.objects.filter(event="claim", job__kind="snapshot")
    order = [lakes[int(each.job.payload["table"])] for each in claimed.order_by("id")]
    assert order == ["old", "tiny", "huge"]


# ------------------------------------------------------------------ deaths and glitches


def test_deaths_within_seconds_use_up_nothing(world, monkeypatch) -> None:
    monkeypatch.setattr("ingest.jobs.leases.GLITCH_SECONDS", 30)
    world.fail_with("snapshot", *[Fault.DIE_RUNNING] * 6)
    onboard(world.source, "orders", schedule={"every_seconds": 60})
    world.until_live("orders")
    (job,) = world.jobs("snapshot")
    assert job.state == "SUCCEEDED"
    assert (job.payload["deaths"], job.payload["deaths_seen"]) == (1, 6)
    assert world.launcher.isolated == []


def test_pauses_grow_with_each_death(world, monkeypatch) -> None:
    asked: list[int] = []

    def wait_after(failures: int) -> float:
        asked.append(failures)
        return 0.0

    monkeypatch.setattr("ingest.jobs.leases.GLITCH_SECONDS", 30)
    monkeypatch.setattr("ingest.jobs.reconcile.wait_after", wait_after)
    world.fail_with("snapshot", *[Fault.DIE_RUNNING] * 3)
    onboard(world.source, "orders", schedule={"every_seconds": 60})
    world.until_live("orders")
    assert asked == [1, 2, 3]


def test_the_late_news_of_an_earlier_process_ends_no_later_attempt(world) -> None:
    world.fail_with("snapshot", *[Fault.DIE_RUNNING] * 2, Fault.HANG)
    onboard(world.source, "orders")
    world.until(lambda: world.launcher.isolated != [] and running("snapshot") != [])
    (job,) = running("snapshot")
    late = Message("died", {"code": 9, "attempt": job.attempts - 1}, str(job.pk))
    world.launcher._said.append(late)
    world.steps(3)
    job.refresh_from_db()
    assert (job.state, job.attempts) == ("RUNNING", 3)


def test_a_job_in_its_own_process_outlives_the_shared_driver(world) -> None:
    world.fail_with("snapshot", *[Fault.DIE_RUNNING] * 2, Fault.HANG)
    onboard(world.source, "orders")
    world.until(lambda: world.launcher.isolated != [] and running("snapshot") != [])
    starts = len(world.launcher.starts)
    world.launcher.kill()
    world.until(lambda: len(world.launcher.starts) == starts + 1)
    tick.Ticking().tick()
    (job,) = running("snapshot")
    assert (job.attempts, job.payload["deaths"]) == (3, 2)
    onboard(world.source, "items", schedule={"every_seconds": 60})
    world.until_live("items")
    assert str(job.pk) in world.host.in_flight
