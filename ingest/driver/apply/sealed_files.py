"""Files of sealed events: signed when they are written, compared when they are read.

It must not know how events are captured or applied.
"""

from __future__ import annotations

import hashlib
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from core.errors import TerminalError
from ingest.contract.epochs import Seal, SealedFile
from ingest.contract.events import INDEX, OP
from ingest.contract.table import TableSpec
from ingest.driver.apply.rows import read_staged, spark_type, unfit_counts
from ingest.lake.epochs import epoch_folder
from ingest.lake.port import Place
from ingest.lake.sealed_columns import match_columns, selection_in
from ingest.sources.select import Selection

# What Hadoop and Parquet say of a file that is not what was written. Anything else may
# be a fault of the storage, and pass.
_DAMAGED = ("ChecksumException", "is not a Parquet file", "corrupted")


def sha256_of(spark: SparkSession, folder: Place) -> str:
    """Of names, sizes and bytes of the folder's Parquet files."""
    text = hashlib.sha256()
    for name, size in _parts(folder):
        text.update(f"{name} {size} {_sha256(spark, folder / name)}\n".encode())
    return text.hexdigest()


def refuse_damaged(
    spark: SparkSession, lake: str, seal: Seal, file: SealedFile
) -> None:
    """TerminalError `events_damaged` unless the files are those that were sealed: the
    same rows by their own footers, the same bytes where the seal says them."""
    folder = epoch_folder(lake, seal.source, seal.epoch) / file.path
    try:
        what = _damage(spark, folder, file)
    except Py4JJavaError as error:
        found = str(error.java_exception)
        if not any(sign in found for sign in _DAMAGED):
            raise
        what = f"files that cannot be read ({found.splitlines()[0]})"
    if what:
        raise TerminalError(
            f"epoch {seal.epoch} of table {file.table_id} has {what} in {folder.uri}."
            " Nothing was written",
            code="events_damaged",
            hint="put its files back from a copy of the lake, or resync the table",
        )


def _damage(spark: SparkSession, folder: Place, file: SealedFile) -> str:
    rows = sum(_rows(spark, folder / name) for name, _ in _parts(folder))
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
    more = (
        (T.StructField(OP, T.StringType()), T.StructField(INDEX, T.LongType()))
        if file.has_changes
        else ()
    )
    rows = read_staged(spark, then, [place.uri], *more)
    unfit: dict[str, int] = {}
    if file.unfit:
        counted, names = unfit_counts(rows, then), _lake_names(table)
        unfit = {names.get(name, name): count for name, count in counted.items()}
    if all(c.alias == c.alias_now for c in matched) and _shape(then) == _shape(now):
        return rows, unfit
    columns = [
        (F.col(c.alias) if c.alias else F.lit(None))
        .cast(spark_type(c.type))
        .alias(c.alias_now)
        for c in matched
    ]
    return rows.select(*columns, *(field.name for field in more)), unfit


def _shape(selection: Selection) -> list[tuple[str, str, int]]:
    return [(c.alias, c.type, c.bit) for c in selection.columns]


def _lake_names(table: TableSpec) -> dict[str, str]:
    return {c.source_name: c.name for c in table.columns}


def _parts(folder: Place) -> list[tuple[str, int]]:
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


def _rows(spark: SparkSession, place: Place) -> int:
    jvm, path, conf = _hadoop(spark, place)
    parquet = jvm.org.apache.parquet.hadoop
    reader = parquet.ParquetFileReader.open(
        parquet.util.HadoopInputFile.fromPath(path, conf)
    )
    try:
        return int(reader.getRecordCount())
    finally:
        reader.close()


def _hadoop(spark: SparkSession, place: Place) -> tuple[Any, Any, Any]:
    jvm: Any = spark._jvm
    context: Any = spark.sparkContext._jsc
    return jvm, jvm.org.apache.hadoop.fs.Path(place.uri), context.hadoopConfiguration()
