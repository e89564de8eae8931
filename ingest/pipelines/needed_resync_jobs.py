"""Resyncs that nobody has to ask for: of tables that need one, where their policy says
`"resync": "auto"`. A few a day of each table, with longer and longer pauses; then it
waits for a person, as all others do from the beginning.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from django.db.models import QuerySet
from django.utils import timezone

from catalog.compiled import AnyRow
from core.database_errors import is_away
from core.errors import SluiceError
from core.jobs import ACTIVE
from core.models import Job
from ingest.contract.job import LOADS, RESYNC
from ingest.models import Pipeline
from ingest.models.states import NEEDS_RESYNC
from ingest.pipelines.policies.store import setting_as_text
from ingest.pipelines.schema_diff import drift_of
from ingest.pipelines.table_commands import start_resync

log = logging.getLogger(__name__)

ACTOR = "resync policy"
AUTO = "auto"
PAGE = 50
DAY = timedelta(days=1)
_RELATED = ("lake_table__database__datasource", "source_table__database__datasource")
# Of one table, behind the first, the second and the third of a day; no more.
PAUSES = (timedelta(minutes=10), timedelta(hours=1), DAY)


def _needed() -> QuerySet[Pipeline]:
    return Pipeline.objects.filter(state=NEEDS_RESYNC, lake_table__isnull=False)


_is_any_needed = AnyRow(_needed)


def start_needed() -> int:
    """How many were begun. Those that may not begin now keep no others from it."""
    if not _is_any_needed():
        return 0
    rows = _needed()
    auto = rows.annotate(resync=setting_as_text("resync")).filter(resync=AUTO)
    tables = dict(auto.order_by("pk").values_list("pk", "lake_table_id"))
    held = _held() if tables else set()
    begun = 0
    for pk in (pk for pk, table in tables.items() if str(table) not in held):
        row = rows.select_related(*_RELATED).filter(pk=pk).first()
        begun += row is not None and not drift_of(row).is_open and _start(row)
        if begun == PAGE:
            break
    return begun


def _held() -> set[str]:
    """Tables that are loaded, and those for which it is not time for another one."""
    now = timezone.now()
    loads = Job.objects.filter(kind__in=LOADS, state__in=ACTIVE)
    mine = Job.objects.filter(kind=RESYNC, requested_by=ACTOR, created_at__gt=now - DAY)
    begun: dict[str, list[datetime]] = {}
    for table, at in mine.order_by("-created_at").values_list(
        "subject_id", "created_at"
    ):
        begun.setdefault(table, []).append(at)
    early = {table for table, times in begun.items() if next_at(times) > now}
    return {*loads.values_list("subject_id", flat=True)} | early


def next_at(begun: list[datetime]) -> datetime:
    """When another one may begin behind those of a day, the newest first."""
    return begun[0] + PAUSES[min(len(begun), len(PAUSES)) - 1]


def _start(pipeline: Pipeline) -> bool:
    """What fails for one table must not hold up the others."""
    try:
        start_resync(pipeline.lake, actor=ACTOR)
    except SluiceError as error:
        log.warning("no resync of %s: %s", pipeline.lake, error)
        return False
    except Exception as error:
        if is_away(error):
            raise
        log.exception("no resync of %s", pipeline.lake)
        return False
    return True
