"""Sources whose tables are carried are discovered again now and then, so that columns
that changed there are told before a load or a sync meets them."""

from __future__ import annotations

import time
from datetime import timedelta

from django.conf import settings
from django.db.models import CharField, Exists, OuterRef, QuerySet
from django.db.models.functions import Cast, Now

from catalog.discovery.services import DISCOVER, start_discovery
from catalog.models import Datasource
from core.jobs.moves import SCHEDULE
from core.models import Job
from ingest.models import Pipeline
from ingest.models.states import CATCHING_UP, LIVE, NEEDS_RESYNC, PAUSED, RESYNCING

CARRIED = (LIVE, CATCHING_UP, PAUSED, NEEDS_RESYNC, RESYNCING)
# a instance that wakes from a night does not ask all of its sources at once
PAGE = 20
LOOK_SECONDS = 60.0
_looked_at = float("-inf")


def discover_again_now_and_then() -> None:
    """For the tick: look once a minute per process."""
    global _looked_at  # one pace per process
    if time.monotonic() - _looked_at >= LOOK_SECONDS:
        _looked_at = time.monotonic()
        discover_again()


def discover_again() -> int:
    """Start discoveries that are due; how many."""
    every = timedelta(seconds=settings.SLUICE_DISCOVER_SECONDS)
    if not every:
        return 0
    due = list(_due(every)[:PAGE])
    for datasource in due:
        start_discovery(datasource, by=SCHEDULE)
    return len(due)


def _due(every: timedelta) -> QuerySet[Datasource]:
    """Those that were discovered before and are asked by nobody; a discovery that
    failed waits as long as one that went well."""
    carried = Pipeline.objects.filter(
        source_table__database__datasource=OuterRef("pk"), state__in=CARRIED
    )
    asked = Job.objects.filter(
        kind=DISCOVER,
        subject_id=Cast(OuterRef("pk"), CharField()),
        created_at__gt=Now() - every,
    )
    return Datasource.objects.filter(
        Exists(carried), ~Exists(asked), discovered_at__lte=Now() - every
    ).order_by("discovered_at")
