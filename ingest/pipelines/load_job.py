"""Snapshot and resync: the jobs that copy a whole table from its source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from django.utils.translation import gettext

from catalog.sources.registry import kind_named
from core.clock import SystemClock
from core.errors import SluiceError
from core.jobs.handlers import Facts
from core.models import Job
from ingest.contract.job import RESYNC, SNAPSHOT, JobSpec, SnapshotWork
from ingest.jobs.epochs import reserve_epochs
from ingest.jobs.lifecycle import new_job, start_jobs
from ingest.jobs.specs import source_spec
from ingest.lake.commits import LakeState
from ingest.lake.fence import Scope
from ingest.models import Pipeline, states
from ingest.pipelines import needed_resync, schema_diff, schema_drift, transitions
from ingest.pipelines.policies import store
from ingest.pipelines.policies.effective import policy_of
from ingest.pipelines.policies.lateness import owing
from ingest.pipelines.schema_diff import source_changed
from ingest.pipelines.table_job import (
    TableJob,
    columns_of,
    commit_of,
    facts_of,
    has_columns,
    resume_table,
    stop_table,
)
from ingest.planning.plan import plan_from_json

# What the lake knows its rows by is not what the source has now.
_LOST = frozenset({"source_recreated", "key_values_changed"})


class LoadJob(TableJob):
    """resumes: the event by which its table goes on after a cancel; "" = where it was.
    leaves: what a cancelled load leaves, and what may be done next."""

    lane = "snapshot"
    resumes: ClassVar[str] = ""
    leaves: ClassVar[str]

    def left(self, pipeline: Pipeline) -> str:
        return self.leaves

    def weight(self, pipeline: Pipeline) -> int:
        return max(0, pipeline.source_table.estimated_rows)

    def settle(self, job: Job) -> Pipeline | None:
        return schema_drift.lock_settled(job)

    def admit(self, job: Job, pipeline: Pipeline | None) -> SluiceError | None:
        if (refusal := super().admit(job, pipeline)) or pipeline is None:
            return refusal
        return source_changed(pipeline, plan_from_json(pipeline.plan))

    def revive(self, job: Job, pipeline: Pipeline, *, actor: str) -> None:
        resume_table(self, job, pipeline, pipeline.resume_event, actor=actor)

    def epoch(self, job: Job, pipeline: Pipeline) -> int:
        """All attempts share one, because staged chunks survive them."""
        if pipeline.load_epoch is None:
            source = pipeline.source_table.database.datasource_id
            pipeline.load_epoch = reserve_epochs(source)
            pipeline.save(update_fields=["load_epoch"])
        return pipeline.load_epoch

    def spec(
        self, job: Job, pipeline: Pipeline, shared: Mapping[str, Any], *, epoch: int
    ) -> JobSpec:
        policy = policy_of(pipeline)
        work = SnapshotWork(
            lag_seconds=policy.lag_seconds,
            lag_is_chosen=policy.is_chosen("lag_seconds"),
            accept_empty=bool(job.payload.get("accept_empty")),
        )
        source = source_spec(pipeline.source_table.database.datasource)
        return JobSpec(**shared, source=source, epoch=epoch, snapshot=work)

    def apply(self, job: Job, pipeline: Pipeline | None, facts: Facts) -> bool:
        if pipeline is not None:
            note_loaded(pipeline, facts, columns=columns_of(job))
        if facts.get("rows") is not None:
            # what it copied stays on its row; its last phase counted nothing
            rows = int(facts["rows"])
            done = {"phase": "loaded", "done": rows, "total": rows, "unit": "rows"}
            Job.objects.filter(pk=job.pk).update(**done)
        return pipeline is not None

    def failed(
        self, job: Job, pipeline: Pipeline | None, error: SluiceError, facts: Facts
    ) -> None:
        super().failed(job, pipeline, error, facts)
        if pipeline is not None and not lost_source(pipeline, error):
            stop_table(pipeline, error)

    def cancelled(
        self, job: Job, pipeline: Pipeline | None, facts: Facts | None, *, actor: str
    ) -> None:
        super().cancelled(job, pipeline, facts, actor=actor)
        if pipeline is None or pipeline.state == states.PAUSED:
            return
        by = f" by {actor}" if actor else ""
        left = self.left(pipeline)
        reason = f"its {job.kind} was cancelled{by}, so it is paused: {left}"
        transitions.stop(pipeline, "pause", reason=reason, actor=actor)
        if self.resumes and pipeline.state == states.PAUSED:
            transitions.set_columns(pipeline, resume_event=self.resumes)

    def committed(
        self, job: Job, pipeline: Pipeline | None, state: LakeState
    ) -> Facts | None:
        commit = commit_of(job, state)
        if commit is None or commit.position is None:
            return None
        single = job.attempts == 1 and _shares_snapshots(pipeline)
        return facts_of(commit, state) | {
            "has_columns": has_columns(job, commit),
            "bound": commit.position.end,
            "consistency": "snapshot" if single else "per_chunk",
        }


class SnapshotJob(LoadJob):
    name = SNAPSHOT
    title = "snapshot"
    scopes: ClassVar[tuple[Scope, ...]] = ("write",)
    runs_in = frozenset({states.APPROVED, states.SNAPSHOTTING})
    leaves = "no rows can be read yet. Resume goes on with the chunks that are finished"

    def claimed(self, job: Job, pipeline: Pipeline | None) -> None:
        """A load that may run now shows as one."""
        if pipeline is not None and pipeline.state == states.APPROVED:
            transitions.move(pipeline, "start_snapshot")


class ResyncJob(LoadJob):
    """Replaces every file group, so nothing may compact them until it has ended."""

    name = RESYNC
    title = "resync"
    scopes: ClassVar[tuple[Scope, ...]] = ("write", "service")
    runs_in = frozenset({states.RESYNCING})
    # the old copy and its position are untouched, so that is where it goes on
    resumes = "resume_catch_up"
    leaves = (
        "readers keep the rows of before. Resume continues from there without the"
        " resync; Resync begins a fresh copy"
    )

    def left(self, pipeline: Pipeline) -> str:
        why = needed_resync.why_needed(pipeline)
        kept = "readers keep the rows of before, and it still needs a resync"
        return f"{kept}: {why}" if why else self.leaves

    def revive(self, job: Job, pipeline: Pipeline, *, actor: str) -> None:
        """A table that goes on without it would not take it."""
        resume_table(self, job, pipeline, "resume_resync", actor=actor)


def start_load(
    pipeline: Pipeline, kind: str, *, actor: str, accept_empty: bool = False
) -> Job:
    """Queue the load (snapshot or resync) of an approved table."""
    payload = {"accept_empty": True} if accept_empty else {}
    return start_jobs([new_job(pipeline, kind, actor=actor, payload=payload)])[0]


def lost_source(pipeline: Pipeline, error: SluiceError) -> bool:
    """Whether the source table, or its keys, are other ones now, so that the position
    says nothing; the table shows it, also one that was paused meanwhile."""
    known = states.LOADED | {states.PAUSED}
    if error.code not in _LOST or pipeline.state not in known:
        return False
    transitions.lose_position(pipeline, reason=str(error))
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
    is_continuous = pipeline.capture != "snapshot"
    changes: dict[str, Any] = {
        "bound": bound,
        "position": bound,
        "consistency": str(facts.get("consistency") or ""),
        "signs": facts.get("signs") or {},
        "failures": 0,
        "drift": needed_resync.after_load(pipeline),
    }
    now = SystemClock().now()
    if is_continuous:
        changes |= owing(store.policy_of(pipeline), now)
    if pipeline.state in {states.SNAPSHOTTING, states.RESYNCING}:
        due = now if is_continuous else None
        transitions.move(pipeline, "load", due_at=due, **changes)
        if not is_continuous:
            transitions.move(pipeline, "catch_up", reason=how_consistent(pipeline))
    else:
        # it was committed while it was being paused: it goes on behind the load
        transitions.set_columns(pipeline, resume_event="resume_catch_up", **changes)
    transitions.show(
        pipeline,
        is_queryable=True,
        caught_up_at=now,
        **transitions.commit_columns(facts, position=bound, epoch=pipeline.load_epoch),
    )
    if columns is not None and facts.get("has_columns", True):
        schema_diff.note_loaded(pipeline, [str(c["source_name"]) for c in columns])
        schema_diff.show_columns(pipeline, columns)
    _verify_again(pipeline)


def how_consistent(pipeline: Pipeline) -> str:
    """What a load of several moments means, for people; "" when it has one."""
    if pipeline.consistency != "per_chunk":
        return ""
    kind = kind_named(pipeline.source_table.database.datasource.kind)
    if not kind.shares_snapshots:
        text = gettext(
            "its chunks show the source at different moments, as %(kind)s shares no "
            "snapshot between connections without a lock"
        )
        return text % {"kind": kind.title}
    return gettext(
        "loaded over several attempts, so its chunks show the source at different "
        "moments; resync for one consistent moment"
    )


def _shares_snapshots(pipeline: Pipeline | None) -> bool:
    if pipeline is None:
        return True
    return kind_named(pipeline.source_table.database.datasource.kind).shares_snapshots


def _verify_again(pipeline: Pipeline) -> None:
    """Every row was written again: the next verification is due, the former void."""
    Pipeline.objects.filter(pk=pipeline.pk).update(
        verify_at=SystemClock().now(), verified_at=None, verdict="", verified_job=None
    )
