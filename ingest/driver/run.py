"""What a driver does for a job: from a JobSpec to a JobReport.

`KINDS` has the work of each kind; `run_job` runs it and reports how it ended. Whatever
an exception says, the lake's timeline decides before a job is called failed or
cancelled. It must not know the control pipe or threads.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from core.errors import InvalidRequest, SluiceError, TransientError
from core.sentences import origins_in
from ingest.contract.job import (
    COMPACT,
    DRIVER_DIED,
    JVM_ENDED,
    RECOVER,
    REPAIR,
    RESYNC,
    SNAPSHOT,
    SYNC,
    VERIFY,
    ErrorFact,
    JobReport,
    JobSpec,
    Outcome,
)
from ingest.driver.apply.apply import (
    apply_staged,
    lacking,
    missing_columns,
    position_of,
    recover_table,
    refuse_gone_back,
    refuse_other_types,
    refuse_unreadable_plan,
    require_loaded,
    unreported_commit,
)
from ingest.driver.apply.clocks import forget_instants_ahead, require_clock
from ingest.driver.apply.full_disk import named
from ingest.driver.apply.jobrun import Interrupted, JobRun
from ingest.driver.apply.writer import checked_state
from ingest.driver.capture.gate import SourceGate, SourceGates
from ingest.driver.capture.snapshot import committed_load, load_table
from ingest.driver.capture.timestamp import capture_window, sync_folder, sync_work
from ingest.driver.jvm import GRACE_SECONDS, Jvm, breaks_jvm, failure_of
from ingest.driver.leave_log import leave_log
from ingest.driver.session import open_lake
from ingest.driver.table_services.cleaning import tidy_when_due
from ingest.driver.table_services.compaction import (
    compact_table,
    pending_compactions,
    plan_when_due,
)
from ingest.driver.table_services.repair import repair_table
from ingest.driver.table_services.verify import verify_table
from ingest.lake.fence import require_fence
from ingest.lake.staging import StagingArea
from ingest.sources.port import SourceAccess

Facts = dict[str, Any]
# Repairs that only undo are never refused for a clock: they leave nothing that shuts a
# table.
_UNDOING = frozenset({"rollback", "unschedule"})


def _always(spec: JobSpec) -> bool:
    return True


def _never(spec: JobSpec) -> bool:
    return False


def _unless_it_undoes(spec: JobSpec) -> bool:
    return spec.repair is not None and spec.repair.action not in _UNDOING


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a driver does for one kind, and what an unfinished attempt leaves.

    run             does it; the facts of the report
    makes_instants  whether this job writes instants, which needs a clock that is right
    owns_inflight   what is inflight in the table is its own, so an attempt that does
                    not succeed rolls it back; else it belongs to a writer beside it
    stages          it stages rows, then commits them at once: a pause keeps what is
                    staged, a cancel drops it, and a stop that came too late is a
                    success
    """

    run: Callable[[JobRun, SparkSession, SourceGates], Facts]
    makes_instants: Callable[[JobSpec], bool] = _always
    owns_inflight: bool = True
    stages: bool = False


def work_of(kind: str) -> Work:
    """The value of a kind; InvalidRequest `unknown_job_kind`."""
    try:
        return KINDS[kind]
    except KeyError:
        raise InvalidRequest(
            "this driver does no jobs of kind '%(kind)s'",
            kind=kind,
            code="unknown_job_kind",
            hint="restart the driver and the workers with the same release",
        ) from None


def access_of(run: JobRun) -> SourceAccess:
    """What the job's source is reached with: asked for each time, never kept."""
    source = run.spec.source
    if source is None:
        raise InvalidRequest(
            "a job of kind %(kind)s needs a source", kind=run.spec.kind
        )
    secret = run.secret(source.secret_ref)
    if secret.host and secret.host != source.host:
        # the new password must not go to the old host
        raise TransientError(
            "the datasource's host was changed after this job was planned:"
            " %(before)s is %(now)s now",
            before=source.host,
            now=secret.host,
            code="source_moved",
            hint="it is tried again with the new host",
        )
    return SourceAccess(
        source, secret.value, run.application, secret.addresses, secret.authorities
    )


def _reads_source(
    run: Callable[[JobRun, SparkSession, SourceAccess, SourceGate], Facts],
) -> Callable[[JobRun, SparkSession, SourceGates], Facts]:
    """Work that reads the source: its secret is requested before anything begins."""

    def start(job: JobRun, spark: SparkSession, gates: SourceGates) -> Facts:
        access = access_of(job)
        return run(job, spark, access, gates.gate_for(access.spec))

    return start


def _compact(run: JobRun, spark: SparkSession, _gates: SourceGates) -> Facts:
    return compact_table(run, spark)


def _repair(run: JobRun, spark: SparkSession, gates: SourceGates) -> Facts:
    def reach() -> tuple[SourceAccess, SourceGate]:
        access = access_of(run)
        return access, gates.gate_for(access.spec)

    return repair_table(run, spark, reach)


def _recover(run: JobRun, spark: SparkSession, _gates: SourceGates) -> Facts:
    return recover_table(spark, run.spec)


def run_sync(
    run: JobRun, spark: SparkSession, access: SourceAccess, gate: SourceGate
) -> Facts:
    """An incremental sync: capture, then one commit; the facts of the report.

    The only place where capture and apply meet; each of them may be replaced."""
    run.enter("checking")
    state = checked_state(run.spec)
    require_loaded(run.spec, state)
    refuse_gone_back(run.spec, state)
    refuse_other_types(run.spec, state)
    refuse_unreadable_plan(run.spec, state)
    if sync_work(run).stream:
        run.begin_at(leave_log(run, spark, access, state))
        state = checked_state(run.spec)
    else:
        run.begin_at(position_of(run.spec, state))
    lacks = missing_columns(run.spec, state)
    with sync_folder(run) as folder:
        staged, facts = capture_window(
            run, spark, access, gate, folder=folder, lacking=lacks
        )
        run.enter("applying", total=staged.rows)
        commit = apply_staged(run, spark, staged)
    has_columns = commit is not None or not lacking(run.spec, state)
    rows = staged.rows
    if commit is not None:
        _look_after(run, spark)
    elif commit := unreported_commit(run.spec, state):
        rows = commit.rows_written + commit.rows_deleted
    return {
        **facts,
        **run.source_fingerprint,
        "rows": rows,
        "epoch": commit.position.epoch_to if commit and commit.position else None,
        "instant": commit.instant.asked if commit else None,
        "completed_at": commit.instant.completed if commit else None,
        "bytes": commit.bytes_written if commit else 0,
        "position": {"from": staged.start, "to": staged.end},
        "has_columns": has_columns,
        "lossy": dict(run.lossy),
    }


def _look_after(run: JobRun, spark: SparkSession) -> None:
    """The rows are committed: what cannot be done here is done by a later job."""
    try:
        plan_when_due(spark, run.spec)
        tidy_when_due(spark, run.spec)
    except Exception as error:  # noqa: BLE001 - whatever class Hudi or the JVM raises
        run.warn(
            "the table could not be looked after behind the commit: %(error)s",
            error=error.as_sentence if isinstance(error, SluiceError) else error,
        )


_LOAD = Work(run=_reads_source(load_table), stages=True)
KINDS: Mapping[str, Work] = {
    SNAPSHOT: _LOAD,
    RESYNC: _LOAD,
    SYNC: Work(run=_reads_source(run_sync)),
    COMPACT: Work(run=_compact, owns_inflight=False),
    VERIFY: Work(
        run=_reads_source(verify_table), makes_instants=_never, owns_inflight=False
    ),
    REPAIR: Work(run=_repair, makes_instants=_unless_it_undoes),
    RECOVER: Work(run=_recover, makes_instants=_never),
}


log = logging.getLogger(__name__)


def run_job(run: JobRun, spark: SparkSession, gates: SourceGates) -> JobReport:
    """Runs to the end and never raises: the report is the only way out."""
    spec = run.spec
    try:
        facts = _work(run, spark, gates)
    except Exception as error:
        is_ours = isinstance(error, SluiceError | Interrupted)
        # a pause, or a refusal of ours, need not wait for that
        if Jvm(spark).is_gone(grace=0.0 if is_ours else GRACE_SECONDS):
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
            sentences=origins_in(run.warnings),
            error=named(
                failure.error, spec, scratch=spark.conf.get("spark.local.dir", "") or ""
            ),
        )
    return _report(run, "succeeded", facts)


def _died(run: JobRun, error: Exception) -> JobReport:
    """Nothing can be undone without the JVM; the next attempt does it."""
    log.warning("job %s lost its JVM", run.spec.job_id, exc_info=error)
    fact = ErrorFact(DRIVER_DIED, JVM_ENDED)
    return JobReport(
        run.spec.job_id,
        run.spec.attempt,
        "transient",
        warnings=run.warnings,
        sentences=origins_in(run.warnings),
        error=fact,
    )


def _work(run: JobRun, spark: SparkSession, gates: SourceGates) -> Facts:
    work = work_of(run.spec.kind)
    open_lake(run, spark)
    forget_instants_ahead(spark)
    if work.makes_instants(run.spec):
        require_clock(run)
    return work.run(run, spark, gates)


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
            run.warn(
                "staged files could not be removed: %(error)s", error=error.message
            )
    return _report(run, outcome, {})


def _late_success(run: JobRun) -> Facts | None:
    try:
        return committed_load(run)
    except SluiceError as error:
        run.warn(
            "whether its commit is in the lake was not seen: %(error)s",
            error=error.message,
        )
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
        sentences=origins_in([run.warnings, facts]),
    )


def _pending(spec: JobSpec) -> Facts:
    try:
        return {"pending_compactions": pending_compactions(spec)}
    except Exception as error:  # noqa: BLE001 - what the job itself met is worth more
        log.info("plans of %s cannot be read: %s", spec.job_id, error)
        return {}
