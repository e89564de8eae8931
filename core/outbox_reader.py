"""Reading the outbox: each event once, the oldest first.

An event goes in the transaction of what its handler did: a process killed there has
done neither. That it is begun is counted before: a page that was cut off is handled
event by event, so that none holds up those behind it (docs/adr/0031-one-outbox.md).
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import OperationalError, connection, transaction

from core.database_errors import is_away
from core.retries import Backoff

log = logging.getLogger("sluice.outbox")

# A reader that was away goes on for a while, then lets others have the process.
PAGE = 500
SECONDS = 2.0
# An event whose handler is cut off, behind the page that it was in.
TRIES = 5
PAUSES = Backoff(2.0, 300.0)
GIVEN_UP_KEPT_SECONDS = 7 * 86400

_DUE = """
given_up_at IS NULL AND (not_before IS NULL OR not_before <= clock_timestamp())
"""
# Of processes that read at once one goes on, so that events stay in order.
_LOCK = "SELECT pg_try_advisory_xact_lock(hashtext('core_domainevent'))"
# Those that were cut off are older than the rest.
_TAKE = f"""
SELECT attempts, id, at, topic, subject, subject_id, data::text FROM core_domainevent
WHERE {_DUE} ORDER BY attempts = 0, id LIMIT %s FOR UPDATE
"""
_COUNT = """
UPDATE core_domainevent SET attempts = %s,
  not_before = clock_timestamp() + make_interval(secs => %s)
WHERE id = ANY(%s)
"""
_GIVE_UP = """
UPDATE core_domainevent SET given_up_at = clock_timestamp() WHERE id = %s
"""
_LEFT = "SELECT id FROM core_domainevent WHERE id = ANY(%s) AND given_up_at IS NULL"
_DONE = "DELETE FROM core_domainevent WHERE id = ANY(%s)"
_FORGET = """
DELETE FROM core_domainevent WHERE given_up_at < now() - make_interval(secs => %s)
"""
_LAG = """
SELECT coalesce(extract(epoch FROM clock_timestamp() - min(at)), 0)::float
FROM core_domainevent WHERE given_up_at IS NULL
"""


@dataclass(frozen=True, slots=True)
class Event:
    """An appended event, as `core.outbox.NewEvent`, with its number and moment."""

    id: int
    at: datetime
    topic: str
    subject: str
    subject_id: str
    data: Mapping[str, Any]


Handler = Callable[[Event], None]


def read(handlers: Mapping[str, Handler]) -> int:
    """Give the next events to the handlers of their topics, for about SECONDS; how
    many.

    Costs one statement when there is none. Several at once do no harm: one reads.
    Errors of a database that is away pass through.
    """
    until = time.monotonic() + SECONDS
    total = 0
    while _has_due():
        taken = _take()
        if taken is None:
            break  # another process reads
        total += _handle(*taken, handlers, until)
        if time.monotonic() >= until:
            break
    return total


def _has_due() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT EXISTS (SELECT 1 FROM core_domainevent WHERE {_DUE})")
        return bool((cursor.fetchone() or (False,))[0])


def _take() -> tuple[list[Event], int] | None:
    """The next page, or one event of a page that was cut off; and which attempt it is,
    counted before anything is handled."""
    with transaction.atomic(), connection.cursor() as cursor:
        if not _is_locked(cursor):
            return None
        cursor.execute(_TAKE, [PAGE])
        rows = cursor.fetchall()
        if not rows:
            return [], 0
        attempt = rows[0][0] + 1
        events = [_event(row[1:]) for row in (rows[:1] if attempt > 1 else rows)]
        if attempt > 1 + TRIES:
            _give_up(events[0], None)
            return [], 0
        pause = PAUSES.after(attempt - 1) if attempt > 1 else 0
        cursor.execute(_COUNT, [attempt, pause, [event.id for event in events]])
    return events, attempt


def _handle(
    events: Sequence[Event],
    attempt: int,
    handlers: Mapping[str, Handler],
    until: float,
) -> int:
    """So many as there is time for, and one at least; how many are done with."""
    try:
        return _handle_together(events, handlers, until)
    except Exception as error:
        if is_away(error):
            raise
        if len(events) > 1:
            log.warning("handling events one by one after an error", exc_info=True)
            return 0
        # a defect of ours fails each time alike
        if isinstance(error, OperationalError) and attempt <= TRIES:
            log.warning("event %s is tried again, attempt %s", events[0].id, attempt)
        else:
            _give_up(events[0], error)
        return 1


def _handle_together(
    events: Sequence[Event], handlers: Mapping[str, Handler], until: float
) -> int:
    numbers = [event.id for event in events]
    with transaction.atomic(), connection.cursor() as cursor:
        if not _is_locked(cursor):
            return 0
        cursor.execute(_LEFT, [numbers])
        left = {number for (number,) in cursor.fetchall()}
        done: list[int] = []
        for event in events:
            if event.id in left and event.topic in handlers:
                handlers[event.topic](event)
            done.append(event.id)
            if time.monotonic() >= until:
                break
        cursor.execute(_DONE, [done])
        if rest := numbers[len(done) :]:
            cursor.execute(_COUNT, [0, 0, rest])
    return len(done)


def _is_locked(cursor: Any) -> bool:
    cursor.execute(_LOCK)
    return bool((cursor.fetchone() or (False,))[0])


def _event(row: Sequence[Any]) -> Event:
    number, at, topic, subject, subject_id, data = row
    return Event(number, at, topic, subject, subject_id, json.loads(data))


def _give_up(event: Event, error: Exception | None) -> None:
    """error: None when its last attempt was cut off."""
    log.error(
        "event %s (%s of %s %s) could not be handled and is skipped",
        event.id,
        event.topic,
        event.subject,
        event.subject_id,
        exc_info=error,
    )
    with connection.cursor() as cursor:
        cursor.execute(_GIVE_UP, [event.id])


def given_up() -> int:
    """How many events could not be handled, of the last days."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM core_domainevent WHERE given_up_at IS NOT NULL"
        )
        return int((cursor.fetchone() or (0,))[0])


def prune_events() -> int:
    """Forget what was given up long ago; how many."""
    with connection.cursor() as cursor:
        cursor.execute(_FORGET, [GIVEN_UP_KEPT_SECONDS])
        return int(cursor.rowcount)


def lag() -> float:
    """The age in seconds of the oldest event that is not handled."""
    with connection.cursor() as cursor:
        cursor.execute(_LAG)
        return float((cursor.fetchone() or (0.0,))[0])
