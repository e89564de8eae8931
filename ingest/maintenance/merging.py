"""What readers pay for log files that wait, and what it takes to remove them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from core.sentences import Sentence
from ingest.lake.hudi.budget import (
    MERGE_SHARE,
    Choice,
    merge_cost,
    read_cost,
    rewrite_bytes,
)
from ingest.lake.hudi.layout import FileGroup
from ingest.maintenance.descriptions import counted, sized

# what a query may cost: this many times the same of a copy that was just compacted
READERS_GOAL = 2.0


@dataclass(frozen=True, slots=True)
class MergeCost:
    """Estimated from sizes and numbers of files.

    ratio          how long reading the whole table takes, as a multiple of reading it
                   after a compaction
    rewrite_bytes  that a compaction of every file group with log files writes
    due_groups     file groups that are worth a compaction now, and affordable
    due_bytes      that merging these writes
    waiting_groups  worth it, and not affordable yet
    credit         bytes that compactions may write now
    needs          the write amplification that would afford what waits; None when
                   nothing does
    allowed        what the policy allows
    measured       bytes written per byte changed today (UTC), None before a change
    """

    ratio: float = 1.0
    rewrite_bytes: int = 0
    due_groups: int = 0
    due_bytes: int = 0
    waiting_groups: int = 0
    credit: int = 0
    needs: float | None = None
    allowed: float = 0.0
    measured: float | None = None

    @property
    def is_slow(self) -> bool:
        return self.ratio > READERS_GOAL

    @property
    def misses_readers_goal(self) -> bool:
        """Reading costs more than the goal, and the budget does not allow to change
        that now."""
        return self.is_slow and not self.due_groups and self.needs is not None

    @property
    def is_over_budget(self) -> bool:
        """More than allowed was written today, by half a byte at least: a day begins
        with what the one before had saved."""
        return self.measured is not None and self.measured > self.allowed + 0.5


def weigh(
    groups: Sequence[FileGroup],
    choice: Choice,
    *,
    credit: int,
    allowed: float,
    measured: float | None,
) -> MergeCost:
    read = sum(read_cost(g) for g in groups)
    beside = sum(g.base_bytes for g in groups if g.log_files)
    merge = MERGE_SHARE * beside + sum(merge_cost(g) for g in groups)
    log_bytes = sum(g.log_bytes for g in choice.waiting)
    wanted = sum(rewrite_bytes(g) for g in choice.waiting)
    return MergeCost(
        ratio=round(1 + merge / read, 2) if read else 1.0,
        rewrite_bytes=sum(rewrite_bytes(g) for g in groups if g.log_files),
        due_groups=len(choice.groups),
        due_bytes=choice.rewrite_bytes,
        waiting_groups=len(choice.waiting),
        credit=credit,
        needs=round(1 + wanted / log_bytes, 1) if log_bytes else None,
        allowed=allowed,
        measured=measured,
    )


def describe(cost: MergeCost) -> Iterator[Sentence]:
    """None when no log file waits."""
    if not cost.rewrite_bytes:
        return
    yield Sentence(
        "Reading the whole table takes about %(ratio)s times as long as after a"
        " compaction, which would write %(size)s",
        ratio=f"{cost.ratio:.1f}",
        size=sized(cost.rewrite_bytes),
    )
    if cost.due_groups:
        groups = counted(cost.due_groups, "file group")
        yield Sentence(
            "Worth it now: %(groups)s, %(size)s",
            groups=groups,
            size=sized(cost.due_bytes),
        )
    if cost.waiting_groups:
        groups = counted(cost.waiting_groups, "file group")
        yield Sentence(
            "Waiting for the budget: %(groups)s; %(size)s may be written now, and each"
            " byte changed adds %(more)s",
            groups=groups,
            size=sized(cost.credit),
            more=f"{cost.allowed - 1:g}",
        )
