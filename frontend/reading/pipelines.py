"""The pipeline page of a source: states, throughput, lag and failures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from catalog.access.policy import Principal
from catalog.models import Datasource, Table
from core.models import Job
from frontend.charts import Chart, Point, chart_of
from frontend.reading.commits import rows_shown
from frontend.templatetags.figures import figure
from ingest.models import SourceFollower
from ingest.models.states import FAILED, LIVE, NEEDS_RESYNC
from ingest.pipelines.capture_status import CaptureStatus, TableCapture, capture_status
from ingest.pipelines.followers import LOST, is_followed
from ingest.pipelines.job_selectors import newest_failures
from ingest.pipelines.source_overview import (
    awaiting_approval,
    counts_by_status,
    rows_by_minute,
    tables_by_lag,
    tables_synced_from,
)

MINUTES = 60
CARDS = 5
NEXT_STEPS = {
    FAILED: _("see its jobs for the cause, fix it, then resume or resync it"),
    NEEDS_RESYNC: _("resync it from its page; until then it keeps its last commit"),
}
LAGS = (
    (_("under 10 s"), 10, ""),
    (_("under 1 min"), 60, ""),
    (_("under 5 min"), 300, ""),
    (_("under 1 h"), 3600, "warn"),
    (_("longer"), None, "bad"),
)


@dataclass(frozen=True, slots=True)
class FailureCard:
    """What failed, why, what to do next; `raw` is folded away."""

    table: Table
    job: Job | None

    @property
    def why(self) -> str:
        message = self.job.error_message if self.job else ""
        return self.table.status_reason or message

    @property
    def next_step(self) -> str:
        message = self.job.error_hint if self.job else ""
        return message or str(NEXT_STEPS.get(self.table.status, ""))

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


def pipelines_of_source(principal: Principal, source: Datasource) -> SourcePipelines:
    tables = tables_synced_from(principal, source)
    counts = counts_by_status(tables)
    now = timezone.now()
    charts = [_throughput(principal, source, now), _lags(tables, now)]
    return SourcePipelines(
        counts=counts,
        tables=sum(number for _, number in counts),
        waiting=awaiting_approval(principal, source),
        charts=[chart for chart in charts if chart],
        failures=_failures(principal, tables),
    )


def _throughput(
    principal: Principal, source: Datasource, now: datetime
) -> Chart | None:
    start = (now - timedelta(minutes=MINUTES - 1)).replace(second=0, microsecond=0)
    found = rows_by_minute(principal, source, start)
    if not found:
        return None
    minutes = [start + timedelta(minutes=number) for number in range(MINUTES)]
    points = [
        Point(f"{timezone.localtime(at):%H:%M}", float(found.get(at) or 0))
        for at in minutes
    ]
    return chart_of(gettext("Rows synced per minute"), points, shown=rows_shown)


def _lags(tables: QuerySet[Table], now: datetime) -> Chart | None:
    found = tables_by_lag(tables, [most for _, most, _ in LAGS], now)
    if not any(found):
        return None
    points = [
        Point(str(word), float(count), tone)
        for (word, _, tone), count in zip(LAGS, found, strict=True)
    ]
    return chart_of(
        gettext("Live tables by lag"), points, shown=_tables, names_all=True
    )


def _tables(value: float) -> str:
    text = ngettext("%(count)s table", "%(count)s tables", int(value))
    return text % {"count": figure(int(value))}


def _failures(principal: Principal, tables: QuerySet[Table]) -> list[FailureCard]:
    failed = tables.filter(status__in=(FAILED, NEEDS_RESYNC)).order_by("name", "id")
    shown = list(failed[:CARDS])
    jobs = newest_failures(principal, [table.pk for table in shown])
    return [FailureCard(table, jobs.get(table.pk)) for table in shown]


# ----------------------------------------------------------- log capture of a source

# The ones that lag most; all of them are in the list of tables.
SHOWN = 20


@dataclass(frozen=True, slots=True)
class CaptureCard:
    """lag: of the table whose readers see the oldest; None = not known of any."""

    status: CaptureStatus
    tables: Sequence[TableCapture]
    live: int
    lag: float | None

    @property
    def is_wanted(self) -> bool:
        return self.status.desired == SourceFollower.RUNNING

    @property
    def is_ill(self) -> bool:
        return self.status.observed in {"failed", "silent"}

    @property
    def is_lost(self) -> bool:
        """Only a person's decision brings it on."""
        return self.is_ill and self.status.code in LOST

    @property
    def tone(self) -> str:
        return "bad" if self.is_ill else "warn"


def capture_of_source(principal: Principal, source: Datasource) -> CaptureCard | None:
    """None where no table is read from the log."""
    if not is_followed(source):
        return None
    status = capture_status(principal, source)
    lags = [t.lag_seconds for t in status.tables if t.lag_seconds is not None]
    return CaptureCard(
        status=status,
        tables=sorted(status.tables, key=_lag, reverse=True)[:SHOWN],
        live=sum(table.state == LIVE for table in status.tables),
        lag=max(lags, default=None),
    )


def _lag(table: TableCapture) -> float:
    return -1.0 if table.lag_seconds is None else table.lag_seconds
