"""What a job and its lake table have to agree on before anything is read or written.

Each refusal is about rows that would be lost or mixed up silently otherwise. It must
not know how rows are read.
"""

from __future__ import annotations

from core.errors import InvalidRequest, TerminalError, TransientError
from ingest.contract.job import JobSpec
from ingest.contract.positions import later
from ingest.driver.apply.writer import qualified_name
from ingest.lake.commits import Commit, LakeState
from ingest.lake.hudi.evolution import other_types
from ingest.lake.layout import read_compaction_plan


def require_loaded(spec: JobSpec, state: LakeState) -> None:
    """Changes belong behind a load, and to begin a table with them would hide that the
    rows before them are missing."""
    if state.timeline.completed_writes:
        return
    if behind := spec.sync.behind if spec.sync else 0:
        raise TerminalError(
            f"the files of {qualified_name(spec)} are gone from the lake, where it was"
            f" at epoch {behind}, and Sluice did not remove them. Nothing was read",
            code="files_gone",
            hint="put them back, or resync the table: the source has its rows",
        )
    raise InvalidRequest(
        f"lake table {qualified_name(spec)} has no load yet",
        code="not_loaded",
        hint="load the table first",
    )


def refuse_gone_back(spec: JobSpec, state: LakeState) -> None:
    """A sync that began behind commits which are gone would leave out their rows.
    Epochs say so: instants do not, a compaction of older rows has a newer one."""
    behind, reached = spec.sync.behind if spec.sync else 0, reached_by(spec, state)
    if behind > reached:
        raise TerminalError(
            f"{qualified_name(spec)} was at epoch {behind} and is at epoch {reached}"
            " now: it went back, and no restore is known. Nothing was read",
            code="lake_went_back",
            hint="its capture goes on from there with the next sync; resync the table"
            " if it does not",
        )


def reached_by(spec: JobSpec, state: LakeState) -> int:
    """The last epoch of the job's source in the table; 0 = none of it."""
    source, position = spec.source.datasource_id if spec.source else 0, state.position
    return position.epoch_to if position and position.source == source else 0


def position_of(spec: JobSpec, state: LakeState) -> str | None:
    """Where a sync goes on: where the lake is, or further, behind syncs that found
    nothing. Services that do not know its newest commit know nothing behind that, their
    last report was lost, or the database is from a backup. None = all is read."""
    known = spec.sync.low if spec.sync else None
    if not known or state.position is None or not reached_by(spec, state):
        return known
    if unreported_commit(spec, state):
        return state.position.end or known
    return later(known, state.position.end)


def unreported_commit(spec: JobSpec, state: LakeState) -> Commit | None:
    """The table's newest commit, when the services do not know it."""
    behind = spec.sync.behind if spec.sync else 0
    return state.newest_write if 0 < behind < reached_by(spec, state) else None


def refuse_other_types(spec: JobSpec, state: LakeState) -> None:
    """After a re-sync that was to bring other types and was cancelled, or a restore of
    a moment before it: Hudi would read older rows as what they are not."""
    found = other_types(state.written_schema, spec.table.columns)
    if not found:
        return
    wanted = {c.name: c.type for c in spec.table.columns}
    said = ", ".join(f"{n} is {t}, not {wanted[n]}" for n, t in found.items())
    raise TerminalError(
        f"the lake table {qualified_name(spec)} has its columns in other types than"
        f" the plan: {said}. Nothing was read",
        code="lake_types_differ",
        hint="resync the table: readers keep the present copy until then",
    )


def refuse_unreadable_plan(spec: JobSpec, state: LakeState) -> None:
    """Hudi would find it only half way through a write, and leave one to roll back."""
    for plan in state.timeline.pending_compactions:
        if not read_compaction_plan(spec.table.path, plan.asked).is_readable:
            # not terminal: once it is repaired, the next sync goes on
            raise TransientError(
                f"the request of planned compaction {plan.asked} of"
                f" {qualified_name(spec)} is gone or damaged: the table can neither be"
                " read nor written. Nothing was read",
                code="plan_unreadable",
                hint="unschedule it: the table's health page offers that",
            )
