"""What /metrics says of carrying tables: one statement a question, each bounded by an
index or by a page, and no label that grows with the number of tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from django.db import connection
from django.db.models import Count, Min, Q, Sum
from prometheus_client.core import GaugeMetricFamily, Metric

from ingest.models import Pipeline, SourceFollower, TableHealth
from ingest.models.states import LIVE
from ingest.pipelines.capture_status import FOLLOWER_STATES, follower_lag, observed_of
from ingest.pipelines.selectors import pipelines_on_schedule

# Upper ends; the last is "+Inf".
LAG_BUCKETS = (10, 30, 60, 300, 900, 3_600, 21_600, 86_400)
SCORE_BANDS = {"0-49": (0, 49), "50-79": (50, 79), "80-99": (80, 99), "100": (100, 100)}
RECENT_SECONDS = 300

_RECENT = """
SELECT kind, state, count(*),
  count(*) FILTER (WHERE state = 'SUCCEEDED' AND report->'facts'->>'instant' <> ''),
  coalesce(sum(CASE WHEN kind IN ('sync', 'snapshot', 'resync')
    AND jsonb_typeof(report->'facts'->'rows') = 'number'
    THEN (report->'facts'->>'rows')::numeric END), 0)
FROM core_job WHERE created_at > now() - make_interval(secs => %s) GROUP BY 1, 2
"""


def gauges() -> Iterator[Metric]:
    yield from _lag()
    yield from _health()
    yield from _verification()
    yield from _recent()
    yield from _captures()


def _lag() -> Iterator[Metric]:
    """Of tables that follow a schedule; a histogram, so that no table has a label."""
    now = datetime.now(UTC)
    at = "lake_table__caught_up_at"
    within = {
        f"b{end}": Count("pk", filter=Q(**{f"{at}__gte": _before(now, end)}))
        for end in LAG_BUCKETS
    }
    ends = {"oldest": Min(at), "oldest_live": Min(at, filter=Q(state=LIVE))}
    found = pipelines_on_schedule().aggregate(n=Count("pk"), **ends, **within)
    family = GaugeMetricFamily(
        "sluice_table_lag_seconds_bucket",
        "Followed tables with at most so much lag",
        labels=["le"],
    )
    for end in LAG_BUCKETS:
        family.add_metric([str(end)], found[f"b{end}"])
    family.add_metric(["+Inf"], found["n"])
    yield family
    for name, meaning, oldest in (
        ("sluice_followed_lag_seconds_max", "followed", found["oldest"]),
        ("sluice_table_lag_seconds_max", "LIVE", found["oldest_live"]),
    ):
        age = (now - oldest).total_seconds() if oldest else 0.0
        yield single(name, f"Lag of the latest {meaning} table on a schedule", age)


def _before(now: datetime, seconds: int) -> datetime:
    return datetime.fromtimestamp(now.timestamp() - seconds, UTC)


def _health() -> Iterator[Metric]:
    bands = {
        f"band{number}": Count("pk", filter=Q(score__range=band))
        for number, band in enumerate(SCORE_BANDS.values())
    }
    sums = ("base_bytes", "log_bytes", "old_bytes", "pending", "stuck")
    found = TableHealth.objects.aggregate(
        unseen=Count("pk", filter=Q(score=None)),
        unreadable=Count("pk", filter=~Q(problem="")),
        worst=Min("score"),
        **bands,
        **{f"sum_{name}": Sum(name) for name in sums},
    )
    counts = {band: found[f"band{n}"] for n, band in enumerate(SCORE_BANDS)}
    yield labelled(
        "sluice_tables_by_score",
        "Lake tables by health score",
        "band",
        counts | {"unseen": found["unseen"]},
    )
    worst = 100 if found["worst"] is None else found["worst"]
    yield single("sluice_health_score_min", "The worst health score", worst)
    yield single(
        "sluice_tables_unreadable",
        "Lake tables whose files could not be checked",
        found["unreadable"],
    )
    yield labelled(
        "sluice_lake_bytes",
        "Bytes of lake tables when last checked: base and log files, and what is"
        " replaced and waits for cleaning",
        "part",
        {part: found[f"sum_{part}_bytes"] or 0 for part in ("base", "log", "old")},
    )
    yield single(
        "sluice_compactions_pending",
        "Compactions planned on timelines and not completed",
        found["sum_pending"] or 0,
    )
    yield single(
        "sluice_work_stuck",
        "Instants on timelines without a running job",
        found["sum_stuck"] or 0,
    )


def _verification() -> Iterator[Metric]:
    """Of tables whose policy asks for verification; one index has them all."""
    now = datetime.now(UTC)
    followed = Pipeline.objects.filter(verify_at__isnull=False)
    found = followed.aggregate(
        never=Count("pk", filter=Q(verified_at=None)),
        equal=Count("pk", filter=Q(verdict="equal")),
        different=Count("pk", filter=Q(verdict="different")),
        oldest=Min("verified_at"),
        due=Count("pk", filter=Q(verify_at__lte=now)),
    )
    results = ("equal", "different", "never")
    yield labelled(
        "sluice_tables_verified",
        "Tables verified by policy, by the result of their newest verification",
        "result",
        {result: found[result] for result in results},
    )
    oldest = found["oldest"]
    yield single(
        "sluice_verification_age_seconds_max",
        "Age of the oldest newest verification of a table verified by policy",
        (now - oldest).total_seconds() if oldest else 0.0,
    )
    yield single(
        "sluice_verifications_due", "Tables whose verification is due", found["due"]
    )


def _captures() -> Iterator[Metric]:
    """Of followers that shall run; few rows, one statement."""
    rows = SourceFollower.objects.filter(desired=SourceFollower.RUNNING)
    now, counts = datetime.now(UTC), dict.fromkeys(FOLLOWER_STATES, 0)
    sums = dict.fromkeys(("kept", "not_durable"), 0)
    lag, rate, waiting = 0.0, 0.0, 0
    for row in rows:
        observed, _, _ = observed_of(row, now)
        counts[observed] = counts.get(observed, 0) + 1
        lag = max(lag, follower_lag(row, now) or 0.0)
        rate += row.rows_per_second
        waiting += row.waiting_bytes
        sums["kept"] += row.log_kept
        sums["not_durable"] += row.log_behind
    yield labelled(
        "sluice_log_followers", "Followers of sources' logs", "state", counts
    )
    yield single(
        "sluice_log_lag_seconds_max", "Lag of the follower behind its source", lag
    )
    yield single("sluice_log_rows_per_second", "Rows that followers make durable", rate)
    yield single("sluice_log_waiting_bytes", "Bytes of segments in the lake", waiting)
    yield labelled(
        "sluice_source_log_bytes",
        "Bytes of log that sources keep for followers, and of it not durable here",
        "part",
        sums,
    )


def _recent() -> Iterator[Metric]:
    with connection.cursor() as cursor:
        cursor.execute(_RECENT, [RECENT_SECONDS])
        rows = cursor.fetchall()
    window = f"asked for within {RECENT_SECONDS} s"
    family = GaugeMetricFamily(
        "sluice_jobs_recent", f"Jobs {window}, by outcome", labels=["kind", "state"]
    )
    for kind, state, count, _, _ in rows:
        family.add_metric([kind, state], count)
    yield family
    commits, carried = sum(row[3] for row in rows), sum(row[4] for row in rows)
    yield single("sluice_commits_recent", f"Commits of jobs {window}", commits)
    yield single(
        "sluice_rows_recent",
        f"Rows that syncs and snapshots {window} wrote",
        float(carried),
    )


def single(name: str, meaning: str, value: float) -> Metric:
    return GaugeMetricFamily(name, meaning, value=value)


def labelled(name: str, meaning: str, label: str, values: Mapping[str, Any]) -> Metric:
    family = GaugeMetricFamily(name, meaning, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family
