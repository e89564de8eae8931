"""Small batches without a Spark job: read, folded and committed in the driver's JVM.

What a row becomes is said by the same columns as for Spark's write (`rows`), compiled
once per table and run over the staged files in the calling thread (`RowPlan`); the
commit is Hudi's own append (`LightTable`). Whatever does not fit here is Spark's.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ingest.contract.job import JobSpec
from ingest.contract.table import TableSpec
from ingest.driver.apply.changes import change_fields, change_seq, is_delete
from ingest.driver.apply.jobrun import JobRun
from ingest.driver.apply.partitions import nameless_signs
from ingest.driver.apply.rows import lake_rows, staged_schema, unfit_signs
from ingest.driver.apply.staged_files import ParquetFile
from ingest.lake.commits import LakeState
from ingest.lake.hudi.evolution import has_columns
from ingest.lake.hudi.identity import SEQ, key_column, partition_columns
from ingest.lake.hudi.position import EXTRA_KEY
from ingest.lake.place import place_at
from ingest.lake.port import Place
from ingest.sources.select import Selection

# Above it a write by Spark costs less than twice as much, and rows would fill memory
# at once: docs/adr/0036-small-commits-without-a-job.md
MOST_ROWS = 5_000
# Of a file, before anything of it is in memory; LightRows bounds what all become.
MOST_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class LightRows:
    """Rows as the lake wants them, in the JVM's memory: of each key the last write."""

    columns: tuple[str, ...]
    handle: Any
    spark: SparkSession

    def frame(self) -> DataFrame:
        return DataFrame(self.handle.frame(), self.spark)


@dataclass(frozen=True, slots=True)
class _Shape:
    """What a plan depends on. Nothing of it changes from one commit to the next.
    has_changes: the rows were merged from a log, and some of them are deletes."""

    table: TableSpec
    selection: Selection
    has_changes: bool = False

    @classmethod
    def of(cls, table: TableSpec, now: Selection, *, has_changes: bool) -> _Shape:
        named = dataclasses.replace(table, estimated_rows=0, schema_version=0)
        return cls(named, now, has_changes)


@dataclass(frozen=True, slots=True)
class _Plan:
    """Compiled columns. signs: of which lake column a value is lost where the row has
    the sign."""

    columns: tuple[str, ...]
    signs: tuple[str, ...]
    handle: Any


def is_light(table: TableSpec, state: LakeState, rows: int) -> bool:
    """Whether so many rows may go this way: few, for the columns that are there.
    Rows that are counted, or leave what NULLs do not say, need Spark to be combined; a
    metadata table that somebody else made is removed by Spark's write."""
    return (
        0 < rows <= MOST_ROWS
        and not table.row_hash
        and table.updates == "full"
        and not state.properties.get("hoodie.table.metadata.partitions")
        and has_columns(state.written_schema, table)
    )


def read_light(
    run: JobRun,
    spark: SparkSession,
    files: Sequence[ParquetFile],
    selection: Selection,
    *,
    seq: int,
) -> LightRows | None:
    """All rows of these files, each with that `_sluice_seq`. None when they take too
    much memory."""
    table = run.spec.table
    plan = _plan(spark, _Shape.of(table, selection, has_changes=False))
    rows = plan.handle.begin(SEQ, [key_column(table), *partition_columns(table)])
    lost = dict.fromkeys(plan.signs, 0)
    for file in files:
        if file.memory > MOST_BYTES:
            return None
        found = plan.handle.read(rows, file.place.uri, file.bytes, seq)
        if found is None:
            return None
        for sign, count in zip(plan.signs, found.split(), strict=True):
            lost[sign] += int(count)
    run.note_lossy({name: count for name, count in lost.items() if count})
    return LightRows(plan.columns, rows, spark)


def read_merged(
    spark: SparkSession, place: Place, size: int, table: TableSpec, selection: Selection
) -> LightRows | None:
    """Rows of one file that were merged already: of each key the last change, with
    `_sluice_seq` as its index. None when they take too much memory."""
    plan = _plan(spark, _Shape.of(table, selection, has_changes=True))
    key = [key_column(table), *partition_columns(table)]
    rows = plan.handle.begin(SEQ, key)
    found = plan.handle.read(rows, place.uri, size, 0)
    return None if found is None else LightRows(plan.columns, rows, spark)


def commit_light(
    spec: JobSpec, rows: LightRows, state: LakeState, options: Mapping[str, str]
) -> bool:
    """One commit of these rows. False where a bucket has no file group yet, and for
    rows that Hudi has to combine: nothing was begun then."""
    jvm: Any = rows.spark._jvm
    own = {key: value for key, value in options.items() if key != EXTRA_KEY}
    instant = jvm.io.sluice.lake.LightTable.commit(
        rows.spark.sparkContext._jsc,
        place_at(spec.table.path).uri,
        spec.table.name,
        state.written_schema,
        own,
        rows.handle,
        {EXTRA_KEY: options[EXTRA_KEY]},
    )
    return bool(instant)


@functools.lru_cache(maxsize=500)
def _plan(spark: SparkSession, shape: _Shape) -> _Plan:
    """Compiled: some tens of milliseconds that every later commit of a table saves."""
    table, now = shape.table, shape.selection
    fields = change_fields() if shape.has_changes else ()
    schema = T.StructType([*staged_schema(now).fields, *fields])
    plans: Any = cast("Any", spark._jvm).io.sluice.lake.RowPlan
    source = DataFrame(plans.source(spark._jsparkSession, schema.json()), spark)
    signs = [*unfit_signs(now), *nameless_signs(table, now)]
    names = [f"sign{number}" for number in range(len(signs))]
    signed = [s.alias(n) for n, (_, s) in zip(names, signs, strict=True)]
    rows = lake_rows(
        source.select("*", *signed),
        table,
        now,
        seq=change_seq() if shape.has_changes else F.lit(0).cast("bigint"),
        deleted=is_delete() if shape.has_changes else None,
        also=names,
    )
    return _Plan(
        tuple(rows.columns[: len(rows.columns) - len(names)]),
        tuple(name for name, _ in signs),
        plans.of(rows._jdf, schema.json(), len(names)),
    )
