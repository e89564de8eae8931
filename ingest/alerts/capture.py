"""Readers of sources' logs that need attention: the alert that their rows open, and
close again. One is open per source.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.utils import timezone

from catalog.compiled import AnyRow
from core.sentences import Sentence, filled
from ingest.alerts import store
from ingest.alerts.lag import last_absence
from ingest.alerts.rules import CAPTURE, Finding
from ingest.maintenance.descriptions import sized
from ingest.models import SourceFollower
from ingest.models.alerts import Alert
from ingest.pipelines.followers import (
    abandoned_followers,
    drop_statement,
    followers_of_sources,
    is_any_log_read,
)
from ingest.pipelines.policies.store import Policies

# Two minutes after it began, whoever subscribed knows.
SILENT_AFTER = timedelta(seconds=75)
# Below the longest pause between two starts: of one that fails again and again, too.
FAILED_AFTER = timedelta(seconds=20)
WAITING_AFTER = timedelta(seconds=60)
# Of what a source keeps at most for its reader, so much has to be free.
LEAST_SAFE = 0.2
LOSING = frozenset({"unreserved", "lost", "expiring"})


_is_any_open = AnyRow(lambda: Alert.objects.filter(kind=CAPTURE, closed_at=None))


def look_at_captures() -> None:
    """Open and close alerts; several at once do no harm."""
    if is_any_log_read() or _is_any_open():
        compare_captures(timezone.now())


def compare_captures(now: datetime) -> None:
    """What needs attention at `now` has an open alert afterwards, and nothing else."""
    rows, abandoned = followers_of_sources(), abandoned_followers()
    policies = Policies({row.datasource_id for row in rows})
    absence = last_absence()
    was_absent = absence is not None and absence.until > now - SILENT_AFTER
    ill = []
    for row in rows:
        most = policies.of_datasource(row.datasource).max_waiting
        found = list(_findings(row, now, most_waiting=most, was_absent=was_absent))
        if found:
            ill.append(row.datasource_id)
            store.open_again(row.datasource_id, found[0], at=now, is_of_source=True)
    for row in abandoned:
        if left := _not_released(row, now, was_absent=was_absent):
            ill.append(row.datasource_id)
            store.open_again(row.datasource_id, left, at=now, is_of_source=True)
    rest = Alert.objects.filter(kind=CAPTURE).exclude(datasource__in=ill)
    store.close(rest, reason="its log is read, or is to be read no more")


def _findings(
    row: SourceFollower, now: datetime, *, most_waiting: int, was_absent: bool
) -> Iterator[Finding]:
    """The worst first."""
    if row.desired != SourceFollower.RUNNING:
        return
    if now - row.written_at > SILENT_AFTER and not was_absent:
        yield _finding(
            "no_followers_host",
            Sentence(
                "its log is not read: no host of followers wrote of it since"
                " %(since)s UTC",
                since=f"{row.written_at:%Y-%m-%d %H:%M:%S}",
            ),
            "see that `manage.py followers` runs and reaches the metadata database;"
            " until then the source keeps its log",
            since=row.written_at,
        )
        return
    lasts = now - row.observed_at
    why = row.reason or Sentence("it does not report why")
    if row.observed == "failed" and lasts > FAILED_AFTER:
        message = Sentence(
            "its log is not read since %(at)s: %(why)s", at=_at(row), why=why
        )
        yield _finding(row.code or "failed", message, row.hint, since=row.observed_at)
    if row.log_status in LOSING or _is_short(row):
        yield _running_out(row)
    if row.waiting_bytes > most_waiting:
        yield _finding(
            "too_much_waits",
            "%(waiting)s of its changes wait in the lake,"
            " %(most)s may (max_waiting_bytes)",
            "see on its page which table is not applied: resume, resync or remove it",
            waiting=sized(row.waiting_bytes),
            most=sized(most_waiting),
        )
    if row.observed in {"starting", "waiting"} and lasts > WAITING_AFTER:
        yield _does_not_read(row, why)


def _does_not_read(row: SourceFollower, why: str) -> Finding:
    return _finding(
        row.code or f"reader_{row.observed}",
        "its log is not read since %(at)s, its follower is %(observed)s: %(why)s",
        row.hint or "the reason names what it waits for",
        at=_at(row),
        observed=Sentence(row.observed),
        why=why,
        since=row.observed_at,
    )


def _running_out(row: SourceFollower) -> Finding:
    more = "" if row.log_safe is None else sized(row.log_safe)
    return _finding(
        "log_running_out",
        "the source drops log that is not read yet: it keeps %(kept)s,"
        " %(more)s more may come (status %(status)s)"
        if more
        else "the source drops log that is not read yet: it keeps %(kept)s"
        " (status %(status)s)",
        "find what holds its follower up, or let the source keep more"
        " (PostgreSQL: max_slot_wal_keep_size, MariaDB:"
        " binlog_expire_logs_seconds); what it drops costs a resync of all tables"
        " that are read from its log",
        kept=sized(row.log_kept),
        more=more,
        status=row.log_status or "unknown",
    )


def _not_released(
    row: SourceFollower, now: datetime, *, was_absent: bool
) -> Finding | None:
    """Its last table was removed, and the source keeps its log for nobody."""
    is_failing = row.observed == "failed"
    since = row.observed_at if is_failing else row.written_at
    if now - since <= WAITING_AFTER or (was_absent and not is_failing):
        return None
    return _finding(
        row.code or "log_not_released",
        "no table of it is read from its log any more, and the source"
        " still keeps it: %(reason)s",
        drop_statement(row.datasource) or row.hint,
        reason=row.reason or Sentence("no host of followers runs"),
        since=since,
    )


def _finding(
    code: str,
    message: str,
    hint: str,
    *,
    since: datetime | None = None,
    **named: object,
) -> Finding:
    cause = f"{code}:{since.isoformat() if since else ''}"
    said = filled(message, named)
    return Finding(CAPTURE, cause=cause, message=said, code=code, hint=hint)


def _at(row: SourceFollower) -> str:
    return f"{row.observed_at:%Y-%m-%d %H:%M:%S} UTC"


def _is_short(row: SourceFollower) -> bool:
    if row.log_safe is None:
        return False
    return row.log_safe < LEAST_SAFE * (row.log_kept + row.log_safe)
