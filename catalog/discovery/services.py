"""Connection tests and discovery as jobs in pages: their starts, and their handlers.

The job row is the work. What counts of a page is the cursor on the row, moved in the
same transaction as the page's tables.
"""

from __future__ import annotations

import contextlib
import logging
import uuid
from datetime import datetime
from typing import Any

from django.db import DatabaseError, IntegrityError, transaction
from django.db.models import Q
from django.db.models.functions import Now

from catalog import dispatch
from catalog.discovery import again, store, turns
from catalog.discovery.look import reader_for, save_look, table_at_source
from catalog.discovery.probe import STEPS, Report, run_probe
from catalog.models import Datasource, Table
from catalog.sources.access import access_for
from catalog.sources.port import DiscoveredTable, Overview, Page
from catalog.sources.registry import kind_named
from catalog.sources.steps import Step
from core import jobs
from core.advance import advance
from core.clock import SystemClock
from core.errors import SluiceError, TerminalError
from core.jobs.handlers import SCHEDULE, handler_of
from core.jobs.pages import Done, Failed, More, Outcome, PagedJob
from core.models import Job, JobLog
from core.redaction import redact
from core.retries import Backoff

log = logging.getLogger(__name__)

TEST, DISCOVER, LOOK = "test", "discover", "look"
PAGE_TABLES = 500
FEWEST_TABLES = 10
# Fewer rows than this do not change how the catalog is best read.
ROWS_WORTH_STATISTICS = 1_000
_clock = SystemClock()


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


def _start(
    datasource: Datasource, kind: str, *, by: str, payload: dict[str, Any]
) -> Job:
    kind_named(datasource.kind)
    key = _key(datasource, kind, payload)
    mine = Job.objects.filter(kind=kind, exclusive_key=key)
    open_jobs = mine.filter(state__in=jobs.UNFINISHED).order_by("-created_at")
    try:
        with transaction.atomic():
            job = open_jobs.first() or _new(datasource, kind, by=by, payload=payload)
    except IntegrityError:
        # Another one was started between the look and the insert.
        job = open_jobs.get()
    transaction.on_commit(lambda: dispatch.ring(job.pk))
    return job


def _key(datasource: Datasource, kind: str, payload: dict[str, Any]) -> str:
    """One job at a time of a datasource and kind, or of each table that is meant."""
    return ":".join([kind, str(datasource.pk), *payload.get("of", ())])


def _new(datasource: Datasource, kind: str, *, by: str, payload: dict[str, Any]) -> Job:
    handler = handler_of(kind)
    assert isinstance(handler, SourceJob)
    job = Job.objects.create(
        kind=kind,
        subject=datasource.name,
        subject_id=str(datasource.pk),
        exclusive_key=_key(datasource, kind, payload),
        payload=payload,
        unit=handler.unit,
        total=handler.total,
        requested_by=by,
        max_attempts=handler.max_attempts,
    )
    advance(job, "enqueue", actor=by, queued_at=_clock.now())
    return job


class SourceJob(PagedJob[Datasource | None]):
    """A kind that asks a source."""

    max_attempts = 5
    backoff = Backoff(1, 60)
    unit = "tables"

    def lock(self, job: Job) -> Datasource | None:
        return Datasource.objects.filter(pk=job.subject_id).first()

    def read(self, job: Job, subject: Datasource | None) -> Any:
        if subject is None:
            raise TerminalError("it was removed", code="datasource_removed")
        return self.ask(job, subject)

    def save(self, job: Job, subject: Datasource | None, found: Any) -> Outcome:
        assert subject is not None
        return self.keep(job, subject, found)

    def ask(self, job: Job, datasource: Datasource) -> Any:
        """Return what the source answered."""
        raise NotImplementedError

    def keep(self, job: Job, datasource: Datasource, found: Any) -> Outcome:
        """Write it to the catalog, in the transaction of the job's move."""
        raise NotImplementedError

    def admit(self, job: Job) -> bool:
        return turns.has_place(job, KINDS)

    def ring(self, job_id: uuid.UUID) -> bool:
        return dispatch.ring(job_id)

    def left(self, job: Job) -> None:
        for job_id in turns.next_ones(KINDS, _clock.now()):
            dispatch.ring(job_id)

    def again(self, job_id: uuid.UUID, *, by: str) -> Job:
        return again.retry(job_id, by=by)


class TestJob(SourceJob):
    """Tries the connection in steps, each of which shows on the row."""

    name = TEST
    title = "connection test"
    unit = "steps"
    total = len(STEPS)

    def ask(self, job: Job, datasource: Datasource) -> Report:
        done: list[dict[str, Any]] = []

        def keep(step: Step) -> None:
            done.append(step.as_json())
            level = "error" if step.status == "failed" else "info"
            text = " ".join(filter(None, (step.message, step.raw and f"[{step.raw}]")))
            _say(job, level, f"{step.name} {step.status}: {text}")
            Job.objects.filter(pk=job.pk, state=jobs.RUNNING).update(
                phase=step.name,
                done=len(done),
                report={"steps": done},
                progress_at=Now(),
            )

        return run_probe(access_for(datasource, job=job.pk), on_step=keep)

    def keep(self, job: Job, datasource: Datasource, found: Report) -> Outcome:
        result = found.as_json()
        Datasource.objects.filter(pk=datasource.pk, version=datasource.version).update(
            tested_at=_clock.now(), test_result=result
        )
        if found.failed is None:
            return Done(changes={"report": result})
        step = found.failed
        error = SluiceError(step.message, code=step.code, hint=step.hint)
        return Failed(error, {"report": result})


class DiscoverJob(SourceJob):
    """Reads the source's catalog, a page of tables at a time."""

    name = DISCOVER
    title = "discovery"

    def ask(self, job: Job, datasource: Datasource) -> tuple[Overview | None, Page]:
        after = tuple(job.cursor["after"]) if job.cursor.get("after") else None
        with reader_for(datasource, job=job.pk) as reader:
            is_first = job.cursor.get("seen_at") is None
            overview = reader.overview() if is_first else None
            # A page that timed out is tried again with fewer tables.
            limit = max(PAGE_TABLES >> (2 * job.attempts), FEWEST_TABLES)
            return overview, reader.page(after, limit=limit)

    def keep(
        self,
        job: Job,
        datasource: Datasource,
        found: tuple[Overview | None, Page],
    ) -> Outcome:
        overview, page = found
        if overview is not None:
            _begin(job, datasource, overview)
        _save(job, datasource, page)
        if page.next_after is not None:
            return More()
        seen_at = datetime.fromisoformat(job.cursor["seen_at"])
        vanished = store.finish(datasource, seen_at=seen_at)
        job.cursor["written"] += vanished
        names = ("pages", "new", "changed", "columns_not_carried")
        report = {name: job.cursor[name] for name in names}
        report |= {"tables": job.done, "vanished": vanished}
        return Done(changes={"report": report, "total": job.done})

    def forgotten(self) -> Q:
        """A source is discovered again each hour."""
        return Q(state__in=[jobs.SUCCEEDED, jobs.FAILED], requested_by=SCHEDULE)

    def saved(self, job: Job) -> None:
        if job.is_finished and job.cursor["written"] > ROWS_WORTH_STATISTICS:
            _refresh_statistics(job)


class LookJob(SourceJob):
    """Reads one table in one statement: what a discovery would write of it."""

    name = LOOK
    title = "discovery"
    total = 1

    def forgotten(self) -> Q:
        return Q(state__in=[jobs.SUCCEEDED, jobs.FAILED])

    def ask(self, job: Job, datasource: Datasource) -> tuple[DiscoveredTable | None]:
        names = str(job.payload["database"]), str(job.payload["table"])
        return (table_at_source(datasource, *names, job=job.pk),)

    def keep(
        self,
        job: Job,
        datasource: Datasource,
        found: tuple[DiscoveredTable | None],
    ) -> Outcome:
        if found[0] is None:
            what = f"table {job.payload['database']}.{job.payload['table']}"
            gone = f"{what} is not at the source any more"
            return Failed(SluiceError(gone, code="table_gone"))
        changed = save_look(datasource, found[0])
        return Done(changes={"report": {"changed": changed}, "done": 1})


HANDLERS = (TestJob(), DiscoverJob(), LookJob())
KINDS = tuple(handler.name for handler in HANDLERS)


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
        + counts.columns_not_synced,
        "written": job.cursor["written"] + counts.written,
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


def _say(job: Job, level: str, message: str) -> None:
    JobLog.objects.create(job=job, level=level, message=redact(message))
