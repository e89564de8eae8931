"""What the moves of jobs and tables mean for alerts. Called where they happen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet

from catalog.discovery.store import VANISHED
from catalog.models import Table
from core.errors import SluiceError
from core.models import Job
from ingest.alerts import book
from ingest.alerts.models import Alert
from ingest.alerts.rules import (
    FAILED,
    LATE,
    MISMATCH,
    ROUNDS_BEFORE_ALERT,
    SCHEMA_CHANGE,
    STUCK,
    Trouble,
    stuck_trouble,
)
from ingest.kinds import LOADS, RESYNC, VERIFY
from ingest.models import TableOnboarding
from ingest.narrowing import source_changed
from ingest.planning.plan import plan_from_json
from ingest.states import DISCOVERED, DRAFT, PROPOSED, RETIRED

GONE = "gone"
_NOT_CARRIED = (DRAFT, DISCOVERED, PROPOSED, RETIRED)


def job_failed(job: Job, error: SluiceError, *, failures: int = 0) -> None:
    """failures  how many rounds failed in a row, when this one is tried again later"""
    if 0 < failures < ROUNDS_BEFORE_ALERT:
        return
    trouble = Trouble(
        FAILED,
        cause=f"{job.pk}:{job.attempts}",
        message=f"its {job.kind} failed: {error.message}",
        code=error.code,
        hint=error.hint,
        source=job.kind,
        job=str(job.pk),
    )
    book.open_alert(int(job.payload["table"]), trouble)


def job_succeeded(
    job: Job, facts: Mapping[str, Any], *, has_caught_up: bool = False
) -> None:
    table_id = int(job.payload["table"])
    recovered: set[str] = set()
    if job.kind == VERIFY:
        if facts.get("verdict") == "different":
            book.open_alert(table_id, _mismatch(job, facts))
        elif facts.get("verdict") == "equal":
            recovered.add(MISMATCH)
    elif job.kind == RESYNC:
        recovered.add(MISMATCH)
    if has_caught_up:
        recovered.add(LATE)
    if job.kind in LOADS:
        sources_altered(Table.objects.filter(onboardings__lake_table=table_id))
    book.note_success(table_id, job.kind, recovered=recovered)


def _mismatch(job: Job, facts: Mapping[str, Any]) -> Trouble:
    return Trouble(
        MISMATCH,
        cause=str(job.pk),
        message="a verification found rows that differ from the source",
        code="differs_from_source",
        hint="the job names keys; a re-sync makes the table equal again",
        repair="resync",
        job=str(job.pk),
    )


def health_seen(table_id: int, losses: Sequence[Mapping[str, Any]]) -> None:
    """What stands still or is broken on the table, by the look that has just been
    made."""
    trouble = stuck_trouble(losses)
    if trouble is not None:
        book.open_alert(table_id, trouble)
    else:
        book.close(
            book.open_on(table_id, {STUCK}), reason="nothing stands still or is broken"
        )


def table_paused(table_id: int) -> None:
    """Nobody expects it to keep up any more."""
    late = book.open_on(table_id, {LATE})
    book.close(late, because=book.PAUSED, reason="the table was paused")


def schedule_ended(feeds: QuerySet[TableOnboarding]) -> None:
    """From now on these tables are brought up to date when somebody asks."""
    late = Alert.objects.filter(kind=LATE, table__in=feeds.values("lake_table"))
    book.close(late, reason="the table has no schedule any more")


def table_removed(table_id: int) -> None:
    rows = book.open_on(table_id)
    book.close(rows, because=book.REMOVED, reason="the table is carried no more")


def sources_altered(tables: QuerySet[Table]) -> None:
    """Discovery found other columns in these tables than before, or not the tables; or
    a load may have made their lake tables as they are."""
    told = Alert.objects.filter(
        table=OuterRef("lake_table"), kind=SCHEMA_CHANGE, closed_at=None, cause=GONE
    )
    feeds = (
        TableOnboarding.objects.filter(source_table__in=tables)
        .exclude(lake_table=None)
        .exclude(state__in=_NOT_CARRIED)
        # one that is still gone is found by every discovery
        .exclude(Q(source_table__status=VANISHED) & Exists(told))
    )
    for feed in feeds.select_related("source_table__database"):
        if feed.lake_table_id is not None:
            _compare(feed.lake_table_id, feed)


def _compare(lake_table: int, feed: TableOnboarding) -> None:
    source = feed.source_table
    changed = source_changed(feed, plan_from_json(feed.plan))
    if changed is None:
        same = book.open_on(lake_table, {SCHEMA_CHANGE})
        book.close(same, reason="the source has the columns of the plan")
        return
    is_gone = source.status == VANISHED
    name = f"{source.database.name}.{source.name}"
    trouble = Trouble(
        SCHEMA_CHANGE,
        cause=GONE if is_gone else source.schema_fingerprint,
        message=(
            f"{name} was dropped at the source"
            if is_gone
            else f"the columns of {name} changed at the source"
        ),
        code=changed.code,
        hint=changed.hint,
    )
    book.open_alert(lake_table, trouble)
