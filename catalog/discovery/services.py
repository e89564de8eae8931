"""Connection tests and discovery as jobs: start, advance by one page, ring again.

The job row is the work. Each call of `advance_discovery` may be the first or the
tenth for the same page, in any process, and may die at any line: what counts is the
cursor on the row, moved in the same transaction as the page's tables.
"""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.db import DatabaseError, IntegrityError, transaction
from django.db.models import Q
from django.db.models.functions import Now

from catalog import dispatch
from catalog.discovery import store
from catalog.discovery.look import reader_for, save_look, table_at_source
from catalog.discovery.probe import STEPS, Report, run_probe
from catalog.models import Datasource, Table
from catalog.sources.access import access_for
from catalog.sources.port import Overview, Page
from catalog.sources.registry import kind_named
from catalog.sources.steps import Step
from core import jobs
from core.advance import advance
from core.clock import SystemClock
from core.errors import IllegalTransition, SluiceError, StaleState, TransientError
from core.models import Job, JobLog
from core.redaction import redact
from core.retries import Backoff

log = logging.getLogger(__name__)

TEST, DISCOVER, LOOK = "test", "discover", "look"
KINDS = (TEST, DISCOVER, LOOK)
PAGE_TABLES = 500
FEWEST_TABLES = 10
SILENT_SECONDS = 10
WAITS = Backoff(1, 60)
# Fewer rows than this do not change how the catalog is best read.
ROWS_WORTH_STATISTICS = 1_000
_clock = SystemClock()
_rung: dict[uuid.UUID, datetime] = {}
_OPEN = (jobs.PLANNED, jobs.QUEUED, jobs.LAUNCHING, jobs.RUNNING, jobs.CANCELLING)


def start_test(datasource: Datasource, *, by: str) -> Job:
    """A job that tries the connection in steps; the unfinished one if there is one."""
    return _start(datasource, TEST, by=by, payload={})


def start_discovery(datasource: Datasource, *, by: str, refresh: bool = False) -> Job:
    """A job that reads the source's catalog; the unfinished one if there is one.

    refresh: write the columns of tables that have not changed, too.
    """
    return _start(datasource, DISCOVER, by=by, payload={"refresh": refresh})


def start_look(table: Table, *, by: str) -> Job:
    """A job that reads one source table's columns again; the unfinished one if there
    is one."""
    names = {"database": table.database.name, "table": table.name}
    payload = names | {"of": [str(table.pk)]}
    return _start(table.database.datasource, LOOK, by=by, payload=payload)


def advance_discovery(job_id: uuid.UUID) -> None:
    """Do the next piece of a test or discovery job, then ring for the one after.

    Harmless on a job that is finished, busy elsewhere, or gone.
    """
    try:
        job = Job.objects.filter(pk=job_id, kind__in=KINDS).first()
        if job is None or job.is_finished or not _is_running(job):
            return
        datasource = Datasource.objects.filter(pk=job.subject_id).first()
        if datasource is None:
            _move(job, "fail", **_ended("datasource_removed", "it was removed"))
            return
        _watched(job, _WORK[job.kind], datasource)
    except (StaleState, IllegalTransition):
        log.info("another worker moved it first", extra={"job_id": str(job_id)})


def jobs_due(now: datetime) -> list[uuid.UUID]:
    """Jobs of this package that nobody has touched for a while, oldest first."""
    silent = now - timedelta(seconds=SILENT_SECONDS)
    return list(
        Job.objects.filter(kind__in=KINDS, state__in=_OPEN)
        .filter(Q(not_before=None) | Q(not_before__lte=now))
        .filter(
            Q(progress_at=None)
            | Q(progress_at__lte=silent)
            | Q(not_before__lte=now)
            | Q(state=jobs.CANCELLING)
        )
        .order_by("created_at")
        .values_list("pk", flat=True)[:200]
    )


def ring_due_discoveries() -> int:
    """For the tick: ring for every due job; how many the broker took.

    A job that nobody answers for is rung once in SILENT_SECONDS per process, so
    that messages do not pile up while no worker runs.
    """
    now = _clock.now()
    silent = now - timedelta(seconds=SILENT_SECONDS)
    due = [job_id for job_id in jobs_due(now) if _rung.get(job_id, silent) <= silent]
    for job_id in [known for known, at in _rung.items() if at <= silent]:
        del _rung[job_id]
    _rung.update(dict.fromkeys(due, now))
    return sum(dispatch.ring(job_id) for job_id in due)


def _start(
    datasource: Datasource, kind: str, *, by: str, payload: dict[str, Any]
) -> Job:
    kind_named(datasource.kind)
    key = _key(datasource, kind, payload)
    mine = Job.objects.filter(kind=kind, exclusive_key=key)
    open_jobs = mine.filter(state__in=_OPEN).order_by("-created_at")
    try:
        with transaction.atomic():
            job = open_jobs.first() or _new(datasource, kind, by=by, payload=payload)
    except IntegrityError:
        # Somebody else started one between the look and the insert.
        job = open_jobs.get()
    transaction.on_commit(lambda: dispatch.ring(job.pk))
    return job


def _key(datasource: Datasource, kind: str, payload: dict[str, Any]) -> str:
    """One job at a time of a datasource and kind, or of each table that is meant."""
    return ":".join([kind, str(datasource.pk), *payload.get("of", ())])


def _new(datasource: Datasource, kind: str, *, by: str, payload: dict[str, Any]) -> Job:
    job = Job.objects.create(
        kind=kind,
        subject=datasource.name,
        subject_id=str(datasource.pk),
        exclusive_key=_key(datasource, kind, payload),
        payload=payload,
        unit="steps" if kind == TEST else "tables",
        total={TEST: len(STEPS), LOOK: 1}.get(kind),
        requested_by=by,
        max_attempts=5,
    )
    advance(job, "enqueue", actor=by, queued_at=_clock.now())
    return job


def _is_running(job: Job) -> bool:
    """Bring the job to RUNNING if it may run now; False when there is nothing to do."""
    now = _clock.now()
    if job.cancel_requested or job.state == jobs.CANCELLING:
        event = "cancel" if job.state in jobs.WAITING else "cancelled"
        _move(job, event, why="cancelled on request", finished_at=now)
        return False
    if job.not_before and job.not_before > now:
        return False
    if job.state == jobs.PLANNED:
        advance(job, "enqueue", queued_at=now)
    if job.state == jobs.QUEUED:
        advance(job, "claim", started_at=job.started_at or now, not_before=None)
    if job.state in {jobs.LAUNCHING, jobs.UNKNOWN}:
        advance(job, "accepted", progress_at=now)
    return job.state == jobs.RUNNING


def _watched(
    job: Job, work: Callable[[Job, Datasource], None], datasource: Datasource
) -> None:
    """Run one piece; a transient failure waits for another try, others end the job."""
    try:
        work(job, datasource)
    except (StaleState, IllegalTransition):
        raise
    except TransientError as error:
        _log(job, "error", error)
        if job.attempts + 1 >= job.max_attempts:
            _move(job, "fail", **_ended_by(error))
            return
        wait = WAITS.after(job.attempts + 1)
        _move(
            job,
            "try_again",
            why=f"tries again in {wait:.0f} s: {error.message}",
            attempts=job.attempts + 1,
            not_before=_clock.now() + timedelta(seconds=wait),
            **_told(error),
        )
    except SluiceError as error:
        _log(job, "error", error)
        _move(job, "fail", **_ended_by(error))


def _advance_test(job: Job, datasource: Datasource) -> None:
    done: list[dict[str, Any]] = []

    def keep(step: Step) -> None:
        done.append(step.as_json())
        level = "error" if step.status == "failed" else "info"
        words = " ".join(filter(None, (step.message, step.raw and f"[{step.raw}]")))
        _say(job, level, f"{step.name} {step.status}: {words}")
        Job.objects.filter(pk=job.pk, state=jobs.RUNNING).update(
            phase=step.name, done=len(done), report={"steps": done}, progress_at=Now()
        )

    report = run_probe(access_for(datasource, job=job.pk), on_step=keep)
    _finish_test(job, datasource, report)


def _finish_test(job: Job, datasource: Datasource, report: Report) -> None:
    result = report.as_json()
    now = _clock.now()
    with transaction.atomic():
        if report.failed is None:
            advance(job, "succeed", report=result, finished_at=now)
        else:
            step = report.failed
            error = SluiceError(step.message, code=step.code, hint=step.hint)
            _move(job, "fail", report=result, **_ended_by(error))
        Datasource.objects.filter(pk=datasource.pk, version=datasource.version).update(
            tested_at=now, test_result=result
        )


def _advance_page(job: Job, datasource: Datasource) -> None:
    """Read one page outside, save it inside a transaction that moves the cursor."""
    before = dict(job.cursor)
    seen_at = before.get("seen_at")
    after = tuple(before["after"]) if before.get("after") else None
    with reader_for(datasource, job=job.pk) as reader:
        overview = reader.overview() if seen_at is None else None
        # A page that timed out is tried again with fewer tables.
        limit = max(PAGE_TABLES >> (2 * job.attempts), FEWEST_TABLES)
        page = reader.page(after, limit=limit)
    with transaction.atomic():
        locked = Job.objects.select_for_update().get(pk=job.pk)
        if locked.state != jobs.RUNNING or locked.cursor != before:
            raise StaleState(f"job {job.pk} was moved while its page was read")
        if overview is not None:
            _begin(locked, datasource, overview)
        _save(locked, datasource, page)
    if not locked.is_finished:
        dispatch.ring(job.pk)
    elif locked.cursor["written"] > ROWS_WORTH_STATISTICS:
        _refresh_statistics(locked)


def _advance_look(job: Job, datasource: Datasource) -> None:
    """One table, in one statement; what a whole discovery would write of it."""
    names = str(job.payload["database"]), str(job.payload["table"])
    found = table_at_source(datasource, *names, job=job.pk)
    if found is None:
        what = f"table {'.'.join(names)} is not at the source any more"
        _move(job, "fail", **_ended("table_gone", what))
        return
    with transaction.atomic():
        report = {"changed": save_look(datasource, found)}
        advance(job, "succeed", report=report, done=1, finished_at=_clock.now())


_WORK: dict[str, Callable[[Job, Datasource], None]] = {
    TEST: _advance_test,
    DISCOVER: _advance_page,
    LOOK: _advance_look,
}


def _refresh_statistics(job: Job) -> None:
    """Pages and counts over the catalog are slow until the planner knows its size."""
    try:
        store.refresh_statistics()
    except DatabaseError as error:
        log.warning("no statistics after a discovery: %s", error)
        with contextlib.suppress(DatabaseError):
            _say(job, "warning", f"the catalog's statistics are old: {error}")


def _begin(job: Job, datasource: Datasource, overview: Overview) -> None:
    now = _clock.now()
    job.cursor = {
        "seen_at": now.isoformat(),
        "sees_all_transactions": overview.sees_all_transactions,
        "is_standby": overview.is_standby,
        "pages": 0,
        "new": 0,
        "changed": 0,
        "columns_not_carried": 0,
        "written": 0,
    }
    job.total = overview.tables
    store.save_databases(datasource, overview.databases, seen_at=now)
    schemas = len(overview.databases)
    _say(job, "info", f"{overview.tables} tables in {schemas} databases to read")


# Of a job's cursor; a job that an earlier release began lacks some.
def _save(job: Job, datasource: Datasource, page: Page) -> None:
    seen_at = datetime.fromisoformat(job.cursor["seen_at"])
    counts = store.save_page(
        datasource,
        page.tables,
        seen_at=seen_at,
        of_server={name: job.cursor.get(name) for name in store.OF_SERVER},
        refresh=job.payload.get("refresh", False),
    )
    job.done += counts.tables
    job.cursor = {
        **job.cursor,
        "after": page.next_after,
        "pages": job.cursor["pages"] + 1,
        "new": job.cursor["new"] + counts.new,
        "changed": job.cursor["changed"] + counts.changed,
        "columns_not_carried": job.cursor["columns_not_carried"]
        + counts.columns_not_carried,
        # absent from the cursor of a job that an earlier release began
        "written": job.cursor.get("written", 0) + counts.written,
    }
    Job.objects.filter(pk=job.pk).update(
        cursor=job.cursor,
        phase="reading tables",
        done=job.done,
        total=max(job.total or 0, job.done),
        progress_at=Now(),
        attempts=0,
        error_code="",
        error_message="",
        error_hint="",
        reason="",
    )
    last = page.tables[-1] if page.tables else None
    if last is not None:
        _say(job, "info", f"{job.done} tables read, up to {last.database}.{last.name}")
    if page.next_after is None:
        vanished = store.finish(datasource, seen_at=seen_at)
        job.cursor["written"] += vanished
        names = ("pages", "new", "changed", "columns_not_carried")
        report = {name: job.cursor[name] for name in names}
        report |= {"tables": job.done, "vanished": vanished}
        advance(
            job,
            "succeed",
            report=report,
            total=job.done,
            finished_at=_clock.now(),
        )


def _move(job: Job, event: str, *, why: str = "", **changes: Any) -> None:
    """`advance()` with the same sentence on the event and, for people, on the row."""
    with transaction.atomic():
        advance(job, event, reason=why, **changes)
        Job.objects.filter(pk=job.pk).update(reason=why)
    job.reason = why


def _say(job: Job, level: str, message: str) -> None:
    JobLog.objects.create(job=job, level=level, message=redact(message))


def _log(job: Job, level: str, error: SluiceError) -> None:
    """With the source's own words, which the clear message leaves out."""
    raw = error.facts.get("raw")
    _say(job, level, f"{error.message} [{raw}]" if raw else error.message)


def _told(error: SluiceError) -> dict[str, Any]:
    return {
        "error_code": error.code,
        "error_message": error.message,
        "error_hint": error.hint,
    }


def _ended_by(error: SluiceError) -> dict[str, Any]:
    return {**_told(error), "why": error.message, "finished_at": _clock.now()}


def _ended(code: str, message: str) -> dict[str, Any]:
    return _ended_by(SluiceError(message, code=code))
