"""From a request to tables on their way: plan → approve → load.

Thousands of tables in one request cost a fixed number of statements. It stores
plans exactly as they were shown; what runs later is what was approved. It must not
know REST or drivers. `ingest.pipelines.drafting` makes the plans.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from django.db import transaction
from django.db.models.functions import Now

from catalog.access import audit
from catalog.access.policy import Principal
from catalog.datasources import lake_database, lake_datasource
from catalog.discovery.choosing import Uncarried
from catalog.discovery.facts import known_rows
from catalog.models import Column, Database, Datasource, SchemaVersion, Table
from core.advance import advance_all, record_moves
from core.errors import InvalidRequest, StaleState
from core.models import Job
from core.sentences import Sentence, as_sentence, origins_in
from ingest.contract.job import SNAPSHOT
from ingest.contract.members import as_data
from ingest.jobs.kinds import table_spec
from ingest.jobs.queue import new_job, put
from ingest.lake.hudi.identity import identity_for
from ingest.models import Onboarding, Pipeline
from ingest.models.states import APPROVED, DISCOVERED, DRAFT, PROPOSED
from ingest.pipelines import shards
from ingest.pipelines.drafting import Draft, Planned, plan_onboarding
from ingest.pipelines.onboarding_rights import require_targets
from ingest.pipelines.requests import OnboardingRequest
from ingest.pipelines.schema_diff import column_rows, source_changed
from ingest.planning.plan import (
    ApplyChanges,
    CreateTable,
    LoadSnapshot,
    TablePlan,
    plan_from_json,
    plan_to_json,
)

# ------------------------------------------------------------------------- store


def start_onboarding(
    request: OnboardingRequest,
    *,
    principal: Principal,
    passed_over: Sequence[Uncarried] = (),
) -> Onboarding:
    """Store the request with its plans, and approve them when it says so. The caller
    has judged the rights at the source, those in the lake are judged here.

    passed_over: what a search that chose these tables found and cannot be synced.
    """
    actor = principal.name
    draft = plan_onboarding(request, principal=principal)
    if not draft.planned:
        raise _nothing_left(draft)
    with transaction.atomic():
        # one request at a time: each source table has one sync
        Datasource.objects.select_for_update().get(pk=draft.source.pk)
        _refuse_taken(draft)
        left_out = [dataclasses.asdict(one) for one in passed_over or draft.uncarried]
        row = Onboarding.objects.create(
            datasource=draft.source,
            request=request.to_data()
            | {
                "skipped": list(draft.skipped),
                "uncarried": left_out,
                "sentences": origins_in(left_out),
            },
            requested_by=actor,
        )
        pipelines = Pipeline.objects.bulk_create(
            [pipeline_row(each, row) for each in draft.planned], batch_size=500
        )
        for pipeline, each in zip(pipelines, draft.planned, strict=True):
            if each.shards:
                shards.store(pipeline, each.shards)
        record_moves(pipelines, "discover", before=DRAFT, actor=actor)
        record_moves(pipelines, "propose", before=DISCOVERED, actor=actor)
        if request.approve:
            approve_onboarding(row, principal=principal)
    return row


def _refuse_taken(draft: Draft) -> None:
    """Onboarded since it was planned."""
    taken = shards.carried_in(draft.source)
    for each in draft.planned:
        for table in each.shards or (each.table,):
            if table.pk in taken:
                raise StaleState(
                    "%(table)s was onboarded by another request",
                    table=table,
                    code="already_onboarded",
                    hint="send the request again",
                )


def _nothing_left(draft: Draft) -> InvalidRequest:
    if draft.skipped or not draft.uncarried:
        return InvalidRequest(
            "every table of this request is onboarded already",
            code="already_onboarded",
            hint="choose other tables, or remove these from their sync first",
        )
    first = draft.uncarried[0]
    return InvalidRequest(
        "no table of this request can be synced: %(name)s, %(reason)s",
        name=first.name,
        reason=as_sentence(first.reason),
        code="unknown_table",
        hint=first.way_out,
    )


def pipeline_row(each: Planned, row: Onboarding | None = None) -> Pipeline:
    """As it is stored, of that onboarding; None = it is only shown."""
    return Pipeline(
        onboarding=row,
        source_table=each.table,
        capture=each.capture,
        policy=each.own,
        plan=plan_to_json(each.plan),
        state=PROPOSED,
        status_reason=each.plan.blocked,
    )


# ----------------------------------------------------------------------- approve


def approve_onboarding(row: Onboarding, *, principal: Principal) -> list[Job]:
    """Pin names and identity of every table whose plan is complete, and queue its
    load. Tables that still need a choice, or that changed since, stay PROPOSED and
    say so. Approving again does nothing. AccessDenied for a lake database that the
    principal may not write to."""
    actor = principal.name
    with audit.keeping_denials(), transaction.atomic():
        # one approval at a time: lake names are given out here
        Datasource.objects.select_for_update().get(pk=lake_datasource().pk)
        ready = _ready(row)
        if not ready:
            return []
        written_to = ((plan.database, plan.is_target_chosen) for _, plan in ready)
        require_targets(principal, row.datasource, written_to)
        lake_tables = _create_lake_tables(ready)
        for pipeline, table in zip((f for f, _ in ready), lake_tables, strict=True):
            pipeline.lake_table = table
        pipelines = [pipeline for pipeline, _ in ready]
        Pipeline.objects.bulk_update(pipelines, ["lake_table"], batch_size=500)
        advance_all(pipelines, "approve", actor=actor, status_reason="")
        Onboarding.objects.filter(pk=row.pk, approved_at=None).update(
            approved_at=Now(), approved_by=actor
        )
        row.refresh_from_db(fields=["approved_at", "approved_by"])
        return put([new_job(pipeline, SNAPSHOT, actor=actor) for pipeline in pipelines])


def discard_onboarding(row: Onboarding, *, actor: str, only: int | None = None) -> int:
    """Give up the tables that are not approved, and the wait for a discovery; how many
    tables. They can be onboarded again. Discarding again does nothing. only: this
    pipeline alone."""
    with transaction.atomic():
        found = Onboarding.objects.select_for_update().get(pk=row.pk)
        if only is None and found.request.pop("waits", None) is not None:
            found.save(update_fields=["request"])
        open_rows = Pipeline.objects.select_for_update().filter(onboarding=row)
        open_rows = open_rows.filter(pk=only) if only is not None else open_rows
        pipelines = list(open_rows.filter(state=PROPOSED).order_by("pk"))
        reason = Sentence("discarded by %(name)s", name=actor)
        advance_all(pipelines, "discard", actor=actor, status_reason=reason)
    return len(pipelines)


def _ready(row: Onboarding) -> list[tuple[Pipeline, TablePlan]]:
    rows = (
        Pipeline.objects.select_for_update(of=("self",))
        .filter(onboarding=row, state=PROPOSED)
        .select_related("source_table__database__datasource")
        .order_by("pk")
    )
    plans = [(pipeline, plan_from_json(pipeline.plan)) for pipeline in rows]
    taken = _names_in({plan.database for _, plan in plans})
    ready, waiting = [], []
    for pipeline, plan in plans:
        reason = plan.blocked
        if changed := source_changed(pipeline, plan):
            reason = changed.as_sentence
        elif f"{plan.database}.{plan.name}" in taken:
            reason = Sentence(
                "lake.%(table)s exists already: remove it, or ask again with"
                " another 'target_database'",
                table=f"{plan.database}.{plan.name}",
            )
        if reason:
            pipeline.status_reason = reason
            waiting.append(pipeline)
        else:
            ready.append((pipeline, plan))
            taken.add(f"{plan.database}.{plan.name}")
    Pipeline.objects.bulk_update(waiting, ["status_reason"], batch_size=500)
    return ready


def _names_in(databases: set[str]) -> set[str]:
    """ "database.table" of what lies in these databases of the lake."""
    rows = Database.objects.filter(datasource=lake_datasource(), name__in=databases)
    tables = Table.objects.filter(database__in=list(rows))
    found = tables.values_list("database__name", "name")
    return {f"{database}.{name}" for database, name in found}


def _create_lake_tables(
    ready: Sequence[tuple[Pipeline, TablePlan]],
) -> list[Table]:
    databases: dict[str, Database] = {
        name: lake_database(name) for name in {plan.database for _, plan in ready}
    }
    tables = Table.objects.bulk_create(
        [
            lake_table_row(pipeline.source_table, plan, databases[plan.database])
            for pipeline, plan in ready
        ],
        batch_size=500,
    )
    columns = [
        (table, plan.step(CreateTable).columns)
        for table, (_, plan) in zip(tables, ready, strict=True)
    ]
    Column.objects.bulk_create(
        [row for table, planned in columns for row in column_rows(table, planned)],
        batch_size=2000,
    )
    SchemaVersion.objects.bulk_create(
        [
            SchemaVersion(table=table, version=1, columns=as_data(planned))
            for table, planned in columns
        ],
        batch_size=500,
    )
    return tables


def lake_table_row(source: Table, plan: TablePlan, database: Database) -> Table:
    """The lake table that a plan makes, not stored yet."""
    create: CreateTable = plan.step(CreateTable)
    apply: ApplyChanges | None = plan.step(ApplyChanges)
    lake_name = {c.source_name: c.name for c in create.columns}
    table = Table(
        database=database,
        name=plan.name,
        source_name=plan.source,
        kind=Table.LAKE,
        comment=source.comment,
        record_key=[lake_name[name] for name in create.record_key],
        cursor=lake_name[apply.cursor] if apply else "",
        buckets=create.buckets,
        path=create.path,
        estimated_rows=_rows_of(plan, source),
        status=APPROVED,
    )
    identity = identity_for(table_spec(plan, table, source))
    table.identity = identity.to_data()
    table.partition_by = list(identity.partition_by)
    return table


def _rows_of(plan: TablePlan, source: Table) -> int:
    """What discovery counted or, of many tables, what was planned with."""
    create: CreateTable = plan.step(CreateTable)
    if create.shards:
        load: LoadSnapshot = plan.step(LoadSnapshot)
        return load.estimated_rows
    return known_rows(source) or 0
