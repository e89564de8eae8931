"""Write how all pipelines did, minute by minute and summed by the hour.

A minute is written once, when it has ended; one in which nothing ticked is left out.
Two that write at once write the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.contrib.postgres.aggregates import ArrayAgg
from django.db import connection
from django.db.models import Count, Exists, OuterRef, QuerySet, Sum
from django.utils import timezone

from catalog.compiled import AnyRow
from core.jobs import FAILED, SUCCEEDED
from core.jobs.moves import names_of
from core.models import Job
from ingest.alerts.rules import LATE
from ingest.jobs.kinds import DriverKind
from ingest.models import Alert, Pipeline, Rollup
from ingest.models.states import LIVE, RETIRED
from ingest.pipelines.selectors import pipelines_on_schedule
from ingest.pipelines.source_overview import LAKE, SOURCE, Pair, pairs_of

KEPT = {Rollup.MINUTE: timedelta(hours=2), Rollup.HOUR: timedelta(days=8)}

_HOURS = """
INSERT INTO ingest_rollup (datasource_id, database_id, seconds, at, rows, applied,
  succeeded, failed, tables, late, lag_max, lag_p95, bytes)
SELECT datasource_id, database_id, 3600, %(hour)s, sum(rows), max(applied),
  sum(succeeded), sum(failed), (array_agg(tables ORDER BY at DESC))[1], max(late),
  max(lag_max), max(lag_p95), (array_agg(bytes ORDER BY at DESC))[1]
FROM ingest_rollup
WHERE seconds = 60 AND at >= %(hour)s AND at < %(hour)s + interval '1 hour'
GROUP BY 1, 2
ON CONFLICT (seconds, at, datasource_id, database_id) DO UPDATE SET
  rows = excluded.rows, applied = excluded.applied, succeeded = excluded.succeeded,
  failed = excluded.failed, tables = excluded.tables, late = excluded.late,
  lag_max = excluded.lag_max, lag_p95 = excluded.lag_p95, bytes = excluded.bytes
"""


def _carried() -> QuerySet[Pipeline]:
    return Pipeline.objects.filter(lake_table__isnull=False).exclude(state=RETIRED)


_is_any_carried = AnyRow(_carried)


def write_minute() -> int:
    """The minute that has ended last, unless it is written; how many rows."""
    if not _is_any_carried():
        return 0
    now = timezone.now()
    minute = now.replace(second=0, microsecond=0) - timedelta(minutes=1)
    if Rollup.objects.filter(seconds=Rollup.MINUTE, at=minute).exists():
        return 0
    rows = _minute(minute, now)
    if not rows:
        return 0
    Rollup.objects.bulk_create(rows, ignore_conflicts=True)
    with connection.cursor() as cursor:
        cursor.execute(_HOURS, {"hour": minute.replace(minute=0)})
    for seconds, kept in KEPT.items():
        Rollup.objects.filter(seconds=seconds, at__lt=now - kept).delete()
    return len(rows)


def _minute(minute: datetime, now: datetime) -> list[Rollup]:
    lags, ended, before = _lags(now), _ended(minute), _applied_before(minute)
    rows = []
    for pair, found in _standing().items():
        own = lags.get(pair, [])
        done = ended[pair]
        applied = found["applied"]
        rows.append(
            Rollup(
                datasource_id=pair[0],
                database_id=pair[1],
                seconds=Rollup.MINUTE,
                at=minute,
                # what a table that is gone had applied is missing now
                rows=done["rows"] + max(0, applied - before.get(pair, applied)),
                applied=applied,
                succeeded=done[SUCCEEDED],
                failed=done[FAILED],
                tables=found["tables"],
                late=found["late"],
                lag_max=max(own, default=None),
                lag_p95=quantile(own, 0.95),
                bytes=found["base"] + found["log"] + found["old"],
            )
        )
    return rows


def quantile(values: Iterable[float], part: float) -> float | None:
    """The least value that at least `part` of them do not exceed."""
    ordered = sorted(values)
    if not ordered:
        return None
    return ordered[max(0, -(-len(ordered) * round(part * 100) // 100) - 1)]


def _standing() -> dict[Pair, dict[str, int]]:
    is_late = Exists(
        Alert.objects.filter(
            table=OuterRef("lake_table"), kind=LATE, closed_at__isnull=True
        )
    )
    rows = _carried()
    counted = rows.order_by().values(SOURCE, LAKE).annotate(tables=Count("pk"))
    summed = counted.annotate(
        applied=Sum("rows_applied"),
        **{
            part: Sum(f"lake_table__health__{part}_bytes", default=0)
            for part in ("base", "log", "old")
        },
    )
    late = rows.filter(is_late).order_by().values(SOURCE, LAKE)
    lates = {_pair(one): one["late"] for one in late.annotate(late=Count("pk"))}
    return {_pair(one): one | {"late": lates.get(_pair(one), 0)} for one in summed}


def _pair(row: dict[str, Any]) -> Pair:
    return row[SOURCE], row[LAKE]


def _lags(now: datetime) -> dict[Pair, list[float]]:
    rows = pipelines_on_schedule().filter(
        state=LIVE, lake_table__caught_up_at__isnull=False
    )
    found = rows.order_by().values(SOURCE, LAKE)
    return {
        _pair(one): [max(0.0, (now - at).total_seconds()) for at in one["moments"]]
        for one in found.annotate(moments=ArrayAgg("lake_table__caught_up_at"))
    }


def _ended(minute: datetime) -> defaultdict[Pair, dict[str, int]]:
    """Jobs by how they ended, and rows of those that read some."""
    ended = Job.objects.filter(
        kind__in=names_of(DriverKind),
        state__in=[SUCCEEDED, FAILED],
        finished_at__gte=minute,
        finished_at__lt=minute + timedelta(minutes=1),
    )
    found: defaultdict[Pair, dict[str, int]] = defaultdict(
        lambda: {"rows": 0, SUCCEEDED: 0, FAILED: 0}
    )
    grouped = ended.order_by().values("subject_id", "state", "unit")
    jobs = list(grouped.annotate(jobs=Count("pk"), rows=Sum("done")))
    pairs = pairs_of({one["subject_id"] for one in jobs})
    for one in jobs:
        pair = pairs.get(one["subject_id"])
        if pair is None:
            continue
        found[pair][one["state"]] += one["jobs"]
        if one["unit"] == "rows" and one["state"] == SUCCEEDED:
            found[pair]["rows"] += one["rows"]
    return found


def _applied_before(minute: datetime) -> dict[Pair, int]:
    """By log capture up to the newest minute before."""
    rows = Rollup.objects.filter(seconds=Rollup.MINUTE, at__lt=minute)
    newest = rows.order_by("datasource", "database", "-at")
    found = newest.distinct("datasource", "database")
    return {
        (source, database): applied
        for source, database, applied in found.values_list(
            "datasource", "database", "applied"
        )
    }
