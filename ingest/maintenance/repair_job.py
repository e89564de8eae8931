"""A repair: the job that takes instants away, replaces file groups, or goes back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.db.models.functions import Now

from core.errors import SluiceError
from core.jobs import CANCELLING
from core.jobs.handlers import Facts
from core.models import Job
from ingest.contract.job import REPAIR, JobSpec, RepairWork
from ingest.contract.members import value_of
from ingest.jobs.endings import report_failure
from ingest.jobs.specs import source_spec
from ingest.lake.commits import LakeState
from ingest.lake.fence import Scope
from ingest.maintenance import repairs
from ingest.models import Pipeline
from ingest.pipelines import compaction_plans, transitions
from ingest.pipelines.lake_identity import set_buckets
from ingest.pipelines.lake_reconcile import follow_lake, note_restored
from ingest.pipelines.table_job import TableJob, commit_of, facts_of, span_of


class RepairJob(TableJob):
    """Nothing else writes to the table. Hudi believes in a dead writer for half a
    minute, so it is tried more often."""

    name = REPAIR
    title = "repair"
    lane = "maintenance"
    scopes: ClassVar[tuple[Scope, ...]] = ("write", "service")
    max_attempts = 6

    def takes_back(self, job: Job) -> bool:
        return bool(job.payload.get("repair", {}).get("action") == "rollback")

    def prepare(self, job: Job, pipeline: Pipeline) -> None:
        # a former attempt may have changed what the plan says
        follow_lake(pipeline)

    def spec(
        self, job: Job, pipeline: Pipeline, shared: Mapping[str, Any], *, epoch: int
    ) -> JobSpec:
        source = source_spec(pipeline.source_table.database.datasource)
        work = value_of(RepairWork, job.payload["repair"])
        return JobSpec(**shared, source=source, repair=work)

    def revive(self, job: Job, pipeline: Pipeline, *, actor: str) -> None:
        repairs.require_worth_repeating(job, pipeline)

    def about(self, job: Job) -> Mapping[str, Any]:
        return repairs.named(job)

    def apply(self, job: Job, pipeline: Pipeline | None, facts: Facts) -> bool:
        table_id = int(job.payload["table"])
        rolled_back = [str(i) for i in facts.get("rolled_back", ())]
        compaction_plans.roll_back(table_id, rolled_back)
        unscheduled = [str(i) for i in facts.get("unscheduled", ())]
        compaction_plans.unschedule(table_id, unscheduled)
        if pipeline is None:
            return False
        if facts.get("buckets"):
            why = "resized, or gone back to it"
            set_buckets(pipeline, int(facts["buckets"]), why=why)
        if facts.get("restored"):
            note_restored(pipeline, facts)
        elif facts.get("instant"):
            # the same rows once, at the same position
            instant = str(facts["instant"])
            transitions.show(
                pipeline, last_commit_instant=instant, last_commit_at=Now()
            )
        return False

    def failed(
        self, job: Job, pipeline: Pipeline | None, error: SluiceError, facts: Facts
    ) -> None:
        super().failed(job, pipeline, error, facts)
        _follow(pipeline)

    def rejected(self, job: Job, pipeline: Pipeline | None, error: SluiceError) -> None:
        if pipeline is not None:
            report_failure(job, error)

    def retried(
        self, job: Job, pipeline: Pipeline | None, error: SluiceError, facts: Facts
    ) -> None:
        super().retried(job, pipeline, error, facts)
        _follow(pipeline)

    def cancelled(
        self, job: Job, pipeline: Pipeline | None, facts: Facts | None, *, actor: str
    ) -> None:
        super().cancelled(job, pipeline, facts, actor=actor)
        if facts is not None:
            _follow(pipeline)

    def committed(
        self, job: Job, pipeline: Pipeline | None, state: LakeState
    ) -> Facts | None:
        commit = commit_of(job, state)
        if commit is None or commit.position is None:
            return None
        return facts_of(commit, state) | {
            "position": span_of(commit),
            "buckets": commit.position.identity.buckets,
        }

    def is_done_by(self, facts: Facts, job: Job) -> bool:
        """It ends with a comparison of its rows, which the next attempt makes; one that
        was to be cancelled has none."""
        return job.state == CANCELLING


def _follow(pipeline: Pipeline | None) -> None:
    """It may have ended behind its commit."""
    if pipeline is not None:
        follow_lake(pipeline)
