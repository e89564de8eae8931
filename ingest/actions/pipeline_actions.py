"""Actions on how a table is synced, and those whose jobs compare or compact it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from catalog.access.policy import Privilege
from catalog.models import Table
from core.models import Job
from core.sentences import Sentence
from ingest.maintenance import compact_job
from ingest.maintenance.compaction_drivers import parse_driver_request
from ingest.maintenance.impact_on_many import (
    foresee_compactions,
    foresee_resyncs,
    removals_of,
)
from ingest.maintenance.impact_preview import (
    preview_compaction,
    preview_follow_cursor,
    preview_follow_log,
    preview_resync,
)
from ingest.maintenance.repair_previews import Preview
from ingest.maintenance.table_action import (
    DRY_RUN,
    ON_ITS_WAY,
    QUERYABLE,
    Field,
    Request,
    TableAction,
)
from ingest.models.states import LIVE, LOADED, PIPELINE, RESUMABLE
from ingest.pipelines import capture_change, gone_shards, removal, table_commands
from ingest.pipelines.removal import RemovalPreview
from ingest.pipelines.schema_approval import (
    approve_schema_change,
    proposal_of,
    what_happens,
)
from ingest.planning.facts import LOG, TIMESTAMP

SYNC = TableAction(
    name="sync",
    title="Sync",
    icon="refresh",
    group="sync",
    does=(
        "Reads what changed at the source since the last sync, now instead of later."
    ),
    blocks="Nothing.",
    undo="Not needed: the schedule would bring the same rows.",
    states=LOADED,
    is_open=lambda pipeline: pipeline.capture == TIMESTAMP,
    effects=(
        "One sync runs now: rows changed since the last position are read "
        "from the source and committed.",
        "The schedule continues from there.",
    ),
    run=table_commands.start_sync,
)
PAUSE = TableAction(
    name="pause",
    title="Pause",
    icon="pause",
    group="sync",
    does="Stops syncing this table until it is resumed.",
    blocks="Readers keep the last commit; changes stay at the source.",
    undo="Resume continues from there.",
    states=PIPELINE.states_before("pause"),
    effects=(
        "Running jobs of this table stop within seconds, also at the source.",
        "Finished chunks of a snapshot are kept and not read again.",
        "Readers still see the last commit.",
    ),
    run=table_commands.pause,
)
RESUME = TableAction(
    name="resume",
    title="Resume",
    icon="play",
    group="sync",
    does="Syncs this table again, from where it stopped.",
    blocks="Nothing.",
    undo="Pause stops it again.",
    states=RESUMABLE,
    effects=(
        "Syncing continues where it stopped.",
        "A table that needs a resync still needs it: nothing is synced until then.",
    ),
    run=table_commands.resume,
)
SHARE_DRIVER = TableAction(
    name="share-driver",
    title="Use the shared driver",
    icon="refresh",
    group="sync",
    does="Runs this table's jobs in the shared driver again.",
    blocks="Nothing: a running job stays where it is.",
    undo=("Not needed: if it crashes that driver too, it gets a dedicated one again."),
    states=ON_ITS_WAY | QUERYABLE,
    is_open=lambda pipeline: bool(pipeline.alone_reason),
    effects=(
        "From the next job on, the table shares the driver with all others.",
        "If it crashes that driver, other tables' jobs are retried.",
    ),
    run=table_commands.share_driver,
)


def _compact(table: Table, *, actor: str, **driver: Any) -> Job:
    asked = parse_driver_request(driver)
    return compact_job.request_compaction(table, actor=actor, asked=asked)


def _preview_compaction(table: Table, **driver: Any) -> Preview:
    return preview_compaction(table, parse_driver_request(driver))


_OWN = ("driver", "own")
COMPACT = TableAction(
    name="compact",
    title="Compact",
    icon="compact",
    does=(
        "Merges the log files into the base files, so that readers "
        "merge less. No row changes."
    ),
    blocks="Nothing: reading and syncing continue.",
    undo="Not needed: readers see the same rows before and after.",
    request=Request(
        "CompactionNew",
        (
            Field(
                "driver",
                "choice",
                label="Where it runs",
                choices=(
                    ("own", "In a dedicated driver: other jobs continue in parallel"),
                    ("shared", "In the shared driver"),
                ),
                is_checked_later=True,
                changes_preview=True,
                part="driver",
            ),
            Field(
                "memory",
                "text",
                "4g; default is the most allowed",
                is_checked_later=True,
                needs=_OWN,
            ),
            Field(
                "cores",
                "whole",
                "default is the most allowed",
                is_checked_later=True,
                needs=_OWN,
            ),
            DRY_RUN,
        ),
        "own: a driver for this compaction alone, where the table's lock is shared.",
    ),
    preview=_preview_compaction,
    preview_many=foresee_compactions,
    run=_compact,
    is_care=True,
)
VERIFY = TableAction(
    name="verify",
    title="Verify",
    icon="check",
    does=(
        "Compares every row with the source and tells which ones "
        "differ. Changes nothing."
    ),
    blocks="Compaction of this table waits. The source is read once.",
    undo="Not needed.",
    effects=(
        "Every row of the source is read once and compared with the lake.",
        "Nothing is changed, and syncing continues; compaction waits until then.",
    ),
    run=table_commands.start_verify,
    is_care=True,
)


def _preview_resync(table: Table, **given: Any) -> Preview:
    return preview_resync(table)


RESYNC = TableAction(
    name="resync",
    title="Resync",
    icon="refresh",
    group="sync",
    does=(
        "Reads the whole table from the source again and replaces what is in the lake."
    ),
    blocks=(
        "The source is read completely. Readers keep the old rows until it is done."
    ),
    undo="Make a savepoint first: Restore then brings the old rows back.",
    states=PIPELINE.states_before("start_resync"),
    request=Request(
        "ResyncNew",
        (
            DRY_RUN,
            Field(
                "accept_empty",
                "flag",
                "replace the table also when the source has no rows",
                label="If the source table is empty, empty the lake table too",
            ),
        ),
    ),
    preview=_preview_resync,
    preview_many=foresee_resyncs,
    run=table_commands.start_resync,
    is_dangerous=True,
)
FOLLOW_LOG = TableAction(
    name="follow-log",
    title="Follow the log",
    icon="play",
    group="sync",
    does=(
        "Captures this table by its source's log instead of its cursor, without reading"
        " it again."
    ),
    blocks="No sync runs until it is done. Readers keep the last commit.",
    undo="Follow a cursor brings it back the same way.",
    states=frozenset({LIVE}),
    is_open=lambda pipeline: pipeline.capture == TIMESTAMP,
    request=Request("FollowLogNew", (DRY_RUN,)),
    preview=preview_follow_log,
    run=capture_change.follow_log,
)
FOLLOW_CURSOR = TableAction(
    name="follow-cursor",
    title="Follow a cursor",
    icon="play",
    group="sync",
    does=(
        "Captures this table by a column with the time of change instead of its"
        " source's log, without reading it again."
    ),
    blocks="Changes wait until it is done. Readers keep the last commit.",
    undo="Follow the log brings it back the same way.",
    states=frozenset({LIVE}),
    is_open=lambda pipeline: pipeline.capture == LOG,
    request=Request(
        "FollowCursorNew",
        (
            Field("cursor", "text", "column at the source; the best one by default"),
            DRY_RUN,
        ),
    ),
    preview=preview_follow_cursor,
    run=capture_change.follow_cursor,
)


def _preview_approval(table: Table, **given: Any) -> Preview:
    return Preview(
        str(table), "approve-schema-change", (), what_happens(table, **given)
    )


def _set_aside(how: str) -> Callable[[Table], tuple[str, ...]]:
    def offered(table: Table) -> tuple[str, ...]:
        found = proposal_of(table).choices.items()
        return tuple(name for name, one in found if one == how)

    return offered


APPROVE_SCHEMA_CHANGE = TableAction(
    name="approve-schema-change",
    title="Approve change",
    icon="check",
    group="sync",
    does="Applies the changed columns of the source table.",
    blocks="Readers keep the rows and columns of the last commit.",
    undo=(
        "A dropped column comes back with the source's values when it is "
        "added there again; make a savepoint first to keep its old values."
    ),
    states=QUERYABLE | ON_ITS_WAY,
    request=Request(
        "SchemaApprovalNew",
        (
            Field(
                "keep_null",
                "names",
                "columns that are gone at the source and stay in the lake table; rows"
                " that change have NULL there",
                label="Gone at the source: keep in the lake, NULL from now on",
                offered=_set_aside("keep_null"),
                changes_preview=True,
            ),
            Field(
                "leave_out",
                "names",
                "columns that are new or another type at the source and are not read",
                label="New or of another type: leave out, not read from now on",
                offered=_set_aside("leave_out"),
                changes_preview=True,
            ),
            DRY_RUN,
        ),
        help="Columns by their names at the source; all others are followed.",
    ),
    preview=_preview_approval,
    run=approve_schema_change,
    is_decision=True,
)


LEAVE_SHARDS = TableAction(
    name="leave-shards",
    title="Decide on gone shards",
    icon="check",
    group="sync",
    does=(
        "Keeps or deletes the rows of source tables of this sharded table that were"
        " dropped."
    ),
    blocks="Nothing: the other source tables are synced as before.",
    undo=(
        "None if the rows are deleted. A table that comes back is read as a new one."
    ),
    states=gone_shards.STATES,
    is_open=lambda pipeline: bool(gone_shards.undecided(pipeline)),
    request=Request(
        "LeaveShardsNew",
        (
            Field(
                "rows",
                "choice",
                "of their rows in the lake",
                label="Their rows in the lake",
                choices=(
                    ("keep", "Keep them, as they were when the tables were dropped"),
                    ("delete", "Delete them; this cannot be undone"),
                ),
                is_required=True,
            ),
        ),
    ),
    describe=gone_shards.describe,
    run=gone_shards.decide,
    is_decision=True,
)


def _remove(table: Table, *, actor: str, data: str = "keep") -> Job:
    return removal.start_removal(table, drop_data=data == "drop", actor=actor)


def _preview_removal(table: Table, *, data: str = "keep") -> RemovalPreview:
    return removal.plan_removal(table, drop_data=data == "drop")


def _describe_removal(table: Table) -> Iterator[str]:
    """Both of what can be chosen."""
    kept = removal.plan_removal(table, drop_data=False)
    dropped = removal.plan_removal(table, drop_data=True)
    yield kept.will[0]
    yield Sentence("If you keep the data: %(effect)s", effect=kept.will[1])
    yield Sentence("If you delete it: %(effect)s", effect=dropped.will[1])


REMOVE = TableAction(
    name="remove",
    title="Remove",
    icon="trash",
    group="sync",
    does=("Stops syncing this table permanently; deletes its data if you choose so."),
    blocks="Nothing.",
    undo="None if the data is deleted; otherwise the table can be added again.",
    states=ON_ITS_WAY | QUERYABLE,
    privilege=Privilege.MANAGE,
    request=Request(
        "RemovalNew",
        (
            Field(
                "data",
                "choice",
                label="The data in the lake",
                choices=(
                    (
                        "keep",
                        "Keep it: the table stays as it is and can still be queried",
                    ),
                    (
                        "drop",
                        "Delete it: the table disappears for every reader; this cannot"
                        " be undone",
                    ),
                ),
            ),
            DRY_RUN,
        ),
    ),
    describe=_describe_removal,
    preview=_preview_removal,
    preview_many=lambda carried: removals_of([table for table, _ in carried]),
    run=_remove,
    is_dangerous=True,
)
