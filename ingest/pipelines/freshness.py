"""How old the state that readers saw of a table was during the last day, and how old
it may be."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection

from core.jobs import SUCCEEDED
from ingest.contract.job import LOADS, SYNC
from ingest.models import Pipeline, TableHealth
from ingest.pipelines.policies.policy import Effective
from ingest.pipelines.policies.schedule import Manual, next_runs
from ingest.planning.facts import LOG

SLOT_SECONDS = 1800
SLOTS = 48

# A reader sees the state of a sync's start until the next one ends.
_SYNCED = """
SELECT slot, max(extract(epoch FROM finished_at - before))::float8,
  extract(epoch FROM max(started_at))::float8
FROM (
  SELECT floor(extract(epoch FROM finished_at) / %(step)s)::bigint AS slot,
    started_at, finished_at, lag(started_at) OVER (ORDER BY finished_at) AS before
  FROM core_job WHERE subject_id = %(table)s AND created_at >= %(since)s
    AND kind = ANY(%(kinds)s) AND state = %(state)s
) synced GROUP BY slot ORDER BY slot
"""


@dataclass(frozen=True, slots=True)
class Slot:
    """lag: the largest in it, in seconds; None = not known."""

    at: datetime
    lag: float | None


def lags_of(pipeline: Pipeline, now: datetime) -> list[Slot]:
    """Of the last day, the oldest first; one statement."""
    first = int(now.timestamp()) // SLOT_SECONDS - SLOTS + 1
    slots = range(first, first + SLOTS)
    found = (
        _checked(pipeline) if pipeline.capture == LOG else _synced(pipeline, slots, now)
    )
    return [
        Slot(datetime.fromtimestamp(slot * SLOT_SECONDS, now.tzinfo), found.get(slot))
        for slot in slots
    ]


def _synced(pipeline: Pipeline, slots: range, now: datetime) -> dict[int, float | None]:
    with connection.cursor() as cursor:
        cursor.execute(
            _SYNCED,
            {
                "step": SLOT_SECONDS,
                "table": str(pipeline.lake_table_id),
                "since": now - timedelta(seconds=SLOT_SECONDS * SLOTS),
                "kinds": sorted({*LOADS, SYNC}),
                "state": SUCCEEDED,
            },
        )
        rows = {slot: (gap, start) for slot, gap, start in cursor}
    found: dict[int, float | None] = {}
    reached: float | None = None
    for slot in slots:
        gap, reached = rows.get(slot, (None, reached))
        end = min((slot + 1) * SLOT_SECONDS, now.timestamp())
        ages = [gap, None if reached is None else end - reached]
        found[slot] = max((age for age in ages if age is not None), default=None)
    return found


def _checked(pipeline: Pipeline) -> dict[int, float | None]:
    """What each look at the table's files saw."""
    row = TableHealth.objects.filter(table=pipeline.lake_table_id).only("trend").first()
    found: dict[int, float | None] = {}
    for point in row.trend if row else ():
        slot = int(datetime.fromisoformat(point["at"]).timestamp()) // SLOT_SECONDS
        lags = (point.get("lag"), found.get(slot))
        found[slot] = max((lag for lag in lags if lag is not None), default=None)
    return found


def allowed_lag(policy: Effective, capture: str, now: datetime) -> float | None:
    """Seconds; None for a table that no schedule keeps fresh."""
    if capture == LOG:
        return policy.freshness
    if capture == "snapshot" or isinstance(policy.schedule, Manual):
        return None
    first, second = next_runs(policy.schedule, now, 2)
    return (second - first).total_seconds() + policy.late_after
