"""Compactions in a driver of their own: who may, how large, and what goes on beside."""

from __future__ import annotations

import pytest

from ingest.contract.job import DriverSpec
from ingest.lake.fence import fence_at, fence_path
from ingest.lake.place import place_at
from ingest.maintenance import compact_job
from ingest.models import Pipeline
from ingest.pipelines import sync_job
from ingest.scheduler import tick
from tests.doubles.launcher import Fault
from tests.integration.catalog.conftest import *  # noqa: F403  the same people

pytestmark = pytest.mark.django_db

OWN = {"driver": "own", "memory": "2G", "cores": 2}


@pytest.fixture
def shared(world, settings):
    """orders and items, live, with a lock that drivers share."""
    settings.SLUICE_LAKE_LOCK = "zk:2181/sluice"
    world.live("orders", "items")
    return world


def compact(admin, world, name: str, body: object = None):
    return admin("POST", f"tables/{world.lake(name).pk}:compact", body)


def state(job) -> str:
    job.refresh_from_db()
    return job.state


def test_ingest_and_other_work_go_on_beside_it(shared, admin) -> None:
    shared.fail_with("compact", Fault.HANG)
    made = compact(admin, shared, "orders", OWN)
    assert made.status_code == 202, made.content
    (job,) = shared.jobs("compact")
    shared.until(lambda: state(job) == "RUNNING")
    assert shared.launcher.isolated == [str(job.pk)]
    assert job.handle["scopes"] == ["service"]
    spec = next(s for s in shared.launcher.submitted if s.kind == "compact")
    assert spec.driver == DriverSpec("2g", 2)
    assert spec.lane == "maintenance"

    sync_job.start_sync(shared.pipeline("orders"), actor="ann")
    before = len([j for j in shared.jobs("sync") if j.state == "SUCCEEDED"])
    shared.until(
        lambda: sum(j.state == "SUCCEEDED" for j in shared.jobs("sync")) > before
    )
    assert compact(admin, shared, "items").status_code == 202
    shared.until(lambda: state(shared.jobs("compact")[1]) == "SUCCEEDED")
    assert state(job) == "RUNNING"


def test_its_death_shuts_out_nobody_but_itself(shared, admin) -> None:
    shared.fail_with("compact", Fault.DIE_RUNNING)
    table = shared.lake("orders").pk
    lake = place_at(shared.lake("orders").path).uri.rpartition("/shop/")[0]
    places = {s: fence_path(lake, table, s) for s in ("write", "service")}
    compact(admin, shared, "orders", OWN)
    (job,) = shared.jobs("compact")
    shared.until(lambda: state(job) == "RUNNING")
    tokens = {s: fence_at(place) for s, place in places.items()}
    shared.until(lambda: state(job) == "SUCCEEDED")
    assert job.attempts == 2
    assert job.handle["isolated"] is True
    specs = [s for s in shared.launcher.submitted if s.kind == "compact"]
    assert [s.driver for s in specs] == [DriverSpec("2g", 2)] * 2
    assert fence_at(places["service"]) > tokens["service"] + 1
    syncs = [j for j in shared.jobs("sync") if j.subject_id == str(table)]
    assert {j.state for j in syncs} == {"SUCCEEDED"}
    assert all(j.attempts == 1 for j in syncs)


def test_only_where_drivers_share_the_lock(world, admin) -> None:
    world.live("orders")
    refused = compact(admin, world, "orders", OWN)
    assert refused.status_code == 400
    assert refused.json()["code"] == "lock_not_shared"
    assert "SLUICE_LAKE_LOCK" in refused.json()["hint"]
    assert not world.jobs("compact")
    assert compact(admin, world, "orders", {"driver": "shared"}).status_code == 202
    # a setting of its whole datasource does not concern it
    policy = {"compact_driver": {"memory": "1g", "cores": 1}}
    assert admin("PATCH", "datasources/shop/policy", policy).status_code == 200
    compact_job.start_compaction(world.lake("orders"), actor="schedule")
    (job,) = world.jobs("compact")
    assert "driver" not in job.payload


def test_a_policy_decides_when_nobody_says_anything(shared, admin, settings) -> None:
    settings.SLUICE_OWN_DRIVER_CORES = 2
    policy = {"compact_driver": {"memory": "1g", "cores": 8}}
    assert admin("PATCH", "datasources/shop/policy", policy).status_code == 200
    shared.fail_with("compact", Fault.HANG)
    compact_job.start_compaction(shared.lake("orders"), actor="schedule")
    (job,) = shared.jobs("compact")
    assert job.payload["driver"] == {"memory": "1g", "cores": 2}
    # the same one, while it waits, in another driver
    assert compact(admin, shared, "orders", {"driver": "shared"}).status_code == 202
    job.refresh_from_db()
    assert (job.lane, "driver" in job.payload) == ("maintenance", False)
    assert compact(admin, shared, "orders", {"driver": "own"}).status_code == 202
    job.refresh_from_db()
    assert (job.lane, job.payload["driver"]["memory"]) == ("own", "4g")
    tick.Ticking().tick()


def test_sizes_are_checked(shared, admin) -> None:
    for body, pointer in (
        ({"driver": "own", "memory": "64g"}, "/memory"),
        ({"driver": "own", "memory": "1"}, "/memory"),
        ({"driver": "own", "memory": "100m"}, "/memory"),
        ({"driver": "own", "memory": 4}, "/memory"),
        ({"driver": "own", "cores": 99}, "/cores"),
        ({"driver": "own", "cores": 0}, "/cores"),
        ({"driver": "own", "cores": True}, "/cores"),
        ({"driver": "mine"}, "/driver"),
        ({"driver": "shared", "cores": 1}, "/driver"),
        ({"executors": 4}, "/executors"),
    ):
        refused = compact(admin, shared, "orders", body)
        assert refused.status_code == 400, body
        assert refused.json()["errors"][0]["pointer"] == pointer
    assert not shared.jobs("compact")


def test_jobs_alone_take_what_they_need_under_a_shared_lock(world, settings) -> None:
    world.onboard("plain")
    settings.SLUICE_LAKE_LOCK = "zk:2181/sluice"
    world.onboard("shared")
    Pipeline.objects.update(alone_reason="it ended the shared driver")
    world.until_live("plain", "shared")
    scopes = {j.subject: j.handle["scopes"] for j in world.jobs("sync")}
    assert scopes == {
        "lake.shop.plain": ["write", "service"],
        "lake.shop.shared": ["write"],
    }
