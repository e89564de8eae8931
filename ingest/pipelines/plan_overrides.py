"""Choices for tables of a plan that is not approved yet: their plans are made anew.

The other tables of the request stay as they were shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from django.db import transaction
from django.db.models import QuerySet

from catalog.access.policy import Principal
from core.advance import advance, record_moves
from core.errors import InvalidRequest, StaleState
from core.sentences import Sentence
from ingest.models import Onboarding, Pipeline
from ingest.models.states import PROPOSED
from ingest.pipelines import table_facts as reading
from ingest.pipelines.drafting import Asked, own_policy, plan_group
from ingest.pipelines.onboarding_rights import require_target
from ingest.pipelines.planning_context import Circumstances
from ingest.pipelines.shards import Group, column_of, group_of
from ingest.planning.defaults import NO_DEFAULTS, PlanDefaults, replaced
from ingest.planning.facts import (
    LOG,
    ROW_HASH,
    TIMESTAMP,
    Capture,
    Choices,
    TableFacts,
    Target,
)
from ingest.planning.log import published_at_once
from ingest.planning.plan import TablePlan, plan_to_json

MOST_AT_ONCE = 2000


def choose_for(
    pipeline: Pipeline,
    choices: Choices,
    *,
    principal: Principal,
    own: Mapping[str, Any] | None = None,
) -> TablePlan:
    """Propose again with these choices. `own` replaces the table's own settings.

    StaleState once it is approved; InvalidRequest for choices that the table cannot
    have; AccessDenied for a lake database that the principal may not write to.
    """
    if choices.lake and choices.lake != _shown_name(pipeline):
        require_target(principal, choices.lake.partition(".")[0])
    with transaction.atomic():
        row = _locked(Pipeline.objects.filter(pk=pipeline.pk)).get()
        if row.state != PROPOSED:
            raise StaleState(
                "%(table)s is %(state)s: its plan is fixed",
                table=row.source_table,
                state=Sentence(row.state),
                hint="remove the table and ask again",
            )
        new = _Anew.of([row])
        plan = new.plan(row, choices, NO_DEFAULTS, own=own)
        changes = {"capture": row.capture, "policy": row.policy}
        advance(
            row,
            "propose",
            actor=principal.name,
            plan=plan_to_json(plan),
            status_reason=plan.blocked,
            **changes,
        )
    return plan


@dataclass(frozen=True, slots=True)
class Everywhere:
    """What many tables of a plan get. Unset = stays as it is for each of them.
    own: a patch of their own settings, null takes one back."""

    defaults: PlanDefaults = NO_DEFAULTS
    capture: Capture | None = None
    own: Mapping[str, Any] | None = None
    database: str = ""


@dataclass(frozen=True, slots=True)
class Chosen:
    """planned  how many were. refused  source name and why, in the plan's order"""

    planned: int
    refused: tuple[tuple[str, str], ...]


def plan_blocked(row: Onboarding, *, actor: str) -> None:
    """Plans that something at the source kept back, with the same choices."""
    blocked = row.tables.exclude(status_reason="").filter(state=PROPOSED)
    pks = blocked.order_by("pk").values_list("pk")[:MOST_AT_ONCE]
    choose_for_many(
        Pipeline.objects.filter(pk__in=pks), Everywhere(), principal=Principal(actor)
    )


def choose_for_many(
    pipelines: QuerySet[Pipeline], given: Everywhere, *, principal: Principal
) -> Chosen:
    """The same for up to MOST_AT_ONCE tables; those that cannot have it are named and
    stay as they were."""
    if given.database:
        require_target(principal, given.database)
    with transaction.atomic():
        rows = list(_locked(pipelines.filter(state=PROPOSED))[: MOST_AT_ONCE + 1])
        if len(rows) > MOST_AT_ONCE:
            raise InvalidRequest(
                "more than %(most)s tables at once",
                most=f"{MOST_AT_ONCE:,}",
                hint="choose for some of them first",
            )
        if not rows:
            # approved since then
            return Chosen(0, ())
        done, plans, refused = [], [], []
        new = _Anew.of(rows)
        given_out: dict[str, str] = {}
        for row in rows:
            name = str(row.plan.get("source", ""))
            try:
                choices, defaults = _changed(row, given)
                # tables of several schemas may be called the same
                if choices.lake is not None and choices.lake in given_out:
                    raise InvalidRequest(
                        "%(table)s becomes lake.%(lake)s",
                        table=given_out[choices.lake],
                        lake=choices.lake,
                    )
                plan = new.plan(row, choices, defaults, own=_own(row, given))
            except InvalidRequest as error:
                refused.append((name, error.message))
                continue
            given_out[f"{plan.database}.{plan.name}"] = name
            plans.append(plan)
            done.append(row)
        plans = published_at_once(plans, [new.facts[row.pk] for row in done])
        for row, plan in zip(done, plans, strict=True):
            row.plan, row.status_reason = plan_to_json(plan), plan.blocked
        fields = ["plan", "capture", "policy", "status_reason"]
        Pipeline.objects.bulk_update(done, fields, batch_size=200)
        if done:
            record_moves(done, "propose", before=PROPOSED, actor=principal.name)
    return Chosen(len(done), tuple(refused))


def _shown_name(row: Pipeline) -> str:
    return f"{row.plan['database']}.{row.plan['name']}"


def chosen_in(plan: Mapping[str, Any]) -> Choices:
    """What people chose in a stored plan, without its lake name."""
    proposals = plan.get("proposals", {})

    def value(name: str) -> Any:
        one = proposals.get(name) or {}
        return one.get("value") if one.get("is_chosen") else None

    key = value("record_key")
    return Choices(
        record_key=tuple(key) if isinstance(key, list) else key,
        cursor=value("cursor"),
        partition_by=tuple(value("partition_by") or ()),
        buckets=value("buckets"),
        exclude_columns=tuple(plan.get("excluded", ())),
        as_text=tuple(plan.get("as_text", ())),
        updates=value("updates"),
    )


def _capture_before(row: Pipeline) -> Capture | None:
    """None = nobody has said, and a choice may make it another one."""
    told = row.plan.get("proposals", {}).get("capture") or {"is_chosen": True}
    is_open = not told["is_chosen"] and row.capture != "snapshot"
    return None if is_open else cast(Capture, row.capture)


def _changed(row: Pipeline, given: Everywhere) -> tuple[Choices, PlanDefaults]:
    choices = replace(
        replaced(chosen_in(row.plan), given.defaults), capture=given.capture
    )
    if given.capture in {TIMESTAMP, LOG} and choices.record_key == ROW_HASH:
        choices = replace(choices, record_key=None)
    if given.database:
        choices = replace(choices, lake=f"{given.database}.{row.plan['name']}")
    return choices, given.defaults


def _own(row: Pipeline, given: Everywhere) -> dict[str, Any]:
    merged = {**row.policy, **(given.own or {})}
    return {key: value for key, value in merged.items() if value is not None}


def _locked(pipelines: QuerySet[Pipeline]) -> QuerySet[Pipeline]:
    return (
        pipelines.select_for_update(of=("self",))
        .select_related("source_table__database__datasource", "onboarding")
        .prefetch_related("source_table__columns")
        .order_by("pk")
    )


@dataclass(frozen=True, slots=True)
class _Anew:
    """What planning some rows of one onboarding again needs, read once."""

    circumstances: Circumstances
    groups: Mapping[int, Group]
    facts: Mapping[int, Sequence[TableFacts]]
    targets: Mapping[int, Target]

    @classmethod
    def of(cls, rows: Sequence[Pipeline]) -> _Anew:
        sources = {row.source_table.database.datasource for row in rows}
        assert len(sources) == 1, "tables of one onboarding have one source"
        (source,) = sources
        groups = {row.pk: group_of(row) for row in rows}
        facts = {pk: reading.facts_of(one.tables) for pk, one in groups.items()}
        asked = rows[0].onboarding.request.get("target_database")
        first = [found[0] for found in facts.values()]
        targets = reading.targets_of(source, first, target_database=asked)
        return cls(
            Circumstances(source),
            groups,
            facts,
            dict(zip(facts, targets, strict=True)),
        )

    def plan(
        self,
        row: Pipeline,
        choices: Choices,
        defaults: PlanDefaults,
        *,
        own: Mapping[str, Any] | None,
    ) -> TablePlan:
        """Sets the row's way of capture and settings, too, once all is right."""
        before = _capture_before(row)
        policy = own_policy(choices.schedule) if choices.schedule else own
        policy = dict(row.policy if policy is None else policy)
        effective = self.circumstances.policy_of(row.source_table.database, policy)
        asked = Asked(
            choices,
            self._target(row, choices),
            defaults,
            partial(self.circumstances.under, effective),
            before,
            column_of(row),
        )
        capture, plan = plan_group(self.groups[row.pk], self.facts[row.pk], asked)
        if capture != TIMESTAMP:
            policy.pop("schedule", None)
        row.capture, row.policy = capture, policy
        return plan

    def _target(self, row: Pipeline, choices: Choices) -> Target:
        """The name that was shown stays, unless another one is chosen."""
        derived = self.targets[row.pk]
        if not choices.lake or choices.lake == _shown_name(row):
            plan = row.plan
            chosen = bool(plan.get("is_target_chosen"))
            return reading.renamed(
                derived, plan["database"], plan["name"], is_chosen=chosen
            )
        name = self.groups[row.pk].name
        (target,) = reading.pin_targets([derived], [choices.lake], [name])
        return target
