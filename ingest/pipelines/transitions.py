"""A table on its way: moves of its onboarding row, and what the lake table shows.

Every move goes through `move()`, so that the state a person sees on the table is
the state of the row. It must not know reports or drivers.
"""

from __future__ import annotations

from functools import cache

from django.db import transaction

from catalog.compiled import CompiledQuery
from catalog.models import Table
from core.advance import advance
from core.clock import SystemClock
from core.errors import InvalidRequest, SluiceError
from core.models import Job
from ingest.alerts import lag, triggers
from ingest.jobs.kinds import LOADS, RESYNC, ROUND, SNAPSHOT
from ingest.maintenance.due import note_change
from ingest.maintenance.score import STOPPED
from ingest.models import TableOnboarding
from ingest.models.states import (
    APPROVED,
    CATCHING_UP,
    FAILED,
    LIVE,
    LOADED,
    NEEDS_RESYNC,
    ONBOARDING,
    PAUSED,
    RESYNCING,
    RETIRED,
    SNAPSHOTTING,
)
from ingest.pipelines.schema_diff import source_changed
from ingest.planning.plan import plan_from_json
from ingest.policies.store import policy_of

# Where a pause or a failure goes on later, by the state it happened in.
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
_RUNS_IN = {
    SNAPSHOT: frozenset({APPROVED, SNAPSHOTTING}),
    RESYNC: frozenset({RESYNCING}),
    ROUND: LOADED,
}


def feed_of(table_id: int) -> TableOnboarding | None:
    """The onboarding that carries this lake table now, if one does."""
    return _carrying().first(table_id)


@cache
def _carrying() -> CompiledQuery[TableOnboarding]:
    """By lake table; each claim and each end of a job reads it."""
    rows = TableOnboarding.objects.filter(lake_table_id=_ANY).exclude(state=RETIRED)
    related = ("lake_table__database__datasource", "source_table__database__datasource")
    return CompiledQuery(rows.select_related(*related).order_by("-id")[:1], [_ANY])


def require_feed(table: Table) -> TableOnboarding:
    """The same; InvalidRequest when nobody carries it."""
    feed = feed_of(table.pk)
    if feed is None:
        raise InvalidRequest(
            f"{table} is not carried by an onboarding",
            code="not_onboarded",
            hint="give the name of its lake table, or onboard it first",
        )
    return feed


def locked_feed(table: Table) -> TableOnboarding:
    """The onboarding of a lake table, locked; InvalidRequest when it has none."""
    feed = require_feed(table)
    TableOnboarding.objects.select_for_update().get(pk=feed.pk)
    feed.refresh_from_db()
    return feed


def lock_feed(job: Job) -> TableOnboarding | None:
    """The row a job works for, locked: moves of one table never overlap."""
    found = feed_of(int(job.payload["table"]))
    if found is None:
        return None
    # a discovery may have changed these since the row was read
    state, found.policy, found.plan, found.drift = (
        TableOnboarding.objects.select_for_update()
        .filter(pk=found.pk)
        .values_list("state", "policy", "plan", "drift")
        .get()
    )
    if state != found.state:
        found.refresh_from_db(
            fields=["state", "resume_event", "position", "load_epoch"]
        )
    return found


def move(
    feed: TableOnboarding,
    event: str,
    *,
    reason: str = "",
    actor: str = "",
    **changes: object,
) -> None:
    """Advance the row and show its new state on the lake table, together."""
    before = feed.state
    with transaction.atomic():
        advance(
            feed, event, actor=actor, reason=reason, status_reason=reason, **changes
        )
        show(feed)
        if feed.lake_table_id and {before, feed.state} & set(STOPPED):
            # its score says so
            note_change(feed.lake_table_id)
        _note_for_alerts(feed, event)


def _note_for_alerts(feed: TableOnboarding, event: str) -> None:
    if feed.lake_table_id is None:
        return
    if event == "pause":
        triggers.table_paused(feed.lake_table_id)
    elif event in {"remove", "retire"}:
        triggers.table_removed(feed.lake_table_id)
    elif event == "resume_catch_up" and feed.capture != "snapshot":
        # it gets the time of one round to come back
        owing = lag.owing(policy_of(feed), SystemClock().now())
        TableOnboarding.objects.filter(pk=feed.pk).update(**owing)
        feed.late_at = owing["late_at"]


def stop(feed: TableOnboarding, event: str, *, reason: str, actor: str = "") -> None:
    """Pause or fail, remembering where it goes on. A stopped row only says why."""
    if not ONBOARDING.is_legal(feed.state, event):
        say(feed, reason)
        return
    resume = RESUME.get(feed.state, feed.resume_event)
    move(feed, event, reason=reason, actor=actor, resume_event=resume, due_at=None)


def say(feed: TableOnboarding, reason: str) -> None:
    """Change only the sentence that people see."""
    if feed.status_reason != reason:
        TableOnboarding.objects.filter(pk=feed.pk).update(status_reason=reason)
        feed.status_reason = reason
        show(feed)


def run_alone(feed: TableOnboarding, why: str) -> None:
    """From now on its jobs get processes of their own: what ends those ends nothing
    of other tables."""
    if feed.alone_reason:
        return
    TableOnboarding.objects.filter(pk=feed.pk).update(alone_reason=why)
    feed.alone_reason = why


def show(feed: TableOnboarding, **changes: object) -> None:
    """Copy state and reason to the lake table; `changes` are further columns."""
    if feed.lake_table_id is None:
        return
    Table.objects.filter(pk=feed.lake_table_id).update(
        status=feed.state, status_reason=feed.status_reason, **changes
    )


def why_refused(job: Job, feed: TableOnboarding | None) -> SluiceError | None:
    """Why this job can no longer run, or None. Asked right before each attempt."""
    if feed is None:
        return InvalidRequest(
            f"{job.subject} is no longer onboarded",
            code="not_onboarded",
            hint="onboard the table again if it shall be carried",
        )
    expected = _RUNS_IN.get(job.kind)
    if expected is not None and feed.state not in expected:
        return InvalidRequest(
            f"{job.subject} is {feed.state}: a {job.kind} does not run now",
            code="not_now",
            hint="resume the table first" if feed.state in {PAUSED, FAILED} else "",
        )
    if job.kind in LOADS:
        return source_changed(feed, plan_from_json(feed.plan))
    return None


def note_claimed(job: Job, feed: TableOnboarding) -> None:
    """A load that may run now shows as one."""
    if job.kind == SNAPSHOT and feed.state == APPROVED:
        move(feed, "start_snapshot")
