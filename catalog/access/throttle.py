"""Slows down guessing: failed logins per name and address, in a bounded table."""

from __future__ import annotations

from django.db import connection
from django.db.models.functions import Now

from catalog.models import LoginFailure
from core.retries import Backoff

FREE_FAILURES = 10
FORGOTTEN_AFTER = 900.0
LONGEST_PAUSE = 300.0
MOST_ROWS = 10_000
_PAUSES = Backoff(5.0, LONGEST_PAUSE)

_COUNT = """
INSERT INTO catalog_loginfailure (username, address, failures, last_at)
VALUES (%s, %s, 1, clock_timestamp())
ON CONFLICT (username, address) DO UPDATE SET last_at = clock_timestamp(), failures =
  CASE WHEN catalog_loginfailure.last_at < now() - make_interval(secs => %s)
       THEN 1 ELSE catalog_loginfailure.failures + 1 END
RETURNING failures
"""
_FORGET = """
DELETE FROM catalog_loginfailure
WHERE last_at < now() - make_interval(secs => %s) OR id IN (
  SELECT id FROM catalog_loginfailure ORDER BY last_at DESC OFFSET %s)
"""


def seconds_to_wait(username: str, address: str) -> float:
    """How long this name may not try again from this address; 0 = it may."""
    row = (
        LoginFailure.objects.filter(username=username, address=address)
        .annotate(database_now=Now())
        .first()
    )
    if row is None or row.failures < FREE_FAILURES:
        return 0.0
    since = (row.database_now - row.last_at).total_seconds()
    if since > FORGOTTEN_AFTER:
        return 0.0
    pause = _PAUSES.after(row.failures - FREE_FAILURES + 1)
    return max(0.0, pause - since)


def count_failure(username: str, address: str) -> int:
    """Note one failure and return how many there were lately."""
    with connection.cursor() as cursor:
        cursor.execute(_COUNT, [username, address, FORGOTTEN_AFTER])
        failures = int(cursor.fetchone()[0])
        if failures == 1:
            cursor.execute(_FORGET, [FORGOTTEN_AFTER, MOST_ROWS])
    return failures


def forget_failures(username: str, address: str) -> None:
    """A success wipes the slate of this name at this address."""
    LoginFailure.objects.filter(username=username, address=address).delete()
