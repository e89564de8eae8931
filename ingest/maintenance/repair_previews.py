"""What a repair would do to a table as it is now. Starts no Spark, changes nothing.

One function each, for `ingest.maintenance.repair_actions`: InvalidRequest where there
is nothing of this kind to repair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from catalog.models import Table
from core.errors import InvalidRequest
from core.sentences import Sentence
from ingest.contract.job import RepairWork
from ingest.jobs.kinds import keep_seconds
from ingest.lake.commits import read_commit, read_timeline
from ingest.lake.hudi.descriptions import named
from ingest.lake.hudi.timeline import Timeline
from ingest.lake.place import place_at
from ingest.lake.port import Place
from ingest.maintenance import repair_descriptions as words
from ingest.maintenance.compacting import Compaction
from ingest.maintenance.facts import LakeFacts, Pending
from ingest.maintenance.remedies import Way, ways_out
from ingest.maintenance.resizing import Resize, plan_resize, words_for
from ingest.maintenance.rewinding import what_is_missed
from ingest.maintenance.verification_schedule import found_by
from ingest.pipelines import shard_joins
from ingest.pipelines.schema_diff import source_changed
from ingest.pipelines.transitions import pipeline_of, require_pipeline
from ingest.planning.facts import LOG
from ingest.planning.plan import plan_from_json

NOTHING = {
    "rollback": (
        "%(table)s has nothing unfinished",
        "%(table)s has nothing unfinished at %(asked)s",
    ),
    "": ("%(table)s has nothing planned", "%(table)s has nothing planned at %(asked)s"),
}
# of the actions that end what is pending
TITLES: Mapping[str, Sentence] = {
    "clean": Sentence("Clean"),
    "restore": Sentence("Restore"),
    "rollback": Sentence("Roll back"),
}


@dataclass(frozen=True, slots=True)
class Preview:
    """What a repair or a compaction would do now. will: in sentences, in order.

    misses  what it cannot bring back; `then` is the action that does
    """

    table: str
    action: str
    instants: tuple[Pending, ...]
    will: tuple[str, ...]
    misses: tuple[str, ...] = ()
    then: str = ""
    resize: Resize | None = None
    compaction: Compaction | None = None
    repair: words.Rereading | None = None


def preview_rollback(table: Table, facts: LakeFacts, work: RepairWork) -> Preview:
    left = facts.taken or facts.altered or facts.future
    is_meddled = bool(left) and not work.instant
    pending = _wanted(
        table, facts, Way("rollback", work.instant), or_nothing=is_meddled
    )
    lines = _each(pending, words.rolled_back, before=words.externally_modified(facts))
    return Preview(str(table), work.action, pending, (*lines, _same_rows()))


def preview_unschedule(table: Table, facts: LakeFacts, work: RepairWork) -> Preview:
    pending = _wanted(table, facts, Way("unschedule-compaction", work.instant))
    lines = _each(pending, words.taken_off)
    if work.replan:
        lines.append(
            Sentence("Then a new compaction is planned over everything there is")
        )
    return Preview(str(table), work.action, pending, (*lines, _same_rows()))


def preview_deduplication(table: Table, facts: LakeFacts, work: RepairWork) -> Preview:
    return Preview(str(table), work.action, (), tuple(words.deduplicated(facts)))


def preview_savepoint(table: Table, facts: LakeFacts, work: RepairWork) -> Preview:
    return Preview(str(table), work.action, (), tuple(words.kept(facts)))


def preview_cleaning(table: Table, facts: LakeFacts, work: RepairWork) -> Preview:
    will = tuple(words.cleaned(facts, keep_seconds=keep_seconds()))
    return Preview(str(table), work.action, (), will)


def preview_resize(table: Table, facts: LakeFacts, work: RepairWork) -> Preview:
    found = plan_resize(str(table), facts, work.buckets)
    will = (*words.undone_first(facts), *words_for(found, facts))
    return Preview(str(table), work.action, (), will, resize=found)


def preview_repair(table: Table, facts: LakeFacts, work: RepairWork) -> Preview:
    pipeline = pipeline_of(table.pk)
    found = found_by(pipeline) if pipeline else {}
    if pipeline is None or pipeline.verdict != "different" or not found:
        raise InvalidRequest(
            "no verification of %(table)s stands that found a difference",
            table=table,
            code="nothing_to_do",
            hint="verify the table first; a load or a repair since makes that void",
        )
    again = found.get("repair")
    if not again:
        raise InvalidRequest(
            "what differs in %(table)s cannot be repaired by its keys: it has none,"
            " it keeps values that are NULL at the source, or more than a million"
            " differ",
            table=table,
            code="not_repairable",
            hint="resync the table",
        )
    written = int(found["missing"]) + int(found["different"])
    told = words.Rereading(**again, written=written, deleted=int(found["extra"]))
    follows_log = pipeline.capture == LOG
    will = (
        *words.undone_first(facts),
        *words.read_again(told, follows_log=follows_log),
    )
    return Preview(str(table), work.action, (), will, repair=told)


def preview_join(table: Table, facts: LakeFacts, work: RepairWork) -> Preview:
    pipeline = require_pipeline(table)
    will = (
        *words.undone_first(facts),
        *words.joined(
            shard_joins.foresee(pipeline), follows_log=pipeline.capture == LOG
        ),
    )
    return Preview(str(table), work.action, (), will)


def preview_restore(table: Table, facts: LakeFacts, work: RepairWork) -> Preview:
    base = place_at(table.path)
    timeline = read_timeline(base)
    if work.instant not in timeline.savepoints:
        none = Sentence(
            "%(table)s has no savepoint %(asked)s", table=table, asked=work.instant
        )
        if not work.instant:
            none = Sentence("no savepoint of %(table)s is named", table=table)
        raise InvalidRequest(
            none,
            code="unknown_instant",
            hint="choose one of its savepoints",
            facts={"savepoints": list(timeline.savepoints)},
        )
    later = [i.asked for i in timeline.writes_after(work.instant)]
    will: list[str] = [
        Sentence(
            "Commits after savepoint %(instant)s are taken away (%(count)s): readers "
            "see the rows of that moment",
            instant=work.instant,
            count=len(later),
        ),
        Sentence("The capture position goes back with them"),
        Sentence("This cannot be undone"),
    ]
    if ended := [i for i in timeline.savepoints if i in later]:
        will.insert(
            1,
            Sentence(
                "Savepoints of those commits end: %(instants)s. They cannot be "
                "restored any more",
                instants=", ".join(ended),
            ),
        )
    will[:0] = words.undone_first(facts)
    position = _position_at(base, timeline, work)
    pipeline = pipeline_of(table.pk)
    follows_log = pipeline is not None and pipeline.capture == LOG
    misses = list(what_is_missed(table.cursor, position, follows_log=follows_log))
    if pipeline and (
        altered := source_changed(pipeline, plan_from_json(pipeline.plan))
    ):
        misses.append(
            Sentence("Since it was onboarded, %(change)s", change=altered.message)
        )
    return Preview(
        str(table), work.action, (), tuple(will), misses=tuple(misses), then="resync"
    )


def preview_metadata_drop(table: Table, facts: LakeFacts, work: RepairWork) -> Preview:
    if not facts.foreign_index:
        raise InvalidRequest(
            "%(table)s has no metadata table, as it should be",
            table=table,
            code="nothing_to_do",
            hint="its health shows what costs points",
        )
    will = (
        Sentence(
            "The metadata table that another writer made is removed, with its "
            "partitions %(names)s",
            names=", ".join(facts.foreign_index),
        ),
        Sentence(
            "Readers list the table's folders again: they see every row that was "
            "committed"
        ),
        Sentence("No row is read or written; no sync runs until it ends"),
        Sentence(
            "The next commit or compaction would do it, too; it comes back when that "
            "writer writes again, which it should not"
        ),
    )
    return Preview(str(table), work.action, (), will)


def _each(
    pending: tuple[Pending, ...],
    describe: Callable[[Pending], Iterable[str]],
    *,
    before: Iterable[str] = (),
) -> list[str]:
    lines = [*before, *(line for one in pending for line in describe(one))]
    if any(p.is_held for p in pending):
        lines.insert(0, waits_for_a_job())
    return lines


def waits_for_a_job() -> str:
    return Sentence("A job works on it now: this waits until that has ended")


def _same_rows() -> str:
    return Sentence("Readers see the same rows before and after")


def _wanted(
    table: Table, facts: LakeFacts, way: Way, *, or_nothing: bool = False
) -> tuple[Pending, ...]:
    found = tuple(p for p in facts.pending if _is_meant(p, way))
    if found or or_nothing:
        return found
    nothing, nothing_there = NOTHING["rollback" if way.repair == "rollback" else ""]
    raise InvalidRequest(
        nothing_there if way.instant else nothing,
        table=table,
        asked=way.instant,
        code="nothing_to_do",
        hint=_instead(facts, way.instant),
        facts={"pending": [p.instant for p in facts.pending]},
    )


def _is_meant(pending: Pending, wanted: Way) -> bool:
    return any(
        way.repair == wanted.repair and wanted.instant in {"", way.instant}
        for way in ways_out(pending)
    )


def _instead(facts: LakeFacts, instant: str) -> str:
    there = next((p for p in facts.pending if p.instant == instant), None)
    if there is not None and there.action == "compaction":
        return "it is planned only: a compaction executes it, unscheduling removes it"
    if there is not None:
        name = named(there.action, there.instant)
        way = next(iter(ways_out(there)), None)
        if way is None:
            return Sentence("no repair ends %(name)s: its writer has to", name=name)
        title = TITLES[way.repair]
        if not way.instant:
            return Sentence(
                "'%(repair)s' without instant ends %(name)s", repair=title, name=name
            )
        return Sentence(
            "'%(repair)s' with instant %(instant)s ends %(name)s",
            repair=title,
            instant=way.instant,
            name=name,
        )
    return "its health shows what is pending"


def _position_at(base: Place, timeline: Timeline, work: RepairWork) -> str:
    """Where capture was at the savepoint; "" when its commit cannot tell."""
    kept = timeline.find(work.instant)
    if kept is None or kept.state != "COMPLETED":
        return ""
    position = read_commit(base, kept).position
    return position.end if position else ""
