"""Somebody outside Sluice changes what is a table's own: seen, told, taken back."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from core.models import Job
from ingest.api import health_replies
from ingest.jobs import reconcile
from ingest.lake.commits import read_lake_table
from ingest.lake.fence import fence_at, fence_path
from ingest.models import TableHealth
from ingest.pipelines import sync_job, table_commands
from ingest.scheduler import tick
from tests.doubles.launcher import Fault, write_instant
from tests.integration.catalog.asking import problem
from tests.integration.catalog.conftest import *  # noqa: F403  the same people
from tests.integration.catalog.test_endpoints import compare
from tests.integration.ingest.test_health import GROUP, see, table, timeline_of

__all__ = ["table"]


def issues_of(admin: Any, table: int) -> list[tuple[str, str]]:
    body = admin("GET", f"tables/{table}/health?look=now").json()
    compare(health_replies.TableHealth(), body)
    return [(issue["code"], issue["repair"]) for issue in body["issues"]]


@pytest.mark.django_db
@pytest.mark.parametrize("token", ["900000", "not a token"])
def test_a_stolen_lock_is_told_and_taken_back(
    world: Any, admin: Any, table: int, token: str
) -> None:
    fence = fence_path(settings.SLUICE_LAKE_URI, table)
    assert issues_of(admin, table) == []
    fence.replace(f"{token}\n")
    assert issues_of(admin, table) == [("lock_taken", "rollback")]
    # its syncs wait, and say for what
    admin("POST", f"tables/{table}:sync")
    world.steps(3)
    job = world.jobs("sync")[-1]
    assert (job.state, "is taken" in job.reason) == ("QUEUED", True)
    assert token in job.reason
    verb = f"tables/{table}:rollback"
    problem(admin("POST", verb, {"instant": "2" * 17}), 400, "nothing_to_do")
    dry = admin("POST", verb, {"dry_run": True}).json()
    compare(health_replies.RepairPreview(), dry)
    assert f"the owner that put {token} there is refused" in dry["will"][0]
    # the driver dies with it: the lock is ours by then, and it is done again
    world.fail_with("repair", Fault.DIE_RUNNING)
    assert admin("POST", verb).status_code == 202
    world.until(lambda: world.jobs("repair")[-1].state == "SUCCEEDED", steps=200)
    spec = next(s for s in world.launcher.submitted[::-1] if s.kind == "repair")
    assert spec.fence.token == fence_at(fence)
    assert issues_of(admin, table) == []
    Job.objects.filter(kind="sync").update(not_before=None)
    world.until(lambda: world.jobs("sync")[-1].state == "SUCCEEDED")
    problem(admin("POST", verb, {"dry_run": True}), 400, "nothing_to_do")


@pytest.mark.django_db
def test_a_lock_that_is_stolen_under_a_job_stops_no_judgement(
    world: Any, admin: Any, table: int
) -> None:
    world.fail_with("sync", Fault.HANG)
    admin("POST", f"tables/{table}:sync")
    world.until(lambda: world.jobs("sync")[-1].state == "RUNNING")
    fence_path(settings.SLUICE_LAKE_URI, table).replace("900000\n")
    job = world.jobs("sync")[-1]
    assert reconcile.judge_lost(job.pk, "its driver ended")
    job.refresh_from_db()
    assert job.state == "QUEUED"
    assert issues_of(admin, table) == [("lock_taken", "rollback")]


@pytest.mark.django_db
def test_changed_properties_and_strange_buckets_are_told_with_both_values(
    world: Any, admin: Any, table: int
) -> None:
    base = Path(world.lake("orders").path)
    properties = base / ".hoodie" / "hoodie.properties"
    properties.write_text(
        properties.read_text().replace("EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING")
    )
    body = admin("GET", f"tables/{table}/health?look=now").json()
    (issue,) = body["issues"]
    assert (issue["code"], issue["repair"]) == ("properties_drift", "rollback")
    assert "'COMMIT_TIME_ORDERING' in the lake" in issue["reason"]
    assert "'EVENT_TIME_ORDERING' in the plan" in issue["reason"]
    assert body["plan"][0]["step"] == "decide"
    dry = admin("POST", f"tables/{table}:rollback", {"dry_run": True}).json()
    assert "goes back to what was planned" in dry["will"][0]
    problem(admin("GET", f"tables/{table}/health?look=then"), 400, "invalid_request")

    buckets = world.lake("orders").buckets
    strange = GROUP.replace("00000000", f"{buckets + 2:08d}")
    (base / f"{strange}_0-1-2_20200101000000000.parquet").write_bytes(b"x")
    assert ("bucket_drift", "deduplicate") in issues_of(admin, table)
    # while a resize is under way, its new buckets are nobody's drift
    world.fail_with("repair", Fault.HANG)
    admin("POST", f"tables/{table}:resize", {"buckets": buckets + 3})
    world.until(lambda: world.jobs("repair")[-1].state == "RUNNING")
    assert issues_of(admin, table) == [("properties_drift", "rollback")]


@pytest.mark.django_db
def test_strangers_commits_hide_no_position(world: Any, admin: Any, table: int) -> None:
    path = world.lake("orders").path
    known = read_lake_table(path).position
    assert known is not None
    for number in range(60):
        instant = f"209901010000{number:02d}000"
        write_instant(Path(path), instant, "deltacommit", {})
    assert read_lake_table(path).position == known
    assert read_lake_table(path, commits=1).commits[0].position is None


@pytest.mark.django_db
def test_a_table_is_looked_at_when_something_pending_begins_to_be_stuck(
    world: Any, admin: Any, table: int
) -> None:
    from django.utils import timezone

    young = f"{timezone.now():%Y%m%d%H%M%S}000"
    (timeline_of(world) / f"{young}.deltacommit.inflight").touch()
    row = see(world)
    assert row.issues == []
    wait = row.due_at - row.collected_at
    assert timedelta(seconds=30) < wait <= timedelta(seconds=61)
    assert TableHealth.objects.get(pk=row.pk).due_at == row.due_at


@pytest.mark.django_db
def test_a_damaged_timeline_ends_its_job_and_holds_up_no_other_table(
    world: Any,
) -> None:
    """After a power loss: the driver is gone, and a file of the timeline is zeros."""
    world.live("orders", "customers")
    world.fail_with("verify", Fault.HANG)
    table_commands.start_verify(world.lake("orders"), actor="x")
    world.until(lambda: world.jobs("verify")[-1].state == "RUNNING")
    timeline = Path(world.lake("orders").path) / ".hoodie" / "timeline"
    newest = max(timeline.glob("*.deltacommit"))
    newest.write_bytes(b"\0" * 4096)
    world.new_host()
    world.until(lambda: world.jobs("verify")[-1].state == "FAILED")
    job = world.jobs("verify")[-1]
    assert job.error_code == "timeline_damaged"
    assert "whether verify of" in job.reason
    before = len(world.jobs("sync"))
    sync_job.start_sync(world.pipeline("customers"), actor="x")
    tick.Ticking().tick()
    world.until(lambda: world.jobs("sync")[-1].state == "SUCCEEDED")
    assert len(world.jobs("sync")) > before


@pytest.mark.django_db
def test_a_defect_in_one_part_of_the_tick_stops_no_other(
    world: Any, table: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: Any) -> Any:
        raise KeyError("avro.schema")

    world.fail_with("verify", Fault.HANG)
    table_commands.start_verify(world.lake("orders"), actor="x")
    world.until(lambda: world.jobs("verify")[-1].state == "RUNNING")
    with monkeypatch.context() as patched:
        patched.setattr(reconcile, "read_lake_table", breaks)
        world.new_host()
        world.steps(3)
        assert world.jobs("verify")[-1].state == "RUNNING"
    with monkeypatch.context() as patched:
        patched.setattr(tick.queue, "explain_no_driver", breaks)
        tick.Ticking().tick()
    world.until(lambda: world.jobs("verify")[-1].state == "SUCCEEDED")
