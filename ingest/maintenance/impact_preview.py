"""What a compaction or a re-sync would do now. Starts no Spark, changes nothing."""

from __future__ import annotations

from collections.abc import Sequence

from django.utils import timezone

from catalog.models import Table
from core.errors import InvalidRequest
from core.sentences import Sentence
from ingest.contract.job import DriverSpec
from ingest.maintenance.compacting import foresee
from ingest.maintenance.compaction_drivers import DriverRequest, payload_for
from ingest.maintenance.facts import LakeFacts
from ingest.maintenance.observation import look_into
from ingest.maintenance.repair_descriptions import compacted
from ingest.maintenance.repair_previews import Preview, waits_for_a_job
from ingest.models import Pipeline
from ingest.pipelines import gone_shards
from ingest.pipelines.capture_change import plan_by_cursor, plan_by_log
from ingest.pipelines.policies.schedule import Manual, translatable
from ingest.pipelines.policies.store import Policies, policy_of
from ingest.pipelines.schema_diff import source_changed, to_leave_out
from ingest.pipelines.table_commands import goes_on_loading
from ingest.pipelines.transitions import locked_pipeline, pipeline_of
from ingest.planning.plan import ApplyChanges, plan_from_json


def preview_compaction(table: Table, asked: DriverRequest) -> Preview:
    """InvalidRequest where a compaction would fail at once: a plan that nobody can
    read, a driver of its own that the table's lock does not allow."""
    driver = payload_for(table, asked).get("driver")
    seen = look_into(table, now=timezone.now())
    for instant, plan in seen.plans.items():
        if not plan.is_readable:
            raise plan_unreadable(table, instant)
    groups, facts = seen.layout.groups, seen.facts
    found = foresee(groups, seen.plans)
    lines = [*_begun(facts), *compacted(found, len(groups))]
    if any(one.is_held for one in facts.pending_compactions):
        lines.insert(0, waits_for_a_job())
    lines.append(where_it_runs(DriverSpec(**driver) if driver else None))
    lines.append(readers_see_the_same())
    return Preview(
        str(table),
        "compact",
        facts.pending_compactions,
        tuple(lines),
        compaction=found,
    )


def readers_see_the_same() -> str:
    return Sentence("Readers see the same rows before and after; syncs go on")


def preview_resync(table: Table) -> Preview:
    """InvalidRequest where a re-sync is refused or fails at once: the table's state
    knows none, or its source is not what the plan was made for."""
    pipeline = pipeline_of(table.pk) or locked_pipeline(table)
    return Preview(str(table), "resync", (), tuple(resync_of(pipeline, table)))


def resync_of(
    pipeline: Pipeline, table: Table, *, policies: Policies | None = None
) -> Sequence[str]:
    """What `preview_resync` says, and as it is refused."""
    if goes_on_loading(pipeline, table):
        return (
            Sentence("The first load goes on: what it has staged is not read again"),
            Sentence("Readers see the table when its one commit is there"),
        )
    gone = to_leave_out(pipeline, policies=policies)
    plan = plan_from_json(pipeline.plan)
    altered = source_changed(pipeline, plan, policies=policies)
    if altered is not None and not gone:
        raise altered
    narrower = (
        (
            Sentence(
                "Columns gone at the source, so the fresh copy has them no more: "
                "%(names)s",
                names=", ".join(gone),
            ),
        )
        if gone
        else ()
    )
    return (
        Sentence("The whole table is read from the source again"),
        Sentence(
            "One commit then replaces what is there: readers see the old rows or the "
            "new ones, never a mixture"
        ),
        Sentence("Rows that were deleted at the source disappear"),
        *_rows_of_gone(pipeline),
        *narrower,
    )


def _rows_of_gone(pipeline: Pipeline) -> Sequence[str]:
    names = [one.name for one in gone_shards.with_rows(pipeline)]
    if not names:
        return ()
    return (
        Sentence(
            "Rows of source tables that are not there any more disappear, too: "
            "%(names)s",
            names=", ".join(names),
        ),
    )


def preview_follow_cursor(table: Table, *, cursor: str = "") -> Preview:
    """InvalidRequest where it is refused: `plan_by_cursor`."""
    pipeline = pipeline_of(table.pk) or locked_pipeline(table)
    then: ApplyChanges = plan_by_cursor(pipeline, cursor).step(ApplyChanges)
    will = (
        Sentence(
            "What its source's log has by now is applied; then rows with a later "
            "%(cursor)s are read. The table is not read again",
            cursor=then.cursor,
        ),
        Sentence(
            "From then on deletes at the source stay unseen, and so do changes that "
            "leave %(cursor)s as it was: a verification from time to time tells them",
            cursor=then.cursor,
        ),
        _synced_from_then_on(pipeline),
        Sentence("If it fails, the table follows its log as before"),
    )
    return Preview(str(table), "follow-cursor", (), will)


def _synced_from_then_on(pipeline: Pipeline) -> Sentence:
    schedule = policy_of(pipeline).schedule
    if isinstance(schedule, Manual):
        return Sentence(
            "It has no schedule: from then on its rows change with a sync on request "
            "only, until you give it one"
        )
    return Sentence(
        "From then on it is synced by its schedule: %(schedule)s",
        schedule=translatable(schedule),
    )


def preview_follow_log(table: Table) -> Preview:
    """InvalidRequest where it is refused: `plan_by_log`."""
    pipeline = pipeline_of(table.pk) or locked_pipeline(table)
    plan_by_log(pipeline)
    before: ApplyChanges = plan_from_json(pipeline.plan).step(ApplyChanges)
    will = (
        Sentence(
            "The table is not read again, but for rows that changed since its last sync"
        ),
        Sentence(
            "From then on changes come from the source's log within seconds, deletes "
            "included"
        ),
        Sentence(
            "Rows that were deleted at the source before stay in the lake, and so do "
            "values that changed without their %(cursor)s: verify the table then, and "
            "resync it if rows differ",
            cursor=before.cursor,
        ),
        Sentence("Readers keep the rows of before; no sync runs until it is done"),
        Sentence("If it fails, the table is synced by its cursor as before"),
    )
    return Preview(str(table), "follow-log", (), will)


def _begun(facts: LakeFacts) -> list[str]:
    return [
        Sentence(
            "Compaction %(instant)s was begun and not ended: what that attempt wrote "
            "is removed, then its plan is executed again",
            instant=one.instant,
        )
        for one in facts.pending_compactions
        if one.state == "INFLIGHT" and not one.is_held
    ]


def plan_unreadable(table: Table, asked: str) -> InvalidRequest:
    return InvalidRequest(
        "the request of compaction %(asked)s of %(table)s is gone or damaged: it"
        " cannot be executed",
        asked=asked,
        table=table,
        code="plan_unreadable",
        hint="unschedule it first",
    )


def where_it_runs(driver: DriverSpec | None) -> str:
    if driver is None:
        return Sentence("It runs in the driver that all jobs share")
    return Sentence(
        ("It runs in a driver of its own with %(memory)s of memory and %(count)s core")
        if driver.cores == 1
        else (
            "It runs in a driver of its own with %(memory)s of memory and %(count)s "
            "cores"
        ),
        memory=driver.memory,
        count=driver.cores,
    )
