"""From a JobSpec to a JobReport: its kind's work, and how that ended.

Whatever the exception says, the lake is asked before a job is called failed or
cancelled. It must not know the control pipe or threads.
"""

from __future__ import annotations

import logging
import time
from typing import Any

from pyspark.sql import SparkSession

from core.errors import SluiceError
from ingest.contract.job import DRIVER_DIED, ErrorFact, JobReport, JobSpec, Outcome
from ingest.driver.apply.clocks import forget_instants_ahead, require_clock
from ingest.driver.apply.full_disk import named
from ingest.driver.apply.jobrun import Interrupted, JobRun
from ingest.driver.apply.recovery import recover_table
from ingest.driver.capture.gate import SourceGates
from ingest.driver.capture.snapshot import committed_load
from ingest.driver.jvm import Jvm
from ingest.driver.kinds import KINDS, work_of
from ingest.driver.session import open_lake
from ingest.driver.table_services.compaction import pending_compactions
from ingest.lake.fence import require_fence
from ingest.lake.staging import StagingArea
from ingest.sources.failures import breaks_jvm, failure_of

log = logging.getLogger(__name__)

_JVM_GRACE_SECONDS = 0.5


def run_job(run: JobRun, spark: SparkSession, gates: SourceGates) -> JobReport:
    """Runs to the end and never raises: the report is the only way out."""
    spec = run.spec
    try:
        facts = _work(run, spark, gates)
    except Exception as error:
        is_ours = isinstance(error, SluiceError | Interrupted)
        if _is_jvm_gone(spark, grace=0.0 if is_ours else _JVM_GRACE_SECONDS):
            return _died(run, error)
        if breaks_jvm(error):
            # the next attempt, and every other job, needs a JVM that is whole
            Jvm(spark).kill()
            return _died(run, error)
        if run.stop_mode is not None and not isinstance(error, SluiceError):
            return _stopped(run, spark)
        log.warning("job %s failed", spec.job_id, exc_info=error)
        failure = failure_of(error)
        run.say("error", failure.error.message)
        _undo(run, spark)
        return JobReport(
            spec.job_id,
            spec.attempt,
            failure.outcome,
            facts=_pending(spec),
            warnings=run.warnings,
            error=named(
                failure.error, spec, scratch=spark.conf.get("spark.local.dir", "") or ""
            ),
        )
    return _report(run, "succeeded", facts)


def _is_jvm_gone(spark: SparkSession, *, grace: float) -> bool:
    """A JVM that dies reaches us as foreign exceptions of any class, up to `grace`
    seconds before its end. A pause or a refusal of ours need not wait for that."""
    jvm = Jvm(spark)
    until = time.monotonic() + grace
    while jvm.is_alive:
        if time.monotonic() >= until:
            return False
        time.sleep(0.05)
    return True


def _died(run: JobRun, error: Exception) -> JobReport:
    """Nothing can be undone without the JVM; the next attempt does it."""
    log.warning("job %s lost its JVM", run.spec.job_id, exc_info=error)
    fact = ErrorFact(DRIVER_DIED, "the JVM of the driver ended")
    return JobReport(
        run.spec.job_id,
        run.spec.attempt,
        "transient",
        warnings=run.warnings,
        error=fact,
    )


def _work(run: JobRun, spark: SparkSession, gates: SourceGates) -> dict[str, Any]:
    work = work_of(run.spec.kind)
    open_lake(run, spark)
    forget_instants_ahead(spark)
    if work.makes_instants(run.spec):
        require_clock(run)
    return work.start(run, spark, gates)


def _stopped(run: JobRun, spark: SparkSession) -> JobReport:
    """A pause keeps what was staged, a cancel drops it. A load that is in the lake
    has succeeded all the same."""
    spec = run.spec
    _undo(run, spark)
    stages = work_of(spec.kind).stages
    if stages and (facts := _late_success(run)) is not None:
        return _report(run, "succeeded", facts)
    outcome: Outcome = "paused" if run.stop_mode == "pause" else "cancelled"
    if outcome == "cancelled" and stages:
        try:
            # a superseded attempt must not drop what its successor stages
            require_fence(spec.fence)
            StagingArea(spec.table.staging).clear()
        except SluiceError as error:
            run.warn(f"staged files could not be removed: {error.message}")
    return _report(run, outcome, {})


def _late_success(run: JobRun) -> dict[str, Any] | None:
    try:
        return committed_load(run)
    except SluiceError as error:
        run.warn(f"whether its commit is in the lake was not seen: {error.message}")
        return None


def _undo(run: JobRun, spark: SparkSession) -> None:
    """Our own unfinished instant goes at once; the next job would do it too."""
    if run.spec.kind not in KINDS or not KINDS[run.spec.kind].owns_inflight:
        return
    try:
        recover_table(spark, run.spec)
    except Exception as error:  # noqa: BLE001 - the first failure is the report's
        log.info("nothing rolled back for %s: %s", run.spec.job_id, error)


def _report(run: JobRun, outcome: Outcome, facts: dict[str, Any]) -> JobReport:
    return JobReport(
        run.spec.job_id,
        run.spec.attempt,
        outcome,
        facts={**facts, **_pending(run.spec)},
        warnings=run.warnings,
    )


def _pending(spec: JobSpec) -> dict[str, Any]:
    try:
        return {"pending_compactions": pending_compactions(spec)}
    except Exception as error:  # noqa: BLE001 - what the job itself met is worth more
        log.info("plans of %s cannot be read: %s", spec.job_id, error)
        return {}
