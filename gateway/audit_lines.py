"""Audit lines of the gateway on their way into the database.

Text is escaped where the database could not store it: a line must never be lost for
what a client wrote. Called in the store's threads.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from django.db import DataError
from django.utils import timezone
from psycopg.types.json import Jsonb

from catalog.access import audit
from catalog.models import AuditEntry
from core.context import working_for

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One line for the audit trail."""

    actor: str
    action: str
    on: str = ""
    is_allowed: bool = True
    address: str = ""
    facts: dict[str, object] = field(default_factory=dict)


# What `columns_of` returns goes into it: one round trip, whatever the number of lines.
APPEND = """
INSERT INTO catalog_auditentry
(at, actor, action, object, door, is_allowed, address, request_id, facts)
SELECT * FROM unnest(
  %s::timestamptz[], %s::text[], %s::text[], %s::text[], %s::text[], %s::boolean[],
  %s::text[], %s::text[], %s::jsonb[]
)
"""


def columns_of(lines: Sequence[AuditRecord]) -> list[list[object]]:
    """Return the lines as APPEND takes them."""
    now = timezone.now()
    rows = [_entry(line) for line in lines]
    return [
        [now] * len(rows),
        [row.actor for row in rows],
        [row.action for row in rows],
        [row.object for row in rows],
        [row.door for row in rows],
        [row.is_allowed for row in rows],
        [row.address for row in rows],
        [row.request_id for row in rows],
        [Jsonb(row.facts) for row in rows],
    ]


def write_all(lines: Sequence[AuditRecord]) -> None:
    """Append all lines, or none."""
    audit.append([_entry(line) for line in lines])


def write_those_that_can_be(lines: Sequence[AuditRecord]) -> int:
    """Append what can be stored; the rest goes to the log. How many that were."""
    try:
        write_all(lines)
    except (DataError, ValueError):
        return sum(not _is_written(line) for line in lines)
    return 0


def storable(text: str) -> str:
    """Return the text with NUL and lone surrogates, which PostgreSQL has no place for,
    written as Python writes them."""
    shown = text.replace("\x00", "\\x00")
    return shown.encode("utf-8", "backslashreplace").decode("utf-8")


def _is_written(line: AuditRecord) -> bool:
    try:
        write_all([line])
    except (DataError, ValueError):
        log.exception("an audit line could not be stored: %s", line.action)
        return False
    return True


def _entry(line: AuditRecord) -> AuditEntry:
    facts = {
        key: storable(value) if isinstance(value, str) else value
        for key, value in line.facts.items()
    }
    with working_for(actor=line.actor, door="gateway", address=line.address):
        return audit.entry(
            line.action,
            on=line.on,
            is_allowed=line.is_allowed,
            **facts,  # type: ignore[arg-type]
        )
