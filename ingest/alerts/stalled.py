"""Jobs of which nothing comes: the alert that their rows open, and close again.

One statement opens and one closes, however many jobs there are. A job's row says when
something last came of it (`moved_at`) and what it waits for (`reason`).
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection, transaction

from core.clock import SystemClock
from core.jobs import ACTIVE, QUEUED
from core.jobs.moves import names_of
from core.models import Job
from core.sentences import Sentence
from ingest.alerts.lag import last_absence
from ingest.alerts.rules import RECOVERED, STALLED, job_in_words
from ingest.alerts.store import DISMISSED
from ingest.jobs.kinds import DriverKind

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
), stalled AS (
  SELECT DISTINCT ON (j.subject_id) j.id, j.kind, j.reason, j.phase, j.error_code,
    j.subject_id::bigint AS table_id, coalesce(j.moved_at, j.queued_at) AS since
  FROM core_job j
  WHERE j.kind = ANY(%(kinds)s)
    AND coalesce(j.moved_at, j.queued_at) < %(limit)s
    AND (j.state = ANY(%(active)s)
      OR (j.state = %(queued)s AND j.not_before >= %(limit)s
        AND j.not_before - (j.handle ->> 'put_off_since')::timestamptz
          > %(now)s - %(limit)s)
      OR j.id IN (SELECT id FROM firsts))
  ORDER BY j.subject_id, coalesce(j.moved_at, j.queued_at)
)
"""
_OPEN = (
    _STALLED
    + """
INSERT INTO ingest_alert AS a (
  table_id, database, name, kind, cause, sources, code, message, hint, repair,
  instant, job, count, first_seen_at, last_seen_at, closed_because, closed_reason,
  is_announced, is_end_announced)
SELECT t.id, d.name, t.name, %(kind)s, s.id || ':' || s.since, ARRAY[s.kind]::varchar[],
  %(kind)s,
  replace(replace(replace(%(message)s::text, '%%(job)s', w.job), '%%(since)s', w.since),
    '%%(why)s', w.english) || chr(30) || jsonb_build_array(%(message)s::text,
    jsonb_build_object('job', jsonb_build_array(w.job, '{}'::jsonb), 'since', w.since,
      'why', coalesce(w.origin, jsonb_build_array(w.english, '{}'::jsonb)))),
  %(hint)s, '', '', s.id, 1, %(now)s, %(now)s, '', '', false, false
FROM stalled s
CROSS JOIN LATERAL (
  SELECT coalesce(%(jobs)s::jsonb ->> s.kind, s.kind) AS job,
    to_char(s.since AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') AS since,
    coalesce(nullif(split_part(s.reason, chr(30), 1), ''), nullif(s.phase, ''),
      %(silent)s::text) AS english,
    nullif(split_part(s.reason, chr(30), 2), '')::jsonb AS origin
) w
JOIN catalog_table t ON t.id = s.table_id
JOIN catalog_database d ON d.id = t.database_id
WHERE NOT EXISTS (
  SELECT 1 FROM ingest_alert closed WHERE closed.table_id = t.id
    AND closed.kind = %(kind)s AND closed.cause = s.id || ':' || s.since
    AND closed.closed_because = %(dismissed)s)
ON CONFLICT (table_id, kind) WHERE closed_at IS NULL DO UPDATE SET
  count = a.count + (a.cause <> EXCLUDED.cause)::int, cause = EXCLUDED.cause,
  sources = EXCLUDED.sources, message = EXCLUDED.message, job = EXCLUDED.job,
  last_seen_at = EXCLUDED.last_seen_at
WHERE (a.cause, a.message) IS DISTINCT FROM (EXCLUDED.cause, EXCLUDED.message)
"""
)
# An attempt that failed and waits for the next one has not recovered.
_CLOSE = (
    _STALLED
    + """
UPDATE ingest_alert SET closed_at = %(now)s, closed_because = %(recovered)s,
  closed_reason = %(goes_on)s
WHERE kind = %(kind)s AND closed_at IS NULL
  AND NOT EXISTS (SELECT 1 FROM stalled s WHERE s.table_id = ingest_alert.table_id)
  AND NOT EXISTS (SELECT 1 FROM core_job j WHERE j.state = %(queued)s
    AND ingest_alert.cause = j.id || ':' || j.moved_at)
"""
)
# `_OPEN` fills it in as `Sentence` does, and writes what it is made of beside it.
_MESSAGE = Sentence("nothing has come of its %(job)s since %(since)s UTC: %(why)s")
_SILENT = "it does not say why"
_GOES_ON = "its job goes on, or has ended"
_HINT = (
    "the job's page says what it waits for; end what is in its way, or cancel it: what"
    " it has done is kept, and it can be tried again"
)


def look_at_stalled() -> None:
    """Open and close alerts; several at once do no harm."""
    compare_stalled(SystemClock().now())


def compare_stalled(now: datetime) -> None:
    """What stands still at `now` has an open alert afterwards, and nothing else."""
    limit = stalled_before(now)
    if limit is None:
        return
    given: dict[str, Any] = {
        "kind": STALLED,
        "hint": _HINT,
        "message": _MESSAGE.message,
        "jobs": json.dumps({kind: job_in_words(kind) for kind in names_of(DriverKind)}),
        "silent": _SILENT,
        "goes_on": _GOES_ON,
        "now": now,
        "limit": limit,
        "active": sorted(ACTIVE),
        "queued": QUEUED,
        "kinds": list(names_of(DriverKind)),
        "dismissed": DISMISSED,
        "recovered": RECOVERED,
    }
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_OPEN, given)
        cursor.execute(_CLOSE, given)


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
