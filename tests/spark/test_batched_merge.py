"""Base files under log files are decoded in batches; every row is what Hudi's own reader
of single rows makes of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ingest.contract.table import TableSpec
from tests.spark.beginnings import Beginnings
from tests.spark.lake_bench import LakeBench, assert_done

CREATE = """CREATE TABLE w (id int PRIMARY KEY, small smallint, big bigint, yes boolean,
  f real, d double precision, n numeric(20,4), day date, t text, raw bytea, words text[],
  local timestamp, at timestamptz DEFAULT now() - interval '1 day')"""
FILL = """INSERT INTO w SELECT g, g, g * 10000000000, g % 2 = 0, g / 3.0, g / 7.0, g / 9.0,
  date '2020-02-29' + g, repeat(md5(g::text), 3), decode(md5(g::text), 'hex'),
  ARRAY['a', NULL, g::text], timestamp '2020-01-01 00:00:00.123456' + g * interval '1 day'
  FROM generate_series(1, 300) g"""
HALF = """UPDATE w SET small = NULL, yes = NULL, f = NULL, n = NULL, t = NULL, words = NULL
  WHERE id % 3 = 0; UPDATE w SET big = NULL, d = NULL, day = NULL, raw = NULL, local = NULL
  WHERE id % 4 = 0"""
EMPTY = """UPDATE w SET small = NULL, big = NULL, yes = NULL, f = NULL, d = NULL, n = NULL,
  day = NULL, t = NULL, raw = NULL, words = NULL, local = NULL, at = now()
  WHERE id % 50 = 0"""


def merge(bench: LakeBench) -> tuple[TableSpec, None]:
    bench.sql(CREATE)
    bench.sql(FILL)
    bench.sql(HALF)
    table = bench.table("w", cursor="at")
    low = assert_done(bench.load(table)).facts["bound"]
    bench.sql(EMPTY)
    low = assert_done(bench.sync(table, low)).facts["position"]["to"]
    bench.sql(
        "UPDATE w SET t = 'changed', at = now() WHERE id % 7 = 0;"
        "INSERT INTO w (id, t, at) VALUES (900, 'new', now())"
    )
    assert_done(bench.sync(table, low))
    return table, None


@pytest.fixture
def merged(
    lake_bench: LakeBench, beginnings: Beginnings
) -> tuple[LakeBench, TableSpec]:
    """300 rows in base files, many with NULLs; changed, new and emptied rows in log
    files over them."""
    return lake_bench, beginnings.copy(lake_bench, merge)[0]


def test_rows_are_those_of_the_reader_of_single_rows(merged: Any) -> None:
    bench, table = merged
    batched, single = read(bench, table, "true"), read(bench, table, "false")
    assert len(batched) == 301
    assert batched == single
    # and it is our adapter that gives batches where rows are asked for
    plan = bench.frame(table)._jdf.queryExecution().sparkPlan()
    adapter = plan.collectLeaves().head().relation().fileFormat().sparkAdapter()
    assert adapter.getClass().getName() == "io.sluice.lake.BatchedMerge$Readers"


ASKED = (
    "count(*)",
    "sum(id), max(t), count(n)",
    "count(*) FILTER (WHERE t = 'changed'), min(day)",
    "max(size(words)), count(DISTINCT raw)",
    "count(small), count(yes), count(f), count(d), count(day), count(local)",
    # NULLs of a boolean by another way than those of the others
    "count(*) FILTER (WHERE yes = false), count(*) FILTER (WHERE yes IS NULL)",
)
WHERE = ("true", "id > 200", "t = 'changed'", "n IS NULL")
ALL = [(asked, where) for asked in ASKED for where in WHERE]
# every choice of columns, and every filter, over none and over some of them
FEW = [one for one in ALL if one[0] in ASKED[:2] or one[1] == "true"]


@pytest.mark.long
@pytest.mark.parametrize(
    "queries",
    [
        pytest.param(FEW, id="each"),
        pytest.param(ALL, id="all pairs"),
    ],
)
def test_some_columns_and_filters(merged: Any, queries: list[tuple[str, str]]) -> None:
    bench, table = merged
    frames = [opened(bench, table, batched) for batched in ("true", "false")]
    for asked, where in queries:
        batched, single = (
            frame.where(where).selectExpr(*asked.split(", ")).collect()
            for frame in frames
        )
        assert batched == single, (asked, where)


@pytest.mark.long
def test_a_column_that_came_later_is_null_in_older_files(merged: Any) -> None:
    bench, table = merged
    low = bench.state(table).position.end
    bench.sql(
        "ALTER TABLE w ADD COLUMN more text;"
        "UPDATE w SET more = 'here', at = now() WHERE id = 3"
    )
    wider = replace(table, columns=bench.table("w", cursor="at").columns)
    assert_done(bench.sync(wider, low))
    batched, single = read(bench, wider, "true"), read(bench, wider, "false")
    assert batched == single
    assert read(bench, wider, "true", "count(more), count(*)") == [(1, 301)]


def test_queries_of_changes_are_left_alone(merged: Any) -> None:
    """They keep base rows, so they must not be given rows that lie in a batch."""
    bench, table = merged
    session = bench.spark.newSession()
    changes = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.read.begin.instanttime": "000",
    }
    frame = session.read.format("hudi").options(**changes).load(table.path)
    assert frame.where("t = 'changed'").count() == 42
    assert session.conf.get("spark.sql.parquet.enableVectorizedReader") == "false"


@pytest.mark.long
def test_a_wide_table_disturbs_no_other_scan_of_its_session(merged: Any) -> None:
    """Spark asks no format for batches where more than 100 columns come out, and Hudi
    then takes what it answered last, for all of the session."""
    bench, narrow = merged
    columns = ", ".join(f"c{n} int DEFAULT {n}" for n in range(120))
    bench.sql(f"CREATE TABLE wide (id int PRIMARY KEY, {columns}, at timestamptz)")
    bench.sql("INSERT INTO wide (id, at) SELECT g, now() FROM generate_series(1, 9) g")
    bench.sql("CREATE TABLE plain (id int PRIMARY KEY, at timestamptz)")
    bench.sql("INSERT INTO plain SELECT g, now() FROM generate_series(5, 14) g")
    session = bench.spark.newSession()
    for name in ("wide", "plain"):
        table = bench.table(name, cursor="at")
        assert_done(bench.load(table))
        session.read.format("hudi").load(table.path).createOrReplaceTempView(name)
    session.read.format("hudi").load(narrow.path).createOrReplaceTempView("merged")
    joined = session.sql("SELECT * FROM wide w FULL JOIN plain p ON w.id = p.id")
    assert len(joined.collect()) == 14
    assert {row.c119 for row in session.sql("SELECT * FROM wide").collect()} == {119}
    assert session.sql("SELECT * FROM merged").count() == 301
    assert session.conf.get("spark.sql.parquet.enableVectorizedReader") == "true"
    joined = session.sql("SELECT * FROM merged m FULL JOIN wide w ON w.id = m.id")
    assert len(joined.collect()) == 301


def opened(bench: LakeBench, table: Any, batched: str) -> Any:
    session = bench.spark.newSession()
    session.conf.set("spark.sql.parquet.enableVectorizedReader", batched)
    return session.read.format("hudi").load(table.path)


def read(
    bench: LakeBench, table: Any, batched: str, asked: str = ""
) -> list[tuple[Any, ...]]:
    frame = opened(bench, table, batched)
    shown = frame.selectExpr(*asked.split(", ")) if asked else frame.orderBy("id")
    return [tuple(row) for row in shown.collect()]
