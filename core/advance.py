"""`advance()`: compare-and-swap one row along its table and append the move.

The only code that writes a `state` column. Both writes share one transaction, so
neither history nor outbox can miss a move or invent one.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from django.db import models, transaction

from core.errors import StaleState
from core.outbox import Move, append_moves
from core.sentences import Sentence

log = logging.getLogger("sluice.states")
# of many rows that another process moved
_MOST_NAMED = 10


def advance(
    row: Any, event: str, *, actor: str = "", reason: str = "", **changes: object
) -> None:
    """Move `row` by `event`; `changes` are further columns set in the same UPDATE.

    row  of a model with `state` and a class-level table `transitions`; with a relation
         `events` where it has a history, and with `event_facts` (what an event has
         beside the move) where moves are events of the outbox, too

    Raises IllegalTransition when the table has no such arrow, StaleState when
    another process moved the row since it was read. On success the object in
    memory carries the new values.
    """
    _move([row], event, actor, reason, changes)


def advance_and_say(
    row: Any, event: str, *, actor: str = "", reason: str = "", **changes: object
) -> None:
    """The same for a row that shows the reason itself, too."""
    _move([row], event, actor, reason, {"reason": reason, **changes})


def advance_all(
    rows: Sequence[Any],
    event: str,
    *,
    actor: str = "",
    reason: str = "",
    **changes: object,
) -> None:
    """`advance()` for many rows of one model in one state: all of them or none.

    Two statements however many rows there are. Raises as `advance()` does.
    """
    if rows:
        _move(rows, event, actor, reason, changes)


def _move(
    rows: Sequence[Any],
    event: str,
    actor: str,
    reason: str,
    changes: Mapping[str, object],
) -> None:
    first = rows[0]
    before, after = first.state, first.transitions.after(first.state, event)
    with _own_transaction() if len(rows) == 1 else transaction.atomic():
        model: type[models.Model] = type(first)
        won = model._default_manager.filter(
            pk__in=[row.pk for row in rows], state=before
        ).update(state=after, **changes)
        if won != len(rows):
            ids = ", ".join(str(row.pk) for row in rows[:_MOST_NAMED])
            raise StaleState(
                "%(machine)s %(id)s is no longer %(state)s",
                machine=Sentence(first.transitions.name),
                id=ids,
                state=Sentence(before),
                hint="read it again and decide then",
                facts={"id": ids, "event": event},
            )
        append_moves(rows, Move(event, before, after, actor, reason))
    for row in rows:
        row.state = after
        for name, value in changes.items():
            setattr(row, name, value)
    if len(rows) == 1:
        _append_event(first, event, before, after)


def _own_transaction() -> AbstractContextManager[Any]:
    """One where there is none: in the caller's, a savepoint would cost two statements,
    and where one row is refused nothing was written."""
    is_within = transaction.get_connection().in_atomic_block
    return nullcontext() if is_within else transaction.atomic()


def record_moves(
    rows: Sequence[Any], event: str, *, before: str, actor: str = "", reason: str = ""
) -> None:
    """Append what rows that were just moved, or created, did along one arrow."""
    after = rows[0].transitions.after(before, event)
    append_moves(rows, Move(event, before, after, actor, reason))


def _append_event(row: Any, event: str, before: str, after: str) -> None:
    """The log's line of a move; a job's carry its id and that of its request."""
    request_id = getattr(row, "request_id", None)
    ids = {} if request_id is None else {"job_id": str(row.pk)}
    if request_id:
        ids["request_id"] = request_id
    name = row.transitions.name
    log.info("%s %s: %s → %s by %s", name, row.pk, before, after, event, extra=ids)
