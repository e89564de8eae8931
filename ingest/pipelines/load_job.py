"""Snapshot and resync: the jobs that copy a whole table from its source."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import uuid4

from django.utils import timezone
from django.utils.dateparse import parse_datetime

from catalog.models import Datasource
from catalog.sources.registry import kind_named
from core.errors import InvalidRequest, SluiceError
from core.jobs import moves
from core.jobs.moves import Cancelled, End, Facts, Failed, Rejected, Retried, Succeeded
from core.models import Job
from core.sentences import Sentence
from ingest.contract.job import (
    CUT_MISSING,
    RESYNC,
    SNAPSHOT,
    JobSpec,
    LogLoad,
    SnapshotWork,
)
from ingest.contract.members import value_of
from ingest.contract.table import ShardSpec
from ingest.jobs.kinds import (
    Attempt,
    DriverKind,
    Left,
    Refused,
    shared_by_all,
    source_spec,
)
from ingest.jobs.leases import hold_table
from ingest.jobs.queue import new_job, put
from ingest.lake.commits import LakeState
from ingest.models import Pipeline, states
from ingest.pipelines import (
    followers,
    log_tables,
    needed_resync,
    schema_diff,
    schema_drift,
    shard_joins,
    shards,
    transitions,
)
from ingest.pipelines.policies import store
from ingest.pipelines.policies.policy import owing
from ingest.pipelines.policies.store import policy_of
from ingest.pipelines.schema_diff import source_changed
from ingest.pipelines.table_job import (
    admitted,
    columns_of,
    commit_of,
    facts_of,
    has_columns,
    note_end,
    queue_again,
    require,
    resume_table,
    stop_table,
)
from ingest.planning.facts import LOG, TIMESTAMP
from ingest.planning.plan import ApplyChanges, CreateTable, plan_from_json

# What the lake knows its rows by is not what the source has now.
_LOST = frozenset({"source_recreated", "key_values_changed"})


# Of a table that goes over to its log: its plan as it was synced by a cursor.
FORMER_PLAN = "former_plan"

# A driver that waited for a follower would have a place that others want.
FOLLOWER_SECONDS = 5.0
LOOK_AGAIN = timedelta(minutes=10)
# In a job's payload: its last attempt ended because its follower had not begun.
_LACKS_CUT = "lacks_cut"

_RUNS_IN = {
    SNAPSHOT: frozenset({states.APPROVED, states.SNAPSHOTTING}),
    RESYNC: frozenset({states.RESYNCING}),
}

# -------------------------------------------------------------------------- start


def spec_for(job: Job) -> Attempt | Refused | None:
    """Return the next attempt: a copy of the whole table."""
    if schema_drift.waits_for_look(job):
        return None
    locked = schema_drift.lock_settled(job)
    # no attempt of this resync has begun to read
    if locked is not None and job.kind == RESYNC and not locked.load_name:
        if schema_drift.waits_for_shards(job, locked):
            return None
        try:
            shards.renew(locked)
        except InvalidRequest as error:
            return Refused(error)
    pipeline = _admitted(job, locked)
    if isinstance(pipeline, Refused):
        return pipeline
    source = pipeline.source_table.database.datasource
    log = _log_of(job, pipeline, source.pk) if pipeline.capture == LOG else None
    if log and (why := followers.why_not_read(source) or _awaits(job, source)):
        moves.wait_on(job, reason=why, seconds=FOLLOWER_SECONDS)
        return None
    hold = hold_table(job, pipeline)
    if hold is None:
        return None
    policy = policy_of(pipeline)
    spec = JobSpec(
        **shared_by_all(job, pipeline, hold.fence),
        source=source_spec(source),
        snapshot=SnapshotWork(
            lag_seconds=policy.lag_seconds,
            lag_is_chosen=policy.is_chosen("lag_seconds"),
            accept_empty=bool(job.payload.get("accept_empty")),
            log=log,
            load="" if log else _name_of(pipeline),
            behind=_cursor_of(job),
            position=pipeline.position if _cursor_of(job) else "",
        ),
    )
    if pipeline.state == states.APPROVED:
        transitions.move(pipeline, "start_snapshot")
    return Attempt(spec, hold)


def _awaits(job: Job, source: Datasource) -> str:
    """Why the follower cannot have begun with the table yet, where an attempt has
    waited for that in vain; "" = it may have: of one that is never level, too."""
    since = parse_datetime(job.handle.get("put_off_since", ""))
    is_long = since is not None and timezone.now() - since > LOOK_AGAIN
    if is_long or not job.payload.get(_LACKS_CUT):
        return ""
    return followers.how_far_behind(source)


def _admitted(job: Job, pipeline: Pipeline | None) -> Pipeline | Refused:
    found = admitted(job, pipeline, _RUNS_IN[job.kind])
    if isinstance(found, Refused):
        return found
    changed = source_changed(found, plan_from_json(found.plan))
    return Refused(changed) if changed else found


def _name_of(pipeline: Pipeline) -> str:
    """All attempts share one, because staged chunks survive them."""
    if not pipeline.load_name:
        transitions.set_columns(pipeline, load_name=uuid4().hex)
    return pipeline.load_name


def _log_of(job: Job, pipeline: Pipeline, source: int) -> LogLoad:
    """All attempts have one name, by which the follower marks their beginning; one that
    reads more columns than those before it begins anew, for rows behind their mark may
    lack these."""
    if not log_tables.is_loading(pipeline) or _reads_more(job, pipeline):
        transitions.set_columns(pipeline, load_name=uuid4().hex, bound="", lossy={})
    return LogLoad(log_tables.stream_of(source), pipeline.load_name)


def _reads_more(job: Job, pipeline: Pipeline) -> bool:
    """Than the last attempt under the load's name, of this job or one before it."""
    rows = Job.objects.filter(subject_id=job.subject_id, kind=job.kind)
    named = rows.filter(spec__snapshot__log__load=pipeline.load_name)
    last = named.order_by("-created_at").first()
    if last is None:
        return False
    read = {str(column["source_name"]) for column in columns_of(last)}
    create: CreateTable = plan_from_json(pipeline.plan).step(CreateTable)
    return not {column.source_name for column in create.columns} <= read


def _cursor_of(job: Job) -> str:
    """By which a table was synced that goes over to its log; "" = all is read."""
    former = job.payload.get(FORMER_PLAN)
    step: ApplyChanges | None = former and plan_from_json(former).step(ApplyChanges)
    return step.cursor if step else ""


def _revive(job: Job, pipeline: Pipeline, actor: str) -> None:
    # a table that goes on without its resync would not take it
    event = "resume_resync" if job.kind == RESYNC else pipeline.resume_event
    resume_table(pipeline, event, actor=actor)
    require(_admitted(job, pipeline))


# --------------------------------------------------------------------------- ends


def outcome(job: Job, end: End) -> None:
    """What the end of a load means for its table."""
    pipeline = transitions.lock_pipeline(job)
    if isinstance(end, Succeeded):
        _note_success(job, pipeline, end.facts)
    note_end(
        job, end, is_synced=pipeline is not None, has_caught_up=pipeline is not None
    )
    if isinstance(end, Retried):
        job.payload |= {_LACKS_CUT: end.error.code == CUT_MISSING}
        Job.objects.filter(pk=job.pk).update(payload=job.payload)
    if pipeline is None:
        return
    if FORMER_PLAN in job.payload and isinstance(end, Failed | Rejected | Cancelled):
        _sync_as_before(job, pipeline, end)
        return
    match end:
        case Failed(error) if not lost_source(pipeline, error):
            stop_table(pipeline, error)
        case Rejected(error):
            stop_table(pipeline, error)
        # a pause stops the table at once: it may have been resumed since
        case Cancelled(_, actor) if (
            job.cancel_requested != "pause" and pipeline.state != states.PAUSED
        ):
            _pause_cancelled(job, pipeline, actor=actor)


def _note_success(job: Job, pipeline: Pipeline | None, facts: Facts) -> None:
    if pipeline is not None:
        note_loaded(pipeline, facts, columns=columns_of(job))
        instant = str(facts.get("instant") or "")
        shard_joins.note_read(pipeline, _shards_of(job), instant=instant)
    if facts.get("rows") is not None:
        # what it copied stays on its row; its last phase counted nothing
        rows = int(facts["rows"])
        done = {"phase": "loaded", "done": rows, "total": rows, "unit": "rows"}
        Job.objects.filter(pk=job.pk).update(**done)


def _shards_of(job: Job) -> list[str]:
    """Those that its attempt read."""
    found = (job.spec or {}).get("table", {}).get("shards", ())
    return [value_of(ShardSpec, one).name for one in found]


def _pause_cancelled(job: Job, pipeline: Pipeline, *, actor: str) -> None:
    by = Sentence(" by %(actor)s", actor=actor) if actor else ""
    left = _left_for_readers(job, pipeline)
    reason = Sentence(
        "its %(kind)s was cancelled%(by)s, so it is paused: %(left)s",
        kind=Sentence(job.kind),
        by=by,
        left=left,
    )
    transitions.stop(pipeline, "pause", reason=reason, actor=actor)
    if job.kind == RESYNC and pipeline.state == states.PAUSED:
        # the old copy and its position are untouched, so that is where it goes on
        given_up = {"bound": pipeline.position} if pipeline.capture == LOG else {}
        transitions.set_columns(pipeline, resume_event="resume_catch_up", **given_up)
        shard_joins.look_again(pipeline)


def _sync_as_before(
    job: Job, pipeline: Pipeline, end: Failed | Rejected | Cancelled
) -> None:
    """It did not go over to its log: nothing of the table has changed."""
    why = "cancelled" if isinstance(end, Cancelled) else str(end.error)
    reason = Sentence(
        "it is synced by its cursor as before: following its log was %(why)s", why=why
    )
    now = timezone.now()
    before = {
        "capture": TIMESTAMP,
        "plan": job.payload[FORMER_PLAN],
        "load_name": "",
        "bound": "",
    }
    if pipeline.state == states.RESYNCING:
        transitions.move(pipeline, "load", reason=reason, due_at=now, **before)
    else:
        before["resume_event"] = "resume_catch_up"
        transitions.set_columns(pipeline, **before)
    transitions.show(pipeline, cursor=_cursor_of(job))
    followers.wake_followers()


def _left_for_readers(job: Job, pipeline: Pipeline) -> str:
    """What a cancelled load leaves, and what may be done next."""
    if job.kind == SNAPSHOT:
        return "no rows can be read yet. Resume begins its load again"
    if why := needed_resync.why_needed(pipeline):
        return Sentence(
            "readers keep the rows of before, and it still needs a resync: %(why)s",
            why=why,
        )
    return (
        "readers keep the rows of before. Resume continues from there without the"
        " resync; Resync begins a fresh copy"
    )


def left_by(job: Job, state: LakeState) -> Left:
    """Return what a lost attempt has committed."""
    commit = commit_of(job, state)
    if commit is None or commit.position is None:
        return Left()
    pipeline = transitions.pipeline_of(int(job.payload["table"]))
    single = job.attempts == 1 and _shares_snapshots(pipeline)
    facts = facts_of(commit, state) | {
        "has_columns": has_columns(job, commit),
        "bound": commit.position.end,
        "consistency": "snapshot" if single else "per_chunk",
    }
    return Left(facts)


_LOAD = functools.partial(
    DriverKind,
    lane="snapshot",
    weighs_rows=True,
    # no sync comes after it: a source that is away for ten minutes ends none
    max_attempts=10,
    spec_for=spec_for,
    outcome=outcome,
    left_by=left_by,
    again=functools.partial(queue_again, revive=_revive),
)
KINDS = (
    _LOAD(name=SNAPSHOT, title="snapshot", scopes=("write",)),
    # replaces every file group, so nothing may compact them until it has ended
    _LOAD(name=RESYNC, title="resync", scopes=("write", "service")),
)


def start_load(
    pipeline: Pipeline,
    kind: str,
    *,
    actor: str,
    accept_empty: bool = False,
    former_plan: Mapping[str, Any] | None = None,
) -> Job:
    """Queue the load (snapshot or resync) of an approved table. former_plan: of a table
    that goes over to its log."""
    payload: dict[str, Any] = {"accept_empty": True} if accept_empty else {}
    if former_plan is not None:
        payload[FORMER_PLAN] = former_plan
    job = new_job(pipeline, kind, actor=actor, payload=payload)
    if former_plan is not None:
        job.weight = 0  # it reads what a sync would
    return put([job])[0]


def go_on_with_load(
    pipeline: Pipeline, kind: str, *, actor: str, accept_empty: bool
) -> Job:
    """The same for one that was stopped: as it was begun."""
    former: dict[str, Any] | None = None
    if kind == RESYNC:
        rows = Job.objects.filter(kind=RESYNC, subject_id=str(pipeline.lake_table_id))
        begun = rows.order_by("-created_at").first()
        former = begun.payload.get(FORMER_PLAN) if begun else None
    return start_load(
        pipeline, kind, actor=actor, accept_empty=accept_empty, former_plan=former
    )


def lost_source(pipeline: Pipeline, error: SluiceError) -> bool:
    """Whether the source table, or its keys, are other ones now, so that the position
    says nothing; the table shows it, also one that was paused meanwhile."""
    known = states.LOADED | {states.PAUSED}
    if error.code not in _LOST or pipeline.state not in known:
        return False
    transitions.lose_position(pipeline, reason=error.as_sentence)
    return True


def note_loaded(
    pipeline: Pipeline,
    facts: Facts,
    *,
    columns: Sequence[Mapping[str, Any]] | None = None,
) -> None:
    """The load of a table is committed: capture goes on behind it.

    columns  that its attempt read and wrote; None = not known, a sync will tell
    """
    bound = str(facts.get("bound") or "")
    has_syncs = pipeline.capture == TIMESTAMP
    changes: dict[str, Any] = {
        "bound": bound,
        "position": bound,
        "consistency": str(facts.get("consistency") or ""),
        "source_fingerprint": facts.get("source_fingerprint") or {},
        "failures": 0,
        "drift": needed_resync.after_load(pipeline),
    }
    now = timezone.now()
    if pipeline.capture != "snapshot":
        policy = store.policy_of(pipeline)
        changes |= owing(policy, now, capture=pipeline.capture)
    if pipeline.state in {states.SNAPSHOTTING, states.RESYNCING}:
        due = now if has_syncs else None
        transitions.move(pipeline, "load", due_at=due, **changes)
        if pipeline.capture == "snapshot":
            transitions.move(pipeline, "catch_up", reason=how_consistent(pipeline))
    else:
        # it was committed while it was being paused: it goes on behind the load
        transitions.set_columns(pipeline, resume_event="resume_catch_up", **changes)
    transitions.show(
        pipeline,
        is_queryable=True,
        caught_up_at=now,
        **transitions.commit_columns(facts, position=bound, epoch=facts.get("epoch")),
    )
    if columns is not None and facts.get("has_columns", True):
        schema_diff.note_loaded(pipeline, [str(c["source_name"]) for c in columns])
        schema_diff.show_columns(pipeline, columns)
    transitions.forget_verification(pipeline)


def how_consistent(pipeline: Pipeline) -> str:
    """What a load of several moments means, for people; "" when it has one."""
    if pipeline.consistency != "per_chunk":
        return ""
    kind = kind_named(pipeline.source_table.database.datasource.kind)
    if not kind.shares_snapshots:
        return Sentence(
            "its chunks show the source at different moments, as %(kind)s shares no "
            "snapshot between connections without a lock",
            kind=kind.title,
        )
    return Sentence(
        "loaded over several attempts, so its chunks show the source at different "
        "moments; resync for one consistent moment"
    )


def _shares_snapshots(pipeline: Pipeline | None) -> bool:
    if pipeline is None:
        return True
    return kind_named(pipeline.source_table.database.datasource.kind).shares_snapshots
