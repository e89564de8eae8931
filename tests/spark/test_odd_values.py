"""Values, rows and folders by which a row could be lost, doubled or changed while its
job succeeds."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from catalog.sources.postgresql.types import SourceType, lake_type
from ingest.contract.table import TableSpec
from ingest.driver.capture import kept_chunks
from tests.long_tests import first_then_long
from tests.spark.lake_bench import LakeBench, assert_done


def planned(bench: LakeBench, name: str, **k: Any) -> TableSpec:
    """With the types that a plan proposes."""
    table = bench.table(name, **k)
    columns = (
        replace(column, type=lake_type(shape_of(column.source_type)).type)
        for column in table.columns
    )
    return replace(table, columns=tuple(columns))


def shape_of(source_type: str) -> SourceType:
    is_array = source_type.endswith("[]")
    return SourceType(source_type, element=source_type[:-2] if is_array else "")


ARRAYS = """
CREATE TABLE arrays (id int PRIMARY KEY, at timestamptz NOT NULL, b bytea[], d date[],
  plain timestamp[], zoned timestamptz[], n numeric(5,2)[], "e" float8[], k boolean[]);
INSERT INTO arrays VALUES
  (1, now(), ARRAY['\\x0102ff'::bytea, '', NULL], ARRAY['2020-01-02'::date, NULL],
   ARRAY['1500-02-28 01:02:03'::timestamp], ARRAY['2020-01-02 03:04:05.123456+00'::timestamptz],
   '{1.25,NULL}', '{NaN,-0.5}', '{t,f,NULL}'),
  (2, now(), '{}', ARRAY['infinity'::date, '0044-03-15 BC', '10000-01-01', '9999-12-31'],
   ARRAY['-infinity'::timestamp, '0001-01-01'],
   ARRAY['infinity'::timestamptz, '0044-03-15 BC', '12020-01-01', '9999-12-31'],
   '{NaN,2}', '{}', '{}'),
  (3, now(), NULL, NULL, NULL, NULL, NULL, NULL, NULL);
"""
ELEMENTS = {
    1: {
        "b": [b"\x01\x02\xff", b"", None],
        "d": ["2020-01-02", None],
        "plain": ["1500-02-28 01:02:03"],
        "zoned": ["2020-01-02 03:04:05.123456"],
        "n": ["1.25", None],
        "e": ["NaN", "-0.5"],
        "k": ["true", "false", None],
    },
    2: {
        "b": [],
        "d": [None, None, None, "9999-12-31"],
        "plain": [None, "0001-01-01 00:00:00"],
        "zoned": [None, None, None, "9999-12-31 00:00:00"],
        "n": [None, "2.00"],
        "e": [],
        "k": [],
    },
    3: dict.fromkeys(("b", "d", "plain", "zoned", "n", "e", "k")),
}


def test_elements_of_arrays_are_those_of_the_source_or_counted(
    lake_bench: LakeBench,
) -> None:
    lake_bench.link.execute(ARRAYS)
    table = planned(lake_bench, "arrays", cursor="at")
    report = assert_done(lake_bench.load(table))
    assert report.facts["lossy"] == {"d": 1, "plain": 1, "zoned": 1, "n": 1}
    assert elements(lake_bench, table) == ELEMENTS
    lake_bench.sql("UPDATE arrays SET at = clock_timestamp()")
    report = assert_done(lake_bench.sync(table, report.facts["bound"]))
    assert report.facts["lossy"] == {"d": 1, "plain": 1, "zoned": 1, "n": 1}
    assert elements(lake_bench, table) == ELEMENTS
    assert lake_bench.verify(table).facts["verdict"] == "equal"


def elements(bench: LakeBench, table: TableSpec) -> dict[int, dict[str, Any]]:
    names = list(ELEMENTS[1])
    shown = [
        name
        if name == "b"
        else f"transform(`{name}`, v -> cast(v AS string)) AS {name}"
        for name in names
    ]
    found = bench.frame(table).selectExpr("id", *shown).collect()
    return {row["id"]: {name: plain(row[name]) for name in names} for row in found}


def plain(values: list[Any] | None) -> list[Any] | None:
    if values is None:
        return None
    return [bytes(v) if isinstance(v, bytearray) else v for v in values]


KEYS = {
    "till": ("timestamptz", "infinity", "date '2024-01-01'"),
    "day": ("date", "0044-03-15 BC", "'2024-01-01'"),
    "n": ("numeric(5,2)", "NaN", "1.5"),
    "many": ("int[]", "{{1,2},{3,4}}", "'{1}'"),
}


@pytest.mark.parametrize("name", first_then_long(*KEYS))
def test_a_key_without_a_form_in_the_lake_is_named_or_carried_as_text(
    lake_bench: LakeBench, name: str
) -> None:
    """The usual temporal table has infinity in its key, and no NULL."""
    kind, odd, usual = KEYS[name]
    lake_bench.sql(
        f"CREATE TABLE k (id int, {name} {kind}, at timestamptz DEFAULT now(),"
        f" PRIMARY KEY (id, {name})); INSERT INTO k VALUES (1, {usual})"
    )
    table = planned(lake_bench, "k", key=("id", name), cursor="at")
    low = assert_done(lake_bench.load(table)).facts["bound"]
    lake_bench.sql(f"INSERT INTO k VALUES (2, '{odd}')")
    again = planned(lake_bench, "k", key=("id", name), cursor="at")
    for report in (lake_bench.sync(table, low), lake_bench.load(again)):
        assert report.outcome == "invalid_request"
        assert report.error is not None
        assert report.error.code == "key_without_form"
        assert f"'{name}' ({table.columns[1].source_type})" in report.error.message
        assert odd in report.error.message
    as_text = replace(
        planned(lake_bench, "k", key=("id", name), cursor="at"),
        columns=tuple(
            replace(c, type="string") if c.source_name == name else c
            for c in table.columns
        ),
    )
    low = assert_done(lake_bench.load(as_text)).facts["bound"]
    assert lake_bench.texts(as_text, name)[1] == odd
    lake_bench.sql("UPDATE k SET at = clock_timestamp()")
    assert assert_done(lake_bench.sync(as_text, low)).facts["rows"] == 2
    assert lake_bench.verify(as_text).facts["verdict"] == "equal"


def test_rows_without_a_key_that_differ_by_microseconds_stay_two(
    lake_bench: LakeBench,
) -> None:
    lake_bench.sql("CREATE TABLE h (zoned timestamptz[], plain timestamp[])")
    for micros in (1, 2, 2):
        lake_bench.sql(
            f"INSERT INTO h VALUES (ARRAY['2020-01-01 00:00:00.12300{micros}+00'::"
            f"timestamptz, NULL], ARRAY['1950-01-01 00:00:00.99999{micros}'::timestamp])"
        )
    table = planned(lake_bench, "h", key=(), row_hash=True)
    assert_done(lake_bench.load(table))
    assert lake_bench.rows(table, "_sluice_count") == [(1,), (2,)]


def test_a_late_driver_does_not_double_staged_rows_without_a_key(
    lake_bench: LakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake_bench.sql("CREATE TABLE h (v text)")
    lake_bench.sql("INSERT INTO h VALUES ('a'), ('b')")
    table = planned(lake_bench, "h", key=(), row_hash=True)
    read_staged = kept_chunks.read_staged

    def read_behind_another(*args: Any) -> Any:
        for part in Path(table.staging).rglob("*.parquet"):
            shutil.copy(part, part.with_name(f"late-{part.name}"))
        return read_staged(*args)

    with monkeypatch.context() as patch:
        patch.setattr(kept_chunks, "read_staged", read_behind_another)
        report = lake_bench.load(table)
    assert report.error is not None
    assert (report.outcome, report.error.code) == ("terminal", "rows_miscounted")
    assert not lake_bench.state(table).timeline.completed_writes
    assert_done(lake_bench.load(table))
    assert lake_bench.rows(table, "v", "_sluice_count") == [("a", 1), ("b", 1)]


def test_partitions_whose_folder_is_that_of_null_are_told(
    lake_bench: LakeBench,
) -> None:
    lake_bench.sql(
        "CREATE TABLE p (id int PRIMARY KEY, area text, at timestamptz NOT NULL)"
    )
    for number, area in enumerate(("", None, "__HIVE_DEFAULT_PARTITION__", "a/b", " ")):
        lake_bench.link.execute("INSERT INTO p VALUES (%s, %s, now())", [number, area])
    table = lake_bench.table("p", partition_by=("area",), cursor="at")
    report = assert_done(lake_bench.load(table))
    assert report.facts["lossy"] == {"area": 2}
    assert any("2 values of area have no form" in w for w in report.warnings)
    lake_bench.sql("UPDATE p SET at = clock_timestamp()")
    report = assert_done(lake_bench.sync(table, report.facts["bound"]))
    assert report.facts["lossy"] == {"area": 2}
    assert dict(lake_bench.rows(table, "id", "area")) == {
        0: None, 1: None, 2: None, 3: "a/b", 4: " ",
    }  # fmt: skip


def test_text_that_the_server_cannot_send_is_named(
    spark: Any, source_pg: Any, tmp_path: Path
) -> None:
    dsn = source_pg.create_database("bytes", like="template0", encoding="SQL_ASCII")
    bench = LakeBench(spark, f"{dsn}?client_encoding=utf8", tmp_path)
    bench.sql(
        "CREATE TABLE t (id text PRIMARY KEY, v text,"
        " at timestamptz NOT NULL DEFAULT now())"
    )
    bench.sql("INSERT INTO t VALUES ('a', E'\\303\\251'), ('b', 'ok'), ('c', '')")
    table = bench.table("t", cursor="at")
    bound = assert_done(bench.load(table)).facts["bound"]
    for row, said in (
        ("'d', E'caf\\351'", "column 'v' of the row with id = d has"),
        # the key, by which a load is cut
        ("E'e\\351', ''", "column 'id' of the row with id = e\\351 has"),
    ):
        bench.sql(f"INSERT INTO t VALUES ({row})")
        resync = bench.load(table, kind="resync", chunk_rows=2)
        for report in (bench.sync(table, bound), resync):
            assert report.error is not None
            assert (report.outcome, report.error.code) == (
                "terminal",
                "source_text_refused",
            )
            assert said in report.error.message
            assert "SQL_ASCII" in report.error.message
        bench.sql("DELETE FROM t WHERE id > 'c'")
    bench.close()
