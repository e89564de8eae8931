"""Parquet files that a job has staged, as their own footers have them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from ingest.lake.port import Place


@dataclass(frozen=True, slots=True)
class ParquetFile:
    """memory: bytes that its pages take there."""

    place: Place
    bytes: int
    rows: int
    memory: int


def parquet_files(spark: SparkSession, folder: Place) -> list[ParquetFile]:
    named = sorted((file.path, file.size) for file in folder.files())
    return [
        _opened(spark, folder / name, size)
        for name, size in named
        if name.endswith(".parquet")
    ]


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
