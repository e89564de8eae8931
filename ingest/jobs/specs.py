"""From rows to a JobSpec: what a driver has to know, and nothing secret.

It decides nothing: a kind's `spec_for` does.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings

from catalog.models import Datasource, Table
from core.models import Job
from ingest.contract.table import ColumnSpec, FenceSpec, SourceSpec, TableSpec
from ingest.jobs.kinds import driver_kind
from ingest.models import Pipeline
from ingest.planning.plan import ApplyChanges, CreateTable, TablePlan, plan_from_json

SECRET_PREFIX = "datasource:"
# how late the gateway may notice that a statement is too old
SWEPT_WITHIN = 120.0


def shared_by_all(job: Job, pipeline: Pipeline, fence: FenceSpec) -> dict[str, Any]:
    """Return the members that the spec of any kind has, for the job's next attempt."""
    table = _lake_table(pipeline)
    return {
        "job_id": str(job.pk),
        "attempt": job.attempts + 1,
        "kind": job.kind,
        "lane": driver_kind(job.kind).lane,
        "lake": settings.SLUICE_LAKE_URI,
        "lock_service": settings.SLUICE_LAKE_LOCK,
        "keep_seconds": keep_seconds(),
        "table": table_spec(
            plan_from_json(pipeline.plan), table, pipeline.source_table
        ),
        "fence": fence,
    }


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
                older=c.older,
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
        left_out=plan.left_out,
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
