"""Reading the outbox: exactly once per named reader, in the order of transactions.

A reader's cursor moves in the transaction of what its handlers did: a process killed
there has done neither. Events are read once every transaction that began before theirs
has ended, so none that commits late is passed by (docs/adr/0031-one-outbox.md).
That a page is begun is stored before: one that was cut off is handled event by event,
each with a counted attempt, so that no event holds up those behind it.
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
PAGE, MOST_PAGES = 500, 4
SECONDS = 2.0
KEPT_SECONDS = 3600
PRUNE_PAGE, MOST_PRUNE_PAGES = 5000, 20
# An event whose handler is cut off.
TRIES = 5
PAUSES = Backoff(2.0, 300.0)
GIVEN_UP_KEPT_SECONDS = 7 * 86400

# No transaction that could still append before these events is under way.
SETTLED = "e.transaction < pg_snapshot_xmin(pg_current_snapshot())"
# Numbers that this server has not given out: the database came from another one.
FOREIGN = """
  (SELECT max(transaction) FROM core_outboxreader)
    >= pg_snapshot_xmax(pg_current_snapshot())
  OR EXISTS (SELECT 1 FROM core_domainevent
    WHERE transaction >= pg_snapshot_xmax(pg_current_snapshot()))
"""
_LOOK = """
SELECT EXISTS (SELECT 1 FROM core_domainevent e
    WHERE (e.transaction, e.id) > (r.transaction, r.event) AND {settled}),
  EXISTS (SELECT 1 FROM core_outboxattempt a WHERE a.reader = r.name
    AND a.given_up_at IS NULL AND a.not_before <= clock_timestamp()),
  r.is_suspect, {foreign}
FROM core_outboxreader r WHERE r.name = %s
"""
_BEGIN = """
INSERT INTO core_outboxreader (name, transaction, event) VALUES (%s, '0', 0)
ON CONFLICT DO NOTHING
"""
_LOCK = """
SELECT transaction::text, event FROM core_outboxreader WHERE name = %s
FOR UPDATE SKIP LOCKED
"""
_EVENT = """
e.id, e.transaction::text, e.at, e.topic, e.subject, e.subject_id, e.data::text
"""
_PAGE = f"""
SELECT {_EVENT} FROM core_domainevent e
WHERE (e.transaction, e.id) > (%s::xid8, %s) AND {{settled}} AND {{which}}
ORDER BY e.transaction, e.id LIMIT %s
"""
_PASS = """
UPDATE core_outboxreader SET transaction = %s::xid8, event = %s, is_suspect = %s
WHERE name = %s
"""
_SUSPECT = """
UPDATE core_outboxreader SET is_suspect = %s WHERE name = (
  SELECT name FROM core_outboxreader WHERE name = %s FOR UPDATE SKIP LOCKED)
"""
_TAKE = """
INSERT INTO core_outboxattempt AS a (reader, event_id, not_before)
VALUES (%s, %s, clock_timestamp() + make_interval(secs => %s))
ON CONFLICT (reader, event_id) DO UPDATE SET not_before = EXCLUDED.not_before
RETURNING a.attempts
"""
_DUE = f"""
SELECT a.attempts, {_EVENT} FROM core_outboxattempt a
JOIN core_domainevent e ON e.id = a.event_id
WHERE a.reader = %s AND a.given_up_at IS NULL AND a.not_before <= clock_timestamp()
ORDER BY e.transaction, e.id LIMIT 1 FOR UPDATE OF a SKIP LOCKED
"""
_COUNT = """
UPDATE core_outboxattempt SET attempts = %s,
  not_before = clock_timestamp() + make_interval(secs => %s)
WHERE reader = %s AND event_id = %s
"""
_GIVE_UP = """
UPDATE core_outboxattempt SET given_up_at = clock_timestamp()
WHERE reader = %s AND event_id = %s
"""
_DONE = """
DELETE FROM core_outboxattempt WHERE reader = %s AND event_id = %s AND attempts = %s
"""
_FORGET = """
DELETE FROM core_outboxattempt WHERE given_up_at < now() - make_interval(secs => %s)
"""
_GIVEN_UP = """
SELECT r.name, count(a.id) FROM core_outboxreader r
LEFT JOIN core_outboxattempt a ON a.reader = r.name AND a.given_up_at IS NOT NULL
GROUP BY r.name
"""
_RENUMBER_READERS = """
UPDATE core_outboxreader r SET transaction = '1', event = least(r.event,
  (SELECT min(e.id) - 1 FROM core_domainevent e
   WHERE (e.transaction, e.id) > (r.transaction, r.event)))
"""
# The oldest are looked at first: where they are young, nothing else is read.
_PRUNE = """
DELETE FROM core_domainevent WHERE id IN (
  SELECT oldest.id FROM (
    SELECT e.id, e.at FROM core_domainevent e
    WHERE (e.transaction, e.id) <= (
      SELECT r.transaction, r.event FROM core_outboxreader r
      ORDER BY r.transaction, r.event LIMIT 1)
    ORDER BY e.transaction, e.id LIMIT %s) oldest
  WHERE oldest.at < now() - make_interval(secs => %s)
    AND NOT EXISTS (SELECT 1 FROM core_outboxattempt a WHERE a.event_id = oldest.id))
"""
_LAG = """
SELECT r.name, coalesce(extract(epoch FROM clock_timestamp() - (
  SELECT e.at FROM core_domainevent e
  WHERE (e.transaction, e.id) > (r.transaction, r.event)
  ORDER BY e.transaction, e.id LIMIT 1)), 0)::float
FROM core_outboxreader r ORDER BY r.name
"""


@dataclass(frozen=True, slots=True)
class Event:
    """An appended event, as `core.outbox.NewEvent`, with its place and moment."""

    id: int
    transaction: str
    at: datetime
    topic: str
    subject: str
    subject_id: str
    data: Mapping[str, Any]


Handler = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class _News:
    """What a reader finds. has_due: an event that is to be tried again by now."""

    has_events: bool = True
    has_due: bool = False
    is_suspect: bool = False


def read(name: str, handlers: Mapping[str, Handler]) -> int:
    """Hand this reader's next events to the handlers of their topics, for about
    SECONDS; how many.

    Costs one statement when there is none. Several at once do no harm: one reads.
    Errors of a database that is away pass through.
    """
    until = time.monotonic() + SECONDS
    total = 0
    for _ in range(MOST_PAGES):
        news, count = _look(name), 0
        if news.has_events:
            count = _read_page(name, handlers, until, is_suspect=news.is_suspect)
        total += count
        if news.has_due:
            total += _try_due(name, handlers, until)
        if count < PAGE or time.monotonic() >= until:
            break
    return total


def _look(name: str) -> _News:
    look = _LOOK.format(settled=SETTLED, foreign=FOREIGN)
    with connection.cursor() as cursor:
        cursor.execute(look, [name])
        row = cursor.fetchone()
        if row is None:
            cursor.execute(_BEGIN, [name])
            return _News()
    *found, is_foreign = row
    # a caller's own transaction may be younger than its view of others
    if is_foreign and not connection.in_atomic_block:
        _renumber()
        return _News()
    return _News(*found)


def _read_page(
    name: str, handlers: Mapping[str, Handler], until: float, *, is_suspect: bool
) -> int:
    if is_suspect:
        return _read_alone(name, handlers, until)
    with connection.cursor() as cursor:
        # durable before any handler runs: a process that dies in one says nothing later
        cursor.execute(_SUSPECT, [True, name])
        if not cursor.rowcount:
            return 0  # another process reads
    try:
        return _read_together(name, handlers, until)
    except Exception as error:
        if is_away(error):
            raise
        log.warning("handling events one by one after an error", exc_info=True)
        return _read_alone(name, handlers, time.monotonic() + SECONDS)


def _read_together(name: str, handlers: Mapping[str, Handler], until: float) -> int:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_LOCK, [name])
        position = cursor.fetchone()
        if position is None:
            return 0  # another process reads
        cursor.execute(_PAGE.format(settled=SETTLED, which="TRUE"), [*position, PAGE])
        events = [_event(row) for row in cursor.fetchall()]
        count = _in_turn(events, handlers, until)
        if count:
            last = events[count - 1]
            cursor.execute(_PASS, [last.transaction, last.id, False, name])
        else:
            cursor.execute(_SUSPECT, [False, name])
    return count


def _event(row: Sequence[Any]) -> Event:
    number, xid, at, topic, subject, subject_id, data = row
    return Event(number, xid, at, topic, subject, subject_id, json.loads(data))


def _in_turn(
    events: Sequence[Event], handlers: Mapping[str, Handler], until: float
) -> int:
    """So many as there is time for, and one at least; how many are done with."""
    for number, event in enumerate(events, start=1):
        if event.topic in handlers:
            handlers[event.topic](event)
            if time.monotonic() >= until:
                return number
    return len(events)


# ------------------------------------------------------------------ one by one


def _read_alone(name: str, handlers: Mapping[str, Handler], until: float) -> int:
    """Each in a transaction of its own, behind a counted attempt; at the end of what
    there is, pages are read again."""
    for number in range(PAGE):
        taken = _take_next(name, handlers)
        if taken is None:
            return number
        _try(name, *taken, handlers)
        if time.monotonic() >= until:
            return number + 1
    return PAGE


def _take_next(name: str, handlers: Mapping[str, Handler]) -> tuple[Event, int] | None:
    """Pass the next event that has a handler and count its first attempt."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_LOCK, [name])
        position = cursor.fetchone()
        if position is None:
            return None  # another process reads
        page = _PAGE.format(settled=SETTLED, which="e.topic = ANY(%s)")
        cursor.execute(page, [*position, list(handlers), 1])
        row = cursor.fetchone()
        if row is None:
            cursor.execute(_SUSPECT, [False, name])
            return None
        event = _event(row)
        cursor.execute(_TAKE, [name, event.id, PAUSES.after(1)])
        (attempts,) = cursor.fetchone() or (1,)
        cursor.execute(_PASS, [event.transaction, event.id, True, name])
    return event, attempts


def _try_due(name: str, handlers: Mapping[str, Handler], until: float) -> int:
    """Try events again whose pause is over: so many as there is time for, and one at
    least; how many."""
    count = 0
    while (taken := _take_due(name)) is not None:
        _try(name, *taken, handlers)
        count += 1
        if time.monotonic() >= until:
            break
    return count


def _take_due(name: str) -> tuple[Event, int] | None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_DUE, [name])
        row = cursor.fetchone()
        if row is None:
            return None
        attempts, event = row[0] + 1, _event(row[1:])
        if attempts <= TRIES:
            pause = PAUSES.after(attempts)
            cursor.execute(_COUNT, [attempts, pause, name, event.id])
            return event, attempts
    _give_up(name, event, None)
    return None


def _try(
    name: str, event: Event, attempts: int, handlers: Mapping[str, Handler]
) -> None:
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            # its row is locked until then: to others it is no event that is due
            cursor.execute(_DONE, [name, event.id, attempts])
            if cursor.rowcount:
                handlers[event.topic](event)
    except Exception as error:
        if is_away(error):
            raise
        # a defect of ours fails each time alike
        if not isinstance(error, OperationalError) or attempts >= TRIES:
            _give_up(name, event, error)
            return
        log.warning("event %s is tried again, attempt %s", event.id, attempts)
        with connection.cursor() as cursor:
            pause = PAUSES.after(attempts)
            cursor.execute(_COUNT, [attempts, pause, name, event.id])


def _give_up(name: str, event: Event, error: Exception | None) -> None:
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
        cursor.execute(_GIVE_UP, [name, event.id])


def given_up() -> dict[str, int]:
    """By reader: how many events could not be handled, of the last days."""
    with connection.cursor() as cursor:
        cursor.execute(_GIVEN_UP)
        return dict(cursor.fetchall())


def read_on_after_restore() -> None:
    """Recognise a database that came from another server before anything is appended:
    numbers of this one that the other has given out too would count as read."""
    # a caller's own transaction may be younger than its view of others
    if not connection.in_atomic_block:
        _renumber()


def _renumber() -> None:
    """Transactions of another server say nothing here: what came from there is older
    than what is appended here, and ordered by its ids."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("LOCK TABLE core_outboxreader IN EXCLUSIVE MODE")
        cursor.execute(f"SELECT {FOREIGN}")
        if (row := cursor.fetchone()) and row[0]:
            cursor.execute(_RENUMBER_READERS)
            cursor.execute("UPDATE core_domainevent SET transaction = '1'")


def prune_events() -> int:
    """Delete events that every reader has passed some time ago; how many."""
    total = 0
    with connection.cursor() as cursor:
        cursor.execute(_FORGET, [GIVEN_UP_KEPT_SECONDS])
        for _ in range(MOST_PRUNE_PAGES):
            cursor.execute(_PRUNE, [PRUNE_PAGE, KEPT_SECONDS])
            total += cursor.rowcount
            if cursor.rowcount < PRUNE_PAGE:
                break
    return total


def lags() -> dict[str, float]:
    """By reader: the age in seconds of the oldest event that it has not passed."""
    with connection.cursor() as cursor:
        cursor.execute(_LAG)
        return dict(cursor.fetchall())
