"""Wide rows: they are read a few at a time, and one that cannot be read says so.

Against the buffer of a reader, which is 1 MiB here.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from catalog.schema.limits import LIMITS
from ingest.driver.apply import writer
from ingest.driver.apply.wide_rows import PARTS
from ingest.driver.capture import jdbc
from ingest.driver.capture import reading as patience
from ingest.driver.table_services import verify
from ingest.lake.hudi import options
from ingest.sources import port
from ingest.sources.postgresql import connection as postgresql_connection
from ingest.sources.postgresql import reader as postgresql
from tests.spark.lake_bench import LakeBench, assert_done

CREATE = """
CREATE TABLE o (id int PRIMARY KEY, v text);
ALTER TABLE o ALTER v SET STORAGE EXTERNAL;
INSERT INTO o SELECT g, 'small' FROM generate_series(1, 2000) g;
INSERT INTO o SELECT -g, repeat(md5(g::text), 2048) FROM generate_series(1, 24) g;
ANALYZE o
"""
BUFFERED = (jdbc, port, postgresql, postgresql_connection)
BLOCK = "hoodie.logfile.data.block.max.size"
BATCHES = "spark.sql.parquet.enableVectorizedReader"


@pytest.fixture
def small_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(LIMITS, result_bytes=1 << 20)
    for module in BUFFERED:
        monkeypatch.setattr(module, "LIMITS", small)


@pytest.mark.usefixtures("small_buffer")
def test_wide_rows_among_small_ones_are_loaded_at_once(
    lake_bench: LakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """24 rows of 64 KiB are more than the buffer of a reader holds; verifying takes no
    batches of them."""
    lake_bench.sql(CREATE)
    table = lake_bench.table("o", estimated_rows=2_024)
    report = assert_done(lake_bench.load(table))
    assert report.facts["rows"] == 2_024
    assert not report.warnings
    sessions: list[Any] = []
    compare = verify._compare

    def compared(check: Any, *sides: Any) -> Any:
        sessions.append(check.spark)
        return compare(check, *sides)

    monkeypatch.setattr(verify, "_compare", compared)
    assert assert_done(lake_bench.verify(table)).facts["verdict"] == "equal"
    assert [s.conf.get(BATCHES) for s in sessions] == ["false"]
    assert lake_bench.spark.conf.get(BATCHES) == "true"
    lake_bench.sql("UPDATE o SET v = lower(v) || 'x' WHERE id = -3")
    found = assert_done(lake_bench.verify(table)).facts
    assert (found["verdict"], found["keys"]["different"]) == ("different", ["-3"])


def test_a_block_of_a_log_file_holds_few_wide_rows(
    lake_bench: LakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lies in memory whole, several times over; 1 MiB here, and four rows fill it."""
    monkeypatch.setitem(options._COST_OPTIONS, BLOCK, str(1 << 20))
    lake_bench.sql(
        "CREATE TABLE o (id int PRIMARY KEY, v text, at timestamptz DEFAULT now())"
    )
    lake_bench.sql("INSERT INTO o SELECT g, 'small' FROM generate_series(1, 9) g")
    table = lake_bench.table("o", cursor="at", buckets=1)
    low = assert_done(lake_bench.load(table)).facts["bound"]
    lake_bench.sql("UPDATE o SET v = repeat(md5(id::text), 8192), at = now()")
    assert_done(lake_bench.sync(table, low))
    (log,) = Path(table.path).glob(".*.log.*[!c]")
    assert log.read_bytes().count(b"#HUDI#") >= 3


def test_few_rows_that_fill_memory_are_left_to_spark(
    lake_bench: LakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """20 rows of 1 MiB each: a small commit holds all of its rows at once."""
    lake_bench.sql(
        "CREATE TABLE o (id int PRIMARY KEY, v text, at timestamptz DEFAULT now())"
    )
    lake_bench.sql("INSERT INTO o SELECT g, 'small' FROM generate_series(1, 20) g")
    table = lake_bench.table("o", cursor="at", buckets=1)
    low = assert_done(lake_bench.load(table)).facts["bound"]
    monkeypatch.setattr(writer, "commit_light", None)
    lake_bench.sql("UPDATE o SET v = repeat(md5(id::text), 32768), at = now()")
    assert_done(lake_bench.sync(table, low))
    assert {len(v) for (v,) in lake_bench.rows(table, "v")} == {1 << 20}


def test_a_row_that_a_driver_cannot_write_ends_the_job_before_its_commit(
    lake_bench: LakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read and staged still; writing and compacting it take many times as much.
    Its texts count together. With a larger heap the same load goes on."""
    monkeypatch.setattr(patience, "heap_of", lambda spark: PARTS << 20)
    lake_bench.sql(
        "CREATE TABLE o (id int PRIMARY KEY, v text, w bytea,"
        " at timestamptz DEFAULT now())"
    )
    lake_bench.sql(
        "INSERT INTO o VALUES (1, repeat('x', 524288), convert_to(repeat('y', 524289),"
        " 'UTF8')), (2, repeat('x', 524288), NULL)"
    )
    table = lake_bench.table("o", cursor="at")
    report = lake_bench.load(table)
    assert report.error is not None
    assert (report.outcome, report.error.code) == ("terminal", "row_too_large"), report
    assert "o has a row of 1 MiB (at its source)" in report.error.message
    assert not Path(table.path).exists()
    monkeypatch.setattr(patience, "heap_of", lambda spark: PARTS << 21)
    low = assert_done(lake_bench.load(table)).facts["bound"]
    assert {len(v) for (v,) in lake_bench.rows(table, "v")} == {524288}
    lake_bench.sql("UPDATE o SET v = repeat('z', 3000000), at = now() WHERE id = 2")
    report = lake_bench.sync(table, low)
    assert report.error is not None
    assert (report.outcome, report.error.code) == ("terminal", "row_too_large"), report
    assert {len(v) for (v,) in lake_bench.rows(table, "v")} == {524288}


@pytest.mark.usefixtures("small_buffer")
def test_a_row_beyond_the_buffer_ends_the_job_and_is_not_tried_again(
    lake_bench: LakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "PAUSES", (0.01,) * 6)
    lake_bench.sql("CREATE TABLE o (id int PRIMARY KEY, v text)")
    lake_bench.sql("INSERT INTO o VALUES (1, repeat('x', 2200000))")
    lake_bench.sql("CREATE VIEW w AS SELECT * FROM o")
    # of a table it is seen before anything is read, of a view once one row is asked for
    for name, width in (("o", "about 2 MiB"), ("w", "more than 1 MiB")):
        report = lake_bench.load(lake_bench.table(name))
        assert report.error is not None
        found = report.outcome, report.error.code
        assert found == ("terminal", "source_row_too_wide"), report
        assert width in report.error.message
