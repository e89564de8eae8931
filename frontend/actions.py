"""What people can ask of a lake table: words, needed privilege, what will happen.

The services decide whether it is possible; this only knows when to offer it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from catalog.access.policy import Privilege
from catalog.models import Table
from core.jobs import SUCCEEDED
from core.models import Job
from ingest import controls, removal
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
    """states  where it is offered. is_danger  asks to type the table's name."""

    name: str
    word: str
    icon: str
    privilege: Privilege
    states: frozenset[str]
    effects: tuple[str, ...]
    is_danger: bool = False
    asks_drop: bool = False


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


def effects_of(action: Action, table: Table) -> tuple[str, ...]:
    """What will happen, in sentences; for a removal with today's numbers."""
    if not action.asks_drop:
        return action.effects
    kept = removal.plan_removal(table, drop_data=False)
    dropped = removal.plan_removal(table, drop_data=True)
    return (
        f"{kept.will[0]}.".capitalize(),
        f"If you keep the data: {kept.will[1]}.",
        f"If you delete it: {dropped.will[1]}.",
    )


def start(action: Action, table: Table, *, actor: str, drop_data: bool) -> Job | None:
    """Ask for it; the job that now runs, when there is one."""
    more = {"drop_data": drop_data} if action.asks_drop else {}
    result = STARTS[action.name](table, actor=actor, **more)
    is_job = isinstance(result, Job) and result.state != SUCCEEDED
    return result if is_job else None  # type: ignore[return-value]
