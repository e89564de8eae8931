"""What a compaction would read and write again, from the table's file groups. Pure.

It must not know how a compaction is planned or executed by Hudi, only that each file
group's base file is written again together with its log files.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ingest.lake.hudi.layout import FileGroup, GroupKey

GROUPS_SHOWN = 50


@dataclass(frozen=True, slots=True)
class GroupWork:
    """A file group that is merged."""

    partition: str
    file_id: str
    bucket: int | None
    base_bytes: int
    log_files: int
    log_bytes: int


@dataclass(frozen=True, slots=True)
class Planned:
    """A compaction that stands on the timeline: what it will merge, by its request."""

    instant: str
    groups: frozenset[GroupKey]
    log_files: int
    log_bytes: int


@dataclass(frozen=True, slots=True)
class Compaction:
    """instants: those that are executed, () = one is planned first. groups: the ones
    with most log bytes. base_bytes: of all base files that are written again."""

    instants: tuple[str, ...] = ()
    groups_total: int = 0
    base_bytes: int = 0
    log_files: int = 0
    log_bytes: int = 0
    groups: tuple[GroupWork, ...] = ()


def foresee(groups: Iterable[FileGroup], planned: Iterable[Planned]) -> Compaction:
    """What `:compact` would do now: what is planned, else everything with log files."""
    plans = tuple(planned)
    wanted = frozenset(key for plan in plans for key in plan.groups)
    found = [
        _work(group)
        for group in groups
        if ((group.partition, group.file_id) in wanted if plans else group.log_files)
    ]
    found.sort(key=lambda work: (-work.log_bytes, work.partition, work.file_id))
    # log files that came after a plan are not merged by it
    files = plans or found
    return Compaction(
        tuple(plan.instant for plan in plans),
        len(found),
        sum(work.base_bytes for work in found),
        sum(one.log_files for one in files),
        sum(one.log_bytes for one in files),
        tuple(found[:GROUPS_SHOWN]),
    )


def _work(group: FileGroup) -> GroupWork:
    return GroupWork(
        group.partition,
        group.file_id,
        group.bucket,
        group.base_bytes,
        group.log_files,
        group.log_bytes,
    )
