"""What happens to a table whose source table has other columns now: it follows them,
waits for a decision, or goes on as before.

Called where a discovery has written what it saw, and before a job of the table begins.
A job that meets a change first has the table looked at once more, then tries again.
Must not know REST or drivers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from catalog.models import Table
from core.errors import SluiceError, TransientError
from core.jobs import TERMINAL, WAITING
from core.jobs.moves import wait_on
from core.models import Job
from core.sentences import Sentence, says
from ingest.contract.job import RESYNC, SNAPSHOT
from ingest.jobs.queue import new_job, put
from ingest.models import Pipeline
from ingest.models.states import (
    APPROVED,
    CATCHING_UP,
    DISCOVERED,
    DRAFT,
    LIVE,
    LOADED,
    LOADING,
    PAUSED,
    PROPOSED,
    REMOVING,
    RESYNCING,
    RETIRED,
    SNAPSHOTTING,
)
from ingest.pipelines import needed_resync, schema_diff, shards, transitions
from ingest.pipelines.schema_diff import drift_of
from ingest.planning.drift import SchemaDrift
from ingest.planning.facts import LOG, TIMESTAMP
from ingest.planning.plan import CreateTable, plan_from_json

ACTOR = "schema policy"
# By these a driver says that the source has other columns or another key than planned.
ABOUT_COLUMNS = frozenset({"columns_added", "source_changed", "key_not_guaranteed"})
# A job that ends with one of these waits for a decision, it did not fail.
UNDECIDED = frozenset({"source_changed", "source_altered"})
_WITHOUT_PLAN = (DRAFT, DISCOVERED, PROPOSED, REMOVING, RETIRED)
_PAUSES = frozenset({LIVE, CATCHING_UP, APPROVED})
# The job without which a table in such a state stands still.
_LOAD = {APPROVED: SNAPSHOT, SNAPSHOTTING: SNAPSHOT, RESYNCING: RESYNC}
LOOK_SECONDS = 1.0
# In a job's payload: the discovery of the tables that are one lake table.
_SHARDS = "discovery"
# Of a table whose rows wait for columns that its plan does not have.
READ = "%(error)s; its columns are read"
NOT_ALL = "%(error)s; not all of its tables at the source are so yet"
NOT_TOLD = "%(error)s; the follower of the source's log has not come to it yet"
WAITED = READ, NOT_ALL, NOT_TOLD
_WAITS = "the source table changed and waits for a decision: %(changes)s"


def sources_altered(tables: QuerySet[Table]) -> None:
    """Discovery found other columns in these source tables than before."""
    rows = (
        Pipeline.objects.select_for_update(of=("self",))
        .filter(shards.of_tables(tables))
        .exclude(lake_table=None)
        .exclude(state__in=_WITHOUT_PLAN)
        .select_related("source_table__database__datasource", "lake_table__database")
        .order_by("pk")
    )
    for pipeline in rows:
        settle(pipeline)


def settle(pipeline: Pipeline) -> None:
    """Follow what the policy lets it, pause for what a user has to approve, and go on
    when nothing is left to decide: to a re-sync where values may have changed. The row
    must be locked."""
    drift = drift_of(pipeline)
    if drift.followed:
        schema_diff.take_over(pipeline, drift.followed, is_followed=True)
        if says(pipeline.status_reason, *WAITED):
            transitions.say(pipeline, "")
        schema_diff.report_compared([pipeline])
    if pipeline.capture == LOG:
        schema_diff.note_left_out(pipeline)
    if drift.blocking:
        needed_resync.note_seen(pipeline, drift.altering)
        pause(pipeline, why_paused(drift))
        return
    # a load that runs may have read either values: what it leaves is decided after it
    if pipeline.state not in LOADING and needed_resync.decide(pipeline):
        schema_diff.report_compared([pipeline])
    is_undecided = says(pipeline.status_reason, _WAITS)
    if pipeline.state == PAUSED and is_undecided:
        due = timezone.now() if pipeline.capture == TIMESTAMP else None
        event = pipeline.resume_event or "resume_catch_up"
        transitions.move(pipeline, event, actor=ACTOR, resume_event="", due_at=due)
        if kind := _LOAD.get(pipeline.state):
            put([new_job(pipeline, kind, actor=ACTOR)])
    elif pipeline.state in LOADED and (why := needed_resync.why_needed(pipeline)):
        transitions.lose_position(pipeline, reason=why, actor=ACTOR)


def pause(pipeline: Pipeline, reason: str) -> None:
    """Where no job reads it now; a running load or sync finds out on its own. A table
    that is loaded once has nothing to stop."""
    if pipeline.state in _PAUSES and pipeline.capture != "snapshot":
        transitions.stop(pipeline, "pause", reason=reason, actor=ACTOR)


def why_paused(drift: SchemaDrift) -> str:
    return Sentence(_WAITS, changes=schema_diff.describe(drift))


# ------------------------------------------------------------------------- its jobs


def lock_settled(job: Job) -> Pipeline | None:
    """The row a job works for, locked, by what the catalogue knows of the source now.
    A change of the policy, too, takes effect here."""
    pipeline = transitions.lock_pipeline(job)
    if pipeline is not None:
        settle(pipeline)
    return pipeline


def looked_first(job: Job, pipeline: Pipeline, error: SluiceError) -> SluiceError:
    """The error, or a transient one while the table's columns are read again: what a
    driver met may be nothing but what the policy follows. Once for each job."""
    if error.code not in ABOUT_COLUMNS or "look" in job.payload:
        return error
    look = shards.look_at(pipeline, by=ACTOR)
    job.payload = job.payload | {"look": str(look.pk)}
    Job.objects.filter(pk=job.pk).update(payload=job.payload)
    job.max_attempts += 1
    return TransientError(
        "%(error)s; its columns are read again",
        error=error.message,
        code=error.code,
    )


def waits_for_look(job: Job) -> bool:
    """Whether a look that this job had asked for has not ended; it waits then."""
    asked = [job.payload[name] for name in ("look", _SHARDS) if name in job.payload]
    if not any(map(_is_open, asked)):
        return False
    _wait(job)
    return True


def waits_for_shards(job: Job, pipeline: Pipeline) -> bool:
    """Whether a sharded one is discovered first: the last discovery may have seen one
    of its tables while it was away, or before it went."""
    if not shards.is_sharded(pipeline) or _SHARDS in job.payload:
        return False
    found = shards.discover(pipeline, by=ACTOR)
    if found.state in WAITING:  # else it may have read some before this was asked
        job.payload = job.payload | {_SHARDS: str(found.pk)}
        Job.objects.filter(pk=job.pk).update(payload=job.payload)
    _wait(job)
    return True


def _wait(job: Job) -> None:
    reason = "waiting until the columns at the source are read again"
    wait_on(job, reason=reason, seconds=LOOK_SECONDS)


def _is_open(job_id: str) -> bool:
    rows = Job.objects.filter(pk=job_id).exclude(state__in=sorted(TERMINAL))
    return rows.exists()


def met_unknown(job: Job, pipeline: Pipeline, names: Iterable[str]) -> None:
    """A sync went on beside columns that the catalogue does not have: they are looked
    for once, and stop no later sync."""
    schema_diff.note_unseen(pipeline, names)
    if "look" not in job.payload:
        shards.look_at(pipeline, by=ACTOR)


def sync_facts(job: Job, pipeline: Pipeline, *, follows: bool) -> dict[str, Any]:
    """What a sync has to know about columns that its spec does not read. follows:
    whether the policy takes over columns that are added."""
    create: CreateTable = plan_from_json(pipeline.plan).step(CreateTable)
    read = {column.source_name for column in create.columns}
    names = pipeline.source_table.columns.values_list("source_name", flat=True)
    return {
        "added": tuple(n for n in schema_diff.pending_columns(pipeline) if n in read),
        "known": (
            *(name for name in names if name not in read),
            *schema_diff.unseen_columns(pipeline),
        ),
        # the table was looked at for this job: what it still meets is left out
        "stops_at_new": follows and "look" not in job.payload,
    }


def ended_undecided(pipeline: Pipeline, error: SluiceError) -> bool:
    """Pause the table of a job that ended at a change that a user has to approve;
    False when the job ended for another reason."""
    if error.code not in UNDECIDED:
        return False
    drift = drift_of(pipeline)
    reason = why_paused(drift) if drift.blocking else error.as_sentence
    transitions.stop(pipeline, "pause", reason=reason, actor=ACTOR)
    return True
