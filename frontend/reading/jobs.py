"""Jobs and their logs as pages show them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import CharField, Q, QuerySet
from django.db.models.functions import Cast

from catalog.access.policy import Principal
from catalog.access.visibility import visible_tables
from catalog.discovery.services import KINDS as SOURCE_KINDS
from catalog.models import Table
from catalog.selectors import datasources_for
from core.errors import NotFound
from core.models import Job, JobLog

LOG_PAGE = 200


def jobs_for(principal: Principal) -> QuerySet[Job]:
    """Jobs on what the principal may see."""
    if principal.is_admin:
        return Job.objects.all()
    tables = Table.objects.filter(visible_tables(principal))
    sources = datasources_for(principal)
    on_source = Q(kind__in=SOURCE_KINDS, subject_id__in=_texts(sources))
    on_table = ~Q(kind__in=SOURCE_KINDS) & Q(subject_id__in=_texts(tables))
    return Job.objects.filter(on_source | on_table)


def job_for(principal: Principal, job_id: object) -> Job:
    row = jobs_for(principal).filter(pk=job_id).first()
    if row is None:
        raise NotFound(f"there is no job {job_id}", code="job_not_found")
    return row


def jobs_on_table(principal: Principal, table_id: int, *, limit: int = 5) -> list[Job]:
    rows = jobs_for(principal).exclude(kind__in=SOURCE_KINDS)
    return list(rows.filter(subject_id=str(table_id)).order_by("-created_at")[:limit])


def latest_on_source(principal: Principal, source_id: int) -> Job | None:
    """The newest test or discovery of a datasource."""
    rows = jobs_for(principal).filter(kind__in=SOURCE_KINDS, subject_id=str(source_id))
    return rows.order_by("-created_at").first()


@dataclass(frozen=True, slots=True)
class LogPage:
    """Lines in order of time. `older` is the cursor of the page before, or None."""

    lines: list[JobLog]
    older: int | None


def log_of(job: Job, *, before: int | None = None, size: int = LOG_PAGE) -> LogPage:
    """The last lines, or those before the line `before`."""
    rows = job.log_lines.order_by("-id")
    if before is not None:
        rows = rows.filter(pk__lt=before)
    found = list(rows[: size + 1])
    lines = found[:size][::-1]
    return LogPage(lines, lines[0].pk if len(found) > size else None)


def _texts(rows: QuerySet[Any]) -> QuerySet[Any]:
    text = Cast("pk", CharField())
    return rows.order_by().annotate(pk_text=text).values("pk_text")


def speed_of(job: Job) -> float | None:
    """Units per second so far; None while that says nothing."""
    end = job.finished_at or job.progress_at
    if not job.started_at or not end or not job.done:
        return None
    seconds = (end - job.started_at).total_seconds()
    return round(job.done / seconds, 1) if seconds >= 1 else None
