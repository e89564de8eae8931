"""The way of a table: asked for, loaded, kept fresh; and every way it can break."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.models import Job, JobLog, Lease
from ingest.contract.job import CONNECTIONS_USED_UP, ErrorFact, JobReport
from ingest.driver_host import attempts
from ingest.driver_host.host import LOOK_SECONDS
from ingest.jobs import queue, reconcile
from ingest.lake.fence import fence_at
from ingest.lake.place import place_at
from ingest.models import DriverIncarnation, MaintenancePlan
from ingest.pipelines import sync_job, table_commands
from ingest.pipelines.schema_approval import approve_schema_change
from tests.doubles.launcher import Fault
from tests.long_tests import first_then_long

pytestmark = pytest.mark.django_db


def test_a_table_comes_alive(world) -> None:
    world.onboard("orders", schedule={"every_seconds": 60})
    assert world.pipeline("orders").state == "APPROVED"
    world.until_live("orders")
    lake = world.lake("orders")
    assert (lake.status, lake.is_queryable) == ("LIVE", True)
    assert lake.last_commit_instant
    assert lake.caught_up_at
    pipeline = world.pipeline("orders")
    assert pipeline.position
    assert pipeline.due_at
    assert [j.state for j in world.jobs("snapshot")] == ["SUCCEEDED"]
    moves = [(e.before, e.after) for e in pipeline.events.all()]
    assert moves == [
        ("DRAFT", "DISCOVERED"),
        ("DISCOVERED", "PROPOSED"),
        ("PROPOSED", "APPROVED"),
        ("APPROVED", "SNAPSHOTTING"),
        ("SNAPSHOTTING", "CATCHING_UP"),
        ("CATCHING_UP", "LIVE"),
    ]
    assert JobLog.objects.filter(message="begun").exists()


def test_loaded_once_is_live_without_syncs(world) -> None:
    world.onboard("orders", capture="snapshot")
    world.until_live("orders")
    world.steps(5)
    assert world.jobs("sync") == []
    assert world.pipeline("orders").due_at is None


def test_the_secret_goes_over_the_pipe_and_nowhere_else(world) -> None:
    world.onboard("orders")
    world.until_live("orders")
    assert (f"datasource:{world.source.pk}", "canary-password") in (
        world.launcher.secrets
    )
    for job in Job.objects.all():
        assert "canary" not in f"{job.spec}{job.handle}{job.report}{job.payload}"
    assert not JobLog.objects.filter(message__contains="canary").exists()


def test_no_driver_means_waiting_with_a_reason(world) -> None:
    world.onboard("orders")
    queue.explain_no_driver()
    job = world.jobs("snapshot")[0]
    assert (job.state, job.reason) == ("QUEUED", "waiting for a driver: none is ready")


@pytest.mark.parametrize(
    ("kind", "fault", "deaths"),
    [
        ("snapshot", Fault.TRANSIENT, 0),
        ("sync", Fault.TRANSIENT, 0),
        ("snapshot", Fault.DIE_UNACCEPTED, 1),
        ("snapshot", Fault.DIE_RUNNING, 1),
        ("sync", Fault.DIE_COMMITTED, 1),
        ("sync", Fault.FORGET, 0),
        ("sync", Fault.REPORT_TWICE, 0),
    ],
)
def test_one_fault_is_survived(world, kind, fault, deaths) -> None:
    world.fail_with(kind, fault)
    world.onboard("orders")
    world.until_live("orders")
    world.until(lambda: len(world.launcher.starts) == 1 + deaths)
    assert {j.state for j in Job.objects.all()} == {"SUCCEEDED"}
    assert not Lease.objects.exclude(owner="").exists()


def test_a_commit_that_was_not_reported_is_found_and_not_repeated(world) -> None:
    world.fail_with("snapshot", Fault.DIE_COMMITTED)
    world.onboard("orders")
    world.until_live("orders")
    snapshots = [s for s in world.launcher.submitted if s.kind == "snapshot"]
    assert len(snapshots) == 1
    job = world.jobs("snapshot")[0]
    assert "timeline shows its commit" in job.reason
    assert world.pipeline("orders").position


def test_a_sync_whose_end_nobody_told_is_followed_by_another(world) -> None:
    """It may have been cut, and on request nothing would bring the rest."""
    world.onboard("orders")
    world.until_live("orders")
    before = len(world.jobs("sync"))
    world.fail_with("sync", Fault.DIE_COMMITTED)
    table_commands.start_sync(world.lake("orders"), actor="ann")
    world.until(
        lambda: [j.state for j in world.jobs("sync")] == ["SUCCEEDED"] * (before + 2)
    )
    world.steps(3)
    assert len(world.jobs("sync")) == before + 2


def test_a_job_of_a_driver_that_was_forgotten_is_judged(world) -> None:
    """The lake was away for longer than ended drivers are remembered."""
    world.fail_with("snapshot", Fault.HANG)
    world.onboard("orders")
    world.until(lambda: world.jobs("snapshot")[0].state == "RUNNING")
    (job,) = world.jobs("snapshot")
    handle = job.handle | {"boot": "00000000-0000-4000-8000-000000000000"}
    Job.objects.filter(pk=job.pk).update(handle=handle, state="UNKNOWN")
    # whoever saw it on an earlier driver, and comes late, does not mean this attempt
    assert not reconcile.judge_lost(
        job.pk, "its driver ended", incarnation="an earlier one"
    )
    assert reconcile.reconcile_jobs() == 1
    assert world.jobs("snapshot")[0].state == "QUEUED"
    assert reconcile.reconcile_jobs() == 0


def test_what_is_said_late_of_an_attempt_is_not_meant_of_the_next(world) -> None:
    """A lost attempt waits while the database does not take it; the job goes on."""
    world.fail_with("snapshot", Fault.HANG)
    world.onboard("orders")
    world.until(lambda: world.jobs("snapshot")[0].state == "RUNNING")
    (job,) = world.jobs("snapshot")
    in_flight = world.host._jobs
    in_flight._lose(in_flight.in_flight[str(job.pk)], "the driver lost it")
    Job.objects.filter(pk=job.pk).update(attempts=job.attempts + 1)
    world.host._flush()
    assert not in_flight.lost
    assert world.jobs("snapshot")[0].state == "RUNNING"


def test_every_attempt_has_its_own_token(world) -> None:
    world.fail_with("snapshot", Fault.TRANSIENT, Fault.DIE_RUNNING)
    world.onboard("orders")
    world.until_live("orders")
    tokens = [s.fence.token for s in world.launcher.submitted]
    assert tokens == sorted(set(tokens))

    last = world.launcher.submitted[-1].fence
    assert fence_at(place_at(last.path)) == last.token


def test_a_job_that_always_kills_fails_with_its_reason(world) -> None:
    world.fail_with("snapshot", *[Fault.DIE_RUNNING] * 9)
    world.onboard("orders", "calm")
    world.until(
        lambda: (
            world.pipeline("orders").state == "FAILED"
            or world.pipeline("calm").state == "FAILED"
        )
    )
    failed = Job.objects.filter(state="FAILED").first()
    assert failed is not None
    assert failed.error_code == "driver_died"
    assert failed.error_hint


def test_a_terminal_error_stops_the_table_and_retry_goes_on(world) -> None:
    world.fail_with("snapshot", Fault.TERMINAL)
    world.onboard("orders")
    world.until(lambda: world.pipeline("orders").state == "FAILED")
    assert "as configured" in world.pipeline("orders").status_reason
    assert world.lake("orders").status == "FAILED"
    job = world.jobs("snapshot")[0]
    assert (job.state, job.error_code) == ("FAILED", "fake_terminal")
    table_commands.retry_job(job.pk, actor="ann")
    world.until_live("orders")


def test_a_syncs_transient_trouble_never_stops_its_table(world) -> None:
    world.onboard("orders", schedule={"every_seconds": 1})
    world.until_live("orders")
    world.fail_with("sync", *[Fault.TRANSIENT] * 3)
    table_commands.start_sync(world.lake("orders"), actor="ann")
    world.until(lambda: any(j.state == "FAILED" for j in world.jobs("sync")))
    pipeline = world.pipeline("orders")
    assert pipeline.state == "CATCHING_UP"
    assert "next try in" in pipeline.status_reason
    assert pipeline.due_at


def test_a_load_waits_for_a_connection_as_long_as_others_keep_them(world) -> None:
    world.fail_with("snapshot", *[Fault.HANG] * 6)
    world.onboard("orders")
    for attempt in range(1, 6):
        world.until(lambda: world.jobs("snapshot")[0].state == "RUNNING")
        job = world.jobs("snapshot")[0]
        assert job.attempts == attempt
        fact = ErrorFact(CONNECTIONS_USED_UP, "the source says: too many connections")
        attempts.finish(JobReport(str(job.pk), attempt, "transient", error=fact))
        job.refresh_from_db()
        assert job.state == "QUEUED"
        assert "too many connections" in job.reason
        Job.objects.filter(pk=job.pk).update(not_before=None)
    assert world.pipeline("orders").state == "SNAPSHOTTING"


def test_late_and_foreign_reports_change_nothing(world) -> None:
    world.fail_with("snapshot", Fault.TRANSIENT, Fault.HANG)
    world.onboard("orders")
    world.until(lambda: world.jobs("snapshot")[0].attempts == 2)
    job = world.jobs("snapshot")[0]
    late = JobReport(str(job.pk), 1, "terminal", error=ErrorFact("x", "late"))
    assert attempts.finish(late) is False
    unknown = JobReport("00000000-0000-4000-8000-000000000000", 1, "succeeded")
    assert attempts.finish(unknown) is False
    job.refresh_from_db()
    assert job.state in {"LAUNCHING", "RUNNING"}


def test_due_syncs_come_by_themselves(world) -> None:
    world.onboard("orders", schedule={"every_seconds": 1})
    world.until_live("orders")
    count = len(world.jobs("sync"))
    import time

    time.sleep(1.1)
    world.until(lambda: len(world.jobs("sync")) > count)


def test_a_sync_that_is_over_at_once_is_never_written_as_running(world) -> None:
    world.onboard("orders")
    world.until_live("orders")
    now = world.clock()
    world.host.clock = lambda: now
    world.steps(2)
    job = sync_job.start_sync(world.pipeline("orders"), actor="ann")
    now += LOOK_SECONDS
    world.until(lambda: Job.objects.get(pk=job.pk).is_finished)
    said = list(job.events.order_by("id").values_list("event", flat=True))
    assert said == ["enqueue", "claim", "succeed"]


def test_pending_compactions_are_executed_by_name(world) -> None:
    world.launcher.facts["sync"] = {"pending_compactions": ["20260101000000001"]}
    world.onboard("orders")
    world.until_live("orders")
    world.launcher.facts.clear()
    world.until(lambda: MaintenancePlan.objects.filter(state="COMPLETED").exists())
    spec = next(s for s in world.launcher.submitted if s.kind == "compact")
    assert spec.compact.instants == ("20260101000000001",)
    assert spec.fence.path.endswith(".service")


@pytest.mark.parametrize(
    "fault",
    first_then_long(
        *(Fault.DIE_COMMITTED, Fault.TERMINAL, Fault.DIE_RUNNING, Fault.TRANSIENT),
        first=2,
    ),
)
def test_a_compaction_survives_faults(world, fault, monkeypatch) -> None:
    monkeypatch.setattr(
        "ingest.pipelines.compaction_plans.wait_after", lambda failures: 0.0
    )
    world.fail_with("compact", fault)
    planned = "20260101000000001"
    world.launcher.facts["sync"] = {"pending_compactions": [planned]}
    world.onboard("orders")
    world.until_live("orders")
    timeline = Path(world.lake("orders").path) / ".hoodie" / "timeline"
    (timeline / f"{planned}.compaction.requested").touch()
    world.launcher.facts.clear()
    world.until(lambda: MaintenancePlan.objects.filter(state="COMPLETED").exists())
    assert world.pipeline("orders").state == "LIVE"


def test_a_silent_driver_is_killed_and_its_jobs_run_again(world) -> None:
    world.fail_with("snapshot", Fault.HANG)
    world.onboard("orders")
    world.until(lambda: world.jobs("snapshot")[0].state == "RUNNING")
    world.launcher.is_silent = True
    world.until_live("orders")
    assert len(world.launcher.starts) == 2
    assert DriverIncarnation.objects.filter(ended_at=None).count() == 1


def test_the_host_dies_and_another_goes_on_at_once(world) -> None:
    world.fail_with("snapshot", Fault.HANG)
    world.onboard("orders")
    world.until(lambda: world.jobs("snapshot")[0].state == "RUNNING")
    world.new_host()
    world.until_live("orders")


def test_an_unreadable_lake_makes_it_unknown_not_failed(world, monkeypatch) -> None:
    from core.errors import TransientError

    world.fail_with("snapshot", Fault.DIE_RUNNING)
    world.onboard("orders")

    def away(*args, **kwargs):
        raise TransientError("the lake's storage failed")

    with monkeypatch.context() as patched:
        patched.setattr("ingest.jobs.reconcile.read_lake_table", away)
        world.until(lambda: world.jobs("snapshot")[0].state == "UNKNOWN")
        world.steps(3)
        assert world.jobs("snapshot")[0].state == "UNKNOWN"
        assert "cannot be asked" in world.jobs("snapshot")[0].reason
    world.until_live("orders")


def test_an_altered_source_is_refused_before_anything_runs(world) -> None:
    world.onboard("orders")
    source = world.pipeline("orders").source_table
    source.columns.filter(name="name").update(source_type="json")
    source.schema_fingerprint = "altered"
    source.save()
    world.until(lambda: world.pipeline("orders").state == "PAUSED")
    assert "waits for a decision" in world.pipeline("orders").status_reason
    assert world.launcher.submitted == []
    approve_schema_change(world.lake("orders"), actor="ann")
    world.until_live("orders")
    columns = world.launcher.submitted[0].table.columns
    assert [c.source_type for c in columns if c.name == "name"] == ["json"]


def test_a_dropped_source_is_refused(world) -> None:
    from catalog.discovery.store import VANISHED

    world.onboard("orders")
    source = world.pipeline("orders").source_table
    source.status = VANISHED
    source.save()
    world.until(lambda: world.pipeline("orders").state == "FAILED")
    assert world.jobs("snapshot")[0].error_code == "source_dropped"
