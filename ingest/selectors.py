"""Reads of ingestion rows: what is due, and what a principal may see."""

from __future__ import annotations

from django.db.models import QuerySet
from django.db.models.functions import Now

from ingest.models import TableOnboarding
from ingest.states import LOADED


def onboardings_due(*, limit: int = 200) -> QuerySet[TableOnboarding]:
    """Tables whose next round is due, locked; rows that somebody has are skipped."""
    return (
        TableOnboarding.objects.select_for_update(skip_locked=True, of=("self",))
        .filter(
            due_at__lte=Now(),
            state__in=sorted(LOADED),
            capture="timestamp",
            lake_table__isnull=False,
        )
        .select_related("lake_table__database__datasource")
        .order_by("due_at")[:limit]
    )
