"""Compactions of the file groups that a budget pays for, on a real table."""

from __future__ import annotations

from typing import Any

import pytest

from ingest.contract.job import CompactionBudget
from ingest.contract.written import Totals
from ingest.lake.hudi.budget import rewrite_bytes
from ingest.lake.hudi.layout import FileGroup
from ingest.lake.layout import read_compaction_plan, read_layout
from tests.spark.lake_bench import LakeBench, assert_done


@pytest.mark.long
def test_a_budget_compacts_what_it_pays_for_and_leaves_the_rest_to_later_plans(
    lake_bench: LakeBench,
) -> None:
    bench = lake_bench
    table, low = loaded(bench)
    scarce = CompactionBudget(amplification=2.0, counted=Totals("9" * 17))
    for regions in (("north", "south"), ("north",)):
        low = change(bench, table, low, *regions, compact_after=1, budget=scarce)
        assert not bench.state(table).pending_compactions
    north, south = groups_of(bench, table)
    assert (north.log_files, south.log_files) == (2, 1)

    newest = bench.state(table).timeline.completed_writes[-1].completed
    one = CompactionBudget(10.0, credit=rewrite_bytes(north), counted=Totals(newest))
    done = assert_done(bench.compact(table, budget=one))
    assert len(done.facts["instants"]) == 1
    north, south = groups_of(bench, table)
    assert (north.log_files, south.log_files) == (0, 1)
    assert rows_of(bench, table) == wanted(bench)
    nothing = CompactionBudget(10.0, counted=Totals("9" * 17))
    assert assert_done(bench.compact(table, budget=nothing)).facts["instants"] == []

    # a sync plans what it can afford after its commit; the plan is one like any other
    rich = CompactionBudget(10_000.0)
    low = change(bench, table, low, "north", compact_after=1, budget=rich)
    (asked,) = bench.state(table).pending_compactions
    assert len(read_compaction_plan(table.path, asked).groups) == 2
    low = change(bench, table, low, "south", compact_after=1, budget=rich)
    assert bench.state(table).pending_compactions == (asked,)
    assert_done(bench.compact(table, asked))
    assert [g.log_files for g in groups_of(bench, table)] == [0, 1]
    # a person's looks at partitions too that nobody wrote to since the last one
    change(bench, table, low, "north", compact_after=9)
    assert_done(bench.compact(table))
    assert [g.log_files for g in groups_of(bench, table)] == [0, 0]
    assert rows_of(bench, table) == wanted(bench)


def loaded(bench: LakeBench) -> tuple[Any, str]:
    bench.sql(
        "CREATE TABLE b (id int, region text, v int, at timestamptz,"
        " PRIMARY KEY (region, id))"
    )
    bench.sql(
        "INSERT INTO b SELECT g, CASE WHEN g <= 10 THEN 'north' ELSE 'south' END, 0,"
        " now() - interval '1 day' FROM generate_series(1, 20) g"
    )
    table = bench.table(
        "b", ("region", "id"), cursor="at", buckets=1, partition_by=("region",)
    )
    return table, assert_done(bench.load(table)).facts["bound"]


def change(bench: LakeBench, table: Any, low: str, *regions: str, **k: Any) -> str:
    for region in regions:
        bench.sql(f"UPDATE b SET v = v + 1, at = now() WHERE region = '{region}'")
    done = assert_done(bench.sync(table, low, **k))
    assert done.warnings == ()
    return str(done.facts["position"]["to"])


def groups_of(bench: LakeBench, table: Any) -> tuple[FileGroup, ...]:
    groups = read_layout(table.path, bench.state(table).timeline).groups
    assert [g.partition for g in groups] == ["region=north", "region=south"]
    return groups


def rows_of(bench: LakeBench, table: Any) -> list[tuple[Any, ...]]:
    return bench.rows(table, "id", "region", "v")


def wanted(bench: LakeBench) -> list[tuple[Any, ...]]:
    return sorted(bench.sql("SELECT id, region, v FROM b"))
