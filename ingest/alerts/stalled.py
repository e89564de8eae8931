"""Jobs of which nothing comes: the alert that their rows open, and close again.

A few statements compare them with what is open, however many jobs there are. A job's
row says when something last came of it (`moved_at`) and what it waits for (`reason`).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.utils import timezone

from core.jobs import ACTIVE, QUEUED
from core.jobs.moves import names_of
from core.models import Job
from core.sentences import Sentence, as_sentence
from ingest.alerts import store
from ingest.alerts.lag import last_absence
from ingest.alerts.rules import STALLED, Finding, job_in_words
from ingest.jobs.kinds import DriverKind
from ingest.models.alerts import Alert

# One that waits in the queue stands still when nothing moves where it waits: behind a
# lane or another job of its table it waits its turn, which may take hours. One that
# is put off whenever its turn comes waits for nothing that moves there: `not_before`
# is renewed each time, and `put_off_since` stays. How long it was put off lies between
# the two, for one that was so once waits its turn, too. Of several of a table, the one
# that has stood still for longest. Behind a lane that stands still the first of each
# source is told, not each of the thousands behind it.
_STALLED = """
WITH moving AS (
  SELECT lane, subject_id FROM core_job
  WHERE state = ANY(%(active)s) AND kind = ANY(%(kinds)s) AND moved_at >= %(limit)s
), firsts AS (
  SELECT DISTINCT ON (j.lane, j.share_key) j.id FROM core_job j
  WHERE j.state = %(queued)s AND j.kind = ANY(%(kinds)s)
    AND (j.not_before IS NULL OR j.not_before < %(limit)s)
    AND NOT EXISTS (SELECT 1 FROM moving m
      WHERE m.lane = j.lane OR m.subject_id = j.subject_id)
  ORDER BY j.lane, j.share_key, coalesce(j.moved_at, j.queued_at), j.id
)
SELECT DISTINCT ON (j.subject_id) j.id, j.kind, j.subject_id, j.reason, j.phase,
  coalesce(j.moved_at, j.queued_at) AS moved_at
FROM core_job j
WHERE j.kind = ANY(%(kinds)s)
  AND coalesce(j.moved_at, j.queued_at) < %(limit)s
  AND (j.state = ANY(%(active)s)
    OR (j.state = %(queued)s AND j.not_before >= %(limit)s
      AND j.not_before - (j.handle ->> 'put_off_since')::timestamptz
        > %(now)s - %(limit)s)
    OR j.id IN (SELECT id FROM firsts))
ORDER BY j.subject_id, coalesce(j.moved_at, j.queued_at)
"""
_SILENT = "it does not say why"
_HINT = (
    "the job's page says what it waits for; end what is in its way, or cancel it: what"
    " it has done is kept, and it can be tried again"
)


def look_at_stalled() -> None:
    """Open and close alerts; several at once do no harm."""
    compare_stalled(timezone.now())


def compare_stalled(now: datetime) -> None:
    """What stands still at `now` has an open alert afterwards, and nothing else."""
    limit = stalled_before(now)
    if limit is None:
        return
    given: dict[str, Any] = {
        "now": now,
        "limit": limit,
        "active": sorted(ACTIVE),
        "queued": QUEUED,
        "kinds": list(names_of(DriverKind)),
    }
    found = {
        int(job.subject_id): _finding(job) for job in Job.objects.raw(_STALLED, given)
    }
    alerts = Alert.objects.filter(kind=STALLED)
    told = {a.table_id: (a.cause, a.message) for a in alerts.filter(closed_at=None)}
    for table_id, trouble in found.items():
        if told.get(table_id) != (trouble.cause, trouble.message):
            store.open_again(table_id, trouble, at=now)
    # an attempt that failed and waits for the next one has not recovered
    waiting = Job.objects.filter(pk__in=alerts.filter(closed_at=None).values("job"))
    causes = [_cause(job) for job in waiting.filter(state=QUEUED)]
    over = alerts.exclude(table__in=found).exclude(cause__in=causes)
    store.close(over, reason="its job goes on, or has ended")


def _finding(job: Job) -> Finding:
    return Finding(
        STALLED,
        cause=_cause(job),
        message=Sentence(
            "nothing has come of its %(job)s since %(since)s UTC: %(why)s",
            job=job_in_words(job.kind),
            since=f"{job.moved_at:%Y-%m-%d %H:%M:%S}",
            why=as_sentence(job.reason or job.phase or _SILENT),
        ),
        code=STALLED,
        hint=_HINT,
        source=job.kind,
        job=str(job.pk),
    )


def _cause(job: Job) -> str:
    """Another one once the job has moved."""
    return f"{job.pk}:{job.moved_at}"


def stalled_before(now: datetime) -> datetime | None:
    """What has moved since is no alert; None: nothing is one. While nobody was there,
    nothing could move."""
    allowed = timedelta(seconds=settings.SLUICE_STALLED_SECONDS)
    if not allowed:
        return None
    absence = last_absence()
    if absence is not None and absence.until > now - allowed:
        return None
    return now - allowed


def stalled_since(job: Job, now: datetime) -> datetime | None:
    """When something last came of a job that stands still; None while it goes on, has
    ended, or waits its turn."""
    limit = stalled_before(now)
    if limit is None or job.state not in ACTIVE or job.moved_at is None:
        return None
    return job.moved_at if job.moved_at < limit else None
