"""One row per key: duplicates are found, explained, and replaced away in one commit.

The row with the highest `_sluice_seq` stays, of equal ones that of the newest commit.
The replacement writes whole rows with the row writer, so it also works where Hudi
refuses to write ("multiple files … same bucket id"). A savepoint keeps the way back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from ingest.contract.job import JobSpec
from ingest.contract.table import TableSpec
from ingest.driver.apply.apply import roll_back_writes
from ingest.driver.apply.jobrun import JobRun
from ingest.driver.apply.replacement import (
    bytes_of,
    own_columns,
    replace_rows,
    require_replaced,
    snapshot_of,
)
from ingest.driver.apply.writer import checked_state, commit_of, not_loaded
from ingest.driver.table_services.savepoints import make_savepoint
from ingest.lake.commits import Commit, read_lake_table
from ingest.lake.hudi.identity import SEQ, key_column
from ingest.lake.hudi.layout import Layout, bucket_of
from ingest.lake.layout import read_layout
from ingest.lake.staging import require_space
from ingest.maintenance.duplicates import (
    Duplicates,
    Signs,
    bucket_for,
    facts_of,
    likely_cause,
)

_KEY, _PARTITION = "_hoodie_record_key", "_hoodie_partition_path"
_FILE, _COMMIT, _NUMBER = (
    "_hoodie_file_name",
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
)
_EXAMPLES = 20
_LOADS_LOOKED_AT = 50


@dataclass(frozen=True, slots=True)
class _Found:
    counted: Duplicates
    cause: str
    examples: list[dict[str, Any]]

    @property
    def facts(self) -> dict[str, Any]:
        return facts_of(self.counted, self.cause, examples=self.examples)


def deduplicate(
    run: JobRun, spark: SparkSession, *, clear: Callable[[JobRun, SparkSession], None]
) -> dict[str, Any]:
    """`clear` takes pending compactions off the timeline before the replacement."""
    spec = run.spec
    state = checked_state(spec)
    if state.position is None:
        raise not_loaded(spec)
    is_preview = spec.repair is not None and spec.repair.dry_run
    if not is_preview and (commit := commit_of(spec)):
        run.enter("comparing")
        require_replaced(spark, spec, commit, kept=lambda rows: _kept(rows, spec.table))
        return {"action": "deduplicate", **_committed(commit)}
    run.enter("looking for duplicates")
    layout = read_layout(spec.table.path, state.timeline)
    found = _look(spark, spec, layout)
    facts = {"action": "deduplicate", "dry_run": is_preview, **found.facts}
    if is_preview or (found.counted.is_clean and _is_placed(layout, spec.table)):
        return facts
    state = roll_back_writes(spark, spec, state)
    clear(run, spark)
    run.enter("keeping a savepoint")
    savepoint = make_savepoint(spark, spec, why=f"before repair {spec.job_id}")
    require_space(spec.table.staging, bytes_of(layout))
    run.enter("replacing", total=found.counted.keys)
    kept = _kept(snapshot_of(spark, spec), spec.table)
    commit = replace_rows(run, kept, state, expected=found.counted.keys)
    run.add_done(found.counted.keys)
    return {**facts, "savepoint": savepoint, **_committed(commit)}


def _committed(commit: Commit) -> dict[str, Any]:
    return {"instant": commit.instant.asked, "committed_rows": commit.rows_written}


def _look(spark: SparkSession, spec: JobSpec, layout: Layout) -> _Found:
    rows = snapshot_of(spark, spec)
    per_partition = rows.groupBy(_KEY, _PARTITION).agg(F.count("*").alias("n"))
    per_key = per_partition.groupBy(_KEY).agg(
        F.sum("n").alias("rows"),
        F.max("n").alias("most"),
        F.count("*").alias("partitions"),
    )
    summed = per_key.agg(
        F.sum("rows"),
        F.count("*"),
        F.sum((F.col("most") > 1).cast("bigint")),
        F.sum((F.col("partitions") > 1).cast("bigint")),
    ).first()
    total, keys, within, across = (int(v or 0) for v in summed or (0, 0, 0, 0))
    counted = Duplicates(total, keys, within, across, len(layout.conflicts))
    examples = _examples(rows, per_key) if counted.surplus else []
    cause = likely_cause(counted, _signs(spec, layout, examples))
    return _Found(counted, cause, examples)


def _is_placed(layout: Layout, table: TableSpec) -> bool:
    """Rows in a bucket that the table has not are missed by their next change."""
    return all((group.bucket or 0) < table.buckets for group in layout.groups)


def _examples(rows: DataFrame, per_key: DataFrame) -> list[dict[str, Any]]:
    """Some duplicated keys with all of their copies, the one that stays first."""
    some = per_key.where("rows > 1").orderBy(_KEY).limit(_EXAMPLES).select(_KEY)
    place = F.row_number().over(_best_first()).alias("place")
    told = (_KEY, _PARTITION, _FILE, _COMMIT, SEQ, place)
    copies = rows.join(F.broadcast(some), _KEY).select(*told)
    found: dict[str, dict[str, Any]] = {}
    for row in copies.orderBy(_KEY, "place").collect():
        one = found.setdefault(row[_KEY], {"key": row[_KEY], "copies": []})
        one["copies"].append(
            {
                "stays": row["place"] == 1,
                "partition": row[_PARTITION],
                "file": row[_FILE],
                "commit": row[_COMMIT],
                "seq": row[SEQ],
            }
        )
    return list(found.values())


def _best_first() -> Any:
    return Window.partitionBy(_KEY).orderBy(
        F.col(SEQ).desc(), F.col(_COMMIT).desc(), F.col(_NUMBER).desc(), F.col(_FILE)
    )


def _signs(spec: JobSpec, layout: Layout, examples: list[dict[str, Any]]) -> Signs:
    buckets = [g.bucket for g in layout.groups if g.bucket is not None]
    misplaced = sum(
        bucket_of(copy["file"]) != bucket_for([value], spec.table.buckets)
        for one in examples
        # with several partition columns Hudi names the key's column, too
        for value in [one["key"].removeprefix(f"{key_column(spec.table)}:")]
        for copy in one["copies"]
        if bucket_of(copy["file"]) is not None
    )
    commits = read_lake_table(spec.table.path, commits=_LOADS_LOOKED_AT).commits
    loads = sum(c.operation.lower() == "bulk_insert" for c in commits)
    return Signs(spec.table.buckets, max(buckets, default=-1), misplaced, loads)


def _kept(rows: DataFrame, table: TableSpec) -> DataFrame:
    if table.updates == "partial":
        # what the best copy leaves open the next one may have
        copies = _best_first().rowsBetween(
            Window.unboundedPreceding, Window.unboundedFollowing
        )
        rows = rows.withColumns(
            {
                name: F.first(F.col(f"`{name}`"), ignorenulls=True).over(copies)
                for name in own_columns(rows)
            }
        )
    place = F.row_number().over(_best_first())
    return rows.withColumn("_place", place).where("_place = 1").drop("_place")
