"""The home page's numbers, in a fixed number of statements."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet
from django.urls import reverse
from django.utils.translation import gettext

from catalog.access.policy import Principal
from catalog.models import Table
from catalog.selectors import (
    TableFilter,
    datasources_for,
    job_without_contents,
    tables_for,
)
from core.models import Job
from frontend.reading.alerts import row_of
from ingest.alerts.selectors import ILL, Concern, concerns_for
from ingest.models import Onboarding
from ingest.models.states import LIVE
from ingest.pipelines.job_selectors import JobFilter
from ingest.pipelines.selectors import plans_awaiting_approval
from ingest.pipelines.source_overview import most_lagging

SHOWN = 8
COUNTED = 10_000
MOST_PROBLEMS = 50


@dataclass(frozen=True, slots=True)
class Problem:
    """state  of the table, the kind of its alert, or `problem` where its score tells"""

    name: str
    url: str
    state: str
    reason: str


@dataclass(frozen=True, slots=True)
class Overview:
    """tables, live  counted up to COUNTED; one more stands for "more"
    oldest        of the table on a schedule that lags most, when it was caught up
    """

    sources: int
    tables: int
    live: int
    oldest: datetime | None
    oldest_name: str
    jobs: list[Job]
    has_more_jobs: bool
    problems: list[Problem]
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
    jobs = list(moving.order_by("-started_at", "-created_at")[: SHOWN + 1])
    problems = _problems(principal, lake)
    return Overview(
        sources=datasources_for(principal).exclude(kind=Table.LAKE).count(),
        tables=_counted(lake),
        live=_counted(live),
        oldest=worst.caught_up_at if worst else None,
        oldest_name=f"{worst.database.name}.{worst.name}" if worst else "",
        jobs=list(map(job_without_contents(principal), jobs[:SHOWN])),
        has_more_jobs=len(jobs) > SHOWN,
        problems=problems[:MOST_PROBLEMS],
        has_more_problems=len(problems) > MOST_PROBLEMS,
        waiting=list(plans_awaiting_approval(principal)[:SHOWN]),
    )


def _counted(rows: QuerySet[Table]) -> int:
    """How many, as far as COUNTED: counting all of a large lake takes long."""
    return rows.order_by().values("pk")[: COUNTED + 1].count()


def _shown(count: int) -> str:
    return (
        f"{count:,}"
        if count <= COUNTED
        else gettext("more than %(number)s") % {"number": f"{COUNTED:,}"}
    )


def _problems(principal: Principal, lake: QuerySet[Table]) -> list[Problem]:
    """One more than is shown when there are more."""
    found = concerns_for(principal, lake, most=MOST_PROBLEMS + 1)
    return [Problem(one.name, _page_of(one), one.state, one.reason) for one in found]


def _page_of(concern: Concern) -> str:
    if concern.alert is not None:
        return row_of(concern.alert).page
    place = "table-health" if concern.state == ILL else "table"
    return reverse(f"frontend:{place}", args=[concern.table_id])
