"""Compaction: the job that executes planned instants, or plans some first."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from django.db import transaction
from django.db.models import Q

from catalog.access import audit
from catalog.models import Table
from core.advance import advance_all
from core.jobs import SUCCEEDED
from core.jobs.moves import (
    SCHEDULE,
    Cancelled,
    End,
    Failed,
    Rejected,
    Retried,
    Succeeded,
)
from core.models import Job
from core.sentences import Sentence
from ingest.contract.job import COMPACT, CompactWork, DriverSpec, JobSpec
from ingest.contract.members import value_of
from ingest.jobs.kinds import Attempt, DriverKind, Left, Refused, shared_by_all
from ingest.jobs.leases import hold_table
from ingest.jobs.queue import OWN_LANE, job_on, put
from ingest.lake.commits import LakeState, timeline_at
from ingest.maintenance import compaction_drivers
from ingest.maintenance.compaction_drivers import DriverRequest
from ingest.models import MaintenancePlan, Pipeline
from ingest.models.states import PLAN_FAILED, REMOVING
from ingest.pipelines import compaction_plans
from ingest.pipelines.policies.store import policy_of
from ingest.pipelines.table_commands import not_now
from ingest.pipelines.table_job import admitted, note_end, queue_again, stop_table
from ingest.pipelines.transitions import lock_pipeline, locked_pipeline

# they begin with compaction_plans.CANCELLED
PUT_OFF_BY = (
    "cancelled by %(actor)s; what is planned stays planned, and no automatic compaction"
    " of the table before %(until)s UTC"
)
PUT_OFF = (
    "cancelled; what is planned stays planned, and no automatic compaction of the table"
    " before %(until)s UTC"
)


def spec_for(job: Job) -> Attempt | Refused | None:
    """Return the next attempt: the instants to execute; none = plan some first."""
    pipeline = admitted(job, lock_pipeline(job))
    if isinstance(pipeline, Refused):
        return pipeline
    hold = hold_table(job, pipeline)
    if hold is None:
        return None
    own = job.payload.get("driver")
    is_bound = job.payload.get(compaction_drivers.BOUND)
    table_id, policy = _table_of(job), policy_of(pipeline)
    spec = JobSpec(
        **shared_by_all(job, pipeline, hold.fence),
        compact=CompactWork(instants=tuple(job.payload.get("instants", ()))),
        budget=compaction_plans.budget_of(table_id, policy) if is_bound else None,
        driver=value_of(DriverSpec, own) if own else None,
    )
    compaction_plans.start(table_id, job.payload["instants"])
    return Attempt(spec, hold)


def _revive(job: Job, pipeline: Pipeline, actor: str) -> None:
    failed = MaintenancePlan.objects.filter(
        table=pipeline.lake_table, state=PLAN_FAILED
    )
    advance_all(list(failed), "reschedule", actor=actor)


def outcome(job: Job, end: End) -> None:
    """What the end of a compaction means for what is planned on its table."""
    table_id, instants = _table_of(job), job.payload.get("instants") or []
    pipeline = lock_pipeline(job)
    match end:
        case Succeeded(facts):
            done = [str(i) for i in facts.get("instants", ())]
            compaction_plans.complete(table_id, done)
        case Failed(error):
            compaction_plans.fail(table_id, instants, error)
        case Retried():
            compaction_plans.roll_back(table_id, instants)
    note_end(job, end, is_synced=pipeline is not None)
    match end:
        case Rejected(error) if pipeline is not None:
            stop_table(pipeline, error)
        case Cancelled(_, actor):
            _put_off(job, table_id, instants, actor=actor)


def _put_off(job: Job, table_id: int, instants: list[str], *, actor: str) -> None:
    """What it was to execute, or planned itself, waits: it would be no cancelling if
    the next second executed it."""
    until = compaction_plans.put_off(table_id, instants)
    job.reason = Sentence(
        PUT_OFF_BY if actor else PUT_OFF, actor=actor, until=f"{until:%H:%M}"
    )
    Job.objects.filter(pk=job.pk).update(reason=job.reason)


def left_by(job: Job, state: LakeState) -> Left:
    """By instant: a compaction has no position of its own. One that planned instants
    before it was lost executes these."""
    wanted = [str(i) for i in job.payload.get("instants", ())]
    pending = list(state.pending_compactions)
    if not wanted:
        return Left(payload={"instants": pending})
    found = [state.timeline.find(instant) for instant in wanted]
    if not all(i and i.state == "COMPLETED" for i in found):
        return Left()
    return Left({"instants": wanted, "pending_compactions": pending})


KIND = DriverKind(
    name=COMPACT,
    title="compaction",
    lane="maintenance",
    scopes=("service",),
    spec_for=spec_for,
    outcome=outcome,
    left_by=left_by,
    again=functools.partial(queue_again, revive=_revive),
    # each fifth sync brings one
    forgotten=Q(state=SUCCEEDED, requested_by=SCHEDULE),
)


def start_due_compactions() -> int:
    due = compaction_plans.compactions_due()
    for table, instants in due.items():
        start_compaction(table, actor=SCHEDULE, instants=instants)
    return len(due)


def start_compaction(
    table: Table,
    *,
    actor: str,
    instants: Iterable[str] = (),
    asked: DriverRequest = None,
    within_budget: bool = False,
) -> Job:
    """Queue the execution of exactly these instants (none = schedule one first, of
    everything or `within_budget`). One that waits is returned, with what is wished."""
    bound = {compaction_drivers.BOUND: True} if within_budget else {}
    payload = {"table": table.pk, "instants": list(instants), **bound}
    payload |= compaction_drivers.payload_for(table, asked)
    job = job_on(table, COMPACT, payload, actor=actor)
    job.lane = OWN_LANE if "driver" in payload else job.lane
    found = put([job])[0]
    if found.pk != job.pk:
        compaction_drivers.take_over(found, job, asked)
    return found


def _table_of(job: Job) -> int:
    return int(job.payload["table"])


def request_compaction(table: Table, *, actor: str, asked: DriverRequest = None) -> Job:
    """Execute what is scheduled on the timeline; schedule first when nothing is. In
    the driver that is wished for, else as the table's policy says."""
    with transaction.atomic():
        pipeline = locked_pipeline(table)
        if not table.is_queryable or pipeline.state == REMOVING:
            raise not_now(pipeline, Sentence("compact"))
        instants = MaintenancePlan.objects.filter(
            table=table, state__in=compaction_plans.OPEN
        )
        failed = list(instants.filter(state="FAILED"))
        advance_all(failed, "reschedule", actor=actor)
        planned = timeline_at(table.path).pending_compactions
        # one that no job told of stands on the timeline alone
        known = instants.values_list("instant", flat=True)
        names = sorted({*known, *(instant.asked for instant in planned)})
        job = start_compaction(table, actor=actor, instants=names, asked=asked)
        said = {"job": str(job.pk), "driver": job.payload.get("driver")}
        audit.record("table.compact", on=str(table), actor=actor, **said)
        return job
