"""When a table is looked at again. Called where jobs end, so it knows rows only."""

from __future__ import annotations

from datetime import timedelta

from django.db.models import QuerySet
from django.db.models.functions import Now

from catalog.compiled import AnyRow
from core.clock import SystemClock
from ingest.models import TableHealth

# a table that commits all the time is not looked at all the time
AT_MOST_EVERY = timedelta(seconds=15)


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
