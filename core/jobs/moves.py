"""Kinds of jobs as values, and how jobs of any kind are queued, claimed and ended.

A kind is registered once, under the name that rows store, when its app is ready.

Each move writes the row, the sentence that people see on it and its event, and nothing
else. The caller holds the row's lock. What ends an attempt returns its `End`, which the
caller gives to `conclude` in the same transaction: so the row and what follows from it
are stored together.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, TypeVar
from uuid import UUID

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from core.advance import advance_and_say, record_moves
from core.errors import (
    InvalidRequest,
    SluiceError,
    StaleState,
    TerminalError,
    TransientError,
)
from core.jobs import CANCELLING, PLANNED, QUEUED, WAITING
from core.models import Job
from core.retries import Backoff
from core.sentences import Sentence

# `Job.requested_by` of what a schedule has brought about.
SCHEDULE: Final = "schedule"
# What the report of an attempt contains, for the services above.
Facts = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Succeeded:
    facts: Facts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Failed:
    """For good, after at least one attempt."""

    error: SluiceError
    facts: Facts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rejected:
    """Failed before it was tried."""

    error: SluiceError


@dataclass(frozen=True, slots=True)
class Retried:
    """An attempt has failed, and another one follows."""

    error: SluiceError
    facts: Facts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cancelled:
    """facts: of its last attempt; None = it did not run."""

    facts: Facts | None = None
    actor: str = ""


End = Succeeded | Failed | Rejected | Retried | Cancelled


def _nothing(job: Job, end: End) -> None:
    """What most kinds in pages do at an end."""


def _not_again(job_id: UUID, by: str) -> Job:
    raise InvalidRequest("jobs of this kind are not retried", code="not_now")


def _no_facts(job: Job) -> Mapping[str, Any]:
    return {}


_BACKOFF: Final = Backoff(2.0, 300.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobKind:
    """One kind.

    name          as `Job.kind` stores it
    title         for people, in English
    max_attempts  how often it is tried before it fails
    backoff       the pauses between attempts
    outcome       what an end means; called within the transaction of the job's move
    forgotten     which ended jobs are deleted by age, because there are so many of
                  them; None = all are kept
    cannot_stop   why a running job cannot be cancelled; "" = it can
    again         queues a job that failed or was cancelled once more: (id, by whom)
    about         what the audit keeps of a job beside its id
    """

    name: str
    title: str
    max_attempts: int = 4
    backoff: Backoff = _BACKOFF
    outcome: Callable[[Job, End], None] = _nothing
    forgotten: Q | None = None
    cannot_stop: str = ""
    again: Callable[[UUID, str], Job] = _not_again
    about: Callable[[Job], Mapping[str, Any]] = _no_facts


# Of kinds of sources, `unknown_kind` says the same.
UNKNOWN_KIND = "unknown_job_kind"
_registered: dict[str, JobKind] = {}
K = TypeVar("K", bound=JobKind)


def register(*kinds: JobKind) -> None:
    """Make kinds known; `AppConfig.ready` of the package that they belong to does."""
    for kind in kinds:
        if _registered.setdefault(kind.name, kind) != kind:
            raise ValueError(f"two kinds of jobs are called {kind.name}")


def kind_of(name: str) -> JobKind:
    """Return the kind of this name; TerminalError `unknown_job_kind`."""
    try:
        return _registered[name]
    except KeyError:
        raise TerminalError(
            "'%(name)s' is no kind of job",
            registered=", ".join(_registered),
            name=name,
            code=UNKNOWN_KIND,
            hint="known are: %(registered)s; a job that a newer release stored"
            " has to be ended by that release",
        ) from None


def kinds_of(form: type[K]) -> tuple[K, ...]:
    """Return all kinds of this form, as registered; `JobKind`: all."""
    return tuple(each for each in _registered.values() if isinstance(each, form))


def names_of(form: type[JobKind]) -> tuple[str, ...]:
    return tuple(kind.name for kind in kinds_of(form))


def conclude(job: Job, end: End | None) -> None:
    """Apply what this end of the job means, by its kind; None: it means nothing. Must
    run in the transaction of the job's move."""
    if end is not None:
        kind_of(job.kind).outcome(job, end)


# Within the caller's transaction, where there is one, at no statement more.
_atomic = functools.partial(transaction.atomic, savepoint=False)
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
            "another %(kind)s of %(subject)s has just started",
            kind=Sentence(job.kind),
            subject=job.subject,
            hint="look at the table's jobs and ask again if need be",
        )
    return twin


# ------------------------------------------------------------------------- claim


def lock_queued(job_id: UUID) -> Job | None:
    """Return the row of a QUEUED job, locked; None when another process has it or it
    has begun."""
    rows = Job.objects.select_for_update(skip_locked=True)
    return rows.filter(pk=job_id, state=QUEUED).first()


def claim(job: Job, **changes: Any) -> None:
    """Begin an attempt. IntegrityError while another job with its key is active."""
    move_job(job, "claim", **changes)


def put_off(job: Job, error: SluiceError) -> Rejected | None:
    """Let a job that was refused before anything ran wait, or end it for good."""
    if job.state != QUEUED:
        return None
    if isinstance(error, TransientError):
        wait_on(job, reason=error.as_sentence, seconds=pause_after(job, 3))
    elif error.code == UNKNOWN_KIND:
        end_unknown(job, error)
    else:
        return reject(job, error)
    return None


# --------------------------------------------------------------------------- end


def succeed(job: Job, facts: Facts, *, reason: str = "", **changes: Any) -> Succeeded:
    """End the job SUCCEEDED. `changes` are further columns of its row."""
    move_job(job, "succeed", reason=reason, finished_at=timezone.now(), **changes)
    return Succeeded(facts)


def fail(
    job: Job, error: SluiceError, facts: Facts | None = None, **changes: Any
) -> Failed:
    _move_failed(job, "fail", error, **changes)
    return Failed(error, facts or {})


def fail_or_retry(
    job: Job, error: SluiceError, facts: Facts | None = None, *, tried: int
) -> Failed | Retried:
    """Queue the job again after a pause when the error may pass and attempts are left,
    else end it FAILED. tried: attempts it has had, the present one included."""
    if not isinstance(error, TransientError) or tried >= job.max_attempts:
        return fail(job, error, facts)
    wait = pause_after(job, tried)
    return try_again(
        job,
        error,
        facts or {},
        wait=wait,
        reason=Sentence(
            "%(error)s; try %(tried)s in %(wait)s s",
            error=error.message,
            tried=tried + 1,
            wait=f"{wait:.0f}",
        ),
        attempts=tried,
        max_attempts=job.max_attempts,
    )


def pause_after(job: Job, failures: int) -> float:
    """Return the seconds that the job's kind waits after so many failures in a row."""
    return kind_of(job.kind).backoff.after(failures)


def try_again(
    job: Job,
    error: SluiceError,
    facts: Facts,
    *,
    wait: float,
    reason: str,
    **changes: Any,
) -> Retried:
    """Queue the job again; it is not claimed before `wait` seconds have passed."""
    later = timezone.now() + timedelta(seconds=wait)
    move_job(job, "try_again", reason=reason, not_before=later, **changes)
    return Retried(error, facts)


def end_cancelled(job: Job, facts: Facts, *, reason: str) -> Cancelled:
    """End a running job that was asked to stop. facts: of its last attempt."""
    asked = job.events.filter(event="request_cancel").last()
    move_job(job, "cancelled", finished_at=timezone.now(), reason=reason)
    return Cancelled(facts, asked.actor if asked else "")


def cancel(job: Job, *, reason: str, actor: str = "") -> Cancelled:
    """End a waiting job that is not wanted any more."""
    move_job(job, "cancel", reason=reason, actor=actor, finished_at=timezone.now())
    return Cancelled(actor=actor)


def reject(job: Job, error: SluiceError) -> Rejected | None:
    """End a waiting job that cannot run any more; one that is only not wanted now is
    cancelled, which means nothing for its table."""
    if error.code == "not_now":
        move_job(job, "cancel", reason=error.message, finished_at=timezone.now())
        return None
    _move_failed(job, "reject", error)
    return Rejected(error)


def end_unknown(job: Job, error: SluiceError) -> None:
    """End a job of a kind that this release does not know, without consequences:
    CANCELLED when that was requested, else FAILED."""
    if job.state == CANCELLING:
        move_job(job, "cancelled", reason=error.message, finished_at=timezone.now())
        return
    _move_failed(job, "reject" if job.state in WAITING else "fail", error)


def wait_on(job: Job, *, reason: str, seconds: float) -> None:
    """Let a QUEUED job that cannot begin now wait; its row keeps since when it has
    been put off again and again. The caller holds the row."""
    now = timezone.now()
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
        finished_at=timezone.now(),
        error_code=error.code,
        error_message=error.message,
        error_hint=error.hint,
        **changes,
    )
