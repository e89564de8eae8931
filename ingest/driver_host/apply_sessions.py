"""Sessions that apply streams without end, as the warm driver's host sees them: what
each shall work on, under which leases, and what it has reported.

A table is given with its lease for writes; the lease names session and driver. It is
given back when the session has reported that it holds the table no more, or when its
driver is known to have ended: then all begins anew with the next driver. What is held
in memory may be lost at any moment: the leases are rows, what is applied is in the
lake. Must not know how a session works.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from uuid import UUID

from django.conf import settings

from core.database_errors import is_away
from core.errors import SluiceError
from ingest.contract.applying import ApplyProblem, ApplyReport, ApplyWork
from ingest.contract.table import FenceSpec
from ingest.driver_host.launcher import Launcher
from ingest.hosting import pause_behind
from ingest.jobs import leases, queue
from ingest.jobs.kinds import keep_seconds
from ingest.pipelines import apply_reports
from ingest.pipelines.apply_work import (
    Wanted,
    WantedStream,
    WantedTables,
    is_any_applied,
)

log = logging.getLogger(__name__)

# Of hundreds of tables a look costs a tenth of a second: who changes their rows wakes
# the host, and what was not told is seen by then.
LOOK_SECONDS, MOST_LOOK_SECONDS = 2.0, 10.0
# At a start there may be hundreds, and each fence is a file.
TAKE_SECONDS = 0.25
# A lease that is not free, or a lake that is away, is tried again so much later.
AGAIN_SECONDS = 5.0
# What compactions may write changes with each look at a table's health.
BUDGET_SECONDS = 30.0
# Its leases end by themselves.
SILENT_SECONDS = 10.0
# What reports nothing for so long ends with its driver.
LOST_SECONDS = 120.0
# Of hundreds of tables each lease is a row to write.
RENEWALS_IN_LEASE = 6


@dataclass(slots=True)
class Session:
    """One stream's, in the present driver. Times are monotonic seconds.

    run     its name, the owner of its leases
    without since which work a table is left out of it
    spent   tables whose fence it does not touch any more
    """

    run: str
    sent: ApplyWork | None = None
    sent_at: float = 0.0
    heard: float = 0.0
    number: int = 0
    held: frozenset[int] = frozenset()
    without: dict[int, int] = field(default_factory=dict)
    spent: set[int] = field(default_factory=set)

    def may_write(self, table_id: int) -> bool:
        """Whether the session has the table, or may come to have it yet."""
        if self.sent is None:
            return False
        if any(each.table.table_id == table_id for each in self.sent.tables):
            return True
        is_old = self.number < self.without.get(table_id, 0)
        return is_old or table_id in self.held

    def hear(self, report: ApplyReport, now: float) -> bool:
        """Whether it works on other tables than before."""
        before = self.number, self.held, len(self.spent)
        self.heard, self.number = now, report.number
        self.held = frozenset(report.held)
        self.spent |= {each.table_id for each in report.problems if _is_spent(each)}
        return before != (self.number, self.held, len(self.spent))

    def note_sent(self, work: ApplyWork, now: float) -> None:
        before = self.sent.tables if self.sent else ()
        left_out = {each.table.table_id for each in before}
        for each in work.tables:
            left_out.discard(each.table.table_id)
            self.without.pop(each.table.table_id, None)
        self.without |= dict.fromkeys(left_out, work.number)
        if self.sent is None:
            self.heard = now
        self.sent, self.sent_at = work, now


class ApplySessions:
    """Called from the host's one thread. Knows rows."""

    def __init__(self, launcher: Launcher, clock: Callable[[], float]) -> None:
        self._launcher = launcher
        self._clock = clock
        self._sessions: dict[str, Session] = {}
        self._wanted = WantedTables()
        self._reports = apply_reports.Gathered()
        self._later: dict[int, float] = {}
        self._cleaned_for: UUID | None = None
        self._looked = self._renewed = -math.inf
        self._look_pause = LOOK_SECONDS

    def wake(self) -> None:
        """The next look is due."""
        self._looked = -math.inf

    def hear(self, report: ApplyReport) -> None:
        session = self._sessions.get(report.stream)
        if session is None or session.run != report.run:
            return
        if session.hear(report, self._clock()):
            self.wake()
        self._reports.add(report)

    def forget(self) -> None:
        """Their driver has ended; what they reported stays true."""
        self._sessions.clear()
        self._reports.forget_standing()

    def renew_leases(self) -> None:
        """Of sessions that report, when that is due."""
        now = self._clock()
        if now - self._renewed < settings.SLUICE_LEASE_SECONDS / RENEWALS_IN_LEASE:
            return
        living = self._sessions.values()
        leases.renew([s.run for s in living if now - s.heard < SILENT_SECONDS])
        self._renewed = now

    def lost(self) -> str:
        """The session that has reported nothing for too long; "" = none."""
        now = self._clock()
        for stream, session in self._sessions.items():
            is_at_work = session.sent is not None and session.sent.tables
            if is_at_work and now - session.heard > LOST_SECONDS:
                return stream
        return ""

    def write(self) -> None:
        """What was reported since the last time, as rows."""
        self._reports.write()

    def look(self, driver: UUID) -> bool:
        """Give tables and take them back, when that is due; whether a lease has become
        free."""
        if self._cleaned_for != driver:
            leases.release_ended_sessions()
            self._cleaned_for = driver
            self.wake()
        if not self._sessions and not is_any_applied():
            return False
        now = self._clock()
        if now - self._looked < self._look_pause:
            return False
        self._looked = now
        freed = self._look(driver)
        self._look_pause = pause_behind(
            self._clock() - now, least=LOOK_SECONDS, most=MOST_LOOK_SECONDS
        )
        return freed

    def _look(self, driver: UUID) -> bool:
        wanted = self._wanted.read()
        self._reports.expect(wanted)
        for stream in wanted.keys() - self._sessions.keys():
            self._sessions[stream] = Session(leases.session_owner(stream, driver))
        until = time.monotonic() + TAKE_SECONDS
        freed = [
            self._bring_alone(stream, session, wanted.get(stream), until)
            for stream, session in self._sessions.items()
        ]
        return any(freed)

    def _bring_alone(
        self, stream: str, session: Session, wanted: WantedStream | None, until: float
    ) -> bool:
        """What fails for one stream must not hold up the others, nor jobs."""
        try:
            return self._bring(stream, session, wanted, until)
        except Exception as error:
            if is_away(error):
                raise
            log.exception("stream %s is not brought up to date", stream)
            return False

    def _bring(
        self, stream: str, session: Session, wanted: WantedStream | None, until: float
    ) -> bool:
        held = leases.held_by_session(session.run)
        tables = wanted.tables if wanted else {}
        known = tables.keys() | held.keys()
        asked = queue.tables_asked_for(known, of=[session.run])
        keep = tables.keys() - asked - session.spent
        for table_id in sorted(keep - held.keys()):
            if time.monotonic() > until:
                self.wake()
                break
            if fence := self._take(table_id, session.run):
                held[table_id] = fence
        if wanted is not None or session.sent is not None:
            given = {pk: tables[pk] for pk in sorted(keep & held.keys())}
            self._send(stream, session, wanted, given, held)
        free = [pk for pk in held if pk not in keep and not session.may_write(pk)]
        session.spent -= {pk for pk in session.spent if not session.may_write(pk)}
        if free:
            # what was reported of a table is written before anybody else gets it
            self._reports.write(at_once=True)
            leases.release_tables(session.run, free)
        return bool(free)

    def _take(self, table_id: int, owner: str) -> FenceSpec | None:
        now = self._clock()
        if self._later.get(table_id, now) > now:
            return None
        self._later[table_id] = now + AGAIN_SECONDS
        try:
            fence = leases.take_for_session(table_id, owner)
        except (SluiceError, OSError) as error:
            if is_away(error):
                raise
            self._reports.cannot_take(table_id, error)
            return None
        if fence is not None:
            del self._later[table_id]
        return fence

    def _send(
        self,
        stream: str,
        session: Session,
        wanted: WantedStream | None,
        given: Mapping[int, Wanted],
        held: Mapping[int, FenceSpec],
    ) -> None:
        sent, now = session.sent, self._clock()
        tables = tuple(one.under(held[pk]) for pk, one in given.items())
        if sent is None:
            if wanted is None or not tables:
                return
            work = ApplyWork(
                run=session.run,
                source=wanted.source,
                stream=stream,
                lake=settings.SLUICE_LAKE_URI,
                number=1,
                tables=tables,
                keep_seconds=keep_seconds(),
                lock_service=settings.SLUICE_LAKE_LOCK,
            )
        else:
            source = wanted.source if wanted else sent.source
            work = replace(sent, source=source, tables=tables, number=sent.number + 1)
            is_due = now - session.sent_at >= BUDGET_SECONDS
            if not _differs(sent, work, with_budgets=is_due):
                return
        self._launcher.apply(work)
        session.note_sent(work, now)


def _differs(sent: ApplyWork, work: ApplyWork, *, with_budgets: bool) -> bool:
    def bare(each: ApplyWork) -> ApplyWork:
        tables = each.tables
        if not with_budgets:
            tables = tuple(replace(one, budget=None) for one in tables)
        return replace(each, tables=tables, number=0)

    return bare(sent) != bare(work)


def _is_spent(problem: ApplyProblem) -> bool:
    return problem.outcome != "transient" or problem.error.code == "fenced"
