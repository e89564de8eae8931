"""Verification: the job that compares a lake table with its source, and only reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.db.models import Exists, OuterRef, Q

from core.errors import SluiceError
from core.jobs import SUCCEEDED
from core.jobs.handlers import SCHEDULE, Facts
from core.models import Job
from ingest.contract.job import VERIFY, JobSpec, VerifyWork
from ingest.jobs.endings import report_failure
from ingest.jobs.specs import source_spec
from ingest.lake.commits import LakeState
from ingest.lake.fence import Scope
from ingest.maintenance import verification_schedule
from ingest.models import Pipeline
from ingest.pipelines import transitions
from ingest.pipelines.policies.effective import policy_of
from ingest.pipelines.table_job import TableJob
from ingest.sources.fingerprint import from_data, settled, to_data


class VerifyJob(TableJob):
    """Nothing that it reads may be cleaned away. It has a lane of its own: one with a
    budget takes hours, and compactions do not wait for it."""

    name = VERIFY
    title = "verify"
    lane = "verify"
    scopes: ClassVar[tuple[Scope, ...]] = ("service",)

    def weight(self, pipeline: Pipeline) -> int:
        return max(0, pipeline.source_table.estimated_rows)

    def spec(
        self, job: Job, pipeline: Pipeline, shared: Mapping[str, Any], *, epoch: int
    ) -> JobSpec:
        # whoever asks for one wants its answer; what comes automatically has a budget
        is_asked_for = job.requested_by != SCHEDULE
        policy = policy_of(pipeline)
        rate = 0 if is_asked_for else policy.verification.rows_per_second
        work = VerifyWork(
            position=pipeline.position, rows_per_second=rate, signs=pipeline.signs
        )
        source = source_spec(pipeline.source_table.database.datasource)
        return JobSpec(**shared, source=source, verify=work)

    def apply(self, job: Job, pipeline: Pipeline | None, facts: Facts) -> bool:
        if pipeline is None:
            return False
        verdict = str(facts.get("verdict") or "")
        verification_schedule.note_verified(pipeline, job, verdict)
        if verdict == "equal":
            # whatever had happened to the source, nothing of it is wrong in the lake
            pipeline.refresh_from_db(fields=["signs"])
            work = (job.spec or {}).get("verify") or {}
            known = from_data(work.get("signs") or {})
            signs = to_data(settled(from_data(pipeline.signs), known))
            transitions.set_columns(pipeline, signs=signs)
        return False

    def failed(
        self, job: Job, pipeline: Pipeline | None, error: SluiceError, facts: Facts
    ) -> None:
        super().failed(job, pipeline, error, facts)
        if pipeline is not None:
            verification_schedule.note_undecided(pipeline)

    def rejected(self, job: Job, pipeline: Pipeline | None, error: SluiceError) -> None:
        if pipeline is not None:
            report_failure(job, error)
            verification_schedule.note_undecided(pipeline)

    def forgotten(self) -> Q:
        """But for the newest of its table, which the table shows."""
        newest = Pipeline.objects.filter(verified_job=OuterRef("pk"))
        return Q(state=SUCCEEDED, requested_by=SCHEDULE) & ~Q(Exists(newest))

    def committed(
        self, job: Job, pipeline: Pipeline | None, state: LakeState
    ) -> Facts | None:
        """It commits nothing: a lost one begins again."""
        return None
