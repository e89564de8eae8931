"""Tables that a source's log is read for, as its follower has to know them.

Rows say what is wanted; what the stream knows already is in the chain, and the follower
compares. Must not know how a follower is run.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from django.conf import settings
from django.db.models import Max, Q

from catalog.models import Datasource, Table
from core.database_errors import is_away
from core.errors import TerminalError
from core.jobs import RUNNING
from core.models import Job
from core.sentences import Sentence
from ingest.contract import following
from ingest.contract.following import FollowSpec, FollowTable
from ingest.contract.job import REPAIR, SYNC, VERIFY
from ingest.contract.table import TableSpec
from ingest.jobs.kinds import source_spec, spec_by_plan
from ingest.lake.ids import lake_id
from ingest.models import Pipeline
from ingest.models.states import (
    DISCOVERED,
    DRAFT,
    NEEDS_RESYNC,
    PIPELINE,
    PROPOSED,
    REMOVING,
    RETIRED,
)
from ingest.pipelines import needed_resync
from ingest.pipelines.policies.policy import Effective
from ingest.pipelines.policies.store import Policies
from ingest.pipelines.row_versions import MadeOfRows, row_versions
from ingest.planning.facts import LOG

log = logging.getLogger(__name__)

# Of the sync by which a table goes over to its cursor: its plan from then on.
NEXT_PLAN = "next_plan"
_NOT_FOLLOWED = {DRAFT, DISCOVERED, PROPOSED, REMOVING, RETIRED}
FOLLOWED = frozenset(PIPELINE.states) - _NOT_FOLLOWED


def stream_of(datasource_id: int) -> str:
    return f"source{datasource_id}"


def name_at_source(datasource_id: int) -> str:
    """As `ingest.contract.following` has it, for this lake."""
    lake = lake_id(settings.SLUICE_LAKE_URI)
    return following.name_at_source(datasource_id, lake)


def follow_spec(
    datasource: Datasource,
    *,
    writer: str,
    begin_anew: bool = False,
    is_over: bool = False,
) -> FollowSpec:
    """What the follower of the source starts with. writer: which process it is.

    TerminalError `no_plan` where none of its tables has a plan that can be read: that
    is no fault of a table, and none is given up for it.
    """
    name = name_at_source(datasource.pk)
    tables = followed_tables(datasource)
    if tables and all(one.is_unread for one in tables):
        raise TerminalError(
            "no plan of a table of %(datasource)s can be read, so its log"
            " is not read; it waits at the source",
            datasource=datasource.name,
            code="no_plan",
            hint="the log of the host of followers has the reason; it tries again",
        )
    return FollowSpec(
        source=source_spec(datasource),
        stream=stream_of(datasource.pk),
        lake=settings.SLUICE_LAKE_URI,
        slot=name,
        publication=name,
        above=_last_epoch(datasource),
        writer=writer,
        tables=tables,
        begin_anew=begin_anew,
        is_over=is_over,
    )


@dataclass(slots=True)
class FollowedTables:
    """Tables by source: approved ones by the order of their ids, paused ones, too: what
    they miss waits for them. Rows that were not written since are not read again."""

    _told: MadeOfRows[FollowTable] = field(default_factory=MadeOfRows)
    _policies: Mapping[Any, Any] = field(default_factory=dict)

    def read(self, sources: Collection[int]) -> dict[int, tuple[FollowTable, ...]]:
        """By id of the datasource."""
        rows, policies = row_versions(FOLLOWED, sources), Policies(sources)
        is_other = policies.given != self._policies
        _, again = self._told.compare(rows, all_anew=is_other)
        for pipeline in _pipelines_of(again):
            pk = pipeline.lake_table_id or 0
            told = _followed_alone(pipeline, policies, self._told.get(pk))
            self._told.put(pk, told)
        self._policies = policies.given
        awaited = awaited_tables()
        found: dict[int, list[FollowTable]] = {source: [] for source in sources}
        for row in rows:
            if one := self._told.get(row.table_id):
                is_awaited = row.table_id in awaited
                if one.is_awaited != is_awaited:
                    one = replace(one, is_awaited=is_awaited)
                found[row.datasource_id].append(one)
        return {source: tuple(tables) for source, tables in found.items()}


def followed_tables(datasource: Datasource) -> tuple[FollowTable, ...]:
    """Those of one source, read anew."""
    return FollowedTables().read([datasource.pk])[datasource.pk]


def _pipelines_of(lake_tables: list[int]) -> Iterable[Pipeline]:
    if not lake_tables:
        return ()
    rows = Pipeline.objects.filter(lake_table__in=lake_tables, capture=LOG)
    related = "lake_table__database", "source_table__database__datasource"
    return rows.filter(state__in=FOLLOWED).select_related(*related)


def awaited_tables() -> frozenset[int]:
    """Lake tables that are verified or repaired now, or go over to a cursor: these wait
    for what the source's log has then."""
    leaves = Q(kind=SYNC, payload__has_key=NEXT_PLAN)
    compared = Q(kind__in=(VERIFY, REPAIR))
    rows = Job.objects.filter(compared | leaves, state=RUNNING)
    return frozenset(int(pk) for pk in rows.values_list("subject_id", flat=True))


def is_loading(pipeline: Pipeline) -> bool:
    """Whether a load has begun, and is neither in the lake nor given up."""
    return bool(pipeline.load_name and not pipeline.bound)


def _followed_alone(
    pipeline: Pipeline, policies: Policies, before: FollowTable | None
) -> FollowTable:
    """A table whose plan cannot be read is followed on as it was; where that is not
    known it is deferred, and stops no other."""
    lake, source = pipeline.lake, pipeline.source_table
    try:
        return _followed(pipeline, policies.of_pipeline(pipeline))
    except Exception as error:
        if is_away(error):
            raise
        log.exception("the plan of %s cannot be read", lake)
        if before is not None:
            return before
    names = TableSpec(
        table_id=lake.pk,
        source_schema=source.database.name,
        source_table=source.name,
        database=lake.database.name,
        name=lake.name,
        path=lake.path,
        staging="",
        columns=(),
        key=(),
    )
    why = Sentence(
        "the plan of %(lake)s cannot be read, so its source's log is"
        " not read for it; remove the table and onboard it again",
        lake=lake,
    )
    return FollowTable(names, deferred=why, is_unread=True)


def _followed(pipeline: Pipeline, policy: Effective) -> FollowTable:
    return FollowTable(
        spec_by_plan(pipeline),
        load=pipeline.load_name,
        finished_at=pipeline.bound if pipeline.load_name else "",
        deferred=_why_deferred(pipeline),
        keep_seconds=policy.keep_changes,
        keep_bytes=policy.max_waiting,
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
    """The highest that any table of the source has."""
    by_source = "pipelines__source_table__database__datasource"
    tables = Table.objects.filter(**{by_source: datasource})
    return tables.aggregate(last=Max("last_commit_epoch"))["last"] or 0
