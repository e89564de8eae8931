"""Reading one statement's rows into Parquet files, counted, and stoppable.

It must not know why the rows are read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark import SparkContext
from pyspark.sql import Observation, SparkSession

from catalog.schema.limits import LIMITS
from ingest.contract.table import TableSpec
from ingest.driver.apply.jobrun import JobRun
from ingest.driver.apply.rows import observed_counts
from ingest.driver.capture.jdbc import Fetch, read_statement
from ingest.driver.capture.stall_timeout import SourceWatch
from ingest.lake.port import Place
from ingest.sources.registry import (
    SOURCE_ERRORS,
    Snapshot,
    Source,
    SourceAccess,
    cancel_statements,
    describe_sessions,
    idle_sessions,
    open_source,
)
from ingest.sources.select import Selection

# Left to itself, a writer first looks after 100 rows how large they are, and a reader
# takes 1,024 rows of a group at once.
_SMALL_GROUPS = {
    "parquet.block.size": str(16 << 20),
    "parquet.page.size.row.check.min": "1",
    "parquet.page.size.row.check.max": "16",
}


@dataclass(frozen=True, slots=True)
class Reading:
    """A complete statement and the snapshot in which it is read."""

    table: TableSpec
    access: SourceAccess
    selection: Selection
    sql: str
    snapshot: Snapshot
    fetch: Fetch


@dataclass(frozen=True, slots=True)
class Counts:
    """What was read: rows, those with a NULL in their key, those with a value
    that has no form in the lake."""

    rows: int
    null_keys: int
    unfit: int


@contextlib.contextmanager
def open_stoppable(
    run: JobRun, access: SourceAccess
) -> Iterator[tuple[Source, SourceAccess]]:
    """The source for a job, and the access with which Spark reads at the same server.
    While inside, a stop request cancels whatever the job runs there, on this
    connection or through Spark; a source that has fallen silent ends all of it."""

    opened: list[Source] = []

    def hang_up() -> None:
        for source in opened:
            source.hang_up()
        _end_readers(run, access)

    def cancel_at_source() -> None:
        try:
            cancel_statements(access)
        except SOURCE_ERRORS:
            # silent or gone: nothing will answer on the connections we have either
            hang_up()

    def waiting() -> dict[str, int]:
        found = _waiting_readers(access)
        for source in opened:
            found |= source.waiting(LIMITS.quiet)
        return found

    watch = SourceWatch(
        run,
        ask=lambda: describe_sessions(access),
        waiting=waiting,
        idle=lambda sessions: idle_sessions(access, sessions),
        hang_up=hang_up,
    )
    with run.stopped_by(cancel_at_source), open_source(access) as source:
        opened.append(source)
        with watch.watching():
            yield source, access.at(source.address)


def _end_readers(run: JobRun, access: SourceAccess) -> None:
    """Those in this JVM wake by the end of their sockets: a task that waits for a byte
    hears nothing else, and would keep its core. On a cluster they time out."""
    context = SparkContext._active_spark_context
    if context is None:
        return
    context.cancelJobsWithTag(run.tag)
    _sockets(context).hangUp(access.application)


def _waiting_readers(access: SourceAccess) -> dict[str, int]:
    """Those in this JVM that have waited for a byte for long, each wait by a name →
    their sessions."""
    context = SparkContext._active_spark_context
    if context is None:
        return {}
    found = str(_sockets(context).waiting(access.application, LIMITS.quiet))
    pairs = (each.split(":") for each in found.split(",") if each)
    return {wait: int(session) for wait, session in pairs}


def _sockets(context: SparkContext) -> Any:
    jvm: Any = context._jvm
    return jvm.io.sluice.lake.PinnedSocketFactory


def read_to_parquet(
    run: JobRun, spark: SparkSession, reading: Reading, folder: Place
) -> Counts:
    """Writes the rows to `folder`; the source must have been opened stoppable."""
    run.check()
    observed = Observation()
    rows = read_statement(
        spark,
        reading.access,
        reading.selection,
        sql=reading.sql,
        snapshot=reading.snapshot,
        fetch=reading.fetch,
    ).observe(observed, *observed_counts(reading.table, reading.selection))
    options = {"compression": "lz4_raw"}
    if reading.fetch.is_of_wide_rows:
        # A writer keeps the least and the greatest value of each group until its file
        # ends, and a group is small as it is compressed, not as a reader has it
        options |= _SMALL_GROUPS | {"maxRecordsPerFile": str(reading.fetch.most)}
    rows.write.options(**options).mode("overwrite").parquet(folder.uri)
    found = observed.get
    return Counts(*(int(found[name] or 0) for name in ("rows", "null_keys", "unfit")))
