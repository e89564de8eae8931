"""What a repair or a compaction would do to a table as it is now, in the sentences of
its reader's language."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from django.utils.translation import gettext, ngettext

from ingest.lake.hudi.timeline import WRITES
from ingest.maintenance.compacting import Compaction
from ingest.maintenance.descriptions import sized
from ingest.maintenance.facts import LakeFacts, Pending

if TYPE_CHECKING:
    from ingest.maintenance.repair_previews import Rereading
    from ingest.pipelines.shard_joins import Joining


def externally_modified(facts: LakeFacts) -> Sequence[str]:
    lines = [
        gettext(
            "The table's lock for %(scope)s is taken back: the owner that put "
            "%(found)s there is refused from then on, and jobs that wait go on"
        )
        % {"scope": t.scope, "found": t.found}
        for t in facts.taken
    ]
    if facts.altered:
        said = "; ".join(facts.altered)
        lines.append(
            gettext("hoodie.properties goes back to what was planned: %(changes)s")
            % {"changes": said}
        )
    if facts.future:
        lines += [*plans_first(facts), *_out_of_the_future(facts)]
    return lines


def _out_of_the_future(facts: LakeFacts) -> Sequence[str]:
    text = ngettext(
        "Rewrites the table with the current time, because a driver with a fast clock "
        "made %(count)s commit dated in the future, such as %(instant)s in UTC",
        "Rewrites the table with the current time, because a driver with a fast clock "
        "made %(count)s commits dated in the future, such as %(instant)s in UTC",
        len(facts.future),
    )
    return [
        text % {"count": len(facts.future), "instant": facts.future[-1]},
        gettext(
            "Then the instants of the future are taken off the timeline, with the "
            "files that they wrote and savepoints made by them; capture goes on at "
            "its position"
        ),
    ]


def rolled_back(pending: Pending) -> Sequence[str]:
    if pending.action == "rollback":
        return [
            gettext(
                "Rollback %(instant)s, which was begun, is finished with what it undoes"
            )
            % {"instant": pending.instant}
        ]
    if pending.action != "compaction":
        return [
            gettext(
                "What %(action)s %(instant)s wrote is removed; it was never visible, "
                "and its rows come again with the next sync"
            )
            % {"action": pending.action, "instant": pending.instant}
        ]
    return [
        _attempt_removed(pending),
        gettext("Its plan%(extent)s stays and is executed again")
        % {"extent": _extent(pending)},
    ]


def _attempt_removed(pending: Pending) -> str:
    text = gettext(
        "What the unfinished attempt of compaction %(instant)s wrote is removed"
    )
    return text % {"instant": pending.instant}


def taken_off(pending: Pending) -> Sequence[str]:
    if not pending.is_readable:
        return [
            gettext(
                "Compaction %(instant)s is taken off the timeline, and what an attempt "
                "of it wrote is removed by name, for its request cannot be read"
            )
            % {"instant": pending.instant},
            gettext("The table can be read and written again"),
        ]
    lines = []
    if pending.state == "INFLIGHT":
        lines.append(_attempt_removed(pending))
    return [
        *lines,
        gettext("Compaction %(instant)s%(extent)s is taken off the timeline")
        % {"instant": pending.instant, "extent": _extent(pending)},
        gettext("Its log files stay and are merged by the next plan"),
    ]


def _extent(pending: Pending) -> str:
    plan = pending.plan
    if plan is None or not plan.groups:
        return ""
    text = ngettext(
        " (%(count)s file group, %(size)s of log files)",
        " (%(count)s file groups, %(size)s of log files)",
        plan.groups,
    )
    return text % {"count": plan.groups, "size": sized(plan.log_bytes)}


def undone_first(facts: LakeFacts) -> Sequence[str]:
    """What writers that are dead left goes before anything is kept or written."""
    left = [p for p in facts.pending if p.action in WRITES and not p.is_held]
    return [line for one in left for line in rolled_back(one)]


def plans_first(facts: LakeFacts) -> Sequence[str]:
    if not facts.pending_compactions:
        return []
    text = gettext(
        "Compactions that are planned are taken off the timeline first: %(count)s"
    )
    return [text % {"count": len(facts.pending_compactions)}]


def kept(facts: LakeFacts) -> Sequence[str]:
    return [
        *undone_first(facts),
        *plans_first(facts),
        gettext("What the table is now can be gone back to, for 7 days"),
        gettext("Until then its present files are not cleaned away"),
    ]


def deduplicated(facts: LakeFacts) -> Sequence[str]:
    lines = [
        gettext(
            "Every row is read once and counted by its key; without duplicates nothing "
            "is written"
        ),
    ]
    if facts.conflicts_total:
        text = gettext("Buckets with several file groups now: %(count)s")
        lines.append(text % {"count": facts.conflicts_total})
    return [
        *lines,
        *undone_first(facts),
        *plans_first(facts),
        gettext("A savepoint keeps what is there now"),
        gettext(
            "One commit replaces the table by one row per key: the newest one stays"
        ),
        gettext(
            "The result is compared with what was kept; capture goes on at its position"
        ),
        gettext("No sync runs until it ends"),
    ]


def read_again(found: Rereading, *, follows_log: bool) -> Iterator[str]:
    text = ngettext(
        "%(chunks)s of %(count)s part of the source is read again, in which the "
        "newest verification found differences",
        "%(chunks)s of %(count)s parts of the source are read again, in which the "
        "newest verification found differences",
        found.of,
    )
    yield text % {"chunks": found.chunks, "count": found.of}
    text = ngettext(
        "%(count)s row that the lake lacks, or has with other values, is written as "
        "the source has it then",
        "%(count)s rows that the lake lacks, or has with other values, are written as "
        "the source has them then",
        found.written,
    )
    yield text % {"count": found.written}
    if found.deleted:
        text = ngettext(
            "%(count)s row that only the lake has is deleted, if the source still has "
            "no such key: all of its keys are read for that",
            "%(count)s rows that only the lake has are deleted, if the source still "
            "has no such keys: all of its keys are read for that",
            found.deleted,
        )
        yield text % {"count": found.deleted}
    if follows_log:
        yield gettext("Changes from its source's log are applied after that")
    else:
        yield gettext("No sync runs until it ends; the next one begins where it would")
    yield gettext("Readers see all of it at once, by one commit")


# Of hundreds nobody reads all.
_MOST_NAMES = 10


def joined(found: Joining, *, follows_log: bool) -> Iterator[str]:
    names = found.names
    text = ngettext(
        "%(count)s table of the source is read, and no other: %(names)s",
        "%(count)s tables of the source are read, and no other: %(names)s",
        len(names),
    )
    told = [*names[:_MOST_NAMES], *(["…"] if len(names) > _MOST_NAMES else [])]
    yield text % {"count": len(names), "names": ", ".join(told)}
    yield gettext("Until then the table says that it lacks their rows")
    if follows_log:
        yield gettext("Changes from its source's log are applied after that")
    yield gettext("Readers see all of it at once, by one commit")


def cleaned(facts: LakeFacts, *, keep_seconds: float) -> Sequence[str]:
    begun = [p.instant for p in facts.pending if p.action == "clean" and not p.is_held]
    lines = [*undone_first(facts)]
    if begun:
        text = gettext("A cleaning that was begun is finished: %(instants)s")
        lines.append(text % {"instants": ", ".join(begun)})
    if facts.strays:
        text = gettext("Files that no commit lists are deleted: %(count)s")
        lines.append(text % {"count": facts.strays})
    return [
        *lines,
        _old_files(facts, keep_seconds),
        gettext("Old instants are archived, and savepoints made over 7 days ago end"),
        gettext("Readers see the same rows before and after"),
    ]


def _old_files(facts: LakeFacts, keep_seconds: float) -> str:
    text = ngettext(
        "Old versions of files go, %(count)s file of %(size)s is a candidate; those of "
        "the newest ten commits and of the last %(minutes)s minutes stay for running "
        "queries",
        "Old versions of files go, %(count)s files of %(size)s are candidates; those "
        "of the newest ten commits and of the last %(minutes)s minutes stay for "
        "running queries",
        facts.old_files,
    )
    return text % {
        "count": facts.old_files,
        "size": sized(facts.old_bytes),
        "minutes": f"{keep_seconds / 60:.0f}",
    }


def compacted(found: Compaction, groups: int) -> Iterator[str]:
    """In the order in which it happens; `groups`: how many file groups there are."""
    if not found.groups_total:
        yield gettext(
            "No log file is there to merge; old files and instants are tidied up"
        )
        return
    if found.instants:
        names = ", ".join(found.instants)
        text = gettext("Planned on the timeline already and executed now: %(instants)s")
        yield text % {"instants": names}
    else:
        yield gettext(
            "A compaction is planned over every file group that has log files"
        )
    yield _merged(found, groups)
    yield gettext(
        "%(read)s are read; %(base)s of base files are written again, and what the log "
        "files add to them"
    ) % {
        "read": sized(found.base_bytes + found.log_bytes),
        "base": sized(found.base_bytes),
    }
    yield gettext("The old files stay for running queries until they are cleaned")


def _merged(found: Compaction, groups: int) -> str:
    text = gettext(
        "%(files)s of %(size)s in %(merged)s of %(groups)s are merged into their base "
        "files"
    )
    files = ngettext("%(count)s log file", "%(count)s log files", found.log_files)
    every = ngettext("%(count)s file group", "%(count)s file groups", groups)
    return text % {
        "files": files % {"count": found.log_files},
        "size": sized(found.log_bytes),
        "merged": found.groups_total,
        "groups": every % {"count": groups},
    }
