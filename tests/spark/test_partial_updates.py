"""Partial updates on real tables: what a NULL keeps, where, and what takes it away."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import functions as F

from ingest.driver.apply.writer import Batch, Span, checked_state, commit_rows
from ingest.driver.table_services import dedupe
from ingest.lake.hudi.identity import PARTIAL
from tests.spark.lake_bench import LakeBench, assert_done

ROW = "id int, a string, b int, c array<string>, at timestamp, seq bigint, gone boolean"


def partial_table(bench: LakeBench) -> Any:
    bench.sql(
        "CREATE TABLE p (id int PRIMARY KEY, a text, b int, c text[],"
        " at timestamptz DEFAULT now() - interval '1 day');"
        "INSERT INTO p SELECT g, 'a', 1, ARRAY['x', NULL] FROM generate_series(1, 8) g"
    )
    return bench.table("p", cursor="at", updates="partial")


class Writes:
    """Commits of rows with sequence numbers above those of the load."""

    def __init__(self, bench: LakeBench, table: Any) -> None:
        self.bench, self.table, self.epoch = bench, table, 900

    def upsert(self, *rows: tuple[Any, ...]) -> None:
        """(id, a, b, c, sequence[, is deleted]), some of one key."""
        self.epoch += 1
        spec = self.bench.sync_spec(self.table, None)
        whole = [(*r[:4], None, (900 << 24) + r[4], len(r) > 5) for r in rows]
        frame = self.bench.spark.createDataFrame(whole, ROW)
        solid = frame.select(
            F.coalesce("id", F.lit(0)).alias("id"),
            *("a", "b", "c", "at"),
            F.coalesce("seq", F.lit(0)).cast("bigint").alias("_sluice_seq"),
            F.coalesce("gone", F.lit(False)).alias("_sluice_deleted"),
        )
        span = Span("", "", self.epoch, self.epoch)
        commit_rows(spec, Batch(solid, "upsert", span), checked_state(spec))

    def rows(self) -> dict[int, tuple[Any, ...]]:
        """id → (a, b, c, sequence); none of them may be marked as deleted."""
        frame = self.bench.frame(self.table)
        found = {}
        for row in frame.collect():
            assert row["_sluice_deleted"] is False
            seq = row["_sluice_seq"] - (900 << 24)
            found[row["id"]] = (row["a"], row["b"], row["c"], max(0, seq))
        return found


def test_what_a_null_keeps(lake_bench: LakeBench) -> None:
    bench, table = lake_bench, partial_table(lake_bench)
    assert_done(bench.load(table))
    state = bench.state(table)
    assert state.properties["hoodie.table.partial.update.mode"] == PARTIAL
    assert state.position is not None
    assert state.position.identity.partial_update_mode == PARTIAL
    old = ["x", None]
    writes = Writes(bench, table)
    writes.upsert(
        (1, None, 2, None, 10),
        # one key three times in a batch, in no order
        (2, "b", None, None, 10),
        (2, None, None, ["y"], 12),
        (2, None, 3, None, 11),
        # only in a log file
        (9, "n", None, None, 10),
        # not the newest one, so it fills what the newest one leaves open
        (4, None, 4, None, 20),
        (6, None, None, None, 10, True),
        (7, None, None, None, 10, True),
        (8, None, None, None, 10, True),
    )
    writes.upsert(
        (4, "late", 0, ["late"], 15),
        (9, None, 9, None, 11),
        (8, None, 8, None, 11),
    )
    wanted = {
        1: ("a", 2, old, 10),
        2: ("b", 3, ["y"], 12),
        3: ("a", 1, old, 0),
        4: ("late", 4, ["late"], 20),
        5: ("a", 1, old, 0),
        # Hudi forgets the tombstone between two log files: the base file shows through
        8: ("a", 8, old, 11),
        9: ("n", 9, None, 11),
    }
    assert writes.rows() == wanted
    assert_done(bench.compact(table))
    assert writes.rows() == wanted
    writes.upsert(
        (7, None, 7, None, 21), (1, "z", None, [], 21), (3, None, 5, None, 21)
    )
    assert writes.rows() == wanted | {
        7: (None, 7, None, 21),
        1: ("z", 2, [], 21),
        3: ("a", 5, old, 21),
    }


def test_of_copies_each_column_has_its_newest_value(lake_bench: LakeBench) -> None:
    frame = lake_bench.spark.createDataFrame(
        [
            ("1", "f1", "1", "1", 1, "old", 1, 10),
            ("1", "f2", "2", "1", 1, None, 2, 20),
            ("1", "f3", "3", "1", 1, None, None, 30),
            ("2", "f1", "1", "2", 2, None, None, 10),
        ],
        "_hoodie_record_key string, _hoodie_file_name string,"
        " _hoodie_commit_time string, _hoodie_commit_seqno string,"
        " id int, a string, b int, _sluice_seq bigint",
    )
    lake_bench.sql("CREATE TABLE p (id int PRIMARY KEY, a text, b int)")
    full = lake_bench.table("p")
    columns = ("id", "a", "b", "_sluice_seq")
    for updates, wanted in (("full", (None, None)), ("partial", ("old", 2))):
        kept = dedupe._kept(frame, replace(full, updates=updates))
        rows = sorted(tuple(row) for row in kept.select(*columns).collect())
        assert rows == [(1, *wanted, 30), (2, None, None, 10)]


@pytest.mark.long
def test_verify_resync_and_another_mode(lake_bench: LakeBench) -> None:
    bench, table = lake_bench, partial_table(lake_bench)
    low = assert_done(bench.load(table)).facts["bound"]
    bench.sql(
        "UPDATE p SET a = NULL, c = NULL, b = 5, at = now() WHERE id = 1;"
        "UPDATE p SET b = NULL, at = now() WHERE id = 2"
    )
    done = assert_done(bench.sync(table, low))
    assert bench.rows(table, "id", "a", "b")[:2] == [(1, "a", 5), (2, "a", 1)]
    facts = assert_done(bench.verify(table)).facts
    assert (facts["verdict"], facts["kept"]) == ("equal", 2), facts
    assert "kept values that are NULL at the source for 2 keys" in facts["summary"]

    # unseen by the sync: one column differs besides a kept one, a value was lost
    bench.sql("UPDATE p SET b = 6 WHERE id = 1; UPDATE p SET a = 'new' WHERE id = 3")
    facts = assert_done(bench.verify(table)).facts
    assert (facts["different"], facts["kept"]) == (2, 1), facts
    assert facts["keys"]["different"] == ["1", "3"]

    whole = bench.sync_spec(
        replace(table, updates="full"), done.facts["position"]["to"]
    )
    error = bench.run(whole).error
    assert error is not None
    assert error.code == "identity_drift"
    assert "'IGNORE_DEFAULTS' in the lake, '' in the plan" in error.message

    assert_done(bench.load(table, kind="resync"))
    assert bench.rows(table, "id", "a", "b")[:2] == [(1, None, 6), (2, "a", None)]
    facts = assert_done(bench.verify(table)).facts
    assert (facts["verdict"], facts["kept"]) == ("equal", 0), facts
    Writes(bench, table).upsert((2, None, 7, None, 10))
    assert bench.rows(table, "id", "a", "b")[1] == (2, "a", 7)
