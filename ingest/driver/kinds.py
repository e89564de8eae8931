"""What a driver does for a job of each kind: one value a kind, one line in `KINDS`.

`ingest.driver.jobs` runs it and reports how it ended, and knows no kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from core.errors import InvalidRequest, TransientError
from ingest.contract.job import (
    COMPACT,
    RECOVER,
    REPAIR,
    RESYNC,
    SNAPSHOT,
    SYNC,
    VERIFY,
    JobSpec,
)
from ingest.driver.apply.jobrun import JobRun
from ingest.driver.apply.recovery import recover_table
from ingest.driver.capture.gate import SourceGate, SourceGates
from ingest.driver.capture.snapshot import load_table
from ingest.driver.capture.timestamp import TimestampFollower
from ingest.driver.sync import run_sync
from ingest.driver.table_services.compaction import compact_table
from ingest.driver.table_services.repair import repair_table
from ingest.driver.table_services.verify import verify_table
from ingest.sources.registry import SourceAccess

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
class DriverWork:
    """One kind.

    makes_instants  whether this job writes instants, which needs a clock that is right
    owns_inflight   what is inflight in the table is its own, so an attempt that does
                    not succeed rolls it back; else it belongs to a writer beside it
    stages          it stages rows, then commits them at once: a pause keeps what is
                    staged, a cancel drops it, and a stop that came too late is a
                    success
    """

    makes_instants: Callable[[JobSpec], bool] = _always
    owns_inflight: bool = True
    stages: bool = False

    def start(self, run: JobRun, spark: SparkSession, gates: SourceGates) -> Facts:
        """Do it; the facts of the report."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeWork(DriverWork):
    """Needs the lake alone."""

    run: Callable[[JobRun, SparkSession], Facts]

    def start(self, run: JobRun, spark: SparkSession, gates: SourceGates) -> Facts:
        return self.run(run, spark)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceWork(DriverWork):
    """Reads the source: what it is reached with is asked for before anything begins."""

    run: Callable[[JobRun, SparkSession, SourceAccess, SourceGate], Facts]

    def start(self, run: JobRun, spark: SparkSession, gates: SourceGates) -> Facts:
        access = access_of(run)
        return self.run(run, spark, access, gates.gate_for(access.spec))


def work_of(kind: str) -> DriverWork:
    """The value of a kind; InvalidRequest `unknown_job_kind`."""
    try:
        return KINDS[kind]
    except KeyError:
        raise InvalidRequest(
            f"this driver does no jobs of kind '{kind}'",
            code="unknown_job_kind",
            hint="restart the driver and the workers with the same release",
        ) from None


def access_of(run: JobRun) -> SourceAccess:
    """What the job's source is reached with: asked for each time, never kept."""
    source = run.spec.source
    if source is None:
        raise InvalidRequest(f"a job of kind {run.spec.kind} needs a source")
    secret = run.secret(source.secret_ref)
    if secret.host and secret.host != source.host:
        # the new password must not go to the old host
        raise TransientError(
            f"the datasource's host was changed after this job was planned:"
            f" {source.host} is {secret.host} now",
            code="source_moved",
            hint="it is tried again with the new host",
        )
    return SourceAccess(
        source, secret.value, run.application, secret.addresses, secret.authorities
    )


def _sync(
    run: JobRun, spark: SparkSession, access: SourceAccess, gate: SourceGate
) -> Facts:
    return run_sync(run, spark, TimestampFollower(run, spark, access, gate))


def _repair(run: JobRun, spark: SparkSession) -> Facts:
    return repair_table(run, spark, lambda: access_of(run))


def _recover(run: JobRun, spark: SparkSession) -> Facts:
    return recover_table(spark, run.spec)


_LOAD = SourceWork(run=load_table, stages=True)
KINDS: Mapping[str, DriverWork] = {
    SNAPSHOT: _LOAD,
    RESYNC: _LOAD,
    SYNC: SourceWork(run=_sync),
    COMPACT: LakeWork(run=compact_table, owns_inflight=False),
    VERIFY: SourceWork(run=verify_table, makes_instants=_never, owns_inflight=False),
    REPAIR: LakeWork(run=_repair, makes_instants=_unless_it_undoes),
    RECOVER: LakeWork(run=_recover, makes_instants=_never),
}
