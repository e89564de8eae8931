"""What the driver's host and a driver say about applying a stream without end.

  host → driver   apply{ApplyWork}: all that a session of this stream shall work on,
                  again whenever it changes. A table that is left out is given up: the
                  session ends what it writes there, then leaves it out of `held`. No
                  tables: the session ends
  driver → host   applied{ApplyReport}, about once a second while a session lives, and
                  at once when something was given up
What a table has applied is what its newest commit says (`_sluice.epoch_to`). Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ingest.contract.job import CompactionBudget, ErrorFact, Outcome
from ingest.contract.table import FenceSpec, SourceSpec, TableSpec

# Code of a problem: rows wait until the plan has what they have.
COLUMNS_UNDECIDED = "columns_undecided"
# The newest commit is of a sync by a cursor, and the table follows its log still.
LEFT_LOG = "left_log"
# And of those that nothing but a load brings to an end.
NEEDS_RESYNC = "needs_resync"
SEGMENT_LACKS_COLUMNS = "segment_lacks_columns"
SEGMENT_TYPES_DIFFER = "segment_types_differ"
ENDED_BY_LOADS = frozenset({NEEDS_RESYNC, SEGMENT_LACKS_COLUMNS, SEGMENT_TYPES_DIFFER})


@dataclass(frozen=True, slots=True)
class ApplyTable:
    """freshness: seconds within which its changes shall be visible; the table that is
    nearest to its end goes first."""

    table: TableSpec
    fence: FenceSpec
    freshness: float = 5.0
    compact_after: int = 10
    budget: CompactionBudget | None = None


@dataclass(frozen=True, slots=True)
class ApplyWork:
    """run: who it is, in the commits (the name of the session). number: grows with each
    work of a session. keep_seconds, lock_service: as in `JobSpec`."""

    run: str
    source: SourceSpec
    stream: str
    lake: str
    number: int
    tables: tuple[ApplyTable, ...] = ()
    keep_seconds: float = 1800.0
    lock_service: str = ""


@dataclass(frozen=True, slots=True)
class Applied:
    """Where a table stands: when it was taken, after a commit, and whenever something
    begins to wait for it, or nothing does any more.

    epoch      `epoch_to` of its newest commit; position: up to where, encoded
    is_live    everything up to its load's `at` is applied
    is_followed  what comes in its stream is all that it lacks; else it lacks changes
               that do not wait there, or a load that replaces it is on the way
    instant, completed_at, rows, bytes  of the newest commit, and what came since the
               last report; instant "" = none since then
    lossy      lake column → how many values of those rows had no form in the lake, so
               that they are NULL there
    is_wide    rows of them took memory as few rows do: compactions want a driver of
               their own
    committed  when the newest applied transaction was committed at the source,
               microseconds since 1970; 0 = none since the session began
    columns    source name and type of those that the lake table has, by the plan of the
               work; () = they are not all there, or were told
    waiting    segments with rows of it that are not applied; oldest: when the first of
               them was committed at the source, microseconds since 1970, 0 = none
    """

    table_id: int
    epoch: int
    position: str
    is_live: bool
    is_followed: bool = True
    instant: str = ""
    completed_at: str = ""
    rows: int = 0
    bytes: int = 0
    lossy: Mapping[str, int] = field(default_factory=dict)
    is_wide: bool = False
    committed: int = 0
    waiting: int = 0
    oldest: int = 0
    pending_compactions: tuple[str, ...] = ()
    columns: tuple[tuple[str, str], ...] = ()

    def without_commit(self) -> Applied:
        """What is left to tell again once all of it is told."""
        return replace(
            self,
            instant="",
            completed_at="",
            rows=0,
            bytes=0,
            lossy={},
            is_wide=False,
            columns=(),
        )


def added(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    """Counts of both, by their names."""
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}


@dataclass(frozen=True, slots=True)
class ApplyProblem:
    """Why a table is not applied. transient: the session goes on trying; else it does
    not touch the table again until the work names it with another fence.
    `needs_resync` as the code: no segment brings it on.

    plan  mark of the columns by which it was met, see `columns_mark`
    """

    table_id: int
    outcome: Outcome
    error: ErrorFact
    plan: str = ""


@dataclass(frozen=True, slots=True)
class ApplyReport:
    """held: tables that the session may write to still. number: of the newest work that
    the session goes by; a table that an older one names may come to be held yet."""

    run: str
    stream: str
    number: int
    held: tuple[int, ...] = ()
    applied: tuple[Applied, ...] = ()
    problems: tuple[ApplyProblem, ...] = ()


def columns_mark(table: TableSpec) -> str:
    """Another one when a plan has other columns, or leaves others out."""
    columns = [(one.source_name, one.type) for one in table.columns]
    return hashlib.sha256(repr((columns, table.left_out)).encode()).hexdigest()[:16]
