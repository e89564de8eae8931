"""Jobs as people and programs ask for them: which, how they stand, what may be asked
of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import Count, Max, Min, Q, QuerySet
from django.utils import timezone

from catalog.access.policy import Principal
from catalog.discovery.services import KINDS as SOURCE_KINDS
from core.jobs import ACTIVE, FAILED, JOB, SUCCEEDED, TERMINAL, UNFINISHED, WAITING
from core.jobs.moves import JobKind, names_of
from core.models import Job
from ingest.contract.job import LOADS, REMOVE, SYNC, VERIFY
from ingest.models import Pipeline
from ingest.pipelines.selectors import jobs_for, of_table, of_tables


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Empty = all. q: part of the subject's name."""

    states: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    table: str = ""
    is_finished: bool | None = None
    q: str = ""

    def rows(self, principal: Principal) -> QuerySet[Job]:
        rows = jobs_for(principal)
        if self.states:
            rows = rows.filter(state__in=self.states)
        if self.kinds:
            rows = rows.filter(kind__in=self.kinds)
        if self.table:
            rows = of_table(rows, self.table)
        if self.is_finished is not None:
            is_terminal = Q(state__in=sorted(TERMINAL))
            rows = rows.filter(is_terminal if self.is_finished else ~is_terminal)
        return rows.filter(subject__icontains=self.q) if self.q else rows


def newest_on_source(principal: Principal, source_id: int) -> Job | None:
    """The newest test or discovery of a datasource."""
    rows = jobs_for(principal).filter(kind__in=SOURCE_KINDS, subject_id=str(source_id))
    return rows.order_by("-created_at").first()


def newest_verification(principal: Principal, table_id: int) -> Job | None:
    """The newest one of a table that ended well, unless a load or a repair since made
    it void."""
    standing = Pipeline.objects.filter(lake_table=table_id, verified_job__isnull=False)
    rows = jobs_for(principal).filter(pk__in=standing.values("verified_job"))
    return rows.first()


def newest_count(table_id: int) -> tuple[int, Job] | None:
    """How many rows a table had at the end of its newest load or verification."""
    kinds = {*LOADS, VERIFY}
    rows = Job.objects.filter(subject_id=str(table_id), kind__in=kinds, state=SUCCEEDED)
    job = rows.order_by("-created_at").first()
    facts = (job.report or {}).get("facts") or {} if job else {}
    counted = facts.get("lake_rows", facts.get("rows"))
    return (counted, job) if job and counted is not None else None


def newest_failures(principal: Principal, table_ids: list[int]) -> dict[int, Job]:
    """Of each of these tables the newest job that failed; two statements."""
    keys = [str(pk) for pk in table_ids]
    rows = of_tables(jobs_for(principal), keys).filter(state=FAILED)
    newest = rows.order_by().values("subject_id").annotate(at=Max("created_at"))
    wanted = Q(pk__in=[])
    for one in newest:
        wanted |= Q(subject_id=one["subject_id"], created_at=one["at"])
    return {int(job.subject_id): job for job in rows.filter(wanted)}


def queue_of_jobs() -> dict[str, Any]:
    """How many wait and since when, how many run, how many failed within a day."""
    day = timezone.now() - timedelta(days=1)
    counts: dict[str, Any] = Job.objects.filter(
        Q(state__in=UNFINISHED) | Q(state=FAILED, finished_at__gte=day)
    ).aggregate(
        waiting=Count("pk", filter=Q(state__in=WAITING)),
        oldest=Min("created_at", filter=Q(state__in=WAITING)),
        active=Count("pk", filter=Q(state__in=ACTIVE)),
        failed=Count("pk", filter=Q(state=FAILED)),
    )
    return counts


def may_cancel(job: Job) -> bool:
    """A waiting job just ends, a running one is asked; a removal is not taken back."""
    if JOB.is_legal(job.state, "cancel"):
        return True
    return job.kind != REMOVE and JOB.is_legal(job.state, "request_cancel")


def may_retry(job: Job) -> bool:
    return job.kind in names_of(JobKind) and JOB.is_legal(job.state, "retry")


def synced_by(job: Job) -> Mapping[str, Any] | None:
    """Rows, bytes and chunks of a finished snapshot or sync; None for other jobs."""
    facts = (job.report or {}).get("facts") or {}
    if job.state != SUCCEEDED or job.kind not in {*LOADS, SYNC}:
        return None
    known = {name: facts.get(name) for name in ("rows", "bytes", "chunks")}
    return known if known["rows"] is not None else None


def speed_of(job: Job) -> float | None:
    """Units per second so far; None while that says nothing."""
    end = job.finished_at or job.progress_at
    if not job.started_at or not end or not job.done:
        return None
    seconds = (end - job.started_at).total_seconds()
    return round(job.done / seconds, 1) if seconds >= 1 else None
