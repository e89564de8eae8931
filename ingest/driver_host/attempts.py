"""Attempts of jobs: claimed, in a driver's hands, asked to stop, abandoned, ended.

The rows are what counts: a claim is a row before a driver gets the spec, and a report
is a row before the attempt is forgotten here. What is held in memory may be lost at any
moment; the rows and the lake suffice to go on. It must not know how a driver is
started.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import cast
from uuid import UUID

from django.db import IntegrityError, transaction

from core.database_errors import is_away
from core.errors import SluiceError, StaleState, TerminalError, TransientError
from core.jobs import CANCELLING, LAUNCHING, moves
from core.jobs.moves import conclude
from core.leases import owner_of, release_all
from core.models import Job
from core.sentences import Sentence, as_sentence
from ingest.contract.job import (
    OUT_OF_MEMORY,
    WAITS,
    ErrorFact,
    JobReport,
    Progress,
    error_from,
    fact_of,
    spec_from,
)
from ingest.driver_host.backlog import Backlog
from ingest.driver_host.launcher import CancelMode, Launcher, Message
from ingest.jobs import queue
from ingest.jobs.kinds import Attempt, Refused, driver_kind
from ingest.jobs.leases import use_dedicated_driver
from ingest.jobs.queue import LANE_LIMITS, HeldJob, has_room
from ingest.models import DriverIncarnation
from ingest.pipelines.table_job import explained

log = logging.getLogger(__name__)

_MODES = {"cancel": Sentence("cancel"), "pause": Sentence("pause")}
_NO_REASON = Sentence("the driver gave no reason")
_DEFECT = Sentence("a defect of Sluice: the log of the driver host has its trace")

# What waits and cannot run is claimed again so much later.
AGAIN_SECONDS = 2.0
MISSED_SECONDS = 20.0
START_SECONDS = 120.0
ASK_AGAIN_SECONDS = 5.0
# A cancel ends within a minute, the judging behind it included.
UNANSWERED_SECONDS = 45.0
JUDGE_AGAIN_SECONDS = 5.0

# ------------------------------------------------------------------------- claim


def claim_queued() -> list[UUID]:
    """Move what may run now to LAUNCHING, with leases, fences and spec in place. The
    rows of what cannot run yet get the reason.

    The driver host is the only caller; two at once do no harm.
    """
    incarnation = queue.live_incarnation()
    if incarnation is None:
        return []
    free = queue.free_lanes()
    claimed: list[UUID] = []
    for lane in LANE_LIMITS:
        if lane in free:
            claimed += _claim_in(lane, incarnation)
    return claimed


def _claim_in(lane: str, incarnation: DriverIncarnation) -> list[UUID]:
    """Fill the free places of a lane, in its order."""
    claimed: list[UUID] = []
    refused: list[UUID] = []
    while len(refused) <= LANE_LIMITS[lane]:
        pk = queue.next_in(lane, without=[*claimed, *refused])
        if pk is None:
            break
        (claimed if claim(pk, incarnation) else refused).append(pk)
    return claimed


def claim(job_id: UUID, incarnation: DriverIncarnation) -> bool:
    """Begin the job's next attempt; False when it has to wait, was refused, or another
    process was first."""
    try:
        with transaction.atomic():
            job = moves.lock_queued(job_id)
            if job is None:
                return False
            kind = driver_kind(job.kind)
            found = kind.spec_for(job) if has_room(job) else None
            if isinstance(found, Attempt):
                queue.claim(job, found, incarnation)
                return True
            if isinstance(found, Refused):
                conclude(job, moves.reject(job, found.error))
            return False
    except (IntegrityError, StaleState):
        return False
    except SluiceError as error:
        _put_off(job_id, error)
    except Exception as error:
        # a job that cannot be begun for a defect of ours must not hold up the others
        if is_away(error):
            raise
        log.exception("cannot begin job %s", job_id)
        _put_off(job_id, TransientError(_DEFECT, code="defect"))
    return False


def _put_off(job_id: UUID, error: SluiceError) -> None:
    with transaction.atomic():
        refused = Job.objects.select_for_update().get(pk=job_id)
        conclude(refused, moves.put_off(refused, error))


class ClaimLoop:
    """Each look of the host finds what waits, by a statement that costs next to nothing
    while nothing does."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._again_at = 0.0

    def claim(self) -> None:
        """What waits and cannot run is looked at again later."""
        if self._clock() < self._again_at or not queue.is_any_queued():
            return
        if not claim_queued():
            self._again_at = self._clock() + AGAIN_SECONDS

    def note_change(self) -> None:
        """A job has ended, or was queued: what waits may run now."""
        self._again_at = 0.0


# ---------------------------------------------------------------------- in flight


@dataclass(slots=True)
class InFlightJob:
    """A spec in a driver's hands. Times are monotonic seconds.

    seen       of its last sign
    stop_since when somebody's mode to stop it was first passed on; None = nobody asked
    """

    job_id: UUID
    attempt: int
    origin: str
    seen: float
    is_accepted: bool = False
    progress: Progress | None = None
    asked: str = ""
    asked_at: float = 0.0
    stop_since: float | None = None

    def request_due(self, mode: CancelMode, now: float) -> CancelMode | None:
        """What has to be said to its driver now: the mode, again and again, and when
        that stays unanswered that the attempt is abandoned."""
        if self.stop_since is None:
            self.stop_since = now
        if now - self.stop_since >= UNANSWERED_SECONDS:
            return "abandon"
        if mode == self.asked and now - self.asked_at <= ASK_AGAIN_SECONDS:
            return None
        self.asked, self.asked_at = mode, now
        return mode

    @property
    def patience(self) -> float:
        """Seconds without a sign after which it counts as lost."""
        is_starting = bool(self.origin) and not self.is_accepted
        return START_SECONDS if is_starting else MISSED_SECONDS


@dataclass(frozen=True, slots=True)
class LostAttempt:
    """Somebody has to decide about it. attempt: None = whichever the job has."""

    job_id: UUID
    attempt: int | None
    why: str


class InFlight:
    """in_flight: by job id. lost: to be written; the job may have gone on by then.
    reports: the host's, to be written, too."""

    def __init__(
        self,
        launcher: Launcher,
        clock: Callable[[], float],
        reports: Backlog[JobReport],
    ) -> None:
        self.in_flight: dict[str, InFlightJob] = {}
        self.lost: Backlog[LostAttempt] = Backlog()
        self._launcher = launcher
        self._clock = clock
        self._reports = reports
        self.claims = ClaimLoop(clock)
        self._judged: dict[str, float] = {}

    def look(
        self, driver: UUID, *, takes_work: bool, reported: Collection[str]
    ) -> None:
        """Claim and hand over what may run; pass on what people asked until then.
        reported: jobs that have ended, which is only not written yet."""
        if takes_work:
            self.claims.claim()
        held = queue.held_by(driver)
        if takes_work:
            self._hand_over(held)
        self._judge_unheld(held)
        self._pass_requests_on(held, reported=reported)

    def note_finished(self, job_id: str) -> None:
        """Its end is written: what waits for its place may run now."""
        self.claims.note_change()
        self.in_flight.pop(job_id, None)

    def _hand_over(self, held: Sequence[HeldJob]) -> None:
        for job in held:
            if job.spec is None or job.id in self.in_flight:
                continue
            origin = job.id if job.is_isolated else ""
            self.in_flight[job.id] = InFlightJob(
                UUID(job.id), job.attempts, origin, self._clock()
            )
            try:
                spec = spec_from(job.spec)
            except Exception as error:
                # of one job: the others are handed over all the same
                log.exception("the spec of job %s cannot be read", job.id)
                self._reports.add(_unread(job, error))
                continue
            self._launcher.submit(spec, isolated=job.is_isolated)

    def _judge_unheld(self, held: Sequence[HeldJob]) -> None:
        """Jobs of the driver that it never got or does not have any more: cancelled
        after the claim and before they were handed over, or lost while nobody could
        judge them. Without this they would hold lane and table for ever."""
        now = self._clock()
        waiting = {str(lost.job_id) for lost in self.lost}
        for job in held:
            if job.state == LAUNCHING or job.id in self.in_flight or job.id in waiting:
                self._judged.pop(job.id, None)
                continue
            if now < self._judged.get(job.id, now):
                continue
            self._judged[job.id] = now + JUDGE_AGAIN_SECONDS
            self._end(job.id, job.id if job.is_isolated else "")
            why = Sentence("no driver had it")
            self.lost.add(LostAttempt(UUID(job.id), job.attempts, why))

    def _pass_requests_on(
        self, held: Sequence[HeldJob], *, reported: Collection[str]
    ) -> None:
        """Tell drivers what people want of their jobs."""
        now = self._clock()
        rows = {job.id: job for job in held}
        for job_id, flight in list(self.in_flight.items()):
            if job_id in reported:
                continue
            job = rows.get(job_id)
            if job is None or job.attempts != flight.attempt:
                # judged without us while we were away: it must not go on here
                self._launcher.cancel(job_id, "cancel")
                self.in_flight.pop(job_id)
                continue
            mode = cast(CancelMode, job.cancel_requested)
            due = flight.request_due(mode, now) if mode else None
            if due == "abandon":
                self._lose(flight, unanswered(mode))
            elif due is not None:
                self._launcher.cancel(job_id, due)
            elif now - flight.seen > flight.patience:
                self._lose(flight, Sentence("the driver lost it"))

    def is_of_earlier_attempt(self, message: Message) -> bool:
        """Whether it speaks of a process whose job runs again in another one."""
        flight = self.in_flight.get(message.origin)
        attempt = message.data.get("attempt", flight.attempt if flight else 0)
        return flight is not None and int(attempt) < flight.attempt

    def alone(self) -> dict[str, int]:
        """Attempts of jobs in processes of their own, whatever became of the shared
        driver."""
        found = self.in_flight.items()
        return {job_id: flight.attempt for job_id, flight in found if flight.origin}

    def forget_shared(self, *, kept: Collection[str]) -> None:
        """The shared driver has ended, and all that it had but for these."""
        self.in_flight = {
            job_id: flight
            for job_id, flight in self.in_flight.items()
            if flight.origin or job_id in kept
        }

    def _lose(self, flight: InFlightJob, why: str) -> None:
        """Nobody waits for it any more. The death of a process of its own is judged
        when it is seen."""
        job_id = str(flight.job_id)
        log.error("job %s: %s", job_id, why)
        self.in_flight.pop(job_id)
        self._end(job_id, flight.origin)
        if not flight.origin:
            self.lost.add(LostAttempt(flight.job_id, flight.attempt, why))

    def _end(self, job_id: str, origin: str) -> None:
        if origin:
            self._launcher.kill(origin)
        else:
            self._launcher.cancel(job_id, "abandon")


def _unread(job: HeldJob, error: Exception) -> JobReport:
    """Its next attempt gets another spec."""
    why = error.message if isinstance(error, SluiceError) else _DEFECT
    unread = TransientError(
        "its spec cannot be read: %(why)s",
        why=as_sentence(why),
        code="unread_spec",
    )
    return JobReport(job.id, job.attempts, "transient", error=fact_of(unread))


def unanswered(mode: str) -> str:
    """Why a job was ended that did not answer."""
    return Sentence(
        "it did not answer the %(mode)s within %(seconds)s s",
        mode=_MODES.get(mode, mode),
        seconds=f"{UNANSWERED_SECONDS:.0f}",
    )


# ------------------------------------------------------------------------- finish


def finish(report: JobReport) -> bool:
    """End the attempt that the report is about, with all that follows for its table;
    False when it is not the last one, or has ended already."""
    with transaction.atomic():
        job = queue.lock_attempt(report)
        if job is None:
            return False
        driver_kind(job.kind)  # of an unknown kind nothing is known to follow
        is_failure = report.outcome != "succeeded" and job.state != CANCELLING
        error = _why_not(job, report) if is_failure else None
        conclude(job, queue.finish(job, report, error))
        release_all(owner_of(job.pk, report.attempt))
    return True


def _why_not(job: Job, report: JobReport) -> SluiceError:
    if report.outcome in {"cancelled", "paused"}:
        # nothing asked for that: its driver was told to stop
        job.max_attempts += 1
        return TransientError(Sentence("its driver was stopped"))
    unexplained = ErrorFact("unexplained", _NO_REASON)
    error = error_from(report.outcome, report.error or unexplained)
    if error.code in WAITS:
        # however long it takes: each try costs next to nothing
        job.max_attempts += 1
    if error.code == OUT_OF_MEMORY:
        if job.handle.get("isolated"):
            return _out_of_memory_alone(job, error)
        why = Sentence("%(error)s ended the shared driver", error=error.message)
        use_dedicated_driver(int(job.payload["table"]), why)
    return explained(job, error)


def _out_of_memory_alone(job: Job, error: SluiceError) -> TerminalError:
    """Nothing beside it used memory, so another attempt would end like this one."""
    return TerminalError(
        "%(table)s: %(error)s, in a driver of its own",
        table=job.subject,
        error=as_sentence(error.message),
        code=OUT_OF_MEMORY,
        hint="give drivers more memory (SLUICE_DRIVER_MEMORY) and restart the driver"
        " host, then resume the table; or add it again without its widest columns"
        " (exclude_columns)",
    )
