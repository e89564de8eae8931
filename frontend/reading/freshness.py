"""A table's age over a day as a chart, beside what it may be."""

from __future__ import annotations

import math
from datetime import datetime

from django.utils import timezone
from django.utils.translation import gettext

from frontend.charts import Chart, Point, chart_of
from frontend.templatetags.figures import duration
from ingest.models import Pipeline
from ingest.pipelines.freshness import allowed_lag, lags_of
from ingest.pipelines.policies.store import policy_of


def age_charts(row: Pipeline, now: datetime) -> list[Chart]:
    """None where nothing is known of it."""
    allowed = allowed_lag(policy_of(row), row.capture, now)
    points = [
        Point(
            f"{timezone.localtime(slot.at):%H:%M}",
            slot.lag,
            "warn" if allowed and slot.lag and slot.lag > allowed else "",
        )
        for slot in lags_of(row, now)
    ]
    note = ""
    if allowed is not None:
        said = gettext("amber: older than its target of %(time)s; heights by the root")
        note = said % {"time": duration(allowed)}
    chart = chart_of(
        gettext("Age of what readers saw"), points, shown=duration, note=note,
        scale=math.sqrt,
    )  # fmt: skip
    return [chart] if chart else []
