"""Writes the audit lines and the metrics of one session's statements."""

from __future__ import annotations

import hashlib

from catalog.access.principal_policy import ReadTables
from catalog.names import LAKE, join_name, split_name
from core.sentences import origins_in
from gateway.audit_lines import AuditRecord
from gateway.faults import DENIED, Fault
from gateway.metrics import STATEMENT_SECONDS, STATEMENTS
from gateway.operation import Operation
from gateway.store import Store

LONGEST_AUDITED = 4000
LONGEST_ERROR = 500
MOST_TABLES, MOST_COLUMNS = 100, 1000


class StatementAudit:
    """Writes the audit lines of `user`, who came from `address`."""

    def __init__(self, store: Store, user: str, *, address: str) -> None:
        self._store = store
        self._user = user
        self._address = address

    async def begin(self, operation: Operation) -> int:
        """Write that a statement begins; return the version of all rights, which is
        read behind it. DatabaseAway when the line cannot be written."""
        facts = _text_of(operation.statement)
        line = self._line("statement.start", operation, facts)
        return await self._store.begin_statement(line)

    def note_end(self, operation: Operation) -> None:
        """Count the statement and queue the line of how it ended."""
        seconds = operation.seconds
        STATEMENTS.labels(operation.state).inc()
        STATEMENT_SECONDS.observe(seconds)
        fault = operation.fault
        facts = _text_of(operation.statement) | {
            "state": operation.state,
            "seconds": round(seconds, 3),
        }
        if fault:
            facts |= told(fault)
        if operation.run and operation.run.reads:
            facts |= _read(operation.run.reads)
        elif operation.run and operation.reader:  # nobody told what its rows are of
            facts |= {"reads": [], "reads_more": True}
        is_allowed = fault is None or fault.sql_state != DENIED
        self._store.note(
            self._line("statement.run", operation, facts, is_allowed=is_allowed)
        )

    def note_fetch(self, operation: Operation) -> None:
        """Queue the line of how many rows were handed out."""
        facts: dict[str, object] = {"rows": operation.rows}
        self._store.note(self._line("statement.fetch", operation, facts))

    def _line(
        self,
        action: str,
        operation: Operation,
        facts: dict[str, object],
        *,
        is_allowed: bool = True,
    ) -> AuditRecord:
        return AuditRecord(
            actor=self._user,
            action=action,
            on=operation.id,
            is_allowed=is_allowed,
            address=self._address,
            facts=facts,
        )


def told(fault: Fault) -> dict[str, object]:
    """A sentence with what it was made of, for the history of its asker."""
    said = fault.message[:LONGEST_ERROR]
    facts: dict[str, object] = {"error": said, "sql_state": fault.sql_state}
    made_of = origins_in([fault.message]) if said == fault.message else {}
    return facts | {"sentences": made_of} if made_of else facts


def _read(reads: ReadTables) -> dict[str, object]:
    """Return tables and columns for the audit, as grants name them."""
    shown = {name: sorted(reads.tables[name]) for name in sorted(reads.tables)}
    left = MOST_COLUMNS
    told: list[dict[str, object]] = []
    for name, columns in list(shown.items())[:MOST_TABLES]:
        parts = split_name(name)
        table = name if len(parts) > 2 else join_name(LAKE, *parts)
        told.append({"table": table, "columns": columns[:left]})
        left = max(0, left - len(columns))
    is_whole = reads.is_whole and left > 0 and len(told) == len(shown)
    facts: dict[str, object] = {"policy_version": reads.version, "reads": told}
    return facts if is_whole else facts | {"reads_more": True}


def _text_of(statement: str) -> dict[str, object]:
    """Return a statement's text for the audit; of a longer one its sum, too."""
    facts: dict[str, object] = {"statement": statement[:LONGEST_AUDITED]}
    if len(statement) > LONGEST_AUDITED:
        whole = hashlib.sha256(statement.encode("utf-8", "replace")).hexdigest()
        facts |= {"characters": len(statement), "sha256": whole}
    return facts
