"""From rows to a JobSpec: what a driver has to know, and nothing secret.

It decides nothing; who may run when is decided in `ingest.jobs.lifecycle`.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings

from catalog.models import Datasource, Table
from core.models import Job
from ingest.contract.job import (
    ColumnSpec,
    CompactWork,
    DriverSpec,
    FenceSpec,
    JobSpec,
    RepairWork,
    SnapshotWork,
    SourceSpec,
    SyncWork,
    TableSpec,
    VerifyWork,
)
from ingest.contract.kinds import COMPACT, REPAIR, SYNC, VERIFY
from ingest.contract.members import value_of
from ingest.hudi.budget import CompactionBudget
from ingest.jobs.kinds import KINDS
from ingest.maintenance.compaction_drivers import BOUND
from ingest.models import Pipeline, TableHealth
from ingest.pipelines import schema_drift
from ingest.pipelines.rediscovery import ACTOR
from ingest.planning.plan import ApplyChanges, CreateTable, TablePlan, plan_from_json
from ingest.policies.policy import Effective
from ingest.policies.store import policy_of

SECRET_PREFIX = "datasource:"
# how late the gateway may notice that a statement is too old
SWEPT_WITHIN = 120.0


def build_spec(
    job: Job, pipeline: Pipeline, *, fence: FenceSpec, epoch: int
) -> JobSpec:
    """The spec of this job's next attempt. `epoch` is reserved for it, 0 = none."""
    plan = plan_from_json(pipeline.plan)
    table = _lake_table(pipeline)
    shared: dict[str, Any] = {
        "job_id": str(job.pk),
        "attempt": job.attempts + 1,
        "kind": job.kind,
        "lane": KINDS[job.kind].lane,
        "lake": settings.SLUICE_LAKE_URI,
        "lock_service": settings.SLUICE_LAKE_LOCK,
        "keep_seconds": keep_seconds(),
        "table": table_spec(plan, table, pipeline.source_table),
        "fence": fence,
    }
    if job.kind == COMPACT:
        return JobSpec(**shared, **_compaction(job, pipeline, table))
    shared["source"] = source_spec(pipeline.source_table.database.datasource)
    if job.kind == REPAIR:
        return JobSpec(**shared, repair=value_of(RepairWork, job.payload["repair"]))
    policy = policy_of(pipeline)
    if job.kind == SYNC:
        work = SyncWork(
            low=pipeline.position or None,
            lag_seconds=policy.lag_seconds,
            epoch=epoch,
            behind=table.last_commit_instant,
            lag_is_chosen=policy.is_chosen("lag_seconds"),
            signs=pipeline.signs,
            **schema_drift.sync_facts(job, pipeline),
        )
        return JobSpec(
            **shared,
            round=work,
            compact_after=policy.compact_after,
            budget=budget_of(table.pk, policy),
        )
    if job.kind == VERIFY:
        # who asks for one wants its answer; what comes automatically has a budget
        is_asked_for = job.requested_by != ACTOR
        rate = 0 if is_asked_for else policy.verification.rows_per_second
        work_of = VerifyWork(position=pipeline.position, rows_per_second=rate)
        return JobSpec(**shared, verify=work_of)
    return JobSpec(**shared, epoch=epoch, snapshot=_load(job, policy))


def _load(job: Job, policy: Effective) -> SnapshotWork:
    return SnapshotWork(
        lag_seconds=policy.lag_seconds,
        lag_is_chosen=policy.is_chosen("lag_seconds"),
        accept_empty=bool(job.payload.get("accept_empty")),
    )


def _compaction(job: Job, pipeline: Pipeline, table: Table) -> dict[str, Any]:
    """What a spec says of a compaction beside what all jobs say."""
    own = job.payload.get("driver")
    is_bound = job.payload.get(BOUND)
    return {
        "compact": CompactWork(instants=tuple(job.payload.get("instants", ()))),
        "budget": budget_of(table.pk, policy_of(pipeline)) if is_bound else None,
        "driver": value_of(DriverSpec, own) if own else None,
    }


def budget_of(table_id: int, policy: Effective) -> CompactionBudget:
    """What compactions of the table may write, as counted when it was last looked at;
    the job counts on from there."""
    rows = TableHealth.objects.filter(table_id=table_id)
    found = rows.values_list("facts__written__credit", "facts__written__upto").first()
    credit, upto = found or (None, "")
    keeping = policy.keeping
    return CompactionBudget(
        amplification=keeping.max_write_amplification,
        credit=credit or 0,
        # a look of an older release counted no credit
        upto=upto or "" if credit is not None else "",
        log_age=keeping.log_age_seconds,
    )


def keep_seconds() -> float:
    """How long cleaning leaves files that were replaced: a statement may read them."""
    return float(settings.SLUICE_STATEMENT_SECONDS) + SWEPT_WITHIN


def table_spec(plan: TablePlan, lake: Table, source: Table) -> TableSpec:
    create: CreateTable = plan.step(CreateTable)
    apply: ApplyChanges | None = plan.step(ApplyChanges)
    return TableSpec(
        table_id=lake.pk,
        source_schema=source.database.name,
        source_table=source.name,
        database=lake.database.name,
        name=lake.name,
        path=lake.path,
        staging=staging_path(lake.pk),
        columns=tuple(
            ColumnSpec(
                source_name=c.source_name,
                name=c.name,
                source_type=c.source_type,
                type=c.type,
                lossy=c.lossy,
            )
            for c in create.columns
        ),
        key=create.record_key,
        row_hash=create.row_hash,
        cursor=apply.cursor if apply else None,
        partition_by=create.partition_by,
        buckets=create.buckets,
        estimated_rows=source.estimated_rows,
        schema_version=lake.schema_version,
        lock=create.lock,
        updates=create.updates,
    )


def source_spec(source: Datasource) -> SourceSpec:
    options = source.options or {}
    return SourceSpec(
        datasource_id=source.pk,
        kind=source.kind,
        host=source.host,
        port=source.port,
        database=source.database,
        username=source.username,
        secret_ref=f"{SECRET_PREFIX}{source.pk}",
        tls=source.tls,
        max_parallel_reads=int(options.get("max_parallel_reads") or 2),
        max_rows_per_second=int(options.get("max_rows_per_second") or 0),
    )


def staging_path(table_id: int) -> str:
    return f"{settings.SLUICE_LAKE_URI}/_sluice/staging/{table_id}"


def _lake_table(pipeline: Pipeline) -> Table:
    if pipeline.lake_table is None:
        raise ValueError(f"onboarding {pipeline.pk} was never approved")
    return pipeline.lake_table
