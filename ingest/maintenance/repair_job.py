"""A repair: the job that takes instants away, replaces file groups, or goes back."""

from __future__ import annotations

import functools
from dataclasses import replace

from django.db.models.functions import Now

from core.errors import SluiceError
from core.jobs import CANCELLING, moves
from core.jobs.moves import Cancelled, End, Facts, Failed, Retried, Succeeded
from core.models import Job
from core.sentences import Sentence
from ingest.contract.job import REPAIR, JobSpec, RepairWork
from ingest.contract.members import value_of
from ingest.jobs.kinds import (
    Attempt,
    DriverKind,
    Left,
    Refused,
    shared_by_all,
    source_spec,
)
from ingest.jobs.leases import hold_table
from ingest.lake.commits import Commit, LakeState, read_lake_table
from ingest.maintenance import repairs
from ingest.models import Pipeline
from ingest.pipelines import (
    compaction_plans,
    followers,
    schema_drift,
    shard_joins,
    transitions,
)
from ingest.pipelines.lake_identity import set_buckets
from ingest.pipelines.lake_reconcile import follow_lake, note_restored
from ingest.pipelines.load_job import FOLLOWER_SECONDS
from ingest.pipelines.log_tables import stream_of
from ingest.pipelines.table_job import (
    admitted,
    commit_of,
    facts_of,
    note_end,
    queue_again,
    span_of,
)
from ingest.planning.facts import LOG

JOIN = shard_joins.WORK.action
# Names of the shards that it reads.
JOINING = "joining"


def spec_for(job: Job) -> Attempt | Refused | None:
    """Return the next attempt. A rollback takes back a fence that no lease gave out."""
    if schema_drift.waits_for_look(job):
        return None
    pipeline = admitted(job, transitions.lock_pipeline(job))
    if isinstance(pipeline, Refused):
        return pipeline
    work = value_of(RepairWork, job.payload["repair"])
    if work.action == JOIN and pipeline.state not in shard_joins.STATES:
        return Refused(shard_joins.not_now(pipeline))
    source, stream = pipeline.source_table.database.datasource, ""
    if pipeline.capture == LOG:
        stream = stream_of(source.pk)
        why = followers.why_not_read(source) if work.action == JOIN else ""
        if why:
            moves.wait_on(job, reason=why, seconds=FOLLOWER_SECONDS)
            return None
    hold = hold_table(job, pipeline, takes_back=work.action == "rollback")
    if hold is None:
        return None
    # a former attempt may have changed what the plan says
    follow_lake(pipeline)
    spec = JobSpec(
        **shared_by_all(job, pipeline, hold.fence),
        source=source_spec(source),
        repair=replace(
            work,
            stream=stream,
            verification=str(pipeline.verified_job or ""),
            shards=_joining(job, pipeline) if work.action == JOIN else (),
        ),
    )
    return Attempt(spec, hold)


def _joining(job: Job, pipeline: Pipeline) -> tuple[str, ...]:
    """The same in all attempts: what one has committed before it died are these."""
    if JOINING not in job.payload:
        names = [one.name for one in shard_joins.unread(pipeline)]
        job.payload = job.payload | {JOINING: names}
        Job.objects.filter(pk=job.pk).update(payload=job.payload)
    return tuple(job.payload[JOINING])


def _revive(job: Job, pipeline: Pipeline, actor: str) -> None:
    repairs.require_worth_repeating(job, pipeline)


def outcome(job: Job, end: End) -> None:
    """What the end of a repair means for its table. However it ended, it may have ended
    behind its commit."""
    pipeline = transitions.lock_pipeline(job)
    if isinstance(end, Succeeded):
        _note_success(job, pipeline, end.facts)
    note_end(job, end, is_synced=pipeline is not None)
    has_run = isinstance(end, Failed | Retried) or (
        isinstance(end, Cancelled) and end.facts is not None
    )
    if has_run and pipeline is not None:
        follow_lake(pipeline)
        done = None if isinstance(end, Retried) else _committed(job, pipeline)
        if done is not None:
            _note_rows(job, pipeline, instant=done.instant.asked)


def _note_success(job: Job, pipeline: Pipeline | None, facts: Facts) -> None:
    table_id = int(job.payload["table"])
    rolled_back = [str(i) for i in facts.get("rolled_back", ())]
    compaction_plans.roll_back(table_id, rolled_back)
    unscheduled = [str(i) for i in facts.get("unscheduled", ())]
    compaction_plans.unschedule(table_id, unscheduled)
    if pipeline is None:
        return
    if facts.get("buckets"):
        why = Sentence("resized, or gone back to it")
        set_buckets(pipeline, int(facts["buckets"]), why=why)
    if facts.get("restored"):
        note_restored(pipeline, facts)
    if _is_of_rows(job):
        _note_rows(job, pipeline, instant=str(facts.get("instant") or ""))
    if facts.get("instant") and not facts.get("restored"):
        # the same rows once, at the same position
        instant = str(facts["instant"])
        transitions.show(pipeline, last_commit_instant=instant, last_commit_at=Now())


def _note_rows(job: Job, pipeline: Pipeline, *, instant: str) -> None:
    """Rows of the source were written."""
    transitions.forget_verification(pipeline)
    if job.payload["repair"]["action"] != JOIN:
        return
    names = job.payload.get(JOINING, ())
    shard_joins.note_read(pipeline, names, instant=instant)
    if shard_joins.unread(pipeline):
        # they came while it ran
        shard_joins.queue(pipeline, actor=job.requested_by)


def _is_of_rows(job: Job) -> bool:
    return bool(job.payload["repair"]["action"] in {"repair", JOIN})


def _committed(job: Job, pipeline: Pipeline) -> Commit | None:
    """The rows of the source that it wrote, whatever came behind that commit."""
    if not _is_of_rows(job) or pipeline.lake_table is None:
        return None
    try:
        state = read_lake_table(pipeline.lake_table.path)
    except SluiceError:
        return None
    return commit_of(job, state)


def left_by(job: Job, state: LakeState) -> Left:
    """What a lost attempt has committed. It ends with a comparison of its rows, which
    the next attempt makes; one that was to be cancelled has none."""
    commit = commit_of(job, state)
    if commit is None or commit.position is None:
        return Left()
    facts = facts_of(commit, state) | {
        "position": span_of(commit),
        "buckets": commit.position.identity.buckets,
    }
    if _is_of_rows(job):
        counted = {"written": commit.rows_written, "deleted": commit.rows_deleted}
        facts |= {"action": job.payload["repair"]["action"]} | counted
    return Left(facts, is_done=job.state == CANCELLING)


# Nothing else writes to the table. Hudi believes in a dead writer for half a minute, so
# it is tried more often.
KIND = DriverKind(
    name=REPAIR,
    title="repair",
    lane="maintenance",
    scopes=("write", "service"),
    max_attempts=6,
    spec_for=spec_for,
    outcome=outcome,
    left_by=left_by,
    again=functools.partial(queue_again, revive=_revive),
    about=repairs.named,
)
