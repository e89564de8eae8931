"""What domain events mean for alerts, which read the outbox.

What an event reports is in it; of columns, the present state counts. An alert that it
opens has the moment of the event, and ends none that time brought about since.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from django.db.models import Exists, OuterRef, Q

from catalog.discovery.store import VANISHED
from core import outbox_reader
from core.models import Job
from core.outbox_reader import Event
from core.sentences import Sentence, restored
from ingest.alerts import store
from ingest.alerts.rules import (
    APPLY,
    FAILED,
    LATE,
    MISMATCH,
    SCHEMA_CHANGE,
    STUCK,
    Finding,
    failure_of,
    stuck_finding,
)
from ingest.contract.applying import ENDED_BY_LOADS
from ingest.contract.job import LOADS, RESYNC, VERIFY
from ingest.models import Pipeline
from ingest.models.alerts import SOURCE_KINDS, Alert
from ingest.models.states import DISCOVERED, DRAFT, NEEDS_RESYNC, PROPOSED, RETIRED
from ingest.pipelines import needed_resync, schema_diff, shards
from ingest.pipelines.schema_diff import (
    APPROVE,
    describe_earlier,
    drift_of,
    source_changed,
)
from ingest.pipelines.shard_matters import ShardMatter, matters_of
from ingest.pipelines.table_status import SYNCS_BEFORE_FAILING
from ingest.planning.facts import LOG
from ingest.planning.plan import plan_from_json

GONE = "gone"
_NEEDED = "needs_resync"
_NOT_SYNCED = (DRAFT, DISCOVERED, PROPOSED, RETIRED)


def read_events() -> int:
    """Open and close alerts by what happened since; how many events were read."""
    return outbox_reader.read(HANDLERS)


def job_failed(event: Event) -> None:
    """failures  how many syncs failed in a row, when this one is tried again later"""
    data = event.data
    if 0 < data["failures"] < SYNCS_BEFORE_FAILING:
        return
    trouble = Finding(
        FAILED,
        cause=f"{event.subject_id}:{data['attempts']}",
        message=failure_of(data["kind"], restored(data["message"])),
        code=data["code"],
        hint=restored(data["hint"]),
        source=data["kind"],
        job=event.subject_id,
    )
    store.open_alert(data["table"], trouble, at=event.at)


def job_succeeded(event: Event) -> None:
    table_id, kind = event.data["table"], event.data["kind"]
    verdict = event.data.get("verdict")
    recovered: set[str] = set()
    if kind == VERIFY and verdict == "different":
        store.open_alert(table_id, _mismatch(event), at=event.at)
    elif kind == RESYNC or verdict == "equal" or event.data.get("action") == "repair":
        recovered.add(MISMATCH)
    if event.data["caught_up"]:
        recovered.add(LATE)
    if kind in LOADS:
        _compare(Q(source_table__outgoing_pipelines__lake_table=table_id))
    store.note_success(table_id, kind, recovered=recovered, at=event.at)


def _mismatch(event: Event) -> Finding:
    """Without keys: they are values of rows, and alerts go to people without grants."""
    report = Job.objects.filter(pk=event.subject_id).values_list("report", flat=True)
    facts = (report.first() or {}).get("facts", {})
    found = str(facts.get("summary") or "")
    return Finding(
        MISMATCH,
        cause=event.subject_id,
        message=Sentence("a verification found differences. %(found)s", found=found)
        if found
        else "a verification found differences.",
        code="differs_from_source",
        hint="the job lists keys; a repair reads the rows that differ again"
        if facts.get("repair")
        else "the job lists keys; a resync makes the table equal to its source",
        repair="repair" if facts.get("repair") else "resync",
        job=event.subject_id,
    )


def apply_failed(event: Event) -> None:
    """A session could not apply what the source's log has for the table."""
    data = event.data
    trouble = Finding(
        FAILED,
        cause=f"{APPLY}:{data['code']}",
        message=Sentence(
            "its changes cannot be applied: %(why)s", why=restored(data["message"])
        ),
        code=data["code"],
        hint=restored(data["hint"]),
        repair="resync" if data["code"] in ENDED_BY_LOADS else "",
        source=APPLY,
    )
    store.open_alert(data["table"], trouble, at=event.at)


def apply_succeeded(event: Event) -> None:
    recovered = {LATE} if event.data["caught_up"] else set()
    table_id = event.data["table"]
    store.note_success(table_id, APPLY, recovered=recovered, at=event.at)


def health_changed(event: Event) -> None:
    """What stands still or is broken on the table, by the look that was made then."""
    table_id = int(event.subject_id)
    trouble = stuck_finding(event.data["issues"])
    if trouble is not None:
        store.open_alert(table_id, trouble, at=event.at)
    else:
        stuck = store.open_on(table_id, {STUCK}).filter(first_seen_at__lte=event.at)
        store.close(stuck, reason="nothing is stuck or broken")


def pipeline_moved(event: Event) -> None:
    """A paused table is not expected to keep up, and a removed one has no alerts."""
    table_id = event.data["table"]
    if table_id is None:
        return
    if event.data["event"] == "pause":
        late = store.open_on(table_id, {LATE}).filter(first_seen_at__lte=event.at)
        store.close(late, because=store.PAUSED, reason="the table was paused")
    elif event.data["event"] == "lose_position":
        _open_needed(table_id, event)
    elif event.data["event"] in {"remove", "retire"}:
        # its row, and so the alert's pointer to it, may be gone by now
        rows = Alert.objects.filter(Q(table=table_id) | Q(table=None), closed_at=None)
        rows = rows.exclude(kind__in=SOURCE_KINDS)
        store.close(rows, because=store.REMOVED, reason="the table is no longer synced")


def _open_needed(table_id: int, event: Event) -> None:
    """Whoever noticed it of a table that follows a log, where no job fails by it."""
    rows = Pipeline.objects.filter(pk=event.subject_id, state=NEEDS_RESYNC)
    pipeline = rows.filter(capture=LOG).first()
    if pipeline is None:
        return
    trouble = Finding(
        FAILED,
        cause=_NEEDED,
        message=Sentence("it needs a resync: %(why)s", why=pipeline.status_reason),
        code=_NEEDED,
        source=RESYNC,
        **_what_helps(pipeline),
    )
    store.open_alert(table_id, trouble, at=event.at)


def _what_helps(pipeline: Pipeline) -> dict[str, str]:
    """Of one that needs a resync: hint and repair."""
    if schema_diff.is_dropped(pipeline):
        hint = Sentence(
            "its source table was dropped: remove the table here, or restore it at the"
            " source, discover again and resync the table"
        )
        return {"hint": hint, "repair": "remove"}
    hint = Sentence(
        "resync the table: readers keep the present copy until then; its settings"
        " can let resyncs start automatically"
    )
    return {"hint": hint, "repair": "resync"}


def policy_changed(event: Event) -> None:
    """From then on the table is brought up to date when somebody asks."""
    if not event.data["has_schedule"]:
        late = store.open_on(event.data["table"], {LATE})
        store.close(
            late.filter(first_seen_at__lte=event.at),
            reason="the table has no schedule any more",
        )


def source_compared(event: Event) -> None:
    _compare(Q(pk=event.subject_id))


HANDLERS: Mapping[str, Callable[[Event], None]] = {
    "job.failed": job_failed,
    "job.succeeded": job_succeeded,
    "apply.failed": apply_failed,
    "apply.succeeded": apply_succeeded,
    "health.changed": health_changed,
    "pipeline.moved": pipeline_moved,
    "policy.changed": policy_changed,
    "source.compared": source_compared,
}


def _compare(which: Q) -> None:
    """One alert over what somebody has to decide about a table's columns, or should
    know of them."""
    told = Alert.objects.filter(
        table=OuterRef("lake_table"), kind=SCHEMA_CHANGE, closed_at=None, cause=GONE
    )
    pipelines = (
        Pipeline.objects.filter(which)
        .exclude(lake_table=None)
        .exclude(state__in=_NOT_SYNCED)
        # one that is still gone is found by every discovery
        .exclude(Q(source_table__status=VANISHED) & Exists(told))
    )
    for pipeline in pipelines.select_related("source_table__database__datasource"):
        _open_or_close(pipeline)


def _open_or_close(pipeline: Pipeline) -> None:
    lake_table = pipeline.lake_table_id
    if lake_table is None:
        return
    needed = store.open_on(lake_table, {FAILED}).filter(code=_NEEDED)
    needed.update(**_what_helps(pipeline))
    trouble = _about_columns(pipeline)
    if trouble is not None:
        store.open_alert(lake_table, trouble)
    else:
        same = store.open_on(lake_table, {SCHEMA_CHANGE})
        store.close(same, reason="the source has the columns of the plan")


def _of_shards(matter: ShardMatter) -> Finding:
    return Finding(
        SCHEMA_CHANGE,
        cause=f"{matter.code}:{len(matter.names)}:{matter.names[0]}",
        message=matter.message,
        code=matter.code,
        hint=matter.hint,
        repair=matter.repair,
    )


def _about_columns(pipeline: Pipeline) -> Finding | None:
    plan = plan_from_json(pipeline.plan)
    source, name = shards.source_side(pipeline), plan.source
    if source.gone and (gone := source_changed(pipeline, plan)):
        message = Sentence("%(name)s was dropped at the source", name=source.gone[0])
        repair = "resync" if shards.is_sharded(pipeline) else "remove"
        return Finding(
            SCHEMA_CHANGE, GONE, message, gone.code, hint=gone.hint, repair=repair
        )
    if matter := next(matters_of(pipeline), None):
        return _of_shards(matter)
    drift = drift_of(pipeline, plan)
    if drift.is_open:
        return Finding(
            SCHEMA_CHANGE,
            cause=source.fingerprint,
            message=Sentence(
                "%(name)s changed at the source: %(changes)s",
                name=name,
                changes=schema_diff.describe(drift),
            ),
            code="source_altered",
            hint=drift.impossible or APPROVE,
            repair="" if drift.impossible else "approve-schema-change",
        )
    altered = needed_resync.altered(pipeline)
    if not altered and shards.is_sharded(pipeline):
        # a list of shards that no load has read yet
        altered = needed_resync.why_needed(pipeline)
    if altered:
        return Finding(
            SCHEMA_CHANGE,
            cause="resync_needed",
            message=altered,
            code="resync_needed",
            hint="resync the table: readers keep the present copy until then",
            repair="resync",
        )
    if partial := schema_diff.partial_columns(pipeline):
        return Finding(
            SCHEMA_CHANGE,
            cause=",".join(sorted(partial)),
            message=describe_earlier(partial),
            code="earlier_values_missing",
            hint="a resync brings them",
            repair="resync",
        )
    return None
