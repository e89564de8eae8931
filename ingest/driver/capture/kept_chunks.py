"""Where the rows of a load wait for its commit, chunk by chunk.

Staged as Parquet files, a finished chunk outlives the driver, and is never read again.
But each row is encoded twice. The chunks of a short load lie in Spark's shuffle files,
from which the commit takes the rows of each bucket as they are: they end with this
driver, and the next attempt reads all of them again. It must not know how chunks are
cut.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession

from ingest.driver.apply.jobrun import JobRun
from ingest.driver.apply.rows import read_staged
from ingest.driver.capture.reading import (
    Counts,
    Reading,
    read_to_buckets,
    read_to_parquet,
)
from ingest.lake.staging import ChunkManifest, StagingArea
from ingest.sources.select import Selection

# One task each, which has its file open to the end.
_MOST_BUCKETS = 200


class KeptChunks(Protocol):
    @property
    def are_placed(self) -> bool:
        """Whether each partition of `frame` has the rows of one bucket."""
        ...

    def finished(self) -> Mapping[int, ChunkManifest]: ...

    def read(self, reading: Reading, number: int) -> ChunkManifest:
        """Reads a chunk. It is finished once this returns."""
        ...

    def frame(self, selection: Selection) -> DataFrame:
        """The rows of all that are finished, as often as wanted."""
        ...

    def close(self) -> None:
        """What this driver alone knows of goes."""
        ...


def can_be_bucketed(run: JobRun, spark: SparkSession) -> bool:
    """Whether the rows of a short load can wait in `BucketedChunks`."""
    table = run.spec.table
    context: Any = spark.sparkContext._jsc
    return (
        # others go by their hash or their partition, which is not known here
        not (table.row_hash or table.partition_by)
        and table.buckets <= _MOST_BUCKETS
        # an executor that is lost takes along what it holds
        and bool(context.sc().isLocal())
    )


@dataclass(frozen=True, slots=True)
class StagedChunks:
    """See `KeptChunks`."""

    run: JobRun
    spark: SparkSession
    staging: StagingArea
    are_placed: bool = False

    def finished(self) -> Mapping[int, ChunkManifest]:
        return self.staging.finished()

    def read(self, reading: Reading, number: int) -> ChunkManifest:
        folder = self.staging.chunk_folder(number)
        folder.delete_all()
        counts = read_to_parquet(self.run, self.spark, reading, folder)
        manifest = _manifest(reading, counts, number)
        self.staging.finish(manifest)
        return manifest

    def frame(self, selection: Selection) -> DataFrame:
        folders = [
            self.staging.chunk_folder(one.number).uri
            for one in self.finished().values()
            if one.rows
        ]
        return read_staged(self.spark, selection, folders)

    def close(self) -> None:
        """The end of the load removes what is staged."""


@dataclass(frozen=True, slots=True)
class BucketedChunks:
    """See `KeptChunks`."""

    run: JobRun
    spark: SparkSession
    are_placed: bool = True
    _found: dict[int, tuple[ChunkManifest, Any]] = field(default_factory=dict)

    def finished(self) -> Mapping[int, ChunkManifest]:
        return {number: manifest for number, (manifest, _) in self._found.items()}

    def read(self, reading: Reading, number: int) -> ChunkManifest:
        counts, rows = read_to_buckets(self.run, self.spark, reading)
        manifest = _manifest(reading, counts, number)
        self._found[number] = manifest, rows
        return manifest

    def frame(self, selection: Selection) -> DataFrame:
        like = read_staged(self.spark, selection, ())
        # in the order of their keys, as they are looked for
        found = [self._found[number] for number in sorted(self._found)]
        chunks = [rows for manifest, rows in found if manifest.rows]
        jvm: Any = self.spark._jvm
        together = jvm.io.sluice.lake.BucketedRows.together(chunks, like._jdf)
        return DataFrame(together, self.spark)

    def close(self) -> None:
        for _, rows in self._found.values():
            rows.drop()


def _manifest(reading: Reading, counts: Counts, number: int) -> ChunkManifest:
    # where connections share no snapshot, each chunk has its own moment
    moment = reading.snapshot.id or f"chunk {number}"
    return ChunkManifest(number, moment, counts.rows, counts.null_keys, counts.unfit)
