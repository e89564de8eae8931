"""A table that followed its source's log goes on by a cursor, without being read again.

The order is what makes it exact. First the cursor value is noted up to which every row
at the source is committed; then the place where the log ends; then all up to there is
applied. So the lake has each change up to that value, deletes too, and the first sync
reads what is behind it: what it has of that already it writes once more.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp

from pyspark.sql import SparkSession

from core.errors import TransientError
from ingest.contract.positions import to_text
from ingest.contract.source_positions import is_of_log
from ingest.driver.apply.jobrun import JobRun
from ingest.driver.apply.log_apply import LogTable
from ingest.driver.apply.log_read import Stream, is_before
from ingest.driver.apply.writer import qualified_name
from ingest.driver.capture.reading import open_stoppable, read_bound
from ingest.driver.capture.timestamp import sync_work
from ingest.lake.chain import ChainIndex, stream_folder
from ingest.lake.commits import LakeState
from ingest.sources.port import SourceAccess
from ingest.sources.statements import has_zone

LEVEL_SECONDS = 300.0
_POLL_SECONDS = 0.25


def leave_log(
    run: JobRun, spark: SparkSession, access: SourceAccess, state: LakeState
) -> str:
    """The position from which on the cursor goes on: the lake's where an attempt before
    this one has gone over. TransientError `not_level` where the source's log is not
    read, or not applied, within minutes."""
    if state.position and not is_of_log(state.position.end):
        return state.position.end
    run.enter("applying what the log has")
    with open_stoppable(run, access) as (source, _):
        lag = sync_work(run).lag_seconds
        _, bound = read_bound(run, source, lag_seconds=lag, low=None)
        end = source.here()
    scratch = Path(mkdtemp(prefix="sluice-leave-"))
    # its commits are not the one by which the table goes over
    spec = replace(run.spec, job_id=f"{run.spec.job_id}-log")
    try:
        _bring_level(run, LogTable(spark, spec, scratch / "rows"), end)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return to_text(bound.high, has_zone=has_zone(run.spec.table))


def _bring_level(run: JobRun, table: LogTable, end: str) -> None:
    name = sync_work(run).stream
    stream = Stream(ChainIndex(stream_folder(run.spec.lake, name), name))
    until = time.monotonic() + LEVEL_SECONDS
    run.explain("waits until what the source's log has now is applied")
    while not _is_level(run, table, stream, end):
        if time.monotonic() > until:
            raise TransientError(
                "%(table)s did not get what its source's log had %(seconds)s"
                " s ago. It follows the log as before",
                table=qualified_name(run.spec),
                seconds=f"{LEVEL_SECONDS:.0f}",
                code="not_level",
                hint="see whether the source's log is read, then ask again",
            )
        time.sleep(_POLL_SECONDS)
    run.explain("")


def _is_level(run: JobRun, table: LogTable, stream: Stream, end: str) -> bool:
    while stream.refresh():
        run.check()
    newest = stream.newest
    while table.bring_on(stream, run.check).commit is not None:
        run.check()
    if newest is None or is_before(newest.end, end):
        return False
    first, _ = stream.waiting(run.spec.table.table_id, after=table.after)
    return table.is_followed(stream) and not first
