"""What sessions report of tables that they apply: gathered, written once a second, and
problems as they come. What is applied is in the lake; rows show it.

It is in the host's memory, which may be lost: the next session reports where each
table stands. Must not know leases.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

from django.utils import timezone

from core import outbox
from core.database_errors import is_away
from core.errors import SluiceError, StaleState, TransientError
from core.jobs import SUCCEEDED
from core.models import Job
from core.outbox import NewEvent
from core.sentences import Sentence, stored
from ingest.contract.applying import (
    COLUMNS_UNDECIDED,
    ENDED_BY_LOADS,
    LEFT_LOG,
    Applied,
    ApplyProblem,
    ApplyReport,
    added,
    columns_mark,
)
from ingest.contract.job import error_from
from ingest.jobs.kinds import spec_by_plan
from ingest.models import Pipeline, states
from ingest.pipelines import (
    compaction_plans,
    schema_diff,
    shards,
    sync_job,
    transitions,
)
from ingest.pipelines.applied_rows import AppliedRows, Known, act_alone
from ingest.pipelines.apply_work import WantedStream
from ingest.pipelines.lake_reconcile import healed
from ingest.pipelines.schema_drift import ACTOR, NOT_ALL, NOT_TOLD, READ, settle
from ingest.pipelines.table_job import stop_table
from ingest.pipelines.table_status import SYNCS_BEFORE_FAILING

log = logging.getLogger(__name__)

WRITE_SECONDS = 1.0
RATE_SECONDS = 10.0
# Tables without changes get no newer rows, only a newer moment; of many of them no more
# than so many a second, so that they take little while nothing happens.
LEVEL_SECONDS, MOST_LEVEL_SECONDS = 5.0, 30.0
LEVELED_A_SECOND = 25.0
# What a session saw of a timeline is at most so old when it is written.
SEEN_WITHIN = timedelta(seconds=10)
# The follower asks for a look, too, and tells what that cannot see: it comes first.
FOLLOWER_FIRST = timedelta(seconds=5)
# Between two looks at shards of which some have columns that others are to get yet.
LOOK_AGAIN = timedelta(minutes=1)
# Between two looks at a lake that has a table's commit by its cursor.
GO_OVER_SECONDS = 10.0
# A load replaces all that a session may have met before it gave the table up.
_WAITS_FOR_LOAD = states.LOADING | {states.NEEDS_RESYNC}


@dataclass(frozen=True, slots=True)
class _Look:
    """A table's columns are read, for its rows wait for some of them. words, plan: for
    which, and by which columns that was met; met: when."""

    words: str
    plan: str
    met: datetime
    job: UUID | None = None

    def is_answered_by(self, job: Job | None) -> bool | None:
        """None while it goes on. One that began before may not have seen them."""
        if job is None or (job.is_finished and job.state != SUCCEEDED):
            return False
        if not job.is_finished:
            return None
        return job.created_at >= self.met


@dataclass(slots=True)
class _Rate:
    """Rows a second over about `RATE_SECONDS`. at: when it was last asked for."""

    at: float
    rows: float = 0.0

    def after(self, rows: int, now: float) -> float:
        passed = max(now - self.at, 0.001)
        kept = math.exp(-passed / RATE_SECONDS)
        self.at, self.rows = now, self.rows * kept + rows / passed * (1 - kept)
        return round(self.rows, 2)


@dataclass(slots=True)
class Gathered:
    """standing: of each table that a session holds, where it was last; stopped: those
    of which it reports a problem."""

    _known: dict[int, Known] = field(default_factory=dict)
    _standing: dict[int, Applied] = field(default_factory=dict)
    _held: dict[str, frozenset[int]] = field(default_factory=dict)
    _stopped: dict[str, frozenset[int]] = field(default_factory=dict)
    _fresh: dict[int, Applied] = field(default_factory=dict)
    _problems: dict[int, ApplyProblem] = field(default_factory=dict)
    _told: dict[int, str] = field(default_factory=dict)
    _rates: dict[int, _Rate] = field(default_factory=dict)
    _looks: dict[int, _Look] = field(default_factory=dict)
    _went_over: dict[int, float] = field(default_factory=dict)
    _written: float = 0.0
    _leveled: float = 0.0

    def expect(self, wanted: Mapping[str, WantedStream]) -> None:
        # one that is not wanted any more is reported of until it is given up
        self._known |= {
            table_id: Known(stream.source.datasource_id, each.policy)
            for stream in wanted.values()
            for table_id, each in stream.tables.items()
        }

    def add(self, report: ApplyReport) -> None:
        for given_up in self._held.get(report.stream, frozenset()) - {*report.held}:
            self._standing.pop(given_up, None)
        self._held[report.stream] = frozenset(report.held)
        stopped = frozenset(problem.table_id for problem in report.problems)
        self._stopped[report.stream] = stopped
        for each in report.applied:
            self._standing[each.table_id] = each
            if each.table_id in stopped:
                continue  # only more waits for it
            before = self._fresh.get(each.table_id)
            self._fresh[each.table_id] = _joined(before, each) if before else each
            self._problems.pop(each.table_id, None)
        for problem in report.problems:
            self._problems[problem.table_id] = problem

    def forget_standing(self) -> None:
        """The driver has ended: nothing is known of what waits now."""
        self._standing.clear()
        self._held.clear()
        self._stopped.clear()

    def write(self, *, at_once: bool = False) -> None:
        """At most once a second, unless `at_once`."""
        now = time.monotonic()
        if now - self._written < WRITE_SECONDS and not at_once:
            return
        self._written = now
        shown = dict(self._fresh)
        if now - self._leveled >= self._level_seconds:
            self._leveled = now
            shown = self._level() | shown
        if shown:
            self._show(shown, now)
        for pk, each in shown.items():
            if self._fresh.get(pk) is each:
                self._told.pop(pk, None)
                del self._fresh[pk]
        for pk, problem in list(self._problems.items()):
            self._tell(pk, problem)
            del self._problems[pk]

    def _show(self, shown: Mapping[int, Applied], now: float) -> None:
        """All at once; what cannot be written must not hold up the rest."""
        rates = self._rates_of(shown, now)
        if not self._put(shown, rates):
            for pk, each in shown.items():
                self._put({pk: each}, rates)
        self._mirror()

    def _put(self, shown: Mapping[int, Applied], rates: Mapping[int, float]) -> bool:
        try:
            AppliedRows(self._known, shown, rates).write()
        except Exception as error:
            if is_away(error):
                raise
            log.exception("what was reported of tables %s was not written", [*shown])
            return False
        return True

    def _rates_of(self, shown: Mapping[int, Applied], now: float) -> dict[int, float]:
        found = {}
        for pk, each in shown.items():
            rate = self._rates.setdefault(pk, _Rate(now - WRITE_SECONDS))
            found[pk] = rate.after(each.rows, now)
        return found

    def cannot_take(self, table_id: int, error: Exception) -> None:
        """Nobody gets the table to apply it."""
        words = str(error)
        if self._told.get(table_id) != words:
            log.warning("table %d cannot be applied: %s", table_id, words)
            act_alone(table_id, lambda pipeline: transitions.say(pipeline, words))
        self._told[table_id] = words

    @property
    def _level_seconds(self) -> float:
        seconds = len(self._standing) / LEVELED_A_SECOND
        return min(max(seconds, LEVEL_SECONDS), MOST_LEVEL_SECONDS)

    def _level(self) -> dict[int, Applied]:
        """Without their commits, which are written."""
        stopped = frozenset[int]().union(*self._stopped.values())
        return {
            pk: each.without_commit()
            for pk, each in self._standing.items()
            if pk not in stopped
        }

    def _mirror(self) -> None:
        since = timezone.now() - SEEN_WITHIN
        pending = {pk: each.pending_compactions for pk, each in self._fresh.items()}
        for pk in compaction_plans.differing(pending):
            act_alone(pk, partial(_mirror, pending[pk], since))

    def _tell(self, table_id: int, problem: ApplyProblem) -> None:
        """The same one is met again and again while it lasts."""
        error = error_from(problem.outcome, problem.error)
        if error.code == COLUMNS_UNDECIDED:
            look = self._looks.get(table_id)
            if look is None or (look.words, look.plan) != (error.message, problem.plan):
                look = _Look(error.message, problem.plan, timezone.now())
            # before the rows are read that it wrote
            found = Job.objects.filter(pk=look.job) if look.job else None
            job = found.first() if found else None
            act_alone(table_id, partial(self._look_at_columns, look, job))
            return
        if error.code == LEFT_LOG:
            self._go_over(table_id)
        is_passing = isinstance(error, TransientError)
        words = f"{error.code}: {error.message}"
        if is_passing and self._told.get(table_id) == f"twice {words}":
            return
        is_again = self._told.get(table_id) == words
        self._told[table_id] = f"twice {words}" if is_again else words
        act_alone(table_id, lambda pipeline: _note_problem(pipeline, error))

    def _go_over(self, table_id: int) -> None:
        """Its sync had ended before anybody could read what that had committed."""
        now = time.monotonic()
        if now - self._went_over.get(table_id, -math.inf) >= GO_OVER_SECONDS:
            self._went_over[table_id] = now
            act_alone(table_id, sync_job.go_over_by_lake)

    def _look_at_columns(
        self, look: _Look, job: Job | None, pipeline: Pipeline
    ) -> None:
        """Once; what is not found then came and went at the source, and only a load
        brings a table on whose rows wait for it. Of a sharded one it is what all of its
        tables have, which get it one by one."""
        if pipeline.state in states.LOADED:
            settle(pipeline)
        if pipeline.state not in states.LOADED:
            return
        if look.plan != columns_mark(spec_by_plan(pipeline)):
            return  # who applies the table does not have the plan yet that came of it
        is_answered = look.is_answered_by(job)
        if is_answered is False:
            if timezone.now() - look.met < FOLLOWER_FIRST:
                self._looks[pipeline.lake.pk] = look
                return
            begun = shards.look_at(pipeline, by=ACTOR)
            self._looks[pipeline.lake.pk] = replace(look, job=begun.pk)
            transitions.say(pipeline, Sentence(READ, error=look.words))
        elif is_answered:
            if shards.are_unlike(pipeline):
                self._look_later(look, job, pipeline, why=NOT_ALL)
                return
            if schema_diff.waits_for_log(pipeline):
                self._look_later(look, job, pipeline, why=NOT_TOLD)
                return
            del self._looks[pipeline.lake.pk]
            reason = Sentence(
                "%(error)s, nor does the source any more; resync the table",
                error=look.words,
            )
            transitions.lose_position(pipeline, reason=reason)

    def _look_later(
        self, look: _Look, job: Job | None, pipeline: Pipeline, *, why: str
    ) -> None:
        transitions.say(pipeline, Sentence(why, error=look.words))
        ended = job.finished_at if job else None
        if ended and timezone.now() - ended > LOOK_AGAIN:
            begun = shards.look_at(pipeline, by=ACTOR)
            self._looks[pipeline.lake_table_id or 0] = replace(look, job=begun.pk)


def _joined(before: Applied, now: Applied) -> Applied:
    """One report of both, with all rows and the newest commit."""
    return replace(
        now,
        instant=now.instant or before.instant,
        completed_at=now.completed_at or before.completed_at,
        rows=before.rows + now.rows,
        bytes=before.bytes + now.bytes,
        lossy=added(before.lossy, now.lossy),
        is_wide=before.is_wide or now.is_wide,
        committed=now.committed or before.committed,
        columns=now.columns or before.columns,
    )


def _mirror(pending: Iterable[str], since: datetime, pipeline: Pipeline) -> None:
    assert pipeline.lake_table_id is not None
    compaction_plans.mirror(pipeline.lake_table_id, list(pending), since=since)


# ---------------------------------------------------------------------- problems


def _note_problem(pipeline: Pipeline, error: SluiceError) -> None:
    if pipeline.state in _WAITS_FOR_LOAD:
        return
    error = healed(pipeline, error)
    if isinstance(error, TransientError | StaleState):
        _note_passing(pipeline, error)
        return
    if error.code in ENDED_BY_LOADS:
        transitions.lose_position(pipeline, reason=error.as_sentence)
    else:
        stop_table(pipeline, error)
    _report_failure(pipeline, error)


def _note_passing(pipeline: Pipeline, error: SluiceError) -> None:
    failures = pipeline.failures + 1
    transitions.set_columns(pipeline, failures=failures)
    reason = Sentence("%(error)s; it is tried again", error=error.message)
    if pipeline.state == states.LIVE and failures >= SYNCS_BEFORE_FAILING:
        transitions.move(pipeline, "fall_behind", reason=reason)
    elif pipeline.state in states.LOADED:
        transitions.say(pipeline, reason)
    if failures == SYNCS_BEFORE_FAILING:
        _report_failure(pipeline, error)


def _report_failure(pipeline: Pipeline, error: SluiceError) -> None:
    table_id = pipeline.lake_table_id
    data = {
        "table": table_id,
        "code": error.code,
        "message": stored(error.message),
        "hint": stored(error.hint),
    }
    outbox.append(NewEvent("apply.failed", "table", str(table_id), data))
