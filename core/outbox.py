"""The outbox: domain events, appended once, in the transaction of what they report.

A process killed there has neither the change nor its event, and after it has both.
Events are read by `core.outbox_reader`; the code that appends knows no reader.
Data is small and versioned (`v`); it holds no secret and no value of a source's row.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import connection
from django.db.models import ForeignKey
from django.utils import timezone

from core.sentences import stored

VERSION = 1
_BATCH = 1000

_APPEND = """
INSERT INTO core_domainevent (topic, subject, subject_id, data)
SELECT e.topic, e.subject, e.subject_id, e.data
FROM jsonb_to_recordset(%(events)s::jsonb)
  AS e(topic text, subject text, subject_id text, data jsonb)
"""
_HISTORY = """
INSERT INTO {history} (at, event, before, after, actor, reason, {owner})
SELECT %(at)s, %(event)s, %(before)s, %(after)s, %(actor)s, %(reason)s, m.pk::{type}
FROM jsonb_to_recordset(%(rows)s::jsonb) AS m(pk text)
"""
# One statement: history and outbox have the same moves, at no further round trip.
_WITH_EVENTS = """
WITH history AS ({history})
INSERT INTO core_domainevent (topic, subject, subject_id, data)
SELECT %(topic)s, %(subject)s, m.pk, m.data
FROM jsonb_to_recordset(%(rows)s::jsonb) AS m(pk text, data jsonb)
"""


@dataclass(frozen=True, slots=True)
class NewEvent:
    """topic  "noun.verb", what happened; subject, subject_id  to what"""

    topic: str
    subject: str
    subject_id: str
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Move:
    """One arrow of a state machine, taken by one row or by many at once."""

    event: str
    before: str
    after: str
    actor: str = ""
    reason: str = ""


def append(*events: NewEvent) -> None:
    """Append all of them by one statement, in the caller's transaction."""
    if not events:
        return
    rows = [
        {
            "topic": event.topic,
            "subject": event.subject,
            "subject_id": event.subject_id,
            "data": {"v": VERSION, **event.data},
        }
        for event in events
    ]
    with connection.cursor() as cursor:
        for start in range(0, len(rows), _BATCH):
            part = json.dumps(rows[start : start + _BATCH])
            cursor.execute(_APPEND, {"events": part})


def append_moves(rows: Sequence[Any], move: Move) -> None:
    """Append the move of these rows of one model to its history, where it has one,
    which stays as long as the row does; and to the outbox, where the model has
    `event_facts`."""
    model = type(rows[0])
    if not hasattr(model, "events"):
        return
    owner: ForeignKey[Any, Any] = model.events.rel.field
    quote = connection.ops.quote_name
    statement = _HISTORY.format(
        history=quote(model.events.rel.related_model._meta.db_table),
        owner=quote(owner.column),
        type=owner.rel_db_type(connection),
    )
    has_events = hasattr(model, "event_facts")
    if has_events:
        statement = _WITH_EVENTS.format(history=statement)
    subject = model.transitions.name.lower()
    arrow = {"event": move.event, "before": move.before, "after": move.after}
    given = arrow | {
        "at": timezone.now(),
        "actor": move.actor,
        "reason": stored(move.reason),
        "topic": f"{subject}.moved",
        "subject": subject,
    }
    with connection.cursor() as cursor:
        for start in range(0, len(rows), _BATCH):
            moved = [
                {"pk": str(row.pk)}
                | (
                    {"data": {"v": VERSION, **arrow, **row.event_facts}}
                    if has_events
                    else {}
                )
                for row in rows[start : start + _BATCH]
            ]
            cursor.execute(statement, given | {"rows": json.dumps(moved)})
