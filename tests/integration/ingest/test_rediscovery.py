"""Sources with carried tables are discovered again by themselves."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from catalog.models import Datasource
from core.models import Job
from ingest.pipelines.rediscovery import discover_again
from ingest.scheduler import tick

OLD = timedelta(hours=2)


def discovered(ago: timedelta) -> None:
    Datasource.objects.update(discovered_at=Now() - ago)


@pytest.mark.django_db
def test_a_source_is_discovered_again_each_hour(world: Any, settings: Any) -> None:
    discovered(OLD)
    assert discover_again() == 0, "nothing of it is synced"
    world.onboard("orders")
    world.until_live("orders")
    discovered(timedelta(minutes=59))
    assert discover_again() == 0
    discovered(OLD)
    settings.SLUICE_DISCOVER_SECONDS = 0.0
    assert discover_again() == 0
    settings.SLUICE_DISCOVER_SECONDS = 3600.0
    assert discover_again() == 1
    job = Job.objects.get(kind="discover")
    assert (job.subject_id, job.requested_by) == (str(world.source.pk), "schedule")
    # one that failed is not asked all the time either
    Job.objects.filter(pk=job.pk).update(state="FAILED", finished_at=Now())
    assert discover_again() == 0
    Job.objects.filter(pk=job.pk).update(created_at=Now() - OLD)
    assert discover_again() == 1


@pytest.mark.django_db
def test_discoveries_that_came_by_themselves_are_forgotten(world: Any) -> None:
    for who in ("schedule", "ann"):
        Job.objects.create(
            kind="discover",
            subject="shop",
            subject_id=str(world.source.pk),
            state="SUCCEEDED",
            requested_by=who,
            finished_at=Now() - timedelta(days=3),
        )
    tick.prune()
    assert [job.requested_by for job in Job.objects.all()] == ["ann"]
