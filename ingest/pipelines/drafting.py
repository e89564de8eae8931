"""A request as plans, table by table; nothing is stored, nothing runs.

Thousands of tables cost a fixed number of statements. Every mistake of a request is
found before any is told. Must not know REST or drivers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from catalog.access.policy import Principal
from catalog.discovery.choosing import Uncarried, uncarried
from catalog.discovery.facts import schemas_of
from catalog.discovery.store import NOT_SYNCED
from catalog.models import Datasource, Table
from core.errors import InvalidRequest, NotFound
from core.json_values import escape
from core.sentences import Sentence, as_sentence
from ingest.models import Pipeline
from ingest.models.states import RETIRED
from ingest.pipelines import table_facts as reading
from ingest.pipelines.mistakes import Mistakes
from ingest.pipelines.onboarding_rights import managed_databases, require_targets
from ingest.pipelines.planning_context import Circumstances
from ingest.pipelines.policies.policy import Effective
from ingest.pipelines.policies.schedule import schedule_to_json
from ingest.pipelines.requests import OnboardingRequest
from ingest.pipelines.shards import Group, carried_in, grouped
from ingest.planning.defaults import ConditionsOf, PlanDefaults, plan_with_defaults
from ingest.planning.facts import (
    LOG,
    TIMESTAMP,
    Capture,
    Choices,
    Conditions,
    TableFacts,
    Target,
)
from ingest.planning.log import published_at_once
from ingest.planning.patterns import select
from ingest.planning.plan import CreateTable, TablePlan, plan_from_json
from ingest.planning.shards import Shards, joined_facts, sharded


@dataclass(frozen=True, slots=True)
class Planned:
    """A table of a request; nothing is stored yet. own: its settings of policy. shards:
    all source tables of a sharded one."""

    table: Table
    capture: Capture
    plan: TablePlan
    own: Mapping[str, Any]
    policy: Effective
    shards: tuple[Table, ...] = ()


@dataclass(frozen=True, slots=True)
class Draft:
    """A planned request. `skipped`: tables a pattern meant that are carried already;
    `uncarried`: those it meant that cannot be."""

    source: Datasource
    capture: Capture | None
    planned: tuple[Planned, ...]
    skipped: tuple[str, ...]
    uncarried: tuple[Uncarried, ...] = ()


def plan_onboarding(request: OnboardingRequest, *, principal: Principal) -> Draft:
    """What would happen, without storing anything. InvalidRequest with pointers;
    AccessDenied for a lake database that the principal may not write to."""
    source = Datasource.objects.filter(name=request.datasource).first()
    if source is None or source.is_lake:
        raise NotFound(
            "there is no datasource '%(name)s'",
            name=request.datasource,
            code="datasource_not_found",
            hint="see /api/v1/datasources for those there are",
        )
    mistakes = Mistakes()
    sight = Sight(source, managed_databases(principal, source))
    others = _uncarried_of(sight, request)
    tables, skipped = _chosen_tables(sight, request, others, mistakes)
    groups = grouped(
        request,
        tables,
        skipped=skipped,
        uncarried={name: one.reason for name, one in others.items()},
        mistakes=mistakes,
    )
    schemas = schemas_of(tables)
    facts = [tuple(reading.facts_of(group.tables, schemas)) for group in groups]
    targets = _targets(source, groups, facts, request, mistakes, principal=principal)
    planned = _plan_all(source, request, (groups, facts, targets), mistakes)
    mistakes.tell()
    return Draft(
        source=source,
        capture=request.capture,
        planned=tuple(planned),
        skipped=skipped,
        uncarried=tuple(others.values()),
    )


Facts = Sequence[tuple[TableFacts, ...]]
Chosen = tuple[Sequence[Group], Facts, Sequence[Target]]


def _plan_all(
    source: Datasource, request: OnboardingRequest, chosen: Chosen, mistakes: Mistakes
) -> list[Planned]:
    circumstances = Circumstances(source)
    planned = []
    for group, facts, target in zip(*chosen, strict=True):
        choices = request.tables.get(group.name, Choices())
        own = own_policy(choices.schedule or schedule_to_json(request.schedule))
        policy = circumstances.policy_of(group.first.database, own)
        asked = Asked(
            choices,
            target,
            request.defaults,
            partial(circumstances.under, policy),
            request.capture,
            request.shards,
        )
        try:
            capture, plan = plan_group(group, facts, asked)
        except InvalidRequest as error:
            mistakes.take(error)
            continue
        own = own if capture == TIMESTAMP else {}
        shards = group.tables if group.pattern else ()
        planned.append(
            (Planned(group.first, capture, plan, own, policy, shards), facts)
        )
    plans = published_at_once([one.plan for one, _ in planned], [f for _, f in planned])
    return [
        replace(one, plan=plan) for (one, _), plan in zip(planned, plans, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class Asked:
    """What a table is planned by. column: of its shards."""

    choices: Choices
    target: Target
    defaults: PlanDefaults
    conditions: ConditionsOf
    capture: Capture | None
    column: str = ""


def plan_group(
    group: Group, facts: Sequence[TableFacts], asked: Asked
) -> tuple[Capture, TablePlan]:
    """As `plan_with_defaults`; of a sharded table for all of its shards."""
    given = asked.choices, asked.defaults, asked.target
    if group.pattern is None:
        return plan_with_defaults(facts[0], *given, asked.conditions, asked.capture)
    way = asked.choices.capture or asked.capture or LOG

    def under(way: Capture) -> Conditions:
        return replace(asked.conditions(way), is_sharded=True)

    way, plan = plan_with_defaults(joined_facts(facts), *given, under, way)
    plans = [plan_with_defaults(one, *given, under, way)[1] for one in facts]
    shards = Shards(group.pattern.text, asked.column, group.values)
    return way, sharded(plan, shards, facts, plans)


def own_policy(schedule: object) -> dict[str, Any]:
    """What a request itself gives a table; the rest is inherited."""
    return {} if schedule is None else {"schedule": schedule}


def _targets(
    source: Datasource,
    groups: Sequence[Group],
    found: Facts,
    request: OnboardingRequest,
    mistakes: Mistakes,
    *,
    principal: Principal,
) -> list[Target]:
    """With a derived name where a given one is a mistake, to find the others. Rights
    come before names in use: which those are is for who may write there."""
    names = [group.name for group in groups]
    facts = [
        replace(one[0], database=group.pattern.database) if group.pattern else one[0]
        for group, one in zip(groups, found, strict=True)
    ]
    try:
        derived = reading.targets_of(
            source, facts, target_database=request.target_database
        )
    except InvalidRequest as error:
        mistakes.take(error)
        derived = reading.targets_of(source, facts, target_database=None)
    # what is made of a pattern is no name of a schema, by which others would go
    derived = [
        replace(target, is_chosen=True) if group.pattern else target
        for group, target in zip(groups, derived, strict=True)
    ]
    lakes = [
        _in_database(request.tables.get(name, Choices()).lake, target)
        for name, target in zip(names, derived, strict=True)
    ]
    require_targets(principal, source, _written_to(derived, lakes))
    try:
        return reading.pin_targets(derived, lakes, names)
    except InvalidRequest as error:
        mistakes.take(error)
        return derived


def _in_database(lake: str | None, target: Target) -> str | None:
    """A name alone is one in the database where the table goes anyway."""
    return f"{target.database}.{lake}" if lake and "." not in lake else lake


def _written_to(
    derived: Sequence[Target], lakes: Sequence[str | None]
) -> Iterator[tuple[str, bool]]:
    """The lake database of each table, and whether it was chosen."""
    for target, lake in zip(derived, lakes, strict=True):
        if not lake:
            yield target.database, target.is_chosen
        elif reading.is_usable_database(database := lake.partition(".")[0]):
            yield database, True


# ------------------------------------------------------------------- which tables


@dataclass(frozen=True, slots=True)
class Sight:
    """The tables of a source that a request may mean: those of some databases."""

    source: Datasource
    has: Callable[[str], bool]


def _uncarried_of(sight: Sight, request: OnboardingRequest) -> dict[str, Uncarried]:
    """By name, the tables that the request means and that cannot be synced."""
    source = sight.source
    rows = Table.objects.filter(database__datasource=source, status__in=NOT_SYNCED)
    columns = rows.values_list("database__name", "name", "status", "status_reason")
    given = [row for row in columns if sight.has(row[0])]
    meant = select(
        [(database, table) for database, table, *_ in given],
        include=request.include,
        exclude=request.exclude,
    )
    login = (source.kind, source.username)
    found = [
        uncarried(database, table, status=status, reason=reason, login=login)
        for database, table, status, reason in (given[i] for i in meant.matched)
    ]
    return {one.name: one for one in found}


def _chosen_tables(
    sight: Sight,
    request: OnboardingRequest,
    others: Mapping[str, Uncarried],
    mistakes: Mistakes,
) -> tuple[list[Table], tuple[str, ...]]:
    source = sight.source
    names = [row for row in reading.names_of(source) if sight.has(row[1])]
    found = select(
        [(database, table) for _, database, table in names],
        include=request.include,
        exclude=request.exclude,
    )
    parts = [name.partition(".") for name in others]
    cannot = [(database, table) for database, _, table in parts]
    means_none = set(select(cannot, include=request.include).unmatched)
    for index in found.unmatched:
        # what a pattern means and cannot be carried is told by the draft
        if "*" not in request.include[index] or index in means_none:
            _unmatched(source, request, index, others, mistakes)
    chosen = {names[i][0]: f"{names[i][1]}.{names[i][2]}" for i in found.matched}
    present = {*chosen.values(), *(request.include if request.shards else ())}
    for name in request.tables:
        if name not in present:
            mistakes.add(
                f"/tables/{escape(name)}",
                "'%(name)s' is not among the chosen tables",
                name=name,
                code="unknown_table",
                hint="add it to 'include', or take its choices away",
            )
    carried = carried_in(source)
    skipped = tuple(name for pk, name in chosen.items() if pk in carried)
    _find_other_updates(source, request, skipped, mistakes)
    _find_named_again(source, request, skipped, mistakes)
    rows = Table.objects.filter(pk__in=[pk for pk in chosen if pk not in carried])
    # thousands of tables share few databases
    rows = rows.prefetch_related("database__datasource")
    return list(rows.order_by("database__name", "name")), skipped


def _unmatched(
    source: Datasource,
    request: OnboardingRequest,
    index: int,
    others: Mapping[str, Uncarried],
    mistakes: Mistakes,
) -> None:
    """A name that means no table, or only one that cannot be carried."""
    pattern, at = request.include[index], f"/include/{index}"
    if one := others.get(pattern):
        detail = Sentence(
            "'%(pattern)s' cannot be synced: %(reason)s",
            pattern=pattern,
            reason=as_sentence(one.reason),
        )
        mistakes.add(at, detail, code="unknown_table", hint=one.way_out)
        return
    mistakes.add(
        at,
        "'%(pattern)s' matches no table of %(name)s; discover the source"
        " again if it is new",
        pattern=pattern,
        name=source.name,
        code="unknown_table",
        hint=Sentence(
            "POST /api/v1/datasources/%(name)s:discover, and see its tables",
            name=source.name,
        ),
    )


def _find_other_updates(
    source: Datasource,
    request: OnboardingRequest,
    skipped: Sequence[str],
    mistakes: Mistakes,
) -> None:
    """What a NULL means is fixed for a table's life: merging both ways would show
    neither."""
    asked = {
        n: c.updates for n in skipped if (c := request.tables.get(n)) and c.updates
    }
    if not asked:
        return
    rows = Pipeline.objects.exclude(state=RETIRED).filter(
        source_table__database__datasource=source, plan__source__in=list(asked)
    )
    for name, plan in rows.values_list("plan__source", "plan"):
        create: CreateTable | None = plan_from_json(plan).step(CreateTable)
        if create is not None and create.updates != asked[name]:
            mistakes.add(
                f"/tables/{escape(name)}/updates",
                "'%(name)s' is synced with %(updates)s updates, not with %(asked)s"
                " ones, and that is fixed for its life: remove its onboarding and"
                " ask again, which loads it into a new lake table",
                name=name,
                updates=create.updates,
                asked=asked[name],
                code="updates_fixed",
            )


def _find_named_again(
    source: Datasource,
    request: OnboardingRequest,
    skipped: Sequence[str],
    mistakes: Mistakes,
) -> None:
    again = set(skipped) & set(request.include)
    places = _where_synced(source, again) if again else {}
    for index, pattern in enumerate(request.include):
        if pattern in again:
            place = places.get(pattern, Sentence("its plan"))
            mistakes.add(
                f"/include/{index}",
                "'%(pattern)s' is onboarded already: change or remove %(place)s",
                pattern=pattern,
                place=place,
                code="already_onboarded",
                hint="leave it out here; a pattern such as db.* passes over it",
            )


def _where_synced(source: Datasource, names: Collection[str]) -> dict[str, str]:
    """By source table, the lake table it is synced into, or the plan it waits in."""
    rows = (
        Pipeline.objects.exclude(state=RETIRED)
        .filter(source_table__database__datasource=source)
        .filter(source_table__name__in=[n.partition(".")[2] for n in names])
        .select_related("source_table__database", "lake_table__database__datasource")
    )
    return {
        f"{row.source_table.database.name}.{row.source_table.name}": str(row.lake_table)
        if row.lake_table
        else Sentence(
            "it in onboarding %(onboarding_id)s", onboarding_id=row.onboarding_id
        )
        for row in rows
    }
