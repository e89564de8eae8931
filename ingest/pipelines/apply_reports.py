"""What sessions report of tables that they apply, as rows: positions and lag in one
write a second, states as they change. What is applied is in the lake; rows show it.

Gathered in the host's memory, which may be lost: the next session reports where each
table stands. Must not know leases.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from catalog.models import Column
from core import outbox
from core.clock import SystemClock
from core.database_errors import is_away
from core.errors import SluiceError, StaleState, TransientError
from core.jobs import SUCCEEDED
from core.models import Job
from core.outbox import NewEvent
from core.sentences import Sentence, says, stored
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
from ingest.models import Pipeline, SourceFollower, states
from ingest.pipelines import compaction_plans, shards, sync_job, transitions
from ingest.pipelines.apply_work import WantedStream, spec_of
from ingest.pipelines.followers import READS_ALONG_BYTES
from ingest.pipelines.lake_reconcile import healed
from ingest.pipelines.policies.policy import Effective, late_moment
from ingest.pipelines.schema_diff import show_columns
from ingest.pipelines.schema_drift import ACTOR, NOT_ALL, READ, WAITED, settle
from ingest.pipelines.table_job import stop_table
from ingest.pipelines.table_status import SYNCS_BEFORE_FAILING
from ingest.pipelines.transitions import note_changes
from ingest.planning.facts import LOG

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

_PIPELINES = """
UPDATE ingest_pipeline p SET position = n.position, failures = 0,
  due_since = coalesce(n.caught_up_at, p.due_since), late_at = n.late_at,
  waiting = n.waiting, waiting_since = n.waiting_since, changes_per_second = n.rate,
  rows_applied = p.rows_applied + n.rows, lossy = n.lossy
FROM jsonb_to_recordset(%s::jsonb) AS n(pipeline bigint, position text,
  caught_up_at timestamptz, late_at timestamptz, waiting int,
  waiting_since timestamptz, rate float8, rows bigint, lossy jsonb)
WHERE p.id = n.pipeline
"""
_TABLES = """
UPDATE catalog_table t SET
  caught_up_at = coalesce(n.caught_up_at, t.caught_up_at),
  last_commit_epoch = n.epoch,
  last_commit_position = jsonb_build_object('to', n.position),
  last_commit_instant = coalesce(n.instant, t.last_commit_instant),
  last_commit_at = CASE WHEN n.instant IS NULL THEN t.last_commit_at ELSE now() END
FROM jsonb_to_recordset(%s::jsonb) AS n("table" bigint, position text, epoch bigint,
  instant text, caught_up_at timestamptz)
WHERE t.id = n."table"
"""


@dataclass(frozen=True, slots=True)
class _Known:
    """What is wanted of a table that is applied."""

    datasource_id: int
    policy: Effective


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

    _known: dict[int, _Known] = field(default_factory=dict)
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
            table_id: _Known(stream.source.datasource_id, each.policy)
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
            _Write(self._known, shown, rates).write()
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
            _alone(table_id, lambda pipeline: transitions.say(pipeline, words))
        self._told[table_id] = words

    @property
    def _level_seconds(self) -> float:
        seconds = len(self._standing) / LEVELED_A_SECOND
        return min(max(seconds, LEVEL_SECONDS), MOST_LEVEL_SECONDS)

    def _level(self) -> dict[int, Applied]:
        """Without their commits, which are written."""
        stopped = frozenset[int]().union(*self._stopped.values())
        return {
            pk: replace(each, instant="", rows=0, bytes=0, lossy={}, columns=())
            for pk, each in self._standing.items()
            if pk not in stopped
        }

    def _mirror(self) -> None:
        since = SystemClock().now() - SEEN_WITHIN
        pending = {pk: each.pending_compactions for pk, each in self._fresh.items()}
        for pk in compaction_plans.differing(pending):
            _alone(pk, partial(_mirror, pending[pk], since))

    def _tell(self, table_id: int, problem: ApplyProblem) -> None:
        """The same one is met again and again while it lasts."""
        error = error_from(problem.outcome, problem.error)
        if error.code == COLUMNS_UNDECIDED:
            look = self._looks.get(table_id)
            if look is None or (look.words, look.plan) != (error.message, problem.plan):
                look = _Look(error.message, problem.plan, SystemClock().now())
            # before the rows are read that it wrote
            found = Job.objects.filter(pk=look.job) if look.job else None
            job = found.first() if found else None
            _alone(table_id, partial(self._look_at_columns, look, job))
            return
        if error.code == LEFT_LOG:
            self._go_over(table_id)
        is_passing = isinstance(error, TransientError)
        words = f"{error.code}: {error.message}"
        if is_passing and self._told.get(table_id) == f"twice {words}":
            return
        is_again = self._told.get(table_id) == words
        self._told[table_id] = f"twice {words}" if is_again else words
        _alone(table_id, lambda pipeline: _note_problem(pipeline, error))

    def _go_over(self, table_id: int) -> None:
        """Its sync had ended before anybody could read what that had committed."""
        now = time.monotonic()
        if now - self._went_over.get(table_id, -math.inf) >= GO_OVER_SECONDS:
            self._went_over[table_id] = now
            _alone(table_id, sync_job.go_over_by_lake)

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
        if look.plan != columns_mark(spec_of(pipeline)):
            return  # who applies the table does not have the plan yet that came of it
        assert pipeline.lake_table is not None
        is_answered = look.is_answered_by(job)
        if is_answered is False:
            if SystemClock().now() - look.met < FOLLOWER_FIRST:
                self._looks[pipeline.lake_table.pk] = look
                return
            begun = shards.look_at(pipeline, by=ACTOR)
            self._looks[pipeline.lake_table.pk] = replace(look, job=begun.pk)
            transitions.say(pipeline, Sentence(READ, error=look.words))
        elif is_answered:
            if shards.are_unlike(pipeline):
                self._look_later(look, job, pipeline)
                return
            del self._looks[pipeline.lake_table.pk]
            reason = Sentence(
                "%(error)s, nor does the source any more; resync the table",
                error=look.words,
            )
            transitions.lose_position(pipeline, reason=reason)

    def _look_later(self, look: _Look, job: Job | None, pipeline: Pipeline) -> None:
        transitions.say(pipeline, Sentence(NOT_ALL, error=look.words))
        ended = job.finished_at if job else None
        if ended and SystemClock().now() - ended > LOOK_AGAIN:
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
        committed=now.committed or before.committed,
        columns=now.columns or before.columns,
    )


def _mirror(pending: Iterable[str], since: datetime, pipeline: Pipeline) -> None:
    assert pipeline.lake_table_id is not None
    compaction_plans.mirror(pipeline.lake_table_id, list(pending), since=since)


def _alone(table_id: int, act: Callable[[Pipeline], object]) -> None:
    """Act on the locked pipeline of a table. What fails for one table must not hold up
    the others; a database that is away goes up."""
    try:
        with transaction.atomic():
            rows = Pipeline.objects.select_for_update(of=("self",))
            rows = rows.filter(lake_table=table_id, capture=LOG)
            related = ("lake_table__database", "source_table__database__datasource")
            found = rows.exclude(state=states.RETIRED).select_related(*related).first()
            if found is not None:
                act(found)
    except Exception as error:
        if is_away(error):
            raise
        log.exception("what was reported of table %d was not written", table_id)


# ---------------------------------------------------------------------- standing


# Not whole rows: hundreds may be level.
_READ = (
    *("pk", "lake_table_id", "state", "status_reason", "failures", "late_at"),
    *("lossy", "lake_table__caught_up_at"),
)


@dataclass(frozen=True, slots=True)
class _Shown:
    """A table after a report. caught_up_at: the lake has all that was committed at the
    source until then; None = not known. event: of the pipeline, "" = it stays."""

    pipeline: Any
    applied: Applied
    caught_up_at: datetime | None
    late_at: datetime | None
    event: str = ""
    reason: str = ""
    has_recovered: bool = False


class _Write:
    """All tables of a second."""

    def __init__(
        self,
        known: Mapping[int, _Known],
        applied: Mapping[int, Applied],
        rates: Mapping[int, float],
    ) -> None:
        self._known = known
        self._rates = rates
        self._applied = applied
        self._now = SystemClock().now()
        self._read_until = _read_until({each.datasource_id for each in known.values()})

    def write(self) -> None:
        rows = Pipeline.objects.exclude(state=states.RETIRED)
        rows = rows.filter(lake_table__in=list(self._applied), capture=LOG)
        read = rows.values_list(*_READ, named=True)
        shown = [self._shown(row) for row in read if row.lake_table_id in self._known]
        if not shown:
            return
        with transaction.atomic():
            self._store(shown)
            note_changes(
                each.applied.table_id for each in shown if each.applied.instant
            )
        _show_columns([each.applied for each in shown if each.applied.columns])
        level = [each for each in shown if each.event == "catch_up"]
        _catch_up(level)
        for each in shown:
            if each not in level and (each.event or each.has_recovered):
                _alone(each.applied.table_id, partial(_move, each))

    def _shown(self, pipeline: Any) -> _Shown:
        applied = self._applied[pipeline.lake_table_id]
        known = self._known[pipeline.lake_table_id]
        caught_up_at = self._caught_up_at(applied, known)
        until = caught_up_at or pipeline.lake_table__caught_up_at or self._now
        late_at = late_moment(known.policy, until, capture=LOG)
        was_late = pipeline.late_at is None
        is_late = late_at is not None and late_at <= self._now
        event, reason = self._event(pipeline, applied, until, known.policy)
        return _Shown(
            pipeline,
            applied,
            caught_up_at,
            # an alert that is open is not looked for again
            pipeline.late_at if is_late else late_at,
            event,
            reason,
            has_recovered=pipeline.failures > 0
            or (was_late and not is_late)
            or (not applied.waiting and says(pipeline.status_reason, *WAITED)),
        )

    def _caught_up_at(self, applied: Applied, known: _Known) -> datetime | None:
        read = self._read_until.get(known.datasource_id)
        if not applied.is_followed:
            return None
        if not applied.waiting:
            return read
        oldest = _moment(applied.oldest)
        if oldest is None:
            return None
        return min(oldest, read or oldest)

    def _event(
        self,
        pipeline: Any,
        applied: Applied,
        until: datetime,
        policy: Effective,
    ) -> tuple[str, str]:
        """As late as its policy allows, and half of that, so that it does not go to
        and fro. until: the lake has what was committed until then."""
        lag = (self._now - until).total_seconds()
        is_live = applied.is_live and applied.is_followed
        if pipeline.state == states.CATCHING_UP and is_live:
            is_level = not applied.waiting or lag <= policy.late_after / 2
            return ("catch_up", "") if is_level else ("", "")
        if pipeline.state == states.LIVE and lag > policy.late_after:
            behind = Sentence(
                "%(waiting)s segments of its stream wait", waiting=applied.waiting
            )
            return "fall_behind", Sentence(
                "it is %(lag)s s behind its source: %(behind)s",
                lag=f"{lag:.0f}",
                behind=behind,
            )
        return "", ""

    def _store(self, shown: Iterable[_Shown]) -> None:
        rows = [
            {
                "pipeline": each.pipeline.pk,
                "table": each.applied.table_id,
                "position": each.applied.position,
                "epoch": each.applied.epoch,
                "instant": each.applied.instant or None,
                "caught_up_at": _text(each.caught_up_at),
                "late_at": _text(each.late_at),
                "waiting": each.applied.waiting,
                "waiting_since": _text(_moment(each.applied.oldest)),
                "rate": self._rates[each.applied.table_id],
                "rows": each.applied.rows,
                "lossy": added(each.pipeline.lossy, each.applied.lossy),
            }
            for each in shown
        ]
        with connection.cursor() as cursor:
            cursor.execute(_PIPELINES, [json.dumps(rows)])
            cursor.execute(_TABLES, [json.dumps(rows)])


def _show_columns(applied: Sequence[Applied]) -> None:
    """Of tables whose plan has other columns by now than the catalogue shows."""
    shown: dict[int, set[tuple[str, str]]] = {}
    rows = Column.objects.filter(table__in=[each.table_id for each in applied])
    for table, name, type in rows.values_list("table_id", "source_name", "type"):
        shown.setdefault(table, set()).add((name, type))
    for each in applied:
        if shown.get(each.table_id) != {*each.columns}:
            said = [{"source_name": name, "type": type} for name, type in each.columns]
            _alone(each.table_id, partial(show_columns, committed=said))


def _moment(micros: int) -> datetime | None:
    """Of microseconds since 1970; 0 = none."""
    return datetime.fromtimestamp(micros / 1e6, UTC) if micros else None


def _text(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


def _read_until(datasources: Iterable[int]) -> dict[int, datetime]:
    """By source: everything that was committed until then is in its stream."""
    rows = SourceFollower.objects.filter(datasource__in=list(datasources))
    found = {}
    for row in rows:
        reads_along = row.observed == "following" and row.log_behind < READS_ALONG_BYTES
        until = row.heartbeat_at if reads_along else row.committed_at
        if until is not None:
            found[row.datasource_id] = until
    return found


def _catch_up(level: Sequence[_Shown]) -> None:
    """Hundreds at once behind a start."""
    with transaction.atomic():
        rows = Pipeline.objects.select_for_update().filter(
            pk__in=[each.pipeline.pk for each in level], state=states.CATCHING_UP
        )
        found = list(rows.order_by("pk").defer("plan", "policy"))
        transitions.catch_up_all(found)
        outbox.append(*(_succeeded(row.lake_table_id, is_level=True) for row in found))


def _move(shown: _Shown, pipeline: Pipeline) -> None:
    is_legal = states.PIPELINE.is_legal(pipeline.state, shown.event)
    if shown.event and is_legal:
        transitions.move(pipeline, shown.event, reason=shown.reason)
    elif shown.has_recovered and pipeline.state in states.LOADED:
        transitions.say(pipeline, "")
    is_level = shown.late_at is not None and shown.event != "fall_behind"
    outbox.append(_succeeded(shown.applied.table_id, is_level=is_level))


def _succeeded(table_id: int | None, *, is_level: bool) -> NewEvent:
    data: dict[str, Any] = {"table": table_id, "caught_up": is_level}
    return NewEvent("apply.succeeded", "table", str(table_id), data)


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
