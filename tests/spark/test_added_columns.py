"""Columns that the source gets while a table is synced: nothing of them is lost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hudi import HudiTableBuilder

from ingest.contract.table import TableSpec
from ingest.driver.capture import added_columns
from tests.long_tests import first_then_long
from tests.spark.beginnings import fixture_of
from tests.spark.lake_bench import LakeBench, assert_done

CREATE = """CREATE TABLE o (id int PRIMARY KEY, n int, p numeric(10,2),
  at timestamptz DEFAULT now())"""
ROWS = """INSERT INTO o SELECT g, g, g * 1.01, now() - interval '1 day'
  FROM generate_series(1, 6) g"""


loaded = fixture_of(CREATE, ROWS)


def as_now(bench: LakeBench, table: TableSpec) -> TableSpec:
    """The same lake table with the columns that the source has now."""
    return replace(table, columns=bench.table("o", cursor="at").columns)


def sync(bench: LakeBench, table: TableSpec, low: str, *added: str, **work: Any) -> Any:
    spec = bench.sync_spec(table, low)
    assert spec.sync is not None
    work = {"added": added, **work}
    return bench.run(replace(spec, sync=replace(spec.sync, **work)))


def assert_equal(bench: LakeBench, table: TableSpec, *columns: str) -> None:
    """Source and lake by key and value, read by Spark and without it."""
    names = ("id", *columns)
    there = [
        tuple(None if v is None else str(v) for v in row)
        for row in bench.sql(f"SELECT {', '.join(names)} FROM o ORDER BY id")
    ]
    here = bench.frame(table).select(*names).orderBy("id").collect()
    assert [_texts(row) for row in here] == there
    reader = HudiTableBuilder.from_base_uri(table.path).build()
    rows = pa.Table.from_batches(reader.read()).select(names).to_pylist()
    rows.sort(key=lambda row: row["id"])
    assert [_texts(row.values()) for row in rows] == there


def _texts(values: Any) -> tuple[str | None, ...]:
    return tuple(None if v is None else str(v) for v in values)


@pytest.mark.long
def test_a_followed_column_has_every_value_before_and_after_a_compaction(
    loaded: Any,
) -> None:
    bench, table, low = loaded
    bench.sql("UPDATE o SET n = 20, at = now() WHERE id = 2")
    low = assert_done(bench.sync(table, low)).facts["position"]["to"]
    # a default fills old rows, a backfill leaves the cursor alone, one moves it,
    # and a row that never had a cursor value has one of the column
    bench.sql(
        "ALTER TABLE o ADD COLUMN d text NOT NULL DEFAULT 'old', ADD COLUMN x int"
    )
    bench.sql("UPDATE o SET x = 3 WHERE id = 3")
    bench.sql("UPDATE o SET x = 4, at = now() WHERE id = 4")
    bench.sql("UPDATE o SET at = NULL, x = 5 WHERE id = 5")
    stopped = sync(bench, table, low, stops_at_new=True)
    assert stopped.error is not None
    assert (stopped.outcome, stopped.error.code) == ("transient", "columns_added")
    knowing = sync(bench, table, low, stops_at_new=True, known=("d", "x"))
    low = assert_done(knowing).facts["position"]["to"]
    assert "x" not in bench.state(table).columns
    wide = as_now(bench, table)
    done = assert_done(sync(bench, wide, low, "d", "x"))
    assert done.facts["added"] == {
        "columns": ["d", "x"],
        "earlier": "read",
        "from": low,
    }
    assert done.facts["has_columns"]
    assert_equal(bench, wide, "n", "d", "x")
    assert_done(bench.compact(wide))
    assert_equal(bench, wide, "n", "d", "x")
    low = done.facts["position"]["to"]
    # types that grow, the key's among them, over files of both kinds
    bench.sql("ALTER TABLE o ALTER id TYPE bigint, ALTER n TYPE bigint")
    bench.sql("ALTER TABLE o ALTER p TYPE numeric(20,2)")
    bench.sql(
        "UPDATE o SET n = 3000000000, p = 123456789012345678.34, at = now()"
        " WHERE id = 1; INSERT INTO o VALUES (3000000000, 9, 9.99)"
    )
    wider = as_now(bench, table)
    low = assert_done(sync(bench, wider, low)).facts["position"]["to"]
    assert_equal(bench, wider, "n", "p", "x")
    assert_done(bench.compact(wider))
    assert_equal(bench, wider, "n", "p", "x")
    bench.sql("UPDATE o SET n = n + 1, at = now() WHERE id IN (2, 3000000000)")
    low = assert_done(sync(bench, wider, low)).facts["position"]["to"]
    assert_equal(bench, wider, "n", "p", "x")
    assert assert_done(bench.verify(wider, position=low)).facts["verdict"] == "equal"


def test_an_approved_change_comes_with_a_resync(loaded: Any) -> None:
    """Another type, and a column less: one commit replaces the table."""
    bench, table, low = loaded
    bench.sql("UPDATE o SET n = 20, at = now() WHERE id = 2")
    assert_done(bench.sync(table, low))
    bench.sql("ALTER TABLE o ALTER n TYPE text USING 'n' || n, DROP COLUMN p")
    other = as_now(bench, table)
    low = assert_done(bench.load(other, kind="resync")).facts["bound"]
    assert_equal(bench, other, "n")
    assert "p" not in bench.state(other).columns
    bench.sql("UPDATE o SET n = 'new', at = now() WHERE id = 3")
    assert_done(sync(bench, other, low))
    assert_equal(bench, other, "n")
    assert_done(bench.compact(other))
    assert_equal(bench, other, "n")


def test_a_column_that_is_kept_is_null_in_rows_that_change(loaded: Any) -> None:
    """By either writer, behind a compaction, and in every row behind a load."""
    bench, table, low = loaded
    bench.sql("ALTER TABLE o DROP COLUMN p")
    bench.sql("UPDATE o SET n = 20, at = now() WHERE id = 2")
    gone = tuple(column for column in table.columns if column.name == "p")
    kept = replace(as_now(bench, table), kept=gone)

    def values() -> dict[int, Any]:
        return dict(bench.frame(kept).select("id", "p").collect())  # type: ignore[arg-type]

    low = assert_done(sync(bench, kept, low)).facts["position"]["to"]
    before = {1: 1.01, 2: None, 3: 3.03, 4: 4.04, 5: 5.05, 6: 6.06}
    assert {k: v and float(v) for k, v in values().items()} == before
    assert_done(bench.compact(kept))
    bench.sql("UPDATE o SET n = 30, at = now() WHERE id = 3")
    low = assert_done(sync(bench, kept, low)).facts["position"]["to"]
    assert {k for k, v in values().items() if v is None} == {2, 3}
    assert_equal(bench, kept, "n")
    assert assert_done(bench.verify(kept, position=low)).facts["verdict"] == "equal"
    assert_done(bench.load(kept, kind="resync"))
    assert set(values().values()) == {None}


def test_a_column_that_the_lake_lacks_has_its_older_values_whoever_planned_it(
    loaded: Any,
) -> None:
    """A re-sync that was to bring it was cancelled, or the table went back to a moment
    before that re-sync: nobody says that it is new, and older rows had NULL there."""
    bench, table, low = loaded
    low = assert_done(bench.sync(table, low)).facts["position"]["to"]
    bench.sql("ALTER TABLE o ADD COLUMN x int NOT NULL DEFAULT 7")
    bench.sql("UPDATE o SET n = 20, at = now() WHERE id = 2")
    wide = as_now(bench, table)
    done = assert_done(sync(bench, wide, low))
    assert_equal(bench, wide, "n", "x")
    told = {"columns": ["x"], "earlier": "read", "from": low}
    assert done.facts["added"] == told


@pytest.mark.parametrize(
    "change", first_then_long("n TYPE text USING 'n' || n", "p TYPE numeric(12,4)")
)
def test_rows_are_not_written_beside_those_of_another_type(
    loaded: Any, change: str
) -> None:
    """The re-sync that was to bring it was cancelled, and the plan has it already."""
    bench, table, low = loaded
    low = assert_done(bench.sync(table, low)).facts["position"]["to"]
    bench.sql(f"ALTER TABLE o ALTER {change}")
    bench.sql("UPDATE o SET at = now() WHERE id = 2")
    refused = sync(bench, as_now(bench, table), low)
    assert refused.error is not None, bench.rows(table, "id", "n", "p")
    assert refused.error.code == "lake_types_differ"


@pytest.mark.long
def test_values_too_large_for_a_type_that_shrank_stay_what_they_are(
    loaded: Any,
) -> None:
    """The re-sync that was to bring it was cancelled: rows that only the lake has still
    may need the former one."""
    bench, table, _ = loaded
    bench.sql("ALTER TABLE o ALTER n TYPE bigint")
    bench.sql("UPDATE o SET n = 3000000000, at = now() WHERE id = 1")
    wide = as_now(bench, table)
    low = assert_done(bench.load(wide, kind="resync")).facts["bound"]
    bench.sql("DELETE FROM o WHERE id = 1; ALTER TABLE o ALTER n TYPE int")
    bench.sql("UPDATE o SET n = 7, at = now() WHERE id = 2")
    narrow = as_now(bench, table)
    assert_done(sync(bench, narrow, low))
    assert bench.rows(narrow, "id", "n")[:2] == [(1, 3_000_000_000), (2, 7)]
    assert_done(bench.compact(narrow))
    assert bench.rows(narrow, "id", "n")[:2] == [(1, 3_000_000_000), (2, 7)]


def test_a_column_without_values_is_there_after_a_sync_without_rows(
    loaded: Any,
) -> None:
    bench, table, low = loaded
    low = assert_done(bench.sync(table, low)).facts["position"]["to"]
    bench.sql("ALTER TABLE o ADD COLUMN x int")
    wide = as_now(bench, table)
    done = assert_done(sync(bench, wide, low, "x"))
    assert (done.facts["rows"], done.facts["added"]["earlier"]) == (0, "none")
    assert done.facts["instant"] is not None
    assert_equal(bench, wide, "n", "x")
    again = assert_done(sync(bench, wide, done.facts["position"]["to"]))
    assert again.facts["instant"] is None, "one commit is enough"


@pytest.mark.long
def test_more_older_values_than_a_sync_reads_are_told_and_verified(
    loaded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(added_columns, "REREAD_ROWS", 5)
    bench, table, low = loaded
    low = assert_done(bench.sync(table, low)).facts["position"]["to"]
    bench.sql("ALTER TABLE o ADD COLUMN x int NOT NULL DEFAULT 7")
    wide = as_now(bench, table)
    done = assert_done(sync(bench, wide, low, "x"))
    assert done.facts["added"]["earlier"] == "many"
    assert any("more than 5 rows have values of x" in w for w in done.warnings)
    found = assert_done(bench.verify(wide, position=done.facts["position"]["to"]))
    assert (found.facts["verdict"], found.facts["different"]) == ("different", 6)
    assert_done(bench.load(wide, kind="resync"))
    assert_equal(bench, wide, "n", "x")
