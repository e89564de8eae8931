"""Pages of result rows: their values in JSON, and the file that they lie in."""

from __future__ import annotations

import pyarrow as pa
import pytest

from gateway import rows
from gateway.arrow_rows import batch_of, date_text, json_rows, time_text
from gateway.engines.port import EngineColumn
from gateway.hs2.values import TypeId
from gateway.rows import ResultFile, type_name
from tests.doubles.engine import arrow_page


def in_json(*columns: pa.Array) -> list[list[object]]:
    names = [f"c{number}" for number in range(len(columns))]
    return json_rows(pa.RecordBatch.from_arrays([*columns], names))


def test_no_reader_loses_a_digit():
    assert in_json(
        pa.array([2**53, 2**53 + 1, -(2**53) - 1]),
        pa.array([0.1, float("nan"), float("-inf")]),
        pa.array(["12.50", None, "0E-10"]).cast(pa.decimal128(38, 10)),
        pa.array([b"\x00\xff", None, b""]),
        pa.array([True, None, False]),
        pa.array([0.1, 16777216.0, float("inf")], pa.float32()),
    ) == [
        [2**53, 0.1, "12.5000000000", "00ff", True, 0.1],
        ["9007199254740993", "NaN", None, None, None, 16777216.0],
        ["-9007199254740993", "-Infinity", "0.0000000000", "", False, "Infinity"],
    ]


def test_times_are_written_as_spark_writes_them():
    at = pa.array([0, 1_500_000, None, -1])
    days = pa.array([0, 19_782, None, -1], pa.int32())
    assert in_json(
        at.cast(pa.timestamp("us", "UTC")),
        at.cast(pa.timestamp("us")),
        days.cast(pa.date32()),
    ) == [
        ["1970-01-01 00:00:00", "1970-01-01 00:00:00", "1970-01-01"],
        ["1970-01-01 00:00:01.5", "1970-01-01 00:00:01.5", "2024-02-29"],
        [None, None, None],
        ["1969-12-31 23:59:59.999999", "1969-12-31 23:59:59.999999", "1969-12-31"],
    ]


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (253402300799999999, "9999-12-31 23:59:59.999999"),
        (568971820800000000, "+20000-01-01 00:00:00"),
        (-62135596800000000, "0001-01-01 00:00:00"),
        (-62198755200000000, "-0001-01-01 00:00:00"),
    ],
)
def test_times_beyond_pythons_years_keep_their_value(micros, text):
    assert time_text(micros) == text
    assert date_text(micros // 86_400_000_000) == text.split()[0]


@pytest.mark.parametrize(
    ("column", "name"),
    [
        (EngineColumn("a", TypeId.INT), "int"),
        (
            EngineColumn("a", TypeId.DECIMAL, {"precision": 12, "scale": 2}),
            "decimal(12,2)",
        ),
        (EngineColumn("a", 99), "string"),
        (EngineColumn("a", TypeId.NULL), "void"),
    ],
)
def test_type_names(column, name):
    assert type_name(column) == name


def page(*numbers: int) -> tuple[int, bytes]:
    columns = [EngineColumn("n", TypeId.INT)]
    return len(numbers), arrow_page(columns, [(number,) for number in numbers])


def read(result: ResultFile, number: int, *, several: bool = False) -> list[int]:
    found = result.find(number, several=several)
    assert found
    with result.open(found) as file:
        left, read = found.rows, []
        for size in found.sizes:
            batch = batch_of(file.read(size), left)
            left -= batch.num_rows
            read += [row[0] for row in json_rows(batch)]
    assert found.first_row == read[0]
    return read


def test_pages_give_back_every_row_in_order(tmp_path, monkeypatch):
    result = ResultFile(tmp_path / "r.pages")
    assert result.append([page(0, 1, 2), page(3)], most=100)
    assert result.append([page(4, 5)], most=100)
    assert [read(result, number) for number in (0, 1)] == [[*range(6)], [3, 4, 5]]
    assert [result.before(number) for number in range(5)] == [None, 0, 0, 0, None]
    monkeypatch.setattr(rows, "SHOWN_ROWS", 3)
    assert [read(result, number) for number in range(3)] == [
        [0, 1, 2],
        [3, 4, 5],
        [4, 5],
    ]
    assert [result.before(number) for number in range(4)] == [None, 0, 1, 1]
    monkeypatch.setattr(rows, "SHOWN_ROWS", 1)
    assert [read(result, number) for number in range(3)] == [[0, 1, 2], [3], [4, 5]]
    assert [result.before(number) for number in range(4)] == [None, 0, 1, 2]
    assert read(result, 0, several=True) == [0, 1, 2, 3, 4, 5]
    assert read(result, 1, several=True) == [3, 4, 5]
    monkeypatch.setattr(rows, "PART_BYTES", len(page(0, 1, 2)[1]) + len(page(3)[1]))
    assert read(result, 0, several=True) == [0, 1, 2, 3]
    monkeypatch.setattr(rows, "PART_BYTES", 1)
    assert read(result, 1, several=True) == [3]
    assert result.find(3, several=True) is None
    assert (result.rows, result.size) == (6, result.path.stat().st_size)
    result.remove()
    result.remove()
    assert (result.find(0, several=False), result.path.exists()) == (None, False)


@pytest.mark.parametrize(
    ("most", "kept", "is_whole"),
    [
        (6, [0, 1, 2, 3, 4, 5], True),
        (5, [0, 1, 2, 3, 4], False),
        (3, [0, 1, 2], False),
        (2, [0, 1], False),
    ],
)
def test_rows_beyond_the_limit_are_left_out(tmp_path, most, kept, is_whole):
    result = ResultFile(tmp_path / "r.pages")
    pages = [page(0, 1, 2), page(3), page(4, 5)]
    assert result.append(pages, most=most) is is_whole
    assert read(result, 0, several=True) == kept
    assert result.rows == len(kept)
