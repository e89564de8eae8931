"""Opening and closing alerts: inside the transaction that passes the event of what
happened, so that each event counts once.

Knows rows. Telling anybody is `ingest.alerts.fan_out`'s, later.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from django.db import connection
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from core.jobs import SUCCEEDED
from core.models import Job
from core.sentences import Sentence, stored
from ingest.alerts.rules import RECOVERED, Finding, failure_of, job_in_words, left_after
from ingest.contract.job import LOADS
from ingest.models.alerts import Alert
from ingest.pipelines.selectors import of_table

PAUSED, REMOVED, DISMISSED = "paused", "removed", "dismissed"

# What an alert says is of the newest event, whichever is read last.
_SAID = ("cause", "code", "message", "hint", "repair", "instant", "job", "last_seen_at")
_NEWEST = ", ".join(
    f"{name} = CASE WHEN EXCLUDED.last_seen_at >= a.last_seen_at"
    f" THEN EXCLUDED.{name} ELSE a.{name} END"
    for name in _SAID
)
# One statement: whoever comes second counts on the row of the first.
_OPEN = """
INSERT INTO ingest_alert AS a (
  {column}, database, name, kind, cause, sources, code, message, hint, repair,
  instant, job, count, first_seen_at, last_seen_at, closed_because, closed_reason,
  is_announced, is_end_announced)
SELECT {subject}, %(kind)s, %(cause)s, %(sources)s::varchar[], %(code)s,
  %(message)s, %(hint)s, %(repair)s, %(instant)s, %(job)s, 1, %(now)s, %(now)s, '', '',
  false, false
FROM {rows} = %(of)s
ON CONFLICT ({column}, kind) WHERE closed_at IS NULL DO UPDATE SET
  count = a.count + (a.cause <> EXCLUDED.cause)::int,
  sources = ARRAY(SELECT DISTINCT unnest(a.sources || EXCLUDED.sources) ORDER BY 1),
  {newest}
"""
_OPEN_OF_TABLE = _OPEN.format(
    column="table_id",
    subject="t.id, d.name, t.name",
    rows="catalog_table t JOIN catalog_database d ON d.id = t.database_id WHERE t.id",
    newest=_NEWEST,
)
_OPEN_OF_SOURCE = _OPEN.format(
    column="datasource_id",
    subject="s.id, '', s.name",
    rows="catalog_datasource s WHERE s.id",
    newest=_NEWEST,
)


def open_alert(table_id: int, trouble: Finding, *, at: datetime | None = None) -> None:
    """Open the alert of this kind on the table, or count on the one that is open."""
    _open(_OPEN_OF_TABLE, table_id, trouble, at or timezone.now())


def open_again(
    of: int, trouble: Finding, *, at: datetime, is_of_source: bool = False
) -> None:
    """The same of what is found with each look, on a table or a source: one that a user
    closed opens with another cause only."""
    place = {"datasource": of} if is_of_source else {"table": of}
    rows = Alert.objects.filter(**place, kind=trouble.kind, cause=trouble.cause)
    if not rows.filter(closed_because=DISMISSED).exists():
        _open(_OPEN_OF_SOURCE if is_of_source else _OPEN_OF_TABLE, of, trouble, at)


def _open(statement: str, of: int, trouble: Finding, at: datetime) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            statement,
            {
                "of": of,
                "kind": trouble.kind,
                "cause": trouble.cause,
                "sources": [trouble.source] if trouble.source else [],
                "code": trouble.code,
                "message": stored(trouble.message),
                "hint": stored(trouble.hint),
                "repair": trouble.repair,
                "instant": trouble.instant,
                "job": trouble.job,
                "now": at,
            },
        )


def open_on(table_id: int, kinds: Collection[str] = ()) -> QuerySet[Alert]:
    """What is open on a table, of these kinds or of all."""
    rows = Alert.objects.filter(table_id=table_id, closed_at=None)
    return rows.filter(kind__in=kinds) if kinds else rows


def close(rows: QuerySet[Alert], because: str = RECOVERED, reason: str = "") -> int:
    """End these open alerts; one that somebody else ended meanwhile stays as it is."""
    return rows.filter(closed_at=None).update(
        closed_at=Now(), closed_because=because, closed_reason=reason
    )


def note_success(
    table_id: int, kind: str, *, recovered: Collection[str] = (), at: datetime
) -> None:
    """A job of this kind went well, which ends alerts of the kinds `recovered` too,
    but none that opened after `at`, when it did."""
    for alert in open_on(table_id, {"failed", *recovered}).filter(
        first_seen_at__lte=at
    ):
        if alert.kind in recovered:
            close(
                Alert.objects.filter(pk=alert.pk),
                reason=_went_well(kind),
            )
        elif kind in alert.sources or kind in LOADS:
            _take_back(alert, kind)


def _went_well(kind: str) -> str:
    return Sentence("its %(work)s went well", work=job_in_words(kind))


def _take_back(alert: Alert, kind: str) -> None:
    left = left_after(alert.sources, kind, LOADS)
    mine = Alert.objects.filter(pk=alert.pk)
    if left:
        mine.update(sources=left, **_last_failure(alert, left))
    else:
        close(mine, reason=_went_well(kind))


def _last_failure(alert: Alert, kinds: Collection[str]) -> dict[str, object]:
    """What an alert is about once the job that it named does not count any more."""
    jobs = of_table(Job.objects.filter(kind__in=kinds), str(alert.table_id))
    if alert.job is None or jobs.filter(pk=alert.job).exists():
        return {}
    failed = jobs.exclude(state=SUCCEEDED).exclude(error_code="")
    job = failed.order_by("-created_at").first()
    if job is None:
        return {}
    return {
        "message": failure_of(job.kind, job.error_message),
        "code": job.error_code,
        "hint": job.error_hint,
        "job": job.pk,
    }
