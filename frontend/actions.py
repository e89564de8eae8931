"""What people can ask of a lake table: words, needed privilege, what will happen.

The services decide whether it is possible; this only knows when to offer it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from catalog.access.policy import Privilege
from catalog.models import Table
from core.jobs import SUCCEEDED
from core.models import Job
from ingest import controls, removal
from ingest.contract import RepairWork
from ingest.maintenance.repairs import preview, start_repair
from ingest.states import (
    APPROVED,
    CATCHING_UP,
    FAILED,
    LIVE,
    NEEDS_RESYNC,
    PAUSED,
    RESYNCING,
    SNAPSHOTTING,
)

ON_ITS_WAY = frozenset({APPROVED, SNAPSHOTTING, CATCHING_UP, LIVE, RESYNCING})
QUERYABLE = frozenset({CATCHING_UP, LIVE, NEEDS_RESYNC, PAUSED, FAILED})


@dataclass(frozen=True, slots=True)
class Action:
    """states  where it is offered. is_danger  asks to type the table's name.
    repair  what it undoes, previewed from the lake; offered where it helps"""

    name: str
    word: str
    icon: str
    privilege: Privilege
    states: frozenset[str]
    effects: tuple[str, ...]
    is_danger: bool = False
    asks_drop: bool = False
    asks_buckets: bool = False
    repair: RepairWork | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """What the form said beside yes. instant  of a repair; "" = whatever it finds.
    buckets  that a table shall have; 0 = not said yet"""

    drop_data: bool = False
    instant: str = ""
    buckets: int = 0


ACTIONS = {
    action.name: action
    for action in (
        Action(
            "sync",
            "Sync",
            "refresh",
            Privilege.OPERATE,
            frozenset({CATCHING_UP, LIVE}),
            (
                "One round runs now: rows changed since the last position are read "
                "from the source and committed.",
                "The schedule goes on from there.",
            ),
        ),
        Action(
            "pause",
            "Pause",
            "pause",
            Privilege.OPERATE,
            ON_ITS_WAY | {NEEDS_RESYNC},
            (
                "What runs for this table stops within seconds, also at the source.",
                "Finished chunks of a load are kept and not read again.",
                "Readers go on seeing the last commit.",
            ),
        ),
        Action(
            "resume",
            "Resume",
            "play",
            Privilege.OPERATE,
            frozenset({PAUSED, FAILED}),
            ("The table goes on where it stopped.",),
        ),
        Action(
            "compact",
            "Compact",
            "compact",
            Privilege.OPERATE,
            QUERYABLE,
            (
                "Log files are merged into base files as a job of their own.",
                "Reading and carrying go on meanwhile.",
            ),
        ),
        Action(
            "verify",
            "Verify",
            "check",
            Privilege.OPERATE,
            QUERYABLE,
            (
                "Every row of the source is read once and compared with the lake.",
                "Nothing is changed, and carrying goes on; compaction waits meanwhile.",
            ),
        ),
        Action(
            "rollback",
            "Roll back",
            "refresh",
            Privilege.OPERATE,
            QUERYABLE,
            (),
            repair=RepairWork("rollback"),
        ),
        Action(
            "unschedule-compaction",
            "Unschedule",
            "stop",
            Privilege.OPERATE,
            QUERYABLE,
            (),
            repair=RepairWork("unschedule"),
        ),
        Action(
            "duplicates",
            "Look for duplicates",
            "search",
            Privilege.OPERATE,
            QUERYABLE,
            (
                "Every row is read once and counted by its key; the job says how many "
                "occur twice, which copies would stay, and the likely cause.",
                "Nothing is changed. No round runs meanwhile.",
            ),
            repair=RepairWork("deduplicate", dry_run=True),
        ),
        Action(
            "deduplicate",
            "Remove duplicates",
            "check",
            Privilege.OPERATE,
            QUERYABLE,
            (),
            is_danger=True,
            repair=RepairWork("deduplicate"),
        ),
        Action(
            "clean",
            "Clean",
            "trash",
            Privilege.OPERATE,
            QUERYABLE,
            (),
            repair=RepairWork("clean"),
        ),
        Action(
            "resize",
            "Change buckets",
            "table",
            Privilege.OPERATE,
            QUERYABLE,
            (),
            asks_buckets=True,
            repair=RepairWork("resize"),
        ),
        Action(
            "drop-metadata-table",
            "Remove metadata table",
            "trash",
            Privilege.OPERATE,
            QUERYABLE,
            (),
            repair=RepairWork("drop-metadata-table"),
        ),
        Action(
            "savepoint",
            "Make a savepoint",
            "lock",
            Privilege.OPERATE,
            QUERYABLE,
            (
                "What the table is now can be gone back to, for 7 days.",
                "Meanwhile its files of now are not cleaned away.",
            ),
            repair=RepairWork("savepoint"),
        ),
        Action(
            "restore",
            "Go back",
            "back",
            Privilege.OPERATE,
            QUERYABLE,
            (),
            is_danger=True,
            repair=RepairWork("restore"),
        ),
        Action(
            "resync",
            "Re-sync",
            "refresh",
            Privilege.OPERATE,
            frozenset({LIVE, CATCHING_UP, NEEDS_RESYNC, FAILED}),
            (
                "The whole table is read from the source again.",
                "One commit then replaces what is there: readers see the old rows or "
                "the new ones, never a mixture.",
                "Rows that were deleted at the source disappear.",
            ),
            is_danger=True,
        ),
        Action(
            "remove",
            "Remove",
            "trash",
            Privilege.MANAGE,
            ON_ITS_WAY | QUERYABLE,
            (),
            is_danger=True,
            asks_drop=True,
        ),
    )
}

STARTS: dict[str, Callable[..., object]] = {
    "sync": controls.start_sync,
    "pause": controls.pause,
    "resume": controls.resume,
    "compact": controls.start_compaction,
    "verify": controls.start_verify,
    "resync": controls.start_resync,
    "remove": removal.start_removal,
}


def effects_of(
    action: Action, table: Table, asked: Asked | None = None
) -> tuple[str, ...]:
    """What will happen, in sentences; with today's numbers where they matter."""
    if action.repair is not None and not action.effects:
        found = preview(table, _work(action.repair, asked or Asked()))
        return tuple(f"{line}." for line in (*found.will, *found.misses))
    if not action.asks_drop:
        return action.effects
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
    more = {"drop_data": asked.drop_data} if action.asks_drop else {}
    result = STARTS[action.name](table, actor=actor, **more)
    is_job = isinstance(result, Job) and result.state != SUCCEEDED
    return result if is_job else None  # type: ignore[return-value]


def _work(repair: RepairWork, asked: Asked) -> RepairWork:
    is_of_one = repair.action in {"rollback", "unschedule", "restore"}
    buckets = asked.buckets if repair.action == "resize" else 0
    return replace(repair, instant=asked.instant if is_of_one else "", buckets=buckets)
