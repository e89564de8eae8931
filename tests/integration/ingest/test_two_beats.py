"""Two beats at once do no harm: nothing is started, judged or done twice.

One beat is stopped before its n-th write or lock about jobs, for every n, until the other has made a
whole pass or waits for it; then it goes on.
"""

from __future__ import annotations

import re
import threading
from typing import Any

import pytest
from django.db import connection, connections
from django.db.models.functions import Now

from core.jobs import pages
from core.jobs.moves import register
from core.jobs.pages import Done, More, Outcome, PagedKind
from core.models import Job, JobLog, Lease
from ingest.contract.job import JobReport
from ingest.driver_host import attempts
from ingest.jobs import queue, reconcile
from ingest.models import DriverIncarnation, Pipeline
from ingest.pipelines import sync_job
from ingest.scheduler import tick
from tests.integration.ingest.job_kinds.dummy_kinds import unregister
from tests.waiting import LIMIT_SECONDS, wait_for

DUE = "2026-01-01T00:00:00Z"

# Of a beat, what starts, judges and does jobs.
PARTS = (
    reconcile.reconcile_jobs,
    sync_job.start_due_syncs,
    attempts.claim_queued,
    pages.advance_in_beat,
)
# What was read before it may be true no more.
ACTS = re.compile(r"^(UPDATE|INSERT|DELETE)|FOR UPDATE|advisory_xact_lock")


def _save(job: Job, found: object) -> Outcome:
    job.cursor = {"at": job.cursor.get("at", 0) + 1}
    JobLog.objects.create(job=job, level="info", message=str(job.cursor["at"]))
    Job.objects.filter(pk=job.pk).update(cursor=job.cursor)
    return Done() if job.cursor["at"] == 3 else More()


# Counts to three in the beat, and logs every page that was saved.
COUNT = PagedKind(
    name="count",
    title="counting",
    runs_in_beat=True,
    save=_save,
    notify=lambda job_id: True,
)


def tick_and_claim() -> None:
    """A whole pass of the tick, and a look of the driver host."""
    tick.Ticking().tick()
    attempts.claim_queued()


class Beat(threading.Thread):
    """A pass of the tick in a connection of its own. stops_at: before which write or
    lock of PARTS it waits for `goes_on`; 0 = never."""

    def __init__(self, stops_at: int = 0) -> None:
        super().__init__()
        self.stops_at, self.count = stops_at, 0
        self.has_stopped, self.goes_on = threading.Event(), threading.Event()
        self.errors: list[BaseException] = []

    def run(self) -> None:
        try:
            with connection.execute_wrapper(self._statement):
                for part in PARTS if self.stops_at else [tick_and_claim]:
                    part()
        except Exception as error:  # noqa: BLE001  the test asks for it
            self.errors.append(error)
        finally:
            self.has_stopped.set()
            connections.close_all()

    def _statement(
        self, execute: Any, sql: Any, params: Any, many: Any, context: Any
    ) -> Any:
        acts = bool(ACTS.search(sql))
        self.count += acts
        if acts and self.count == self.stops_at:
            self.has_stopped.set()
            assert self.goes_on.wait(LIMIT_SECONDS)
        return execute(sql, params, many, context)


def two_beats(stops_at: int) -> bool:
    """Whether the first one has come so far."""
    first, second = Beat(stops_at), Beat()
    first.start()
    assert first.has_stopped.wait(LIMIT_SECONDS)
    second.start()
    wait_for(
        lambda: not second.is_alive() or is_waiting(),
        "the second beat to end or wait",
        pause=0.01,
    )
    first.goes_on.set()
    first.join()
    second.join()
    assert [*first.errors, *second.errors] == []
    return first.count >= stops_at


def is_waiting() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT EXISTS (SELECT 1 FROM pg_locks WHERE NOT granted)")
        return bool(cursor.fetchone()[0])


@pytest.fixture
def _count() -> Any:
    register(COUNT)
    yield
    unregister("count")


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("_count")
@pytest.mark.long
def test_two_beats_stopped_at_every_write(transactional_db, request) -> None:
    world = request.getfixturevalue("world")
    world.onboard("due", "lost", schedule={"every_seconds": 3600})
    world.until_live("due", "lost")
    Job.objects.all().delete()
    DriverIncarnation.objects.all().delete()
    dead = DriverIncarnation.objects.create(ended_at=DUE)
    live = DriverIncarnation.objects.create(ready_at=Now(), heartbeat_at=Now())
    lost = queue.put([queue.new_job(world.pipeline("lost"), "sync", actor="ann")])[0]
    tick_and_claim()
    stops_at, goes_on = 0, True
    while goes_on:
        stops_at += 1
        DriverIncarnation.objects.filter(pk=live.pk).update(heartbeat_at=Now())
        Job.objects.filter(pk=lost.pk).update(handle={"boot": str(dead.pk)})
        Pipeline.objects.filter(pk=world.pipeline("due").pk).update(due_at=DUE)
        count = Job.objects.create(kind="count", state="QUEUED", queued_at=Now())
        goes_on = two_beats(stops_at)
        tick_and_claim()
        _is_judged_once(lost.pk, stops_at)
        _is_started_once(world, stops_at)
        while not Job.objects.get(pk=count.pk).is_finished:
            pages.advance(count.pk)
        done = Job.objects.get(pk=count.pk)
        said = done.log_lines.values_list("message", flat=True)
        assert list(said) == ["1", "2", "3"], stops_at
        assert done.events.filter(event="claim").count() == 1
    assert stops_at > 20  # it was stopped in the middle of things


def _is_judged_once(pk: Any, times: int) -> None:
    """It was begun once before, and once more each time that its driver was gone."""
    job = Job.objects.get(pk=pk)
    assert job.state == "LAUNCHING", job.reason
    assert job.attempts == times + 1
    assert job.events.filter(event="claim").count() == job.attempts
    assert job.events.filter(event="try_again").count() == times
    assert _owners(job) == [f"job:{job.pk}:{job.attempts}"]


def _is_started_once(world: Any, times: int) -> None:
    """One sync for each time that it was due; it ends, so that the next one is due."""
    syncs = Job.objects.filter(subject_id=str(world.lake("due").pk), kind="sync")
    assert syncs.filter(requested_by="schedule").count() == times
    job = syncs.get(state="LAUNCHING")
    assert (job.attempts, job.events.filter(event="claim").count()) == (1, 1)
    assert _owners(job) == [f"job:{job.pk}:1"]
    position = {"from": "", "to": world.pipeline("due").position}
    report = JobReport(str(job.pk), 1, "succeeded", facts={"position": position})
    assert attempts.finish(report)
    assert not attempts.finish(report)


def _owners(job: Job) -> list[str]:
    names = Lease.objects.filter(name__startswith=f"table:{job.subject_id}:")
    return list(names.exclude(owner="").values_list("owner", flat=True))
