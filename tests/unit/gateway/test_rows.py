"""JSON values of result rows, and pages of them."""

from __future__ import annotations

import pytest

from gateway.engines.port import EngineColumn
from gateway.hs2.rowset import encode_row_set
from gateway.hs2.values import TypeId
from gateway.rows import ResultFile, json_rows, type_name


def test_no_reader_loses_a_digit():
    types = [
        TypeId.BIGINT,
        TypeId.DOUBLE,
        TypeId.DECIMAL,
        TypeId.BINARY,
        TypeId.BOOLEAN,
    ]
    rows = [
        (2**53, 0.1, "12.50", b"\x00\xff", True),
        (2**53 + 1, float("nan"), None, None, None),
        (-(2**53) - 1, float("-inf"), "0", b"", False),
    ]
    assert json_rows(encode_row_set(types, rows)) == [
        [2**53, 0.1, "12.50", "00ff", True],
        ["9007199254740993", "NaN", None, None, None],
        ["-9007199254740993", "-Infinity", "0", "", False],
    ]


@pytest.mark.parametrize(
    ("column", "name"),
    [
        (EngineColumn("a", TypeId.INT), "int"),
        (
            EngineColumn("a", TypeId.DECIMAL, {"precision": 12, "scale": 2}),
            "decimal(12,2)",
        ),
        (EngineColumn("a", 99), "string"),
    ],
)
def test_type_names(column, name):
    assert type_name(column) == name


def test_pages_give_back_every_row_in_order(tmp_path):
    result = ResultFile(tmp_path / "r.jsonl", page_rows=3)
    for start in range(0, 10, 2):
        result.append([[start, "ü"], [start + 1, None]])
    result.finish()
    pages = [result.page(n) for n in range(5)]
    assert [len(page) for page in pages] == [3, 3, 3, 1, 0]
    assert [row[0] for page in pages for row in page] == list(range(10))
    assert result.rows == 10
    result.remove()
    result.remove()
    assert not (tmp_path / "r.jsonl").exists()
