"""Which planned compactions become jobs, and which never more."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from catalog.models import Table
from core.errors import InvalidRequest
from core.models import Job
from ingest.contract.job import JobReport, RepairWork
from ingest.driver_host import attempts
from ingest.maintenance import compact_job, health_collector, repairs
from ingest.maintenance.plan import Step
from ingest.models import MaintenancePlan, TableHealth
from ingest.pipelines import compaction_plans, removal, table_commands
from ingest.pipelines.policies import store
from ingest.scheduler import tick
from tests.doubles.launcher import Fault
from tests.integration.ingest.test_health import LATER, OLD, see, timeline_of

pytestmark = pytest.mark.django_db


def plan(world: Any, name: str, instant: str, state: str = "SCHEDULED") -> None:
    table = world.lake(name)
    MaintenancePlan.objects.create(table=table, instant=instant, state=state)


def being_compacted(world: Any) -> Table:
    """A live table whose one plan a job executes, without end."""
    world.live("orders")
    world.fail_with("compact", Fault.HANG)
    plan(world, "orders", OLD)
    world.until(lambda: [j.state for j in world.jobs("compact")] == ["RUNNING"])
    return world.lake("orders")


def test_a_table_that_is_kept_and_carried_no_more_is_compacted_no_more(world) -> None:
    table = being_compacted(world)
    plan(world, "orders", LATER, "FAILED")
    (timeline_of(world) / f"{OLD}.deltacommit.inflight").touch()
    assert see(world).score < 100
    job = removal.start_removal(table, drop_data=False, actor="ann")
    # what the cancelled compaction leaves is planned again, and due
    world.until(lambda: Job.objects.get(pk=job.pk).state == "SUCCEEDED")
    MaintenancePlan.objects.filter(state="FAILED").update(due_at=Now())
    world.steps(3)
    assert [j.state for j in world.jobs("compact")] == ["CANCELLED"]
    states = MaintenancePlan.objects.values_list("state", flat=True)
    assert set(states) == {"SUPERSEDED"}
    assert not TableHealth.objects.exists(), "it would count as broken for ever"
    with pytest.raises(InvalidRequest, match="has no pipeline"):
        health_collector.look_now(table)
    assert not TableHealth.objects.exists()
    # one that was left over by whatever way starts nothing either
    plan(world, "orders", f"{LATER[:-1]}9")
    assert compact_job.start_due_compactions() == 0


def test_closed_quiet_hours_of_many_hide_nobody_else(world, monkeypatch) -> None:
    monkeypatch.setattr(compaction_plans, "PAGE", 1)
    names = ("a", "b", "c", "d")
    world.onboard(*names)
    world.until_live(*names)
    for number, name in enumerate(names):
        plan(world, name, f"2020010100000{number}000")
    closed, open_now = hours(2, 3), hours(-1, 2)
    database = world.pipeline("a").source_table.database
    store.change_policy(world.source, None, {"maintenance_window": open_now})
    store.change_policy(world.source, database, {"maintenance_window": closed})
    store.change_table_policy(world.pipeline("d"), {"maintenance_window": open_now})
    with CaptureQueriesContext(connection) as seen:
        due = compaction_plans.compactions_due()
    assert [t.name for t in due] == ["d"]
    assert len(seen) <= 3 * 4, "three statements a page"
    store.change_table_policy(world.pipeline("d"), {"maintenance_window": closed})
    assert compaction_plans.compactions_due() == {}
    with CaptureQueriesContext(connection) as seen:
        assert compaction_plans.compactions_due() == {}
    assert len(seen) <= 3, "looked at already"
    store.change_policy(world.source, database, {"maintenance_window": None})
    assert compaction_plans.compactions_due() == {}, "nobody told them"
    a_minute_later()
    assert [t.name for t in compaction_plans.compactions_due()] == ["a"], (
        "as the source says"
    )
    store.change_policy(world.source, None, {"maintenance_window": None})
    assert [t.name for t in compaction_plans.compactions_due()] == ["a"]


def a_minute_later() -> None:
    for plan in MaintenancePlan.objects.exclude(due_at=None):
        plan.due_at -= compaction_plans.LOOK_AGAIN
        plan.save()


def test_what_was_cancelled_is_not_executed_the_next_second(world) -> None:
    table = being_compacted(world)
    (job,) = world.jobs("compact")
    table_commands.cancel_job(job.pk, actor="ann")
    world.until(lambda: [j.state for j in world.jobs("compact")] == ["CANCELLED"])
    world.steps(3)
    (job,) = world.jobs("compact")
    assert "cancelled by ann; what is planned stays planned" in job.reason
    row = MaintenancePlan.objects.get()
    assert (row.state, row.status_reason) == ("SCHEDULED", "cancelled")
    # one that waits is cancelled like one that runs
    again = compact_job.request_compaction(table, actor="ann")
    assert again.payload["instants"] == [OLD]
    table_commands.cancel_job(again.pk, actor="ann")
    assert compaction_plans.compactions_due() == {}
    MaintenancePlan.objects.update(due_at=Now() - timedelta(seconds=1))
    world.until(lambda: world.jobs("compact")[-1].state == "SUCCEEDED")
    assert [j.requested_by for j in world.jobs("compact")] == [
        "schedule",
        "ann",
        "schedule",
    ]


def test_one_that_planned_for_itself_is_put_off_when_it_is_cancelled(world) -> None:
    world.live("orders")
    table = world.lake("orders")
    world.fail_with("compact", Fault.HANG)
    job = compact_job.request_compaction(table, actor="ann")
    world.until(lambda: [j.state for j in world.jobs("compact")] == ["RUNNING"])
    job.refresh_from_db()
    assert not job.payload["instants"]
    table_commands.cancel_job(job.pk, actor="ann")
    facts = {"pending_compactions": [LATER]}
    report = JobReport(str(job.pk), job.attempts, "cancelled", facts=facts)
    assert attempts.finish(report)
    assert MaintenancePlan.objects.get().status_reason == "cancelled"
    assert compaction_plans.compactions_due() == {}
    now = timezone.now()
    for step in (Step("execute", "1 planned", (LATER,)), Step("schedule", "too many")):
        found = health_collector._put_off(step, table.pk, now)
        assert found.name == "wait"
        assert "the last attempt was cancelled, so it waits" in found.reason
    other = Step("execute", "2 planned", (LATER, OLD))
    assert health_collector._put_off(other, table.pk, now) == other
    Job.objects.filter(pk=job.pk).update(finished_at=now - compaction_plans.PUT_OFF)
    assert health_collector._put_off(step, table.pk, now) == step


def test_a_late_report_takes_no_newer_plan_away(world) -> None:
    world.live("orders")
    table = world.lake("orders")
    began = timezone.now()
    compaction_plans.mirror(table.pk, [OLD], since=None)
    compaction_plans.mirror(table.pk, [], since=began)
    assert MaintenancePlan.objects.get().state == "SCHEDULED"
    compaction_plans.mirror(table.pk, [], since=timezone.now())
    assert MaintenancePlan.objects.get().state == "SUPERSEDED"


def test_a_plan_that_is_gone_from_the_timeline_is_executed_no_more(world) -> None:
    """A repair took it off and did not come to its end; or its compaction failed."""
    world.live("orders")
    plan(world, "orders", OLD)
    plan(world, "orders", LATER, "FAILED")
    for outcome in ("terminal", "cancelled"):
        job = started_repair(world)
        if outcome == "cancelled":
            table_commands.cancel_job(job.pk, actor="ann")
        # the lake could not be read at its end: nobody knows
        unknown = JobReport(str(job.pk), job.attempts, outcome)
        assert attempts.finish(unknown)
        assert sorted(states_of_plans()) == [(OLD, "SCHEDULED"), (LATER, "FAILED")]
    job = started_repair(world)
    facts = {"pending_compactions": []}
    assert attempts.finish(
        JobReport(str(job.pk), job.attempts, "terminal", facts=facts)
    )
    assert {state for _, state in states_of_plans()} == {"SUPERSEDED"}
    assert compaction_plans.compactions_due() == {}


def started_repair(world: Any) -> Job:
    world.fail_with("repair", Fault.HANG)
    job = repairs.start_repair(
        world.lake("orders"), RepairWork("savepoint"), actor="ann"
    )
    world.until(lambda: [j.state for j in world.jobs("repair")][-1] == "RUNNING")
    job.refresh_from_db()
    return job


def states_of_plans() -> list[tuple[str, str]]:
    return list(MaintenancePlan.objects.values_list("instant", "state"))


def test_one_that_waits_is_cancelled_and_what_was_planned_meanwhile_waits(
    world,
) -> None:
    world.live("orders")
    job = compact_job.request_compaction(world.lake("orders"), actor="ann")
    assert not job.payload["instants"]
    plan(world, "orders", LATER)
    table_commands.cancel_job(job.pk, actor="ann")
    row = MaintenancePlan.objects.get()
    assert (row.state, row.status_reason) == ("SCHEDULED", "cancelled")
    assert compaction_plans.compactions_due() == {}


def test_plans_that_came_to_an_end_long_ago_are_forgotten(world) -> None:
    world.onboard("orders")
    states = ("COMPLETED", "SUPERSEDED", "CANCELLED", "SCHEDULED", "FAILED")
    for number, state in enumerate(states):
        plan(world, "orders", f"2019010100000{number}000", state)
    plan(world, "orders", LATER, "COMPLETED")
    old = MaintenancePlan.objects.exclude(instant=LATER)
    old.update(created_at=Now() - compaction_plans.KEPT - timedelta(hours=1))
    for kind, who in [("compact", "schedule"), ("compact", "ann"), ("verify", "ann")]:
        Job.objects.create(
            kind=kind,
            subject="orders",
            subject_id=str(world.lake("orders").pk),
            state="SUCCEEDED",
            requested_by=who,
            finished_at=Now() - timedelta(days=3),
        )
    tick.prune()
    left = set(MaintenancePlan.objects.values_list("state", flat=True))
    assert left == {"SCHEDULED", "FAILED", "COMPLETED"}
    assert MaintenancePlan.objects.filter(state="COMPLETED").get().instant == LATER
    told = Job.objects.filter(state="SUCCEEDED").values_list("kind", "requested_by")
    assert sorted(told) == [("compact", "ann"), ("verify", "ann")]


def hours(start: int, end: int) -> dict[str, str]:
    now = timezone.now()
    first, last = (now + timedelta(hours=n) for n in (start, end))
    return {"from": f"{first:%H:%M}", "to": f"{last:%H:%M}", "timezone": "UTC"}
