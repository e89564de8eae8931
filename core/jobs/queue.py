"""Queueing jobs, of whatever kind: many at once, and an equal one that waits once."""

from __future__ import annotations

from django.db import transaction

from core.advance import record_moves
from core.errors import StaleState
from core.jobs import PLANNED, WAITING
from core.models import Job


def enqueue(jobs: list[Job]) -> list[Job]:
    """Store QUEUED jobs; where an equal one waits already, that one is returned."""
    with transaction.atomic(savepoint=False):
        Job.objects.bulk_create(jobs, ignore_conflicts=True, batch_size=500)
        stored = set(
            Job.objects.filter(pk__in=[j.pk for j in jobs]).values_list("pk", flat=True)
        )
        if fresh := [job for job in jobs if job.pk in stored]:
            record_moves(fresh, "enqueue", before=PLANNED, actor=jobs[0].requested_by)
    return [job if job.pk in stored else _waiting_twin(job) for job in jobs]


def _waiting_twin(job: Job) -> Job:
    twin = Job.objects.filter(
        exclusive_key=job.exclusive_key, kind=job.kind, state__in=WAITING
    ).first()
    if twin is None:
        raise StaleState(
            f"another {job.kind} of {job.subject} has just started",
            hint="look at the table's jobs and ask again if need be",
        )
    return twin
