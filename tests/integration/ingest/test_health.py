"""Health in the background, plans that start by themselves, repairs through REST."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db.models.functions import Now
from django.test import Client

from catalog.models import AuditEntry
from core.models import Job
from ingest.api import health, health_replies
from ingest.driver_host import attempts
from ingest.maintenance import compact_job, health_collector, observation
from ingest.models import MaintenancePlan, TableHealth
from ingest.pipelines import sync_job
from ingest.scheduler import tick
from tests.doubles.launcher import Fault, write_instant
from tests.integration.at_once import at_once
from tests.integration.catalog.asking import problem
from tests.integration.catalog.conftest import *  # noqa: F403  the same people
from tests.integration.catalog.test_endpoints import compare
from tests.integration.ingest.test_rest import grant

OLD = "20200101000000000"
LATER = "20200101000001000"
GROUP = "00000000-aaaa-bbbb-cccc-000000000001"


def timeline_of(world: Any) -> Path:
    return Path(world.lake("orders").path) / ".hoodie" / "timeline"


def see(world: Any) -> TableHealth:
    """A look now, whenever it was due."""
    TableHealth.objects.update(due_at=Now())
    health_collector.look_at_due()
    return TableHealth.objects.get(table=world.lake("orders"))


@pytest.fixture
def table(world: Any) -> int:
    world.live("orders")
    return world.lake("orders").pk


@pytest.mark.django_db
def test_a_table_is_looked_at_after_its_commits(world, admin, table) -> None:
    world.steps(2)
    body = admin("GET", f"tables/{table}/health").json()
    compare(health_replies.TableHealth(), body)
    assert (body["score"], body["issues"], body["plan"]) == (100, [], [])
    assert body["facts"]["delta_commits"] >= 1
    assert body["merge"]["max_write_amplification"] == 10
    assert body["merge"]["ratio"] >= 1
    metrics = admin("GET", f"tables/{table}/metrics").json()
    compare(health_replies.TableMetrics(), metrics)
    assert metrics["commits"][-1]["action"] == "deltacommit"
    assert metrics["trend"][0]["score"] == 100
    assert metrics["trend"][0]["lag"] >= 0
    (day,) = metrics["written"]["days"]
    facts = body["facts"]
    assert day["table_bytes"] == facts["base_bytes"] + facts["log_bytes"]
    # a second look counts no commit again
    assert see(world).facts["written"]["days"] == metrics["written"]["days"]
    # a commit makes it due again, but not every second
    row = TableHealth.objects.get(table=table)
    assert row.due_at > row.collected_at + timedelta(seconds=10)


@pytest.mark.django_db
def test_a_table_that_cannot_be_read_says_so_and_stops_nothing(
    world, admin, table
) -> None:
    see(world)
    bad = timeline_of(world) / f"{OLD}_{LATER}.replacecommit"
    bad.write_bytes(b"no avro at all")
    row = see(world)
    assert (row.score, bool(row.problem)) == (100, True)
    assert row.due_at > row.collected_at
    assert admin("GET", f"tables/{table}/health").json()["problem"] == row.problem
    tick.Ticking().tick()
    bad.unlink()
    assert see(world).problem == ""


@pytest.mark.django_db
def test_a_look_that_was_asked_for_wants_operate_and_is_shared(
    world, admin, ann, table
) -> None:
    address = f"tables/{table}/health"
    grant(admin, "user:ann", "discover", "lake.shop.orders")
    assert ann("GET", address).status_code == 200
    problem(ann("GET", f"{address}?look=now"), 403, "missing_privilege")
    problem(ann("GET", f"{address}?look=soon"), 400, "invalid_request")
    see(world)
    log = Path(world.lake("orders").path) / f".{GROUP}_{OLD}.log.1_0-9-13"
    log.write_bytes(b"x" * 7)
    rows = TableHealth.objects.filter(table=table)
    # one that began after we asked says what we wanted to know
    rows.update(collected_at=Now() + timedelta(minutes=1))
    assert admin("GET", f"{address}?look=now").json()["facts"]["log_bytes"] == 0
    rows.update(collected_at=Now() - timedelta(seconds=1))
    assert admin("GET", f"{address}?look=now").json()["facts"]["log_bytes"] == 7


@pytest.mark.django_db
def test_a_failed_job_makes_its_table_due(world, admin, table) -> None:
    see(world)
    TableHealth.objects.update(due_at=Now() + timedelta(minutes=5))
    world.fail_with("compact", Fault.TERMINAL)
    admin("POST", f"tables/{table}:compact")
    world.until(lambda: Job.objects.filter(kind="compact", state="FAILED").exists())
    row = TableHealth.objects.get(table=table)
    assert row.due_at < row.collected_at + timedelta(minutes=1)


@pytest.mark.django_db
def test_a_sync_that_found_nothing_asks_for_no_look(world, table) -> None:
    see(world)
    soon, long_ago = Now() + timedelta(minutes=5), Now() - timedelta(hours=1)
    TableHealth.objects.update(due_at=soon, collected_at=long_ago)
    for instant, is_looked_at in [(None, False), ("20260101000000001", True)]:
        world.launcher.facts["sync"] = {"instant": instant}
        job = sync_job.start_sync(world.pipeline("orders"), actor="x")
        world.until(lambda job=job: Job.objects.get(pk=job.pk).is_finished)
        world.steps(2)
        fresh = TableHealth.objects.exclude(collected_at__lt=Now() - timedelta(0, 600))
        assert fresh.exists() is is_looked_at


@pytest.mark.django_db
def test_syncs_that_keep_failing_cost_points_until_one_succeeds(world, table) -> None:
    for failures, code in [(1, ""), (2, "syncs_failing"), (0, "")]:
        faults = [Fault.TRANSIENT] * 3 if failures else []
        world.fail_with("sync", *faults)
        job = sync_job.start_sync(world.pipeline("orders"), actor="x")
        Job.objects.filter(pk=job.pk).update(max_attempts=1)
        world.until(lambda job=job: Job.objects.get(pk=job.pk).is_finished)
        world.launcher.faults["sync"].clear()
        assert world.pipeline("orders").failures == failures
        row = see(world)
        assert [issue["code"] for issue in row.issues] == ([code] if code else [])
    assert row.score == 100


@pytest.mark.django_db
def test_file_groups_are_listed_page_by_page(world, admin, table) -> None:
    base = Path(world.lake("orders").path)
    (base / "p=1").mkdir()
    (base / "p=1" / f"{GROUP}_0-1-2_{OLD}.parquet").write_bytes(b"x" * 70)
    (base / f".{GROUP}_{OLD}.log.1_0-9-13").write_bytes(b"x" * 7)
    first = admin("GET", f"tables/{table}/files?page_size=1").json()
    compare(health_replies.FileGroup(), first["items"][0])
    assert first["items"][0]["log_bytes"] == 7
    token = first["next_page_token"]
    second = admin("GET", f"tables/{table}/files?page_size=1&page_token={token}")
    (one,) = second.json()["items"]
    assert (one["partition"], one["bucket"], one["base_bytes"]) == ("p=1", 0, 70)
    assert second.json()["next_page_token"] is None
    problem(admin("GET", f"tables/{table}/files?page_token=x"), 400, "bad_token")
    for _ in range(2):  # files are read for one user once at a time
        place = health.LAYOUTS.take("root")
        assert place
        late = admin("GET", f"tables/{table}/files")
        problem(late, 429, "too_many_requests")
        place.give_back()
    assert admin("GET", f"tables/{table}/files").status_code == 200


@pytest.mark.django_db
def test_names_of_partitions_are_for_who_may_read_the_rows(
    world, admin, ann, table
) -> None:
    folder = Path(world.lake("orders").path) / "p=canary"
    folder.mkdir()
    (folder / f"{GROUP}_0-1-2_{OLD}.parquet").write_bytes(b"x" * 70)
    newest = world.lake("orders").last_commit_instant
    (folder / f".{GROUP}_{newest}.log.1_0-9-13").write_bytes(b"x" * 7)
    compact, dry = f"tables/{table}:compact", {"dry_run": True}
    files, health_path = f"tables/{table}/files", f"tables/{table}/health"
    grant(admin, "user:ann", "operate", "lake.shop.orders")
    hidden = ann("POST", compact, dry)
    assert hidden.json()["compaction"]["groups"][0]["partition"] == ""
    assert "canary" in admin("POST", compact, dry).content.decode()
    twin = GROUP.replace("aaaa", "bbbb")
    (folder / f"{twin}_0-1-2_{OLD}.parquet").write_bytes(b"x" * 70)
    see(world)
    found = ann("GET", health_path)
    assert found.json()["issues"][0]["code"] == "bucket_conflict"
    assert "canary" in admin("GET", health_path).content.decode()
    refused = ann("GET", files)
    problem(refused, 403, "files_limited")
    for shown in (hidden, found, refused):
        assert "canary" not in shown.content.decode()
    grant(admin, "user:ann", "select", "lake.shop.orders")
    assert "canary" in ann("GET", files).content.decode()


@pytest.mark.django_db
def test_a_stuck_compaction_is_explained_previewed_and_rolled_back(
    world, admin, table, django_user_model
) -> None:
    (timeline_of(world) / f"{OLD}.compaction.inflight").touch()
    see(world)
    body = admin("GET", f"tables/{table}/health").json()
    (issue,) = body["issues"]
    assert (issue["code"], issue["repair"]) == (
        "plan_unreadable",
        "unschedule-compaction",
    )
    assert body["plan"][0]["step"] == "decide"
    one = body["pending"][0]
    assert (one["instant"], one["plan"]["is_readable"]) == (OLD, False)
    # the page says the same, with the button that leads to the preview
    root = django_user_model.objects.filter(is_superuser=True).first()
    client = Client()
    client.force_login(root, backend="catalog.access.backend.SluiceBackend")
    page = client.get(f"/tables/{table}/health").content.decode()
    assert "request of compaction" in page
    assert f"/tables/{table}/unschedule-compaction?instant={OLD}" in page
    assert ">50<" in client.get("/health").content.decode()
    form = client.get(f"/tables/{table}/unschedule-compaction?instant={OLD}")
    assert "removed by name" in form.content.decode()

    verb = f"tables/{table}:unschedule-compaction"
    dry = admin("POST", verb, {"instant": OLD, "dry_run": True})
    assert dry.status_code == 200
    compare(health_replies.RepairPreview(), dry.json())
    assert not world.jobs("repair")
    problem(admin("POST", f"tables/{table}:rollback", {}), 400, "nothing_to_do")
    problem(admin("POST", verb, {"instant": LATER}), 400, "nothing_to_do")
    problem(admin("POST", verb, {"instant": "7"}), 400, "invalid_request")
    problem(admin("POST", verb, {"replan": 1}), 400, "invalid_request")
    problem(admin("POST", verb, {"x": 1}), 400, "unknown_field")

    plan = MaintenancePlan.objects.create(table_id=table, instant=OLD, state="INFLIGHT")
    world.launcher.facts["repair"] = {"unscheduled": [OLD], "pending_compactions": []}
    reply = admin("POST", verb, {"instant": OLD, "replan": True})
    assert reply.status_code == 202
    world.until(lambda: world.jobs("repair")[-1].state == "SUCCEEDED")
    spec = next(s for s in world.launcher.submitted if s.kind == "repair")
    assert (spec.repair.action, spec.repair.instant) == ("unschedule", OLD)
    assert spec.repair.replan
    plan.refresh_from_db()
    assert plan.state == "SUPERSEDED"
    entry = AuditEntry.objects.get(action="table.unschedule-compaction")
    assert (entry.facts["job"], entry.facts["instant"]) == (reply.json()["id"], OLD)
    seen = client.get(f"/jobs/{reply.json()['id']}").content.decode()
    assert f"Plans taken off the timeline: {OLD}" in seen


@pytest.mark.django_db
def test_a_repair_holds_both_leases_and_does_not_touch_the_tables_state(
    world, admin, table
) -> None:
    from tests.doubles.launcher import Fault

    world.fail_with("repair", Fault.HANG, Fault.TERMINAL)
    reply = admin("POST", f"tables/{table}:deduplicate", {"dry_run": True})
    assert reply.status_code == 202
    world.until(lambda: world.jobs("repair")[-1].state == "RUNNING")
    row = see(world)
    held = observation._held(table)
    assert held == {"write", "service"}
    (timeline_of(world) / f"{OLD}.deltacommit.inflight").touch()
    assert see(world).issues == row.issues, "somebody works on it"
    # another repair waits behind it; one that asks for something else is told so
    admin("POST", f"tables/{table}:deduplicate")
    problem(admin("POST", f"tables/{table}:rollback"), 409, "already_queued")
    admin("POST", f"jobs/{reply.json()['id']}:cancel")
    world.until(lambda: world.jobs("repair")[-1].is_finished)
    assert [j.state for j in world.jobs("repair")] == ["CANCELLED", "FAILED"]
    assert world.pipeline("orders").state == "LIVE"
    issue = see(world).issues[0]
    assert (issue["code"], issue["instant"]) == ("write_stuck", OLD)
    admin("POST", f"jobs/{world.jobs('repair')[-1].pk}:retry")
    world.until(lambda: world.jobs("repair")[-1].state == "SUCCEEDED")


@pytest.mark.django_db
def test_a_repair_is_retried_only_while_it_makes_sense(world, admin, table) -> None:
    timeline = timeline_of(world)
    begun = timeline / f"{OLD}.deltacommit.inflight"
    begun.touch()
    world.fail_with("repair", Fault.TERMINAL)
    admin("POST", f"tables/{table}:rollback", {"instant": OLD})
    world.until(lambda: world.jobs("repair")[-1].state == "FAILED")
    again = f"jobs/{world.jobs('repair')[-1].pk}:retry"
    begun.unlink()
    problem(admin("POST", again), 400, "nothing_to_do")
    assert world.jobs("repair")[-1].state == "FAILED"
    # cut off at its very end: the rollback is left, what it undoes is gone
    (timeline / f"{LATER}.rollback.inflight").touch()
    assert admin("POST", again).status_code == 202
    said = AuditEntry.objects.get(action="job.retry").facts
    assert (said["repair"], said["instant"]) == ("rollback", OLD)


def commit_and_keep(timeline: Path, asked: int) -> int:
    """Another commit as the newest one, and its savepoint."""
    commit = next(timeline.glob("*_*.deltacommit")).read_bytes()
    (timeline / f"{asked}_{asked + 1}.deltacommit").write_bytes(commit)
    (timeline / f"{asked}_{asked + 2}.savepoint").touch()
    return asked


@pytest.mark.django_db
def test_a_savepoint_is_gone_back_to_with_the_position(
    world, admin, table, django_user_model
):
    timeline = timeline_of(world)
    done = next(timeline.glob("*_*.deltacommit")).name.partition("_")[0]
    verb = f"tables/{table}:restore"
    problem(admin("POST", verb, {"instant": done}), 400, "unknown_instant")
    (timeline / f"{done}_{int(done) + 5}.savepoint").touch()
    assert admin("POST", f"tables/{table}/savepoints").status_code == 202
    world.until(lambda: world.jobs("repair")[-1].state == "SUCCEEDED")
    (kept,) = admin("GET", f"tables/{table}/savepoints").json()["items"]
    compare(health_replies.Savepoint(), kept)
    assert kept["instant"] == done
    made, ends = (datetime.fromisoformat(kept[k]) for k in ("made_at", "ends_at"))
    assert ends - made == timedelta(days=7)
    root = django_user_model.objects.filter(is_superuser=True).first()
    client = Client()
    client.force_login(root, backend="catalog.access.backend.SluiceBackend")
    see(world)
    page = client.get(f"/tables/{table}/health").content.decode()
    assert f"/tables/{table}/restore?instant={done}" in page
    newer = commit_and_keep(timeline, int(done) + 7)
    dry = admin("POST", verb, {"instant": done, "dry_run": True}).json()
    assert f"after savepoint {done} are taken away (" in dry["will"][0]
    assert f"Savepoints of those commits end: {newer}" in dry["will"][1]
    for path in timeline.glob(f"{newer}_*"):
        path.unlink()
    assert "deleted at the source" in dry["misses"][1]
    assert dry["then"] == "resync"
    form = client.get(f"/tables/{table}/restore?instant={done}").content.decode()
    will, _, misses = form.partition("What it does not restore")
    assert "are taken away" in will
    assert "deleted at the source" not in will
    assert "deleted at the source" in misses
    assert f"/tables/{table}/resync" in misses
    facts = {"restored": done, "instant": done, "epoch": 1}
    facts["position"] = {"to": "2026-01-01T00:00:00Z"}
    world.launcher.facts["repair"] = facts
    assert admin("POST", verb, {"instant": done}).status_code == 202
    world.until(lambda: world.jobs("repair")[-1].state == "SUCCEEDED")
    back = world.pipeline("orders")
    assert (back.state, back.position) == ("CATCHING_UP", "2026-01-01T00:00:00Z")
    assert done in back.status_reason
    world.until_live("orders")
    low = [s.sync.low for s in world.launcher.submitted if s.sync][-1]
    assert low == "2026-01-01T00:00:00Z"
    assert admin("POST", f"tables/{table}:clean", {"dry_run": True}).status_code == 200


@pytest.mark.django_db
def test_a_policy_starts_compactions_by_age_and_keeps_quiet_hours(
    world, admin, table
) -> None:
    base = Path(world.lake("orders").path)
    (base / f"{GROUP}_0-1-2_{OLD}.parquet").write_bytes(b"x" * 70)
    write_instant(base, LATER, "deltacommit", {})
    (base / f".{GROUP}_{LATER}.log.1_0-9-13").write_bytes(b"x" * 7)
    closed = {"from": "00:00", "to": "00:01", "timezone": "UTC"}
    policy = f"tables/{table}/policy"
    # its 7 bytes of changes have earned less than the 77 that a compaction writes
    assert see(world).plan == []
    assert TableHealth.objects.get(table=table).facts["merge"]["waiting_groups"] == 1
    afforded = {"max_write_amplification": 12}
    admin("PATCH", policy, {"maintenance_window": closed, **afforded})
    TableHealth.objects.filter(table=table).update(facts={})
    step = see(world).plan[0]
    assert step["step"] == "wait"
    assert "h old" in step["reason"]
    assert step["at"].endswith("T00:00:00Z")
    MaintenancePlan.objects.create(table_id=table, instant=LATER, state="SCHEDULED")
    assert compact_job.start_due_compactions() == 0
    assert not world.jobs("compact")
    MaintenancePlan.objects.all().delete()
    admin("PATCH", policy, {"maintenance_window": None})
    assert see(world).plan[0]["step"] == "schedule"
    (job,) = world.jobs("compact")
    assert (job.requested_by, job.payload["within_budget"]) == ("policy", True)
    see(world)
    assert len(world.jobs("compact")) == 1
    # a person's is of everything, also where the policy's waits already
    admin("POST", f"tables/{table}:compact", {})
    (job,) = world.jobs("compact")
    assert "within_budget" not in job.payload
    for wrong in ({"from": "9"}, {"from": "09:00", "to": "09:00"}, "night", {"x": 1}):
        reply = admin("PATCH", policy, {"maintenance_window": wrong})
        assert problem(reply, 400, "invalid_request")["errors"], wrong


@pytest.mark.django_db(transaction=True)
def test_two_schedulers_start_one_compaction(world, table) -> None:
    MaintenancePlan.objects.create(table_id=table, instant=OLD, state="SCHEDULED")

    def scheduler(_: int) -> None:
        for _ in range(5):
            compact_job.start_due_compactions()
            attempts.claim_queued()

    at_once(scheduler, times=2)
    assert [j.payload["instants"] for j in world.jobs("compact")] == [[OLD]]
    world.until(lambda: world.jobs("compact")[0].state == "SUCCEEDED")
    assert [s.kind for s in world.launcher.submitted].count("compact") == 1
    assert MaintenancePlan.objects.get().state == "COMPLETED"
