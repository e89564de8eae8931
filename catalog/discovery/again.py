"""Another go for a connection test or a discovery that failed or was cancelled."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.utils import timezone

from catalog import dispatch
from catalog.models import Datasource
from core.advance import advance
from core.errors import InvalidRequest, NotFound, StaleState
from core.jobs import TERMINAL
from core.jobs.pages import paged
from core.models import Job


def retry(job_id: UUID, by: str) -> Job:
    """Queue the job again, from its beginning.

    Not from where it stopped: another discovery may have looked at the source since,
    and this one would take what that one saw for vanished.
    NotFound, StaleState `already_queued`, IllegalTransition, or InvalidRequest when
    the datasource is gone.
    """
    try:
        with transaction.atomic():
            job = _locked(job_id)
            advance(
                job,
                "retry",
                actor=by,
                queued_at=timezone.now(),
                total=paged(job.kind).total,
                **_UNTRIED,
            )
            Job.objects.filter(pk=job.pk).update(reason="")
            job.reason = ""
            transaction.on_commit(lambda: dispatch.notify_worker(job.pk))
            return job
    except IntegrityError as error:
        raise _already_queued(job.subject) from error


_UNTRIED: dict[str, Any] = {
    "cursor": {},
    "report": None,
    "phase": "",
    "done": 0,
    "attempts": 0,
    "error_code": "",
    "error_message": "",
    "error_hint": "",
    "cancel_requested": "",
    "not_before": None,
    "started_at": None,
    "progress_at": None,
    "finished_at": None,
}


def _locked(job_id: UUID) -> Job:
    """The row, when its datasource is there and no other job does the same."""
    job = Job.objects.select_for_update().filter(pk=job_id).first()
    if job is None:
        raise NotFound("there is no such job", code="job_not_found")
    if not Datasource.objects.filter(pk=job.subject_id).exists():
        raise InvalidRequest(
            "the datasource %(name)s was removed",
            name=job.subject,
            code="not_now",
        )
    others = Job.objects.filter(kind=job.kind, exclusive_key=job.exclusive_key)
    if others.exclude(pk=job.pk).exclude(state__in=sorted(TERMINAL)).exists():
        raise _already_queued(job.subject)
    return job


def _already_queued(subject: str) -> StaleState:
    return StaleState(
        "another job of %(source)s that does the same waits or runs already",
        source=subject,
        code="already_queued",
        hint="look at the jobs of the source",
    )
