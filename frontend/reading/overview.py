"""The home page's numbers, in a fixed number of statements."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from itertools import chain

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.urls import reverse

from catalog.access.policy import Principal
from catalog.models import Table
from catalog.selectors import TableFilter, datasources_for, tables_for
from core.jobs import ACTIVE, WAITING
from core.models import Job
from frontend.reading.alerts import row_of
from frontend.reading.fleet import in_sight
from frontend.reading.health_charts import FAIR
from ingest.alerts.rules import ALERTS
from ingest.alerts.selectors import alerts_for
from ingest.models import Onboarding, Pipeline, TableHealth
from ingest.models.alerts import Alert
from ingest.models.states import FAILED, LIVE, NEEDS_RESYNC, PAUSED, PROPOSED
from ingest.pipelines.selectors import jobs_for, onboardings_for, pipelines_on_schedule

SHOWN = 8
COUNTED = 10_000
MOST_PROBLEMS = 50
PROBLEMS = (FAILED, NEEDS_RESYNC, PAUSED)
IN_USE = Q(onboarding__isnull=False)


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
    pipelines = pipelines_on_schedule().filter(lake_table=OuterRef("pk"))
    followed = live.exclude(caught_up_at=None).filter(Exists(pipelines))
    worst = followed.order_by("caught_up_at", "id").first()
    moving = jobs_for(principal).filter(state__in=[*WAITING, *ACTIVE])
    jobs = list(moving.order_by("-started_at", "-created_at")[: SHOWN + 1])
    # no DISTINCT over a join: a request may name thousands of tables
    planned = Pipeline.objects.filter(onboarding=OuterRef("pk"), state=PROPOSED)
    waiting = onboardings_for(principal).filter(Exists(planned), approved_at=None)
    problems = _problems(principal, lake)
    return Overview(
        sources=datasources_for(principal).exclude(kind=Table.LAKE).count(),
        tables=_counted(lake),
        live=_counted(live),
        oldest=worst.caught_up_at if worst else None,
        oldest_name=f"{worst.database.name}.{worst.name}" if worst else "",
        jobs=jobs[:SHOWN],
        has_more_jobs=len(jobs) > SHOWN,
        problems=problems[:MOST_PROBLEMS],
        has_more_problems=len(problems) > MOST_PROBLEMS,
        waiting=list(waiting.defer("request")[:SHOWN]),
    )


def _counted(rows: QuerySet[Table]) -> int:
    """How many, as far as COUNTED: counting all of a large lake takes long."""
    return rows.order_by().values("pk")[: COUNTED + 1].count()


def _shown(count: int) -> str:
    return f"{count:,}" if count <= COUNTED else f"more than {COUNTED:,}"


def _problems(principal: Principal, lake: QuerySet[Table]) -> list[Problem]:
    """One a table, and one more than is shown when there are more: tables that
    stopped, those with an open alert, the newest first, those nobody could look at and
    those in a bad way."""
    most = MOST_PROBLEMS + 1
    # F, N, P: what failed before what somebody paused
    stopped = lake.filter(status__in=PROBLEMS).order_by("status", "name", "id")[:most]
    found: dict[int | None, Problem] = {t.pk: _stopped(t) for t in stopped}
    told = alerts_for(principal).filter(closed_at=None, table__isnull=False)
    others = told.exclude(table__in=list(found)).order_by("-id")
    # a table has at most one of each kind
    for alert in others[: most * len(ALERTS)]:
        found.setdefault(alert.table_id, _alerted(alert))
    others_in_sight = in_sight(principal).exclude(table__in=list(found))
    shown = others_in_sight.select_related("table__database").only(
        "table__name", "table__database__name", "losses", "problem"
    )
    unseen = shown.exclude(problem="").order_by("table_id")
    worst = shown.filter(score__lt=FAIR).order_by("score", "table_id")
    for health in chain(unseen[:most], worst[:most]):
        found.setdefault(health.table_id, _ill(health))
    return list(found.values())[:most]


def _stopped(table: Table) -> Problem:
    return Problem(
        name=f"{table.database.name}.{table.name}",
        url=reverse("frontend:table", args=[table.pk]),
        state=table.status,
        reason=table.status_reason,
    )


def _alerted(alert: Alert) -> Problem:
    name = f"{alert.database}.{alert.name}"
    return Problem(name, row_of(alert).page, alert.kind, alert.message)


def _ill(health: TableHealth) -> Problem:
    table = health.table
    return Problem(
        name=f"{table.database.name}.{table.name}",
        url=reverse("frontend:table-health", args=[table.pk]),
        state="problem",
        reason=health.problem or (health.losses[0]["reason"] if health.losses else ""),
    )
