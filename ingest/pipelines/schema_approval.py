"""A user approves what changed at the source: the plan takes it over, and the table
goes on by a sync where that can bring it, else by a re-sync."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import transaction
from django.utils.translation import gettext

from catalog.access import audit
from catalog.models import Table
from catalog.schema.diff import SchemaChange
from core.errors import InvalidRequest
from core.jobs import ACTIVE
from core.models import Job
from ingest.contract.job import LOADS
from ingest.models import Pipeline
from ingest.models.states import FAILED, LOADED, NEEDS_RESYNC, PAUSED
from ingest.pipelines import needed_resync, schema_diff, table_commands
from ingest.pipelines.schema_diff import drift_of, in_sentence
from ingest.pipelines.sync_job import start_sync
from ingest.pipelines.transitions import locked_pipeline, move, pipeline_of
from ingest.planning.drift import SchemaDrift
from ingest.planning.facts import LOG
from ingest.planning.plan import CreateTable, plan_from_json


@dataclass(frozen=True, slots=True)
class SchemaProposal:
    """What changed at the source of a table, and what approving it does.

    diff     all that differs, also what is followed or left out
    changes  in sentences; will: what happens then, in sentences, in order
    is_possible  False: only another lake table can take it, `will` says how
    left_out columns that are not synced, recorded only
    partial_columns  those whose older rows are NULL in the lake, in words; "" = none
    resync_needed    why a re-sync is needed that no load has brought; "" = it is not
    """

    diff: tuple[SchemaChange, ...] = ()
    changes: tuple[str, ...] = ()
    will: tuple[str, ...] = ()
    is_possible: bool = True
    needs_resync: bool = False
    left_out: tuple[str, ...] = ()
    partial_columns: str = ""
    resync_needed: str = ""


def proposal_of(table: Table) -> SchemaProposal:
    """Empty for a table that follows its source, or that is not synced any more."""
    pipeline = pipeline_of(table.pk)
    if pipeline is None:
        return SchemaProposal()
    drift = drift_of(pipeline)
    partial = schema_diff.partial_columns(pipeline)
    return SchemaProposal(
        diff=(*drift.to_approve, *drift.followed, *drift.left_out),
        changes=tuple(str(change) for change in drift.to_approve),
        will=_what_happens(drift, pipeline) if drift.is_open else (),
        is_possible=not drift.impossible,
        needs_resync=drift.needs_resync,
        left_out=tuple(change.column for change in drift.left_out),
        partial_columns=schema_diff.describe_earlier(partial),
        resync_needed=needed_resync.why_needed(pipeline),
    )


def _what_happens(drift: SchemaDrift, pipeline: Pipeline) -> tuple[str, ...]:
    if drift.impossible:
        return (drift.impossible,)
    taken = gettext("The lake table takes over: %(changes)s") % {
        "changes": in_sentence(drift.to_approve)
    }
    if drift.followed:
        along = gettext("So does it with what is followed: %(changes)s")
        taken += "; " + along % {"changes": in_sentence(drift.followed)}
    if not drift.needs_resync and pipeline.capture == LOG:
        return taken, gettext("What waits of the source's log is applied with it")
    if not drift.needs_resync:
        brought = gettext(
            "A sync brings it, with rows that got values of new columns before"
        )
        return taken, brought
    return (
        taken,
        gettext(
            "The whole table is read from the source again, and one commit replaces "
            "what is there: readers see the old rows or the new ones, never a mixture"
        ),
        *(
            gettext("Column %(name)s and its values leave the lake table")
            % {"name": change.column}
            for change in drift.blocking
            if change.kind == "removed"
        ),
        *_of_another_key(drift, pipeline),
    )


def _of_another_key(drift: SchemaDrift, pipeline: Pipeline) -> tuple[str, ...]:
    """The lake's key is fixed for its life, whatever the source's is."""
    create: CreateTable = plan_from_json(pipeline.plan).step(CreateTable)
    if create.row_hash or all(change.kind != "key" for change in drift.blocking):
        return ()
    keyed = gettext(
        "The lake table stays keyed by %(key)s: a load that finds a key twice is "
        "refused; where no index of the source begins with %(key)s, later syncs look "
        "for repeated keys among the changed rows only, and warn"
    )
    return (keyed % {"key": ", ".join(create.record_key)},)


def approve_schema_change(table: Table, *, actor: str) -> Job:
    """The job that brings it. InvalidRequest when there is nothing to approve, when
    the lake table cannot take it, or while a load runs."""
    with transaction.atomic():
        pipeline = locked_pipeline(table)
        drift = drift_of(pipeline)
        _refuse(table, drift)
        schema_diff.take_over(
            pipeline, drift.to_approve, is_followed=not drift.needs_resync
        )
        job = _go_on(pipeline, table, drift, actor=actor)
        schema_diff.report_compared([pipeline])
        said = [str(change) for change in drift.to_approve]
        audit.record(
            "table.approve_schema_change",
            on=str(table),
            actor=actor,
            job=str(job.pk),
            changes=said,
        )
        return job


def _refuse(table: Table, drift: SchemaDrift) -> None:
    if not drift.is_open:
        raise InvalidRequest(
            f"{table} waits for no decision about its columns",
            code="nothing_to_approve",
            hint="discover the source again when it changed since",
        )
    if drift.impossible:
        raise InvalidRequest(
            f"{table} cannot take over: {in_sentence(drift.to_approve)}",
            code="cannot_take_over",
            hint=drift.impossible,
        )


def _go_on(pipeline: Pipeline, table: Table, drift: SchemaDrift, *, actor: str) -> Job:
    is_stopped = pipeline.state in {PAUSED, FAILED}
    if is_stopped and (not table.is_queryable or not drift.needs_resync):
        return table_commands.retry_pipeline(pipeline, actor=actor)
    if not drift.needs_resync:
        if pipeline.state not in LOADED:
            raise _busy(pipeline, table)
        if pipeline.capture == LOG:
            return table_commands.last_job(pipeline)
        return start_sync(pipeline, actor=actor)
    if _is_loading(table):
        raise _busy(pipeline, table)  # it may have read the values of before
    if pipeline.state == PAUSED:
        if pipeline.resume_event == "resume_resync":
            return table_commands.retry_pipeline(pipeline, actor=actor)
        move(pipeline, "resume_catch_up", actor=actor, resume_event="")
    if pipeline.state not in {*LOADED, NEEDS_RESYNC, FAILED}:
        raise _busy(pipeline, table)
    return table_commands.load_again(pipeline, table, actor=actor)


def _is_loading(table: Table) -> bool:
    loads = Job.objects.filter(subject_id=str(table.pk), kind__in=LOADS)
    return loads.filter(state__in=ACTIVE).exists()


def _busy(pipeline: Pipeline, table: Table) -> InvalidRequest:
    return InvalidRequest(
        f"{table} is {pipeline.state}: its columns do not change under a running load",
        code="not_now",
        hint="approve when the load has ended, or cancel it first",
        facts={"state": pipeline.state},
    )
