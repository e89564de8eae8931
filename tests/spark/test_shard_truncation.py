"""One of the source tables that are one lake table is emptied: its rows go, no others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from ingest.contract.table import ColumnSpec, TableSpec
from ingest.driver.apply import log_read
from ingest.driver.apply.log_apply import Step
from ingest.driver.table_services.compaction import plan_when_due
from tests.long_tests import first_then_long
from tests.spark.lake_bench import LakeBench, assert_done
from tests.spark.log_bench import UNSENT, LogBench, cut
from tests.spark.test_chunk_repair import two_schemas

EMPTIED = ("truncate", "1", None, None)


@dataclass
class Sharded:
    table: TableSpec
    log: LogBench
    scratch: Path

    def apply(self) -> Step:
        applied = self.log.table(self.table, self.scratch)
        return applied.bring_on(self.log.stream(), lambda: None)

    def rows(self, *more: str) -> set[tuple[Any, ...]]:
        return {*self.log.bench.rows(self.table, "s", "id", "v", *more)}


@pytest.fixture
def sharded(lake_bench: LakeBench, tmp_path: Path) -> Sharded:
    table = two_schemas(lake_bench, rows=3)
    log = LogBench(lake_bench)
    log.close(*cut(table))
    return Sharded(table, log, tmp_path / "apply")


OTHERS = {("2", 1, "load"), ("2", 2, "load"), ("2", 3, "load")}


@pytest.mark.parametrize("piece", first_then_long(1, 64 << 20))
def test_in_whatever_pieces_it_is_merged(
    sharded: Sharded, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    monkeypatch.setattr(log_read, "PIECE_BYTES", piece)
    log, table = sharded.log, sharded.table
    if piece == 1:
        log.builder.spill_bytes = 1
    log.change(table, ("insert", "1", 9, "gone"), ("update", "2", 1, "one"))
    log.change(table, ("update", "1", 1, "gone"), ("delete", "1", 2, None))
    log.change(table, EMPTIED, ("insert", "1", 3, "new"), ("insert", "1", 4, "x"))
    log.change(table, ("insert", "1", 5, "gone"), ("delete", "1", 4, None), EMPTIED)
    log.change(table, ("insert", "1", 6, "new"), ("insert", "1", 3, "again"))
    log.change(table, ("update", "1", 3, UNSENT), ("update", "2", 2, UNSENT))
    log.close()
    assert sharded.apply().commit is not None
    others = OTHERS - {("2", 1, "load")} | {("2", 1, "one")}
    assert sharded.rows() == {("1", 6, "new"), ("1", 3, "again"), *others}
    log.segment(table, ("update", "1", 6, UNSENT), ("delete", "1", 3, None))
    sharded.apply()
    assert sharded.rows() == {("1", 6, "new"), *others}
    log.segment(table, EMPTIED)
    sharded.apply()
    assert sharded.rows() == others
    # of one without rows
    log.segment(table, EMPTIED)
    assert sharded.apply().commit is not None
    assert sharded.rows() == others


@pytest.mark.long
def test_planned_compactions_are_left_alone(sharded: Sharded) -> None:
    log, table = sharded.log, sharded.table
    log.segment(table, ("insert", "1", 9, "gone"))
    sharded.apply()
    spec = log.table(replace(table), sharded.scratch).spec
    plan_when_due(log.bench.spark, replace(spec, compact_after=1))
    log.segment(table, EMPTIED, ("insert", "1", 9, "new"))
    sharded.apply()
    assert sharded.rows() == {("1", 9, "new"), *OTHERS}
    (pending,) = log.bench.state(table).pending_compactions
    assert_done(log.bench.compact(table, pending))
    assert sharded.rows() == {("1", 9, "new"), *OTHERS}


def test_what_is_left_gets_the_value_of_a_column_that_came(sharded: Sharded) -> None:
    """By the commit that empties the shard."""
    log, table = sharded.log, sharded.table
    n = ColumnSpec("n", "n", "bigint", "bigint", older="7")
    log.change(table, ("update", "1", 1, "gone"))
    sharded.table = replace(table, columns=(*table.columns, n))
    log.segment(
        sharded.table,
        ("update", "2", 2, "two", "8"), (*EMPTIED, None), ("insert", "1", 3, "new", "9"),
    )  # fmt: skip
    assert sharded.apply().commit is not None
    assert sharded.rows("n") == {
        ("1", 3, "new", 9), ("2", 1, "load", 7), ("2", 2, "two", 8), ("2", 3, "load", 7),
    }  # fmt: skip
