"""Repairs that people ask for: previewed from the lake's files, then queued as jobs.

A preview starts no Spark. What is true when the job runs is looked at again there,
under both leases of the table. It must not know REST.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from catalog.access import audit
from catalog.models import Table
from core.clock import SystemClock
from core.errors import InvalidRequest, StaleState
from core.models import Job
from ingest.changes.rewinding import what_is_missed
from ingest.contract.job import RepairWork
from ingest.contract.kinds import REPAIR
from ingest.contract.members import value_of
from ingest.hudi.timeline import Timeline
from ingest.jobs import lifecycle
from ingest.jobs.specs import keep_seconds
from ingest.lake.commits import read_commit, read_timeline
from ingest.lake.place import place_at
from ingest.lake.port import Place
from ingest.maintenance import repair_descriptions as words
from ingest.maintenance.compacting import Compaction
from ingest.maintenance.facts import LakeFacts, Pending
from ingest.maintenance.health_collector import facts_of
from ingest.maintenance.remedies import Repair, Way, ways_out
from ingest.maintenance.resizing import Resize, plan_resize, words_for
from ingest.maintenance.savepoints import Savepoint, savepoints_on
from ingest.models import Pipeline
from ingest.models.states import REMOVING
from ingest.pipelines.schema_diff import source_changed
from ingest.pipelines.transitions import locked_pipeline, pipeline_of
from ingest.planning.plan import plan_from_json


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


def preview(table: Table, work: RepairWork) -> Preview:
    """InvalidRequest when there is nothing of this kind to repair."""
    facts = facts_of(table, now=SystemClock().now())
    if work.action == "deduplicate":
        return Preview(str(table), "deduplicate", (), tuple(words.deduplicated(facts)))
    if work.action == "savepoint":
        return Preview(str(table), "savepoint", (), tuple(words.kept(facts)))
    if work.action == "restore":
        return _restore(table, facts, work)
    if work.action == "resize":
        found = plan_resize(str(table), facts, work.buckets)
        will = (*words.undone_first(facts), *words_for(found, facts))
        return Preview(str(table), "resize", (), will, resize=found)
    if work.action == "drop-metadata-table":
        will = tuple(_drop_words(table, facts))
        return Preview(str(table), "drop-metadata-table", (), will)
    if work.action == "clean":
        will = tuple(words.cleaned(facts, keep_seconds=keep_seconds()))
        return Preview(str(table), "clean", (), will)
    pending = _wanted(table, facts, work)
    told = words.rolled_back if work.action == "rollback" else words.taken_off
    lines = [line for one in pending for line in told(one)]
    if work.action == "rollback":
        lines[:0] = words.meddled(facts)
    if any(p.is_held for p in pending):
        lines.insert(0, "A job works on it now: this waits until that has ended")
    if work.replan:
        lines.append("Then a new compaction is planned over everything there is")
    lines.append("Readers see the same rows before and after")
    return Preview(str(table), work.action, pending, tuple(lines))


def _wanted(table: Table, facts: LakeFacts, work: RepairWork) -> tuple[Pending, ...]:
    repair: Repair = (
        "rollback" if work.action == "rollback" else "unschedule-compaction"
    )
    found = tuple(p for p in facts.pending if _is_meant(p, Way(repair, work.instant)))
    left = facts.taken or facts.altered or facts.future
    meddled = work.action == "rollback" and left
    if found or (meddled and not work.instant):
        return found
    what = "unfinished" if work.action == "rollback" else "planned"
    which = f" at {work.instant}" if work.instant else ""
    raise InvalidRequest(
        f"{table} has nothing {what}{which}",
        code="nothing_to_do",
        hint=_instead(facts, work),
        facts={"pending": [p.instant for p in facts.pending]},
    )


def _is_meant(pending: Pending, wanted: Way) -> bool:
    return any(
        way.repair == wanted.repair and wanted.instant in {"", way.instant}
        for way in ways_out(pending)
    )


def _instead(facts: LakeFacts, work: RepairWork) -> str:
    named = next((p for p in facts.pending if p.instant == work.instant), None)
    if named is not None and named.action == "compaction":
        return "it is planned only: :compact executes it, :unschedule-compaction not"
    if named is not None:
        way = next(iter(ways_out(named)), None)
        if way is None:
            return f"no repair ends {named.action} {named.instant}: its writer has to"
        asked = f"with instant {way.instant}" if way.instant else "without an instant"
        return f":{way.repair} {asked} ends this {named.action}"
    return "GET its health to see what is pending"


def _restore(table: Table, facts: LakeFacts, work: RepairWork) -> Preview:
    base = place_at(table.path)
    timeline = read_timeline(base)
    if work.instant not in timeline.savepoints:
        raise InvalidRequest(
            f"{table} has no savepoint {work.instant or 'named'}",
            code="unknown_instant",
            hint="GET its savepoints",
            facts={"savepoints": list(timeline.savepoints)},
        )
    later = [i.asked for i in timeline.writes_after(work.instant)]
    will = [
        f"Commits after savepoint {work.instant} are taken away ({len(later)}):"
        " readers see the rows of that moment",
        "The capture position goes back with them",
        "This cannot be undone",
    ]
    if ended := [i for i in timeline.savepoints if i in later]:
        will.insert(
            1,
            f"Savepoints of those commits end: {', '.join(ended)}. Nobody can go back"
            " to them any more",
        )
    will[:0] = words.undone_first(facts)
    misses = list(what_is_missed(table.cursor, _position_at(base, timeline, work)))
    pipeline = pipeline_of(table.pk)
    if pipeline and (
        altered := source_changed(pipeline, plan_from_json(pipeline.plan))
    ):
        misses.append(f"Since it was onboarded, {altered.message}")
    return Preview(
        str(table), "restore", (), tuple(will), misses=tuple(misses), then="resync"
    )


def _position_at(base: Place, timeline: Timeline, work: RepairWork) -> str:
    """Where capture was at the savepoint; "" when its commit cannot tell."""
    kept = timeline.find(work.instant)
    if kept is None or kept.state != "COMPLETED":
        return ""
    position = read_commit(base, kept).position
    return position.end if position else ""


def _drop_words(table: Table, facts: LakeFacts) -> Sequence[str]:
    if not facts.foreign_index:
        raise InvalidRequest(
            f"{table} has no metadata table, as it should be",
            code="nothing_to_do",
            hint="GET its health to see what costs points",
        )
    return [
        "The metadata table that another writer made is removed, with its partitions"
        f" {', '.join(facts.foreign_index)}",
        "Readers list the table's folders again: they see every row that was committed",
        "No row is read or written; no round runs meanwhile",
        "The next commit or compaction would do it, too; it comes back when that writer"
        " writes again, which it should not",
    ]


def start_repair(table: Table, work: RepairWork, *, actor: str) -> Job:
    """Queue it; StaleState when another repair of the table waits already."""
    with transaction.atomic():
        pipeline = locked_pipeline(table)
        _require_sense(table, work, pipeline)
        job = lifecycle.new_job(pipeline, REPAIR, actor=actor)
        wanted: dict[str, Any] = dataclasses.asdict(work)
        job.payload = job.payload | {"repair": wanted}
        found = lifecycle.start_jobs([job])[0]
        if found.payload.get("repair") != wanted:
            raise StaleState(
                f"another repair of {table} waits already",
                code="already_queued",
                hint="wait for it or cancel it, then ask again",
                facts={"job": str(found.pk)},
            )
        said = named(found)
        verb = f"table.{said.pop('repair')}"
        audit.record(verb, on=str(table), actor=actor, job=str(found.pk), **said)
        return found


def named(job: Job) -> dict[str, Any]:
    """Which repair a job is, as the audit tells it: its verb, and what it is about."""
    said = dict(job.payload["repair"])
    action = said.pop("action")
    verb = "unschedule-compaction" if action == "unschedule" else action
    return {"repair": verb, **said}


def require_worth_repeating(job: Job, pipeline: Pipeline) -> None:
    """What is asked of a new repair, for one that ended without success. One that was
    cut off half way may be gone on with, though it would find nothing to begin."""
    table, work = pipeline.lake_table, value_of(RepairWork, job.payload["repair"])
    assert table is not None
    try:
        _require_sense(table, work, pipeline)
    except InvalidRequest as refusal:
        if refusal.code != "nothing_to_do" or not _is_begun(job, table, work):
            raise


def _require_sense(table: Table, work: RepairWork, pipeline: Pipeline) -> None:
    if not table.is_queryable or pipeline.state == REMOVING:
        raise InvalidRequest(
            f"cannot repair {table}: it is {pipeline.state}",
            code="not_now",
            hint="its load has to be done, and it must not be removed",
        )
    if work.action not in {"deduplicate", "savepoint"}:
        preview(table, work)


def _is_begun(job: Job, table: Table, work: RepairWork) -> bool:
    if work.action == "rollback":
        found = read_timeline(place_at(table.path)).instants
        return any(i.action == "rollback" and i.state != "COMPLETED" for i in found)
    # rows that were put into their buckets are compared, a new plan is made
    return bool(job.attempts) and (work.action == "resize" or work.replan)


def savepoints_of(table: Table) -> tuple[Savepoint, ...]:
    """From the timeline as it is now."""
    return savepoints_on(read_timeline(place_at(table.path))) if table.path else ()
