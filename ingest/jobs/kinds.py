"""Kinds of jobs that a Spark driver executes, as values.

A job of such a kind works on one lake table, by `payload["table"]`, for one pipeline.
What the specs of all kinds contain is made here too, and nothing in it is secret.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from django.conf import settings

from catalog.models import Datasource, Table
from core.errors import SluiceError, TerminalError
from core.jobs.moves import Facts, JobKind, kind_of
from core.models import Job
from ingest.contract.job import JobSpec
from ingest.contract.table import ColumnSpec, FenceSpec, SourceSpec, TableSpec
from ingest.lake.commits import LakeState
from ingest.lake.fence import Scope
from ingest.models import Pipeline
from ingest.planning.plan import (
    ApplyChanges,
    CreateTable,
    PlannedColumn,
    TablePlan,
    plan_from_json,
)


@dataclass(frozen=True, slots=True)
class TableHold:
    """The leases of a table that an attempt has taken.

    fence     of the kind's first scope, for the driver
    scopes    those that are taken
    is_alone  whether the attempt runs in a driver of its own
    """

    fence: FenceSpec
    scopes: tuple[Scope, ...]
    is_alone: bool


@dataclass(frozen=True, slots=True)
class Attempt:
    """What an attempt begins with."""

    spec: JobSpec
    hold: TableHold


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a QUEUED job can no longer run."""

    error: SluiceError


@dataclass(frozen=True, slots=True)
class Left:
    """What a lost attempt has left in the lake.

    facts    what it committed, as its report would contain it; None = the timeline
             shows nothing of it
    is_done  whether the job has succeeded by that
    payload  what the next attempt has to know of the lost one
    """

    facts: Facts | None = None
    is_done: bool = True
    payload: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverKind(JobKind):
    """A kind that a Spark driver executes.

    lane         one of LANE_LIMITS
    scopes       the leases it takes, in this order; the first one is its key
    weighs_rows  whether `Job.weight` is the number of the table's rows; else 0
    spec_for     the next attempt of a QUEUED job whose row is locked: it checks that
                 the job may run, takes the table and makes the spec. None = the job
                 waits, and its row has the reason. What it raises takes back all that
                 it wrote, then the job waits (TransientError) or ends
    left_by      what a lost attempt of the job has left in the lake
    """

    lane: str
    scopes: tuple[Scope, ...]
    weighs_rows: bool = False
    spec_for: Callable[[Job], Attempt | Refused | None]
    left_by: Callable[[Job, LakeState], Left]


def driver_kind(name: str) -> DriverKind:
    """Return a kind that drivers execute; TerminalError for others."""
    kind = kind_of(name)
    if not isinstance(kind, DriverKind):
        raise TerminalError(
            f"a {name} job is not executed by a driver", code="not_a_driver_job"
        )
    return kind


SECRET_PREFIX = "datasource:"
# how late the gateway may notice that a statement is too old
SWEPT_WITHIN = 120.0


def shared_by_all(job: Job, pipeline: Pipeline, fence: FenceSpec) -> dict[str, Any]:
    """Return the members that the spec of any kind has, for the job's next attempt."""
    return {
        "job_id": str(job.pk),
        "attempt": job.attempts + 1,
        "kind": job.kind,
        "lane": driver_kind(job.kind).lane,
        "lake": settings.SLUICE_LAKE_URI,
        "lock_service": settings.SLUICE_LAKE_LOCK,
        "keep_seconds": keep_seconds(),
        "table": replace(
            spec_by_plan(pipeline), estimated_rows=pipeline.estimated_rows
        ),
        "fence": fence,
    }


def keep_seconds() -> float:
    """How long cleaning leaves files that were replaced: a statement may read them."""
    return float(settings.SLUICE_STATEMENT_SECONDS) + SWEPT_WITHIN


def spec_by_plan(pipeline: Pipeline) -> TableSpec:
    """Of its lake table, by the plan of now."""
    plan = plan_from_json(pipeline.plan)
    return table_spec(plan, pipeline.lake, pipeline.source_table)


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
        columns=tuple(map(_column_spec, create.columns)),
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
        kept=tuple(map(_column_spec, create.kept)),
        shards=create.shards,
    )


def _column_spec(column: PlannedColumn) -> ColumnSpec:
    return ColumnSpec(
        source_name=column.source_name,
        name=column.name,
        source_type=column.source_type,
        type=column.type,
        lossy=column.lossy,
        older=column.older,
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
