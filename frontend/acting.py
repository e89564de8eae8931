"""Asking for an action: what will happen with today's numbers, then the asking itself.

The services decide whether it is possible. It must not know requests or templates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from catalog.models import Table
from core.jobs import SUCCEEDED
from core.models import Job
from frontend.actions import Action
from ingest.contract.job import RepairWork
from ingest.maintenance.compaction_drivers import Wish, parse_wish
from ingest.maintenance.impact_preview import preview_compaction, preview_resync
from ingest.maintenance.repairs import Preview, preview, start_repair
from ingest.pipelines import removal, table_commands
from ingest.pipelines.schema_approval import approve_schema_change, proposal_of


@dataclass(frozen=True, slots=True)
class Asked:
    """What the form said beside yes. instant  of a repair; "" = whatever it finds.
    buckets  that a table shall have; 0 = not said yet. driver  own, shared, or "" = as
    the policy says; memory and cores  of an own one; "" and 0 = the most allowed.
    replan  a new compaction follows the one that is taken off. accept_empty  a source
    without rows may empty the table"""

    drop_data: bool = False
    instant: str = ""
    buckets: int = 0
    driver: str = ""
    memory: str = ""
    cores: int = 0
    replan: bool = False
    accept_empty: bool = False

    @property
    def wish(self) -> Wish:
        """InvalidRequest for a size that no driver may have."""
        size = {"memory": self.memory, "cores": self.cores}
        given = {k: v for k, v in size.items() if v} if self.driver == "own" else {}
        return parse_wish(given | ({"driver": self.driver} if self.driver else {}))


@dataclass(frozen=True, slots=True)
class Effects:
    """will  happen, in sentences, in order. misses  what it cannot bring back"""

    will: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()


STARTS: dict[str, Callable[..., object]] = {
    "sync": table_commands.start_sync,
    "pause": table_commands.pause,
    "resume": table_commands.resume,
    "share-driver": table_commands.share_driver,
    "compact": table_commands.start_compaction,
    "verify": table_commands.start_verify,
    "resync": table_commands.start_resync,
    "approve-schema-change": approve_schema_change,
    "remove": removal.start_removal,
}


def effects_of(action: Action, table: Table, asked: Asked | None = None) -> Effects:
    """What will happen, with today's numbers where they matter."""
    if action.asks_drop:
        return Effects(_removal(table))
    if action.is_decision:
        return Effects(tuple(f"{line}." for line in proposal_of(table).will))
    found = _preview(action, table, asked or Asked())
    if found is None:
        return Effects(action.effects)
    will, misses = (
        tuple(f"{x}." for x in lines) for lines in (found.will, found.misses)
    )
    return Effects(will, misses)


def _preview(action: Action, table: Table, asked: Asked) -> Preview | None:
    """None for what is the same whatever the table looks like."""
    if action.asks_driver:
        return preview_compaction(table, asked.wish)
    if action.name == "resync":
        return preview_resync(table)
    if action.repair is not None and not action.effects:
        return preview(table, _work(action.repair, asked))
    return None


def _removal(table: Table) -> tuple[str, ...]:
    kept = removal.plan_removal(table, drop_data=False)
    dropped = removal.plan_removal(table, drop_data=True)
    return (
        f"{kept.will[0]}.".capitalize(),
        f"If you keep the data: {kept.will[1]}.",
        f"If you delete it: {dropped.will[1]}.",
    )


def start(action: Action, table: Table, *, actor: str, asked: Asked) -> Job | None:
    """Ask for it; the job that now runs, when there is one."""
    if action.repair is not None:
        return start_repair(table, _work(action.repair, asked), actor=actor)
    more: dict[str, object] = {}
    if action.asks_drop:
        more = {"drop_data": asked.drop_data}
    elif action.asks_driver:
        more = {"wish": asked.wish}
    elif action.asks_empty:
        more = {"accept_empty": asked.accept_empty}
    result = STARTS[action.name](table, actor=actor, **more)
    is_job = isinstance(result, Job) and result.state != SUCCEEDED
    return result if is_job else None  # type: ignore[return-value]


def _work(repair: RepairWork, asked: Asked) -> RepairWork:
    is_of_one = repair.action in {"rollback", "unschedule", "restore"}
    buckets = asked.buckets if repair.action == "resize" else 0
    return replace(
        repair,
        instant=asked.instant if is_of_one else "",
        buckets=buckets,
        replan=asked.replan and repair.action == "unschedule",
    )
