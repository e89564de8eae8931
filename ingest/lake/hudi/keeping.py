"""What cleaning leaves to readers, when instants are archived long before. Pure.

Hudi's cleaner finds its limit on the active timeline, which so would have to hold every
instant of the time that a query may take. Here each cleaning notes what is needed by
whoever begins to read now. Once nobody reads any more who began before, that is what
the table needs, and the instants are not asked. The notes go from one cleaning to the
next, in the metadata of its instant; without them cleaning is only put off.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from ingest.contract.written import Totals
from ingest.lake.hudi.timeline import (
    SERVICES,
    WRITES,
    Instant,
    Timeline,
    at_of,
    instant_of,
)

# of a clean's metadata
EXTRA_KEY = "_sluice_kept"
VERSION = 1
# kept however old they are: the versions before and after the newest compaction
LEAST_COMMITS = 10
# of the time that a query may take: so far apart are the moments
_STEPS = 10


@dataclass(frozen=True, slots=True)
class Moment:
    """What is needed by whoever begins to read at `at` or later.

    at     17 digits in UTC, as all of these
    first  of each file group what was asked for from it on, and the version before
    whole  the newest instant before `first` that left base files, "" = none: while it
           is the same one no file has become old
    """

    at: str
    first: str
    whole: str = ""


@dataclass(frozen=True, slots=True)
class Kept:
    """What a cleaning left.

    first       as in `Moment`: nothing of what it tells of is gone
    whole       of the moment by which files went, None = none went by this rule yet
    savepoints  that held files back when partitions were last looked at
    moments     until they are what counts, oldest first; the last is of the newest
                cleaning
    counted     what was written, archived instants included
    """

    first: str = ""
    whole: str | None = None
    savepoints: tuple[str, ...] = ()
    moments: tuple[Moment, ...] = ()
    counted: Totals = field(default_factory=Totals)


@dataclass(frozen=True, slots=True)
class Cleaning:
    """What a cleaning leaves, and whether it looks for files at all."""

    kept: Kept
    looks: bool


def next_cleaning(
    kept: Kept, timeline: Timeline, *, seconds: float, now: datetime
) -> Cleaning:
    """For readers who began up to `seconds` ago. `now`: behind the listing of the
    timeline. The timeline has at least one completed write."""
    since = instant_of(now - timedelta(seconds=seconds))
    last = kept.moments[-1] if kept.moments else None
    due: Moment | None
    if last is None or last.at <= since:
        # nothing was archived since then
        due = _moment(timeline, since, before=last)
    else:
        due = max((m for m in kept.moments if m.at <= since), key=_at, default=None)
    new = _moment(timeline, instant_of(now), before=last)
    moments = _going_on(kept.moments, new, apart=timedelta(seconds=seconds / _STEPS))
    rest = tuple(m for m in moments if m is new or due is None or m.at > due.at)
    first = kept.first or min(i.asked for i in _writes(timeline))
    found = replace(kept, first=first, moments=rest)
    looks = any(asked not in timeline.savepoints for asked in kept.savepoints)
    if due is not None and due.first >= first:
        looks = looks or due.whole != kept.whole
        found = replace(found, first=due.first, whole=due.whole)
    held = () if looks else kept.savepoints
    return Cleaning(
        replace(found, savepoints=tuple(sorted({*held, *timeline.savepoints}))), looks
    )


def is_tidying_due(timeline: Timeline, *, each: int, beyond: int) -> bool:
    """Whether `each` writes came since the newest cleaning was begun, and there are as
    many beyond those that archiving leaves.

    Counted from the cleaning, for between two looks a plan comes with a commit: who
    waited for a certain number would step over it. A cleaning that could not be
    completed, or that a savepoint kept from taking anything, counts: it is not begun
    anew at each commit.
    """
    writes = since = 0
    for instant in timeline.instants:
        if instant.action == "clean":
            since = 0
        elif instant.action in WRITES | SERVICES:
            writes, since = writes + 1, since + 1
    return since >= each and writes - beyond >= each


def _moment(timeline: Timeline, at: str, *, before: Moment | None) -> Moment:
    """What was asked for before `first` was completed at `at`, so whoever begins then
    reads of each file group the newest version before it, or a newer one."""
    writes = list(_writes(timeline))
    done = [i.asked for i in writes if i.completed and i.completed <= at]
    open_ = [i.asked for i in writes if not i.completed or i.completed > at]
    newest = sorted(i.asked for i in writes if i.completed)[-LEAST_COMMITS:]
    first = min([*newest[:1], *open_, *([max(done)] if done else [])])
    wholes = (i.asked for i in writes if i.is_whole and i.completed)
    whole = max((asked for asked in wholes if asked < first), default="")
    return Moment(at, first, max(whole, before.whole if before else ""))


def _writes(timeline: Timeline) -> Iterable[Instant]:
    return (i for i in timeline.instants if i.action in WRITES | SERVICES)


def _going_on(
    moments: tuple[Moment, ...], new: Moment, *, apart: timedelta
) -> tuple[Moment, ...]:
    """The last one moves on until it is far enough from the one before: it knows all
    that was completed up to the newest cleaning."""
    if len(moments) > 1 and _seconds(new.at, moments[-2].at) < apart.total_seconds():
        return (*moments[:-1], new)
    return (*moments, new)


def _at(moment: Moment) -> str:
    return moment.at


def _seconds(later: str, earlier: str) -> float:
    one, two = at_of(later), at_of(earlier)
    return (one - two).total_seconds() if one and two else 0.0
