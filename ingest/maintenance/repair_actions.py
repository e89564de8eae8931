"""The repairs of a lake table: jobs of a driver under both leases of the table.

Each has its driver's side in `table_services.repair`, under the name of its work.
"""

from __future__ import annotations

from catalog.models import Table
from ingest.contract.job import RepairWork
from ingest.maintenance import repair_previews
from ingest.maintenance.buckets import MOST_BUCKETS, suggest_buckets
from ingest.maintenance.facts import facts_from
from ingest.maintenance.table_action import DRY_RUN, Field, Request, TableAction
from ingest.models import TableHealth
from ingest.pipelines import shard_joins, shards

_NO_SYNC = "No sync of this table runs; reading continues."
_INSTANT = Field("instant", "instant", is_nullable=True)
_OF_ONE = Request("RepairNew", (_INSTANT, DRY_RUN))
_OF_ALL = Request("Previewable", (DRY_RUN,))


def proposed_buckets(table: Table) -> int:
    """What its files suggest, else what it has."""
    row = TableHealth.objects.filter(table=table).first()
    fit = suggest_buckets(facts_from(row.facts)) if row and row.facts else None
    return fit.buckets if fit else table.buckets or 1


ROLLBACK = TableAction(
    name="rollback",
    title="Roll back",
    icon="refresh",
    does=(
        "Removes what an unfinished write or compaction left behind; no reader "
        "ever saw it. Takes back a lock or settings that another program "
        "changed."
    ),
    blocks=_NO_SYNC,
    undo=(
        "Not needed: rows of a write are read again by the next "
        "sync, a planned compaction is executed again."
    ),
    request=_OF_ONE,
    preview=repair_previews.preview_rollback,
    repair=RepairWork("rollback"),
)
UNSCHEDULE = TableAction(
    name="unschedule-compaction",
    title="Unschedule",
    icon="stop",
    does=(
        "Takes a planned compaction off the table's timeline. Its log "
        "files stay and go into the next plan."
    ),
    blocks=_NO_SYNC,
    undo="Compact plans a new one at any time.",
    request=Request(
        "UnscheduleNew",
        (
            _INSTANT,
            DRY_RUN,
            Field(
                "replan",
                "flag",
                label="Plan a new one afterwards, over all files at that time",
                changes_preview=True,
            ),
        ),
    ),
    preview=repair_previews.preview_unschedule,
    repair=RepairWork("unschedule"),
)
DUPLICATES = TableAction(
    name="duplicates",
    title="Find duplicates",
    icon="search",
    does=(
        "Counts rows whose key occurs more than once, and reports why. Changes nothing."
    ),
    blocks=(
        "No sync of this table runs while every row is read once; reading continues."
    ),
    undo="Not needed.",
    effects=(
        "Every row is read once and counted by its key; the job "
        "reports how many "
        "occur twice, which copies would stay, and the likely cause.",
        "Nothing is changed. No sync runs until it is done.",
    ),
    repair=RepairWork("deduplicate", dry_run=True),
    is_verb=False,
    is_care=True,
)
DEDUPLICATE = TableAction(
    name="deduplicate",
    title="Remove duplicates",
    icon="check",
    does=("Replaces the table by one row per key. Of several copies the newest stays."),
    blocks=(
        "No sync of this table runs while every row is read and "
        "written once; readers keep the old rows until it is done."
    ),
    undo=(
        "A savepoint is made first: for 7 days, Restore brings the former table back."
    ),
    request=Request(
        "DeduplicateNew", (Field("dry_run", "flag", "a job that only counts"),)
    ),
    preview=repair_previews.preview_deduplication,
    repair=RepairWork("deduplicate"),
    is_dangerous=True,
)
SAVEPOINT = TableAction(
    name="savepoint",
    title="Make a savepoint",
    icon="lock",
    does=(
        "Keeps the current state of the table for 7 days, so that you can restore it."
    ),
    blocks=(
        "No sync of this table runs for some seconds. Planned "
        "compactions are unscheduled, and the next sync plans them again. "
        "Current files take up space for 7 days."
    ),
    undo="Not needed: it expires automatically.",
    preview=repair_previews.preview_savepoint,
    repair=RepairWork("savepoint"),
    report="Savepoint %(savepoint)s was kept; restore it to undo this.",
    collection="savepoints",
    is_care=True,
)
CLEAN = TableAction(
    name="clean",
    title="Clean",
    icon="trash",
    does=(
        "Deletes files that no reader needs any more: old versions, and "
        "what interrupted writers left behind."
    ),
    blocks=_NO_SYNC,
    undo=(
        "None: no current row is lost, but older states of the table "
        "can no longer be queried."
    ),
    request=_OF_ALL,
    preview=repair_previews.preview_cleaning,
    repair=RepairWork("clean"),
    report="Old files, instants and savepoints are gone.",
    is_care=True,
)
RESIZE = TableAction(
    name="resize",
    title="Change buckets",
    icon="table",
    does="Rewrites the same rows into another number of buckets, by one commit.",
    blocks=(
        "No sync of this table runs while every row is read and "
        "written once; reading continues."
    ),
    undo=(
        "A savepoint is made first: for 7 days, Restore brings the old "
        "number of buckets."
    ),
    request=Request(
        "ResizeNew",
        (
            Field(
                "buckets",
                "whole",
                label="Buckets",
                least=1,
                most=MOST_BUCKETS,
                is_required=True,
                proposal=proposed_buckets,
                changes_preview=True,
            ),
            DRY_RUN,
        ),
    ),
    preview=repair_previews.preview_resize,
    repair=RepairWork("resize"),
    report="The table has %(buckets)s buckets now, and the same rows.",
    is_care=True,
)
DROP_METADATA_TABLE = TableAction(
    name="drop-metadata-table",
    title="Remove metadata table",
    icon="trash",
    does=(
        "Removes an index that another program made and Sluice does "
        "not keep. No row changes."
    ),
    blocks=_NO_SYNC,
    undo="Not needed: readers list the table's folders instead.",
    request=_OF_ALL,
    preview=repair_previews.preview_metadata_drop,
    repair=RepairWork("drop-metadata-table"),
    report="The metadata table of another writer is gone; readers list the files.",
)
REPAIR = TableAction(
    name="repair",
    title="Repair",
    icon="check",
    does=(
        "Reads the parts of the source again in which the newest verification found "
        "differences; writes and deletes the rows that differ, by one commit."
    ),
    blocks=(
        "No sync of this table runs, and what its source's log brings waits; reading "
        "continues."
    ),
    undo="Not needed: the rows are those of the source.",
    request=_OF_ALL,
    preview=repair_previews.preview_repair,
    repair=RepairWork("repair"),
    report="As the source has them: %(written)s rows written, %(deleted)s deleted.",
)
JOIN_SHARDS = TableAction(
    name="join-shards",
    title="Read new shards",
    icon="plus",
    does=(
        "Reads the source tables that came to this sharded table, and no others; writes"
        " their rows by one commit."
    ),
    blocks=(
        "No sync of this table runs, and what its source's log brings waits; reading "
        "continues."
    ),
    undo="Exclude them, then resync the table.",
    states=shard_joins.STATES,
    is_open=shards.is_sharded,
    request=_OF_ALL,
    preview=repair_previews.preview_join,
    repair=shard_joins.WORK,
    report="The new shards are read: %(written)s rows written, %(deleted)s deleted.",
)
RESTORE = TableAction(
    name="restore",
    title="Restore",
    icon="warn",
    does="Restores the table to a savepoint. Later commits are deleted.",
    blocks=(
        "No sync of this table runs; readers see the rows of the savepoint afterwards."
    ),
    undo=(
        "None: the commits are gone. The next sync reads from the "
        "source what changed since; a resync reads everything."
    ),
    request=_OF_ONE,
    preview=repair_previews.preview_restore,
    repair=RepairWork("restore"),
    report="The table is what it was at savepoint %(restored)s.",
    is_dangerous=True,
)

REPAIR_ACTIONS = (
    ROLLBACK,
    UNSCHEDULE,
    DUPLICATES,
    DEDUPLICATE,
    SAVEPOINT,
    CLEAN,
    REPAIR,
    JOIN_SHARDS,
    RESIZE,
    RESTORE,
    DROP_METADATA_TABLE,
)
