"""The home page's numbers, in a fixed number of statements."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Count, F, Q, QuerySet
from django.urls import reverse
from django.utils.translation import gettext

from catalog.access.policy import Principal
from catalog.models import Table
from catalog.selectors.contents import job_without_contents
from catalog.selectors.tables import TableFilter, datasources_for, tables_for
from core.jobs import ACTIVE, WAITING
from core.models import Job
from frontend.reading.alerts import row_of
from ingest.alerts.selectors import ILL, Concern, concerns_for
from ingest.models import Onboarding
from ingest.models.states import LIVE
from ingest.pipelines.job_selectors import JobFilter
from ingest.pipelines.selectors import plans_with_open_tables
from ingest.pipelines.source_overview import most_lagging

SHOWN = 8
COUNTED = 10_000
MOST_PROBLEMS = 200


@dataclass(frozen=True, slots=True)
class Problem:
    """state      of the table, kind of its alert, or `problem` where its score tells
    next_step  "" where the reason has it
    others     (name, url) of tables that have the same"""

    name: str
    url: str
    state: str
    reason: str
    next_step: str = ""
    others: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Overview:
    """tables, live  counted up to COUNTED; one more stands for "more"
    oldest        of the table on a schedule that lags most, when it was caught up
    running, queued   how many jobs; of these `jobs` are shown, running ones first
    troubled      how many tables and sources have a problem; the same is shown once
    """

    sources: int
    tables: int
    live: int
    oldest: datetime | None
    oldest_name: str
    running: int
    queued: int
    jobs: list[Job]
    problems: list[Problem]
    troubled: int
    has_more_problems: bool
    waiting: list[Onboarding]

    @property
    def tables_shown(self) -> str:
        return _shown(self.tables)

    @property
    def live_shown(self) -> str:
        return _shown(self.live)

    @property
    def is_empty(self) -> bool:
        return not (self.sources or self.tables)


def overview_for(principal: Principal) -> Overview:
    lake = tables_for(principal, TableFilter(kind=Table.LAKE)).prefetch_related(None)
    live = lake.filter(status=LIVE)
    worst = most_lagging(lake)
    moving = JobFilter(is_finished=False).rows(principal)
    by_start = F("started_at").desc(nulls_last=True)
    counts = moving.order_by().aggregate(
        running=Count("pk", filter=Q(state__in=ACTIVE)),
        queued=Count("pk", filter=Q(state__in=WAITING)),
    )
    jobs = (
        moving.order_by(by_start, "-created_at")[:SHOWN] if any(counts.values()) else []
    )
    tables = _counted(lake)
    concerns = concerns_for(principal, lake, most=MOST_PROBLEMS + 1)
    return Overview(
        sources=datasources_for(principal).exclude(kind=Table.LAKE).count(),
        tables=tables.found,
        live=_counted(live).found if tables.found > COUNTED else tables.live,
        oldest=worst.caught_up_at if worst else None,
        oldest_name=f"{worst.database.name}.{worst.name}" if worst else "",
        **counts,
        jobs=list(map(job_without_contents(principal), jobs)),
        problems=grouped(concerns[:MOST_PROBLEMS]),
        troubled=min(len(concerns), MOST_PROBLEMS),
        has_more_problems=len(concerns) > MOST_PROBLEMS,
        waiting=list(
            plans_with_open_tables(principal).filter(approved_at=None)[:SHOWN]
        ),
    )


@dataclass(frozen=True, slots=True)
class _Count:
    """found: how many, as far as COUNTED; live: of these."""

    found: int
    live: int


def _counted(rows: QuerySet[Table]) -> _Count:
    """Counting all of a large lake takes long."""
    some = rows.order_by().values("pk", "status")[: COUNTED + 1]
    is_live = Q(status=LIVE)
    found = some.aggregate(found=Count("pk"), live=Count("pk", filter=is_live))
    return _Count(**found)


def _shown(count: int) -> str:
    return (
        f"{count:,}"
        if count <= COUNTED
        else gettext("more than %(number)s") % {"number": f"{COUNTED:,}"}
    )


def grouped(concerns: Iterable[Concern]) -> list[Problem]:
    """Each state and reason once, whatever table it names."""
    found: dict[tuple[str, str], Problem] = {}
    for one in concerns:
        table = one.name.rpartition(".")[2]
        reason = one.reason.replace(one.name, "").replace(table, "")
        problem = found.get((one.state, reason))
        if problem is None:
            step = one.alert.hint if one.alert else ""
            found[one.state, reason] = Problem(
                one.name, _page_of(one), one.state, one.reason, step
            )
        else:
            problem.others.append((one.name, _page_of(one)))
    return list(found.values())


def _page_of(concern: Concern) -> str:
    if concern.alert is not None:
        return row_of(concern.alert).page
    place = "table-health" if concern.state == ILL else "table"
    return reverse(f"frontend:{place}", args=[concern.table_id])
