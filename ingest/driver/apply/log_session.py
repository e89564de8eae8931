"""Applying a stream without end: one session, its tables, and a few threads.

The host says which tables, under which fences; the session picks them by what waits,
and reports where each of them is. It must not know pipes.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark import InheritableThread
from pyspark.sql import SparkSession

from core.errors import SluiceError
from core.object_store import is_object_uri
from ingest.contract.applying import (
    Applied,
    ApplyProblem,
    ApplyReport,
    ApplyTable,
    ApplyWork,
    added,
    columns_mark,
)
from ingest.contract.job import JobSpec, SecretAnswer
from ingest.contract.segments import Segment
from ingest.contract.source_positions import order_of
from ingest.driver.apply.full_disk import FULL, NEARLY_FULL, named, room
from ingest.driver.apply.jobrun import Interrupted, JobRun
from ingest.driver.apply.log_apply import LogTable, Step, spec_of
from ingest.driver.apply.log_read import Stream
from ingest.driver.apply.log_turns import Turn, backoff, look_pause, pause_of
from ingest.driver.apply.writer import qualified_name
from ingest.driver.jvm import GRACE_SECONDS, Jvm, breaks_jvm, failure_of
from ingest.lake.chain import ChainIndex, stream_folder
from ingest.lake.hudi.options import LoadPoint
from ingest.lake.hudi.timeline import Timeline
from ingest.sources.failures import Failure

log = logging.getLogger(__name__)

POLL_SECONDS, STORE_POLL_SECONDS = 0.1, 1.0
# With nothing to tell a report says that the session lives.
REPORT_SECONDS, ALIVE_SECONDS = 1.0, 3.0
PREPARE_SECONDS = 10.0
# Until a table is looked at again whose load is on the way.
_WAITING_SECONDS = 0.5
_MOST_THREADS = 4


@dataclass(slots=True, eq=False)
class Task:
    """A table in a session. What changes is changed under the session's lock.

    since    when the oldest change that waits was committed, microseconds; 0 = none is
    changes  how many rows wait, about
    not_before, began  monotonic seconds
    took     seconds that its last commit took
    is_spent the work has to name it with another fence
    room     bytes that were free when a disk was full
    """

    wanted: ApplyTable
    table: LogTable
    run: JobRun
    since: int = 0
    changes: int = 0
    committed: int = 0
    not_before: float = 0.0
    began: float = float("-inf")
    took: float = 0.0
    failures: int = 0
    room: int = 0
    is_busy: bool = False
    is_leaving: bool = False
    is_spent: bool = False
    has_told_columns: bool = False
    problem: ApplyProblem | None = None
    applied: Applied | None = None
    reported: Applied | None = None

    @property
    def table_id(self) -> int:
        return self.wanted.table.table_id

    @property
    def waits(self) -> bool:
        """Whether something may come of a look at it: that it is live comes of a
        segment without rows of it, too."""
        return self.applied is None or not self.applied.is_live or self.since > 0


@dataclass(frozen=True, slots=True)
class Around:
    """What a session needs of its driver.

    prepare     what comes before writing: the store is open, the clock is right
    look_after  upkeep behind a commit; whatever goes wrong there is not the commit's.
                Whether it planned a compaction
    """

    secrets: Callable[[str], SecretAnswer]
    report: Callable[[ApplyReport], None]
    prepare: Callable[[JobRun], None]
    look_after: Callable[[JobSpec, Timeline], bool]


class ApplySession:
    """threads: that write; 0 = as many as there are cores, up to four."""

    def __init__(
        self, spark: SparkSession, work: ApplyWork, around: Around, *, threads: int = 0
    ) -> None:
        self._spark = spark
        self._work = work
        self._around = around
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._stream: Stream | None = None
        # nothing is written then: until it was read up to its end once, and where it
        # cannot be read
        self._is_unread = True
        self._unread: Failure | None = None
        self._prepared_at = float("-inf")
        self._tasks: dict[int, Task] = {}
        # given up while they were written
        self._leaving: list[Task] = []
        self._is_new = True
        # of which something may have changed since the last report
        self._stirred: set[int] = set()
        self._reported_at = float("-inf")
        self._came_at = time.monotonic()
        self._scratch = Path(
            tempfile.mkdtemp(prefix="sluice-log-", dir=_scratch(spark))
        )
        self._poll = STORE_POLL_SECONDS if is_object_uri(work.lake) else POLL_SECONDS
        self._threads = threads or min(_MOST_THREADS, os.cpu_count() or 1)

    def start(self) -> None:
        self.set(self._work)
        for serve in (self._look, *[self._serve] * self._threads):
            InheritableThread(target=serve, daemon=True).start()

    def set(self, work: ApplyWork) -> None:
        """All that it shall work on from now on. A table whose fence is another one, or
        whose plan is, begins anew. Without tables it is idle."""
        with self._lock:
            self._work = work
            wanted = {one.table.table_id: one for one in work.tables}
            for table_id, task in list(self._tasks.items()):
                if not _is_same(task.wanted, wanted.get(table_id)):
                    self._give_up(task)
                elif task.wanted != wanted[table_id]:
                    self._renew(task, wanted[table_id])
            self._take_up()

    def end(self) -> None:
        """Gives up all tables; what is being written is ended first."""
        self.set(dataclasses.replace(self._work, tables=()))

    @property
    def is_idle(self) -> bool:
        with self._lock:
            return not self._tasks and not self._leaving

    def _take_up(self) -> None:
        left = {task.table_id for task in self._leaving}
        for one in self._work.tables:
            if one.table.table_id not in self._tasks.keys() | left:
                self._add(one)
        self._is_new = True
        self._changed.notify_all()

    def _add(self, wanted: ApplyTable) -> None:
        spec = spec_of(self._work, wanted)
        run = JobRun(spec, self._around.secrets, _say(wanted))
        folder = self._scratch / str(wanted.table.table_id)
        table = LogTable(self._spark, spec, folder)
        self._tasks[wanted.table.table_id] = Task(wanted, table, run)

    def _renew(self, task: Task, wanted: ApplyTable) -> None:
        """What is left to the policy has changed."""
        task.wanted = wanted
        task.table.spec = spec_of(self._work, wanted)

    def _give_up(self, task: Task) -> None:
        del self._tasks[task.table_id]
        task.is_leaving = True
        if task.is_busy:
            task.run.request_stop("pause")
            self._leaving.append(task)

    def _look(self) -> None:
        """Reads what is new in the stream, and reports."""
        failures = 0
        while True:
            try:
                self._read()
                failures = 0
            except Exception as error:
                if self._is_over(error):
                    return
                failures += 1
                log.exception("stream %s cannot be read", self._work.stream)
                with self._lock:
                    self._unread, self._is_unread = failure_of(error), True
                    self._is_new = True
            self._report_when_due()
            with self._lock:
                seconds = backoff(failures) if failures else self._look_pause()
                self._changed.wait(seconds if self._tasks or self._leaving else None)

    def _look_pause(self) -> float:
        freshness = (one.freshness for one in self._work.tables)
        return look_pause(
            time.monotonic() - self._came_at,
            min(freshness, default=0.0),
            least=self._poll,
            most=REPORT_SECONDS,
        )

    def _read(self) -> None:
        with self._lock:
            task = next(iter(self._tasks.values()), None)
            stream = self._stream
            if task is None:
                # its index may be large
                self._stream, self._is_unread = None, True
                return
        if time.monotonic() - self._prepared_at > PREPARE_SECONDS:
            self._around.prepare(task.run)
            self._prepared_at = time.monotonic()
        if stream is None:
            name = self._work.stream
            stream = Stream(ChainIndex(stream_folder(self._work.lake, name), name))
            with self._lock:
                self._stream = stream
                self._stirred |= self._tasks.keys()
        while segments := stream.look():
            self._came_at = time.monotonic()
            with self._lock:
                for segment in segments:
                    self._note(segment)
                self._changed.notify_all()
        if self._is_unread:
            with self._lock:
                self._is_unread, self._unread = False, None
                self._changed.notify_all()

    def _note(self, segment: Segment) -> None:
        self._stirred |= {control.table_id for control in segment.controls}
        self._stirred |= segment.tables
        for part in segment.parts:
            task = self._tasks.get(part.table_id)
            if task is not None:
                task.changes += part.rows
                task.since = task.since or segment.committed or _now()

    def _serve(self) -> None:
        """One thread's work: table after table."""
        self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", "apply")
        while True:
            task, stream = self._next()
            try:
                step = self._bring_on(task, stream)
                self._note_step(task, stream, step)
            except Exception as error:  # noqa: BLE001 - of one table; others go on
                self._note_failure(task, error)
            self._free(task)

    def _bring_on(self, task: Task, stream: Stream) -> Step:
        step = task.table.bring_on(stream, task.run.check)
        if step.commit is None or (state := task.table.state) is None:
            return step
        if self._around.look_after(task.table.spec, state.timeline):
            task.table.look_again()  # who executes plans learns of it by the report
        return step

    def _next(self) -> tuple[Task, Stream]:
        """The next table, once there is one."""
        with self._lock:
            while True:
                now = time.monotonic()
                due, soonest = self._due(now)
                if due is not None and self._stream is not None:
                    due.is_busy, due.began = True, now
                    return due, self._stream
                self._changed.wait(soonest)

    def _due(self, now: float) -> tuple[Task | None, float | None]:
        """The most urgent one; and seconds until another one may be, None = until
        something changes."""
        best, urgency = None, (False, -1.0)
        soonest: float | None = None
        at = _now()
        for task in () if self._is_unread else self._tasks.values():
            if task.is_busy or task.is_spent or not task.waits:
                continue
            pause = pause_of(task.wanted.freshness, task.took)
            left = max(task.not_before, task.began + pause) - now
            if left > 0:
                soonest = min(left, soonest or left)
                continue
            age = max(0.0, (at - task.since) / 1e6) if task.since else 0.0
            turn = Turn(task.changes, age, task.wanted.freshness)
            if turn.urgency > urgency:
                best, urgency = task, turn.urgency
        return best, soonest

    def _note_step(self, task: Task, stream: Stream, step: Step) -> None:
        table = task.table
        is_live = table.is_live(stream)
        with self._lock:
            # under the lock: what comes behind this look is noted behind it
            number, waits = stream.waiting(task.table_id, after=table.after)
            first = stream.segment(task.table_id, number) if waits else None
            task.failures, task.problem = 0, None
            task.took = time.monotonic() - task.began if step.commit else task.took
            task.committed = step.committed or task.committed
            task.changes = max(waits, task.changes - step.rows) if waits else 0
            task.since = (first.committed if first else 0) or (_now() if waits else 0)
            task.applied = _applied(task, step, waits, is_live=is_live)
            if step.commit is None and task.waits:
                # its load is on the way
                task.not_before = time.monotonic() + _WAITING_SECONDS
            self._is_new = self._is_new or step.commit is not None

    def _note_failure(self, task: Task, error: Exception) -> None:
        task.table.forget()
        if isinstance(error, Interrupted):
            return
        if breaks_jvm(error):
            # every other table, and every job, needs a JVM that is whole
            Jvm(self._spark).kill()
        task.not_before = time.monotonic() + backoff(task.failures + 1)
        if self._is_over(error):
            return
        failure = failure_of(error)
        log.warning(
            "%s is not applied", qualified_name(task.table.spec), exc_info=error
        )
        with self._lock:
            task.failures += 1
            is_final = failure.outcome != "transient" or failure.error.code == "fenced"
            task.is_spent = is_final
            spec, scratch = task.table.spec, str(self._scratch)
            fact = named(failure.error, spec, scratch=scratch)
            task.room = room(spec, scratch) if fact.code == FULL else 0
            task.problem = ApplyProblem(
                task.table_id,
                failure.outcome,
                fact,
                columns_mark(task.wanted.table),
            )
            self._is_new = True

    def _is_over(self, error: Exception) -> bool:
        """Whether the JVM is gone: the driver ends, and what it met is no problem of a
        table."""
        is_ours = isinstance(error, SluiceError)
        if not Jvm(self._spark).is_gone(grace=0.0 if is_ours else GRACE_SECONDS):
            return False
        log.warning("the session of %s lost its JVM: %s", self._work.stream, error)
        return True

    def _free(self, task: Task) -> None:
        with self._lock:
            task.is_busy = False
            self._stirred.add(task.table_id)
            if task.is_leaving:
                self._leaving.remove(task)
                self._take_up()
            self._changed.notify_all()

    def _report_when_due(self) -> None:
        now = time.monotonic()
        seconds = REPORT_SECONDS if self._has_news() else ALIVE_SECONDS
        if self._is_new or now - self._reported_at >= seconds:
            self._reported_at = now
            self._go_on_where_room_came()
            self._report_now()

    def _go_on_where_room_came(self) -> None:
        """They do not wait for their next try, for until then they are told as failing.
        All of a session write to the same disks."""
        with self._lock:
            problems = [(one, one.problem) for one in self._tasks.values()]
            full = [one for one, what in problems if what and what.error.code == FULL]
            if not full:
                return
            free = room(full[0].table.spec, str(self._scratch))
            for task in full:
                if free > task.room + NEARLY_FULL:
                    task.room, task.not_before = free, 0.0
            self._changed.notify_all()

    def _has_news(self) -> bool:
        with self._lock:
            has_stirred = bool(self._stirred or self._unread)
            return has_stirred or any(one.problem for one in self._tasks.values())

    def _report_now(self) -> None:
        with self._lock:
            self._is_new = False
            tasks = list(self._tasks.values())
            stirred = [one for one in tasks if one.table_id in self._stirred]
            self._stirred.clear()
            for task in stirred:
                task.applied = _with_waiting(task, self._stream)
            new = [one for one in stirred if one.applied != one.reported]
            report = ApplyReport(
                self._work.run,
                self._work.stream,
                self._work.number,
                held=tuple(one.table_id for one in (*tasks, *self._leaving)),
                applied=tuple(one.applied for one in new if one.applied),
                problems=tuple(p for one in tasks if (p := self._problem_of(one))),
            )
            for task in new:
                # what came is told once
                said = task.applied
                task.reported = task.applied = said and said.without_commit()
        self._around.report(report)

    def _problem_of(self, task: Task) -> ApplyProblem | None:
        if task.problem is None and self._unread is not None:
            unread = self._unread
            return ApplyProblem(task.table_id, unread.outcome, unread.error)
        return task.problem


def _applied(task: Task, step: Step, waiting: int, *, is_live: bool) -> Applied | None:
    position, state = task.table.position, task.table.state
    if position is None or state is None:
        return task.applied
    before, commit = task.applied, step.commit
    told = Applied(
        task.table_id,
        position.epoch_to,
        shown_until(position.end, position.load),
        is_live,
        instant=before.instant if before else "",
        completed_at=before.completed_at if before else "",
        rows=(before.rows if before else 0) + step.rows,
        bytes=before.bytes if before else 0,
        lossy=added(before.lossy if before else {}, step.lossy),
        is_wide=step.is_wide or bool(before and before.is_wide),
        committed=task.committed,
        waiting=waiting,
        oldest=task.since,
        pending_compactions=state.pending_compactions,
        columns=(before.columns if before else ()) or _new_columns(task),
    )
    if commit is None:
        return told
    return dataclasses.replace(
        told,
        instant=commit.instant.asked,
        completed_at=commit.instant.completed,
        bytes=told.bytes + commit.bytes_written,
    )


def shown_until(end: str, load: LoadPoint | None) -> str:
    """Up to where the lake's rows show the source. Behind a load segments are applied
    that lie before its moment."""
    is_before = load is not None and order_of(end, load.at) == "before"
    return load.at if load and is_before else end


def _with_waiting(task: Task, stream: Stream | None) -> Applied | None:
    """What has come since its last commit: rows that wait, too, and records."""
    applied = task.applied
    if applied is None:
        return None
    if stream is not None and not task.is_busy:
        is_followed = task.table.is_followed(stream)
        applied = dataclasses.replace(applied, is_followed=is_followed)
    if task.problem and stream is not None:
        # it may be for long, so it is counted; else its next commit tells soon
        _, waiting = stream.waiting(task.table_id, after=applied.epoch)
    elif applied.oldest == task.since:
        return applied
    else:
        waiting = max(1, applied.waiting) if task.since else 0
    return dataclasses.replace(applied, waiting=waiting, oldest=task.since)


def _new_columns(task: Task) -> tuple[tuple[str, str], ...]:
    if task.has_told_columns or not task.table.has_columns:
        return ()
    task.has_told_columns = True
    columns = task.wanted.table.columns
    return tuple((column.source_name, column.type) for column in columns)


def _is_same(known: ApplyTable, wanted: ApplyTable | None) -> bool:
    return (
        wanted is not None
        and known.fence == wanted.fence
        and known.table == wanted.table
    )


def _say(wanted: ApplyTable) -> Callable[[str, str], None]:
    name = f"{wanted.table.database}.{wanted.table.name}"
    levels = {"info": logging.DEBUG, "warning": logging.WARNING}
    return lambda level, message: log.log(
        levels.get(level, logging.ERROR), "%s: %s", name, message
    )


def _now() -> int:
    return time.time_ns() // 1000


def _scratch(spark: SparkSession) -> str:
    """Where Spark itself spills: what is written there is read at once."""
    folder = (spark.conf.get("spark.local.dir", "") or "").partition(",")[0]
    return folder if folder and Path(folder).is_dir() else tempfile.gettempdir()
