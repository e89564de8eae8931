"""Parquet files that a job has staged, counted by their own footers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from core.errors import TransientError
from ingest.contract.job import JobSpec
from ingest.driver.apply.writer import qualified_name
from ingest.lake.port import Place


@dataclass(frozen=True, slots=True)
class ParquetFile:
    """memory: bytes that its pages take there."""

    place: Place
    bytes: int
    rows: int
    memory: int


def counted_files(
    spark: SparkSession, spec: JobSpec, folder: Place, rows: int
) -> list[ParquetFile]:
    """The files of a folder. TransientError `rows_miscounted` unless they have as many
    rows as were read."""
    named = sorted((file.path, file.size) for file in folder.files())
    found = [
        _opened(spark, folder / name, size)
        for name, size in named
        if name.endswith(".parquet")
    ]
    staged = sum(one.rows for one in found)
    if staged != rows:
        raise TransientError(
            f"{staged} rows are staged for {qualified_name(spec)}, and {rows} were"
            " read. Nothing was written",
            code="rows_miscounted",
            hint="it is tried again, and reads them again",
        )
    return found


def _opened(spark: SparkSession, place: Place, size: int) -> ParquetFile:
    """As its footer has it, which is read once."""
    with _footer(spark, place) as reader:
        blocks = reader.getFooter().getBlocks()
        memory = sum(int(block.getTotalByteSize()) for block in blocks)
        return ParquetFile(place, size, int(reader.getRecordCount()), memory)


@contextmanager
def _footer(spark: SparkSession, place: Place) -> Iterator[Any]:
    jvm: Any = spark._jvm
    context: Any = spark.sparkContext._jsc
    parquet, path = jvm.org.apache.parquet.hadoop, jvm.org.apache.hadoop.fs.Path
    reader = parquet.ParquetFileReader.open(
        parquet.util.HadoopInputFile.fromPath(
            path(place.uri), context.hadoopConfiguration()
        )
    )
    try:
        yield reader
    finally:
        reader.close()
