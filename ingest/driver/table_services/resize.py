"""Another number of buckets for a lake table: the same rows by one commit.

That commit carries the new identity with the rows, so the lake is the old table or
the new one and nothing between (ADR 15). It must not know why it was requested.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from core.errors import InvalidRequest
from ingest.contract.job import JobSpec
from ingest.driver.apply.apply import roll_back_writes
from ingest.driver.apply.jobrun import JobRun
from ingest.driver.apply.replacement import (
    bytes_of,
    replace_rows,
    require_replaced,
    snapshot_of,
)
from ingest.driver.apply.writer import (
    checked_state,
    commit_of,
    not_loaded,
    qualified_name,
)
from ingest.driver.table_services.savepoints import make_savepoint
from ingest.lake.commits import Commit, read_lake_table
from ingest.lake.hudi.layout import Layout
from ingest.lake.layout import read_layout
from ingest.lake.staging import require_space

_KEY = "_hoodie_record_key"


def resize(
    run: JobRun,
    spark: SparkSession,
    buckets: int,
    *,
    clear: Callable[[JobRun, SparkSession], None],
) -> dict[str, Any]:
    """`clear` takes pending compactions off the timeline before the replacement."""
    spec = run.spec
    goal = with_buckets(spec, buckets)
    position = read_lake_table(spec.table.path).position
    if position is not None and position.identity.buckets == buckets:
        # a former attempt committed, or the table has that many already
        return _done_before(run, spark, goal)
    state = checked_state(spec)
    if state.position is None:
        raise not_loaded(spec)
    before = read_layout(spec.table.path, state.timeline)
    run.enter("counting")
    count = _require_unique(spec, snapshot_of(spark, spec), before)
    state = roll_back_writes(spark, spec, state)
    clear(run, spark)
    run.enter("keeping a savepoint")
    savepoint = make_savepoint(spark, spec, why=f"before resize {spec.job_id}")
    require_space(spec.table.staging, bytes_of(before))
    run.enter("rewriting", total=count)
    rows = snapshot_of(spark, spec)
    commit = replace_rows(run, rows, state, expected=count, spec=goal)
    run.add_done(count)
    return {
        **_facts(goal, commit),
        "savepoint": savepoint,
        "before": {"buckets": spec.table.buckets, **_told(before)},
        "after": {"buckets": buckets, **_told(_layout(goal))},
    }


def with_buckets(spec: JobSpec, buckets: int) -> JobSpec:
    table = dataclasses.replace(spec.table, buckets=buckets)
    return dataclasses.replace(spec, table=table)


def _done_before(run: JobRun, spark: SparkSession, goal: JobSpec) -> dict[str, Any]:
    checked_state(goal)
    commit = commit_of(goal)
    after = {"buckets": goal.table.buckets, **_told(_layout(goal))}
    if commit is None:
        return {"action": "resize", "buckets": goal.table.buckets, "after": after}
    run.enter("comparing")
    require_replaced(spark, goal, commit, kept=lambda rows: rows)
    return {**_facts(goal, commit), "after": after}


def _facts(goal: JobSpec, commit: Commit) -> dict[str, Any]:
    return {
        "action": "resize",
        "buckets": goal.table.buckets,
        "instant": commit.instant.asked,
        "committed_rows": commit.rows_written,
    }


def _require_unique(spec: JobSpec, rows: DataFrame, layout: Layout) -> int:
    """Copies of a key would come into one file, where they cannot be told apart."""
    counted = rows.agg(F.count("*"), F.count_distinct(_KEY)).first() or (0, 0)
    count, keys = int(counted[0]), int(counted[1])
    if count != keys or layout.conflicts:
        raise InvalidRequest(
            "%(table)s has %(rows)s rows of %(keys)s keys, and %(buckets)s"
            " buckets with several file groups. Nothing was written",
            table=qualified_name(spec),
            rows=count,
            keys=keys,
            buckets=len(layout.conflicts),
            code="has_duplicates",
            hint="deduplicate it first",
        )
    return count


def _layout(spec: JobSpec) -> Layout:
    state = read_lake_table(spec.table.path, commits=1)
    return read_layout(spec.table.path, state.timeline)


def _told(layout: Layout) -> dict[str, int]:
    sizes = [g.base_bytes for g in layout.groups]
    return {
        "file_groups": len(layout.groups),
        "bytes": bytes_of(layout),
        "largest_bytes": max(sizes, default=0),
    }
