"""Executing compactions by explicit instants, one committer each.

Writers schedule them; this runs in the maintenance lane under the service lease,
cleans and archives afterwards. Success is what the timeline shows.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from core.errors import InvalidRequest, TerminalError
from core.sentences import Sentence
from ingest.contract.job import CompactionBudget, CompactWork, JobSpec
from ingest.driver.apply.apply import remove_sign_of_life, service_session, write_client
from ingest.driver.apply.jobrun import JobRun
from ingest.driver.apply.writer import checked_state, qualified_name
from ingest.driver.jvm import failure_of
from ingest.driver.table_services.cleaning import tidy
from ingest.driver.table_services.pace import LITTLE_BYTES, LOOKS_EACH, Pace
from ingest.lake.commits import read_lake_table, read_timeline, timeline_at
from ingest.lake.hudi.budget import Choice, choose, credit_after, first_credit
from ingest.lake.hudi.descriptions import STATES
from ingest.lake.hudi.layout import GroupKey
from ingest.lake.hudi.options import chosen_options
from ingest.lake.hudi.timeline import Timeline, instant_of
from ingest.lake.layout import read_compaction_plan, read_layout
from ingest.lake.place import place_at
from ingest.lake.upkeep import read_written
from ingest.sources.failures import BEGUN_ELSEWHERE


def compact_table(run: JobRun, spark: SparkSession) -> dict[str, Any]:
    """Kind compact; returns the executed instants and how long it took."""
    spec = run.spec
    started = time.monotonic()
    run.enter("checking")
    checked_state(spec)
    session = service_session(spark, spec)
    wanted = (spec.compact or CompactWork()).instants or _planned_now(spark, spec)
    run.enter("compacting", total=len(wanted), unit="plans")
    for asked in wanted:
        run.check()
        _execute(session, spec, asked)
        run.add_done(1)
    run.enter("cleaning", unit="steps")
    tidy(spark, spec)
    return {
        "instants": list(wanted),
        "seconds": round(time.monotonic() - started, 3),
    }


def plan_when_due(
    spark: SparkSession,
    spec: JobSpec,
    timeline: Timeline | None = None,
    *,
    pace: Pace | None = None,
) -> tuple[str, ...]:
    """After a commit of a sync: each `compact_after`th one plans what the budget
    allows, everything without one, unless a plan waits already. The instants of the new
    plan. What `pace` makes wait comes with a later turn."""
    timeline = timeline or timeline_at(spec.table.path)
    commits, turn = timeline.deltas_since_compaction, max(1, spec.compact_after)
    is_turn = commits >= turn and (spec.budget is None or commits % turn == 0)
    if not is_turn or timeline.pending_compactions:
        return ()
    if pace is not None and not pace.is_open and commits // turn % LOOKS_EACH:
        return ()
    return _planned_now(spark, spec, pace)


def _planned_now(
    spark: SparkSession, spec: JobSpec, pace: Pace | None = None
) -> tuple[str, ...]:
    if spec.budget is None:
        return schedule_compaction(spark, spec)
    chosen = chosen_groups(spec.table.path, spec.budget, now=datetime.now(UTC))
    if not chosen.groups:
        return ()
    is_little = chosen.rewrite_bytes <= LITTLE_BYTES
    if pace is not None and is_little and not pace.take():
        return ()
    return schedule_compaction(spark, spec, chosen.keys)


def schedule_compaction(
    spark: SparkSession, spec: JobSpec, groups: Collection[GroupKey] | None = None
) -> tuple[str, ...]:
    """A new plan over these file groups, None = over everything there is; the pending
    ones when nothing new is."""
    before = {i.asked for i in timeline_at(spec.table.path).pending_compactions}
    options = {} if groups is None else chosen_options(groups)
    options["hoodie.compact.inline.max.delta.commits"] = "1"
    jvm: Any = spark._jvm
    with write_client(spark, spec, options) as client:
        client.scheduleCompaction(jvm.org.apache.hudi.common.util.Option.empty())
    after = {i.asked for i in timeline_at(spec.table.path).pending_compactions}
    return tuple(sorted(after - before or after))


def _execute(session: SparkSession, spec: JobSpec, asked: str) -> None:
    instant = timeline_at(spec.table.path).find(asked)
    if instant is not None and instant.state == "COMPLETED":
        return  # a former attempt of this job got that far
    if instant is None or instant.action != "compaction":
        raise InvalidRequest(
            "%(table)s has no compaction %(asked)s",
            table=qualified_name(spec),
            asked=asked,
            code="unknown_instant",
            hint="read the table's timeline again",
        )
    if not read_compaction_plan(spec.table.path, asked).is_readable:
        raise TerminalError(
            "the request of compaction %(asked)s of %(table)s is gone or"
            " damaged: it can neither be executed nor undone",
            asked=asked,
            table=qualified_name(spec),
            code="plan_unreadable",
            hint="unschedule it: the table's health page offers that",
        )
    # An inflight one was left by a dead compactor, for we hold the service lease:
    # Hudi undoes its files before it executes the plan again.
    try:
        session.sql(
            f"CALL run_compaction(op => 'execute', path => {_path(spec)},"
            f" instants => '{asked}')"
        ).collect()
    except (Py4JJavaError, PySparkException) as error:
        if failure_of(error).error.code != BEGUN_ELSEWHERE:
            remove_sign_of_life(spec, asked)
        raise
    done = timeline_at(spec.table.path).find(asked)
    if done is None or done.state != "COMPLETED":
        state = Sentence("gone") if done is None else STATES.get(done.state, done.state)
        raise TerminalError(
            "compaction %(asked)s of %(table)s did not complete: %(state)s",
            asked=asked,
            table=qualified_name(spec),
            state=state,
            code="compaction_incomplete",
            hint="run it again; readers see the table as before",
        )


def pending_compactions(spec: JobSpec) -> list[str]:
    return list(read_lake_table(spec.table.path, commits=1).pending_compactions)


def _path(spec: JobSpec) -> str:
    return sql_text(place_at(spec.table.path).uri)


def sql_text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def chosen_groups(path: str, budget: CompactionBudget, *, now: datetime) -> Choice:
    """What is worth a compaction now, and affordable."""
    base = place_at(path)
    timeline = read_timeline(base)
    groups = read_layout(path, timeline).groups
    if budget.counted.upto:
        _, wrote = read_written(base, timeline, budget.counted)
        credit = credit_after(
            budget.credit,
            [(one.action, one.bytes) for one in wrote],
            amplification=budget.amplification,
            most=sum(g.base_bytes + g.log_bytes for g in groups),
        )
    else:
        credit = first_credit(groups, amplification=budget.amplification)
    return choose(groups, credit=credit, old_before=old_before(budget, now))


def old_before(budget: CompactionBudget, now: datetime) -> str:
    """The instant before which a log file is old."""
    return instant_of(now - timedelta(seconds=budget.log_age))
