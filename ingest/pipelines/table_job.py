"""What all jobs of drivers have in common: they work on a table that a pipeline syncs.

An ending is noted for alerts, for the table's next look, and by the rows that mirror
its compactions. The handlers of kinds build on it.
"""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from core.clock import SystemClock
from core.errors import InvalidRequest, SluiceError
from core.jobs.handlers import Facts
from core.jobs.moves import move_job
from core.models import Job
from ingest.contract.job import spec_from
from ingest.jobs.driver_jobs import DriverJob
from ingest.jobs.endings import note_change, report_failure, report_success
from ingest.jobs.lifecycle import ring
from ingest.lake.commits import Commit, LakeState
from ingest.lake.hudi.evolution import lacking_columns
from ingest.models import Pipeline
from ingest.models.states import FAILED, NEEDS_RESYNC, PAUSED
from ingest.pipelines import compaction_plans, schema_drift, transitions
from ingest.pipelines.lake_reconcile import healed

# What a table in such a state needs first.
_BEFORE = {
    **dict.fromkeys((PAUSED, FAILED), "resume the table first"),
    NEEDS_RESYNC: "resync the table",
}


class TableJob(DriverJob):
    """runs_in: states of the pipeline in which it may run; empty = in any."""

    runs_in: ClassVar[frozenset[str]] = frozenset()

    def lock(self, job: Job) -> Pipeline | None:
        return transitions.lock_pipeline(job)

    # --------------------------------------------------------------------- claim

    def is_ready(self, job: Job) -> bool:
        return not schema_drift.waits_for_look(job)

    def admit(self, job: Job, pipeline: Pipeline | None) -> SluiceError | None:
        if pipeline is None:
            return InvalidRequest(
                f"{job.subject} is no longer onboarded",
                code="not_onboarded",
                hint="onboard the table again if it should be synced",
            )
        if self.runs_in and pipeline.state not in self.runs_in:
            return InvalidRequest(
                f"{job.subject} is {pipeline.state}: a {job.kind} does not run now",
                code="not_now",
                hint=_BEFORE.get(pipeline.state, ""),
            )
        return None

    # ---------------------------------------------------------------- on request

    def again(self, job_id: UUID, *, by: str) -> Job:
        job = Job.objects.select_for_update().get(pk=job_id)
        move_job(
            job,
            "retry",
            reason="waiting for a driver",
            actor=by,
            queued_at=SystemClock().now(),
            not_before=None,
            moved_at=None,
            finished_at=None,
            cancel_requested="",
            max_attempts=job.attempts + self.max_attempts,
        )
        pipeline = transitions.pipeline_of(int(job.payload["table"]))
        if pipeline is None:
            gone = f"{job.subject} is no longer onboarded"
            raise InvalidRequest(gone, code="not_now")
        self.revive(job, pipeline, actor=by)
        ring()
        return job

    def revive(self, job: Job, pipeline: Pipeline, *, actor: str) -> None:
        """Bring the table to where this job may run; raises when that cannot be."""

    # ---------------------------------------------------------------------- ends

    def error_of(
        self, job: Job, pipeline: Pipeline | None, error: SluiceError
    ) -> SluiceError:
        if pipeline is None:
            return error
        return schema_drift.looked_first(job, pipeline, healed(pipeline, error))

    def apply(self, job: Job, pipeline: Pipeline | None, facts: Facts) -> bool:
        """Advance the table by what was committed; whether it has caught up by that."""
        return False

    def alters_health(self, pipeline: Pipeline | None, facts: Facts) -> bool:
        """Return whether a look at the table may find something else than before this
        success."""
        return True

    def failures(self, pipeline: Pipeline, error: SluiceError) -> int:
        """Return how many attempts failed in a row by what may pass; 0 = it will not,
        or that is not counted."""
        return 0

    def succeeded(self, job: Job, pipeline: Pipeline | None, facts: Facts) -> None:
        is_other = self.alters_health(pipeline, facts)
        has_caught_up = self.apply(job, pipeline, facts)
        note_plans(job, facts)
        report_success(job, facts, has_caught_up=has_caught_up)
        if is_other:
            note_change(int(job.payload["table"]))

    def failed(
        self, job: Job, pipeline: Pipeline | None, error: SluiceError, facts: Facts
    ) -> None:
        if pipeline is not None:
            # what is wrong with the table's files may be why
            note_change(int(job.payload["table"]))
            failures = self.failures(pipeline, error)
            report_failure(job, error, failures=failures)
        note_plans(job, facts)

    def rejected(self, job: Job, pipeline: Pipeline | None, error: SluiceError) -> None:
        if pipeline is not None:
            report_failure(job, error)
            stop_table(pipeline, error)

    def retried(
        self, job: Job, pipeline: Pipeline | None, error: SluiceError, facts: Facts
    ) -> None:
        note_plans(job, facts)

    def cancelled(
        self, job: Job, pipeline: Pipeline | None, facts: Facts | None, *, actor: str
    ) -> None:
        if facts is not None:
            note_plans(job, facts)


def resume_table(
    handler: TableJob, job: Job, pipeline: Pipeline, event: str, *, actor: str
) -> None:
    """A table that is stopped goes on by `event`, for a job that is asked for again."""
    if pipeline.state in {PAUSED, FAILED}:
        transitions.move(
            pipeline, event or "resume_approved", actor=actor, resume_event=""
        )
    if refusal := handler.admit(job, pipeline):
        raise refusal


def stop_table(pipeline: Pipeline, error: SluiceError) -> None:
    """Its job has failed: the table fails too, or waits for a decision."""
    if not schema_drift.ended_undecided(pipeline, error):
        transitions.stop(pipeline, "fail", reason=str(error))


def note_plans(job: Job, facts: Facts) -> None:
    """Rows of plans follow what the job saw on the timeline at its end, however it
    ended; when it says nothing of that, they stay."""
    if "pending_compactions" in facts:
        pending = [str(i) for i in facts["pending_compactions"]]
        compaction_plans.mirror(
            int(job.payload["table"]), pending, since=job.started_at
        )


def columns_of(job: Job) -> list[dict[str, Any]]:
    """Those that its attempt read and wrote: the plan may have moved on since."""
    return list((job.spec or {}).get("table", {}).get("columns", ()))


# --------------------------------------------------------------------------- recover


def commit_of(job: Job, state: LakeState) -> Commit | None:
    """The newest commit of the table that this job has made."""
    run = str(job.pk)
    own = (c for c in state.commits if c.position and c.position.run == run)
    return next(own, None)


def facts_of(commit: Commit, state: LakeState) -> dict[str, Any]:
    """What a report would say of this commit, whatever made it."""
    assert commit.position is not None
    return {
        "instant": commit.instant.asked,
        "epoch": commit.position.epoch_to,
        "rows": commit.rows_written,
        "pending_compactions": list(state.pending_compactions),
    }


def span_of(commit: Commit) -> dict[str, Any]:
    assert commit.position is not None
    return {"from": commit.position.start, "to": commit.position.end}


def has_columns(job: Job, commit: Commit) -> bool:
    """An earlier attempt may have committed by an earlier plan."""
    wanted = spec_from(job.spec).table.columns if job.spec else ()
    return not lacking_columns(commit.schema, wanted)


def unread_columns(job: Job, commit: Commit, state: LakeState) -> dict[str, Any]:
    """As a report says it of columns that this commit brought to the lake: whether
    their older values were read, only the report that is lost knew."""
    brought = state.brought_by(commit)
    names = [c["source_name"] for c in columns_of(job) if c["name"] in brought]
    said = {"columns": names, "earlier": "unread", "from": span_of(commit)["from"]}
    return {"added": said} if names else {}
