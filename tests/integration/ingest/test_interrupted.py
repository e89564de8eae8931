"""Whoever works may die between any two statements, come twice, or come late."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import connection

from core import dispatch
from core.models import Job, Lease
from ingest.driver_host import attempts
from ingest.jobs import reconcile
from ingest.models import DriverIncarnation, Pipeline
from ingest.pipelines import onboarding, sync_job, table_commands
from ingest.scheduler import tick
from tests.doubles.launcher import Fault
from tests.integration.at_once import at_once
from tests.integration.ingest.world import ANN, make_tables
from tests.long_tests import first_then_long


class Killed(BaseException):
    """Not an error that anybody may catch."""


@contextmanager
def killed_at(number: int) -> Iterator[list[int]]:
    """The process dies right before its `number`-th statement."""
    seen = [0]

    def count(execute, sql, params, many, context):
        seen[0] += 1
        if seen[0] == number:
            raise Killed
        return execute(sql, params, many, context)

    with connection.execute_wrapper(count):
        yield seen


@pytest.mark.django_db
@pytest.mark.parametrize(
    "number",
    first_then_long(9, 27, 54, 110, 2, 5, 14, 20, 35, 44, 65, 80, first=4),
)
def test_a_kill_between_any_two_statements_costs_nothing(world, number) -> None:
    world.onboard("orders", schedule={"every_seconds": 60})
    try:
        with killed_at(number):
            world.until_live("orders")
    except Killed:
        world.new_host()
    world.until_live("orders")
    assert {j.state for j in Job.objects.all()} == {"SUCCEEDED"}
    pipeline = world.pipeline("orders")
    assert pipeline.position
    assert pipeline.due_at
    assert not Lease.objects.exclude(owner="").exists()


@pytest.mark.django_db
@pytest.mark.parametrize("number", [3, 8, 13, 18, 22])
def test_an_approval_is_whole_or_not_at_all(world, number) -> None:
    make_tables(world.source, ["a", "b"])
    from ingest.pipelines.requests import parse_request

    asked = parse_request(
        {"datasource": "shop", "include": ["public.*"], "approve": True}
    )
    try:
        with killed_at(number):
            onboarding.start_onboarding(asked, principal=ANN)
        was_killed = False
    except Killed:
        was_killed = True
    pipelines = Pipeline.objects.count()
    assert was_killed
    assert (pipelines, Job.objects.count()) == (0, 0)
    onboarding.start_onboarding(asked, principal=ANN)
    world.until_live("a", "b")


@pytest.mark.django_db
def test_a_broker_that_is_away_fails_nothing(
    world, settings, django_capture_on_commit_callbacks
) -> None:
    settings.CELERY_BROKER_URL = "redis://127.0.0.1:1/0"
    with django_capture_on_commit_callbacks(execute=True):
        world.onboard("orders")
        world.until_live("orders")
    assert dispatch._breaker.failed > 0
    assert world.pipeline("orders").state == "LIVE"


@pytest.mark.django_db
def test_a_message_that_comes_often_does_nothing_twice(world) -> None:
    world.onboard("orders", schedule={"every_seconds": 60})
    world.until_live("orders")
    jobs = Job.objects.count()
    for _ in range(5):
        tick.Ticking().tick()
    assert Job.objects.count() == jobs


@pytest.mark.django_db
def test_the_database_goes_away_and_everything_said_is_kept(world, monkeypatch) -> None:
    from django.db import OperationalError

    world.onboard("orders")
    world.until(lambda: world.jobs("snapshot")[0].state == "RUNNING")
    broken = [True]
    finish = attempts.finish

    def failing(report):
        if broken[0]:
            raise OperationalError("the connection is closed")
        return finish(report)

    monkeypatch.setattr("ingest.driver_host.attempts.finish", failing)
    monkeypatch.setattr("ingest.hosting.connection.close", lambda: None)
    for _ in range(10):
        world.host.step(0)
    assert world.jobs("snapshot")[0].state == "RUNNING"
    assert world.launcher.is_running
    broken[0] = False
    world.until_live("orders")
    assert len(world.launcher.starts) == 1
    assert world.jobs("snapshot")[0].attempts == 1


@pytest.mark.django_db(transaction=True)
def test_many_claimers_and_reconcilers_at_once(transactional_db, request) -> None:
    world = request.getfixturevalue("world")
    world.fail_with("snapshot", Fault.HANG, Fault.HANG)
    world.host.step(0)
    world.host.step(0)
    world.onboard("a", "b", "c", "d", "e")
    at_once(lambda _: attempts.claim_queued(), times=4)
    jobs = world.jobs("snapshot")
    assert sorted(j.attempts for j in jobs) == [0, 0, 1, 1, 1]
    for job in jobs:
        assert job.events.filter(event="claim").count() == job.attempts
    DriverIncarnation.objects.update(ended_at="2026-01-01T00:00:00Z")
    at_once(lambda _: reconcile.reconcile_jobs(), times=4)
    for job in world.jobs("snapshot"):
        assert job.state == "QUEUED"
        assert job.events.filter(event="try_again").count() == job.attempts


@pytest.mark.django_db(transaction=True)
def test_syncs_that_are_due_are_queued_once(transactional_db, request) -> None:
    world = request.getfixturevalue("world")
    world.onboard("a", "b", schedule={"every_seconds": 60})
    world.until_live("a", "b")
    Pipeline.objects.update(due_at="2026-01-01T00:00:00Z")
    before = len(world.jobs("sync"))
    at_once(lambda _: sync_job.start_due_syncs(), times=4)
    assert len(world.jobs("sync")) == before + 2


@pytest.mark.django_db
def test_a_lost_job_comes_back_beside_one_that_waits(world) -> None:
    """Somebody asked for another sync while the lost one was running."""
    world.onboard("orders")
    world.until_live("orders")
    world.fail_with("sync", Fault.HANG)
    lost = table_commands.start_sync(world.lake("orders"), actor="ann")
    world.until(lambda: Job.objects.get(pk=lost.pk).state == "RUNNING")
    waiting = table_commands.start_sync(world.lake("orders"), actor="bob")
    assert waiting.pk != lost.pk
    world.launcher.kill()
    world.until(lambda: {j.state for j in world.jobs("sync")} == {"SUCCEEDED"})
