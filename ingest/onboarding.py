"""From a request to tables on their way: plan → approve → load.

Thousands of tables in one request cost a fixed number of statements. It stores
plans exactly as they were shown; what runs later is what was approved. It must not
know REST or drivers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models.functions import Now

from catalog.lake import lake_database, lake_datasource
from catalog.models import Column, Database, Datasource, SchemaVersion, Table
from core.advance import advance_all, record_moves
from core.errors import InvalidRequest, NotFound
from core.models import Job
from ingest import facts as reading
from ingest.circumstances import Circumstances
from ingest.hudi.identity import identity_for
from ingest.kinds import SNAPSHOT
from ingest.models import Onboarding, TableOnboarding
from ingest.narrowing import source_changed
from ingest.planning.facts import Capture, Choices, TableFacts, Target
from ingest.planning.patterns import select
from ingest.planning.plan import (
    ApplyChanges,
    CreateTable,
    PlannedColumn,
    TablePlan,
    plan_from_json,
    plan_to_json,
)
from ingest.planning.propose import propose_table
from ingest.policy import Effective
from ingest.requests import OnboardingRequest, escape, refuse
from ingest.runs import new_job, start_jobs
from ingest.schedule import schedule_to_json
from ingest.specs import table_spec
from ingest.states import APPROVED, DISCOVERED, DRAFT, PROPOSED, RETIRED


@dataclass(frozen=True, slots=True)
class Planned:
    """A table of a request with its plan and policy; nothing is stored yet."""

    table: Table
    plan: TablePlan
    policy: Effective


@dataclass(frozen=True, slots=True)
class Draft:
    """A planned request. `skipped`: tables a pattern meant that are carried already."""

    source: Datasource
    capture: Capture
    planned: tuple[Planned, ...]
    skipped: tuple[str, ...]


# -------------------------------------------------------------------------- plan


def plan_onboarding(request: OnboardingRequest) -> Draft:
    """What would happen, without storing anything. InvalidRequest with pointers."""
    source = Datasource.objects.filter(name=request.datasource).first()
    if source is None or source.is_lake:
        raise NotFound(
            f"there is no datasource '{request.datasource}'",
            code="datasource_not_found",
        )
    tables, skipped = _chosen_tables(source, request)
    circumstances = Circumstances(source, request.capture)
    own = own_policy(request)
    facts = reading.facts_of(tables)
    targets = _targets(source, facts, request)
    planned = []
    for table, fact, target in zip(tables, facts, targets, strict=True):
        choices = request.tables.get(fact.source_name, Choices())
        policy = circumstances.policy_of(table.database, own)
        try:
            plan = propose_table(fact, choices, target, circumstances.under(policy))
        except InvalidRequest as error:
            raise _pointed(error) from error
        planned.append(Planned(table, plan, policy))
    return Draft(
        source=source,
        capture=request.capture,
        planned=tuple(planned),
        skipped=skipped,
    )


def _targets(
    source: Datasource, facts: list[TableFacts], request: OnboardingRequest
) -> list[Target]:
    derived = reading.targets_of(source, facts, target_database=request.target_database)
    names = [fact.source_name for fact in facts]
    lakes = [request.tables.get(name, Choices()).lake for name in names]
    try:
        return reading.pin_targets(derived, lakes, names)
    except InvalidRequest as error:
        raise _pointed(error) from error


def _chosen_tables(
    source: Datasource, request: OnboardingRequest
) -> tuple[list[Table], tuple[str, ...]]:
    names = reading.names_of(source)
    found = select(
        [(database, table) for _, database, table in names],
        include=request.include,
        exclude=request.exclude,
    )
    for index in found.unmatched:
        refuse(
            f"/include/{index}",
            f"'{request.include[index]}' matches no table of {source.name}; "
            "discover the source again if it is new",
            code="unknown_table",
        )
    chosen = {names[i][0]: f"{names[i][1]}.{names[i][2]}" for i in found.matched}
    for name in request.tables:
        if name not in chosen.values():
            refuse(
                f"/tables/{escape(name)}",
                f"'{name}' is not among the chosen tables",
                code="unknown_table",
            )
    carried = set(
        TableOnboarding.objects.exclude(state=RETIRED)
        .filter(source_table__database__datasource=source)
        .values_list("source_table_id", flat=True)
    )
    skipped = tuple(name for pk, name in chosen.items() if pk in carried)
    _refuse_other_updates(source, request, skipped)
    _refuse_named_again(request, skipped)
    rows = Table.objects.filter(pk__in=[pk for pk in chosen if pk not in carried])
    ordered = (
        rows.select_related("database__datasource")
        .prefetch_related("columns")
        .order_by("database__name", "name")
    )
    return list(ordered), skipped


def _refuse_other_updates(
    source: Datasource, request: OnboardingRequest, skipped: Sequence[str]
) -> None:
    """What a NULL means is fixed for a table's life: merging both ways would show
    neither."""
    asked = {
        n: c.updates for n in skipped if (c := request.tables.get(n)) and c.updates
    }
    if not asked:
        return
    rows = TableOnboarding.objects.exclude(state=RETIRED).filter(
        source_table__database__datasource=source, plan__source__in=list(asked)
    )
    for name, plan in rows.values_list("plan__source", "plan"):
        create: CreateTable | None = plan_from_json(plan).step(CreateTable)
        if create is not None and create.updates != asked[name]:
            refuse(
                f"/tables/{escape(name)}/updates",
                f"'{name}' is carried with {create.updates} updates, not with"
                f" {asked[name]} ones, and that is fixed for its life: remove its"
                " onboarding and ask again, which loads it into a new lake table",
                code="updates_fixed",
            )


def _refuse_named_again(request: OnboardingRequest, skipped: Sequence[str]) -> None:
    for index, pattern in enumerate(request.include):
        if pattern in skipped:
            refuse(
                f"/include/{index}",
                f"'{pattern}' is onboarded already; change or remove it there",
                code="already_onboarded",
            )


def _pointed(error: InvalidRequest) -> InvalidRequest:
    """The same error with a pointer into the request."""
    table, field = error.facts.get("table", ""), error.facts.get("field", "")
    pointer = f"/tables/{escape(str(table))}/{field}"
    return InvalidRequest(
        error.message,
        code=error.code,
        hint=error.hint,
        facts={"errors": [{"pointer": pointer, "detail": error.message}]},
    )


def own_policy(request: OnboardingRequest) -> dict[str, Any]:
    """What the request itself gives its tables; the rest is inherited."""
    if request.schedule is None:
        return {}
    return {"schedule": schedule_to_json(request.schedule)}


# ------------------------------------------------------------------------- store


def start_onboarding(request: OnboardingRequest, *, actor: str) -> Onboarding:
    """Store the request with its plans, and approve them when it says so."""
    draft = plan_onboarding(request)
    if not draft.planned:
        raise InvalidRequest(
            "every table of this request is onboarded already",
            code="already_onboarded",
            hint="look at /api/v1/onboardings",
        )
    with transaction.atomic():
        row = Onboarding.objects.create(
            datasource=draft.source,
            request=request.to_data() | {"skipped": list(draft.skipped)},
            requested_by=actor,
        )
        feeds = TableOnboarding.objects.bulk_create(
            [_feed(row, each, request) for each in draft.planned], batch_size=500
        )
        record_moves(feeds, "discover", before=DRAFT, actor=actor)
        record_moves(feeds, "propose", before=DISCOVERED, actor=actor)
        if request.approve:
            approve_onboarding(row, actor=actor)
    return row


def _feed(
    row: Onboarding, each: Planned, request: OnboardingRequest
) -> TableOnboarding:
    return TableOnboarding(
        onboarding=row,
        source_table=each.table,
        capture=request.capture,
        policy=own_policy(request),
        plan=plan_to_json(each.plan),
        state=PROPOSED,
        status_reason=each.plan.blocked,
    )


# ----------------------------------------------------------------------- approve


def approve_onboarding(row: Onboarding, *, actor: str) -> list[Job]:
    """Pin names and identity of every table whose plan is complete, and queue its
    load. Tables that still need a choice, or that changed since, stay PROPOSED and
    say so. Approving again does nothing."""
    with transaction.atomic():
        # one approval at a time: lake names are given out here
        Datasource.objects.select_for_update().get(pk=lake_datasource().pk)
        ready = _ready(row)
        if not ready:
            return []
        lake_tables = _create_lake_tables(ready)
        for feed, table in zip((f for f, _ in ready), lake_tables, strict=True):
            feed.lake_table = table
        feeds = [feed for feed, _ in ready]
        TableOnboarding.objects.bulk_update(feeds, ["lake_table"], batch_size=500)
        advance_all(feeds, "approve", actor=actor, status_reason="")
        Onboarding.objects.filter(pk=row.pk, approved_at=None).update(
            approved_at=Now(), approved_by=actor
        )
        return start_jobs([new_job(feed, SNAPSHOT, actor=actor) for feed in feeds])


def _ready(row: Onboarding) -> list[tuple[TableOnboarding, TablePlan]]:
    rows = (
        TableOnboarding.objects.select_for_update(of=("self",))
        .filter(onboarding=row, state=PROPOSED)
        .select_related("source_table__database__datasource")
        .order_by("pk")
    )
    plans = [(feed, plan_from_json(feed.plan)) for feed in rows]
    taken = _names_in({plan.database for _, plan in plans})
    ready, waiting = [], []
    for feed, plan in plans:
        reason = plan.blocked
        if changed := source_changed(feed, plan):
            reason = str(changed)
        elif f"{plan.database}.{plan.name}" in taken:
            reason = (
                f"lake.{plan.database}.{plan.name} exists already: remove it, or ask "
                "again with another 'target_database'"
            )
        if reason:
            feed.status_reason = reason
            waiting.append(feed)
        else:
            ready.append((feed, plan))
    TableOnboarding.objects.bulk_update(waiting, ["status_reason"], batch_size=500)
    return ready


def _names_in(databases: set[str]) -> set[str]:
    """ "database.table" of what lies in these databases of the lake."""
    rows = Database.objects.filter(datasource=lake_datasource(), name__in=databases)
    tables = Table.objects.filter(database__in=list(rows))
    found = tables.values_list("database__name", "name")
    return {f"{database}.{name}" for database, name in found}


def _create_lake_tables(
    ready: Sequence[tuple[TableOnboarding, TablePlan]],
) -> list[Table]:
    databases: dict[str, Database] = {
        name: lake_database(name) for name in {plan.database for _, plan in ready}
    }
    tables = Table.objects.bulk_create(
        [_lake_table(feed, plan, databases[plan.database]) for feed, plan in ready],
        batch_size=500,
    )
    columns = [
        (table, plan.step(CreateTable).columns)
        for table, (_, plan) in zip(tables, ready, strict=True)
    ]
    Column.objects.bulk_create(
        [
            _lake_column(table, position, column)
            for table, planned in columns
            for position, column in enumerate(planned, start=1)
        ],
        batch_size=2000,
    )
    SchemaVersion.objects.bulk_create(
        [
            SchemaVersion(
                table=table, version=1, columns=[dataclasses.asdict(c) for c in planned]
            )
            for table, planned in columns
        ],
        batch_size=500,
    )
    return tables


def _lake_table(feed: TableOnboarding, plan: TablePlan, database: Database) -> Table:
    create: CreateTable = plan.step(CreateTable)
    apply: ApplyChanges | None = plan.step(ApplyChanges)
    lake_name = {c.source_name: c.name for c in create.columns}
    source = feed.source_table
    table = Table(
        database=database,
        name=plan.name,
        source_name=plan.source,
        kind=Table.LAKE,
        comment=source.comment,
        record_key=[lake_name[name] for name in create.record_key],
        cursor=lake_name[apply.cursor] if apply else "",
        partition_by=[lake_name[name] for name in create.partition_by],
        table_type=create.table_type,
        index_type=create.index_type,
        buckets=create.buckets,
        path=create.path,
        estimated_rows=source.estimated_rows,
        status=APPROVED,
    )
    table.identity = identity_for(table_spec(plan, table, source)).to_data()
    return table


def _lake_column(table: Table, position: int, column: PlannedColumn) -> Column:
    return Column(
        table=table,
        position=position,
        name=column.name,
        source_name=column.source_name,
        source_type=column.source_type,
        type=column.type,
        nullable=column.nullable,
        key=column.key,
    )
