"""Kinds that a worker executes in pages, with the cursor on the row as only memory.

Each call of `advance` may be the first or the tenth for the same page, in any process,
and may die at any line: what counts is what was saved with the row, in one transaction.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import IntegrityError, OperationalError, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from core import jobs
from core.database_errors import is_away
from core.errors import (
    IllegalTransition,
    SluiceError,
    StaleState,
    TerminalError,
    TransientError,
)
from core.jobs import moves, page_marks
from core.jobs.moves import (
    End,
    Facts,
    JobKind,
    Retried,
    conclude,
    kind_of,
    kinds_of,
    move_job,
    names_of,
)
from core.models import Job, JobLog
from core.redaction import redact

log = logging.getLogger(__name__)

SILENT_SECONDS = 10
MOST_NOTIFIED = 200
MOST_IN_BEAT = 20
CANCELLED = "cancelled on request"
_notified: dict[UUID, datetime] = {}
_Position = tuple[datetime, UUID]
_last_in_beat: _Position | None = None
_last_notified: _Position | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """The job has ended well. changes: further columns of its row."""

    facts: Facts = field(default_factory=dict)
    changes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class More:
    """This page is saved, and another one follows."""


@dataclass(frozen=True, slots=True)
class Waits:
    """Nothing came of this page; a later one goes on."""

    reason: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The job has failed for good."""

    error: SluiceError
    changes: Mapping[str, Any] = field(default_factory=dict)


Outcome = Done | More | Waits | Failed


def _always(job: Job) -> bool:
    return True


def _nothing(job: Job) -> None:
    """There is nothing to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PagedKind(JobKind):
    """A kind in pages: `read` outside of transactions, `save` in the one of its move.

    `Job.attempts` counts the failures since the last page that was saved.

    unit, total   what its progress counts, and how many there are; None = not known
    runs_in_beat  its pages end within seconds, whatever another server does: the beat
                  executes them. Workers are notified of others
    admit         whether the job may begin; a row that waits has the reason
    read          what `save` needs and may take long to get; None = nothing
    save          does the page. The row is locked, and as it was when `read` began
    saved         the page is durable; called outside of its transaction
    notify        asks a worker for the next page; whether the broker took the message
    left          no page of the job follows now: another one may have its place
    """

    unit: str = ""
    total: int | None = None
    runs_in_beat: bool = False
    admit: Callable[[Job], bool] = _always
    read: Callable[[Job], Any] = _nothing
    save: Callable[[Job, Any], Outcome]
    saved: Callable[[Job], None] = _nothing
    notify: Callable[[UUID], bool]
    left: Callable[[Job], None] = _nothing


def paged(name: str) -> PagedKind:
    """Return a kind in pages; TerminalError for any other kind."""
    kind = kind_of(name)
    if not isinstance(kind, PagedKind):
        raise TerminalError(
            "a job of kind %(kind)s is not done in pages",
            kind=name,
            code="not_paged",
        )
    return kind


def advance(job_id: UUID) -> bool:
    """Do the next page of a job and notify for the one after; whether it came further.

    Harmless on a job that is finished, busy elsewhere, or gone.
    """
    try:
        job = Job.objects.filter(pk=job_id, kind__in=names_of(PagedKind)).first()
        if job is None or job.is_finished or (running := _running(job)) is None:
            return False
        return _next_page(running, paged(job.kind))
    except (StaleState, IllegalTransition):
        log.info("another worker moved it first", extra={"job_id": str(job_id)})
        return False


def due(now: datetime) -> QuerySet[Job]:
    """Return jobs to notify workers of: none has touched them for a while. One that a
    worker died with is among them: its page is done again."""
    silent = now - timedelta(seconds=SILENT_SECONDS)
    kinds = [each.name for each in kinds_of(PagedKind) if not each.runs_in_beat]
    return (
        Job.objects.filter(kind__in=kinds, state__in=jobs.UNFINISHED)
        .filter(Q(not_before=None) | Q(not_before__lte=now))
        .filter(
            Q(progress_at=None)
            | Q(progress_at__lte=silent)
            | Q(not_before__lte=now)
            | Q(state=jobs.CANCELLING)
        )
    )


def notify_due() -> int:
    """Notify workers of due jobs, so many at a time, in turn; how many messages the
    broker took.

    For a job that no worker takes one message is sent in SILENT_SECONDS per process,
    so that messages do not pile up while no worker runs.
    """
    global _last_notified  # whose turn it was is a matter of this process alone
    now = timezone.now()
    silent = now - timedelta(seconds=SILENT_SECONDS)
    turn = _turn(due(now), _last_notified, MOST_NOTIFIED)
    _last_notified = turn[-1] if len(turn) == MOST_NOTIFIED else None
    found = [job_id for _, job_id in turn if _notified.get(job_id, silent) <= silent]
    for job_id in [known for known, at in _notified.items() if at <= silent]:
        del _notified[job_id]
    _notified.update(dict.fromkeys(found, now))
    kinds = dict(Job.objects.filter(pk__in=found).values_list("pk", "kind"))
    return sum(paged(kinds[pk]).notify(pk) for pk in found if pk in kinds)


def advance_in_beat() -> int:
    """Give unfinished jobs whose pages are short one of them, so many at a time, in
    turn: those that have to wait keep no other from it. How many moved on."""
    global _last_in_beat  # whose turn it was is a matter of this process alone
    kinds = [each.name for each in kinds_of(PagedKind) if each.runs_in_beat]
    rows = Job.objects.filter(kind__in=kinds, state__in=jobs.UNFINISHED)
    turn = _turn(rows, _last_in_beat, MOST_IN_BEAT)
    _last_in_beat = turn[-1] if len(turn) == MOST_IN_BEAT else None
    return sum(_advance_alone(pk) for _, pk in turn)


def _turn(rows: QuerySet[Job], last: _Position | None, most: int) -> list[_Position]:
    """The next jobs behind the last one whose turn it was, oldest first; behind the
    newest the oldest come again."""
    oldest = rows.order_by("created_at", "pk").values_list("created_at", "pk")
    turn: list[_Position] = []
    if last is not None:
        at, pk = last
        behind = Q(created_at__gt=at) | Q(created_at=at, pk__gt=pk)
        turn = list(oldest.filter(behind)[:most])
    return turn or list(oldest[:most])


def _advance_alone(job_id: UUID) -> bool:
    try:
        return advance(job_id)
    except Exception as error:
        if is_away(error):
            raise
        log.exception("a page failed", extra={"job_id": str(job_id)})
        return False


def _running(job: Job) -> Job | None:
    """Bring the job to RUNNING if it may run now; None when there is nothing to do."""
    now = timezone.now()
    if job.cancel_requested or job.state == jobs.CANCELLING:
        with transaction.atomic():
            if job.state in jobs.WAITING:
                conclude(job, moves.cancel(job, reason=CANCELLED))
            else:
                conclude(job, moves.end_cancelled(job, {}, reason=CANCELLED))
        return None
    if job.not_before and job.not_before > now:
        return None
    if job.state == jobs.PLANNED:
        move_job(job, "enqueue", queued_at=now)
    if job.state == jobs.QUEUED:
        claimed = _claim(job.pk)
        if claimed is None:
            return None
        job = claimed
    if job.state in {jobs.LAUNCHING, jobs.UNKNOWN}:
        move_job(job, "accepted", progress_at=now)
    return job if job.state == jobs.RUNNING else None


def _claim(job_id: UUID) -> Job | None:
    """Move a QUEUED job to LAUNCHING; None when another worker took it or it waits."""
    try:
        with transaction.atomic():
            job = moves.lock_queued(job_id)
            if job is None or not paged(job.kind).admit(job):
                return None
            started = job.started_at or timezone.now()
            moves.claim(job, started_at=started, not_before=None)
            return job
    except (IntegrityError, StaleState):
        return None  # another process was first
    except SluiceError as error:
        with transaction.atomic():
            refused = Job.objects.select_for_update().get(pk=job_id)
            conclude(refused, moves.put_off(refused, error))
        return None


def _next_page(job: Job, kind: PagedKind) -> bool:
    """A page that the beat executes costs no mark: it ends within seconds, no message
    asks for it, and of two beats at once the lock of its row lets one through."""
    if kind.runs_in_beat:
        outcome = _do_page(job, kind)
    else:
        is_cut_off = page_marks.was_cut_off(job)
        if not page_marks.begin(job, timezone.now()):
            return False
        try:
            outcome = _do_page(job, kind, is_cut_off=is_cut_off)
        finally:
            page_marks.end(job)
    if isinstance(outcome, More):
        kind.notify(job.pk)
    else:
        kind.left(job)
    return outcome is not None and not isinstance(outcome, Waits)


def _do_page(job: Job, kind: PagedKind, *, is_cut_off: bool = False) -> Outcome | None:
    """One page; a transient failure waits for another try, others end the job: None.

    is_cut_off  the page was begun before and ended the process that was at it
    """
    before = dict(job.cursor)
    try:
        if is_cut_off:
            raise _cut_off()
        found = kind.read(job)
        with transaction.atomic():
            # where nothing was read nothing is lost by leaving it to who holds the row
            rows = Job.objects.select_for_update(skip_locked=found is None)
            locked = rows.filter(pk=job.pk).first()
            if (
                locked is None
                or locked.state != jobs.RUNNING
                or locked.cursor != before
            ):
                raise StaleState(
                    "job %(id)s was moved while its page was read", id=job.pk
                )
            outcome = kind.save(locked, found)
            conclude(locked, _end(locked, outcome))
            page_marks.take_off(job)
    except (StaleState, IllegalTransition):
        raise
    except SluiceError as error:
        _fail_page(job, error)
        return None
    except Exception as error:
        if is_away(error):
            raise
        log.exception("a page of a %s failed", job.kind, extra={"job_id": str(job.pk)})
        _fail_page(job, _unforeseen(error))
        return None
    kind.saved(locked)
    return outcome


def _fail_page(job: Job, error: SluiceError) -> None:
    _log(job, error)
    with transaction.atomic():
        end = moves.fail_or_retry(job, error, tried=job.attempts + 1)
        if isinstance(end, Retried):
            # the row shows what went wrong until a page is saved again
            Job.objects.filter(pk=job.pk).update(
                error_code=error.code,
                error_message=error.message,
                error_hint=error.hint,
            )
        conclude(job, end)
        page_marks.take_off(job)


def _cut_off() -> TransientError:
    return TransientError(
        "the worker ended in the midst of this page",
        code="page_cut_off",
        hint="unless it was stopped, it asks for more memory or time than it has",
    )


def _unforeseen(error: Exception) -> TransientError:
    """What nobody foresaw may pass, and is not tried for ever. Its own words go to the
    log alone, for they may quote a value."""
    if isinstance(error, OperationalError):
        return TransientError(
            "the metadata database ended a statement of this page: it took too long, or"
            " waited too long for a lock. Nothing of the page was stored",
            code="statement_ended",
            hint="the log of the process names it; tell the maintainers if it recurs",
        )
    return TransientError(
        "Sluice has a defect here: this job met what it does not expect",
        code="defect",
        hint="the log of the process has the details; tell the maintainers of them",
    )


def _log(job: Job, error: SluiceError) -> None:
    """With the other server's own words, which the clear message leaves out."""
    raw = error.facts.get("raw")
    message = f"{error.message} [{raw}]" if raw else error.message
    JobLog.objects.create(job=job, level="error", message=redact(message))


def _end(job: Job, outcome: Outcome) -> End | None:
    match outcome:
        case Done():
            return moves.succeed(job, outcome.facts, **outcome.changes)
        case Failed():
            return moves.fail(job, outcome.error, **outcome.changes)
        case Waits():
            Job.objects.filter(pk=job.pk).update(reason=outcome.reason)
    return None
