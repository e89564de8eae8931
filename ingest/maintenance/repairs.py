"""Queues repairs as jobs, and judges again those that are to be repeated.

What is true when the job runs is looked at again there, under both leases of the
table.
"""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.utils import timezone

from catalog.access import audit
from catalog.models import Table
from core.errors import InvalidRequest, StaleState
from core.models import Job
from core.sentences import as_sentence
from ingest.contract.job import REPAIR, RepairAction, RepairWork
from ingest.contract.members import as_data, value_of
from ingest.jobs.queue import new_job, put
from ingest.lake.commits import timeline_at
from ingest.maintenance.observation import facts_of
from ingest.maintenance.repair_actions import REPAIR_ACTIONS
from ingest.maintenance.repair_previews import Preview
from ingest.maintenance.savepoints import Savepoint, savepoints_on
from ingest.maintenance.table_action import TableAction
from ingest.models import Pipeline
from ingest.models.states import REMOVING
from ingest.pipelines import shard_joins
from ingest.pipelines.transitions import locked_pipeline

REPAIRS: dict[RepairAction, TableAction] = {
    action.repair.action: action
    for action in REPAIR_ACTIONS
    if action.repair is not None and action.is_verb
}


def preview(table: Table, work: RepairWork) -> Preview:
    """InvalidRequest when there is nothing of this kind to repair."""
    foresee = REPAIRS[work.action].preview
    assert foresee is not None
    found = foresee(table, facts_of(table, now=timezone.now()), work)
    assert isinstance(found, Preview)
    return found


def start_repair(table: Table, work: RepairWork, *, actor: str) -> Job:
    """Queue it; StaleState when another repair of the table waits already."""
    with transaction.atomic():
        pipeline = locked_pipeline(table)
        _require_sense(table, work, pipeline)
        if work.action == "join":
            shard_joins.take_in(pipeline)
        wanted: dict[str, Any] = as_data(work)
        job = new_job(pipeline, REPAIR, actor=actor, payload={"repair": wanted})
        found = put([job])[0]
        if found.payload.get("repair") != wanted:
            raise StaleState(
                "another repair of %(table)s waits already",
                table=table,
                code="already_queued",
                hint="wait for it or cancel it, then ask again",
                facts={"job": str(found.pk)},
            )
        said = named(found)
        verb = f"table.{said.pop('repair')}"
        audit.record(verb, on=str(table), actor=actor, job=str(found.pk), **said)
        return found


def named(job: Job) -> dict[str, Any]:
    """Which repair a job is, as the audit tells it: its verb, and what it is about."""
    said = dict(job.payload["repair"])
    action = REPAIRS[said.pop("action")]
    return {"repair": action.name, **said}


def require_worth_repeating(job: Job, pipeline: Pipeline) -> None:
    """What is asked of a new repair, for one that ended without success. One that was
    cut off half way may be gone on with, though it would find nothing to begin."""
    table, work = pipeline.lake, value_of(RepairWork, job.payload["repair"])
    try:
        _require_sense(table, work, pipeline)
    except InvalidRequest as refusal:
        if refusal.code != "nothing_to_do" or not _is_begun(job, table, work):
            raise


def _require_sense(table: Table, work: RepairWork, pipeline: Pipeline) -> None:
    if not table.is_queryable or pipeline.state == REMOVING:
        raise InvalidRequest(
            "cannot repair %(table)s: it is %(state)s",
            table=table,
            state=as_sentence(pipeline.state),
            code="not_now",
            hint="its load has to be done, and it must not be removed",
        )
    if work.action not in {"deduplicate", "savepoint"}:
        preview(table, work)


def _is_begun(job: Job, table: Table, work: RepairWork) -> bool:
    if work.action == "rollback":
        found = timeline_at(table.path).instants
        return any(i.action == "rollback" and i.state != "COMPLETED" for i in found)
    # rows that were put into their buckets are compared, a new plan is made
    return bool(job.attempts) and (work.action == "resize" or work.replan)


def savepoints_of(table: Table) -> tuple[Savepoint, ...]:
    """From the timeline as it is now."""
    return savepoints_on(timeline_at(table.path)) if table.path else ()
