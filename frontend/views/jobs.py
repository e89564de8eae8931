"""Jobs: the list, one job as it moves, its log, cancel and retry."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext

from catalog.access.enforcement import decision_for, require
from catalog.access.policy import Privilege
from catalog.access.rules import reads_whole
from catalog.discovery.services import DISCOVER, LOOK, TEST
from catalog.selectors.contents import job_without_contents, require_log, shows_log
from core import jobs as states
from core.jobs.moves import JobKind, names_of
from core.models import Job
from frontend.pages import PAGE_SIZE, PageRequest, attempt, numbered_page, page
from frontend.reading.activity import rows_of, timeline_of
from frontend.reading.jobs import (
    asked_again,
    findings_of,
    log_of,
    repaired_of,
    steps_timed,
)
from frontend.reading.sources import steps_of
from ingest.alerts.stalled import stalled_since
from ingest.contract.job import COMPACT, REPAIR, VERIFY
from ingest.pipelines import table_commands
from ingest.pipelines.activity import Activity
from ingest.pipelines.job_selectors import (
    JobFilter,
    may_cancel,
    may_retry,
    speed_of,
    synced_by,
)
from ingest.pipelines.selectors import job_for, securable_of_job

UNFINISHED, EVENTS = "unfinished", "events"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The filter of the list as the URL carries it."""

    q: str
    kind: str
    state: str
    is_quiet: bool

    @classmethod
    def of(cls, request: PageRequest) -> Wanted:
        get = request.GET.get
        return cls(get("q", "").strip()[:300], get("kind", ""), get("state", ""),
                   bool(get("quiet")))  # fmt: skip

    def activity(self, request: PageRequest) -> Activity:
        is_open = self.state == UNFINISHED
        jobs = JobFilter(
            states=(self.state,) if self.state and not is_open else (),
            kinds=(self.kind,) if self.kind and self.kind != EVENTS else (),
            is_finished=False if is_open else None,
            q=self.q,
        )
        return Activity(
            request.principal,
            jobs,
            # who filters by compactions looks for them
            is_quiet=self.is_quiet or self.kind == COMPACT,
            has_jobs=self.kind != EVENTS,
            has_events=self.kind == EVENTS or not (self.kind or self.state),
        )


def activity_shown(
    request: PageRequest, found: Activity, *, size: int = PAGE_SIZE
) -> dict[str, object]:
    """A page of it, its timeline, and how many syncs it leaves out."""
    listed = numbered_page(request, found, size=size)
    rows = rows_of(request.principal, listed.items)
    since = rows[-1].at if listed.has_next else None
    return {
        "activity": replace(listed, items=rows),
        "timeline": timeline_of(rows, by_kind=found.table is not None),
        "hidden": found.hidden(since) if listed.number == 1 else 0,
        "is_quiet": found.is_quiet,
        "poll_seconds": 2 if any(row.is_moving for row in rows) else 10,
    }


@page()
def job_list(request: PageRequest) -> HttpResponse:
    wanted = Wanted.of(request)
    context = {
        "wanted": wanted,
        **activity_shown(request, wanted.activity(request)),
        "kinds": [name for name in names_of(JobKind) if name != LOOK],
        "states": states.JOB.states,
        "is_filtered": any((wanted.q, wanted.kind, wanted.state)),
    }
    part = request.htmx and request.htmx.target == "job-list"
    template = "jobs/rows.html" if part else "jobs/list.html"
    return render(request, f"frontend/{template}", context)


@page()
def job_page(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    job = job_for(request.principal, pk)
    before = request.GET.get("before", "")
    is_older = before.isascii() and before.isdigit()
    context = {
        **_live(request, job),
        "shows_log": shows_log(request.principal, job),
        "log": log_of(job, before=int(before) if is_older else None),
        "is_older": is_older,
        "links": _links(job),
    }
    return render(request, "frontend/jobs/job.html", context)


@page()
def job_live(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    context = _live(request, job_for(request.principal, pk))
    return render(request, "frontend/jobs/live.html", context)


@page()
def job_log(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    job = job_for(request.principal, pk)
    require_log(request.principal, job)
    context = {"job": job, "log": log_of(job), "is_older": False}
    return render(request, "frontend/jobs/log.html", context)


@page("POST")
def cancel(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    _require_to_operate(request, pk)
    actor = request.principal.name
    attempt(
        request,
        gettext("Cancellation requested."),
        lambda: table_commands.cancel_job(pk, actor=actor),
    )
    return redirect("frontend:job", pk)


@page("POST")
def retry(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    _require_to_operate(request, pk)
    if preview := asked_again(job_for(request.principal, pk)):
        # nothing is repaired before somebody saw what that does now
        return redirect(preview)
    actor = request.principal.name
    attempt(
        request,
        gettext("Retry requested."),
        lambda: table_commands.retry_job(pk, actor=actor),
    )
    return redirect("frontend:job", pk)


def _require_to_operate(request: PageRequest, pk: uuid.UUID) -> None:
    job = job_for(request.principal, pk)
    require(request.principal, Privilege.OPERATE, securable_of_job(job))


def _live(request: PageRequest, job: Job) -> dict[str, object]:
    securable = securable_of_job(job)
    job = job_without_contents(request.principal)(job)
    may = decision_for(request.principal, Privilege.OPERATE, securable).allowed
    reads = reads_whole(request.principal, securable)
    is_verified = job.kind == VERIFY
    return {
        "job": job,
        "carried": synced_by(job),
        "findings": findings_of(job, may_read_rows=reads) if is_verified else None,
        "repaired": repaired_of(job, may_read_rows=reads)
        if job.kind == REPAIR
        else None,
        "events": list(job.events.all()[:200])
        if shows_log(request.principal, job)
        else [],
        "rate": speed_of(job),
        "stalled_since": stalled_since(job, timezone.now()),
        "steps": steps_of(job) if job.kind == TEST else [],
        "timed": steps_timed(job),
        "is_moving": not job.is_finished,
        "can_cancel": may and may_cancel(job),
        "asked_again": asked_again(job),
        "can_retry": may and may_retry(job),
    }


def _links(job: Job) -> list[dict[str, str]]:
    if job.kind in {TEST, DISCOVER}:
        url = reverse("frontend:source", args=[job.subject])
        return [{"url": url, "icon": "source", "word": gettext("Source")}]
    if job.subject_id.isdigit():
        place = [int(job.subject_id)]
        table = reverse("frontend:table", args=place)
        links = [{"url": table, "icon": "table", "word": gettext("Table")}]
        if job.kind in {COMPACT, REPAIR}:
            health = reverse("frontend:table-health", args=place)
            links.insert(0, {"url": health, "icon": "chart", "word": gettext("Health")})
        return links
    return []
