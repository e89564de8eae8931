"""How jobs are queued, claimed and ended, of whatever kind.

Each move writes the row, the sentence that people see on it and its event; an ending
adds the handler's consequences in the same transaction. The caller holds the row and
hands over what the handler locked for it. What an attempt needs beside its row (a
place, leases, a spec) its executor prepares within `try_claim`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction

from core.advance import advance_and_say, record_moves
from core.clock import SystemClock
from core.errors import SluiceError, StaleState, TransientError
from core.jobs import CANCELLING, PLANNED, QUEUED, WAITING
from core.jobs.handlers import UNKNOWN_KIND, Facts, handler_of
from core.models import Job

_now = SystemClock().now
# Within the caller's transaction, where there is one, at no statement more.
_atomic = functools.partial(transaction.atomic, savepoint=False)
NO_FACTS: Mapping[str, Any] = {}
# A job that is put off once more within so long still waits for the same: of many, a
# few are tried at a time.
SAME_WAIT = timedelta(seconds=300)


def move_job(
    job: Job, event: str, *, reason: str = "", actor: str = "", **changes: Any
) -> None:
    """`advance()` that also writes `job.reason`; the event row keeps it too."""
    advance_and_say(job, event, reason=reason, actor=actor, **changes)


# ------------------------------------------------------------------------- queue


def enqueue(jobs: list[Job]) -> list[Job]:
    """Store QUEUED jobs; where an equal one waits already, that one is returned."""
    with _atomic():
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


# ------------------------------------------------------------------------- claim


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


# --------------------------------------------------------------------------- end


def succeed(
    job: Job,
    subject: Any,
    facts: Facts,
    *,
    reason: str = "",
    **changes: Any,
) -> None:
    """End the job SUCCEEDED. `changes` are further columns of its row."""
    with _atomic():
        move_job(job, "succeed", reason=reason, finished_at=_now(), **changes)
        handler_of(job.kind).succeeded(job, subject, facts)


def fail(
    job: Job,
    subject: Any,
    error: SluiceError,
    facts: Facts = NO_FACTS,
    **changes: Any,
) -> None:
    """End the job FAILED."""
    with _atomic():
        _move_failed(job, "fail", error, **changes)
        handler_of(job.kind).failed(job, subject, error, facts)


def fail_or_retry(
    job: Job,
    subject: Any,
    error: SluiceError,
    facts: Facts = NO_FACTS,
) -> None:
    """Queue the job again after a pause when the error may pass and attempts are left,
    else end it FAILED."""
    handler = handler_of(job.kind)
    tried = handler.tried(job)
    if not isinstance(error, TransientError) or tried >= job.max_attempts:
        fail(job, subject, error, facts)
        return
    wait = handler.backoff.after(tried)
    try_again(
        job,
        subject,
        error,
        facts,
        wait=wait,
        reason=f"{error.message}; try {tried + 1} in {wait:.0f} s",
        attempts=tried,
        max_attempts=job.max_attempts,
    )


def try_again(
    job: Job,
    subject: Any,
    error: SluiceError,
    facts: Facts,
    *,
    wait: float,
    reason: str,
    **changes: Any,
) -> None:
    """Queue the job again; it is not claimed before `wait` seconds have passed."""
    later = _now() + timedelta(seconds=wait)
    with _atomic():
        move_job(job, "try_again", reason=reason, not_before=later, **changes)
        handler_of(job.kind).retried(job, subject, error, facts)


def end_cancelled(job: Job, subject: Any, facts: Facts, *, reason: str) -> None:
    """End a running job that was asked to stop. facts: of its last attempt."""
    asked = job.events.filter(event="request_cancel").last()
    with _atomic():
        move_job(job, "cancelled", finished_at=_now(), reason=reason)
        handler_of(job.kind).cancelled(
            job, subject, facts, actor=asked.actor if asked else ""
        )


def cancel(job: Job, subject: Any, *, reason: str, actor: str = "") -> None:
    """End a waiting job that is not wanted any more."""
    with _atomic():
        move_job(job, "cancel", reason=reason, actor=actor, finished_at=_now())
        handler_of(job.kind).cancelled(job, subject, None, actor=actor)


def reject(job: Job, subject: Any, error: SluiceError) -> None:
    """End a waiting job that cannot run any more; one that is only not wanted now is
    cancelled."""
    if error.code == "not_now":
        move_job(job, "cancel", reason=error.message, finished_at=_now())
        return
    with _atomic():
        _move_failed(job, "reject", error)
        handler_of(job.kind).rejected(job, subject, error)


def end_unknown(job: Job, error: SluiceError) -> None:
    """End a job of a kind that this release does not know, without consequences:
    CANCELLED when that was requested, else FAILED."""
    if job.state == CANCELLING:
        move_job(job, "cancelled", reason=error.message, finished_at=_now())
        return
    _move_failed(job, "reject" if job.state in WAITING else "fail", error)


def put_off(job_id: UUID, error: SluiceError) -> None:
    """Let a job that was refused before anything ran wait, or end it for good."""
    with transaction.atomic():
        job = Job.objects.select_for_update().get(pk=job_id)
        if job.state != QUEUED:
            return
        if isinstance(error, TransientError):
            wait = handler_of(job.kind).backoff.after(3)
            wait_on(job, reason=str(error), seconds=wait)
        elif error.code == UNKNOWN_KIND:
            end_unknown(job, error)
        else:
            reject(job, handler_of(job.kind).lock(job), error)


def wait_on(job: Job, *, reason: str, seconds: float) -> None:
    """Let a QUEUED job that cannot begin now wait; its row keeps since when it has
    been put off again and again. The caller holds the row."""
    now = _now()
    handle, last = job.handle, job.not_before
    if last is None or last < now - SAME_WAIT or "put_off_since" not in handle:
        handle = handle | {"put_off_since": now.isoformat()}
    later = now + timedelta(seconds=seconds)
    Job.objects.filter(pk=job.pk).update(reason=reason, not_before=later, handle=handle)


def _move_failed(job: Job, event: str, error: SluiceError, **changes: Any) -> None:
    move_job(
        job,
        event,
        reason=error.message,
        finished_at=_now(),
        error_code=error.code,
        error_message=error.message,
        error_hint=error.hint,
        **changes,
    )
