"""Audit lines of the gateway on their way into the database.

Text is escaped where the database could not store it: a line must never be lost for
what a client wrote.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from django.utils import timezone

from catalog.access import audit
from catalog.models import AuditEntry
from core.context import working_for
from core.json_values import storable


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One line for the audit trail."""

    actor: str
    action: str
    on: str = ""
    is_allowed: bool = True
    address: str = ""
    facts: dict[str, object] = field(default_factory=dict)


# What `as_json` returns goes into it: one round trip, whatever the number of lines.
APPEND = """
INSERT INTO catalog_auditentry
(at, actor, action, object, door, is_allowed, address, request_id, facts)
SELECT * FROM jsonb_to_recordset(%s::jsonb) AS line(
  at timestamptz, actor text, action text, object text, door text,
  is_allowed boolean, address text, request_id text, facts jsonb
)
"""
_COLUMNS = ("actor", "action", "object", "door", "is_allowed", "address", "request_id")


def as_json(lines: Sequence[AuditRecord]) -> str:
    """Return the lines as APPEND takes them."""
    now = timezone.now().isoformat()
    rows = [_entry(line) for line in lines]
    return json.dumps(
        [
            {"at": now, "facts": row.facts}
            | {column: getattr(row, column) for column in _COLUMNS}
            for row in rows
        ]
    )


def _entry(line: AuditRecord) -> AuditEntry:
    facts = storable(line.facts)
    with working_for(actor=line.actor, door="gateway", address=line.address):
        return audit.entry(
            line.action,
            on=line.on,
            is_allowed=line.is_allowed,
            **facts,
        )
