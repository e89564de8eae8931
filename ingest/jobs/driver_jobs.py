"""Kinds that a Spark driver executes: what claiming and judging ask their handlers.

A job of such a kind works on one lake table, by `payload["table"]`, for one pipeline.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from core.errors import SluiceError, TerminalError
from core.jobs.handlers import Facts, JobHandler, handler_of
from core.models import Job
from ingest.contract.job import JobSpec
from ingest.lake.commits import LakeState
from ingest.lake.fence import Scope
from ingest.models import Pipeline


class DriverJob(JobHandler[Pipeline | None]):
    """One kind.

    lane    one of LANE_LIMITS
    scopes  the leases it takes, in this order; the first one is its key
    """

    scopes: ClassVar[tuple[Scope, ...]]

    # --------------------------------------------------------------------- start

    def weight(self, pipeline: Pipeline) -> int:
        """Return how much there is to do, as `Job.weight` counts."""
        return 0

    # --------------------------------------------------------------------- claim

    def is_ready(self, job: Job) -> bool:
        """Return whether it may be claimed; a row that waits says why."""
        return True

    def settle(self, job: Job) -> Pipeline | None:
        """Return the pipeline, locked, by what is known of its source now."""
        return self.lock(job)

    def admit(self, job: Job, pipeline: Pipeline | None) -> SluiceError | None:
        """Return why this job can no longer run, or None."""
        raise NotImplementedError

    def takes_back(self, job: Job) -> bool:
        """Return whether it may take a fence that no lease gave out."""
        return False

    def prepare(self, job: Job, pipeline: Pipeline) -> None:
        """It has its leases, and its spec comes next."""

    def epoch(self, job: Job, pipeline: Pipeline) -> int:
        """Return the epoch of the next attempt; 0 when it needs none."""
        return 0

    def spec(
        self, job: Job, pipeline: Pipeline, shared: Mapping[str, Any], *, epoch: int
    ) -> JobSpec:
        """Return the spec of the next attempt. shared: what all specs say."""
        raise NotImplementedError

    # ---------------------------------------------------------------------- ends

    def error_of(
        self, job: Job, pipeline: Pipeline | None, error: SluiceError
    ) -> SluiceError:
        """Return what an attempt failed by, when that is not what its report says."""
        return error

    def is_awaited(self, job: Job, pipeline: Pipeline | None) -> bool:
        """Return whether others may wait for the end of this job, now that it ended."""
        return True

    # ------------------------------------------------------------------- recover

    def committed(
        self, job: Job, pipeline: Pipeline | None, state: LakeState
    ) -> Facts | None:
        """Return what a lost attempt has committed, as its report would say; None when
        the lake's timeline shows nothing of it."""
        raise NotImplementedError

    def is_done_by(self, facts: Facts, job: Job) -> bool:
        """Return whether a lost attempt that has committed this is done with that."""
        return True

    def payload_again(self, job: Job, state: LakeState) -> Mapping[str, Any]:
        """Return what the next attempt has to know of the one that was lost."""
        return {}


def driver_job(kind: str) -> DriverJob:
    """Return the handler of a kind that drivers execute; TerminalError for others."""
    handler = handler_of(kind)
    if not isinstance(handler, DriverJob):
        raise TerminalError(
            f"a {kind} job is not executed by a driver", code="not_a_driver_job"
        )
    return handler
