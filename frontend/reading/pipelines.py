"""Everything that is carried from one source: states, throughput, lag, failures.

A fixed number of statements with limits, however many tables there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import CharField, Count, Exists, Max, OuterRef, Q, QuerySet, Sum
from django.db.models.functions import Cast, TruncMinute
from django.utils import timezone
from django.utils.translation import gettext

from catalog.access.policy import Principal, Securable
from catalog.models import Datasource, Table
from catalog.selectors import TableFilter, tables_for
from core import jobs as states
from core.jobs.handlers import names_of
from core.models import Job
from frontend.charts import Chart, Point, chart_of
from frontend.reading.sources import rights_on
from frontend.templatetags.figures import figure
from ingest.jobs.driver_jobs import DriverJob
from ingest.models import Pipeline
from ingest.models.states import FAILED, LIVE, NEEDS_RESYNC, PROPOSED, RETIRED
from ingest.pipelines.selectors import jobs_for, pipelines_on_schedule

MINUTES = 60
CARDS = 5
NEXT_STEPS = {
    FAILED: "see its jobs for the cause, fix it, then resume or resync it",
    NEEDS_RESYNC: "resync it from its page; until then it keeps its last commit",
}
LAGS = (
    ("under 10 s", 10, ""),
    ("under 1 min", 60, ""),
    ("under 5 min", 300, ""),
    ("under 1 h", 3600, "warn"),
    ("longer", None, "bad"),
)


@dataclass(frozen=True, slots=True)
class FailureCard:
    """What failed, why, what to do next; `raw` is folded away."""

    table: Table
    job: Job | None

    @property
    def why(self) -> str:
        said = self.job.error_message if self.job else ""
        return self.table.status_reason or said

    @property
    def next_step(self) -> str:
        said = self.job.error_hint if self.job else ""
        return said or NEXT_STEPS.get(self.table.status, "")

    @property
    def raw(self) -> str:
        if self.job is None:
            return ""
        return f"{self.job.error_code}: {self.job.error_message}"


@dataclass(frozen=True, slots=True)
class SourcePipelines:
    """counts: (state, tables), most first. waiting: planned, not approved, for who
    may approve."""

    counts: list[tuple[str, int]]
    tables: int
    waiting: int
    charts: list[Chart]
    failures: list[FailureCard]


def carried_from(principal: Principal, source: Datasource) -> QuerySet[Table]:
    """Visible lake tables that a table of this source feeds."""
    pipelines = Pipeline.objects.filter(
        lake_table=OuterRef("pk"), source_table__database__datasource=source
    ).exclude(state=RETIRED)
    rows = tables_for(principal, TableFilter(kind=Table.LAKE)).filter(Exists(pipelines))
    return rows.prefetch_related(None)


def pipelines_of_source(principal: Principal, source: Datasource) -> SourcePipelines:
    tables = carried_from(principal, source)
    counted = tables.order_by().values("status").annotate(found=Count("pk"))
    counts = sorted(counted.values_list("status", "found"), key=lambda one: -one[1])
    waiting = 0
    if rights_on(principal, Securable(source.name)).manage:
        planned = Pipeline.objects.filter(state=PROPOSED)
        waiting = planned.filter(source_table__database__datasource=source).count()
    now = timezone.now()
    charts = [
        _throughput(jobs_for(principal), source, now),
        _lags(tables, now),
    ]
    return SourcePipelines(
        counts=counts,
        tables=sum(number for _, number in counts),
        waiting=waiting,
        charts=[chart for chart in charts if chart],
        failures=_failures(principal, tables),
    )


def _throughput(jobs: QuerySet[Job], source: Datasource, now: datetime) -> Chart | None:
    """Rows of loads and rounds per minute in which they ended."""
    start = (now - timedelta(minutes=MINUTES - 1)).replace(second=0, microsecond=0)
    pipelines = Pipeline.objects.filter(
        source_table__database__datasource=source, lake_table__isnull=False
    )
    keys = pipelines.annotate(key=Cast("lake_table_id", CharField())).values("key")
    ended = jobs.filter(
        finished_at__gte=start,
        kind__in=names_of(DriverJob),
        unit="rows",
        state=states.SUCCEEDED,
        subject_id__in=keys,
    )
    by_minute = dict(
        ended.order_by()
        .annotate(minute=TruncMinute("finished_at"))
        .values("minute")
        .annotate(rows=Sum("done"))
        .values_list("minute", "rows")
    )
    if not by_minute:
        return None
    minutes = [start + timedelta(minutes=number) for number in range(MINUTES)]
    points = [Point(f"{at:%H:%M}", float(by_minute.get(at) or 0)) for at in minutes]
    return chart_of(gettext("Rows synced per minute"), points, shown=_rows)


def _lags(tables: QuerySet[Table], now: datetime) -> Chart | None:
    """How many live tables are how far behind, of those that follow a schedule."""
    counts: dict[str, Count] = {}
    least = 0
    for number, (_, most, _) in enumerate(LAGS):
        wanted = Q(caught_up_at__lte=now - timedelta(seconds=least))
        if number == 0:
            wanted = Q(caught_up_at__isnull=False)
        if most is not None:
            wanted &= Q(caught_up_at__gt=now - timedelta(seconds=most))
            least = most
        counts[f"band_{number}"] = Count("pk", filter=wanted)
    pipelines = pipelines_on_schedule().filter(lake_table=OuterRef("pk"))
    found = tables.order_by().filter(Exists(pipelines), status=LIVE).aggregate(**counts)
    points = [
        Point(word, float(found[f"band_{number}"]), tone)
        for number, (word, _, tone) in enumerate(LAGS)
    ]
    if not any(point.value for point in points):
        return None
    return chart_of(
        gettext("Live tables by lag"), points, shown=_tables, names_all=True
    )


def _rows(value: float) -> str:
    return f"{figure(int(value))} rows"


def _tables(value: float) -> str:
    return f"{figure(int(value))} table{'' if value == 1 else 's'}"


def _failures(principal: Principal, tables: QuerySet[Table]) -> list[FailureCard]:
    failed = list(
        tables.filter(status__in=(FAILED, NEEDS_RESYNC)).order_by("name", "id")[:CARDS]
    )
    keys = [str(table.pk) for table in failed]
    rows = jobs_for(principal).filter(subject_id__in=keys, state=states.FAILED)
    newest = rows.order_by().values("subject_id").annotate(at=Max("created_at"))
    wanted = Q(pk__in=[])
    for one in newest:
        wanted |= Q(subject_id=one["subject_id"], created_at=one["at"])
    jobs = {job.subject_id: job for job in rows.filter(wanted)}
    return [FailureCard(table, jobs.get(str(table.pk))) for table in failed]
