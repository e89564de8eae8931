"""Connection tests and discovery as jobs in pages: their starts, and their kinds.

The job row is the work. What counts of a page is the cursor on the row, moved in the
same transaction as the page's tables.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import uuid
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from django.db import DatabaseError, IntegrityError, transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from catalog import dispatch
from catalog.discovery import again, store, turns
from catalog.discovery.probe import STEPS, Report, run_probe
from catalog.models import Datasource, Table
from catalog.sources.access import access_for
from catalog.sources.port import (
    DiscoveredTable,
    Overview,
    Page,
    SourceReader,
    discoverer_of,
)
from catalog.sources.registry import kind_named
from catalog.sources.steps import Step
from core import jobs
from core.advance import advance
from core.errors import SluiceError, TerminalError
from core.jobs.moves import SCHEDULE
from core.jobs.pages import Done, Failed, More, Outcome, PagedKind, paged
from core.models import Job, JobLog
from core.redaction import redact
from core.retries import Backoff
from core.sentences import Sentence, origins_in, stored


def reader_for(datasource: Datasource, *, job: object = "discovery") -> SourceReader:
    """A reader of this datasource, to be used in a `with` block."""
    return discoverer_of(datasource.kind).reader(access_for(datasource, job=job))


def save_look(datasource: Datasource, found: Sequence[DiscoveredTable]) -> bool:
    """Whether the columns of any of these known tables had changed since it was last
    read.

    What belongs to a discovery of everything stays: when that saw the table, by which
    it tells what vanished, and what the login may see.
    """
    tables = {(table.database, table.name): table for table in found}
    rows = Table.objects.select_for_update(of=("self",)).filter(
        database__datasource=datasource,
        database__name__in={database for database, _ in tables},
        name__in={name for _, name in tables},
    )
    changed = 0
    with transaction.atomic():
        # of a discovery they have the same
        alike: dict[str, tuple[Table, list[DiscoveredTable]]] = {}
        for known in rows.select_related("database").order_by("pk"):
            if one := tables.get((known.database.name, known.name)):
                said = repr((known.seen_at, _of_server(known)))
                alike.setdefault(said, (known, []))[1].append(one)
        for known, page in alike.values():
            counts = store.save_page(
                datasource,
                page,
                seen_at=known.seen_at or timezone.now(),
                of_server=_of_server(known),
            )
            changed += counts.changed
    return bool(changed)


def _of_server(table: Table) -> dict[str, Any]:
    return {name: table.identity.get(name) for name in store.OF_SERVER}


log = logging.getLogger(__name__)

TEST, DISCOVER, LOOK = "test", "discover", "look"
PAGE_TABLES = 500
FEWEST_TABLES = 10
# Each costs some statements.
LOOK_TABLES = 50
# Fewer rows than this do not change how the catalog is best read.
ROWS_WORTH_STATISTICS = 1_000


def start_test(datasource: Datasource, *, by: str) -> Job:
    """A job that tries the connection in steps; the unfinished one if there is one."""
    return _start(datasource, TEST, by=by, payload={})


def start_discovery(datasource: Datasource, *, by: str) -> Job:
    """A job that reads the source's catalog; the unfinished one if there is one."""
    return _start(datasource, DISCOVER, by=by, payload={})


def start_look(tables: Sequence[Table], *, by: str) -> Job:
    """A job that reads the columns of these tables of one source again; the unfinished
    one of the same tables if there is one."""
    names = [[table.database.name, table.name] for table in tables]
    of = ",".join(str(table.pk) for table in tables)
    # a key is short
    payload = {"tables": names, "of": hashlib.sha256(of.encode()).hexdigest()}
    return _start(tables[0].database.datasource, LOOK, by=by, payload=payload)


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
    transaction.on_commit(lambda: dispatch.notify_worker(job.pk))
    return job


def _key(datasource: Datasource, kind: str, payload: dict[str, Any]) -> str:
    """One job at a time of a datasource and kind, or of the tables that are meant."""
    of = payload.get("of")
    return ":".join([kind, str(datasource.pk), *([of] if of else [])])


def _new(datasource: Datasource, kind: str, *, by: str, payload: dict[str, Any]) -> Job:
    described = paged(kind)
    job = Job.objects.create(
        kind=kind,
        subject=datasource.name,
        subject_id=str(datasource.pk),
        exclusive_key=_key(datasource, kind, payload),
        payload=payload,
        unit=described.unit,
        total=len(payload.get("tables", ())) or described.total,
        requested_by=by,
        max_attempts=described.max_attempts,
    )
    advance(job, "enqueue", actor=by, queued_at=timezone.now())
    return job


# --------------------------------------------------------------- what all of them do


def _ask(
    job: Job, question: Callable[[Job, Datasource], Any]
) -> tuple[Datasource, Any]:
    """Return the source of the job, and what it answered."""
    datasource = Datasource.objects.filter(pk=job.subject_id).first()
    if datasource is None:
        raise TerminalError(
            Sentence("the source was removed"), code="datasource_removed"
        )
    return datasource, question(job, datasource)


def _has_place(job: Job) -> bool:
    return turns.has_place(job, KINDS)


def _notify(job_id: uuid.UUID) -> bool:
    return dispatch.notify_worker(job_id)


def _notify_next(job: Job) -> None:
    for job_id in turns.next_ones(KINDS, timezone.now()):
        dispatch.notify_worker(job_id)


_of_source = functools.partial(
    PagedKind,
    max_attempts=5,
    backoff=Backoff(1, 60),
    admit=_has_place,
    notify=_notify,
    left=_notify_next,
    again=again.retry,
)

# ------------------------------------------------------------- kinds: connection test


def _try_connection(job: Job, datasource: Datasource) -> Report:
    """In steps, each of which shows on the row."""
    done: list[dict[str, Any]] = []

    def keep(step: Step) -> None:
        done.append(step.as_json())
        level = "error" if step.status == "failed" else "info"
        text = " ".join(filter(None, (step.message, step.raw and f"[{step.raw}]")))
        _say(job, level, f"{step.name} {step.status}: {text}")
        Job.objects.filter(pk=job.pk, state=jobs.RUNNING).update(
            phase=step.name,
            done=len(done),
            report={"steps": done, "sentences": origins_in(done)},
            progress_at=Now(),
        )

    return run_probe(access_for(datasource, job=job.pk), on_step=keep)


def _keep_result(job: Job, found: tuple[Datasource, Report]) -> Outcome:
    datasource, report = found
    result = report.as_json()
    Datasource.objects.filter(pk=datasource.pk, version=datasource.version).update(
        tested_at=timezone.now(), test_result=result
    )
    if report.failed is None:
        return Done(changes={"report": result})
    step = report.failed
    error = SluiceError(step.message, code=step.code, hint=step.hint)
    return Failed(error, {"report": result})


# --------------------------------------------------------------------- kinds: discovery


def _read_page(job: Job, datasource: Datasource) -> tuple[Overview | None, Page]:
    after = tuple(job.cursor["after"]) if job.cursor.get("after") else None
    with reader_for(datasource, job=job.pk) as reader:
        is_first = job.cursor.get("seen_at") is None
        overview = reader.overview() if is_first else None
        # A page that timed out is tried again with fewer tables.
        limit = max(PAGE_TABLES >> (2 * job.attempts), FEWEST_TABLES)
        return overview, reader.page(after, limit=limit)


def _keep_page(
    job: Job, found: tuple[Datasource, tuple[Overview | None, Page]]
) -> Outcome:
    datasource, (overview, page) = found
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


def _plan_for_size(job: Job) -> None:
    if job.is_finished and job.cursor["written"] > ROWS_WORTH_STATISTICS:
        _refresh_statistics(job)


# -------------------------------------------------------------- kinds: look at tables


def _names(job: Job) -> list[tuple[str, str]]:
    """Of the page that is next."""
    names = job.payload["tables"][job.done : job.done + LOOK_TABLES]
    return [(str(database), str(name)) for database, name in names]


def _read_tables(job: Job, datasource: Datasource) -> list[DiscoveredTable | None]:
    with reader_for(datasource, job=job.pk) as reader:
        return [reader.table(*names) for names in _names(job)]


def _keep_tables(
    job: Job, found: tuple[Datasource, list[DiscoveredTable | None]]
) -> Outcome:
    datasource, tables = found
    gone = [n for n, table in zip(_names(job), tables, strict=True) if table is None]
    changed = save_look(datasource, [table for table in tables if table is not None])
    job.done += len(tables)
    job.cursor = {
        "changed": changed or job.cursor.get("changed", False),
        "gone": job.cursor.get("gone") or [".".join(names) for names in gone[:1]],
    }
    Job.objects.filter(pk=job.pk).update(
        cursor=job.cursor, done=job.done, progress_at=Now(), attempts=0
    )
    if job.done < len(job.payload["tables"]):
        return More()
    for name in job.cursor["gone"]:
        # a tool may be swapping it: who looks later, at everything, is believed
        start_discovery(datasource, by=job.requested_by)
        error = SluiceError(
            "table %(name)s is not at the source any more", name=name, code="table_gone"
        )
        return Failed(error)
    return Done(changes={"report": {"changed": job.cursor["changed"]}})


JOB_KINDS = (
    _of_source(
        name=TEST,
        title="connection test",
        unit="steps",
        total=len(STEPS),
        read=lambda job: _ask(job, _try_connection),
        save=_keep_result,
    ),
    # the source's catalog, a page of tables at a time
    _of_source(
        name=DISCOVER,
        title="discovery",
        unit="tables",
        read=lambda job: _ask(job, _read_page),
        save=_keep_page,
        saved=_plan_for_size,
        # a source is discovered again each hour
        forgotten=Q(state__in=[jobs.SUCCEEDED, jobs.FAILED], requested_by=SCHEDULE),
    ),
    # table by table: what a discovery would write of it
    _of_source(
        name=LOOK,
        title="discovery",
        unit="tables",
        read=lambda job: _ask(job, _read_tables),
        save=_keep_tables,
        forgotten=Q(state__in=[jobs.SUCCEEDED, jobs.FAILED]),
    ),
)
KINDS = tuple(kind.name for kind in JOB_KINDS)


def _refresh_statistics(job: Job) -> None:
    """Pages and counts over the catalog are slow until the planner knows its size."""
    try:
        store.refresh_statistics()
    except DatabaseError as error:
        log.warning("no statistics after a discovery: %s", error)
        with contextlib.suppress(DatabaseError):
            _say(job, "warning", f"the catalog's statistics are old: {error}")


def _begin(job: Job, datasource: Datasource, overview: Overview) -> None:
    now = timezone.now()
    job.cursor = {
        "seen_at": now.isoformat(),
        "sees_all_transactions": overview.sees_all_transactions,
        "is_standby": overview.is_standby,
        "zone_delay": overview.zone_delay,
        "log_lacks": [
            [stored(lack.reason), lack.statement] for lack in overview.log_lacks
        ],
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
