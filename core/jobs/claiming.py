"""Taking a job from its queue, of whatever kind, so that nobody else has it.

What an attempt needs beside its row (a place, leases, a spec) its executor prepares in
the same transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction

from core.errors import SluiceError, StaleState
from core.jobs import QUEUED
from core.jobs.endings import put_off
from core.jobs.handlers import handler_of
from core.jobs.moves import move_job
from core.models import Job


@dataclass(frozen=True, slots=True)
class Claim:
    """An attempt that may begin: what the job works for, and columns of its row."""

    subject: Any
    changes: Mapping[str, Any]


def try_claim(job_id: UUID, prepare: Callable[[Job], Claim | None]) -> Job | None:
    """Move a QUEUED job to LAUNCHING; None when another one took it or it must wait.

    prepare  called with the locked row; None = not now, and the row says why. What it
             raises lets the job wait (TransientError) or ends it
    """
    try:
        with transaction.atomic():
            rows = Job.objects.select_for_update(skip_locked=True)
            job = rows.filter(pk=job_id, state=QUEUED).first()
            if job is None:
                return None
            handler = handler_of(job.kind)
            claim = prepare(job)
            if claim is None:
                return None
            move_job(job, "claim", **claim.changes)
            handler.claimed(job, claim.subject)
            return job
    except (IntegrityError, StaleState):
        return None  # another process was first
    except SluiceError as error:
        put_off(job_id, error)
        return None
