"""Resyncs that nobody has to ask for: of tables that need one, where their policy says
`"resync": "auto"`. A few a day of each table, with longer and longer pauses; then it
waits for a person, as all others do from the beginning.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from core.clock import SystemClock
from core.database_errors import is_away
from core.errors import SluiceError
from core.jobs import ACTIVE
from core.models import Job
from ingest.contract.job import LOADS, RESYNC
from ingest.models import Pipeline
from ingest.models.states import NEEDS_RESYNC
from ingest.pipelines.policies.store import Policies
from ingest.pipelines.schema_diff import drift_of
from ingest.pipelines.table_commands import start_resync

log = logging.getLogger(__name__)

ACTOR = "resync policy"
AUTO = "auto"
PAGE = 50
DAY = timedelta(days=1)
# Of one table, behind the first, the second and the third of a day; no more.
PAUSES = (timedelta(minutes=10), timedelta(hours=1), DAY)


def start_needed() -> int:
    """How many were begun."""
    rows = Pipeline.objects.filter(state=NEEDS_RESYNC, lake_table__isnull=False)
    related = ("lake_table__database__datasource", "source_table__database__datasource")
    found = list(rows.select_related(*related).order_by("pk")[:PAGE])
    if not found:
        return 0
    sources = {row.source_table.database.datasource_id for row in found}
    policies = Policies(sources)
    due = [row for row in found if policies.of_pipeline(row).values["resync"] == AUTO]
    return sum(_start(row) for row in due if _may_begin(row))


def _may_begin(pipeline: Pipeline) -> bool:
    """Whether nobody has to decide before, and it is time for another one."""
    jobs = Job.objects.filter(subject_id=str(pipeline.lake_table_id), kind__in=LOADS)
    if drift_of(pipeline).is_open or jobs.filter(state__in=ACTIVE).exists():
        return False
    now = SystemClock().now()
    mine = jobs.filter(kind=RESYNC, requested_by=ACTOR, created_at__gt=now - DAY)
    begun = list(mine.order_by("-created_at").values_list("created_at", flat=True))
    return next_at(begun) <= now


def next_at(begun: list[datetime]) -> datetime:
    """When another one may begin behind those of a day, the newest first."""
    if not begun:
        return datetime.min.replace(tzinfo=SystemClock().now().tzinfo)
    pause = PAUSES[min(len(begun), len(PAUSES)) - 1]
    return begun[0] + pause


def _start(pipeline: Pipeline) -> bool:
    """What fails for one table must not hold up the others."""
    assert pipeline.lake_table is not None
    try:
        start_resync(pipeline.lake_table, actor=ACTOR)
    except SluiceError as error:
        log.warning("no resync of %s: %s", pipeline.lake_table, error)
        return False
    except Exception as error:
        if is_away(error):
            raise
        log.exception("no resync of %s", pipeline.lake_table)
        return False
    return True
