"""Jobs that wait for a table's lease: they hold up no other table, and keep nothing."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db.models.functions import Now

from core.leases import take_lease
from core.models import Lease
from ingest.jobs import leases, queue
from ingest.maintenance import compact_job
from tests.integration.catalog.conftest import *  # noqa: F403  the same people

NAMES = ("first", "second", "third")


def hold(world: Any, name: str) -> None:
    lease = leases.lease_name(world.lake(name).pk, leases.SERVICE)
    assert take_lease(lease, owner="a long resync", seconds=600)


def is_live(name: str) -> bool:
    rows = Lease.objects.filter(name=name, expires_at__gt=Now())
    return rows.exclude(owner="").exists()


@pytest.mark.django_db
def test_jobs_that_wait_for_a_lease_do_not_fill_their_lane(world: Any) -> None:
    world.onboard(*NAMES)
    world.until_live(*NAMES)
    for name in NAMES[:2]:
        hold(world, name)
    for name in NAMES:
        compact_job.start_compaction(world.lake(name), actor="x")
    world.until(lambda: world.jobs("compact")[-1].state == "SUCCEEDED")
    for job in world.jobs("compact")[:2]:
        assert (job.state, job.reason) == ("QUEUED", "waiting for the table's lease")
    Lease.objects.filter(owner="a long resync").update(expires_at=Now())
    world.until(lambda: all(j.state == "SUCCEEDED" for j in world.jobs("compact")))


@pytest.mark.django_db
def test_who_gets_one_of_two_leases_keeps_none(
    world: Any, admin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It came between the look at the leases and the claim."""
    world.onboard("first")
    world.until_live("first")
    table, next_in = world.lake("first").pk, queue.next_in

    def taken_then(lane: str, *, without: Collection[UUID]) -> UUID | None:
        found = next_in(lane, without=without)
        if found is not None:
            hold(world, "first")
        return found

    monkeypatch.setattr(queue, "next_in", taken_then)
    assert admin("POST", f"tables/{table}:clean").status_code == 202
    world.until(lambda: is_live(leases.lease_name(table, leases.SERVICE)))
    (job,) = world.jobs("repair")
    assert (job.state, job.reason) == ("QUEUED", "waiting for the table's lease")
    assert not is_live(leases.lease_name(table, leases.WRITE))


@pytest.mark.django_db
def test_a_lease_that_ended_is_renewed_while_nobody_has_it() -> None:
    """The database was away for longer than a lease lasts."""
    name = leases.lease_name(7, leases.SERVICE)
    assert take_lease(name, owner="job 1", seconds=60)
    Lease.objects.update(expires_at=Now() - timedelta(seconds=1))
    leases.renew(["job 1"])
    assert is_live(name)
    assert take_lease(name, owner="job 2", seconds=60) is None
    Lease.objects.update(expires_at=Now() - timedelta(seconds=1))
    assert take_lease(name, owner="job 2", seconds=60)
    leases.renew(["job 1"])
    assert Lease.objects.get(name=name).owner == "job 2"
