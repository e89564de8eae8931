"""Results as files: exact values, NULL apart from "", types that Parquet keeps."""

from __future__ import annotations

import csv
import io
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from pyarrow import parquet

from gateway import exports
from gateway.exports import ResultColumn, arrow_chunks, csv_chunks, parquet_chunks

MAX_DECIMAL = "9" * 28 + "." + "9" * 10


def batch(*columns: object) -> pa.RecordBatch:
    names = [f"c{number}" for number in range(len(columns))]
    return pa.RecordBatch.from_arrays([pa.array(c) for c in columns], names)


def text_of(columns: list[str], *rows: list[object]) -> str:
    pages = [batch(*zip(*rows, strict=True))] if rows else []
    made = csv_chunks([ResultColumn(name, "string") for name in columns], pages)
    return b"".join(made).decode()


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (None, ""),
        ("", '""'),
        ("plain", "plain"),
        (" spaces ", " spaces "),
        ("a,b", '"a,b"'),
        ('say "hi"', '"say ""hi"""'),
        ("two\nlines", '"two\nlines"'),
        ("two\r\nlines", '"two\r\nlines"'),
        ("Größe 订单", "Größe 订单"),
        ("=1+1", "=1+1"),
        (True, "true"),
        (False, "false"),
        (0.1, "0.1"),
        (-7, "-7"),
        (2**63 - 1, "9223372036854775807"),
        (Decimal(MAX_DECIMAL), MAX_DECIMAL),
        (float("nan"), "NaN"),
    ],
)
def test_csv_fields(value, field) -> None:
    assert text_of(["a", "b"], ["x", value]) == f"a,b\r\nx,{field}\r\n"


def test_csv_is_read_back_by_others_as_it_was() -> None:
    rows = [["a,b", 'q"', "x\r\ny"], ["", "=cmd()", "ö"]]
    text = text_of(["one", "t,wo", "three"], *rows)
    assert list(csv.reader(io.StringIO(text, newline=""), strict=True)) == [
        ["one", "t,wo", "three"],
        *rows,
    ]
    assert text_of(["only"]) == "only\r\n"


def test_readers_skip_no_row_of_one_column() -> None:
    """They take a line of blanks for none, as pandas does."""
    text = text_of(["a"], [None], [""], ["  "], ["\t"], ["x"], [None])
    assert text == 'a\r\n""\r\n""\r\n"  "\r\n"\t"\r\nx\r\n""\r\n'
    rows = [row["a"] for row in csv.DictReader(io.StringIO(text, newline=""))]
    assert rows == ["", "", "  ", "\t", "x", ""]


NOON = datetime.fromisoformat("2026-11-21T12:00:00.123456")
CASES = [
    ("boolean", pa.bool_(), [True, None, False], None),
    ("tinyint", pa.int8(), [-128, 127], None),
    ("smallint", pa.int16(), [-32768], None),
    ("int", pa.int32(), [2**31 - 1], None),
    ("bigint", pa.int64(), [5, 2**63 - 1], None),
    ("float", pa.float32(), [0.5], None),
    ("double", pa.float64(), [0.1, float("inf")], None),
    ("decimal(38,10)", pa.decimal128(38, 10), [Decimal(MAX_DECIMAL)], None),
    ("decimal(5,0)", pa.decimal128(5, 0), [Decimal(-12345)], None),
    ("date", pa.date32(), [date(2024, 2, 29), date.min], None),
    ("timestamp", pa.timestamp("us"), [NOON, None], pa.timestamp("us", "UTC")),
    ("binary", pa.binary(), [b"\x00\xff", b""], None),
    ("string", pa.string(), ["", None, "ö"], None),
    ("array", pa.string(), ["[1,2]"], None),
    ("interval_day_time", pa.string(), ["1 00:00:00"], None),
    ("void", pa.string(), [None, None], pa.null()),
]


@pytest.mark.parametrize(("type_name", "expected", "values", "stored"), CASES)
def test_types_and_values_of_files(type_name, expected, values, stored) -> None:
    """`stored` is how the engine has them, where that is another type."""
    columns = [ResultColumn("c", type_name)]
    array = pa.array(values, stored or expected)
    pages = [batch(array)]
    data = b"".join(parquet_chunks(columns, pages))
    stream = b"".join(arrow_chunks(columns, pages))
    for table in (
        parquet.read_table(io.BytesIO(data)),
        pa.ipc.open_stream(stream).read_all(),
    ):
        assert table.schema.field("c").type == expected
        assert table.column("c").to_pylist() == values


def test_parquet_goes_out_group_by_group(monkeypatch) -> None:
    monkeypatch.setattr(exports, "GROUP_ROWS", 100)
    read = []

    def pages():
        for start in range(0, 1000, 50):
            read.append(start)
            numbers = range(start, start + 50)
            yield batch(pa.array(numbers, pa.int32()), [f"{n}" for n in numbers])

    columns = [ResultColumn("n", "int"), ResultColumn("n", "string")]
    chunks = parquet_chunks(columns, pages())
    first = next(chunks)
    assert read == [0, 50], "nothing is read ahead of what is sent"
    data = b"".join([first, *chunks])
    table = parquet.read_table(io.BytesIO(data))
    assert table.column_names == ["n", "n_2"]
    assert table.column("n").to_pylist() == list(range(1000))
    assert parquet.ParquetFile(io.BytesIO(data)).num_row_groups == 10


def test_a_result_without_rows_is_a_file_with_its_columns() -> None:
    columns = [ResultColumn("a", "int"), ResultColumn("b", "decimal(4,2)")]
    data = b"".join(parquet_chunks(columns, []))
    table = parquet.read_table(io.BytesIO(data))
    assert (table.num_rows, table.column_names) == (0, ["a", "b"])


def test_groups_of_wide_rows_are_smaller() -> None:
    page = batch(["x" * (exports.GROUP_BYTES // 2)])
    made = parquet_chunks([ResultColumn("t", "string")], [page] * 5)
    file = parquet.ParquetFile(io.BytesIO(b"".join(made)))
    groups = [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)]
    assert groups == [2, 2, 1]
