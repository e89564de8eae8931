"""What is synced from every source into every lake database, how it stands and did.

A fixed number of statements, however many tables there are. A pair of source and lake
database is called a route here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Count, Min, Q

from catalog.access.policy import Principal
from catalog.access.scope import Reach, Scope, in_scope
from catalog.models import Table
from core.jobs import FAILED
from core.jobs.moves import names_of
from core.models import Job
from ingest.jobs.kinds import DriverKind
from ingest.models import Pipeline, Rollup
from ingest.models.states import LIVE, PAUSED, RETIRED
from ingest.pipelines.selectors import jobs_for, pipelines_on_schedule
from ingest.pipelines.source_overview import (
    LAKE,
    SOURCE,
    Pair,
    count_undecided,
    pairs_of,
)
from ingest.pipelines.table_status import undecided_among

MOST_FAILURES = 500


@dataclass(slots=True)
class Route:
    """counts: tables by state as it is shown. oldest: when the live table on a schedule
    that lags most was caught up; None = none lags."""

    pair: Pair
    source: str
    kind: str
    database: str
    counts: Counter[str] = field(default_factory=Counter)
    oldest: datetime | None = None

    @property
    def tables(self) -> int:
        return sum(self.counts.values())


@dataclass(slots=True)
class Failures:
    """Jobs that failed since a moment, and the newest of them."""

    newest: Job
    count: int = 0


def routes_for(scope: Scope) -> list[Route]:
    """By the names of sources and databases, of tables in sight."""
    seen = _seen(scope)
    names = {
        "source": "source_table__database__datasource__name",
        "kind": "source_table__database__datasource__kind",
        "database": "lake_table__database__name",
        "status": "lake_table__status",
    }
    rows = Pipeline.objects.filter(seen, lake_table__isnull=False)
    grouped = (
        rows.exclude(state=RETIRED).order_by().values(SOURCE, LAKE, *names.values())
    )
    found: dict[Pair, Route] = {}
    for row in grouped.annotate(tables=Count("pk")):
        pair = row[SOURCE], row[LAKE]
        source, kind, database = (row[names[n]] for n in ("source", "kind", "database"))
        route = found.setdefault(pair, Route(pair, source, kind, database))
        route.counts[row[names["status"]]] = row["tables"]
    if any(PAUSED in route.counts for route in found.values()):
        for pair, number in _undecided(seen).items():
            count_undecided(found[pair].counts, number)
    for pair, oldest in _oldest(seen).items():
        if pair in found:
            found[pair].oldest = oldest
    return sorted(found.values(), key=lambda route: (route.source, route.database))


def _seen(scope: Scope) -> Q:
    """Filter for pipelines."""
    if scope.reach is Reach.ALL:
        return Q()
    return Q(lake_table__in=Table.objects.filter(in_scope(scope)))


def _undecided(seen: Q) -> Counter[Pair]:
    """How many paused tables wait for a decision."""
    rows = Pipeline.objects.filter(seen, lake_table__status=PAUSED)
    rows = rows.exclude(state=RETIRED).order_by()
    waiting = undecided_among(Table.objects.filter(pk__in=rows.values("lake_table")))
    return Counter(rows.filter(lake_table__in=waiting).values_list(SOURCE, LAKE))


def _oldest(seen: Q) -> dict[Pair, datetime]:
    rows = pipelines_on_schedule().filter(seen, lake_table__status=LIVE)
    grouped = rows.order_by().values(SOURCE, LAKE)
    return {
        (row[SOURCE], row[LAKE]): row["oldest"]
        for row in grouped.annotate(oldest=Min("lake_table__caught_up_at"))
        if row["oldest"] is not None
    }


def rollups_for(scope: Scope, seconds: int, since: datetime) -> list[Rollup]:
    """Slots of that length that began since then, the oldest first. They tell of whole
    databases, so they are for who sees all tables of one."""
    rows = Rollup.objects.filter(seconds=seconds, at__gte=since)
    if scope.reach is not Reach.ALL:
        rows = rows.filter(database__in=scope.databases)
    return list(rows.order_by("at"))


def failures_since(principal: Principal, since: datetime) -> Mapping[Pair, Failures]:
    """The newest MOST_FAILURES of them."""
    rows = jobs_for(principal).filter(
        kind__in=names_of(DriverKind), state=FAILED, finished_at__gte=since
    )
    shown = rows.only("id", "subject", "subject_id", "error_message", "finished_at")
    jobs = list(shown.order_by("-finished_at")[:MOST_FAILURES])
    pairs = pairs_of({job.subject_id for job in jobs}) if jobs else {}
    found: dict[Pair, Failures] = {}
    for job in jobs:
        pair = pairs.get(job.subject_id)
        if pair is not None:
            found.setdefault(pair, Failures(job)).count += 1
    return found
