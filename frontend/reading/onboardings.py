"""Onboardings: what was asked, planned and done, table by table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.core.cache import cache
from django.db.models import BigIntegerField, Count, F, Max, Q, QuerySet, Sum
from django.db.models.fields.json import KT
from django.db.models.functions import Cast
from django.http import QueryDict
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from catalog.access.policy import Principal
from catalog.discovery.facts import known_rows
from catalog.models import Table
from core.jobs import UNFINISHED
from core.models import Job
from core.sentences import with_sentences
from frontend.pages import ticked
from frontend.reading.commits import rows_shown
from frontend.templatetags.states import word_of
from ingest.contract.table import SHARD
from ingest.models import Onboarding, Pipeline, Shard
from ingest.models.states import APPROVED, FAILED, MOVING, PROPOSED
from ingest.pipelines import table_facts as reading
from ingest.pipelines.selectors import jobs_for, of_tables, pipelines_for
from ingest.planning.facts import ROW_HASH, TIMESTAMP
from ingest.planning.propose import GOOD_TO_KNOW

STAGING_SECONDS = 600
SHORT = {"record_key", "cursor", "partition_by"}
IN_WORDS = {"capture", "updates"}
TITLES = {
    "capture": _("Capture"),
    "record_key": _("Record key"),
    "cursor": _("Cursor"),
    "partition_by": _("Partitioning"),
    "buckets": _("Buckets"),
    "updates": _("Updates"),
}


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an onboarding is. Bytes are sums over the tables still PROPOSED."""

    tables: int
    states: list[tuple[str, int]]
    approvable: int
    blocked: int
    rows: int
    staging_bytes: int
    free_bytes: int | None
    jobs: list[Job]

    @property
    def is_open(self) -> bool:
        return bool(self.approvable or self.blocked)

    @property
    def is_short(self) -> bool:
        return self.free_bytes is not None and self.staging_bytes > self.free_bytes

    @property
    def is_moving(self) -> bool:
        names = {name for name, count in self.states if count}
        return bool(names & {*MOVING, APPROVED} or self.jobs)


def progress_of(principal: Principal, onboarding: Onboarding) -> Progress:
    pipelines = pipelines_for(principal, onboarding).order_by().select_related(None)
    states = list(
        pipelines.values_list("state").annotate(count=Count("pk")).order_by("state")
    )
    open_rows = pipelines.filter(state=PROPOSED)
    sums = open_rows.aggregate(
        blocked=Count("pk", filter=_BLOCKED),
        all=Count("pk"),
        newest=Max("updated_at"),
    )
    staging = 0
    if sums["all"]:
        # plans are large and change seldom: their sum is kept as long as they stay
        key = f"staging:{onboarding.pk}:{sums['all']}:{sums['newest'].timestamp()}"
        found = cache.get_or_set(key, lambda: _staging_of(open_rows), STAGING_SECONDS)
        staging = int(found or 0)
    carried = pipelines.filter(lake_table__isnull=False).values_list(
        "lake_table_id", flat=True
    )
    jobs = (
        of_tables(jobs_for(principal), [str(pk) for pk in carried])
        .filter(state__in=UNFINISHED)
        .order_by(F("started_at").desc(nulls_last=True), "queued_at")
    )
    return Progress(
        tables=sum(count for _, count in states),
        states=states,
        approvable=sums["all"] - sums["blocked"],
        blocked=sums["blocked"],
        rows=_rows_of(open_rows),
        staging_bytes=staging,
        free_bytes=reading.free_bytes() if sums["all"] else None,
        jobs=list(jobs[:10]) if onboarding.approved_at else [],
    )


def page_of(pipelines: QuerySet[Pipeline], start: int, stop: int) -> list[Pipeline]:
    """Those of a stretch with their plans; the others' plans are not even read."""
    keys = list(pipelines.order_by("id").values_list("pk", flat=True)[start:stop])
    return list(pipelines.filter(pk__in=keys))


def _rows_said(tables: Iterable[Table]) -> str:
    """Of tables that are one lake table."""
    known = [rows for rows in map(known_rows, tables) if rows is not None]
    return rows_shown(sum(known)) if known else gettext("rows unknown")


def _rows_of(pipelines: QuerySet[Pipeline]) -> int:
    """With those of all shards."""
    single = pipelines.filter(shards=None)
    shards = Shard.objects.filter(pipeline__in=pipelines.values("pk")).order_by()
    sums = (
        rows.aggregate(rows=Sum("source_table__estimated_rows"))["rows"]
        for rows in (single, shards)
    )
    return sum(found or 0 for found in sums)


def _staging_of(pipelines: QuerySet[Pipeline]) -> int:
    return pipelines.aggregate(staging=Sum(_STAGING))["staging"] or 0


# Of a table that is PROPOSED the reason is what blocks its plan.
_BLOCKED = ~Q(status_reason="")
# The plan's JSON as ingest.planning.plan writes it.
_STAGING = Cast(KT("plan__steps__1__staging_bytes"), BigIntegerField())


@dataclass(frozen=True, slots=True)
class Decided:
    """One proposal in words."""

    title: str
    value: str
    reason: str
    is_chosen: bool
    is_short: bool = False


@dataclass(frozen=True, slots=True)
class Remark:
    """is_loss: rows or values may be missing; else it is good to know."""

    text: str
    is_loss: bool


@dataclass(frozen=True, slots=True)
class Item:
    """A table of an onboarding, ready to be shown. target: "" = not for this user."""

    pk: int
    source: str
    target: str
    state: str
    status_reason: str
    lake_table_id: int | None
    rows: str
    staging_bytes: int | None
    blocked: str
    warnings: list[Remark]
    reading: list[str]
    proposals: list[Decided]
    steps: list[Any]
    columns: list[Any]
    excluded: list[str]
    can_choose: bool
    is_open: bool
    has_key: bool = True
    has_cursor: bool = True
    is_hashed: bool = False
    shards: tuple[str, ...] = ()

    @property
    def in_short(self) -> list[Decided]:
        """Its key, cursor and partitions, where there are any."""
        nothing = gettext("none")
        return [one for one in self.proposals if one.is_short and one.value != nothing]

    @property
    def losses(self) -> int:
        return sum(1 for one in self.warnings if one.is_loss)

    @property
    def ways(self) -> list[tuple[str, str]]:
        """Choices that a click makes where the table waits for one, and their words."""
        if not self.blocked:
            return []
        found = [("leave_out", gettext("Leave it out"))]
        if not self.has_key:
            word = gettext("Load it once, with a hash of the row as its key")
            found.insert(0, ("row_hash", word))
        elif not self.has_cursor or self.is_hashed:
            found.insert(0, ("snapshot", gettext("Load it once")))
        return found

    @property
    def tone(self) -> str:
        """How the reason of its state is shown."""
        if self.state == FAILED:
            return "bad"
        return "warn" if self.blocked else ""


def item_of(pipeline: Pipeline, *, is_open: bool = False) -> Item:
    plan, lake = with_sentences(pipeline.plan), pipeline.lake_table
    source = pipeline.source_table
    steps = plan.get("steps", [])
    create: dict[str, Any] = next((s for s in steps if s["step"] == "CreateTable"), {})
    target = (
        f"{lake.database.name}.{lake.name}"
        if lake
        else f"{plan['database']}.{plan['name']}"
        if "database" in plan
        else ""
    )
    is_proposed = pipeline.state == PROPOSED
    return Item(
        pk=pipeline.pk,
        source=plan.get("source") or f"{source.database.name}.{source.name}",
        target=target,
        state=pipeline.state,
        status_reason=pipeline.status_reason,
        lake_table_id=pipeline.lake_table_id,
        rows=_rows_said(_sources_of(pipeline, plan)),
        staging_bytes=next(
            (s["staging_bytes"] for s in steps if "staging_bytes" in s), None
        ),
        blocked=plan.get("blocked", "") if is_proposed else "",
        warnings=_remarks(plan),
        reading=plan.get("reading", []),
        proposals=_decisions(plan, create),
        steps=[step for step in steps if step.get("summary")],
        columns=create.get("columns", []),
        excluded=plan.get("excluded", []),
        can_choose=is_proposed,
        is_open=is_open,
        has_key=bool(_decided(plan, "record_key")),
        has_cursor=pipeline.capture != TIMESTAMP or bool(_decided(plan, "cursor")),
        is_hashed=_decided(plan, "record_key") == ROW_HASH,
        shards=tuple(
            f"{one['schema']}.{one['table']}" for one in create.get("shards", [])
        ),
    )


def _decided(plan: dict[str, Any], name: str) -> Any:
    return plan.get("proposals", {}).get(name, {}).get("value")


def _remarks(plan: dict[str, Any]) -> list[Remark]:
    """Those first by which data can be missing."""
    harmless = [each for step in plan.get("steps", []) for each in step.get("seen", [])]
    found = [
        Remark(text, text not in harmless and not text.startswith(GOOD_TO_KNOW))
        for text in plan.get("warnings", [])
    ]
    return sorted(found, key=lambda one: not one.is_loss)


def shared_by(items: list[Item]) -> list[Remark]:
    """What holds for all of these tables; it is taken from each."""
    planned = [item for item in items if item.steps]
    if len(planned) < 2:
        return []
    first, *others = planned
    common = [w for w in first.warnings if all(w in other.warnings for other in others)]
    for item in items:
        item.warnings[:] = [one for one in item.warnings if one not in common]
    return common


def _sources_of(pipeline: Pipeline, plan: dict[str, Any]) -> list[Table]:
    """A sharded one has a star in its name, planned or blocked."""
    shards = Table.objects.filter(shards__pipeline=pipeline)
    found = list(shards) if "*" in plan.get("source", "") else []
    return found or [pipeline.source_table]


def _decisions(plan: dict[str, Any], create: dict[str, Any]) -> list[Decided]:
    """The proposals in a fixed order (JSON of the database has none). The column of
    shards, which nobody chooses into the key, is first in it."""
    found = dict(plan.get("proposals", {}))
    shard = [c["name"] for c in create.get("columns", []) if c["source_name"] == SHARD]
    if shard and "record_key" in found:
        key = found["record_key"]
        found["record_key"] = key | {"value": [*shard, *key["value"]]}
    order = [*TITLES, *sorted(set(found) - set(TITLES))]
    return [
        Decided(
            title=str(TITLES.get(name, name)),
            value=_value_of(name, found[name]["value"]),
            reason=found[name]["reason"],
            is_chosen=found[name]["is_chosen"],
            is_short=name in SHORT,
        )
        for name in order
        if name in found
    ]


def _value_of(name: str, value: Any) -> str:
    return word_of(value, "fact") if name in IN_WORDS else shown(value)


def only_blocked(pipelines: QuerySet[Pipeline]) -> QuerySet[Pipeline]:
    """Those that need a choice before they can be approved."""
    return pipelines.filter(_BLOCKED, state=PROPOSED)


def meant(
    pipelines: QuerySet[Pipeline], given: QueryDict
) -> tuple[QuerySet[Pipeline], str]:
    """The open tables that a form is for, and which: ticked, blocked, or all."""
    pipelines, of = pipelines.filter(state=PROPOSED), given.get("of", "")
    if of == "all":
        return pipelines, of
    if of == "blocked":
        return only_blocked(pipelines), of
    return pipelines.filter(pk__in=ticked(given, "pipeline")), ""


def shown(value: Any) -> str:
    """A proposal's value as people read it."""
    if value is None or value == []:
        return gettext("none")
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {shown(each)}" for key, each in value.items())
    return gettext("hash of the whole row") if value == ROW_HASH else str(value)
