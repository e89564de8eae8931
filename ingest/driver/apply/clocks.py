"""The clock of this driver, held against those of others before an instant is made.

Hudi names and orders instants by the driver's clock. A commit from a clock that is
ahead shuts its table for every right clock until that moment, so a driver that is ahead
writes nothing. The database's clock, asked for over the control pipe, and the source's
are the measure. It must not know leases or jobs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import SparkSession

from core.errors import TransientError
from core.sentences import Sentence
from ingest.contract.job import CLOCK
from ingest.contract.positions import SourceClock
from ingest.driver.apply.jobrun import JobRun
from ingest.lake.hudi.timeline import Timeline, at_of, instant_of

# Hudi waits for a difference of this size automatically.
CLOCKS_APART = timedelta(seconds=1)
# Answers take a while; what counts is only how far ahead it is beyond doubt.
MOST_AHEAD = timedelta(seconds=5)
# A source's clock is not ours to set: a table must not stop for minutes of it.
MOST_AHEAD_OF_SOURCE = timedelta(minutes=10)
# So long one comparison holds, unless the clock is set in between.
_HOLDS_SECONDS = 60.0

_INSTANTS = "org.apache.hudi.common.table.timeline.HoodieInstantTimeGenerator"


@dataclass(slots=True)
class _Compared:
    """When the clock was last found right: wall clock and steady clock then."""

    wall: datetime
    steady: float

    def holds(self, wall: datetime, steady: float) -> bool:
        passed = steady - self.steady
        drift = abs((wall - self.wall).total_seconds() - passed)
        return passed < _HOLDS_SECONDS and drift < CLOCKS_APART.total_seconds()


_LAST = _Compared(datetime(1, 1, 1, tzinfo=UTC), float("-inf"))


def wall() -> datetime:
    return datetime.now(UTC)


def soon() -> str:
    """The first instant that counts as one of the future."""
    return instant_of(wall() + CLOCKS_APART)


def require_clock(run: JobRun) -> None:
    """TransientError `clock_ahead` when the database's clock says that this driver's is
    ahead. Nothing was written then."""
    if not _LAST.holds(wall(), time.monotonic()):
        # one answer may have been under way for another job for some seconds
        ahead = min(_ahead_of_database(run), _ahead_of_database(run))
        if ahead > MOST_AHEAD:
            raise _ahead(ahead, of=Sentence("the metadata database"))
        _LAST.wall, _LAST.steady = wall(), time.monotonic()


def require_not_behind(run: JobRun) -> None:
    """TransientError `clock_behind` when this driver's clock is behind that of the
    database: what is of now would be taken for something of the future."""
    told = datetime.fromisoformat(run.secret(CLOCK).value)
    behind = told - wall()
    if behind > MOST_AHEAD:
        raise TransientError(
            "the clock of this driver's host is %(seconds)s s behind the"
            " clock of the metadata database. Nothing was removed",
            seconds=f"{behind.total_seconds():.0f}",
            code="clock_behind",
            hint="set the clock that is wrong right, best by NTP; the job is tried"
            " again",
            facts={"behind_seconds": round(behind.total_seconds(), 3)},
        )


def _ahead_of_database(run: JobRun) -> timedelta:
    began = wall()
    return began - datetime.fromisoformat(run.secret(CLOCK).value)


def checked_clock(ask: Callable[[], SourceClock]) -> SourceClock:
    """A source's clock, as `ask` reads it; TransientError `clock_ahead` when this
    driver's is far ahead of it."""
    began = wall()
    told = ask()
    if began - told.now > MOST_AHEAD_OF_SOURCE:
        raise _ahead(began - told.now, of=Sentence("the source"))
    return told


def _ahead(by: timedelta, *, of: str) -> TransientError:
    return TransientError(
        "the clock of this driver's host is %(seconds)s s ahead of"
        " the clock of %(of)s. Nothing was written: a commit from the"
        " future would shut its table until then",
        seconds=f"{by.total_seconds():.0f}",
        of=of,
        code="clock_ahead",
        hint="set the clock that is wrong right, best by NTP; the job is tried again",
        facts={"ahead_seconds": round(by.total_seconds(), 3)},
    )


def future_of(timeline: Timeline) -> list[str]:
    """Instants that were asked for, or completed, later than it is now, oldest first;
    whatever they are, whether they completed or not."""
    now = soon()
    return [i.asked for i in timeline.instants if max(i.asked, i.completed) > now]


def savepoints_of_the_future(timeline: Timeline) -> list[str]:
    """Made by a clock that was ahead, whatever they keep."""
    now = soon()
    return [asked for asked, made in timeline.savepoints.items() if made > now]


def forget_instants_ahead(spark: SparkSession) -> None:
    """Hudi makes no instant before the newest that this JVM made, of any table: after
    its clock was set back it would wait for that moment, and all tables with it."""
    jvm: Any = spark._jvm
    field = jvm.java.lang.Class.forName(_INSTANTS).getDeclaredField("LAST_INSTANT_TIME")
    field.setAccessible(True)
    newest = field.get(None)
    made = str(newest.get())
    if at_of(made) is not None and made > soon():
        newest.set(instant_of(wall()))
