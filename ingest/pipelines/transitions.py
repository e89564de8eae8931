"""A table on its way: moves of its onboarding row, and what the lake table shows.

Every move goes through `move()`, so that the state a person sees on the table is
the state of the row. For all that end a table's job: the domain events that say what
the end meant, and the table's next look. It must not know reports or drivers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from functools import cache
from typing import Any

from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Greatest, Now
from django.utils import timezone

from catalog.compiled import AnyRow, CompiledQuery
from catalog.models import Table
from core import outbox
from core.advance import advance, advance_all
from core.errors import InvalidRequest, SluiceError
from core.models import Job
from core.outbox import NewEvent
from core.sentences import stored
from ingest.models import Pipeline, TableHealth
from ingest.models.states import (
    APPROVED,
    CATCHING_UP,
    HALTED,
    LIVE,
    LOADED,
    NEEDS_RESYNC,
    PIPELINE,
    RESYNCING,
    RETIRED,
    SNAPSHOTTING,
)
from ingest.pipelines import needed_resync
from ingest.pipelines.followers import wake_followers
from ingest.pipelines.policies.policy import owing
from ingest.pipelines.policies.store import policy_of
from ingest.planning.facts import LOG

# Where a pause or a failure goes on later, by the state it happened in. One that needs
# a re-sync goes on to where it is asked for, see `move`.
RESUME = {
    APPROVED: "resume_approved",
    SNAPSHOTTING: "resume_snapshot",
    CATCHING_UP: "resume_catch_up",
    LIVE: "resume_catch_up",
    NEEDS_RESYNC: "resume_catch_up",
    RESYNCING: "resume_resync",
}
# stands for the id of any table
_ANY = -1


def pipeline_of(table_id: int) -> Pipeline | None:
    """The onboarding that carries this lake table now, if one does."""
    return _carrying().first(table_id)


@cache
def _carrying() -> CompiledQuery[Pipeline]:
    """By lake table; each claim and each end of a job reads it."""
    rows = Pipeline.objects.filter(lake_table_id=_ANY).exclude(state=RETIRED)
    related = ("lake_table__database__datasource", "source_table__database__datasource")
    return CompiledQuery(rows.select_related(*related).order_by("-id")[:1], [_ANY])


def require_pipeline(table: Table) -> Pipeline:
    """The same; InvalidRequest when nobody carries it."""
    pipeline = pipeline_of(table.pk)
    if pipeline is None:
        raise InvalidRequest(
            "%(table)s has no pipeline",
            table=table,
            code="not_onboarded",
            hint="give the name of its lake table, or onboard it first",
        )
    return pipeline


def locked_pipeline(table: Table) -> Pipeline:
    """The onboarding of a lake table, locked; InvalidRequest when it has none."""
    pipeline = require_pipeline(table)
    Pipeline.objects.select_for_update().get(pk=pipeline.pk)
    pipeline.refresh_from_db()
    return pipeline


def lock_pipeline(job: Job) -> Pipeline | None:
    """The row a job works for, locked: moves of one table never overlap."""
    found = pipeline_of(int(job.payload["table"]))
    if found is None:
        return None
    # a discovery may have changed these since the row was read
    state, found.policy, found.plan, found.drift = (
        Pipeline.objects.select_for_update()
        .filter(pk=found.pk)
        .values_list("state", "policy", "plan", "drift")
        .get()
    )
    if state != found.state:
        found.refresh_from_db(
            fields=[
                "state",
                "resume_event",
                "position",
                "bound",
                "load_name",
            ]
        )
    return found


def move(
    pipeline: Pipeline,
    event: str,
    *,
    reason: str = "",
    actor: str = "",
    **changes: object,
) -> None:
    """Advance the row and show its new state on the lake table, together.

    One that needs a re-sync needs it wherever it goes, until a load is committed.
    """
    before = pipeline.state
    why = needed_resync.why_needed(pipeline)
    if why and event == "resume_catch_up":
        event, reason = "resume_needs_resync", why
        changes["due_at"] = None
    with transaction.atomic():
        advance(
            pipeline, event, actor=actor, reason=reason, status_reason=reason, **changes
        )
        show(pipeline)
        if pipeline.capture == LOG:
            wake_followers()
        if pipeline.lake_table_id and {before, pipeline.state} & HALTED:
            # its score says so
            note_change(pipeline.lake_table_id)
        _note_owed(pipeline, event)


def catch_up_all(pipelines: Sequence[Pipeline]) -> None:
    """The same for many that have caught up, in a few statements; all or none."""
    with transaction.atomic():
        advance_all(pipelines, "catch_up", status_reason="")
        tables = [pk for each in pipelines if (pk := each.lake_table_id)]
        rows = Table.objects.filter(pk__in=tables)
        rows.update(status=LIVE, status_reason="")


def _note_owed(pipeline: Pipeline, event: str) -> None:
    """One that goes on gets the time of one sync to come back."""
    if event != "resume_catch_up" or pipeline.capture == "snapshot":
        return
    if pipeline.lake_table_id is not None:
        policy, now = policy_of(pipeline), timezone.now()
        changes = owing(policy, now, capture=pipeline.capture)
        Pipeline.objects.filter(pk=pipeline.pk).update(**changes)
        pipeline.late_at = changes["late_at"]


def lose_position(pipeline: Pipeline, *, reason: str, actor: str = "") -> None:
    """It needs a re-sync: now, or when it is resumed."""
    needed_resync.note_needed(pipeline, why=reason)
    if pipeline.state in LOADED:
        move(pipeline, "lose_position", reason=reason, actor=actor, due_at=None)
    else:
        say(pipeline, reason)


def stop(pipeline: Pipeline, event: str, *, reason: str, actor: str = "") -> None:
    """Pause or fail, remembering where it goes on. A stopped row only says why."""
    if not PIPELINE.is_legal(pipeline.state, event):
        say(pipeline, reason)
        return
    resume = RESUME.get(pipeline.state, pipeline.resume_event)
    move(pipeline, event, reason=reason, actor=actor, resume_event=resume, due_at=None)


def say(pipeline: Pipeline, reason: str) -> None:
    """Change only the sentence that people see."""
    if pipeline.status_reason != reason:
        Pipeline.objects.filter(pk=pipeline.pk).update(status_reason=reason)
        pipeline.status_reason = reason
        show(pipeline)


def set_columns(pipeline: Pipeline, **changes: Any) -> None:
    """Change what is no state, on the row and in memory."""
    Pipeline.objects.filter(pk=pipeline.pk).update(**changes)
    for name, value in changes.items():
        setattr(pipeline, name, value)


def commit_columns(
    facts: Mapping[str, Any], *, position: str, epoch: Any
) -> dict[str, Any]:
    """What a lake table shows of its last commit."""
    return {
        "last_commit_instant": str(facts.get("instant") or ""),
        "last_commit_position": {"to": position},
        "last_commit_epoch": epoch,
        "last_commit_at": Now(),
    }


def show(pipeline: Pipeline, **changes: object) -> None:
    """Copy state and reason to the lake table; `changes` are further columns."""
    if pipeline.lake_table_id is None:
        return
    Table.objects.filter(pk=pipeline.lake_table_id).update(
        status=pipeline.state, status_reason=pipeline.status_reason, **changes
    )


# a table that commits all the time is not looked at all the time
AT_MOST_EVERY = timedelta(seconds=15)


def forget_verification(pipeline: Pipeline) -> None:
    """Rows were written from the source anew: the next verification is due, what the
    last one found is void."""
    Pipeline.objects.filter(pk=pipeline.pk).update(
        verify_at=timezone.now(), verified_at=None, verdict="", verified_job=None
    )


def report_success(job: Job, facts: Mapping[str, Any], *, has_caught_up: bool) -> None:
    """One statement, whether it committed or not."""
    data: dict[str, Any] = _about(job) | {"caught_up": has_caught_up}
    data |= {name: facts[name] for name in ("verdict", "action") if name in facts}
    outbox.append(NewEvent("job.succeeded", "job", str(job.pk), data))


def report_failure(job: Job, error: SluiceError, *, failures: int = 0) -> None:
    """failures  how many syncs failed in a row, when this one is tried again later"""
    data = _about(job) | {
        "attempts": job.attempts,
        "failures": failures,
        "code": error.code,
        "message": stored(error.message),
        "hint": stored(error.hint),
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
    soon = timezone.now()
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
