"""The driver host: between job rows and a launcher, one step at a time.

Hands LAUNCHING rows over, writes progress, logs and reports back, renews leases,
answers requests for secrets by reference. What it holds in memory may be lost at any
moment; the lake and the rows suffice to go on. With the database away it keeps the
driver alive and everything said until it can be written.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, cast
from uuid import UUID

import django.db
from django.conf import settings
from django.db import InterfaceError, OperationalError, connection

from core.errors import SluiceError
from core.jobs import CANCELLING, LAUNCHING, RUNNING, UNKNOWN
from core.models import Job
from core.redaction import redact
from ingest import reconcile, runs
from ingest.contract import JobReport, progress_from, report_from
from ingest.launch.flights import START_SECONDS, Boot, Flight
from ingest.launch.handing import SecretDesk
from ingest.launch.launcher import CancelMode, Launcher, Message
from ingest.launch.written import write_boot, write_logs, write_progress

log = logging.getLogger(__name__)

FLUSH_SECONDS = 1.0
LOOK_SECONDS = 0.5
PING_SECONDS = 2.0
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
        self.boot: Boot | None = None
        self.flights: dict[str, Flight] = {}
        self.deaths = 0
        self._next_start = 0.0
        self._flushed = self._looked = self._pinged = 0.0
        self._logs: list[tuple[str, str, str]] = []
        self._accepted: list[tuple[str, int]] = []
        self._reports: list[JobReport] = []
        self._secrets: list[tuple[str, str]] = []
        self._desk = SecretDesk()
        self._ended: list[UUID] = []
        self._orphans: list[UUID] = []
        self._unseen: dict[str, str] = {}
        self._unwanted: list[str] = []
        self.is_database_away = False

    # ------------------------------------------------------------------ the step

    def step(self, seconds: float = 0.25) -> None:
        """Listen for at most `seconds`, then write, look and speak as is due."""
        self._keep_driver()
        for message in self.launcher.poll(seconds):
            self._hear(message)
        now = self.clock()
        if now - self._pinged >= PING_SECONDS:
            self._pinged = now
            self.launcher.ping()
        self._watch_silence(now)
        is_urgent = bool(
            self._reports or self._accepted or self._ended or self._secrets
        )
        if is_urgent or now - self._flushed >= FLUSH_SECONDS:
            self._flushed = now
            self._with_database(self._flush)
        for answer, origin in self._desk.answered():
            self.launcher.give_secret(answer, origin=origin)
        if now - self._looked >= LOOK_SECONDS:
            self._looked = now
            self._with_database(self._look)

    def stop(self) -> None:
        """End the driver, then say so; its jobs are judged by the next reconciler."""
        self.launcher.stop()
        if self.boot is not None:
            boot, self.boot = self.boot, None
            self._with_database(
                lambda: reconcile.note_boot_ended(boot.id, was_told=True)
            )
        self._with_database(self._flush)
        self._with_database(reconcile.reconcile_jobs)

    def _with_database(self, work: Callable[[], object]) -> None:
        try:
            work()
            self.is_database_away = False
        except (OperationalError, InterfaceError) as error:
            if not self.is_database_away:
                log.warning("the database is away, keeping the driver: %s", error)
            self.is_database_away = True
            connection.close()
        except django.db.Error:
            # a defect of ours: the other things of a step must go on
            log.exception("the database refused a statement")
            connection.close()

    # ------------------------------------------------------------ the warm driver

    def _keep_driver(self) -> None:
        if self.launcher.is_running or self.clock() < self._next_start:
            return
        if self.boot is not None or self.is_database_away:
            return
        self.boot = Boot(heard=self.clock())
        self._with_database(self._store_boot)
        if not self.boot.is_stored:
            self.boot = None
            return
        self.launcher.start(str(self.boot.id))
        while self._unwanted:
            self.launcher.kill(self._unwanted.pop())

    def _store_boot(self) -> None:
        if self.boot is None or self.boot.is_stored:
            return
        survivors = self.launcher.survivors()
        kept = reconcile.begin_boot(self.boot.id, self.place, survivors=survivors)
        for one in survivors:
            if kept.get(one.job_id) is None:
                self._unwanted.append(one.job_id)
            elif kept[one.job_id] != LAUNCHING:
                self.flights[one.job_id] = Flight(
                    UUID(one.job_id),
                    one.attempt,
                    one.job_id,
                    self.clock(),
                    is_accepted=True,
                )
        self.boot.is_stored = True

    def _watch_silence(self, now: float) -> None:
        """A driver that hangs is as good as dead, and must be dead to be judged."""
        if self.boot is None or not self.launcher.is_running:
            return
        limit = settings.SLUICE_LEASE_SECONDS if self.boot.is_ready else START_SECONDS
        if now - self.boot.heard > limit:
            log.error("the driver has been silent for %.0f s: killing it", limit)
            self.boot.heard = now
            self.launcher.kill()

    # ------------------------------------------------------------------- hearing

    def _hear(self, message: Message) -> None:
        if self.boot is not None and not message.origin:
            self.boot.heard = self.clock()
        data = message.data
        try:
            match message.kind:
                case "ready":
                    self._hear_ready(message)
                case "accepted":
                    self._hear_accepted(str(data["job_id"]), int(data["attempt"]))
                case "secret_request":
                    self._secrets.append((str(data["ref"]), message.origin))
                case "heartbeat":
                    self._hear_heartbeat(data)
                case "log":
                    self._hear_log(data)
                case "report":
                    self._hear_report(report_from(data["report"]))
                case "died":
                    self._hear_death(message)
                case "unseen":
                    self._hear_unseen(message.origin, str(data["why"]))
        except (KeyError, TypeError, ValueError, SluiceError):
            log.exception("a driver sent a malformed %s", message.kind)

    def _hear_ready(self, message: Message) -> None:
        if self.boot is not None and not message.origin:
            self.boot.is_ready = True
            self.boot.away = ""
            self.boot.facts = dict(message.data)
            self._flushed = 0.0

    def _hear_accepted(self, job_id: str, attempt: int) -> None:
        flight = self.flights.get(job_id)
        if flight and flight.attempt == attempt:
            flight.is_accepted = True
            flight.seen = self.clock()
            self._accepted.append((job_id, attempt))

    def _hear_heartbeat(self, data: Any) -> None:
        for each in data.get("jobs", []):
            progress = progress_from(each)
            flight = self.flights.get(progress.job_id)
            if flight and flight.attempt == progress.attempt:
                flight.seen = self.clock()
                flight.progress = progress

    def _hear_log(self, data: Any) -> None:
        if len(self._logs) < MAX_LOGS:
            text = redact(str(data["message"]))[:MAX_LINE]
            self._logs.append((str(data["job_id"]), str(data["level"])[:10], text))

    def _hear_report(self, report: JobReport) -> None:
        flight = self.flights.get(report.job_id)
        if flight and flight.attempt == report.attempt:
            self._reports.append(report)

    def _hear_unseen(self, origin: str, why: str) -> None:
        """Neither alive nor dead as far as anybody can tell: nothing new goes there,
        and nothing that is there is judged."""
        if not origin and self.boot is not None:
            self.boot.is_ready = False
            self.boot.away = why
        for job_id, flight in self.flights.items():
            if flight.origin == origin:
                flight.seen = self.clock()
                self._unseen[job_id] = why

    def _hear_death(self, message: Message) -> None:
        # whoever comes next did not ask for them
        self._secrets = [asked for asked in self._secrets if asked[1] != message.origin]
        self._desk.forget(message.origin)
        if message.origin:
            self.flights.pop(message.origin, None)
            self._orphans.append(UUID(message.origin))
            return
        self.deaths = 0 if self.boot and self.boot.is_ready else self.deaths + 1
        wait = min(30.0, 2.0 ** min(self.deaths, 5))
        self._next_start = self.clock() + (wait if self.deaths else 0.5)
        log.error(
            "the driver ended with code %s; next start in %.1f s",
            message.data.get("code"),
            self._next_start - self.clock(),
        )
        if self.boot is not None:
            self._ended.append(self.boot.id)
            self.boot = None
        reported = {report.job_id for report in self._reports}
        self.flights = {
            job_id: flight
            for job_id, flight in self.flights.items()
            if flight.origin or job_id in reported
        }

    # ------------------------------------------------------------------- writing

    def _flush(self) -> None:
        """Everything said since the last time; kept until it is written."""
        self._answer_secrets()
        while self._accepted:
            job_id, attempt = self._accepted[0]
            runs.note_accepted(UUID(job_id), attempt)
            self._accepted.pop(0)
        self._write_logs()
        while self._reports:
            report = self._reports[0]
            runs.finish(report)
            self._reports.pop(0)
            self.flights.pop(report.job_id, None)
        self._write_boot()
        self._write_progress()
        while self._unseen:
            job_id, why = next(iter(self._unseen.items()))
            reconcile.lose_sight(UUID(job_id), why)
            del self._unseen[job_id]
        while self._ended:
            reconcile.note_boot_ended(self._ended[0])
            self._ended.pop(0)
            reconcile.reconcile_jobs()
        while self._orphans:
            reconcile.judge_lost(self._orphans[0], "its own process ended")
            self._orphans.pop(0)

    def _answer_secrets(self) -> None:
        while self._secrets:
            ref, origin = self._secrets[0]
            self._desk.ask(ref, origin)
            self._secrets.pop(0)

    def _write_logs(self) -> None:
        lines = self._logs[:]
        if lines:
            write_logs(lines)
            del self._logs[: len(lines)]

    def _write_boot(self) -> None:
        boot = self.boot
        if boot is None or not self.launcher.is_running:
            return
        if self.clock() - boot.heard > runs.BOOT_SILENT_SECONDS and boot.is_ready:
            return
        write_boot(boot, pid=self.launcher.pid, place=self.place)

    def _write_progress(self) -> None:
        fresh = [f for f in self.flights.values() if self.clock() - f.seen < 10]
        if fresh:
            write_progress(fresh)

    # ------------------------------------------------------------------- looking

    def _look(self) -> None:
        """Claim and hand over what may run; pass on what people asked meanwhile."""
        if self.boot is None:
            return
        if self.boot.is_ready:
            self._hand_over(self.boot)
        self._pass_wishes_on()

    def _hand_over(self, boot: Boot) -> None:
        runs.claim_queued()
        for spec, isolated in runs.launching_for(boot.id):
            if spec.job_id in self.flights:
                continue
            origin = spec.job_id if isolated else ""
            self.flights[spec.job_id] = Flight(
                UUID(spec.job_id), spec.attempt, origin, self.clock()
            )
            self.launcher.submit(spec, isolated=isolated)

    def _pass_wishes_on(self) -> None:
        if not self.flights:
            return
        now = self.clock()
        rows = {
            str(pk): (state, attempts, wish)
            for pk, state, attempts, wish in Job.objects.filter(
                pk__in=list(self.flights)
            ).values_list("pk", "state", "attempts", "cancel_requested")
        }
        reported = {report.job_id for report in self._reports}
        for job_id, flight in list(self.flights.items()):
            if job_id in reported:
                continue
            state, attempts, wish = rows.get(job_id, ("", 0, ""))
            is_ours = attempts == flight.attempt and state in _HELD
            if not is_ours:
                # judged without us while we were away: it must not go on here
                self.launcher.cancel(job_id, "cancel")
                self.flights.pop(job_id)
            elif wish and (wish != flight.asked or now - flight.asked_at > 5):
                self.launcher.cancel(job_id, cast(CancelMode, wish))
                flight.asked, flight.asked_at = wish, now
            elif now - flight.seen > flight.patience:
                self._lose(flight)

    def _lose(self, flight: Flight) -> None:
        """The driver lives and does not know the job: tell it to stop, then judge.
        A process of its own is killed; its death is judged when it is seen."""
        log.error("the driver says nothing of job %s any more", flight.job_id)
        self.flights.pop(str(flight.job_id))
        if flight.origin:
            self.launcher.kill(flight.origin)
            return
        self.launcher.cancel(str(flight.job_id), "cancel")
        reconcile.judge_lost(flight.job_id, "the driver lost it")


_HELD = frozenset({LAUNCHING, RUNNING, CANCELLING, UNKNOWN})
