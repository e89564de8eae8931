"""Sources that answer nothing hold no worker from others."""

from __future__ import annotations

import pytest
from django.utils import timezone

from catalog.discovery import services, turns
from catalog.discovery.turns import Turn
from catalog.models import Datasource
from core import jobs
from core.jobs import pages
from core.models import Job

pytestmark = pytest.mark.django_db


def started(name: str, by: str, **changes: object) -> Job:
    source = Datasource.objects.create(name=name, kind="postgresql", host="x")
    job = services.start_test(source, by=by)
    Job.objects.filter(pk=job.pk).update(**changes)
    return job


def test_one_user_leaves_workers_to_the_others(source, rung) -> None:
    for number in range(turns.MOST_OF_ONE_USER):
        started(f"silent{number}", "ann", state=jobs.RUNNING)
    waiting = started("silent", "ann")
    other = services.start_test(source.datasource, by="bob")
    assert pages.advance(waiting.pk) is False
    waiting.refresh_from_db()
    assert (waiting.state, waiting.reason.split(":")[0]) == (
        jobs.QUEUED,
        "waiting for other tests and discoveries of ann",
    )
    rung.clear()
    pages.advance(other.pk)
    other.refresh_from_db()
    assert other.is_finished
    assert rung == [waiting.pk]  # it may be his turn now


def test_the_last_worker_is_for_who_has_none() -> None:
    running = [Turn("ann", 0), Turn("ann", 0), Turn("schedule", 0)]
    assert turns.why_not(Turn("bob", 0), running) == ""
    reason = "waiting for a worker: the last one is for users who have none"
    assert turns.why_not(Turn("schedule", 0), running) == reason
    assert turns.why_not(Turn("schedule", 0), running[1:]) == ""


def test_what_failed_to_answer_just_before_shares_a_place(source) -> None:
    started("silent0", "ann", state=jobs.RUNNING, attempts=1)
    again = started("silent1", "bob", attempts=2)
    assert pages.advance(again.pk) is False
    again.refresh_from_db()
    assert again.reason == "waiting for another source that is tried again"
    fresh = services.start_test(source.datasource, by="bob")
    pages.advance(fresh.pk)
    fresh.refresh_from_db()
    assert fresh.is_finished


def test_each_who_asks_is_rung_for(source, rung) -> None:
    asked = [started(f"s{n}", by) for n, by in enumerate(["ann", "ann", "bob"])]
    assert set(turns.next_ones(services.KINDS, timezone.now())) == {
        asked[0].pk,
        asked[2].pk,
    }
