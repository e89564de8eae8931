"""The driver host: between job rows and a launcher, one step at a time.

Hands LAUNCHING rows over, writes progress, logs and reports back, renews leases,
answers requests for secrets by reference. What it holds in memory may be lost at any
moment; the lake and the rows suffice to go on. With the database away it keeps the
driver alive and everything said until it can be written.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now

from core.errors import SluiceError, TransientError
from core.jobs import CANCELLING, RUNNING
from core.json_values import storable
from core.leases import owner_of
from core.models import Job, JobLog
from core.redaction import redact
from core.sentences import Sentence, sentence_of
from ingest.contract.applying import ApplyReport
from ingest.contract.job import DRIVER_DIED, JobReport, Progress, report_from
from ingest.contract.members import value_of
from ingest.driver_host import attempts
from ingest.driver_host.apply_sessions import ApplySessions
from ingest.driver_host.attempts import (
    START_SECONDS,
    InFlight,
    InFlightJob,
    LostAttempt,
)
from ingest.driver_host.backlog import Backlog
from ingest.driver_host.launcher import Launcher, Message
from ingest.hosting import DatabaseSteps, SecretBroker
from ingest.jobs import leases, queue, reconcile
from ingest.models import DriverIncarnation

# --------------------------------------------------- rows: each call may be repeated


def write_logs(lines: Sequence[tuple[str, str, str]]) -> None:
    """lines: (job id, level, message); those of jobs that are gone are dropped."""
    known = {job_id for job_id, _, _ in lines}
    rows = Job.objects.filter(pk__in=known).values_list("pk", flat=True)
    present = {str(pk) for pk in rows}
    JobLog.objects.bulk_create(
        [
            JobLog(job_id=UUID(job_id), level=level, message=text)
            for job_id, level, text in lines
            if job_id in present
        ]
    )


def write_incarnation(incarnation: Incarnation, *, pid: int | None, place: str) -> bool:
    """That the driver lives, and once what it said of itself. False when it counts as
    ended: another host took over while this one was silent."""
    changes: dict[str, Any] = {"heartbeat_at": Now(), "pid": pid}
    if incarnation.away:
        facts = {"place": place, "away": incarnation.away}
        changes |= {"ready_at": None, "facts": facts}
    elif incarnation.is_ready and incarnation.facts is not None:
        changes |= {"ready_at": Now(), "facts": {"place": place} | incarnation.facts}
        incarnation.facts = None
    return bool(
        DriverIncarnation.objects.filter(pk=incarnation.id, ended_at=None).update(
            **changes
        )
    )


def write_progress(in_flight: Sequence[InFlightJob]) -> None:
    """Their leases renewed, and what is new of each."""
    leases.renew([owner_of(f.job_id, f.attempt) for f in in_flight])
    Job.objects.filter(
        pk__in=[f.job_id for f in in_flight], state__in=[RUNNING, CANCELLING]
    ).update(progress_at=Now())
    for flight in in_flight:
        progress, flight.progress = flight.progress, None
        if progress is None:
            continue
        Job.objects.filter(
            pk=flight.job_id, attempts=flight.attempt, finished_at=None
        ).update(
            phase=progress.phase[:60],
            done=progress.done,
            total=progress.total,
            unit=progress.unit[:20],
            reason=sentence_of(progress.reason, progress.sentences),
            **_moved(progress),
        )


def _moved(progress: Progress) -> dict[str, Any]:
    """By how long ago: clocks of drivers may be wrong."""
    if progress.still is None:
        return {}
    return {"moved_at": Now() - timedelta(seconds=progress.still)}


# ------------------------------------------------------------------- the warm driver

# How long a driver may go on with threads that answer nothing any more: they hold
# cores, connections and perhaps a lock of their table.
ABANDONED_SECONDS = 60.0
# That the driver lives is written so often when there is nothing new to say of it.
ALIVE_SECONDS = 3.0


@dataclass(slots=True)
class Incarnation:
    """The warm driver's present start.

    facts  what it said of itself, None once that is written
    away   why it cannot take work though it has not ended
    written   when it was last written that it lives
    abandoned, abandoned_since   jobs that it was told to abandon and whose threads
           still live, and since when there are such
    is_told_to_end   its end is our doing: not held against its jobs
    """

    id: UUID = field(default_factory=uuid4)
    is_stored: bool = False
    is_started: bool = False
    is_ready: bool = False
    facts: dict[str, Any] | None = None
    away: str = ""
    heard: float = 0.0
    written: float = -math.inf
    abandoned: tuple[str, ...] = ()
    abandoned_since: float = 0.0
    is_told_to_end: bool = False

    def is_worth_writing(self, now: float) -> bool:
        """Whether there is news of it, or it was last written a while ago."""
        is_news = self.facts is not None or bool(self.away)
        return is_news or now - self.written >= ALIVE_SECONDS

    def note_abandoned(self, jobs: Sequence[str], *, now: float) -> None:
        if not self.abandoned:
            self.abandoned_since = now
        self.abandoned = tuple(jobs)

    def is_hampered(self, now: float) -> bool:
        """Whether threads that answer nothing have lived on in it for too long."""
        waited = now - self.abandoned_since
        return bool(self.abandoned) and waited >= ABANDONED_SECONDS


log = logging.getLogger(__name__)

FLUSH_SECONDS = 1.0
LOOK_SECONDS = 0.5
# Of the lease; a driver halts when it hears nothing for half of it.
PINGS_IN_LEASE = 8
REFUSED_SECONDS = 5.0
MAX_LOGS = 10_000
MAX_LINE = 8_000


class DriverHost:
    """`step()` does a bit of everything; the command calls it until told to stop."""

    def __init__(
        self,
        launcher: Launcher,
        *,
        place: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """place: machine and home. Whoever is the host of a place is the only one,
        and has seen to it that no driver of an earlier host lives there."""
        self.launcher = launcher
        self.place = place
        self.clock = clock
        self.driver: Incarnation | None = None
        self._sessions = ApplySessions(launcher, clock)
        self.deaths = 0
        self._next_start = 0.0
        self._flushed = self._looked = self._pinged = self._progressed = 0.0
        self._logs: list[tuple[str, str, str]] = []
        self._accepted: Backlog[tuple[str, int]] = Backlog()
        self._reports: Backlog[JobReport] = Backlog()
        self._jobs = InFlight(launcher, clock, self._reports)
        self._broker = SecretBroker()
        self._ended: Backlog[tuple[UUID, bool]] = Backlog()
        self._unreachable: dict[str, str] = {}
        self.database = DatabaseSteps("the driver host", "keeping the driver")
        self.refusal = ""
        self._is_woken = threading.Event()

    @property
    def in_flight(self) -> dict[str, InFlightJob]:
        """By job id."""
        return self._jobs.in_flight

    def wake(self) -> None:
        """Look at the rows at once; from any thread."""
        self._is_woken.set()
        self.launcher.wake()

    # ------------------------------------------------------------------ the step

    def step(self, seconds: float = 0.25) -> None:
        """Listen for at most `seconds`, then write, look and speak as is due."""
        self._keep_driver()
        for message in self.launcher.poll(seconds):
            data = storable(message.data)
            self._receive(Message(message.kind, data, message.origin))
        now = self.clock()
        if now - self._pinged >= settings.SLUICE_LEASE_SECONDS / PINGS_IN_LEASE:
            self._pinged = now
            self.launcher.ping()
        self._watch_silence(now)
        self._watch_abandoned(now)
        is_urgent = bool(
            self._reports or self._ended or self._jobs.lost or self._broker.waits
        )
        if is_urgent or now - self._flushed >= FLUSH_SECONDS:
            self._flushed = now
            self.database.run(self._flush)
        for answer, origin in self._broker.answered():
            self.launcher.give_secret(answer, origin=origin)
        if self._is_woken.is_set():
            self._is_woken.clear()
            self._jobs.claims.note_change()
            self._sessions.wake()
            self._looked = -math.inf
        if now - self._looked >= LOOK_SECONDS:
            self._looked = now
            self.database.run(self._look)

    def stop(self) -> None:
        """End the driver, then say so; its jobs are judged by the next reconciler."""
        self.launcher.stop()
        if self.driver is not None:
            driver, self.driver = self.driver, None
            self.database.run(
                lambda: reconcile.note_incarnation_ended(driver.id, was_told=True)
            )
        self._sessions.forget()
        self.database.run(self._flush)
        self.database.run(leases.release_ended_sessions)
        self.database.run(reconcile.reconcile_jobs)

    # ------------------------------------------------------------ the warm driver

    def _keep_driver(self) -> None:
        if self.launcher.is_running or self.clock() < self._next_start:
            return
        if self.database.is_away:
            return
        if self.driver is None:
            self.driver = Incarnation()
            self.database.run(self._store_incarnation)
            if not self.driver.is_stored:
                self.driver = None
                return
        if self.driver.is_started:
            return  # it has just died, which is not heard yet
        self.driver.is_started = True
        self.driver.heard = self.clock()
        self.launcher.start(str(self.driver.id))

    def _store_incarnation(self) -> None:
        if self.driver is None or self.driver.is_stored:
            return
        try:
            reconcile.begin_incarnation(self.driver.id, self.place)
        except TransientError as error:
            if self.refusal != str(error):
                log.error("no driver starts here: %s (%s)", error, error.hint)
            self.refusal = str(error)
            self._next_start = self.clock() + REFUSED_SECONDS
            return
        self.refusal = ""
        self.driver.is_stored = True

    def _watch_silence(self, now: float) -> None:
        """A driver that hangs is as good as dead, and must be dead to be judged."""
        if self.driver is None or not self.launcher.is_running:
            return
        limit = settings.SLUICE_LEASE_SECONDS if self.driver.is_ready else START_SECONDS
        if now - self.driver.heard > limit:
            log.error("the driver has been silent for %.0f s: killing it", limit)
            self.driver.heard = now
            self.launcher.kill()

    def _watch_abandoned(self, now: float) -> None:
        """What answers nothing holds cores and connections that others wait for."""
        driver = self.driver
        if driver is None or driver.is_told_to_end:
            return
        if driver.is_hampered(now):
            log.error("ending the driver: jobs %s do not end in it", driver.abandoned)
        elif stream := self._sessions.lost():
            log.error("ending the driver: it does not report of stream %s", stream)
        else:
            return
        driver.is_told_to_end = True
        self.launcher.kill()

    # ---------------------------------------------------------------- messages

    def _receive(self, message: Message) -> None:
        if self.driver is not None and not message.origin:
            self.driver.heard = self.clock()
        data = message.data
        try:
            match message.kind:
                case "ready":
                    self._on_ready(message)
                case "accepted":
                    self._on_accepted(str(data["job_id"]), int(data["attempt"]))
                case "secret_request":
                    self._broker.note(str(data["ref"]), message.origin)
                case "heartbeat":
                    self._on_heartbeat(message)
                case "log":
                    self._on_log(data)
                case "report":
                    self._on_report(report_from(data["report"]))
                case "applied":
                    self._on_applied(message)
                case "died":
                    self._on_death(message)
                case "unreachable":
                    self._on_unreachable(message.origin, str(data["why"]))
        except (KeyError, TypeError, ValueError, SluiceError):
            log.exception("a driver sent a malformed %s", message.kind)

    def _on_ready(self, message: Message) -> None:
        if self.driver is not None and not message.origin:
            self.driver.is_ready = True
            self.driver.away = ""
            self.driver.facts = dict(message.data)
            self._flushed = 0.0

    def _on_accepted(self, job_id: str, attempt: int) -> None:
        flight = self.in_flight.get(job_id)
        if flight and flight.attempt == attempt:
            flight.is_accepted = True
            flight.seen = self.clock()
            self._accepted.add((job_id, attempt))

    def _on_heartbeat(self, message: Message) -> None:
        for each in message.data.get("jobs", []):
            progress = value_of(Progress, each)
            flight = self.in_flight.get(progress.job_id)
            if flight and flight.attempt == progress.attempt:
                flight.seen = self.clock()
                flight.progress = progress
        if self.driver is not None and not message.origin:
            abandoned = message.data.get("jobs_abandoned", ())
            self.driver.note_abandoned(abandoned, now=self.clock())

    def _on_log(self, data: Any) -> None:
        if len(self._logs) < MAX_LOGS:
            text = redact(str(data["message"]))[:MAX_LINE]
            job_id = str(UUID(str(data["job_id"])))
            self._logs.append((job_id, str(data["level"])[:10], text))

    def _on_report(self, report: JobReport) -> None:
        flight = self.in_flight.get(report.job_id)
        is_death = report.error is not None and report.error.code == DRIVER_DIED
        # its death is judged when it is seen, and is no attempt of the job
        if flight and flight.attempt == report.attempt and not is_death:
            self._reports.add(report)

    def _on_applied(self, message: Message) -> None:
        if self.driver is not None and not message.origin:
            report = value_of(ApplyReport, message.data["report"])
            self._sessions.hear(report)

    def _on_unreachable(self, origin: str, why: str) -> None:
        """Whether it still runs cannot be found out now: nothing new goes there, and no
        job that is there is given up."""
        if not origin and self.driver is not None:
            self.driver.is_ready = False
            self.driver.away = why
        for job_id, flight in self.in_flight.items():
            if flight.origin == origin:
                flight.seen = self.clock()
                self._unreachable[job_id] = why

    def _on_death(self, message: Message) -> None:
        if self._jobs.is_of_earlier_attempt(message):
            return
        # what it had accepted is judged otherwise than what it never got
        self._progressed = 0.0
        self._broker.forget(message.origin)
        if message.origin:
            flight = self.in_flight.pop(message.origin, None)
            attempt = flight.attempt if flight else message.data.get("attempt")
            why = "its own process ended"
            self._jobs.lost.add(LostAttempt(UUID(message.origin), attempt, why))
            return
        self.deaths = 0 if self.driver and self.driver.is_ready else self.deaths + 1
        wait = min(30.0, 2.0 ** min(self.deaths, 5))
        self._next_start = self.clock() + (wait if self.deaths else 0.5)
        code, pause = message.data.get("code"), self._next_start - self.clock()
        log.error("the driver ended with code %s; next start in %.1f s", code, pause)
        if self.driver is not None:
            self._ended.add((self.driver.id, self.driver.is_told_to_end))
            self.driver = None
        self._sessions.forget()
        reported = {report.job_id for report in self._reports}
        self._jobs.forget_shared(kept=reported)

    # ------------------------------------------------------------------- writing

    def _flush(self) -> None:
        """Everything said since the last time; kept until it is written."""
        self._broker.begin()
        self._write_logs()
        # a report that is refused must not silence the driver's own sign of life
        self._write_incarnation()
        if self._reports:
            self._sessions.wake()
        self._reports.write_all(self._finish, give_up=self._give_up_report)
        self._write_progress()
        self._sessions.write()
        while self._unreachable:
            job_id, why = next(iter(self._unreachable.items()))
            reconcile.mark_unreachable(UUID(job_id), why)
            del self._unreachable[job_id]
        # one that is given up counts as ended all the same, once its heartbeat is old
        self._ended.write_all(self._note_end)
        # and `_look` finds what is lost again
        self._jobs.lost.write_all(
            lambda lost: reconcile.judge_lost(
                lost.job_id, lost.why, attempt=lost.attempt
            )
        )

    def _note_end(self, end: tuple[UUID, bool]) -> None:
        """Jobs in processes of their own live on: they hang on the next incarnation."""
        incarnation, was_told = end
        own = self._jobs.alone()
        with transaction.atomic():
            reconcile.note_incarnation_ended(incarnation, was_told=was_told)
            if own and self.driver is None:
                following = Incarnation(is_stored=True)
                reconcile.begin_incarnation(following.id, self.place, alone=own)
        if own and self.driver is None:
            self.driver = following
        leases.release_ended_sessions()
        reconcile.reconcile_jobs()

    def _finish(self, report: JobReport) -> None:
        attempts.finish(report)
        self._accepted.keep(lambda said: said[0] != report.job_id)
        self._jobs.note_finished(report.job_id)

    def _give_up_report(self, report: JobReport, error: Exception) -> None:
        """The lake's timeline says what became of it."""
        self._progressed = 0.0  # it is judged as one that had begun
        self.in_flight.pop(report.job_id, None)
        log.error("the report of job %s", report.job_id, exc_info=error)
        why = Sentence(
            "its report could not be recorded; the driver host's log says why"
        )
        self._jobs.lost.add(LostAttempt(UUID(report.job_id), report.attempt, why))

    def _write_logs(self) -> None:
        lines = self._logs[:]
        if lines:
            write_logs(lines)
            del self._logs[: len(lines)]

    def _write_incarnation(self) -> None:
        driver = self.driver
        if driver is None or not self.launcher.is_running:
            return
        if self.clock() - driver.heard > queue.SILENT_SECONDS and driver.is_ready:
            return
        if not driver.is_worth_writing(self.clock()):
            return
        pid, place = self.launcher.pid, self.place
        if not write_incarnation(driver, pid=pid, place=place):
            log.error("another driver host has taken over: ending all drivers here")
            driver.is_told_to_end = True
            for origin in ("", *self.in_flight):
                self.launcher.kill(origin)
        driver.written = self.clock()

    def _write_progress(self) -> None:
        """Most syncs begin and end from one time to the next, and are never shown as
        running: what jobs say at their ends makes this no more urgent."""
        now = self.clock()
        if now - self._progressed < FLUSH_SECONDS:
            return
        self._accepted.write_all(
            lambda said: queue.note_accepted(UUID(said[0]), said[1])
        )
        self._progressed = now  # not before: what is lost is judged behind this
        self._sessions.renew_leases()
        if fresh := [f for f in self.in_flight.values() if now - f.seen < 10]:
            write_progress(fresh)

    # ------------------------------------------------------------------- looking

    def _look(self) -> None:
        if self.driver is None:
            return
        if self.driver.is_ready and self._sessions.look(self.driver.id):
            self._jobs.claims.note_change()
        self._jobs.look(
            self.driver.id,
            takes_work=self.driver.is_ready,
            reported={report.job_id for report in self._reports},
        )
