"""How a table stands: its state, or that nothing new comes although it goes on. Every
page, the score and alerts ask here, so that they tell one story."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from django.db.models import Count, Q, QuerySet

from catalog.access.policy import Principal
from catalog.models import Table
from catalog.selectors.tables import TableFilter, tables_for
from ingest.models import Pipeline, SourceFollower
from ingest.models.states import CATCHING_UP, LOADED, PAUSED, RETIRED
from ingest.pipelines.followers import LOST
from ingest.pipelines.policies.schedule import MANUAL, ON_REQUEST, ONCE
from ingest.pipelines.schema_approval import undecided
from ingest.pipelines.selectors import schedule_as_text
from ingest.planning.facts import LOG

# No states of the machine. This one goes on once a sync goes well, or once somebody has
# decided about the lost log of its source,
FAILING: Final = "FAILING"
# and this one is paused until somebody has decided about its columns.
UNDECIDED: Final = "UNDECIDED"
# A source that restarts makes one sync fail; that is nothing to tell of yet.
SYNCS_BEFORE_FAILING: Final = 2


_SOURCE = "source_table__database__datasource"
_CODE = f"{_SOURCE}__follower__code"
_FAILING = Q(state=CATCHING_UP, failures__gte=SYNCS_BEFORE_FAILING) | Q(
    state__in=LOADED, capture=LOG, **{f"{_CODE}__in": LOST}
)


def standing_of(state: str, failures: int, *, is_lost: bool = False) -> str:
    """failures: how many syncs failed in a row. is_lost: the log that it follows is."""
    is_failing = state == CATCHING_UP and failures >= SYNCS_BEFORE_FAILING
    return FAILING if is_failing or (is_lost and state in LOADED) else state


def why_lost(pipeline: Pipeline) -> str | None:
    """How the log was lost that the table follows; None = it is not."""
    if pipeline.capture != LOG or pipeline.state not in LOADED:
        return None
    source = pipeline.source_table.database.datasource
    lost = SourceFollower.objects.filter(datasource=source, code__in=LOST)
    return lost.values_list("reason", flat=True).first()


@dataclass(frozen=True, slots=True)
class Standings:
    """By lake table; those that nothing is synced into are left out.

    states   how each stands
    resting  of those whose rows get no newer by themselves, in two words why
    """

    states: dict[int, str]
    resting: dict[int, str]


def standings(table_ids: Iterable[int]) -> Standings:
    """In one statement; in a few more where some are paused."""
    rows = Pipeline.objects.filter(lake_table__in=list(table_ids))
    pipelines = rows.exclude(state=RETIRED).annotate(schedule=schedule_as_text())
    found = Standings({}, {})
    for table, state, failures, capture, schedule, code in pipelines.values_list(
        "lake_table_id", "state", "failures", "capture", "schedule", _CODE
    ):
        is_lost = capture == LOG and code in LOST
        found.states[table] = standing_of(state, failures, is_lost=is_lost)
        if capture == "snapshot":
            found.resting[table] = ONCE
        elif schedule == MANUAL and capture != LOG:
            found.resting[table] = ON_REQUEST
    if paused := [pk for pk, state in found.states.items() if state == PAUSED]:
        waiting = undecided_among(Table.objects.filter(pk__in=paused))
        found.states.update(dict.fromkeys(waiting, UNDECIDED))
    return found


def undecided_among(tables: QuerySet[Table]) -> list[int]:
    """Ids of those that are paused until somebody has decided about their columns."""
    return [one.table.pk for one in undecided(tables.filter(status=PAUSED))]


def in_state(tables: QuerySet[Table], state: str) -> QuerySet[Table]:
    """Those that are shown with this state: one that waits for a decision is not shown
    as paused."""
    if state not in {PAUSED, UNDECIDED}:
        return tables.filter(status=state)
    waiting = undecided_among(tables)
    if state == UNDECIDED:
        return tables.filter(pk__in=waiting)
    return tables.filter(status=PAUSED).exclude(pk__in=waiting)


def failing_by_source(
    principal: Principal, source_ids: Iterable[int]
) -> dict[int, int]:
    """How many tables in sight are failing, by source; those without are left out."""
    rows = Pipeline.objects.filter(
        _FAILING,
        source_table__database__datasource__in=list(source_ids),
        lake_table__in=tables_for(principal, TableFilter(kind=Table.LAKE))
        .prefetch_related(None)
        .order_by()
        .values("pk"),
    )
    counted = rows.values("source_table__database__datasource").annotate(
        found=Count("pk")
    )
    return dict(counted.values_list("source_table__database__datasource", "found"))
