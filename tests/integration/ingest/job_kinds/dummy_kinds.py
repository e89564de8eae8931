"""Two dummy kinds of jobs, one for each executor, and how tests start them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.utils import timezone

from core.advance import advance
from core.errors import TerminalError
from core.jobs import moves
from core.jobs.moves import (
    Cancelled,
    End,
    Failed,
    Rejected,
    Retried,
    Succeeded,
    register,
)
from core.jobs.pages import Done, More, Outcome, PagedKind
from core.models import Job, Lease
from ingest.contract.job import CompactWork, JobSpec
from ingest.jobs import queue
from ingest.jobs.kinds import Attempt, DriverKind, Left, Refused, shared_by_all
from ingest.jobs.leases import hold_table
from ingest.lake.commits import LakeState
from ingest.pipelines.transitions import lock_pipeline
from tests.doubles.launcher import Fault

noted: list[str] = []
committed: list[bool] = []
# raised by the next pages of Count
trouble: list[Exception] = []


def _spec_for(job: Job) -> Attempt | Refused | None:
    if job.payload.get("refused"):
        return Refused(TerminalError("scratched", code="scratched"))
    pipeline = lock_pipeline(job)
    assert pipeline is not None
    hold = hold_table(job, pipeline)
    if hold is None:
        return None
    noted.append("claimed")
    work = CompactWork(instants=())
    return Attempt(
        JobSpec(**shared_by_all(job, pipeline, hold.fence), compact=work), hold
    )


def _outcome(job: Job, end: End) -> None:
    match end:
        case Succeeded():
            noted.append("succeeded")
        case Failed(error):
            noted.append(f"failed: {error.code}")
        case Rejected(error):
            noted.append(f"rejected: {error.code}")
        case Retried():
            noted.append("retried")
        case Cancelled(facts, actor):
            ran = "never ran" if facts is None else "ran"
            noted.append(f"cancelled by {actor}, {ran}")


def _left_by(job: Job, state: LakeState) -> Left:
    return Left({"instants": []}) if committed else Left()


# Does nothing to a table, in a driver, and notes the consequences of its ends.
POLISH = DriverKind(
    name="polish",
    title="polishing",
    lane="maintenance",
    scopes=("write", "service"),
    max_attempts=2,
    spec_for=_spec_for,
    outcome=_outcome,
    left_by=_left_by,
)


def _save(job: Job, found: object) -> Outcome:
    job.cursor = {"at": job.cursor.get("at", 0) + 1}
    Job.objects.filter(pk=job.pk).update(
        cursor=job.cursor, done=job.cursor["at"], attempts=0
    )
    if trouble:
        raise trouble.pop()
    return Done() if job.cursor["at"] == 3 else More()


# Counts to three, a page for each.
COUNT = PagedKind(
    name="count",
    title="counting",
    unit="numbers",
    max_attempts=2,
    runs_in_beat=True,
    save=_save,
    notify=lambda job_id: True,
)


@contextmanager
def registered() -> Iterator[None]:
    """Both kinds are known meanwhile, unless a test takes one off."""
    noted.clear()
    committed.clear()
    trouble.clear()
    register(POLISH, COUNT)
    try:
        yield
    finally:
        unregister("polish")
        unregister("count")


def unregister(name: str) -> None:
    moves._registered.pop(name, None)


def polish(world: Any, *faults: Fault, **payload: object) -> Job:
    world.fail_with("polish", *faults)
    job = queue.new_job(
        world.pipeline("orders"), "polish", actor="ann", payload=payload
    )
    return queue.put([job])[0]


def ended(world: Any, job: Job, state: str) -> Job:
    world.until(lambda: Job.objects.get(pk=job.pk).is_finished)
    found = Job.objects.get(pk=job.pk)
    assert found.state == state, found.reason
    assert not Lease.objects.filter(owner__startswith=f"job:{job.pk}").exists()
    return found


def count(**more: Any) -> Job:
    job = Job(kind="count", max_attempts=COUNT.max_attempts, **more)
    job.save()
    advance(job, "enqueue", queued_at=timezone.now())
    return job


def now(job: Job) -> tuple[str, int, int]:
    job.refresh_from_db()
    return job.state, job.done, job.attempts
