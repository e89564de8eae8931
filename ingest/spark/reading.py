"""Reading one statement's rows into Parquet files, counted, and stoppable.

It must not know why the rows are read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as F

from ingest.changes.select import Selection
from ingest.spark.jdbc import read_statement
from ingest.spark.jobrun import JobRun
from ingest.spark.source import Source, SourceAccess, cancel_statements, open_source


@dataclass(frozen=True, slots=True)
class Reading:
    """A complete statement and the snapshot in which it is read."""

    access: SourceAccess
    selection: Selection
    sql: str
    snapshot: str
    row_bytes: int = 0


@contextlib.contextmanager
def open_stoppable(run: JobRun, access: SourceAccess) -> Iterator[Source]:
    """The source for a job: while inside, a stop request cancels whatever the job
    runs there, on this connection or through Spark."""

    def cancel_at_source() -> None:
        # an unreachable source has no statement of ours to cancel
        with contextlib.suppress(psycopg.Error):
            cancel_statements(access)

    with run.stopped_by(cancel_at_source), open_source(access) as source:
        yield source


def read_to_parquet(
    run: JobRun, spark: SparkSession, reading: Reading, folder: Path
) -> int:
    """Rows written to `folder`; the source must have been opened stoppable."""
    run.check()
    observed = Observation()
    rows = read_statement(
        spark,
        reading.access,
        reading.selection,
        sql=reading.sql,
        snapshot=reading.snapshot,
        row_bytes=reading.row_bytes,
    ).observe(observed, F.count(F.lit(1)).alias("rows"))
    rows.write.option("compression", "lz4_raw").mode("overwrite").parquet(
        folder.as_uri()
    )
    return int(observed.get["rows"])
