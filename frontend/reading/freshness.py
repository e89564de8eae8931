"""A table's freshness over a day as a chart, and what it may be."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone
from django.utils.translation import gettext

from frontend.charts import Chart, Point, chart_of
from frontend.templatetags.figures import duration
from ingest.models import Pipeline
from ingest.pipelines.freshness import SLOT_SECONDS, allowed_lag, lags_of
from ingest.pipelines.policies.store import policy_of


@dataclass(frozen=True, slots=True)
class Freshness:
    """allowed  seconds that it may lag; None = nothing is promised. rows_per_hour  over
    the last slots that are known; None where syncs do not count them"""

    chart: Chart | None
    allowed: float | None
    rows_per_hour: int | None

    @property
    def charts(self) -> list[Chart]:
        return [self.chart] if self.chart else []


def freshness_of(row: Pipeline, now: datetime) -> Freshness:
    allowed = allowed_lag(policy_of(row), row.capture, now)
    slots = lags_of(row, now)
    points = [
        Point(
            f"{timezone.localtime(slot.at):%H:%M}",
            slot.lag,
            "warn" if allowed and slot.lag and slot.lag > allowed else "",
        )
        for slot in slots
    ]
    note = ""
    if allowed is not None:
        said = gettext("amber: older than its target of %(time)s; heights by the root")
        note = said % {"time": duration(allowed)}
    chart = chart_of(
        gettext("Age of what readers saw"), points, shown=duration, note=note,
        scale=math.sqrt,
    )  # fmt: skip
    hour = 3600 // SLOT_SECONDS
    rows = sum(slot.rows for slot in slots[-hour - 1 : -1])
    return Freshness(chart, allowed, rows if row.capture == "timestamp" else None)
