"""Reading the outbox: exactly once per named reader, in the order of transactions.

A reader's cursor moves in the transaction of what its handlers did: a process killed
there has done neither. Events are read once every transaction that began before theirs
has ended, so none that commits late is passed by (docs/adr/0031-one-outbox.md).
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import InterfaceError, OperationalError, connection, transaction

log = logging.getLogger("sluice.outbox")

# A reader that was away goes on for a while, then lets others have the process.
PAGE, MOST_PAGES = 500, 4
SECONDS = 2.0
KEPT_SECONDS = 3600
PRUNE_PAGE, MOST_PRUNE_PAGES = 5000, 20

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
    WHERE (e.transaction, e.id) > (r.transaction, r.event) AND {settled}), {foreign}
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
_PAGE = """
SELECT e.id, e.transaction::text, e.at, e.topic, e.subject, e.subject_id, e.data::text
FROM core_domainevent e
WHERE (e.transaction, e.id) > (%s::xid8, %s) AND {settled}
ORDER BY e.transaction, e.id LIMIT %s
"""
_PASS = """
UPDATE core_outboxreader SET transaction = %s::xid8, event = %s WHERE name = %s
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
  WHERE oldest.at < now() - make_interval(secs => %s))
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


def read(name: str, handlers: Mapping[str, Handler]) -> int:
    """Hand this reader's next events to the handlers of their topics, for about
    SECONDS; how many.

    Costs one statement when there is none. Several at once do no harm: one reads.
    Errors of the database's connection pass through.
    """
    until = time.monotonic() + SECONDS
    total = 0
    for _ in range(MOST_PAGES):
        if not _has_news(name):
            break
        count = _read_page(name, handlers, until)
        total += count
        if count < PAGE or time.monotonic() >= until:
            break
    return total


def _has_news(name: str) -> bool:
    look = _LOOK.format(settled=SETTLED, foreign=FOREIGN)
    with connection.cursor() as cursor:
        cursor.execute(look, [name])
        row = cursor.fetchone()
        if row is None:
            cursor.execute(_BEGIN, [name])
            return True
    has_news, is_foreign = row
    # a caller's own transaction may be younger than its view of others
    if is_foreign and not connection.in_atomic_block:
        _renumber()
        return True
    return bool(has_news)


def _read_page(name: str, handlers: Mapping[str, Handler], until: float) -> int:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_LOCK, [name])
        position = cursor.fetchone()
        if position is None:
            return 0  # another process reads
        cursor.execute(_PAGE.format(settled=SETTLED), [*position, PAGE])
        events = [_event(row) for row in cursor.fetchall()]
        count = _handle(events, handlers, until)
        if count:
            last = events[count - 1]
            cursor.execute(_PASS, [last.transaction, last.id, name])
    return count


def _event(row: Any) -> Event:
    number, xid, at, topic, subject, subject_id, data = row
    return Event(number, xid, at, topic, subject, subject_id, json.loads(data))


def _handle(
    events: Sequence[Event], handlers: Mapping[str, Handler], until: float
) -> int:
    """So many as there is time for, and one at least; how many are done with. One that
    a defect of ours keeps from being handled is reported and does not hold up those
    behind it."""
    if not any(event.topic in handlers for event in events):
        return len(events)
    try:
        with transaction.atomic():
            return _in_turn(events, handlers, until, lambda e: handlers[e.topic](e))
    except (OperationalError, InterfaceError):
        raise
    except Exception:
        log.warning("handling events one by one after an error", exc_info=True)
        until = time.monotonic() + SECONDS
        return _in_turn(events, handlers, until, lambda e: _handle_alone(e, handlers))


def _in_turn(
    events: Sequence[Event], topics: Container[str], until: float, handle: Handler
) -> int:
    for number, event in enumerate(events, start=1):
        if event.topic in topics:
            handle(event)
            if time.monotonic() >= until:
                return number
    return len(events)


def _handle_alone(event: Event, handlers: Mapping[str, Handler]) -> None:
    try:
        with transaction.atomic():
            handlers[event.topic](event)
    except (OperationalError, InterfaceError):
        raise
    except Exception:
        log.exception(
            "event %s (%s of %s %s) could not be handled and is skipped",
            event.id,
            event.topic,
            event.subject,
            event.subject_id,
        )


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
