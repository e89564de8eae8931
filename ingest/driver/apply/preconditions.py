"""What a job and its lake table have to agree on before anything is read or written.

Each refusal is about rows that would be lost or mixed up silently otherwise. It must
not know how rows are read.
"""

from __future__ import annotations

from collections.abc import Sequence

from core.errors import InvalidRequest, TerminalError, TransientError
from ingest.contract.epochs import Seal
from ingest.contract.job import JobSpec
from ingest.driver.apply.writer import qualified_name
from ingest.lake.commits import LakeState
from ingest.lake.hudi.evolution import other_types
from ingest.lake.layout import read_compaction_plan
from ingest.lake.ledger import knows


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
    behind, reached = spec.sync.behind if spec.sync else 0, _reached(spec, state)
    if behind > reached:
        raise TerminalError(
            f"{qualified_name(spec)} was at epoch {behind} and is at epoch {reached}"
            " now: it went back, and no restore is known. Nothing was read",
            code="lake_went_back",
            hint="its capture goes on from there with the next sync; resync the table"
            " if it does not",
        )


def _reached(spec: JobSpec, state: LakeState) -> int:
    """The last epoch of the job's source in the table; 0 = none of it."""
    source, position = spec.source.datasource_id if spec.source else 0, state.position
    return position.epoch_to if position and position.source == source else 0


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


def own_seal(spec: JobSpec, seals: Sequence[Seal]) -> Seal | None:
    """What a former attempt of this job has read already."""
    table = spec.table.table_id
    mine = (s for s in seals if s.job_id == spec.job_id and table in s.tables)
    return next(mine, None)


def refuse_used_epoch(
    spec: JobSpec, state: LakeState, epoch: int, seals: Sequence[Seal]
) -> None:
    """An epoch that was handed out before, by a database that has forgotten it, or to
    a load behind which a sync has read: its changes would be taken for those of the
    other one, or for older than they are.

    seals  all that the lake has of this epoch; of a load also later ones of its table
    """
    if own_seal(spec, seals):
        return
    source = spec.source.datasource_id if spec.source else 0
    reached = _reached(spec, state)
    if seals or reached >= epoch or knows(spec.lake, source, epoch):
        raise TerminalError(
            f"epoch {epoch} was given to {qualified_name(spec)}, but the lake knows it"
            f" already, or a later one; the table is at epoch {reached}. Nothing was"
            " read",
            code="lake_went_ahead",
            hint="the database is older than the lake, from a backup perhaps, or a"
            " sync has read since the load got its epoch: the next attempt gets"
            " another one",
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
