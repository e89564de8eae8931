"""What a repair would do to a table as it is now, in sentences. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ingest.lake.hudi.timeline import WRITES
from ingest.maintenance.descriptions import counted, sized
from ingest.maintenance.facts import LakeFacts, Pending


def externally_modified(facts: LakeFacts) -> Sequence[str]:
    lines = [
        f"The table's lock for {t.scope} is taken back: the owner that put {t.found}"
        " there is refused from then on, and jobs that wait go on"
        for t in facts.taken
    ]
    if facts.altered:
        said = "; ".join(facts.altered)
        lines.append(f"hoodie.properties goes back to what was planned: {said}")
    if facts.future:
        lines += [
            *_plans_first(facts),
            "Every row is read and written once, by one commit of now: a driver whose"
            f" clock was ahead made {counted(len(facts.future), 'commit')} of the"
            f" future, {facts.future[-1]} in UTC for one",
            "Then the instants of the future are taken off the timeline, with the files"
            " that they wrote and savepoints made by them; capture goes on at its"
            " position",
        ]
    return lines


def rolled_back(pending: Pending) -> Sequence[str]:
    if pending.action == "rollback":
        return [
            f"Rollback {pending.instant}, which was begun, is finished with what it"
            " undoes"
        ]
    if pending.action != "compaction":
        return [
            f"What {pending.action} {pending.instant} wrote is removed; it was never"
            " visible, and its rows come again with the next sync"
        ]
    return [
        f"What the unfinished attempt of compaction {pending.instant} wrote is removed",
        f"Its plan{_extent(pending)} stays and is executed again",
    ]


def taken_off(pending: Pending) -> Sequence[str]:
    if not pending.is_readable:
        return [
            f"Compaction {pending.instant} is taken off the timeline, and what an"
            " attempt of it wrote is removed by name, for its request cannot be read",
            "The table can be read and written again",
        ]
    lines = []
    if pending.state == "INFLIGHT":
        lines.append(
            f"What the unfinished attempt of compaction {pending.instant} wrote is"
            " removed"
        )
    return [
        *lines,
        f"Compaction {pending.instant}{_extent(pending)} is taken off the timeline",
        "Its log files stay and are merged by the next plan",
    ]


def _extent(pending: Pending) -> str:
    plan = pending.plan
    if plan is None or not plan.groups:
        return ""
    return (
        f" ({counted(plan.groups, 'file group')}, {sized(plan.log_bytes)} of log files)"
    )


def undone_first(facts: LakeFacts) -> Sequence[str]:
    """What writers that are dead left goes before anything is kept or written."""
    left = [p for p in facts.pending if p.action in WRITES and not p.is_held]
    return [line for one in left for line in rolled_back(one)]


def _plans_first(facts: LakeFacts) -> Sequence[str]:
    if not facts.pending_compactions:
        return []
    return [
        "Compactions that are planned are taken off the timeline first:"
        f" {len(facts.pending_compactions)}"
    ]


def kept(facts: LakeFacts) -> Sequence[str]:
    return [
        *undone_first(facts),
        *_plans_first(facts),
        "What the table is now can be gone back to, for 7 days",
        "Until then its present files are not cleaned away",
    ]


def deduplicated(facts: LakeFacts) -> Sequence[str]:
    lines = [
        "Every row is read once and counted by its key; without duplicates nothing is"
        " written",
    ]
    if facts.conflicts_total:
        lines.append(f"Buckets with several file groups now: {facts.conflicts_total}")
    return [
        *lines,
        *undone_first(facts),
        *_plans_first(facts),
        "A savepoint keeps what is there now",
        "One commit replaces the table by one row per key: the newest one stays",
        "The result is compared with what was kept; capture goes on at its position",
        "No sync runs until it ends",
    ]


def cleaned(facts: LakeFacts, *, keep_seconds: float) -> Sequence[str]:
    begun = [p.instant for p in facts.pending if p.action == "clean" and not p.is_held]
    lines = [*undone_first(facts)]
    if begun:
        lines.append(f"A cleaning that was begun is finished: {', '.join(begun)}")
    if facts.strays:
        lines.append(f"Files that no commit lists are deleted: {facts.strays}")
    return [
        *lines,
        f"Old versions of files go, {facts.old_files} files of"
        f" {sized(facts.old_bytes)} are candidates; those of the newest ten"
        f" commits and of the last {keep_seconds / 60:.0f} minutes stay for running"
        " queries",
        "Old instants are archived, and savepoints made over 7 days ago end",
        "Readers see the same rows before and after",
    ]
