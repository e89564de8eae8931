"""Verification: the job that compares a lake table with its source, and only reads."""

from __future__ import annotations

from django.db.models import Exists, OuterRef, Q

from core.jobs import SUCCEEDED
from core.jobs.moves import SCHEDULE, End, Facts, Failed, Rejected, Succeeded
from core.models import Job
from ingest.contract.job import VERIFY, JobSpec, VerifyWork
from ingest.jobs.kinds import (
    Attempt,
    DriverKind,
    Left,
    Refused,
    shared_by_all,
    source_spec,
)
from ingest.jobs.leases import hold_table
from ingest.lake.commits import LakeState
from ingest.maintenance import verification_schedule
from ingest.models import Pipeline
from ingest.pipelines import schema_drift, transitions
from ingest.pipelines.log_tables import stream_of
from ingest.pipelines.policies.store import policy_of
from ingest.pipelines.table_job import admitted, note_end, queue_again
from ingest.planning.facts import LOG
from ingest.sources.fingerprint import from_data, settled, to_data


def spec_for(job: Job) -> Attempt | Refused | None:
    """Return the next attempt: the comparison at the table's position."""
    if schema_drift.waits_for_look(job):
        return None
    pipeline = admitted(job, transitions.lock_pipeline(job))
    if isinstance(pipeline, Refused):
        return pipeline
    hold = hold_table(job, pipeline)
    if hold is None:
        return None
    # one that a user requested is waited for; one of a schedule has a budget
    is_scheduled = job.requested_by == SCHEDULE
    budget = policy_of(pipeline).verification.verify_rows_per_second
    is_log = pipeline.capture == LOG
    source = pipeline.source_table.database.datasource
    work = VerifyWork(
        position="" if is_log else pipeline.position,
        stream=stream_of(source.pk) if is_log else "",
        rows_per_second=budget if is_scheduled else 0,
        source_fingerprint=pipeline.source_fingerprint,
    )
    spec = JobSpec(
        **shared_by_all(job, pipeline, hold.fence),
        source=source_spec(source),
        verify=work,
    )
    return Attempt(spec, hold)


def outcome(job: Job, end: End) -> None:
    """What the end of a verification means for its table."""
    pipeline = transitions.lock_pipeline(job)
    if isinstance(end, Succeeded) and pipeline is not None:
        _note_verdict(job, pipeline, end.facts)
    note_end(job, end, is_synced=pipeline is not None)
    if isinstance(end, Failed | Rejected) and pipeline is not None:
        verification_schedule.note_undecided(pipeline)


def _note_verdict(job: Job, pipeline: Pipeline, facts: Facts) -> None:
    verdict = str(facts.get("verdict") or "")
    verification_schedule.note_verified(pipeline, job, verdict)
    if verdict != "equal":
        return
    # whatever had happened to the source, nothing of it is wrong in the lake
    pipeline.refresh_from_db(fields=["source_fingerprint"])
    work = (job.spec or {}).get("verify") or {}
    known = from_data(work.get("source_fingerprint") or {})
    source_fingerprint = to_data(settled(from_data(pipeline.source_fingerprint), known))
    transitions.set_columns(pipeline, source_fingerprint=source_fingerprint)


def left_by(job: Job, state: LakeState) -> Left:
    """It commits nothing: a lost one begins again."""
    return Left()


# Nothing that it reads may be cleaned away. It has a lane of its own: one with a budget
# takes hours, and compactions do not wait for it.
KIND = DriverKind(
    name=VERIFY,
    title="verify",
    lane="verify",
    scopes=("service",),
    weighs_rows=True,
    spec_for=spec_for,
    outcome=outcome,
    left_by=left_by,
    again=queue_again,
    # but for the newest of its table, which the table shows
    forgotten=Q(state=SUCCEEDED, requested_by=SCHEDULE)
    & ~Q(Exists(Pipeline.objects.filter(verified_job=OuterRef("pk")))),
)
