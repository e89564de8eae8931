"""What counts as an alert, who wants to hear of it, and how long to keep trying. Pure.

Rows, networks and the present time are the callers'.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from core.retries import Backoff
from core.sentences import Sentence, with_sentences
from ingest.contract.job import COMPACT
from ingest.maintenance.score import BROKEN_CODES, STUCK_CODES

FAILED: Final = "failed"
LATE: Final = "late"
STUCK: Final = "stuck"
STALLED: Final = "stalled"
SCHEMA_CHANGE: Final = "schema_change"
MISMATCH: Final = "verification_mismatch"
# in the place of a job's kind: a session that applies a log
APPLY: Final = "apply"
# of a source, not of a table
CAPTURE: Final = "capture"
# not an alert of its own: the end of one
RECOVERED: Final = "recovered"

ALERTS: Final = (FAILED, LATE, STUCK, STALLED, SCHEMA_CHANGE, MISMATCH, CAPTURE)
KINDS: Final = (*ALERTS, RECOVERED)

# How bad an alert of a kind is. Critical: rows are wrong, missing or not carried any
# more until somebody acts; warning: later than promised, or a decision is due.
CRITICAL, WARNING = "critical", "warning"
SEVERITIES: Final = (CRITICAL, WARNING)
SEVERITY: Final = {
    FAILED: CRITICAL,
    LATE: WARNING,
    STUCK: CRITICAL,
    STALLED: WARNING,
    SCHEMA_CHANGE: WARNING,
    MISMATCH: CRITICAL,
    CAPTURE: CRITICAL,
}


def kinds_of(severity: str) -> list[str]:
    return [kind for kind, found in SEVERITY.items() if found == severity]


# When an alert that somebody closed opens again, if what it tells goes on.
AGAIN: Final = {
    FAILED: "when a job of the table fails again",
    LATE: "if no sync catches up within what the table is allowed to be late",
    STUCK: "with the next check that finds it",
    STALLED: "when a job of the table stalls again",
    SCHEMA_CHANGE: "when the source table changes once more",
    MISMATCH: "when a verification finds differences again",
    CAPTURE: "when reading of the log stops again",
}

# What a delivery tells: an alert opened, ended by itself, or was ended by somebody.
OPENED, CLOSED, TEST = "opened", "closed", "test"

FIRST_WAIT, LONGEST_WAIT = 5.0, 3600.0
MOST_ATTEMPTS: Final = 20
PAUSE_AFTER = timedelta(hours=24)
PAUSED_WAIT: Final = 3600.0
# An older one is not told any more: who reads it would take it for news.
LONGEST_KEPT = timedelta(days=3)


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding on a table.

    cause   what it was found by; the same cause again is not counted again
    source  of `failed`: the kind of job whose success takes it back
    """

    kind: str
    cause: str
    message: str
    code: str = ""
    hint: str = ""
    repair: str = ""
    instant: str = ""
    source: str = ""
    job: str | None = None


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a target wants: kinds () = all; names "" = the whole level above."""

    kinds: tuple[str, ...] = ()
    database: str = ""
    table: str = ""


def wants(
    wanted: Subscription, *, kind: str, event: str, database: str, table: str
) -> bool:
    """Whether a target hears of this event of an alert of that kind."""
    if wanted.database and wanted.database != database:
        return False
    if wanted.table and wanted.table != table:
        return False
    if not wanted.kinds:
        return True
    is_end = event in {RECOVERED, CLOSED}
    return kind in wanted.kinds and (not is_end or RECOVERED in wanted.kinds)


def stuck_finding(issues: Iterable[Mapping[str, Any]]) -> Finding | None:
    """One alert over everything that stands still or is broken on a table, the worst
    told."""
    found = [issue for issue in issues if issue["code"] in STUCK_CODES | BROKEN_CODES]
    if not found:
        return None
    worst = max(found, key=lambda issue: int(issue["points"]))
    causes = sorted(f"{issue['code']}:{issue['instant'] or ''}" for issue in found)
    said = with_sentences(worst)["reason"]
    if len(found) > 1:
        said = Sentence(
            "%(worst)s (and %(count)s more)", worst=said, count=len(found) - 1
        )
    return Finding(
        STUCK,
        cause=",".join(causes),
        message=said,
        code=str(worst["code"]),
        repair=str(worst["repair"] or ""),
        instant=str(worst["instant"] or ""),
    )


def job_in_words(kind: str) -> Sentence:
    """A kind of jobs as people call it."""
    if kind == COMPACT:
        return Sentence("compaction")
    return Sentence("applying of changes") if kind == APPLY else Sentence(kind)


def failure_of(kind: str, why: str) -> Sentence:
    return Sentence("its %(work)s failed: %(why)s", work=job_in_words(kind), why=why)


def left_after(sources: Iterable[str], done: str, loads: frozenset[str]) -> list[str]:
    """Kinds of jobs whose failure still counts after one of kind `done` succeeded.

    A load begins anew, so it also takes back what loads, syncs and sessions before it
    did.
    """
    over = {done} | (loads | {"sync", APPLY} if done in loads else set())
    return [name for name in sources if name not in over]


@dataclass(frozen=True, slots=True)
class Absence:
    """Nobody carried anything from then until then."""

    since: datetime
    until: datetime


def excused(
    moment: datetime, absence: Absence | None, allowed_seconds: float
) -> datetime:
    """When a table counts as late that would have at `moment`: what became due while
    nobody was there has as long as always, from when somebody is back."""
    if absence is None or moment < absence.since:
        return moment
    return max(moment, absence.until + timedelta(seconds=allowed_seconds))


def wait_after(failures: int) -> float:
    """Seconds before the next attempt at a target, after so many failures in a row."""
    return Backoff(FIRST_WAIT, LONGEST_WAIT).after(failures)


def has_given_up(attempts: int, created: datetime, now: datetime) -> bool:
    return attempts >= MOST_ATTEMPTS or now - created > LONGEST_KEPT


def is_to_pause(failing_since: datetime | None, now: datetime) -> bool:
    """Whether a target has answered nothing for so long that it is left alone."""
    return failing_since is not None and now - failing_since >= PAUSE_AFTER


@dataclass(frozen=True, slots=True)
class Answer:
    """code  of HTTP or SMTP, None when nobody answered. error "" = it arrived."""

    code: int | None = None
    error: str = ""

    @property
    def is_delivered(self) -> bool:
        return not self.error
