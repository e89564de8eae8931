"""Two dummy kinds of jobs, one for each executor, and how tests start them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

from django.utils import timezone

from core.advance import advance
from core.errors import TerminalError
from core.jobs.handlers import register, unregister
from core.jobs.pages import Done, More, Outcome, PagedJob
from core.models import Job, Lease
from ingest.contract.job import CompactWork, JobSpec
from ingest.jobs import lifecycle
from ingest.jobs.driver_jobs import DriverJob
from ingest.lake.commits import LakeState
from ingest.lake.fence import Scope
from ingest.models import Pipeline
from ingest.pipelines.transitions import lock_pipeline
from tests.doubles.launcher import Fault


class Polish(DriverJob):
    """Does nothing to a table, in a driver. noted: the consequences of its ends."""

    name = "polish"
    title = "polishing"
    lane = "maintenance"
    scopes: ClassVar[tuple[Scope, ...]] = ("write", "service")
    max_attempts = 2
    noted: ClassVar[list[str]] = []
    has_committed: ClassVar[bool] = False

    def lock(self, job: Job) -> Pipeline | None:
        return lock_pipeline(job)

    def admit(self, job: Job, pipeline: Pipeline | None) -> TerminalError | None:
        is_refused = bool(job.payload.get("refused"))
        return TerminalError("scratched", code="scratched") if is_refused else None

    def spec(
        self, job: Job, pipeline: Pipeline, shared: Mapping[str, Any], *, epoch: int
    ) -> JobSpec:
        return JobSpec(**shared, compact=CompactWork(instants=()))

    def claimed(self, job: Job, subject: object) -> None:
        self.noted.append("claimed")

    def succeeded(self, job: Job, subject: object, facts: Mapping[str, Any]) -> None:
        self.noted.append("succeeded")

    def failed(self, job: Job, subject: object, error: Any, facts: object) -> None:
        self.noted.append(f"failed: {error.code}")

    def rejected(self, job: Job, subject: object, error: Any) -> None:
        self.noted.append(f"rejected: {error.code}")

    def retried(self, job: Job, subject: object, error: Any, facts: object) -> None:
        self.noted.append("retried")

    def cancelled(self, job: Job, subject: Any, facts: Any, *, actor: str) -> None:
        ran = "never ran" if facts is None else "ran"
        self.noted.append(f"cancelled by {actor}, {ran}")

    def committed(
        self, job: Job, pipeline: Pipeline | None, state: LakeState
    ) -> Mapping[str, Any] | None:
        return {"instants": []} if self.has_committed else None


class Count(PagedJob[None]):
    """Counts to three, a page for each. trouble: raised by its next pages."""

    name = "count"
    title = "counting"
    unit = "numbers"
    max_attempts = 2
    runs_in_beat = True
    trouble: ClassVar[list[Exception]] = []

    def lock(self, job: Job) -> None:
        return None

    def save(self, job: Job, subject: None, found: object) -> Outcome:
        job.cursor = {"at": job.cursor.get("at", 0) + 1}
        Job.objects.filter(pk=job.pk).update(
            cursor=job.cursor, done=job.cursor["at"], attempts=0
        )
        if self.trouble:
            raise self.trouble.pop()
        return Done() if job.cursor["at"] == 3 else More()

    def ring(self, job_id: object) -> bool:
        return True


@contextmanager
def registered() -> Iterator[None]:
    """Both kinds are known meanwhile, unless a test takes one off."""
    Polish.noted.clear()
    Polish.has_committed = False
    Count.trouble.clear()
    register(Polish(), Count())
    try:
        yield
    finally:
        unregister("polish")
        unregister("count")


def polish(world: Any, *faults: Fault, **payload: object) -> Job:
    world.fail_with("polish", *faults)
    job = lifecycle.new_job(
        world.pipeline("orders"), "polish", actor="ann", payload=payload
    )
    return lifecycle.start_jobs([job])[0]


def ended(world: Any, job: Job, state: str) -> Job:
    world.until(lambda: Job.objects.get(pk=job.pk).is_finished)
    found = Job.objects.get(pk=job.pk)
    assert found.state == state, found.reason
    assert not Lease.objects.filter(owner__startswith=f"job:{job.pk}").exists()
    return found


def count(**more: Any) -> Job:
    job = Job(kind="count", max_attempts=Count.max_attempts, **more)
    job.save()
    advance(job, "enqueue", queued_at=timezone.now())
    return job


def now(job: Job) -> tuple[str, int, int]:
    job.refresh_from_db()
    return job.state, job.done, job.attempts
