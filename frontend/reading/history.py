"""What a user asked of the lake, through any interface: read from the audit trail.

The gateway writes one line per statement; the session remembers which results of
this browser may still be looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from catalog.models import AuditEntry
from core.errors import NotFound, SluiceError
from core.sentences import sentence_of
from frontend.reading.statements import LONGEST_KEPT, Memory, history_of, look

KEPT = 50
# No index finds a text within statements: a search reads these.
SEARCHED = 1_000
RUN = "statement.run"
# How many the gateway is asked of; of others the state is unknown.
MOST_LOOKED_AT = 5
UNKNOWN = "UNKNOWN"
_SLACK = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Asked:
    """One statement. `id` is empty when its result is not this browser's to show."""

    sql: str
    at: datetime
    state: str = ""
    seconds: float | None = None
    error: str = ""
    id: str = ""


def asked_by(user: str, memory: Memory, q: str) -> list[Asked]:
    """Newest first: those of this session that still run, then all that ended. `q`:
    those of their newest `SEARCHED` that contain it."""
    rows = AuditEntry.objects.filter(actor=user, action=RUN).order_by("-at", "-id")
    if q:
        newest = rows.values("pk")[:SEARCHED]
        rows = rows.filter(pk__in=newest, facts__statement__icontains=q)
    mine = [_remembered(one) for one in history_of(memory)]
    ended = []
    for row in rows[:KEPT]:
        own = next((one for one in mine if _is_same(one, row)), None)
        if own:
            mine.remove(own)
        ended.append(_ended(row, own.id if own else ""))
    wanted = [one for one in mine if q.lower() in one.sql.lower()]
    wanted = list(_as_they_are(user, wanted, memory))
    return sorted([*wanted, *ended], key=lambda one: one.at, reverse=True)[:KEPT]


def _as_they_are(user: str, asked: list[Asked], memory: Memory) -> Iterator[Asked]:
    """The state of those that have no line yet, from the gateway; it is not asked again
    once it does not answer, and knows only those that it keeps."""
    left = MOST_LOOKED_AT
    for one in asked:
        if one.state or not one.id:
            yield one
            continue
        state, seconds = UNKNOWN, None
        if left:
            try:
                shown = look(user, one.id, memory)
            except NotFound:
                left -= 1
            except SluiceError:
                left = 0
            else:
                left -= 1
                state = shown.state
                seconds = None if shown.is_moving else shown.seconds
        yield replace(one, state=state, seconds=seconds)


def _remembered(entry: dict[str, Any]) -> Asked:
    at = datetime.fromisoformat(entry["at"])
    how = {"state": entry.get("state", ""), "seconds": entry["seconds"]}
    return Asked(entry["sql"], at, **how, id=entry["id"] or "")


def _is_same(one: Asked, row: AuditEntry) -> bool:
    """The same words, and it began when this session asked for it."""
    facts = row.facts
    began = row.at - timedelta(seconds=float(facts.get("seconds") or 0))
    statement = str(facts.get("statement", ""))[:LONGEST_KEPT]
    return one.sql == statement and abs(began - one.at) < _SLACK


def _how(state: str) -> str:
    """Who closes a statement that still runs has cancelled it."""
    return "CANCELED" if state == "CLOSED" else state


def _ended(row: AuditEntry, statement_id: str) -> Asked:
    facts = row.facts
    return Asked(
        sql=str(facts.get("statement", "")),
        at=row.at,
        state=_how(str(facts.get("state", ""))),
        seconds=facts.get("seconds"),
        error=sentence_of(str(facts.get("error", "")), facts.get("sentences")),
        id=statement_id,
    )
