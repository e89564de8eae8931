"""Moving a job row together with the sentence that people see on it."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from core.advance import advance
from core.models import Job


def move_job(
    job: Job, event: str, *, reason: str = "", actor: str = "", **changes: Any
) -> None:
    """`advance()` that also writes `job.reason`; the event row keeps it too."""
    with transaction.atomic():
        advance(job, event, reason=reason, actor=actor, **changes)
        Job.objects.filter(pk=job.pk).update(reason=reason)
        job.reason = reason
