"""What a lake table may be partitioned by, and that no row is lost by it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ingest.contract.table import TableSpec
from ingest.lake.layout import read_layout
from ingest.planning.partitions import ESCAPED, longest_value
from tests.spark.engine_bench import EngineBench
from tests.spark.lake_bench import LakeBench, assert_done
from tests.spark.test_light_commits import both_frames
from tests.spark.test_odd_values import planned

DAYS = """
CREATE TABLE p (id int PRIMARY KEY, day date, moment timestamptz, local timestamp,
  at timestamptz NOT NULL DEFAULT now());
INSERT INTO p (id, day) VALUES (1, '2024-02-29'), (2, '2024-02-29'), (3, NULL),
  (4, '0001-01-01'), (5, '1582-10-10'), (6, '9999-12-31'), (7, '1969-12-31');
UPDATE p SET local = day + time '23:59:59.999999',
  moment = (day + time '23:59:59.999999') AT TIME ZONE 'UTC'
"""
FOLDERS = {
    "0001-01-01": {4},
    "1582-10-10": {5},
    "1969-12-31": {7},
    "2024-02-29": {1, 2},
    "9999-12-31": {6},
    "__HIVE_DEFAULT_PARTITION__": {3},
}
# Some of them look at the folder of NULL.
CONDITIONS = {
    "{0} between '1582-10-10' and '2024-02-28'": {5, 7},
    "{0} < date'1969-12-31'": {4, 5},
    "{0} > date'1969-12-31' and id < 6": {1, 2},
    "{0} = date'2024-02-29'": {1, 2},
    "{0} <=> date'2024-02-29'": {1, 2},
    "{0} in (date'2024-02-29', date'0001-01-01')": {1, 2, 4},
    "{0} < date'1900-01-01' or {0} > date'2100-01-01'": {4, 5, 6},
    "{0} = date'1969-12-31' or id = 3": {3, 7},
    "not ({0} > date'1969-12-31')": {4, 5, 7},
    "not ({0} > date'1969-12-31' and id > 1)": {1, 4, 5, 7},
    "{0} <> date'2024-02-29'": {4, 5, 6, 7},
    "not ({0} <=> date'2024-02-29')": {3, 4, 5, 6, 7},
    "{0} is null": {3},
    "{0} is null or {0} < date'0002-01-01'": {3, 4},
    "coalesce({0}, date'2024-02-29') = date'2024-02-29'": {1, 2, 3},
    "year({0}) < 2000 and {0} is not null": {4, 5, 7},
    "{0} like '2024-%'": {1, 2},
}


def folders(bench: LakeBench, table: TableSpec) -> dict[str, set[int]]:
    """Value in the name of each folder → ids of its rows."""
    found: dict[str, set[int]] = {}
    for row in bench.frame(table).select("id", "_hoodie_partition_path").collect():
        value = row["_hoodie_partition_path"].split("=")[-1]
        found.setdefault(value, set()).add(row["id"])
    groups = read_layout(table.path, bench.state(table).timeline).groups
    assert {g.partition.split("=")[-1] for g in groups} >= set(found)
    return found


@pytest.mark.parametrize(
    ("column", "lake_column"),
    [
        ("moment", "_sluice_day"),
        pytest.param("day", "day", marks=pytest.mark.long),
        pytest.param("local", "_sluice_day", marks=pytest.mark.long),
    ],
)
def test_a_table_is_partitioned_by_day(
    lake_bench: LakeBench,
    bench: EngineBench,
    monkeypatch: pytest.MonkeyPatch,
    column: str,
    lake_column: str,
) -> None:
    """Load, sync, compaction and verification put each row into the folder of
    its day; queries find it there."""
    lake_bench.sql(DAYS)
    table = planned(lake_bench, "p", partition_by=(column,), cursor="at")
    report = assert_done(lake_bench.load(table))
    values = lake_bench.texts(table, column)
    assert folders(lake_bench, table) == FOLDERS
    lake_bench.sql("UPDATE p SET at = clock_timestamp()")
    pairs = both_frames(monkeypatch)
    report = assert_done(lake_bench.sync(table, report.facts["bound"]))
    assert [ours == sparks for ours, sparks, *_ in pairs] == [True]
    assert folders(lake_bench, table) == FOLDERS
    assert lake_bench.verify(table).facts["verdict"] == "equal"
    assert_done(lake_bench.compact(table))
    assert folders(lake_bench, table) == FOLDERS
    assert lake_bench.texts(table, column) == values
    assert values[0] is not None
    assert values[0].startswith("2024-02-29")

    bench.table(f"days.by_{column}", table.path)
    bench.policy("ana", select=[f"days.by_{column}"])
    client = bench.connect("ana")
    for condition, ids in CONDITIONS.items():
        where = condition.format(lake_column)
        found = client.rows(f"select id from days.by_{column} where {where}")
        assert {row[0] for row in found} == ids, where


LONG = """
CREATE TABLE p (id int PRIMARY KEY, area text, at timestamptz NOT NULL DEFAULT now());
"""
OF_BYTES = longest_value("area")


def test_the_longest_partitions_are_loaded(lake_bench: LakeBench) -> None:
    texts = ["x" * OF_BYTES, "é" * (OF_BYTES // 2), ":" * (OF_BYTES // 3), "{^" * 40]
    lake_bench.sql(LONG)
    for id, text in enumerate(texts):
        lake_bench.link.execute("INSERT INTO p VALUES (%s, %s)", [id, text])
    table = lake_bench.table("p", partition_by=("area",), cursor="at")
    assert_done(lake_bench.load(table))
    assert lake_bench.rows(table, "id", "area") == list(enumerate(texts))


@pytest.mark.long
def test_a_text_that_can_be_no_folder_is_refused_before_it_is_kept(
    lake_bench: LakeBench,
) -> None:
    """A sync that had sealed it would fail for good."""
    lake_bench.sql(LONG)
    lake_bench.sql("INSERT INTO p VALUES (1, 'short')")
    table = lake_bench.table("p", partition_by=("area",), cursor="at")
    low = assert_done(lake_bench.load(table)).facts["bound"]
    for longest in ("x" * OF_BYTES, "é" * (OF_BYTES // 2), ":" * (OF_BYTES // 3)):
        text = longest + longest[0]
        lake_bench.link.execute("INSERT INTO p VALUES (2, %s)", [text])
        for report in (lake_bench.sync(table, low), lake_bench.load(other(lake_bench))):
            assert report.error is not None
            assert report.error.code == "partition_too_long"
            for part in ("area", "public.p", f"{OF_BYTES} at most"):
                assert part in report.error.message
        lake_bench.sql("DELETE FROM p WHERE id = 2")
    lake_bench.sql("INSERT INTO p VALUES (3, 'next')")
    assert_done(lake_bench.sync(table, low))
    assert lake_bench.rows(table, "id", "area") == [(1, "short"), (3, "next")]


def other(bench: LakeBench) -> TableSpec:
    return bench.table("p", partition_by=("area",), cursor="at")


def test_escaped_characters_are_those_of_hudi(spark: Any) -> None:
    escape = spark._jvm.org.apache.hudi.common.util.PartitionPathEncodeUtils
    for code in [*range(1, 0x250), 0x2028, 0x4E2D, 0x1F600]:
        character = chr(code)
        escaped = escape.escapePathName(character)
        assert (escaped != character) == bool(re.search(ESCAPED, character)), code
        assert escaped == character or len(escaped) == 3


@pytest.mark.long
def test_conditions_on_texts_and_numbers_pass_the_folder_of_null(
    lake_bench: LakeBench, bench: EngineBench
) -> None:
    lake_bench.sql("CREATE TABLE p (id int PRIMARY KEY, area text, n int)")
    lake_bench.sql("INSERT INTO p VALUES (1, 'a', 1), (2, NULL, NULL), (3, 'b', 3)")
    table = lake_bench.table("p", partition_by=("area", "n"))
    assert_done(lake_bench.load(table))
    bench.table("days.texts", table.path)
    bench.policy("ana", select=["days.texts"])
    client = bench.connect("ana")
    for where, ids in {
        "n < 3": {1},
        "n >= 1 and area > 'a'": {3},
        "n = 3 or area = 'a'": {1, 3},
        "n <> 3": {1},
        "not (n <=> 3)": {1, 2},
        "n not in (3) and area <> 'b'": {1},
        "area like 'a%' or n is null": {1, 2},
        "area in ('a', 'b')": {1, 3},
    }.items():
        found = client.rows(f"select id from days.texts where {where}")
        assert {row[0] for row in found} == ids, where
