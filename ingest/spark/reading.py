"""Reading one statement's rows into Parquet files, counted, and stoppable.

It must not know why the rows are read.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

import psycopg
from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as F

from ingest.changes.select import Selection
from ingest.spark.jdbc import read_statement
from ingest.spark.jobrun import JobRun
from ingest.spark.source import SourceAccess, cancel_statements


@dataclass(frozen=True, slots=True)
class Reading:
    """A complete statement and the snapshot in which it is read."""

    access: SourceAccess
    selection: Selection
    sql: str
    snapshot: str


def read_to_parquet(
    run: JobRun, spark: SparkSession, reading: Reading, folder: Path
) -> int:
    """Rows written to `folder`. A stop request cancels the source's statement."""

    def cancel_at_source() -> None:
        # an unreachable source has no statement of ours to cancel
        with contextlib.suppress(psycopg.Error):
            cancel_statements(reading.access)

    observed = Observation()
    rows = read_statement(
        spark,
        reading.access,
        reading.selection,
        sql=reading.sql,
        snapshot=reading.snapshot,
    ).observe(observed, F.count(F.lit(1)).alias("rows"))
    with run.stopped_by(cancel_at_source):
        rows.write.option("compression", "lz4_raw").mode("overwrite").parquet(
            folder.as_uri()
        )
    return int(observed.get["rows"])
