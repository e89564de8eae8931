"""What a repair or a compaction would do to a table as it is now, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from core.sentences import Sentence
from ingest.lake.hudi.timeline import WRITES
from ingest.maintenance.compacting import Compaction
from ingest.maintenance.descriptions import counted, sized
from ingest.maintenance.facts import LakeFacts, Pending
from ingest.pipelines.shard_joins import Joining

NOTHING_TO_MERGE = Sentence(
    "No log file is there to merge; old files and instants are tidied up"
)
OLD_FILES_STAY = Sentence(
    "The old files stay for running queries until they are cleaned"
)


@dataclass(frozen=True, slots=True)
class Rereading:
    """What a repair would read, `chunks` of `of`, and at most write and delete."""

    chunks: int
    of: int
    written: int
    deleted: int


def externally_modified(facts: LakeFacts) -> Iterator[str]:
    for t in facts.taken:
        yield Sentence(
            "The table's lock for %(scope)s is taken back: the owner that put "
            "%(found)s there is refused from then on, and jobs that wait go on",
            scope=t.scope,
            found=t.found,
        )
    if facts.altered:
        yield Sentence(
            "hoodie.properties goes back to what was planned: %(changes)s",
            changes="; ".join(facts.altered),
        )
    if facts.future:
        yield from plans_first(facts)
        yield from _out_of_the_future(facts)


def _out_of_the_future(facts: LakeFacts) -> Iterator[str]:
    yield Sentence(
        (
            "Rewrites the table with the current time, because a driver with a "
            "fast clock made %(count)s commit dated in the future, such as "
            "%(instant)s in UTC"
        )
        if len(facts.future) == 1
        else (
            "Rewrites the table with the current time, because a driver with a "
            "fast clock made %(count)s commits dated in the future, such as "
            "%(instant)s in UTC"
        ),
        count=len(facts.future),
        instant=facts.future[-1],
    )
    yield Sentence(
        "Then the instants of the future are taken off the timeline, with the "
        "files that they wrote and savepoints made by them; capture goes on at "
        "its position"
    )


def rolled_back(pending: Pending) -> Iterator[str]:
    if pending.action == "rollback":
        yield Sentence(
            "Rollback %(instant)s, which was begun, is finished with what it undoes",
            instant=pending.instant,
        )
    elif pending.action != "compaction":
        yield Sentence(
            "What %(action)s %(instant)s wrote is removed; it was never visible, "
            "and its rows come again with the next sync",
            action=pending.action,
            instant=pending.instant,
        )
    else:
        yield _attempt_removed(pending)
        yield Sentence(
            "Its plan%(extent)s stays and is executed again", extent=_extent(pending)
        )


def _attempt_removed(pending: Pending) -> str:
    return Sentence(
        "What the unfinished attempt of compaction %(instant)s wrote is removed",
        instant=pending.instant,
    )


def taken_off(pending: Pending) -> Iterator[str]:
    if not pending.is_readable:
        yield Sentence(
            "Compaction %(instant)s is taken off the timeline, and what an attempt "
            "of it wrote is removed by name, for its request cannot be read",
            instant=pending.instant,
        )
        yield Sentence("The table can be read and written again")
        return
    if pending.state == "INFLIGHT":
        yield _attempt_removed(pending)
    yield Sentence(
        "Compaction %(instant)s%(extent)s is taken off the timeline",
        instant=pending.instant,
        extent=_extent(pending),
    )
    yield Sentence("Its log files stay and are merged by the next plan")


def _extent(pending: Pending) -> str:
    plan = pending.plan
    if plan is None or not plan.groups:
        return ""
    return Sentence(
        (" (%(count)s file group, %(size)s of log files)")
        if plan.groups == 1
        else (" (%(count)s file groups, %(size)s of log files)"),
        count=plan.groups,
        size=sized(plan.log_bytes),
    )


def undone_first(facts: LakeFacts) -> Sequence[str]:
    """What writers that are dead left goes before anything is kept or written."""
    left = [p for p in facts.pending if p.action in WRITES and not p.is_held]
    return [line for one in left for line in rolled_back(one)]


def plans_first(facts: LakeFacts) -> Iterator[str]:
    if facts.pending_compactions:
        yield Sentence(
            "Compactions that are planned are taken off the timeline first: %(count)s",
            count=len(facts.pending_compactions),
        )


def kept(facts: LakeFacts) -> Sequence[str]:
    return [
        *undone_first(facts),
        *plans_first(facts),
        Sentence("What the table is now can be gone back to, for 7 days"),
        Sentence("Until then its present files are not cleaned away"),
    ]


def deduplicated(facts: LakeFacts) -> Iterator[str]:
    yield Sentence(
        "Every row is read once and counted by its key; without duplicates nothing is "
        "written"
    )
    if facts.conflicts_total:
        yield Sentence(
            "Buckets with several file groups now: %(count)s",
            count=facts.conflicts_total,
        )
    yield from undone_first(facts)
    yield from plans_first(facts)
    yield Sentence("A savepoint keeps what is there now")
    yield Sentence(
        "One commit replaces the table by one row per key: the newest one stays"
    )
    yield Sentence(
        "The result is compared with what was kept; capture goes on at its position"
    )
    yield Sentence("No sync runs until it ends")


def read_again(found: Rereading, *, follows_log: bool) -> Iterator[str]:
    yield Sentence(
        (
            "%(chunks)s of %(count)s part of the source is read again, in which the "
            "newest verification found differences"
        )
        if found.of == 1
        else (
            "%(chunks)s of %(count)s parts of the source are read again, in which the "
            "newest verification found differences"
        ),
        chunks=found.chunks,
        count=found.of,
    )
    yield Sentence(
        (
            "%(count)s row that the lake lacks, or has with other values, is written "
            "as the source has it then"
        )
        if found.written == 1
        else (
            "%(count)s rows that the lake lacks, or has with other values, are "
            "written as the source has them then"
        ),
        count=found.written,
    )
    if found.deleted:
        yield Sentence(
            (
                "%(count)s row that only the lake has is deleted, if the source still "
                "has no such key: all of its keys are read for that"
            )
            if found.deleted == 1
            else (
                "%(count)s rows that only the lake has are deleted, if the source "
                "still has no such keys: all of its keys are read for that"
            ),
            count=found.deleted,
        )
    if follows_log:
        yield Sentence("Changes from its source's log are applied after that")
    else:
        yield Sentence("No sync runs until it ends; the next one begins where it would")
    yield Sentence("Readers see all of it at once, by one commit")


# Of hundreds nobody reads all.
_MOST_NAMES = 10


def joined(found: Joining, *, follows_log: bool) -> Iterator[str]:
    names = found.names
    told = [*names[:_MOST_NAMES], *(["…"] if len(names) > _MOST_NAMES else [])]
    yield Sentence(
        ("%(count)s table of the source is read, and no other: %(names)s")
        if len(names) == 1
        else ("%(count)s tables of the source are read, and no other: %(names)s"),
        count=len(names),
        names=", ".join(told),
    )
    yield Sentence("Until then the table says that it lacks their rows")
    if follows_log:
        yield Sentence("Changes from its source's log are applied after that")
    yield Sentence("Readers see all of it at once, by one commit")


def cleaned(facts: LakeFacts, *, keep_seconds: float) -> Iterator[str]:
    yield from undone_first(facts)
    if begun := [
        p.instant for p in facts.pending if p.action == "clean" and not p.is_held
    ]:
        yield Sentence(
            "A cleaning that was begun is finished: %(instants)s",
            instants=", ".join(begun),
        )
    if facts.strays:
        yield Sentence(
            "Files that no commit lists are deleted: %(count)s", count=facts.strays
        )
    yield _old_files(facts, keep_seconds)
    yield Sentence("Old instants are archived, and savepoints made over 7 days ago end")
    yield Sentence("Readers see the same rows before and after")


def _old_files(facts: LakeFacts, keep_seconds: float) -> str:
    return Sentence(
        (
            "Old versions of files go, %(count)s file of %(size)s is a candidate; "
            "those of the newest ten commits and of the last %(minutes)s minutes stay "
            "for running queries"
        )
        if facts.old_files == 1
        else (
            "Old versions of files go, %(count)s files of %(size)s are candidates; "
            "those of the newest ten commits and of the last %(minutes)s minutes stay "
            "for running queries"
        ),
        count=facts.old_files,
        size=sized(facts.old_bytes),
        minutes=f"{keep_seconds / 60:.0f}",
    )


def compacted(found: Compaction, groups: int) -> Iterator[str]:
    """In the order in which it happens; `groups`: how many file groups there are."""
    if not found.groups_total:
        yield NOTHING_TO_MERGE
        return
    yield compaction_plan(found.instants)
    yield _merged(found, groups)
    yield Sentence(
        "%(read)s are read; %(base)s of base files are written again, and what the log "
        "files add to them",
        read=sized(found.base_bytes + found.log_bytes),
        base=sized(found.base_bytes),
    )
    yield OLD_FILES_STAY


def compaction_plan(instants: Sequence[str]) -> str:
    """instants: of those that are planned."""
    if not instants:
        return Sentence(
            "A compaction is planned over every file group that has log files"
        )
    return Sentence(
        "Planned on the timeline already and executed now: %(instants)s",
        instants=", ".join(instants),
    )


def _merged(found: Compaction, groups: int) -> str:
    return Sentence(
        "%(files)s of %(size)s in %(merged)s of %(groups)s are merged into their base "
        "files",
        files=counted(found.log_files, "log file"),
        size=sized(found.log_bytes),
        merged=found.groups_total,
        groups=counted(groups, "file group"),
    )
