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
from gateway.exports import ResultColumn, csv_chunks, parquet_chunks

MAX_DECIMAL = "9" * 28 + "." + "9" * 10


def text_of(columns: list[str], *rows: list[object]) -> str:
    made = csv_chunks([ResultColumn(name, "string") for name in columns], [list(rows)])
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
        ("9223372036854775807", "9223372036854775807"),
        (MAX_DECIMAL, MAX_DECIMAL),
        ("NaN", "NaN"),
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


CASES = [
    ("boolean", pa.bool_(), [True, None, False], [True, None, False]),
    ("tinyint", pa.int8(), [-128, 127], [-128, 127]),
    ("smallint", pa.int16(), [-32768], [-32768]),
    ("int", pa.int32(), [2**31 - 1], [2**31 - 1]),
    ("bigint", pa.int64(), [5, str(2**63 - 1)], [5, 2**63 - 1]),
    ("float", pa.float32(), [0.5], [0.5]),
    ("double", pa.float64(), [0.1, "Infinity"], [0.1, float("inf")]),
    ("decimal(38,10)", pa.decimal128(38, 10), [MAX_DECIMAL], [Decimal(MAX_DECIMAL)]),
    ("decimal(5,0)", pa.decimal128(5, 0), ["-12345"], [Decimal(-12345)]),
    ("date", pa.date32(), ["2024-02-29", "0001-01-01"], [date(2024, 2, 29), date.min]),
    (
        "timestamp",
        pa.timestamp("us"),
        ["2026-11-21 11:29:55.123456", "1969-12-31 23:59:59.5", None],
        [
            datetime.fromisoformat("2026-11-21T11:29:55.123456"),
            datetime.fromisoformat("1969-12-31T23:59:59.500000"),
            None,
        ],
    ),
    ("binary", pa.binary(), ["00ff", ""], [b"\x00\xff", b""]),
    ("string", pa.string(), ["", None, "ö"], ["", None, "ö"]),
    ("array", pa.string(), ["[1,2]"], ["[1,2]"]),
    ("interval_day_time", pa.string(), ["1 00:00:00"], ["1 00:00:00"]),
]


@pytest.mark.parametrize(("type_name", "expected", "stored", "read"), CASES)
def test_parquet_types_and_values(type_name, expected, stored, read) -> None:
    pages = [[[value] for value in stored]]
    data = b"".join(parquet_chunks([ResultColumn("c", type_name)], pages))
    table = parquet.read_table(io.BytesIO(data))
    assert table.schema.field("c").type == expected
    assert table.column("c").to_pylist() == read


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("1970-01-01 00:00:00", 0),
        ("9999-12-31 23:59:59.999999", 253402300799999999),
        ("+20000-01-01 00:00:00", 568971820800000000),
        ("-0001-01-01 00:00:00", -62198755200000000),
    ],
)
def test_times_beyond_pythons_years_keep_their_value(text, micros) -> None:
    data = b"".join(parquet_chunks([ResultColumn("t", "timestamp")], [[[text]]]))
    column = parquet.read_table(io.BytesIO(data)).column("t")
    assert column.cast(pa.int64()).to_pylist() == [micros]


def test_parquet_goes_out_group_by_group(monkeypatch) -> None:
    monkeypatch.setattr(exports, "GROUP_ROWS", 100)
    read = []

    def pages():
        for start in range(0, 1000, 50):
            read.append(start)
            yield [[n, f"{n}"] for n in range(start, start + 50)]

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
    data = b"".join(parquet_chunks(columns, [[]]))
    table = parquet.read_table(io.BytesIO(data))
    assert (table.num_rows, table.column_names) == (0, ["a", "b"])


def test_groups_of_wide_rows_are_smaller() -> None:
    page = [["x" * (exports.GROUP_CHARACTERS // 2)]]
    made = parquet_chunks([ResultColumn("t", "string")], [page] * 5)
    file = parquet.ParquetFile(io.BytesIO(b"".join(made)))
    groups = [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)]
    assert groups == [2, 2, 1]
