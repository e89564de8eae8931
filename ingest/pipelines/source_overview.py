"""What is synced from one source: its tables, their throughput and their lag.

A fixed number of statements, however many tables there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from django.db.models import (
    CharField,
    Count,
    Exists,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Sum,
)
from django.db.models.functions import Cast, TruncMinute

from catalog.access.enforcement import may_on
from catalog.access.policy import Principal, Securable
from catalog.models import Datasource, Table
from catalog.selectors.tables import TableFilter, tables_for
from core.jobs import SUCCEEDED
from core.jobs.moves import names_of
from core.models import Job
from core.sentences import sentence_of
from ingest.contract.job import LOADS, SYNC
from ingest.jobs.kinds import DriverKind
from ingest.models import Pipeline
from ingest.models.states import LIVE, PAUSED, PROPOSED, RETIRED
from ingest.pipelines.selectors import jobs_for, pipelines_on_schedule
from ingest.pipelines.table_status import UNDECIDED, undecided_among

# From which source into which lake database, as ids.
Pair = tuple[int, int]
SOURCE, LAKE = "source_table__database__datasource", "lake_table__database"


def tables_synced_from(principal: Principal, source: Datasource) -> QuerySet[Table]:
    """Visible lake tables into which a table of this source is synced."""
    pipelines = Pipeline.objects.filter(
        lake_table=OuterRef("pk"), source_table__database__datasource=source
    ).exclude(state=RETIRED)
    rows = tables_for(principal, TableFilter(kind=Table.LAKE)).filter(Exists(pipelines))
    return rows.prefetch_related(None)


def counts_by_status(tables: QuerySet[Table]) -> list[tuple[str, int]]:
    """(state as it is shown, tables), most first."""
    counted = tables.order_by().values("status").annotate(found=Count("pk"))
    counts = Counter(dict(counted.values_list("status", "found")))
    if PAUSED in counts:
        count_undecided(counts, len(undecided_among(tables)))
    return counts.most_common()


def count_undecided(counts: Counter[str], number: int) -> None:
    """So many of the paused ones are shown as those that wait for a decision."""
    counts.update({UNDECIDED: number, PAUSED: -number})
    for state in [name for name, count in counts.items() if not count]:
        del counts[state]


def awaiting_approval(principal: Principal, source: Datasource) -> int:
    """How many planned tables wait; 0 for who may not approve them."""
    if not may_on(principal, Securable(source.name)).manage:
        return 0
    planned = Pipeline.objects.filter(state=PROPOSED)
    return planned.filter(source_table__database__datasource=source).count()


def rows_by_minute(
    principal: Principal, source: Datasource, since: datetime
) -> dict[datetime, int]:
    """Rows of snapshots and syncs, by the minute in which they ended."""
    pipelines = Pipeline.objects.filter(
        source_table__database__datasource=source, lake_table__isnull=False
    )
    keys = pipelines.annotate(key=Cast("lake_table_id", CharField())).values("key")
    ended = jobs_for(principal).filter(
        finished_at__gte=since,
        kind__in=names_of(DriverKind),
        unit="rows",
        state=SUCCEEDED,
        subject_id__in=keys,
    )
    return dict(
        ended.order_by()
        .annotate(minute=TruncMinute("finished_at"))
        .values("minute")
        .annotate(rows=Sum("done"))
        .values_list("minute", "rows")
    )


def pairs_of(table_ids: Iterable[str]) -> dict[str, Pair]:
    """Of lake tables, as jobs name them."""
    rows = Pipeline.objects.filter(lake_table__in=[int(pk) for pk in table_ids if pk])
    found = rows.exclude(state=RETIRED).values_list("lake_table", SOURCE, LAKE)
    return {str(table): (source, database) for table, source, database in found}


def warnings_of(tables: QuerySet[Table], most: int) -> list[tuple[str, int]]:
    """(warning, tables) of the newest sync or load of each table, that of most tables
    first: what a source lacks every job of its tables says. An index finds each job."""
    newest = Job.objects.filter(
        subject_id=Cast(OuterRef("pk"), CharField()),
        kind__in=[SYNC, *LOADS],
        state=SUCCEEDED,
    ).order_by("-created_at")
    said = Subquery(newest.values("report__warnings")[:1])
    made_of = Subquery(newest.values("report__sentences")[:1])
    found = tables.order_by().annotate(said=said, made_of=made_of)
    counted = Counter(
        sentence_of(text, origins)
        for texts, origins in found.values_list("said", "made_of")
        for text in set(texts or ())
    )
    return sorted(counted.items(), key=lambda one: (-one[1], one[0]))[:most]


def tables_by_lag(
    tables: QuerySet[Table], bounds: Sequence[int | None], now: datetime
) -> list[int]:
    """How many live tables on a schedule lag less than each of the rising bounds, in
    seconds, and not less than the one before; None = however much."""
    counts: dict[str, Count] = {}
    least = 0
    for number, most in enumerate(bounds):
        wanted = Q(caught_up_at__lte=now - timedelta(seconds=least))
        if number == 0:
            wanted = Q(caught_up_at__isnull=False)
        if most is not None:
            wanted &= Q(caught_up_at__gt=now - timedelta(seconds=most))
            least = most
        counts[f"band_{number}"] = Count("pk", filter=wanted)
    found = following(tables).order_by().aggregate(**counts)
    return [found[f"band_{number}"] for number in range(len(bounds))]


def most_lagging(tables: QuerySet[Table]) -> Table | None:
    """The one whose readers see the oldest data."""
    rows = following(tables).exclude(caught_up_at=None)
    return rows.order_by("caught_up_at", "id").first()


def following(tables: QuerySet[Table]) -> QuerySet[Table]:
    """Live tables whose syncs run by a schedule: only these can lag."""
    pipelines = pipelines_on_schedule().filter(lake_table=OuterRef("pk"))
    return tables.filter(Exists(pipelines), status=LIVE)
