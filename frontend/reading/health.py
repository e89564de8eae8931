"""A lake table's health as its page shows it: words, charts, and which repair helps."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from django.db.models import F, QuerySet

from catalog.access.policy import Principal
from catalog.models import Table
from catalog.selectors import TableFilter, tables_for
from frontend.actions import ACTIONS, Action
from frontend.charts import Chart, Point, chart_of
from frontend.templatetags.figures import duration, figure, size
from ingest.maintenance.buckets import Suggestion, suggest_buckets
from ingest.maintenance.facts import SIZE_BINS, LakeFacts, at_of, facts_from
from ingest.maintenance.written import Written, written_from
from ingest.models import TableHealth

GOOD, FAIR = 90, 70
STEPS = {
    "execute": "A planned compaction runs",
    "schedule": "A compaction is planned over everything, and runs",
    "wait": "Nothing yet",
    "decide": "You decide",
}
_NAMES = ("below 1", "8", "32", "128", "512", "more")


@dataclass(frozen=True, slots=True)
class LossRow:
    """A reason with the action that helps, when this person may ask for it."""

    points: int
    reason: str
    action: Action | None
    instant: str


@dataclass(frozen=True, slots=True)
class StepRow:
    word: str
    reason: str
    at: str


@dataclass(frozen=True, slots=True)
class Health:
    """tone: a CSS class. facts: None while nobody looked."""

    row: TableHealth | None
    tone: str
    losses: list[LossRow]
    steps: list[StepRow]
    charts: list[Chart]
    facts: LakeFacts | None
    written: Written
    fit: Suggestion | None = None


def health_for(table: Table, offered: list[Action]) -> Health:
    row = TableHealth.objects.filter(table=table).first()
    if row is None or not row.facts:
        return Health(row, "idle", [], [], [], None, Written())
    facts = facts_from(row.facts)
    written = written_from(row.facts.get("written", {}))
    able = {action.name for action in offered}
    return Health(
        row,
        tone_of(row.score),
        [_loss(loss, able) for loss in row.losses],
        [_step(step) for step in row.plan],
        [
            *_charts(facts, row.trend),
            *_written_charts(written),
        ],
        facts,
        written,
        suggest_buckets(facts),
    )


def proposed_buckets(table: Table) -> int:
    """What its files suggest, else what it has."""
    row = TableHealth.objects.filter(table=table).first()
    fit = suggest_buckets(facts_from(row.facts)) if row and row.facts else None
    return fit.buckets if fit else table.buckets or 1


def tone_of(score: int | None) -> str:
    if score is None:
        return "idle"
    return "ok" if score >= GOOD else "warn" if score >= FAIR else "bad"


def fleet_for(principal: Principal, q: str) -> QuerySet[Table]:
    """Lake tables in sight that were loaded, the worst first; unseen ones last."""
    rows = tables_for(principal, TableFilter(kind=Table.LAKE, q=q))
    order = (F("health__score").asc(nulls_last=True), F("health__table"))
    known = rows.filter(health__isnull=False).select_related("health")
    return known.order_by(*order)


def _loss(loss: dict[str, Any], able: set[str]) -> LossRow:
    name = loss.get("repair") or ""
    action = ACTIONS[name] if name in able else None
    return LossRow(
        loss["points"], loss["reason"], action, str(loss.get("instant") or "")
    )


def _step(step: dict[str, Any]) -> StepRow:
    return StepRow(STEPS.get(step["step"], ""), step["reason"], step.get("at") or "")


def _charts(facts: LakeFacts, trend: list[dict[str, Any]]) -> list[Chart]:
    times = [
        Point(_clock(c.instant), c.seconds, "idle" if c.action == "compaction" else "")
        for c in facts.commits
    ]
    sizes = [
        Point(name, float(count))
        for name, count in zip(_NAMES, facts.sizes, strict=False)
    ]
    buckets = [
        Point(str(number), float(count))
        for number, count in enumerate(facts.bucket_bytes)
    ]
    points = [
        Point(_day(p["at"]), float(p["score"]), tone_of(p["score"])) for p in trend
    ]
    logs = [Point(_day(p["at"]), float(p["log_bytes"])) for p in trend]
    drawn = [
        chart_of("Time a commit took", times, shown=duration)
        if len(times) > 1
        else None,
        chart_of("Base files by size in MB", sizes, shown=_files, names_all=True),
        chart_of("Bytes per bucket", buckets, shown=size) if len(buckets) > 1 else None,
        chart_of("Score", points, shown=_whole) if len(points) > 1 else None,
        chart_of("Log files", logs, shown=size) if len(logs) > 1 else None,
    ]
    assert len(_NAMES) == len(SIZE_BINS) + 1
    return [chart for chart in drawn if chart]


def _written_charts(written: Written) -> list[Chart]:
    """What upkeep costs, and how the table grows, by day."""
    if len(written.days) < 2:
        return []
    days = [f"{date.fromisoformat(day.day):%d %b}" for day in written.days]
    bars = {
        "What readers read, by day": [day.table_bytes for day in written.days],
        "Bytes of changed rows, by day": [day.changed_bytes for day in written.days],
        "Bytes written again by upkeep, by day": [
            day.upkeep_bytes for day in written.days
        ],
    }
    drawn = (
        chart_of(
            title,
            [Point(*pair) for pair in zip(days, map(float, values), strict=True)],
            shown=size,
        )
        for title, values in bars.items()
    )
    return [chart for chart in drawn if chart]


def _files(value: float) -> str:
    return f"{figure(int(value))} files"


def _whole(value: float) -> str:
    return str(int(value))


def _clock(instant: str) -> str:
    at = at_of(instant)
    return f"{at:%H:%M:%S}" if at else instant


def _day(text: str) -> str:
    return f"{datetime.fromisoformat(text):%d %b %H:%M}"
