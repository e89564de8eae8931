"""Describes what users can request for a lake table: what it does, what it blocks,
and how to undo it. Pure; `frontend.acting` asks for it, and the services decide."""

from __future__ import annotations

from dataclasses import dataclass

from catalog.access.policy import Privilege
from ingest.contract.job import RepairWork
from ingest.models.states import (
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
    does  in a sentence, read before the button is pressed. meanwhile  what it holds up.
    way_back  how to undo it, or that nobody can. effects  what will happen, line by
    line; () = asked of the lake. is_decision  offered where one waits.
    repair  what it undoes; offered where it helps"""

    name: str
    word: str
    icon: str
    privilege: Privilege
    states: frozenset[str]
    does: str
    meanwhile: str
    way_back: str
    effects: tuple[str, ...] = ()
    is_danger: bool = False
    asks_drop: bool = False
    asks_buckets: bool = False
    asks_driver: bool = False
    asks_replan: bool = False
    asks_empty: bool = False
    is_decision: bool = False
    repair: RepairWork | None = None


ACTIONS = {
    action.name: action
    for action in (
        Action(
            "sync",
            "Sync",
            "refresh",
            Privilege.OPERATE,
            frozenset({CATCHING_UP, LIVE}),
            does=(
                "Reads what changed at the source since the last sync, now "
                "instead of later."
            ),
            meanwhile="Nothing.",
            way_back="Not needed: the schedule would bring the same rows.",
            effects=(
                "One sync runs now: rows changed since the last position are read "
                "from the source and committed.",
                "The schedule continues from there.",
            ),
        ),
        Action(
            "pause",
            "Pause",
            "pause",
            Privilege.OPERATE,
            ON_ITS_WAY | {NEEDS_RESYNC},
            does="Stops syncing this table until it is resumed.",
            meanwhile="Readers keep the last commit; changes stay at the source.",
            way_back="Resume continues from there.",
            effects=(
                "Running jobs of this table stop within seconds, also at the source.",
                "Finished chunks of a snapshot are kept and not read again.",
                "Readers still see the last commit.",
            ),
        ),
        Action(
            "resume",
            "Resume",
            "play",
            Privilege.OPERATE,
            frozenset({PAUSED, FAILED}),
            does="Syncs this table again, from where it stopped.",
            meanwhile="Nothing.",
            way_back="Pause stops it again.",
            effects=("Syncing continues where it stopped.",),
        ),
        Action(
            "share-driver",
            "Use the shared driver",
            "refresh",
            Privilege.OPERATE,
            ON_ITS_WAY | QUERYABLE,
            does="Runs this table's jobs in the shared driver again.",
            meanwhile="Nothing: a running job stays where it is.",
            way_back=(
                "Not needed: if it crashes that driver too, it gets a "
                "dedicated one again."
            ),
            effects=(
                "From the next job on, the table shares the driver with all others.",
                "If it crashes that driver, other tables' jobs are retried.",
            ),
        ),
        Action(
            "compact",
            "Compact",
            "compact",
            Privilege.OPERATE,
            QUERYABLE,
            does=(
                "Merges the log files into the base files, so that readers "
                "merge less. No row changes."
            ),
            meanwhile="Nothing: reading and syncing continue.",
            way_back="Not needed: readers see the same rows before and after.",
            asks_driver=True,
        ),
        Action(
            "verify",
            "Verify",
            "check",
            Privilege.OPERATE,
            QUERYABLE,
            does=(
                "Compares every row with the source and tells which ones "
                "differ. Changes nothing."
            ),
            meanwhile="Compaction of this table waits. The source is read once.",
            way_back="Not needed.",
            effects=(
                "Every row of the source is read once and compared with the lake.",
                "Nothing is changed, and syncing continues; compaction waits "
                "until then.",
            ),
        ),
        Action(
            "rollback",
            "Roll back",
            "refresh",
            Privilege.OPERATE,
            QUERYABLE,
            does=(
                "Removes what an unfinished write or compaction left behind; no reader "
                "ever saw it. Takes back a lock or settings that another program "
                "changed."
            ),
            meanwhile="No sync of this table runs; reading continues.",
            way_back=(
                "Not needed: rows of a write are read again by the next "
                "sync, a planned compaction is executed again."
            ),
            repair=RepairWork("rollback"),
        ),
        Action(
            "unschedule-compaction",
            "Unschedule",
            "stop",
            Privilege.OPERATE,
            QUERYABLE,
            does=(
                "Takes a planned compaction off the table's timeline. Its log "
                "files stay and go into the next plan."
            ),
            meanwhile="No sync of this table runs; reading continues.",
            way_back="Compact plans a new one at any time.",
            asks_replan=True,
            repair=RepairWork("unschedule"),
        ),
        Action(
            "duplicates",
            "Find duplicates",
            "search",
            Privilege.OPERATE,
            QUERYABLE,
            does=(
                "Counts rows whose key occurs more than once, and reports why. "
                "Changes nothing."
            ),
            meanwhile=(
                "No sync of this table runs while every row is read once; "
                "reading continues."
            ),
            way_back="Not needed.",
            effects=(
                "Every row is read once and counted by its key; the job "
                "reports how many "
                "occur twice, which copies would stay, and the likely cause.",
                "Nothing is changed. No sync runs until it is done.",
            ),
            repair=RepairWork("deduplicate", dry_run=True),
        ),
        Action(
            "deduplicate",
            "Remove duplicates",
            "check",
            Privilege.OPERATE,
            QUERYABLE,
            does=(
                "Replaces the table by one row per key. Of several copies the "
                "newest stays."
            ),
            meanwhile=(
                "No sync of this table runs while every row is read and "
                "written once; readers keep the old rows until it is done."
            ),
            way_back=(
                "A savepoint is made first: for 7 days, Restore brings the "
                "former table back."
            ),
            is_danger=True,
            repair=RepairWork("deduplicate"),
        ),
        Action(
            "clean",
            "Clean",
            "trash",
            Privilege.OPERATE,
            QUERYABLE,
            does=(
                "Deletes files that no reader needs any more: old versions, and "
                "what interrupted writers left behind."
            ),
            meanwhile="No sync of this table runs; reading continues.",
            way_back=(
                "None: no current row is lost, but older states of the table "
                "can no longer be queried."
            ),
            repair=RepairWork("clean"),
        ),
        Action(
            "resize",
            "Change buckets",
            "table",
            Privilege.OPERATE,
            QUERYABLE,
            does=(
                "Rewrites the same rows into another number of buckets, by one commit."
            ),
            meanwhile=(
                "No sync of this table runs while every row is read and "
                "written once; reading continues."
            ),
            way_back=(
                "A savepoint is made first: for 7 days, Restore brings the old "
                "number of buckets."
            ),
            asks_buckets=True,
            repair=RepairWork("resize"),
        ),
        Action(
            "drop-metadata-table",
            "Remove metadata table",
            "trash",
            Privilege.OPERATE,
            QUERYABLE,
            does=(
                "Removes an index that another program made and Sluice does "
                "not keep. No row changes."
            ),
            meanwhile="No sync of this table runs; reading continues.",
            way_back="Not needed: readers list the table's folders instead.",
            repair=RepairWork("drop-metadata-table"),
        ),
        Action(
            "savepoint",
            "Make a savepoint",
            "lock",
            Privilege.OPERATE,
            QUERYABLE,
            does=(
                "Keeps the current state of the table for 7 days, so that you can "
                "restore it."
            ),
            meanwhile=(
                "No sync of this table runs for some seconds. Planned "
                "compactions are unscheduled, and the next sync plans them again. "
                "Current files take up space for 7 days."
            ),
            way_back="Not needed: it expires automatically.",
            repair=RepairWork("savepoint"),
        ),
        Action(
            "restore",
            "Restore",
            "warn",
            Privilege.OPERATE,
            QUERYABLE,
            does=("Restores the table to a savepoint. Later commits are deleted."),
            meanwhile=(
                "No sync of this table runs; readers see the rows of the "
                "savepoint afterwards."
            ),
            way_back=(
                "None: the commits are gone. The next sync reads from the "
                "source what changed since; a resync reads everything."
            ),
            is_danger=True,
            repair=RepairWork("restore"),
        ),
        Action(
            "resync",
            "Resync",
            "refresh",
            Privilege.OPERATE,
            frozenset({LIVE, CATCHING_UP, NEEDS_RESYNC, FAILED}),
            does=(
                "Reads the whole table from the source again and replaces what "
                "is in the lake."
            ),
            meanwhile=(
                "The source is read completely. Readers keep the old rows "
                "until it is done."
            ),
            way_back="Make a savepoint first: Restore then brings the old rows back.",
            is_danger=True,
            asks_empty=True,
        ),
        Action(
            "approve-schema-change",
            "Approve change",
            "check",
            Privilege.OPERATE,
            QUERYABLE | ON_ITS_WAY,
            does="Applies the changed columns of the source table.",
            meanwhile="Readers keep the rows and columns of the last commit.",
            way_back=(
                "A dropped column comes back with the source's values when it is "
                "added there again; make a savepoint first to keep its old values."
            ),
            is_decision=True,
        ),
        Action(
            "remove",
            "Remove",
            "trash",
            Privilege.MANAGE,
            ON_ITS_WAY | QUERYABLE,
            does=(
                "Stops syncing this table permanently; deletes its data if "
                "you choose so."
            ),
            meanwhile="Nothing.",
            way_back=(
                "None if the data is deleted; otherwise the table can be added again."
            ),
            is_danger=True,
            asks_drop=True,
        ),
    )
}


def action_of(work: RepairWork) -> Action:
    """The one that asks for this kind of repair."""
    kind = (work.action, work.dry_run)
    offered = ((a, a.repair) for a in ACTIONS.values() if a.repair)
    return next(a for a, r in offered if (r.action, r.dry_run) == kind)
