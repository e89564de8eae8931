"""What the moves of jobs and tables mean for alerts. Called where they happen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet

from catalog.discovery.store import VANISHED
from catalog.models import Table
from core.errors import SluiceError
from core.models import Job
from ingest.alerts import store
from ingest.alerts.rules import (
    FAILED,
    LATE,
    MISMATCH,
    SCHEMA_CHANGE,
    STUCK,
    SYNCS_BEFORE_ALERT,
    Trouble,
    stuck_trouble,
)
from ingest.jobs.kinds import LOADS, RESYNC, VERIFY
from ingest.models import Pipeline
from ingest.models.alerts import Alert
from ingest.models.states import DISCOVERED, DRAFT, PROPOSED, RETIRED
from ingest.pipelines import schema_diff
from ingest.pipelines.schema_diff import (
    APPROVE,
    drift_of,
    earlier_in_words,
    in_sentence,
    source_changed,
)
from ingest.planning.plan import plan_from_json

GONE = "gone"
_NOT_SYNCED = (DRAFT, DISCOVERED, PROPOSED, RETIRED)


def job_failed(job: Job, error: SluiceError, *, failures: int = 0) -> None:
    """failures  how many rounds failed in a row, when this one is tried again later"""
    if 0 < failures < SYNCS_BEFORE_ALERT:
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
    store.open_alert(int(job.payload["table"]), trouble)


def job_succeeded(
    job: Job, facts: Mapping[str, Any], *, has_caught_up: bool = False
) -> None:
    table_id = int(job.payload["table"])
    recovered: set[str] = set()
    if job.kind == VERIFY:
        if facts.get("verdict") == "different":
            store.open_alert(table_id, _mismatch(job, facts))
        elif facts.get("verdict") == "equal":
            recovered.add(MISMATCH)
    elif job.kind == RESYNC:
        recovered.add(MISMATCH)
    if has_caught_up:
        recovered.add(LATE)
    if job.kind in LOADS:
        sources_altered(Table.objects.filter(onboardings__lake_table=table_id))
    store.note_success(table_id, job.kind, recovered=recovered)


def _mismatch(job: Job, facts: Mapping[str, Any]) -> Trouble:
    """Without keys: they are values of rows, and alerts go to people without grants."""
    found = str(facts.get("summary") or "")
    return Trouble(
        MISMATCH,
        cause=str(job.pk),
        message=f"a verification found differences. {found}".strip(),
        code="differs_from_source",
        hint="the job lists keys; a resync makes the table equal to its source",
        repair="resync",
        job=str(job.pk),
    )


def health_seen(table_id: int, losses: Sequence[Mapping[str, Any]]) -> None:
    """What stands still or is broken on the table, by the look that has just been
    made."""
    trouble = stuck_trouble(losses)
    if trouble is not None:
        store.open_alert(table_id, trouble)
    else:
        store.close(
            store.open_on(table_id, {STUCK}), reason="nothing stands still or is broken"
        )


def table_paused(table_id: int) -> None:
    """Nobody expects it to keep up any more."""
    late = store.open_on(table_id, {LATE})
    store.close(late, because=store.PAUSED, reason="the table was paused")


def schedule_ended(pipelines: QuerySet[Pipeline]) -> None:
    """From now on these tables are brought up to date when somebody asks."""
    late = Alert.objects.filter(kind=LATE, table__in=pipelines.values("lake_table"))
    store.close(late, reason="the table has no schedule any more")


def table_removed(table_id: int) -> None:
    rows = store.open_on(table_id)
    store.close(rows, because=store.REMOVED, reason="the table is carried no more")


def sources_altered(tables: QuerySet[Table]) -> None:
    """Discovery found other columns in these tables than before, or not the tables; or
    a load may have made their lake tables as they are."""
    told = Alert.objects.filter(
        table=OuterRef("lake_table"), kind=SCHEMA_CHANGE, closed_at=None, cause=GONE
    )
    pipelines = (
        Pipeline.objects.filter(source_table__in=tables)
        .exclude(lake_table=None)
        .exclude(state__in=_NOT_SYNCED)
        # one that is still gone is found by every discovery
        .exclude(Q(source_table__status=VANISHED) & Exists(told))
    )
    for pipeline in pipelines.select_related("source_table__database__datasource"):
        source_compared(pipeline)


def source_compared(pipeline: Pipeline) -> None:
    """One alert over what somebody has to decide about a table's columns, or should
    know of them."""
    lake_table = pipeline.lake_table_id
    if lake_table is None:
        return
    trouble = _about_columns(pipeline)
    if trouble is not None:
        store.open_alert(lake_table, trouble)
    else:
        same = store.open_on(lake_table, {SCHEMA_CHANGE})
        store.close(same, reason="the source has the columns of the plan")


def _about_columns(pipeline: Pipeline) -> Trouble | None:
    source = pipeline.source_table
    name = f"{source.database.name}.{source.name}"
    changed = source_changed(pipeline, plan_from_json(pipeline.plan))
    if source.status == VANISHED and changed is not None:
        message = f"{name} was dropped at the source"
        return Trouble(
            SCHEMA_CHANGE, GONE, message, code=changed.code, hint=changed.hint
        )
    drift = drift_of(pipeline)
    if drift.is_open:
        return Trouble(
            SCHEMA_CHANGE,
            cause=source.schema_fingerprint,
            message=f"{name} changed at the source: {in_sentence(drift.to_approve)}",
            code="source_altered",
            hint=drift.impossible or APPROVE,
        )
    if partial := schema_diff.partial_columns(pipeline):
        return Trouble(
            SCHEMA_CHANGE,
            cause=",".join(sorted(partial)),
            message=earlier_in_words(partial),
            code="earlier_values_missing",
            hint="a re-sync brings them",
            repair="resync",
        )
    return None
