"""The audit trail: who did what to which object through which door. Append-only.

Door, address and request id come from `core.context`. Facts are cleaned of
secrets on the way in, whatever the caller passed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from catalog.models import AuditEntry
from core.context import current
from core.redaction import redact_facts

LONGEST_OBJECT = 600
_denials: ContextVar[tuple[list[AuditEntry], ...]] = ContextVar("denials", default=())


def record(action: str, *, is_allowed: bool = True, **given: Any) -> None:
    """Append one entry, as `entry` takes it."""
    row = entry(action, is_allowed=is_allowed, **given)
    row.save(force_insert=True)
    if not is_allowed:
        for kept in _denials.get():
            kept.append(row)


@contextmanager
def keeping_denials() -> Iterator[None]:
    """Put around a transaction: when an error undoes it, what was denied in it is
    appended again. A denial must not leave the audit with the work it stopped."""
    kept: list[AuditEntry] = []
    token = _denials.set((*_denials.get(), kept))
    try:
        yield
    except Exception:
        append(kept)
        raise
    finally:
        _denials.reset(token)


def entry(
    action: str,
    *,
    on: str = "",
    actor: str = "",
    door: str = "",
    is_allowed: bool = True,
    address: str = "",
    **facts: object,
) -> AuditEntry:
    """Return what `record` would append, for callers that append many at once.
    `action` is "noun.verb", e.g. "grant.create"."""
    context = current()
    return AuditEntry(
        action=action,
        object=on[:LONGEST_OBJECT],
        actor=(actor or context.actor or "system")[:150],
        door=(door or context.door or "system")[:20],
        is_allowed=is_allowed,
        address=(address or context.address)[:64],
        request_id=context.request_id[:64],
        facts=redact_facts(facts),
    )


def append(entries: list[AuditEntry]) -> None:
    """Append all of them in one statement, or none."""
    AuditEntry.objects.bulk_create(entries)
