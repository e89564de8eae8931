"""What a compaction would read and write again, from the table's file groups. Pure.

It must not know how a compaction is planned or executed by Hudi, only that each file
group's base file is written again together with its log files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ingest.lake.hudi.layout import CompactionPlan, FileGroup

GROUPS_SHOWN = 50


@dataclass(frozen=True, slots=True)
class Compaction:
    """instants: those that are executed, () = one is planned first. groups: the ones
    with most log bytes. base_bytes: of all base files that are written again."""

    instants: tuple[str, ...] = ()
    groups_total: int = 0
    base_bytes: int = 0
    log_files: int = 0
    log_bytes: int = 0
    groups: tuple[FileGroup, ...] = ()


def foresee(
    groups: Iterable[FileGroup], plans: Mapping[str, CompactionPlan]
) -> Compaction:
    """What `:compact` would do now: what is planned, else everything with log files.
    plans: of compactions on the timeline, by their instants."""
    wanted = frozenset(key for plan in plans.values() for key in plan.groups)
    found = [
        group
        for group in groups
        if ((group.partition, group.file_id) in wanted if plans else group.log_files)
    ]
    found.sort(key=lambda group: (-group.log_bytes, group.partition, group.file_id))
    # log files that came after a plan are not merged by it
    files = plans.values() or found
    return Compaction(
        tuple(plans),
        len(found),
        sum(group.base_bytes for group in found),
        sum(one.log_files for one in files),
        sum(one.log_bytes for one in files),
        tuple(found[:GROUPS_SHOWN]),
    )
