"""Tables that a source's log is read for, as its follower has to know them.

Rows say what is wanted; what the stream knows already is in the chain, and the follower
compares. Must not know how a follower is run.
"""

from __future__ import annotations

from django.conf import settings
from django.db.models import Max

from catalog.models import Datasource, Table
from ingest.contract.following import FollowSpec, FollowTable
from ingest.jobs.specs import source_spec, table_spec
from ingest.lake.epochs import last_epoch
from ingest.lake.lake_id import lake_id
from ingest.models import Pipeline, SourceEpoch
from ingest.models.states import (
    DISCOVERED,
    DRAFT,
    NEEDS_RESYNC,
    PROPOSED,
    REMOVING,
    RETIRED,
)
from ingest.pipelines import needed_resync
from ingest.planning.facts import LOG
from ingest.planning.plan import plan_from_json

_NOT_FOLLOWED = frozenset({DRAFT, DISCOVERED, PROPOSED, REMOVING, RETIRED})


def stream_of(datasource_id: int) -> str:
    return f"pg{datasource_id}"


def name_at_source(datasource_id: int) -> str:
    """Of the slot and of the publication: no two lakes have the same."""
    return f"sluice_{datasource_id}_{lake_id(settings.SLUICE_LAKE_URI)}"


def follow_spec(
    datasource: Datasource,
    *,
    writer: str,
    begin_anew: bool = False,
    is_over: bool = False,
) -> FollowSpec:
    """What the follower of the source starts with. writer: which process it is."""
    name = name_at_source(datasource.pk)
    return FollowSpec(
        source=source_spec(datasource),
        stream=stream_of(datasource.pk),
        lake=settings.SLUICE_LAKE_URI,
        slot=name,
        publication=name,
        above=_last_epoch(datasource),
        writer=writer,
        tables=followed_tables(datasource),
        begin_anew=begin_anew,
        is_over=is_over,
    )


def followed_tables(datasource: Datasource) -> tuple[FollowTable, ...]:
    """Approved tables by the order of their ids, paused ones, too: what they miss waits
    for them."""
    rows = (
        Pipeline.objects.filter(
            source_table__database__datasource=datasource,
            capture=LOG,
            lake_table__isnull=False,
        )
        .exclude(state__in=_NOT_FOLLOWED)
        .select_related("lake_table__database", "source_table__database")
        .order_by("lake_table_id")
    )
    return tuple(_followed(row) for row in rows)


def is_loading(pipeline: Pipeline) -> bool:
    """Whether a load has begun, and is neither in the lake nor given up."""
    return bool(pipeline.load_name and not pipeline.bound)


def _followed(pipeline: Pipeline) -> FollowTable:
    assert pipeline.lake_table is not None
    plan = plan_from_json(pipeline.plan)
    return FollowTable(
        table_spec(plan, pipeline.lake_table, pipeline.source_table),
        load=pipeline.load_name,
        finished_at=pipeline.bound if pipeline.load_name else "",
        deferred=_why_deferred(pipeline),
    )


def _why_deferred(pipeline: Pipeline) -> str:
    """Only a new load brings it on, and it has not begun: nothing of what comes until
    then is of use to it."""
    if is_loading(pipeline):
        return ""
    why = needed_resync.why_needed(pipeline)
    if pipeline.state == NEEDS_RESYNC:
        return why or pipeline.status_reason or "it needs a resync"
    return why


def _last_epoch(datasource: Datasource) -> int:
    """The highest that any table of the source has, or will get from the counter of
    its syncs."""
    counter = SourceEpoch.objects.filter(datasource=datasource).first()
    by_source = "pipelines__source_table__database__datasource"
    tables = Table.objects.filter(**{by_source: datasource})
    shown = tables.aggregate(last=Max("last_commit_epoch"))["last"]
    known = last_epoch(settings.SLUICE_LAKE_URI, datasource.pk, with_events=True)
    return max(known, shown or 0, counter.next_epoch - 1 if counter else 0)
