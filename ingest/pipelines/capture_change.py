"""A live table goes over to its source's log, or back to a cursor, without being read
again.

To the log: rows behind its position are read once more, behind a cut of the stream, and
what came since the cut is applied. To a cursor: what the log has by then is applied,
and its first sync reads what is behind that.

Whatever goes wrong before that is in the lake, it is captured as before.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.db import transaction

from catalog.access import audit
from catalog.models import Table
from catalog.sources.registry import kind_named
from core.errors import InvalidRequest
from core.models import Job
from core.sentences import Sentence, as_sentence
from ingest.contract.job import RESYNC, SYNC
from ingest.jobs.queue import new_job, put
from ingest.models import Pipeline, SourceFollower
from ingest.models.states import LIVE
from ingest.pipelines import load_job, table_commands
from ingest.pipelines.log_tables import NEXT_PLAN
from ingest.pipelines.planning_context import Circumstances
from ingest.pipelines.schema_diff import drift_of
from ingest.pipelines.table_facts import facts_of
from ingest.pipelines.transitions import locked_pipeline, move, show
from ingest.planning.capture_limits import reading_of
from ingest.planning.facts import LOG, TIMESTAMP, Choices, TableFacts, Target
from ingest.planning.log import what_is_seen, why_not_followed
from ingest.planning.plan import (
    ApplyChanges,
    CreateTable,
    FollowLog,
    TablePlan,
    by_cursor,
    plan_from_json,
    plan_to_json,
    with_left_out,
)
from ingest.planning.propose import propose_table

# Values that a log without whole rows may leave out, for they are stored elsewhere.
_LONG = ("string", "binary", "array")


def follow_log(table: Table, *, actor: str) -> Job:
    """InvalidRequest as `plan_by_log`."""
    with transaction.atomic():
        pipeline = locked_pipeline(table)
        plan, former = plan_by_log(pipeline), pipeline.plan
        table_commands.cancel_waiting(pipeline, [SYNC], actor=actor)
        changes: dict[str, Any] = {"capture": LOG, "plan": plan_to_json(plan)}
        fresh: dict[str, Any] = {"due_at": None, "load_name": "", "bound": ""}
        move(pipeline, "start_resync", actor=actor, **changes, **fresh)
        show(pipeline, cursor="")
        job = load_job.start_load(pipeline, RESYNC, actor=actor, former_plan=former)
        audit.record("table.follow_log", on=str(table), actor=actor, job=str(job.pk))
        return job


def plan_by_log(pipeline: Pipeline) -> TablePlan:
    """Its plan as one that follows the log. InvalidRequest `not_now`, or
    `not_followable` with what the source or the table lacks."""
    plan, table = plan_from_json(pipeline.plan), pipeline.lake
    if pipeline.capture != TIMESTAMP or plan.step(ApplyChanges) is None:
        raise InvalidRequest(
            "%(table)s is not synced by a cursor: its capture is %(capture)s",
            table=table,
            capture=pipeline.capture,
            code="not_now",
            hint=_already(pipeline, LOG),
        )
    _refuse_unsettled(pipeline, plan)
    facts = _facts(pipeline)
    if why := _why_not(pipeline, facts, plan):
        raise InvalidRequest(
            "%(table)s cannot follow its source's log as it is: %(why)s",
            table=table,
            why=as_sentence(why),
            code="not_followable",
        )
    return _by_log(pipeline, facts, plan)


def follow_cursor(table: Table, *, actor: str, cursor: str = "") -> Job:
    """The sync by which it goes over. InvalidRequest as `plan_by_cursor`."""
    with transaction.atomic():
        pipeline = locked_pipeline(table)
        plan = plan_to_json(plan_by_cursor(pipeline, cursor))
        job = new_job(pipeline, SYNC, actor=actor, payload={NEXT_PLAN: plan})
        job = put([job])[0]
        audit.record("table.follow_cursor", on=str(table), actor=actor, job=str(job.pk))
        return job


def plan_by_cursor(pipeline: Pipeline, cursor: str) -> TablePlan:
    """Its plan as one that is synced by this cursor, or by the best there is.
    InvalidRequest `not_now`, `invalid_cursor`, or `no_cursor` with why it cannot be."""
    plan, table = plan_from_json(pipeline.plan), pipeline.lake
    if pipeline.capture != LOG or plan.step(FollowLog) is None:
        raise InvalidRequest(
            "%(table)s does not follow a log: its capture is %(capture)s",
            table=table,
            capture=pipeline.capture,
            code="not_now",
            hint=_already(pipeline, TIMESTAMP),
        )
    create: CreateTable = plan.step(CreateTable)
    _refuse_shards(table, create)
    _refuse_unsettled(pipeline, plan)
    facts = _facts(pipeline)
    read = {column.source_name for column in create.columns}
    names = [column.source_name for column in facts.schema.columns]
    source = pipeline.source_table.database
    around = Circumstances(source.datasource)
    policy = around.policy_of(source, pipeline.policy)
    then = propose_table(
        facts,
        Choices(
            record_key=create.record_key,
            cursor=cursor or None,
            partition_by=create.partition_by,
            buckets=create.buckets,
            exclude_columns=tuple(c for c in names if c not in read),
            as_text=tuple(c for c in plan.as_text if c in read),
        ),
        Target(create.database, create.name, create.path),
        replace(around.under(policy, TIMESTAMP), free_bytes=None),
    )
    if then.blocked:
        raise InvalidRequest(
            "%(table)s cannot be synced by a cursor as it is: %(blocked)s",
            table=table,
            blocked=as_sentence(then.blocked),
            code="no_cursor",
            hint='name one: {"cursor": "updated_at"}',
        )
    return by_cursor(plan, then)


def _refuse_shards(table: Table, create: CreateTable) -> None:
    if create.shards:
        raise InvalidRequest(
            "%(table)s has the rows of %(count)s tables, and syncs by a cursor"
            " read one",
            table=table,
            count=len(create.shards),
            code="no_cursor",
            hint="it follows its source's log",
        )


def _already(pipeline: Pipeline, wanted: str) -> str:
    if pipeline.capture == wanted:
        return "nothing is to be done: that is its capture already"
    return "remove it, and add it again with the capture that you want"


def _refuse_unsettled(pipeline: Pipeline, plan: TablePlan) -> None:
    if pipeline.state != LIVE:
        raise table_commands.not_now(pipeline, Sentence("change the capture of"))
    if pipeline.drift or drift_of(pipeline, plan).is_open:
        raise InvalidRequest(
            "columns of %(table)s changed at its source, and that is not settled",
            table=pipeline.lake_table,
            code="not_now",
            hint="approve or resync what its page shows, then ask again",
        )


def _facts(pipeline: Pipeline) -> TableFacts:
    rows = Table.objects.select_related("database__datasource")
    source = rows.prefetch_related("columns").get(pk=pipeline.source_table_id)
    return facts_of([source])[0]


def _why_not(pipeline: Pipeline, facts: TableFacts, plan: TablePlan) -> str:
    create: CreateTable = plan.step(CreateTable)
    names = {column.source_name for column in create.columns}
    carried = [c for c in facts.schema.columns if c.source_name in names]
    if why := why_not_followed(facts, carried, dict(plan.proposals)):
        return why
    is_whole = facts.log is None or facts.log.is_full
    long = [
        column.source_name
        for column in create.columns
        if column.source_name not in create.record_key and column.type.startswith(_LONG)
    ]
    if long and not is_whole:
        # a row that moves to another key would get a value of a later row
        privileges = kind_named(facts.source_kind).privileges
        statement = privileges.full_rows_logged(facts.database, facts.name)
        return Sentence(
            "the log may leave out long values of %(long)s, which only a whole"
            " load knows exactly: %(statement)s",
            long=", ".join(long),
            statement=statement,
        )
    return _why_behind(pipeline)


def _why_behind(pipeline: Pipeline) -> str:
    source = pipeline.source_table.database.datasource_id
    follower = SourceFollower.objects.filter(datasource=source).first()
    table = pipeline.lake_table
    synced = (table.last_commit_epoch if table else None) or 0
    if follower is None or not follower.number or follower.number > synced:
        return ""
    return Sentence(
        "its syncs are numbered up to %(synced)s, and the stream of its"
        " source's log is at %(number)s only; remove the table and onboard"
        " it with capture 'log', which reads it again",
        synced=synced,
        number=follower.number,
    )


def _by_log(pipeline: Pipeline, facts: TableFacts, plan: TablePlan) -> TablePlan:
    source = pipeline.source_table.database
    around = Circumstances(source.datasource)
    conditions = around.under(around.policy_of(source, pipeline.policy), LOG)
    follow = FollowLog(what_is_seen(facts.source_kind))
    steps = (follow if isinstance(s, ApplyChanges) else s for s in plan.steps)
    found = replace(
        plan,
        steps=tuple(steps),
        warnings=what_is_seen(facts.source_kind),
        reading=reading_of(facts, conditions),
    )
    return with_left_out(found, facts.schema)
