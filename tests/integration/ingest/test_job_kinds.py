"""A kind of job is one handler in one place: two dummy kinds, one for each executor,
go from their start to every ending without a line of the engine knowing them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, ClassVar

import pytest
from django.utils import timezone

from core.advance import advance
from core.errors import TerminalError, TransientError
from core.jobs import pages
from core.jobs.handlers import JobHandler, handler_of, handlers_of, register, unregister
from core.jobs.pages import Done, More, Outcome, PagedJob
from core.models import Job, Lease
from ingest.contract.job import CompactWork, JobReport, JobSpec
from ingest.jobs import lanes, leases, lifecycle, reconcile
from ingest.jobs.driver_jobs import DriverJob, driver_job
from ingest.jobs.drivers.fake import Fault
from ingest.jobs.lanes import LANE_LIMITS
from ingest.lake.commits import LakeState
from ingest.lake.fence import Scope
from ingest.maintenance.compact_job import start_compaction
from ingest.models import Pipeline
from ingest.pipelines import table_commands
from ingest.pipelines.transitions import lock_pipeline
from ingest.scheduler import tick

pytestmark = pytest.mark.django_db


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


@pytest.fixture(autouse=True)
def _dummies() -> Iterator[None]:
    Polish.noted.clear()
    Polish.has_committed = False
    Count.trouble.clear()
    register(Polish(), Count())
    yield
    unregister("polish")
    unregister("count")


@pytest.fixture
def table(world: Any) -> Any:
    world.onboard("orders")
    world.until_live("orders")
    return world


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


# ----------------------------------------------------------------------- in a driver


def test_from_its_start_to_its_end(table) -> None:
    job = ended(table, polish(table), "SUCCEEDED")
    assert Polish.noted == ["claimed", "succeeded"]
    moves = list(job.events.values_list("event", flat=True))
    assert moves == ["enqueue", "claim", "accepted", "succeed"]
    assert (job.lane, job.max_attempts, job.attempts) == ("maintenance", 2, 1)
    assert job.exclusive_key.endswith(":write")
    assert job.spec["kind"] == "polish"
    assert job.handle["scopes"] == ["write", "service"]
    assert job.report["outcome"] == "succeeded"


def test_one_that_waits_already_is_returned(table) -> None:
    first = polish(table)
    assert polish(table).pk == first.pk


def test_it_fails_at_once_or_after_its_attempts(table) -> None:
    job = ended(table, polish(table, Fault.TERMINAL), "FAILED")
    assert Polish.noted == ["claimed", "failed: fake_terminal"]
    assert (job.error_code, job.attempts) == ("fake_terminal", 1)
    Polish.noted.clear()
    job = ended(table, polish(table, *[Fault.TRANSIENT] * 2), "FAILED")
    assert job.attempts == 2
    assert Polish.noted == [
        "claimed", "retried", "claimed", "failed: fake_transient",
    ]  # fmt: skip


def test_it_is_refused_before_it_runs(table) -> None:
    job = ended(table, polish(table, refused=True), "FAILED")
    assert (Polish.noted, job.attempts) == (["rejected: scratched"], 0)


def test_it_is_cancelled_while_it_waits_and_while_it_runs(table) -> None:
    job = polish(table)
    table_commands.cancel_job(job.pk, actor="bob")
    assert Job.objects.get(pk=job.pk).state == "CANCELLED"
    job = polish(table, Fault.HANG)
    table.until(lambda: Job.objects.get(pk=job.pk).state == "RUNNING")
    table_commands.cancel_job(job.pk, actor="bob")
    ended(table, job, "CANCELLED")
    assert Polish.noted == [
        "cancelled by bob, never ran", "claimed", "cancelled by bob, ran",
    ]  # fmt: skip


def test_a_lost_driver_is_judged_by_the_timeline(table) -> None:
    job = ended(table, polish(table, Fault.DIE_RUNNING), "SUCCEEDED")
    assert Polish.noted == ["claimed", "retried", "claimed", "succeeded"]
    assert (job.attempts, job.max_attempts) == (2, 3)
    Polish.has_committed = True
    Polish.noted.clear()
    job = ended(table, polish(table, Fault.DIE_RUNNING), "SUCCEEDED")
    assert Polish.noted == ["claimed", "succeeded"]
    assert job.report == {"v": 1, "from": "timeline", "facts": {"instants": []}}


# -------------------------------------------------------------------------- in pages


def count(**more: Any) -> Job:
    job = Job(kind="count", max_attempts=Count.max_attempts, **more)
    job.save()
    advance(job, "enqueue", queued_at=timezone.now())
    return job


def now(job: Job) -> tuple[str, int, int]:
    job.refresh_from_db()
    return job.state, job.done, job.attempts


def test_pages_follow_one_another(world) -> None:
    job = count()
    tick.tick_once()
    assert now(job) == ("RUNNING", 1, 0)
    # the worker dies with the page that it has not saved: the next one does it again
    Count.trouble.append(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        pages.advance(job.pk)
    assert now(job) == ("RUNNING", 1, 0)
    assert pages.advance(job.pk)
    assert pages.advance(job.pk)
    assert now(job) == ("SUCCEEDED", 3, 0)
    assert not pages.advance(job.pk)


def test_a_page_fails_and_is_tried_again(world, monkeypatch) -> None:
    job = count()
    pages.advance(job.pk)
    Count.trouble.append(TransientError("the pencil broke", code="pencil"))
    assert not pages.advance(job.pk)
    assert now(job) == ("QUEUED", 1, 1)
    assert (job.error_code, job.reason) == (
        "pencil", "the pencil broke; try 2 in 0 s",
    )  # fmt: skip
    assert pages.advance(job.pk)
    assert now(job) == ("RUNNING", 2, 0)
    Count.trouble.append(TerminalError("no paper", code="paper"))
    pages.advance(job.pk)
    assert now(job) == ("FAILED", 2, 0)
    assert job.error_code == "paper"


def test_a_defect_in_a_page_ends_its_job_and_no_other(world, monkeypatch) -> None:
    broken, sound = count(), count()
    monkeypatch.setattr(Count, "save", _save_of(broken, Count.save))
    pages.advance_in_beat()
    assert now(sound) == ("RUNNING", 1, 0)
    assert now(broken) == ("QUEUED", 0, 1)
    pages.advance_in_beat()
    assert now(broken) == ("FAILED", 0, 1)
    assert (broken.error_code, "KeyError" in broken.error_message) == ("defect", True)


def _save_of(broken: Job, save: Any) -> Any:
    def fails(self: Count, job: Job, subject: None, found: object) -> Any:
        if job.pk == broken.pk:
            raise KeyError("not there")
        return save(self, job, subject, found)

    return fails


def test_those_that_wait_do_not_keep_others_from_their_turn(world, monkeypatch) -> None:
    monkeypatch.setattr(pages, "MOST_IN_BEAT", 2)
    waiting = [count() for _ in range(3)]
    keys = {job.pk for job in waiting}
    monkeypatch.setattr(Count, "admit", lambda self, job: job.pk not in keys)
    free = count()
    for _ in range(3):
        pages.advance_in_beat()
    assert now(free)[0] != "QUEUED"


def test_pages_end_on_request(world) -> None:
    job = count()
    pages.advance(job.pk)
    table_commands.cancel_job(job.pk, actor="ann")
    tick.tick_once()
    assert now(job) == ("CANCELLED", 1, 0)


def test_a_page_that_waits_for_its_time_is_left_alone(world) -> None:
    job = count(not_before=timezone.now() + timedelta(hours=1))
    assert not pages.advance(job.pk)
    assert now(job) == ("QUEUED", 0, 0)


# ----------------------------------------------------------------------- the registry


def test_an_unknown_kind_is_an_error_everywhere(table) -> None:
    job = polish(table)
    unregister("polish")
    with pytest.raises(TerminalError, match="'polish' is no kind of job"):
        handler_of("polish")
    with pytest.raises(TerminalError, match="no kind of job"):
        lifecycle.new_job(table.pipeline("orders"), "polish", actor="ann")
    tick.tick_once()
    found = Job.objects.get(pk=job.pk)
    assert (found.state, found.error_code) == ("FAILED", "unknown_job_kind")


def test_an_unknown_kind_can_be_cancelled_while_it_waits(world) -> None:
    job = count()
    unregister("count")
    tick.tick_once()
    assert now(job)[0] == "QUEUED"
    table_commands.cancel_job(job.pk, actor="ann")
    assert now(job)[0] == "CANCELLED"


def test_an_unknown_kind_can_be_cancelled_between_its_pages(world) -> None:
    job = count()
    pages.advance(job.pk)
    unregister("count")
    table_commands.cancel_job(job.pk, actor="ann")
    assert now(job)[0] == "CANCELLED"
    assert (job.reason, job.is_finished) == ("cancelled by ann", True)


@pytest.fixture
def running(world: Any) -> Iterator[Job]:
    """A job of a kind that this release does not know, in a driver that lives."""
    for name in ("orders", "customers"):
        world.onboard(name)
        world.until_live(name)
    job = polish(world, Fault.HANG)
    world.until(lambda: Job.objects.get(pk=job.pk).state == "RUNNING")
    # as in a process of the release before, which never knew it
    unregister("polish")
    lanes._taken.cache_clear()
    job.refresh_from_db()
    yield job
    lanes._taken.cache_clear()


def lose_driver(job: Job) -> None:
    gone = {"boot": "00000000-0000-0000-0000-000000000001"}
    Job.objects.filter(pk=job.pk).update(handle=job.handle | gone)


def test_an_unknown_kind_frees_its_table_when_its_driver_is_gone(
    world, running
) -> None:
    following = start_compaction(world.pipeline("orders").lake_table, actor="ann")
    before = dict(Lease.objects.values_list("name", "token"))
    lose_driver(running)
    tick.tick_once()
    running.refresh_from_db()
    assert (running.state, running.error_code) == ("FAILED", "unknown_job_kind")
    assert running.reason == (
        "its driver is gone, and this release does not know polish jobs: whether"
        f" polish of {running.subject} committed is unknown"
    )
    # whatever still writes for it is shut out
    for scope in ("write", "service"):
        name = f"table:{running.subject_id}:{scope}"
        assert Lease.objects.get(name=name).token > before[name]
    ended(world, following, "SUCCEEDED")


def test_a_cancelled_one_ends_so(world, running) -> None:
    table_commands.cancel_job(running.pk, actor="ann")
    running.refresh_from_db()
    assert running.state == "CANCELLING"
    lose_driver(running)
    tick.tick_once()
    running.refresh_from_db()
    assert running.state == "CANCELLED"
    assert running.reason.startswith("its driver is gone")


def test_a_report_of_an_unknown_kind_ends_it(world, running) -> None:
    report = JobReport(str(running.pk), running.attempts, "succeeded")
    with pytest.raises(TerminalError, match="no kind of job"):
        lifecycle.finish(report)
    # as the driver host does then
    assert reconcile.judge_lost(running.pk, "its report could not be recorded")
    running.refresh_from_db()
    assert (running.state, running.error_code) == ("FAILED", "unknown_job_kind")


def test_a_lake_that_is_away_leaves_it_unknown(world, running, monkeypatch) -> None:
    def away(*_: object) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr(leases, "raise_fence", away)
    lose_driver(running)
    reconcile.reconcile_jobs()
    running.refresh_from_db()
    assert running.state == "UNKNOWN"


def test_an_unknown_kind_that_runs_keeps_no_place(world, running) -> None:
    other = start_compaction(world.pipeline("customers").lake_table, actor="ann")
    tick.tick_once()
    other.refresh_from_db()
    assert other.state != "QUEUED", other.reason
    running.refresh_from_db()
    assert running.state == "RUNNING"  # its driver lives


def test_a_kind_has_one_handler_and_one_executor() -> None:
    class Other(Count):
        pass

    with pytest.raises(ValueError, match="two handlers"):
        register(Other())
    with pytest.raises(TerminalError, match="not done in pages"):
        pages.paged("polish")
    with pytest.raises(TerminalError, match="not executed by a driver"):
        driver_job("count")


def test_every_kind_says_what_the_engine_asks() -> None:
    assert len({each.name for each in handlers_of(JobHandler)}) == 12
    for each in handlers_of(JobHandler):
        assert each.title
        assert isinstance(each, DriverJob | PagedJob)
    for driver in handlers_of(DriverJob):
        assert driver.lane in LANE_LIMITS
        # everywhere in this order, so that two jobs never wait for one another
        assert driver.scopes in {("write",), ("service",), ("write", "service")}
