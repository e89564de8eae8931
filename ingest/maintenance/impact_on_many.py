"""What a compaction, a resync or a removal would do to each of many tables, by a number
of statements that does not grow with them. Reads no file of the lake: of its files it
knows what the last look at each table found.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from catalog.models import Table
from core.errors import SluiceError
from core.sentences import Sentence
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
from ingest.maintenance.repair_descriptions import (
    NOTHING_TO_MERGE,
    OLD_FILES_STAY,
    compaction_plan,
)
from ingest.models import Pipeline, TableHealth
from ingest.pipelines import shards
from ingest.pipelines.policies.store import Policies
from ingest.pipelines.removal import stopped

IF_KEPT = (
    "If you keep the data: the table stays as it is, readable, no longer refreshed"
)
# what happens, in sentences, in order; or why it would be refused
Foreseen = tuple[str, ...] | SluiceError
# a lake table, and the pipeline that carries it
Carried = tuple[Table, Pipeline]


def foresee_resyncs(carried: Sequence[Carried]) -> Mapping[int, Foreseen]:
    """By lake table."""
    shards.read_together([pipeline for _, pipeline in carried])
    policies = _policies_of(carried)
    found: dict[int, Foreseen] = {}
    for table, pipeline in carried:
        try:
            found[table.pk] = tuple(resync_of(pipeline, table, policies=policies))
        except SluiceError as refused:
            found[table.pk] = refused
    return found


def foresee_compactions(carried: Sequence[Carried]) -> Mapping[int, Foreseen]:
    """By lake table."""
    policies, facts = _policies_of(carried), _facts_of([table for table, _ in carried])
    return {
        table.pk: _compaction(table, pipeline, facts.get(table.pk), policies)
        for table, pipeline in carried
    }


def removals_of(tables: Sequence[Table]) -> dict[int, tuple[str, ...]]:
    """By lake table; both of what can be chosen."""
    facts = _facts_of(tables)
    return {
        table.pk: (stopped(table), IF_KEPT, _if_deleted(facts.get(table.pk)))
        for table in tables
    }


def _if_deleted(facts: LakeFacts | None) -> str:
    if facts is None:
        return (
            "If you delete it: its files, which no check has counted yet, and the table"
            " itself; this cannot be undone"
        )
    size = facts.base_bytes + facts.log_bytes + facts.old_bytes + facts.unfinished_bytes
    return Sentence(
        "If you delete it: its files, %(size)s by the last check of the table, and the"
        " table itself; this cannot be undone",
        size=sized(size),
    )


def _facts_of(tables: Sequence[Table]) -> dict[int, LakeFacts]:
    rows = TableHealth.objects.filter(table__in=tables)
    return {row.table_id: facts_from(row.facts) for row in rows if row.facts}


def _policies_of(carried: Sequence[Carried]) -> Policies:
    return Policies(p.source_table.database.datasource_id for _, p in carried)


def _compaction(
    table: Table, pipeline: Pipeline, facts: LakeFacts | None, policies: Policies
) -> Foreseen:
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
        yield NOTHING_TO_MERGE
        return
    yield compaction_plan([one.instant for one in planned])
    if facts:
        yield Sentence(
            ("By the last check of the table, %(count)s log file of %(size)s waits")
            if facts.log_files == 1
            else (
                "By the last check of the table, %(count)s log files of %(size)s wait"
            ),
            count=facts.log_files,
            size=sized(facts.log_bytes),
        )
    yield OLD_FILES_STAY
