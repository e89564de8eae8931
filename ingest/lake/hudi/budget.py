"""What compactions may write again, and with which file groups they begin. Pure.

Each byte that a sync writes earns `amplification` - 1 bytes of rewriting; a compaction
spends what it writes. So what upkeep writes is bounded by what changed, whatever the
table's size. It must not know how a compaction is planned or executed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ingest.lake.hudi.layout import FileGroup, GroupKey

# What a log file costs a reader, in bytes of base file that take as long to read: to
# open it and decode its schema, then each of its bytes (Avro, and a look-up by key).
# Measured: docs/performance.md, "What a waiting log file costs".
FILE_COST = 100_000
BYTE_COST = 2
# of a base file, however small: its footer, its columns, a task, its part of the query
OPEN_COST = 6_000_000
# of the base file's bytes: beside any log its rows are looked up and handed out one by
# one. The next commit brings that back, so it is told and no reason for a rewrite
MERGE_SHARE = 0.8
# of what the base file alone costs; below it a rewrite saves no reader anything. One
# log file on a small table is above: who says `compact_after: 1` means it
LEAST_SHARE = 0.015
# readers open each: from here on a file group is merged whatever the budget says
MOST_LOG_FILES = 1_000
# their names go into one option of one write
MOST_GROUPS = 500


@dataclass(frozen=True, slots=True)
class Choice:
    """groups: what is compacted now, first those whose log costs readers most per byte
    rewritten. rewrite_bytes: what that writes. waiting: what costs readers, too, and is
    not affordable yet, in the same order."""

    groups: tuple[FileGroup, ...] = ()
    rewrite_bytes: int = 0
    waiting: tuple[FileGroup, ...] = ()

    @property
    def keys(self) -> frozenset[GroupKey]:
        return frozenset((g.partition, g.file_id) for g in self.groups)


def merge_cost(group: FileGroup) -> int:
    """Bytes of base file that take a reader as long as merging the group's log."""
    return FILE_COST * group.log_files + BYTE_COST * group.log_bytes


def read_cost(group: FileGroup) -> int:
    """Of the group without a log, in bytes too: opening a small file is most of it."""
    return OPEN_COST + group.base_bytes


def rewrite_bytes(group: FileGroup) -> int:
    """At most: a log's rows replace rows of the base file, or are added to them."""
    return group.base_bytes + group.log_bytes


def is_costly(group: FileGroup, *, old_before: str) -> bool:
    """`old_before`: the instant before which a log file is old."""
    if not group.log_files:
        return False
    is_old = group.oldest_log < old_before
    return (
        is_old
        or _has_too_many(group)
        or merge_cost(group) >= LEAST_SHARE * read_cost(group)
    )


def choose(groups: Iterable[FileGroup], *, credit: int, old_before: str = "") -> Choice:
    """Which file groups are compacted for `credit` bytes.

    The order is kept even where a later group would be affordable: else small ones
    would spend for ever what the one needs that costs readers most.
    """
    costly = [g for g in groups if is_costly(g, old_before=old_before)]
    costly.sort(key=_order)
    chosen: list[FileGroup] = []
    spent = 0
    for group in costly[:MOST_GROUPS]:
        is_affordable = spent + rewrite_bytes(group) <= credit
        if not is_affordable and not _has_too_many(group):
            break
        chosen.append(group)
        spent += rewrite_bytes(group)
    return Choice(tuple(chosen), spent, tuple(costly[len(chosen) :]))


def _order(group: FileGroup) -> tuple[bool, float, str, str]:
    worth = merge_cost(group) / rewrite_bytes(group) if rewrite_bytes(group) else 0.0
    return not _has_too_many(group), -worth, group.partition, group.file_id


def _has_too_many(group: FileGroup) -> bool:
    return group.log_files >= MOST_LOG_FILES


def credit_after(
    credit: int,
    wrote: Sequence[tuple[str, int]],
    *,
    amplification: float,
    most: int,
) -> int:
    """`wrote`: action and bytes of completed instants, in the order of completion.

    most  bytes of the whole table: more than one rewrite of it is never of use, and
          what a quiet month left over must not pay for a busy hour
    """
    for action, size in wrote:
        if action == "deltacommit":
            credit = min(most, credit + int((amplification - 1) * size))
        elif action == "compaction":
            # what a person had compacted beyond the budget is not owed afterwards
            credit = max(0, credit - size)
    return credit


def first_credit(groups: Iterable[FileGroup], *, amplification: float) -> int:
    """Of a table whose commits were not counted: what its waiting logs earned."""
    return int((amplification - 1) * sum(g.log_bytes for g in groups))
