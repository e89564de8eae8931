"""Files of sealed events: signed when they are written, compared when they are read.

It must not know how events are captured or applied.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, get_args

from py4j.protocol import Py4JJavaError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from core.errors import TerminalError
from ingest.contract.epochs import MAX_INDEX, Seal, SealedFile, seq_of
from ingest.contract.events import INDEX, OP, Op
from ingest.contract.table import TableSpec
from ingest.driver.apply.rows import read_staged, spark_type, unfit_counts
from ingest.lake.epochs import epoch_folder
from ingest.lake.port import Place
from ingest.lake.sealed_columns import StagedColumn, match_columns, selection_in
from ingest.sources.select import Selection

# What Hadoop and Parquet say of a file that is not what was written. Anything else may
# be a fault of the storage, and pass.
_DAMAGED = ("ChecksumException", "is not a Parquet file", "corrupted")


@dataclass(frozen=True, slots=True)
class ParquetFile:
    """A Parquet file of a folder. memory: bytes that its pages take there."""

    name: str
    bytes: int
    rows: int
    memory: int


def sha256_of(spark: SparkSession, folder: Place) -> str:
    """Of names, sizes and bytes of the folder's Parquet files."""
    text = hashlib.sha256()
    for name, size in parts(folder):
        text.update(f"{name} {size} {_sha256(spark, folder / name)}\n".encode())
    return text.hexdigest()


def refuse_damaged(
    spark: SparkSession, lake: str, seal: Seal, file: SealedFile
) -> list[ParquetFile]:
    """The files. TerminalError `events_damaged` unless they are those that were sealed:
    the same rows by their own footers, the same bytes where the seal says them."""
    folder = epoch_folder(lake, seal.source, seal.epoch) / file.path
    try:
        found = [_opened(spark, folder, name, size) for name, size in parts(folder)]
        what = _damage(spark, folder, file, sum(one.rows for one in found))
    except Py4JJavaError as error:
        said = str(error.java_exception)
        if not any(sign in said for sign in _DAMAGED):
            raise
        found, what = [], f"files that cannot be read ({said.splitlines()[0]})"
    if what:
        raise TerminalError(
            f"epoch {seal.epoch} of table {file.table_id} has {what} in {folder.uri}."
            " Nothing was written",
            code="events_damaged",
            hint="put its files back from a copy of the lake, or resync the table",
        )
    return found


def _damage(spark: SparkSession, folder: Place, file: SealedFile, rows: int) -> str:
    if rows != file.rows:
        return f"{rows} rows where its seal says {file.rows}"
    if file.sha256 and sha256_of(spark, folder) != file.sha256:
        return "other bytes than its seal says"
    return ""


def read_sealed(
    spark: SparkSession,
    place: Place,
    *,
    seal: Seal,
    file: SealedFile,
    table: TableSpec,
    now: Selection,
) -> tuple[DataFrame, dict[str, int]]:
    """Staged rows with the aliases of the present plan, those of changes with what
    happened and their index beside; and how many values of which column are unfit."""
    then, matched = selection_in(file), match_columns(seal, file, table, now)
    more = change_fields(has_changes=file.has_changes)
    rows = read_staged(spark, then, [place.uri], *more)
    unfit: dict[str, int] = {}
    if file.unfit:
        counted, names = unfit_counts(rows, then), lake_names(table)
        unfit = {names.get(name, name): count for name, count in counted.items()}
    also = [field.name for field in more]
    return aligned(rows, matched, then=then, now=now, also=also), unfit


def aligned(
    rows: DataFrame,
    matched: Sequence[StagedColumn],
    *,
    then: Selection,
    now: Selection,
    also: Sequence[str],
) -> DataFrame:
    """Staged rows with the aliases and types of the present plan. also: columns that
    stay beside."""
    if all(c.alias == c.alias_now for c in matched) and _shape(then) == _shape(now):
        return rows
    columns = [
        (F.col(c.alias) if c.alias else F.lit(None))
        .cast(spark_type(c.type))
        .alias(c.alias_now)
        for c in matched
    ]
    return rows.select(*columns, *also)


def change_fields(*, has_changes: bool) -> tuple[T.StructField, ...]:
    """What a file of changes has beside the columns of its rows."""
    if not has_changes:
        return ()
    return T.StructField(OP, T.StringType()), T.StructField(INDEX, T.LongType())


def sequence_base(seal: Seal, file: SealedFile) -> int:
    """`_sluice_seq` of each row without `sequence_offset`. Keys are unique in one
    snapshot, so all of its rows may carry the same index."""
    return seq_of(seal.epoch, 0 if file.has_changes else 1)


def sequence_offset(*, has_changes: bool) -> Column:
    """Of changes their index."""
    offset = F.coalesce(INDEX, F.lit(0)) if has_changes else F.lit(0)
    return offset.cast("bigint")


def deletion(*, has_changes: bool) -> Column | None:
    """Which rows are gone; None = none."""
    if not has_changes:
        return None
    return F.coalesce(F.col(OP) == "delete", F.lit(False))  # noqa: FBT003


def unknown_change() -> Column:
    """Of a change that would be taken for another: of an operation that is not known,
    or without a place in its epoch."""
    is_known = F.col(OP).isin(*get_args(Op)) & F.col(INDEX).between(1, MAX_INDEX)
    return ~F.coalesce(is_known, F.lit(False))  # noqa: FBT003


def _shape(selection: Selection) -> list[tuple[str, str, int]]:
    return [(c.alias, c.type, c.bit) for c in selection.columns]


def lake_names(table: TableSpec) -> dict[str, str]:
    return {c.source_name: c.name for c in table.columns}


def parts(folder: Place) -> list[tuple[str, int]]:
    """Name and bytes of the folder's Parquet files."""
    return sorted(
        (f.path, f.size) for f in folder.files() if f.path.endswith(".parquet")
    )


def _sha256(spark: SparkSession, place: Place) -> str:
    """In the JVM, for it reads every storage; in passing, a file may be large."""
    jvm, path, conf = _hadoop(spark, place)
    stream = path.getFileSystem(conf).open(path)
    try:
        return str(jvm.org.apache.commons.codec.digest.DigestUtils.sha256Hex(stream))
    finally:
        stream.close()


def _opened(spark: SparkSession, folder: Place, name: str, size: int) -> ParquetFile:
    """As its footer has it, which is read once."""
    with _footer(spark, folder / name) as reader:
        blocks = reader.getFooter().getBlocks()
        memory = sum(int(block.getTotalByteSize()) for block in blocks)
        return ParquetFile(name, size, int(reader.getRecordCount()), memory)


@contextmanager
def _footer(spark: SparkSession, place: Place) -> Iterator[Any]:
    jvm, path, conf = _hadoop(spark, place)
    parquet = jvm.org.apache.parquet.hadoop
    reader = parquet.ParquetFileReader.open(
        parquet.util.HadoopInputFile.fromPath(path, conf)
    )
    try:
        yield reader
    finally:
        reader.close()


def _hadoop(spark: SparkSession, place: Place) -> tuple[Any, Any, Any]:
    jvm: Any = spark._jvm
    context: Any = spark.sparkContext._jsc
    return jvm, jvm.org.apache.hadoop.fs.Path(place.uri), context.hadoopConfiguration()
