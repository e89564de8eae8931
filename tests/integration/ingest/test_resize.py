"""Resizing through REST: preview, job, catalogue; and rows that follow their lake."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from catalog.models import AuditEntry
from ingest.api import health_replies
from ingest.lake.hudi.options import EXTRA_KEY, CommitPosition, encode_position
from ingest.pipelines.lake_identity import planned_identity
from tests.doubles.launcher import Fault, write_instant
from tests.integration.catalog.asking import problem
from tests.integration.catalog.conftest import *  # noqa: F403  the same people
from tests.integration.catalog.test_endpoints import compare
from tests.integration.ingest.test_health import GROUP, OLD, see, timeline_of
from tests.long_tests import first_then_long

LATER = "21000101000000000"


@pytest.fixture
def table(world: Any) -> int:
    world.live("orders")
    return world.lake("orders").pk


def commit(world: Any, *, buckets: int, run: str = "lost", end: str = "") -> None:
    """What a repair left in the lake when nobody heard of it any more."""
    lake = world.lake("orders")
    identity = planned_identity(world.pipeline("orders"))
    data = identity.to_data() | {"buckets": buckets}
    position = CommitPosition(
        1, "", end or world.pipeline("orders").position, 1, 1, run, 9,
        type(identity).from_data(data),
    )  # fmt: skip
    extra = {EXTRA_KEY: encode_position(position)}
    write_instant(Path(lake.path), LATER, "replacecommit", extra)


def buckets_of(world: Any) -> tuple[int, int, int]:
    lake = world.lake("orders")
    assert lake.identity == planned_identity(world.pipeline("orders")).to_data()
    spec = world.launcher.submitted[-1]
    return lake.buckets, lake.identity["buckets"], spec.table.buckets


def signed_in(users: Any) -> Client:
    client = Client()
    root = users.objects.filter(is_superuser=True).first()
    client.force_login(root, backend="catalog.access.backend.SluiceBackend")
    return client


@pytest.mark.django_db
def test_a_resize_is_previewed_asked_for_and_shown(
    world, admin, table, django_user_model
) -> None:
    base = Path(world.lake("orders").path)
    (base / f"{GROUP}_0-1-2_{OLD}.parquet").write_bytes(b"x" * 70)
    see(world)
    verb = f"tables/{table}:resize"
    drop = f"tables/{table}:drop-metadata-table"
    problem(admin("POST", drop), 400, "nothing_to_do")
    for body, code in [
        ({}, "invalid_request"),
        ({"buckets": "4"}, "invalid_request"),
        ({"buckets": 0}, "invalid_request"),
        ({"buckets": 1}, "nothing_to_do"),
        ({"buckets": 2, "instant": OLD}, "unknown_field"),
    ]:
        problem(admin("POST", verb, body), 400, code)
    dry = admin("POST", verb, {"buckets": 4, "dry_run": True})
    compare(health_replies.RepairPreview(), dry.json())
    told = dry.json()["resize"]
    assert (told["before"]["buckets"], told["after"]["buckets"]) == (1, 4)
    assert told["before"]["file_bytes"] == 70
    assert not world.jobs("repair")

    client = signed_in(django_user_model)
    page = client.get(f"/tables/{table}/health").content.decode()
    assert f'href="/tables/{table}/resize"' in page
    form = client.get(f"/tables/{table}/resize").content.decode()
    assert "has 1 bucket already" in form
    form = client.get(f"/tables/{table}/resize?buckets=4").content.decode()
    assert "4 buckets instead of 1" in form

    shape = {"buckets": 1, "file_groups": 1, "bytes": 70, "largest_bytes": 70}
    world.launcher.facts["repair"] = {
        "buckets": 4,
        "instant": LATER,
        "before": shape,
        "after": shape | {"buckets": 4},
    }
    assert client.post(f"/tables/{table}/resize", {"buckets": "4"}).status_code == 302
    world.until(lambda: world.jobs("repair")[-1].state == "SUCCEEDED")
    (job,) = world.jobs("repair")
    assert job.payload["repair"]["buckets"] == 4
    assert AuditEntry.objects.filter(action="table.resize").count() == 1
    body = admin("GET", f"tables/{table}").json()
    assert body["index"]["buckets"] == 4
    assert "4 buckets now" in client.get(f"/jobs/{job.pk}").content.decode()
    assert admin("POST", f"tables/{table}:sync").status_code == 202
    world.until(lambda: world.jobs("sync")[-1].state == "SUCCEEDED")
    assert buckets_of(world) == (4, 4, 4)


@pytest.mark.django_db
def test_a_resize_that_died_behind_its_commit_runs_again_to_compare(
    world, admin, table
) -> None:
    world.fail_with("repair", Fault.DIE_RUNNING)
    admin("POST", f"tables/{table}:resize", {"buckets": 4})
    (job,) = world.jobs("repair")
    commit(world, buckets=4, run=str(job.pk))
    world.until(lambda: world.jobs("repair")[-1].state == "SUCCEEDED")
    specs = [s for s in world.launcher.submitted if s.kind == "repair"]
    assert len(specs) == 2
    told = job.events.get(event="try_again").reason
    assert "left a commit that was not compared" in told
    admin("POST", f"tables/{table}:sync")
    world.until(lambda: world.jobs("sync")[-1].state == "SUCCEEDED")
    assert buckets_of(world) == (4, 4, 4)


@pytest.mark.django_db
def test_a_repair_that_dies_each_time_behind_its_commit_is_no_success(
    world, admin, table
) -> None:
    world.fail_with("repair", *[Fault.DIE_RUNNING] * 9)
    admin("POST", f"tables/{table}:resize", {"buckets": 4})
    (job,) = world.jobs("repair")
    commit(world, buckets=4, run=str(job.pk))
    world.until(lambda: world.jobs("repair")[-1].state == "FAILED")
    (job,) = world.jobs("repair")
    assert job.error_code == "driver_died"
    assert "a commit that was not compared" in job.error_message
    # nobody of elsewhere wrote those buckets; the commit of this test is of the future
    assert world.lake("orders").buckets == 4
    assert {issue["code"] for issue in see(world).issues} == {"future_commit"}


@pytest.mark.django_db
@pytest.mark.parametrize("how", first_then_long("refused", "cancelled"))
def test_rows_follow_a_lake_that_has_another_number(world, admin, table, how) -> None:
    if how == "cancelled":
        world.fail_with("repair", Fault.HANG)
        admin("POST", f"tables/{table}:resize", {"buckets": 4})
        world.until(lambda: world.jobs("repair")[-1].state == "RUNNING")
        commit(world, buckets=4)
        admin("POST", f"jobs/{world.jobs('repair')[-1].pk}:cancel")
        world.until(lambda: world.jobs("repair")[-1].state == "CANCELLED")
        assert world.lake("orders").buckets == 4
    else:
        # a database from a backup, say: the driver refuses, and is told the truth
        commit(world, buckets=4)
        world.launcher.errors["sync"] = ["identity_drift"]
    admin("POST", f"tables/{table}:sync")
    world.until(lambda: world.jobs("sync")[-1].state == "SUCCEEDED")
    assert buckets_of(world) == (4, 4, 4)
    assert world.pipeline("orders").state == "LIVE"


@pytest.mark.django_db
@pytest.mark.parametrize("is_compacted", [False, True])
def test_a_lake_that_went_back_takes_the_position_back(
    world, admin, table, is_compacted
) -> None:
    """A restore whose end was not reported, or files of a backup: commits are gone from
    the lake, and what is left may be compacted before anybody notices."""
    timeline = timeline_of(world)
    before = world.lake("orders").last_commit_epoch
    done = sorted(timeline.glob("*_*.deltacommit"))
    world.steps(3)
    admin("POST", f"tables/{table}:sync")
    world.until(lambda: world.jobs("sync")[-1].state == "SUCCEEDED")
    later = [p for p in timeline.glob("*_*.deltacommit") if p not in done]
    assert later
    newer = world.pipeline("orders").position
    epoch = world.lake("orders").last_commit_epoch
    for path in later:
        path.unlink()
    if is_compacted:
        compaction = timeline / f"{LATER}_{int(LATER) + 1}.commit"
        compaction.write_bytes(done[-1].read_bytes())
        (timeline / f"{LATER}.compaction.requested").touch()
    world.launcher.errors["sync"] = ["lake_went_back"]
    admin("POST", f"tables/{table}:sync")
    world.until(lambda: world.jobs("sync")[-1].state == "SUCCEEDED")
    syncs = [s.sync for s in world.launcher.submitted if s.sync]
    at = [work.low for work in syncs].index(newer)
    refused, again = syncs[at : at + 2]
    assert refused.behind == epoch > before
    assert again.low < newer
    assert again.behind == before
    datetime.fromisoformat(again.low)


def synced(world: Any, admin: Any, table: int) -> None:
    admin("POST", f"tables/{table}:sync")
    world.until(lambda: world.jobs("sync")[-1].state == "SUCCEEDED")


@pytest.mark.django_db
def test_a_table_whose_source_no_longer_reaches_back_needs_a_resync(
    world, admin, table
) -> None:
    done = next(timeline_of(world).glob("*_*.deltacommit")).name.partition("_")[0]
    (timeline_of(world) / f"{done}_{int(done) + 5}.savepoint").touch()
    world.launcher.facts["repair"] = {
        "restored": done,
        "instant": done,
        "epoch": 1,
        "position": {"to": "2026-01-01T00:00:00Z"},
        "reaches_back": False,
        "misses": ["The source no longer reaches back: column at is gone"],
    }
    admin("POST", f"tables/{table}:restore", {"instant": done})
    world.until(lambda: world.jobs("repair")[-1].state == "SUCCEEDED")
    pipeline = world.pipeline("orders")
    assert (pipeline.state, pipeline.due_at) == ("NEEDS_RESYNC", None)
    assert "column at is gone" in pipeline.status_reason
    admin("POST", f"tables/{table}:resync")
    world.until_live("orders")
