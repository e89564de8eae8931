"""What a compaction or a resync would do to each of many tables, by a number of
statements that does not grow with them. Reads no file of the lake: of its files it
knows what the last look at each table found.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from django.utils.translation import gettext, ngettext

from core.errors import SluiceError
from ingest.contract.job import DriverSpec
from ingest.lake.hudi.identity import shares_lock
from ingest.maintenance import compaction_drivers
from ingest.maintenance.descriptions import sized
from ingest.maintenance.facts import LakeFacts, facts_from
from ingest.maintenance.impact_preview import (
    plan_unreadable,
    readers_see_the_same,
    resync_of,
    where_it_runs,
)
from ingest.models import Pipeline, TableHealth
from ingest.pipelines import shards
from ingest.pipelines.policies.store import Policies

# what happens, in sentences, in order; or why it would be refused
Foreseen = tuple[str, ...] | SluiceError


def foresee_resyncs(pipelines: Sequence[Pipeline]) -> Mapping[int, Foreseen]:
    """By lake table."""
    shards.read_together(pipelines)
    policies = _policies_of(pipelines)
    found: dict[int, Foreseen] = {}
    for pipeline in pipelines:
        table = pipeline.lake_table
        try:
            found[table.pk] = tuple(resync_of(pipeline, table, policies=policies))
        except SluiceError as refused:
            found[table.pk] = refused
    return found


def foresee_compactions(pipelines: Sequence[Pipeline]) -> Mapping[int, Foreseen]:
    """By lake table."""
    policies = _policies_of(pipelines)
    tables = [pipeline.lake_table_id for pipeline in pipelines]
    rows = TableHealth.objects.filter(table__in=tables)
    facts = {row.table_id: facts_from(row.facts) for row in rows if row.facts}
    return {
        pipeline.lake_table_id: _compaction(
            pipeline, facts.get(pipeline.lake_table_id), policies
        )
        for pipeline in pipelines
    }


def _policies_of(pipelines: Sequence[Pipeline]) -> Policies:
    return Policies(p.source_table.database.datasource_id for p in pipelines)


def _compaction(
    pipeline: Pipeline, facts: LakeFacts | None, policies: Policies
) -> Foreseen:
    table = pipeline.lake_table
    pending = facts.pending_compactions if facts else ()
    damaged = [one.instant for one in pending if not one.is_readable]
    if damaged:
        return plan_unreadable(table, damaged[0])
    driver: DriverSpec | None = None
    if shares_lock(table.identity):
        driver = compaction_drivers.given_by(policies.of_pipeline(pipeline))
    return (*_merged(facts), where_it_runs(driver), readers_see_the_same())


def _merged(facts: LakeFacts | None) -> Iterator[str]:
    planned = facts.pending_compactions if facts else ()
    if facts and not planned and not facts.log_files:
        yield gettext(
            "No log file is there to merge; old files and instants are tidied up"
        )
        return
    if planned:
        text = gettext("Planned on the timeline already and executed now: %(instants)s")
        yield text % {"instants": ", ".join(one.instant for one in planned)}
    else:
        yield gettext(
            "A compaction is planned over every file group that has log files"
        )
    if facts:
        text = ngettext(
            "By the last look at the table, %(count)s log file of %(size)s waits",
            "By the last look at the table, %(count)s log files of %(size)s wait",
            facts.log_files,
        )
        yield text % {"count": facts.log_files, "size": sized(facts.log_bytes)}
    yield gettext("The old files stay for running queries until they are cleaned")
