"""A moment of the source and the lake close behind it, of a table that follows a log.

Rows of the source are read as they were at one moment, or each chunk at its own. The
lake is read once it has all that was committed until the last of them; what else it may
have by then is in the stream, so which keys that is about is known, and every other key
has to be the same on both sides.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from core.errors import TransientError
from ingest.contract.segments import OP, OPS, UNCHANGED
from ingest.contract.source_positions import order_of
from ingest.driver.apply.jobrun import JobRun
from ingest.driver.apply.log_apply import write_rows
from ingest.driver.apply.log_fold import Shape, merge
from ingest.driver.apply.log_read import Stream, Waiting, is_before
from ingest.driver.apply.rows import change_fields, read_staged, record_key
from ingest.driver.apply.writer import qualified_name
from ingest.driver.capture.log_load import take_moment
from ingest.lake.chain import ChainIndex, stream_folder
from ingest.lake.commits import read_lake_table
from ingest.lake.place import place_at
from ingest.sources.port import Source
from ingest.sources.select import Selection

# An idle source's position moves on within seconds, for its follower is told.
APPLIED_SECONDS = 300.0
_POLL_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Since:
    """after: the moment shows all segments up to this one. at: its position; "" = each
    chunk shows a later moment of its own, and the position is that behind the last."""

    stream: Stream
    after: int
    at: str


def take_moment_of(run: JobRun, source: Source, name: str) -> Since:
    """In which the source is read from here on, until it is given back."""
    stream = Stream(ChainIndex(stream_folder(run.spec.lake, name), name))
    _read_on(run, stream)
    newest = stream.newest
    moment = take_moment(run, source)
    return Since(stream, newest.number if newest else 0, moment.at)


def require_behind_lake(run: JobRun, since: Since, here: str) -> None:
    """TransientError `source_moved` where the source that answers is not known to have
    all that was read of its log: a server that took its place and lags behind."""
    newest = since.stream.newest
    if newest and order_of(newest.end, here) in {"before", "equal"}:
        return
    raise TransientError(
        "another server answers as the source of %(table)s, and whether it"
        " has all that was read of the log is not known. Nothing was written",
        table=qualified_name(run.spec),
        code="source_moved",
        hint="it is tried again automatically, until the log is read from that server",
    )


def wait_applied(run: JobRun, since: Since) -> None:
    """Until the lake has all that the moment shows. TransientError `not_applied`."""
    run.explain("waits until the lake has what the source's log had now")
    until = time.monotonic() + APPLIED_SECONDS
    needed = _wait_read(run, since, until)
    while not _is_applied(run, since, needed):
        _wait(run, since, until)
    run.explain("")


def require_sent_values(run: JobRun, since: Since, *, applied: int) -> None:
    """TransientError `values_on_the_way` where a change that waits moves a row to
    another key and lacks some of its values. Apply takes them from the row that had the
    old key, and what is read of the source now is what has that key since."""
    needed = _wait_read(run, since, time.monotonic() + APPLIED_SECONDS)
    waiting = Waiting(since.stream, run.spec.table, applied)
    takes = any(_takes_values(p.rows) for parts in waiting.pieces() for p in parts)
    is_all = waiting.last is None or waiting.last.number >= needed
    if takes or not is_all or waiting.ahead:
        raise TransientError(
            "%(table)s has not applied yet what its log says of rows whose key"
            " changed, or more than one commit takes. Nothing was written",
            table=qualified_name(run.spec),
            code="values_on_the_way",
            hint="it is tried again automatically, once its log went on",
        )


def _takes_values(rows: pa.Table) -> bool:
    moved = pc.equal(rows[OP], OPS.index("moved"))
    return bool(pc.any(pc.and_(moved, pc.is_valid(rows[UNCHANGED]))).as_py())


def _wait_read(run: JobRun, since: Since, until: float) -> int:
    """Until the stream has all that the moment shows: the number of its segment."""
    _read_on(run, since.stream)
    while not ((newest := since.stream.newest) and _has(newest.end, since.at)):
        _wait(run, since, until)
    return newest.number


def _wait(run: JobRun, since: Since, until: float) -> None:
    if time.monotonic() > until:
        raise TransientError(
            "%(table)s did not get what its source's log had"
            " %(seconds)s s ago. Nothing was compared",
            table=qualified_name(run.spec),
            seconds=f"{APPLIED_SECONDS:.0f}",
            code="not_applied",
            hint="see whether the table is paused or late, and whether its source's"
            " log is read; then verify again",
        )
    run.check()
    time.sleep(_POLL_SECONDS)
    _read_on(run, since.stream)


def changed_keys(
    run: JobRun,
    spark: SparkSession,
    since: Since,
    selection: Selection,
    *,
    upto: int,
    scratch: Path,
) -> DataFrame:
    """Column `k`: keys that segments behind the moment are about, up to this one."""
    table = run.spec.table
    uris: list[str] = []
    _read_on(run, since.stream)  # the lake may have got more than it was known to have
    others = [c.source_name for c in table.columns if c.source_name not in table.key]
    shape, after = Shape.of(table, selection, added=others), since.after
    while after < upto:
        waiting = Waiting(since.stream, table, after)
        for parts in waiting.pieces():
            run.check()
            merged = merge(parts, shape)
            if merged.is_emptied or merged.emptied:
                raise TransientError(
                    "%(table)s was truncated at the source while it was verified."
                    " Nothing was compared",
                    table=qualified_name(run.spec),
                    code="table_emptied",
                    hint="it is tried again automatically",
                )
            path = scratch / f"{len(uris)}.parquet"
            write_rows(merged.rows, path)
            uris.append(place_at(str(path)).uri)
        after = waiting.last.number if waiting.last else upto
    if not uris:
        return spark.createDataFrame([], "k string")
    rows = read_staged(spark, selection, uris, *change_fields())
    return rows.select(record_key(table, selection).alias("k")).distinct()


def _has(end: str, at: str) -> bool:
    if order_of(end, at) == "unordered":
        raise TransientError(
            "another server took the place of the source while it was verified. Nothing"
            " was compared",
            code="source_moved",
            hint="it is tried again automatically",
        )
    return not is_before(end, at)


def _is_applied(run: JobRun, since: Since, needed: int) -> bool:
    table = run.spec.table
    position = read_lake_table(table.path).position
    applied = position.epoch_to if position else 0
    first, _ = since.stream.waiting(table.table_id, after=applied)
    return not first or first > needed


def _read_on(run: JobRun, stream: Stream) -> None:
    while stream.refresh():
        run.check()
