"""Which jobs get a driver of their own, and the leases that they need for it."""

from __future__ import annotations

from django.conf import settings

from core.models import Job
from ingest.jobs.driver_jobs import DriverJob
from ingest.lake.fence import Scope
from ingest.lake.hudi.identity import shares_lock
from ingest.models import Pipeline

DEATHS_BEFORE_ISOLATION = 2


def is_isolated(job: Job, pipeline: Pipeline) -> bool:
    return (
        settings.SLUICE_LAUNCHER == "submit"
        or job.payload.get("deaths", 0) >= DEATHS_BEFORE_ISOLATION
        or bool(job.payload.get("driver"))
        or bool(pipeline.alone_reason)
    )


def scopes_of(handler: DriverJob, pipeline: Pipeline) -> tuple[Scope, ...]:
    """Of a job in a driver of its own. Such drivers share no lock in memory: they take
    the whole table, unless it has a lock that all of them know."""
    lake = pipeline.lake_table
    is_shared = lake is not None and shares_lock(lake.identity)
    return handler.scopes if is_shared else ("write", "service")


def run_alone(pipeline: Pipeline, why: str) -> None:
    """From now on its jobs get processes of their own: what ends those ends nothing
    of other tables."""
    if pipeline.alone_reason:
        return
    Pipeline.objects.filter(pk=pipeline.pk).update(alone_reason=why)
    pipeline.alone_reason = why
