"""Removing what writers that are known to be dead left uncommitted.

Runs under a raised fence only: the lock provider keeps the old writer from
completing anything while this undoes it. Requested compactions are plans, and stay.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from core.errors import SluiceError, TerminalError, TransientError
from ingest.contract.job import JobSpec
from ingest.driver.apply.writer import qualified_name, require_identity, writer_fence
from ingest.lake.commits import LakeState, read_lake_table, read_timeline
from ingest.lake.fence import require_fence
from ingest.lake.hudi.identity import identity_for
from ingest.lake.hudi.layout import parse_file
from ingest.lake.hudi.options import service_options
from ingest.lake.hudi.timeline import LEAST_COMMITS, WRITES, Timeline
from ingest.lake.layout import META, list_files, read_begun_rollbacks
from ingest.lake.place import place_at


def recover_table(spark: SparkSession, spec: JobSpec) -> dict[str, Any]:
    """Kind recover: rolls back every write that never completed."""
    require_fence(spec.fence)
    before = read_lake_table(spec.table.path)
    undone = [i.asked for i in before.timeline.pending_writes]
    is_uncommitted = before.exists and not before.timeline.completed_writes
    if is_uncommitted and spec.kind == "snapshot":
        require_identity(spec, before)
        clear_uncommitted_table(spec, before)
    elif not is_uncommitted:
        roll_back_writes(spark, spec, before)
    return {"rolled_back": undone}


def roll_back_writes(spark: SparkSession, spec: JobSpec, state: LakeState) -> LakeState:
    """Rolls pending writes back, newest first; returns the state afterwards."""
    pending = unfinished_writes(spec, state.timeline)
    if not pending:
        return state
    try:
        with write_client(spark, spec) as client:
            for asked in reversed(pending):
                client.rollback(asked)
    except Py4JJavaError:
        timeline = read_timeline(place_at(spec.table.path))
        for begun in read_begun_rollbacks(spec.table.path, timeline):
            remove_sign_of_life(spec, begun.instant)
        raise
    after = read_lake_table(spec.table.path)
    left = {*unfinished_writes(spec, after.timeline)} & {*pending}
    require_undone(spec, left, after.timeline)
    return after


def remove_sign_of_life(spec: JobSpec, asked: str) -> None:
    """Of an attempt of ours that has failed. Hudi leaves it there when it could not
    write it whole: the next attempt would be put off by a writer that is nobody."""
    with contextlib.suppress(SluiceError):
        require_fence(spec.fence)
        (place_at(spec.table.path) / META / ".heartbeat" / asked).delete()


def require_undone(spec: JobSpec, left: set[str], timeline: Timeline) -> None:
    """Raises for instants that are there after their rollback."""
    if not left:
        return
    which = f"{', '.join(sorted(left))} of {qualified_name(spec)}"
    begun = {r.undoes for r in read_begun_rollbacks(spec.table.path, timeline)}
    if left & begun:
        # it leaves a rollback alone for some seconds after its last sign of life
        raise TransientError(
            f"the rollback of {which} was begun by a driver that is gone, and Hudi"
            " does not take it over yet",
            code="rollback_begun",
            hint="nothing: it is tried again",
        )
    raise TerminalError(
        f"could not roll back {which}",
        code="rollback_failed",
        hint="look at the driver's log; readers do not see these instants",
    )


def unfinished_writes(spec: JobSpec, timeline: Timeline) -> list[str]:
    """Oldest first. A write whose rollback was cut off when the write was gone from the
    timeline counts: Hudi completes that rollback when it is asked again."""
    begun = read_begun_rollbacks(spec.table.path, timeline)
    gone = {
        r.undoes for r in begun if r.action in WRITES and not timeline.find(r.undoes)
    }
    return sorted({i.asked for i in timeline.pending_writes} | gone)


def clear_uncommitted_table(spec: JobSpec, state: LakeState) -> LakeState:
    """A table without any completed commit was never visible: its first load
    begins with nothing instead of a rollback of everything.

    TerminalError `timeline_lost` when a file lies there that no unfinished write of
    its timeline made: it is somebody else's table, or ours without its timeline.
    """
    base = place_at(spec.table.path)
    unfinished = {instant.asked for instant in state.timeline.pending_writes}
    for file in list_files(base):
        written = parse_file(file.name)
        is_ours = written.instant in unfinished if written else _is_beside(file.name)
        if not is_ours:
            raise _not_ours(spec, f"{file.partition}/{file.name}".lstrip("/"))
    # files first: without them what is left after a death has no commit still
    for name in base.names():
        if name != META:
            (base / name).delete_all()
    base.delete_all()
    return LakeState(exists=False)


def _is_beside(name: str) -> bool:
    """Checksums, and the file by which Hudi knows a partition."""
    return name.startswith(".") and name.endswith((".crc", "_partition_metadata"))


def _not_ours(spec: JobSpec, name: str) -> TerminalError:
    return TerminalError(
        f"the timeline of {qualified_name(spec)} shows no commit, yet {name} lies there"
        " which no unfinished load made. Nothing was removed or written",
        code="timeline_lost",
        hint=f"put back the folder {META} of {spec.table.path}, or move what is there"
        " to another place and retry",
    )


def service_session(spark: SparkSession, spec: JobSpec) -> SparkSession:
    """A session of its own whose conf carries the lock, fence and position keys;
    procedures take them from nowhere else."""
    session = spark.newSession()
    options = service_options(
        identity_for(spec.table), name=spec.table.name, fence=writer_fence(spec)
    )
    for key, value in options.items():
        session.conf.set(key, value)
    return session


@contextmanager
def write_client(
    spark: SparkSession, spec: JobSpec, *, keep_commits: int = LEAST_COMMITS
) -> Iterator[Any]:
    """Hudi's Java write client for table services."""
    options = service_options(
        identity_for(spec.table),
        name=spec.table.name,
        fence=writer_fence(spec),
        keep_commits=keep_commits,
    )
    jvm: Any = spark._jvm
    java_options = jvm.java.util.HashMap()
    for key, value in options.items():
        java_options.put(key, value)
    client = jvm.org.apache.hudi.DataSourceUtils.createHoodieClient(
        spark.sparkContext._jsc,
        "",
        place_at(spec.table.path).uri,
        spec.table.name,
        java_options,
    )
    try:
        yield client
    finally:
        client.close()
