"""Commits from a clock that was ahead: their rows are kept, their instants go.

Hudi merges a commit of now below one of the future, so until then nothing can be
written. The rows of such a table, as readers see them, are written once more by one
commit of now; then its file groups are all of now, and the instants of the future speak
of replaced ones only and are taken off the timeline. The caller holds both leases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from core.errors import TerminalError, TransientError
from ingest.contract.job import JobSpec
from ingest.driver.apply.clocks import (
    future_of,
    require_clock,
    require_not_behind,
    savepoints_of_the_future,
    soon,
)
from ingest.driver.apply.jobrun import JobRun
from ingest.driver.apply.replacement import bytes_of, replace_rows, snapshot_of
from ingest.driver.apply.writer import commit_of, qualified_name, require_identity
from ingest.lake.commits import Commit, read_lake_table, timeline_at
from ingest.lake.fence import require_fence
from ingest.lake.hudi.layout import TableFile, parse_file
from ingest.lake.layout import META, list_files, read_layout
from ingest.lake.place import place_at
from ingest.lake.staging import require_space

_DIGITS = 17


def rewrite_future(
    run: JobRun, spark: SparkSession, *, clear: Callable[[JobRun, SparkSession], None]
) -> dict[str, Any]:
    """Facts for the report; {} when no instant is of the future. `clear` takes pending
    compactions off the timeline before."""
    spec = run.spec
    found = future_of(timeline_at(spec.table.path))
    if not found:
        return {}
    require_clock(run)
    # by such a clock everything would look like the future
    require_not_behind(run)
    state = read_lake_table(spec.table.path)
    if state.position is None:
        raise TerminalError(
            "%(table)s has instants of the future and no position",
            table=qualified_name(spec),
            code="no_position",
            hint="resync the table: that takes them away, too",
        )
    require_identity(spec, state)
    commit = commit_of(spec)
    if commit is None:
        clear(run, spark)
        layout = read_layout(spec.table.path, state.timeline)
        require_space(spec.table.staging, bytes_of(layout))
        rows = snapshot_of(spark, spec)
        count = rows.count()
        run.enter("rewriting", total=count)
        commit = replace_rows(run, rows, state, expected=count)
        run.add_done(count)
    gone = remove_future(run, commit)
    return {"from_the_future": gone, "instant": commit.instant.asked}


def remove_future(run: JobRun, replaced: Commit) -> list[str]:
    """Takes instants of the future off the timeline, and then the files that they
    wrote; these instants. Only behind a commit of now that `replaced` all file groups;
    as often as it takes, for what a death leaves of one is no commit any more.

    TransientError `clock_behind` when this driver's clock is behind: that commit, and
    all rows with it, would be of the future then.
    """
    spec = run.spec
    require_fence(spec.fence)
    if not _of_the_future(spec).is_there:
        return []
    require_not_behind(run)
    _require_past(spec, replaced)
    # looked at anew: what there was before is of a clock that nothing was known of
    found = _of_the_future(spec)
    base = place_at(spec.table.path)
    timeline = base / META / "timeline"
    # completed first: an instant without that is unfinished, and undone as such
    for name in sorted(timeline.names(), key=lambda n: "_" not in n):
        asked, is_savepoint = name.lstrip(".")[:_DIGITS], ".savepoint" in name
        if asked in found.gone or (is_savepoint and asked in found.kept):
            (timeline / name).delete()
    for file in found.files:
        (base / f"{file.partition}/{file.name}".lstrip("/")).delete()
    return found.gone


@dataclass(frozen=True, slots=True)
class _Future:
    """What a table has of the future: instants, savepoints, files. A death between the
    first and the last leaves files that no instant speaks of."""

    gone: list[str]
    kept: list[str]
    files: list[TableFile]

    @property
    def is_there(self) -> bool:
        return bool(self.gone or self.kept or self.files)


def _of_the_future(spec: JobSpec) -> _Future:
    timeline, now = timeline_at(spec.table.path), soon()
    return _Future(
        future_of(timeline),
        savepoints_of_the_future(timeline),
        [
            file
            for file in list_files(place_at(spec.table.path))
            if (data := parse_file(file.name)) is not None and data.instant > now
        ],
    )


def _require_past(spec: JobSpec, commit: Commit) -> None:
    """The clock may have been set back since another attempt made it."""
    if max(commit.instant.asked, commit.instant.completed) > soon():
        raise TransientError(
            "commit %(asked)s of %(table)s, which replaced all of its rows, is"
            " of the future: the clock of this driver's host is behind. Nothing"
            " was removed",
            asked=commit.instant.asked,
            table=qualified_name(spec),
            code="clock_behind",
            hint="set the clock of this host right, best by NTP; the job is tried"
            " again",
        )
