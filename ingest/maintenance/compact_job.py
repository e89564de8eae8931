"""Compaction: the job that executes planned instants, or plans some first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from django.db import transaction
from django.db.models import Q

from catalog.access import audit
from catalog.models import Table
from core.advance import advance_all
from core.errors import SluiceError
from core.jobs import SUCCEEDED
from core.jobs.handlers import SCHEDULE, Facts
from core.models import Job
from ingest.contract.job import COMPACT, CompactWork, DriverSpec, JobSpec
from ingest.contract.members import value_of
from ingest.jobs.lanes import OWN_LANE
from ingest.jobs.lifecycle import job_on, start_jobs
from ingest.lake.commits import LakeState, read_timeline
from ingest.lake.fence import Scope
from ingest.lake.place import place_at
from ingest.maintenance import compaction_drivers
from ingest.maintenance.compaction_drivers import DriverRequest
from ingest.models import MaintenancePlan, Pipeline
from ingest.models.states import PLAN_FAILED, REMOVING
from ingest.pipelines import compaction_plans
from ingest.pipelines.policies.effective import policy_of
from ingest.pipelines.table_commands import not_now
from ingest.pipelines.table_job import TableJob
from ingest.pipelines.transitions import locked_pipeline


class CompactJob(TableJob):
    name = COMPACT
    title = "compaction"
    lane = "maintenance"
    scopes: ClassVar[tuple[Scope, ...]] = ("service",)

    def spec(
        self, job: Job, pipeline: Pipeline, shared: Mapping[str, Any], *, epoch: int
    ) -> JobSpec:
        own = job.payload.get("driver")
        is_bound = job.payload.get(compaction_drivers.BOUND)
        table_id, policy = _table_of(job), policy_of(pipeline)
        return JobSpec(
            **shared,
            compact=CompactWork(instants=tuple(job.payload.get("instants", ()))),
            budget=compaction_plans.budget_of(table_id, policy) if is_bound else None,
            driver=value_of(DriverSpec, own) if own else None,
        )

    def claimed(self, job: Job, pipeline: Pipeline | None) -> None:
        compaction_plans.start(_table_of(job), job.payload["instants"])

    def revive(self, job: Job, pipeline: Pipeline, *, actor: str) -> None:
        failed = MaintenancePlan.objects.filter(
            table=pipeline.lake_table, state=PLAN_FAILED
        )
        advance_all(list(failed), "reschedule", actor=actor)

    def apply(self, job: Job, pipeline: Pipeline | None, facts: Facts) -> bool:
        done = [str(i) for i in facts.get("instants", ())]
        compaction_plans.complete(_table_of(job), done)
        return False

    def failed(
        self, job: Job, pipeline: Pipeline | None, error: SluiceError, facts: Facts
    ) -> None:
        compaction_plans.fail(_table_of(job), job.payload.get("instants", []), error)
        super().failed(job, pipeline, error, facts)

    def retried(
        self, job: Job, pipeline: Pipeline | None, error: SluiceError, facts: Facts
    ) -> None:
        compaction_plans.roll_back(_table_of(job), job.payload.get("instants", []))
        super().retried(job, pipeline, error, facts)

    def cancelled(
        self, job: Job, pipeline: Pipeline | None, facts: Facts | None, *, actor: str
    ) -> None:
        """What it was to execute, or planned itself, waits: it would be no cancelling
        if the next second executed it."""
        super().cancelled(job, pipeline, facts, actor=actor)
        instants = job.payload.get("instants") or []
        until = compaction_plans.put_off(_table_of(job), instants)
        by = f" by {actor}" if actor else ""
        job.reason = (
            f"{compaction_plans.CANCELLED}{by}; what is planned stays planned, and"
            f" no automatic compaction of the table before {until:%H:%M} UTC"
        )
        Job.objects.filter(pk=job.pk).update(reason=job.reason)

    def forgotten(self) -> Q:
        """Each fifth sync brings one."""
        return Q(state=SUCCEEDED, requested_by=SCHEDULE)

    def committed(
        self, job: Job, pipeline: Pipeline | None, state: LakeState
    ) -> Facts | None:
        """By instant: a compaction has no position of its own."""
        wanted = [str(i) for i in job.payload.get("instants", ())]
        found = [state.timeline.find(instant) for instant in wanted]
        if not wanted or not all(i and i.state == "COMPLETED" for i in found):
            return None
        pending = list(state.pending_compactions)
        return {"instants": wanted, "pending_compactions": pending}

    def payload_again(self, job: Job, state: LakeState) -> Mapping[str, Any]:
        """The instants that it planned before it was lost."""
        if job.payload.get("instants"):
            return {}
        return {"instants": list(state.pending_compactions)}


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
    found = start_jobs([job])[0]
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
            raise not_now(pipeline, "compact")
        instants = MaintenancePlan.objects.filter(
            table=table, state__in=compaction_plans.OPEN
        )
        failed = list(instants.filter(state="FAILED"))
        advance_all(failed, "reschedule", actor=actor)
        planned = read_timeline(place_at(table.path)).pending_compactions
        # one that no job told of stands on the timeline alone
        known = instants.values_list("instant", flat=True)
        names = sorted({*known, *(instant.asked for instant in planned)})
        job = start_compaction(table, actor=actor, instants=names, asked=asked)
        said = {"job": str(job.pk), "driver": job.payload.get("driver")}
        audit.record("table.compact", on=str(table), actor=actor, **said)
        return job
