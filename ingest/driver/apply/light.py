"""Small batches without a Spark job: read, folded and committed in the driver's JVM.

What a row becomes is said by the same columns as for Spark's write (`rows`), compiled
once per table and run over the sealed files in the calling thread (`RowPlan`); the
commit is Hudi's own append (`LightTable`). Whatever does not fit here is Spark's.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import types as T

from ingest.contract.epochs import Seal, SealedFile
from ingest.contract.job import JobSpec
from ingest.contract.table import TableSpec
from ingest.driver.apply.jobrun import JobRun
from ingest.driver.apply.partitions import nameless_signs
from ingest.driver.apply.rows import lake_rows, staged_schema, unfit_signs
from ingest.driver.apply.sealed_files import (
    aligned,
    change_fields,
    deletion,
    lake_names,
    refuse_damaged,
    sequence_base,
    sequence_offset,
    unknown_change,
)
from ingest.lake.commits import LakeState
from ingest.lake.epochs import epoch_folder
from ingest.lake.hudi.evolution import has_columns
from ingest.lake.hudi.identity import SEQ, key_column, partition_columns
from ingest.lake.hudi.position import EXTRA_KEY
from ingest.lake.place import place_at
from ingest.lake.port import Place
from ingest.lake.sealed_columns import (
    StagedColumn,
    columns_of,
    match_columns,
    selection_in,
)
from ingest.sources.select import Selection

# Above it a write by Spark costs less than twice as much, and rows would fill memory
# at once: docs/adr/0036-small-commits-without-a-job.md
MOST_ROWS = 5_000
# Of a file, before anything of it is in memory; LightRows bounds what all become.
MOST_BYTES = 16 << 20

Part = tuple[Seal, SealedFile]


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
    """What a plan depends on. Nothing of it changes from epoch to epoch."""

    table: TableSpec
    matched: tuple[StagedColumn, ...]
    then: Selection
    now: Selection
    has_changes: bool


@dataclass(frozen=True, slots=True)
class _Plan:
    """Compiled columns. signs: of which lake column a value is lost where the row has
    the sign, "" = it is a change that is not known."""

    columns: tuple[str, ...]
    signs: tuple[str, ...]
    handle: Any


def is_light(table: TableSpec, state: LakeState, files: Sequence[SealedFile]) -> bool:
    """Whether these files may go this way: few rows, for the columns that are there.
    Rows that are counted, or leave what NULLs do not say, need Spark to be combined; a
    metadata table that somebody else made is removed by Spark's write."""
    return (
        0 < sum(file.rows for file in files) <= MOST_ROWS
        and not table.row_hash
        and table.updates == "full"
        and not state.properties.get("hoodie.table.metadata.partitions")
        and has_columns(state.written_schema, table)
    )


def read_light(
    run: JobRun, spark: SparkSession, found: Sequence[Part], selection: Selection
) -> LightRows | None:
    """The last write per key of all these files. None for rows that take too much
    memory, and for changes that are not known: Spark's way refuses them by name."""
    table = run.spec.table
    shapes = [_shape(seal, file, table, selection) for seal, file in found]
    plans = [_plan(spark, shape) for shape in shapes]
    key = [key_column(table), *partition_columns(table)]
    rows = plans[0].handle.begin(SEQ, key)
    lost: dict[str, int] = {}
    for plan, (seal, file) in zip(plans, found, strict=True):
        counts = _read(run, spark, plan, rows, seal, file)
        if counts is None or counts.pop("", 0):
            return None
        lost = {name: lost.get(name, 0) + counts.get(name, 0) for name in lost | counts}
    run.note_lossy({name: count for name, count in lost.items() if count})
    return LightRows(plans[0].columns, rows, spark)


def read_merged(
    spark: SparkSession, place: Place, size: int, table: TableSpec, selection: Selection
) -> LightRows | None:
    """Rows of one file that were merged already: of each key the last change, with
    `_sluice_seq` as its index. None when they take too much memory."""
    plan = _plan(spark, _shape_now(table, selection))
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


def _read(
    run: JobRun,
    spark: SparkSession,
    plan: _Plan,
    rows: Any,
    seal: Seal,
    file: SealedFile,
) -> dict[str, int] | None:
    """How many rows have which sign; None when they take too much memory."""
    lake = run.spec.lake
    parts = refuse_damaged(spark, lake, seal, file)
    folder = epoch_folder(lake, seal.source, seal.epoch) / file.path
    base = sequence_base(seal, file)
    counts: dict[str, int] = {}
    for part in parts:
        if part.memory > MOST_BYTES:
            return None
        found = plan.handle.read(rows, (folder / part.name).uri, part.bytes, base)
        if found is None:
            return None
        for sign, count in zip(plan.signs, found.split(), strict=True):
            counts[sign] = counts.get(sign, 0) + int(count)
    return counts


def _shape(seal: Seal, file: SealedFile, table: TableSpec, now: Selection) -> _Shape:
    return _Shape(
        dataclasses.replace(table, estimated_rows=0, schema_version=0),
        tuple(match_columns(seal, file, table, now)),
        selection_in(file),
        now,
        file.has_changes,
    )


def _shape_now(table: TableSpec, now: Selection) -> _Shape:
    columns = columns_of(now, table.columns)
    file = SealedFile(table.table_id, "", 0, 0, columns=columns, has_changes=True)
    return _Shape(
        dataclasses.replace(table, estimated_rows=0, schema_version=0),
        tuple(StagedColumn(c.alias, c.alias, c.type) for c in columns),
        selection_in(file),
        now,
        has_changes=True,
    )


@functools.lru_cache(maxsize=500)
def _plan(spark: SparkSession, shape: _Shape) -> _Plan:
    """Compiled: some tens of milliseconds that every later epoch of a table saves."""
    table, now, has_changes = shape.table, shape.now, shape.has_changes
    fields = change_fields(has_changes=has_changes)
    schema = T.StructType([*staged_schema(shape.then).fields, *fields])
    plans: Any = cast("Any", spark._jvm).io.sluice.lake.RowPlan
    source = DataFrame(plans.source(spark._jsparkSession, schema.json()), spark)
    signs = _signs(shape)
    names = [f"sign{number}" for number in range(len(signs))]
    signed = [s.alias(n) for n, (_, s) in zip(names, signs, strict=True)]
    also = [*(field.name for field in fields), *names]
    rows = source.select("*", *signed)
    rows = aligned(rows, shape.matched, then=shape.then, now=now, also=also)
    nameless = nameless_signs(table, now)
    names += [f"nameless{number}" for number in range(len(nameless))]
    signed = [
        s.alias(n) for n, (_, s) in zip(names[len(signs) :], nameless, strict=True)
    ]
    rows = lake_rows(
        rows.select("*", *signed),
        table,
        now,
        seq=sequence_offset(has_changes=has_changes),
        deleted=deletion(has_changes=has_changes),
        also=names,
    )
    return _Plan(
        tuple(rows.columns[: len(rows.columns) - len(names)]),
        tuple(name for name, _ in (*signs, *nameless)),
        plans.of(rows._jdf, schema.json(), len(names)),
    )


def _signs(shape: _Shape) -> list[tuple[str, Column]]:
    lake = lake_names(shape.table)
    unfit = [(lake.get(name, name), s) for name, s in unfit_signs(shape.then)]
    return [("", unknown_change()), *unfit] if shape.has_changes else unfit
