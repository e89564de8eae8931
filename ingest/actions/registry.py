"""The list of table actions: REST's routes, pages, `/config` and docs walk it.

A new action is one object in this list; one that repairs the lake has a function of
the same name in `ingest.driver.table_services.repair`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from typing import Any

from django.db.models import Case, Exists, JSONField, OuterRef, Value, When

from catalog.access.enforcement import held_on
from catalog.access.policy import Principal, Privilege, Securable
from catalog.compiled import CompiledQuery
from catalog.models import Table
from core.database_errors import repeat_after_deadlock
from core.models import Job
from core.sentences import Sentence
from ingest.actions import pipeline_actions as actions
from ingest.contract.job import RepairWork
from ingest.maintenance import repairs
from ingest.maintenance.repair_actions import REPAIR_ACTIONS
from ingest.maintenance.repair_previews import Preview
from ingest.maintenance.table_action import Field, TableAction
from ingest.models import Pipeline, Shard
from ingest.models.states import RETIRED
from ingest.pipelines.removal import RemovalPreview

# stands for the id of any table
_ANY = -1
# in the order in which pages offer them
ACTIONS: dict[str, TableAction] = {
    action.name: action
    for action in (
        actions.SYNC,
        actions.PAUSE,
        actions.RESUME,
        actions.SHARE_DRIVER,
        actions.COMPACT,
        actions.VERIFY,
        *REPAIR_ACTIONS,
        actions.RESYNC,
        actions.FOLLOW_LOG,
        actions.FOLLOW_CURSOR,
        actions.APPROVE_SCHEMA_CHANGE,
        actions.LEAVE_SHARDS,
        actions.REMOVE,
    )
}


@repeat_after_deadlock
def start(
    action: TableAction, table: Table, *, actor: str, given: Mapping[str, Any]
) -> Job | Pipeline:
    """Request it: the job that was queued, or the pipeline that moved at once."""
    if action.repair is not None:
        return repairs.start_repair(table, action.work(given), actor=actor)
    assert action.run is not None, f"{action.name} does nothing"
    return action.run(table, actor=actor, **given)


def preview(
    action: TableAction, table: Table, given: Mapping[str, Any]
) -> Preview | RemovalPreview | None:
    """What it would do to the table as it is now; None when that is always the same.
    InvalidRequest when it would be refused."""
    if action.preview is None:
        return None
    if action.repair is not None:
        return repairs.preview(table, action.work(given))
    return action.preview(table, **given)


def action_of(work: RepairWork) -> TableAction:
    """The one that asks for this kind of repair."""
    asked = (work.action, work.dry_run)
    offered = ((a, a.repair) for a in ACTIONS.values() if a.repair)
    return next(a for a, r in offered if (r.action, r.dry_run) == asked)


def verbs() -> list[TableAction]:
    """Those that REST has a route for."""
    return [action for action in ACTIONS.values() if action.is_verb]


def listed() -> list[dict[str, object]]:
    """`table_actions` of `GET /config`."""
    return [_listed(action) for action in verbs()]


def of_table(
    principal: Principal, table_id: int, table: Securable
) -> list[dict[str, object]]:
    """`table_actions` of a lake table: what the caller may request now, and why not."""
    pipeline = pipeline_offering(table_id)
    held = () if pipeline is None else held_on(principal, table)
    refusals = {a.name: refusal(a, pipeline, held) for a in verbs()}
    return [
        {"name": name, "is_possible": not reason, "reason": reason}
        for name, reason in refusals.items()
    ]


def pipeline_offering(table_id: int) -> Pipeline | None:
    """Of a lake table, with what decides which actions are offered. Plans of wide
    tables are large: it has its own only where it is sharded, else an empty one."""
    found = _offering().first(table_id)
    if found is not None:
        found.plan = found.__dict__.pop("plan_of_shards")
    return found


@cache
def _offering() -> CompiledQuery[Pipeline]:
    is_sharded = Exists(Shard.objects.filter(pipeline=OuterRef("pk")))
    plan = Case(When(is_sharded, then="plan"), default=Value({}, JSONField()))
    rows = Pipeline.objects.filter(lake_table_id=_ANY).exclude(state=RETIRED)
    read = rows.only("state", "capture", "alone_reason").order_by("-id")[:1]
    return CompiledQuery(read.annotate(plan_of_shards=plan), [_ANY])


def refusal(
    action: TableAction, pipeline: Pipeline | None, held: Collection[Privilege]
) -> str:
    """Why it is not offered; "" when it is."""
    if pipeline is None:
        return Sentence("This table is not synced any more.")
    if action.privilege not in held:
        return Sentence(
            "It needs the privilege %(privilege)s.", privilege=action.privilege
        )
    if pipeline.state not in action.states:
        return Sentence(
            "The table is %(state)s: %(first)s.",
            state=pipeline.state,
            first=action.why_not(pipeline.state),
        )
    if not action.is_offered_to(pipeline):
        return Sentence("This table has nothing that it would do.")
    return ""


def _listed(action: TableAction) -> dict[str, object]:
    return {
        "name": action.name,
        "title": action.title,
        "path": f"/api/v1/tables/{{table_id}}{action.route}",
        "does": action.does,
        "blocks": action.blocks,
        "undo": action.undo,
        "privilege": str(action.privilege),
        "states": sorted(action.states),
        "request": [_field(each) for each in action.request.fields],
        "is_repair": action.group == "maintenance" and action.request.has("dry_run"),
    }


def _field(each: Field) -> dict[str, object]:
    return {"name": each.name, "kind": each.kind, "is_required": each.is_required}
