"""A lake table's page: its pipeline and what may be done with it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Q
from django.utils.translation import gettext

from catalog.access.enforcement import held_on
from catalog.access.policy import Principal, Privilege
from catalog.discovery.facts import known_rows
from catalog.models import Table
from catalog.selectors.tables import TableFilter, securable_of, tables_for
from core.models import Job
from core.sentences import with_sentences
from frontend.reading.policy import level_words
from frontend.reading.schedules import schedule_words
from frontend.templatetags.figures import figure, rows_of
from ingest.actions.registry import ACTIONS, refusal
from ingest.maintenance.table_action import TableAction
from ingest.models import Pipeline, TableHealth
from ingest.pipelines.job_selectors import newest_count
from ingest.pipelines.load_job import how_consistent
from ingest.pipelines.policies.policy import DEFAULT, OWN
from ingest.pipelines.policies.store import policy_of
from ingest.pipelines.schema_approval import SchemaProposal, proposal_of
from ingest.pipelines.shard_matters import ShardMatter
from ingest.pipelines.transitions import pipeline_of
from ingest.planning.facts import LOG

MOST_NAMED = 200
USUAL = ("sync", "pause", "resume")


def rows_in(principal: Principal, names: Collection[str]) -> dict[str, int]:
    """About how many rows tables of the lake have, by `db.table`: of those named that
    the principal may see, where it is known."""
    wanted = Q(pk=None)
    for name in sorted(names)[:MOST_NAMED]:
        database, _, table = name.partition(".")
        wanted |= Q(database__name=database, name=table)
    rows = tables_for(principal, TableFilter(kind=Table.LAKE)).filter(wanted)
    known = {
        f"{one.database.name}.{one.name}": known_rows(one)
        for one in rows.prefetch_related(None)
    }
    return {name: number for name, number in known.items() if number is not None}


@dataclass(frozen=True, slots=True)
class TablePipeline:
    """The onboarding row that carries a table (or None), the actions offered (repairs
    apart, for they are offered where they help), and when its syncs run and how
    consistent its load is, in words. missing: why an action is not offered, by name.
    change: what of its source's columns waits for a decision, or should be known."""

    row: Pipeline | None
    actions: list[TableAction]
    repairs: list[TableAction]
    when: str = ""
    consistency: str = ""
    missing: Mapping[str, str] = field(default_factory=dict)
    change: SchemaProposal | None = None
    may_operate: bool = False
    may_manage: bool = False

    @property
    def usual(self) -> list[TableAction]:
        """What is asked for often; `more`: the rest."""
        return [action for action in self.actions if self._is_usual(action)]

    @property
    def more(self) -> list[TableAction]:
        return [action for action in self.actions if not self._is_usual(action)]

    def _is_usual(self, action: TableAction) -> bool:
        """Only a decision brings on a table that waits for one."""
        is_undecided = bool(self.change and self.change.changes)
        return action.name in USUAL and not (is_undecided and action.name == "resume")

    @property
    def missed(self) -> list[str]:
        """What its syncs cannot see, as its plan says it."""
        steps = self._plan.get("steps", [])
        return [each for step in steps for each in step.get("missed", [])]

    @property
    def promises(self) -> list[str]:
        """What reading it promises."""
        return list(self._plan.get("reading", []))

    @property
    def shards(self) -> list[tuple[ShardMatter, TableAction]]:
        """What users have to know of them, each with what mends it."""
        found = self.change.shards if self.change else ()
        return [(matter, ACTIONS[matter.repair]) for matter in found]

    @property
    def _plan(self) -> Mapping[str, Any]:
        return with_sentences(self.row.plan) if self.row else {}


@dataclass(frozen=True, slots=True)
class Figures:
    """How large a table is. counted_by: the job that counted its rows, None = they
    are estimated; health: as its files were last seen, or None."""

    rows: str
    counted_by: Job | None
    health: TableHealth | None

    @property
    def bytes(self) -> int | None:
        return self.health.base_bytes + self.health.log_bytes if self.health else None


def figures_of(table: Table) -> Figures:
    found = newest_count(table.pk)
    seen = TableHealth.objects.filter(table=table, collected_at__isnull=False)
    health = seen.only("score", "base_bytes", "log_bytes", "collected_at").first()
    if found is None:
        return Figures(rows_of(table), None, health)
    return Figures(figure(found[0]), found[1], health)


def pipeline_for(principal: Principal, table: Table) -> TablePipeline:
    if table.kind != Table.LAKE:
        return TablePipeline(None, [], [])
    row = pipeline_of(table.pk)
    held = held_on(principal, securable_of(table))
    missing = {name: refusal(ACTIONS[name], row, held) for name in ACTIONS}
    offered = [action for name, action in ACTIONS.items() if not missing[name]]
    actions = [a for a in offered if a.repair is None and not a.is_decision]
    repairs = [action for action in offered if action.repair is not None]
    if row is None:
        may = Privilege.MANAGE in held
        return TablePipeline(None, actions, repairs, missing=missing, may_manage=may)
    return TablePipeline(
        row,
        actions,
        repairs,
        _when(row),
        how_consistent(row),
        missing,
        change=proposal_of(table),
        may_operate=Privilege.OPERATE in held,
        may_manage=Privilege.MANAGE in held,
    )


def _when(row: Pipeline) -> str:
    """The schedule in words, and from where it is inherited."""
    if row.capture == "snapshot":
        return ""
    if row.capture == LOG:
        return gettext("As changes arrive")
    policy = policy_of(row)
    origin = policy.origins["schedule"]
    is_inherited = origin not in {OWN, DEFAULT}
    when = schedule_words(policy.schedule)
    if not is_inherited:
        return when
    said = {"schedule": when, "level": level_words(origin)}
    return gettext("%(schedule)s (from %(level)s)") % said
