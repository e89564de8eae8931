"""One Hudi commit under a fence, and what the timeline says about it afterwards.

Every write of a lake table passes here: fence, identity and columns are checked
before, the instant is read from the timeline after. It must not know sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from core.errors import TerminalError, TransientError
from ingest.contract.job import JobSpec
from ingest.driver.apply.clocks import future_of, soon
from ingest.driver.apply.light import LightRows, commit_light
from ingest.lake.commits import (
    Commit,
    LakeState,
    newest_commits,
    read_lake_table,
    read_timeline,
)
from ingest.lake.fence import require_fence
from ingest.lake.hudi.identity import (
    TableIdentity,
    drift,
    identity_for,
    property_drift,
    refuse_drift,
)
from ingest.lake.hudi.options import (
    Operation,
    SharedLock,
    WriterFence,
    without_combining,
    write_options,
)
from ingest.lake.hudi.position import CommitPosition, LoadPoint, encode_position
from ingest.lake.place import place_at


@dataclass(frozen=True, slots=True)
class Span:
    """What a commit brings: source positions and epochs, both ends included.

    load, load_name  see `CommitPosition`
    """

    start: str
    end: str
    epoch_from: int
    epoch_to: int
    load: LoadPoint | None = None
    load_name: str = ""


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows for one commit.

    expected_rows  of a load, when known: another number fails before the commit
    unique_keys    certainly no key occurs twice
    """

    rows: DataFrame | LightRows
    operation: Operation
    span: Span
    expected_rows: int = -1
    unique_keys: bool = False


def writer_fence(spec: JobSpec) -> WriterFence:
    path = place_at(spec.fence.path).uri
    return WriterFence(path, spec.fence.token, _shared_lock(spec))


def _shared_lock(spec: JobSpec) -> SharedLock | None:
    """One name for all scopes of a table: ingest and table services meet there."""
    if not spec.table.lock:
        return None
    hosts, _, folder = spec.lock_service.partition("/")
    if not hosts:
        raise TerminalError(
            f"{qualified_name(spec)} has a shared lock, and there is no service for it."
            " Nothing was written",
            code="lock_service_unset",
            hint="set SLUICE_LAKE_LOCK as it was when the table was onboarded",
        )
    return SharedLock(hosts, f"/{folder}", f"table-{spec.table.table_id}")


def qualified_name(spec: JobSpec) -> str:
    return f"{spec.table.database}.{spec.table.name}"


def checked_state(spec: JobSpec, *, adds: bool = True) -> LakeState:
    """The table's state, after lock, fence and identity were found right. `adds`: rows
    or plans come behind what is there, so nothing there may be of the future."""
    _shared_lock(spec)
    require_fence(spec.fence)
    state = read_lake_table(spec.table.path)
    if state.exists:
        require_identity(spec, state)
        if adds:
            _require_past(spec, state)
    return state


def _require_past(spec: JobSpec, state: LakeState) -> None:
    """Hudi orders commits by the clock: one that seems older than what is there would
    be merged below it, or wait within Hudi until the clock has caught up."""
    done = state.timeline.completed_writes
    newest = max(
        (digits for i in done for digits in (i.asked, i.completed)), default=""
    )
    if newest > soon():
        raise TransientError(
            f"the newest commit of {qualified_name(spec)} is of {newest} in UTC: the"
            " clock of this driver's host is behind, or that of a former driver was"
            " ahead. Nothing was written",
            code="clock_behind",
            hint="if this host's clock is wrong, set it right; else roll the table"
            " back: that keeps every row and takes the commits of the future away",
        )


def require_identity(spec: JobSpec, state: LakeState) -> None:
    """TerminalError `identity_drift` when that table is not the one of the plan."""
    wanted = identity_for(spec.table)
    refuse_drift(
        qualified_name(spec),
        (
            *property_drift(state.properties, wanted),
            *(drift(state.position.identity, wanted) if state.position else ()),
        ),
    )


def commit_rows(
    spec: JobSpec,
    batch: Batch,
    state: LakeState,
) -> Commit:
    """Writes the batch as exactly one commit and returns it as the timeline has it.

    TerminalError `missing_columns` when rows lack a column of the table: Hudi
    would write NULL into alive rows or fail half-way.
    """
    missing = [c for c in state.columns if c not in batch.rows.columns]
    if missing:
        raise TerminalError(
            f"the rows for {qualified_name(spec)} lack the columns"
            f" {', '.join(missing)}. Nothing was written",
            code="missing_columns",
            hint="a column disappeared at the source: resync the table",
        )
    identity = identity_for(spec.table)
    options = write_options(
        identity,
        name=spec.table.name,
        fence=writer_fence(spec),
        operation=batch.operation,
        position=encode_position(_position(spec, identity, batch.span)),
    )
    if batch.unique_keys:
        options = without_combining(options)
    is_done = False
    if isinstance(batch.rows, LightRows):
        is_done = commit_light(spec, batch.rows, state, options)
    if not is_done:
        _write(batch, place_at(spec.table.path).uri, options)
    found = commit_of(spec, batch.span.epoch_to)
    if found is None:
        raise TerminalError(
            f"the write to {qualified_name(spec)} ended without a commit",
            code="commit_missing",
            hint="retry the job; nothing of it is visible",
        )
    return found


def _write(batch: Batch, path: str, options: Mapping[str, str]) -> None:
    rows = batch.rows.frame() if isinstance(batch.rows, LightRows) else batch.rows
    if batch.operation == "upsert":
        rows.write.format("hudi").options(**options).mode("append").save(path)
        return
    jvm: Any = rows.sparkSession._jvm
    # Hudi's bulk_insert behind our own shuffle (ADR 11)
    load = jvm.io.sluice.lake.BulkLoad
    load.write(rows._jdf, {**options, "path": path}, batch.expected_rows)


def commit_of(spec: JobSpec, epoch: int | None = None) -> Commit | None:
    """This job's own commit (up to that epoch), when the lake already has it."""
    base = place_at(spec.table.path)
    timeline = read_timeline(base)
    # commits of the future are newer than ours, however many they are
    wanted = 10 + len(future_of(timeline))
    for commit in newest_commits(base, timeline, wanted=wanted):
        position = commit.position
        if position is None or commit.instant.action == "compaction":
            continue
        if position.run == spec.job_id and epoch in (None, position.epoch_to):
            return commit
    return None


def _position(spec: JobSpec, identity: TableIdentity, span: Span) -> CommitPosition:
    return CommitPosition(
        source=spec.source.datasource_id if spec.source else 0,
        start=span.start,
        end=span.end,
        epoch_from=span.epoch_from,
        epoch_to=span.epoch_to,
        run=spec.job_id,
        fence=spec.fence.token,
        identity=identity,
        load=span.load,
        load_name=span.load_name,
    )
