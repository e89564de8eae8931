"""What follows from the end of a table's job, in one place for all that end jobs: the
domain events that say what it meant, and the table's next look.

Its moves are the history of the job.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from django.db.models import F, Q, QuerySet
from django.db.models.functions import Greatest, Now

from catalog.compiled import AnyRow
from core import outbox
from core.clock import SystemClock
from core.errors import SluiceError
from core.models import Job
from core.outbox import NewEvent
from ingest.models import TableHealth

# a table that commits all the time is not looked at all the time
AT_MOST_EVERY = timedelta(seconds=15)


def report_success(
    job: Job, facts: Mapping[str, Any], *, has_caught_up: bool = False
) -> None:
    """One statement, whether it committed or not."""
    data: dict[str, Any] = _about(job) | {"caught_up": has_caught_up}
    if "verdict" in facts:
        data["verdict"] = facts["verdict"]
    outbox.append(NewEvent("job.succeeded", "job", str(job.pk), data))


def report_failure(job: Job, error: SluiceError, *, failures: int = 0) -> None:
    """failures  how many syncs failed in a row, when this one is tried again later"""
    data = _about(job) | {
        "attempts": job.attempts,
        "failures": failures,
        "code": error.code,
        "message": error.message,
        "hint": error.hint,
    }
    outbox.append(NewEvent("job.failed", "job", str(job.pk), data))


def _about(job: Job) -> dict[str, Any]:
    return {"kind": job.kind, "table": int(job.payload["table"])}


def rows_due() -> QuerySet[TableHealth]:
    """Of the tables to look at now."""
    return TableHealth.objects.filter(due_at__lte=Now())


is_any_due = AnyRow(rows_due)


def note_change(table_id: int) -> None:
    """The table's files changed: it is looked at soon. Cheap, in any transaction."""
    soon = SystemClock().now()
    row, is_new = TableHealth.objects.get_or_create(
        table_id=table_id, defaults={"due_at": soon}
    )
    if is_new:
        return
    if row.collected_at is not None:
        soon = max(soon, row.collected_at + AT_MOST_EVERY)
    if row.due_at is None or row.due_at > soon:
        TableHealth.objects.filter(pk=row.pk).update(due_at=soon)


def note_changes(table_ids: Iterable[int]) -> None:
    """The same of many that have been looked at, in one statement."""
    soon = Greatest(Now(), F("collected_at") + AT_MOST_EVERY)
    rows = TableHealth.objects.filter(table__in=list(table_ids))
    rows.filter(Q(due_at=None) | Q(due_at__gt=soon)).update(due_at=soon)
