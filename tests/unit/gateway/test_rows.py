"""JSON values of result rows, and pages of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.engines.port import EngineColumn
from gateway.hs2.rowset import encode_row_set
from gateway.hs2.values import TypeId
from gateway.rows import ResultFile, StoredPage, json_rows, type_name


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
    lines = json_rows(encode_row_set(types, rows))
    assert [json.loads(line) for line in lines] == [
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
        (EngineColumn("a", TypeId.NULL), "void"),
    ],
)
def test_type_names(column, name):
    assert type_name(column) == name


def stored(path: Path, rows: list[bytes], **bounds: int) -> ResultFile:
    result = ResultFile(path / "r.jsonl", **bounds)
    for start in range(0, len(rows), 2):
        result.append(rows[start : start + 2])
    result.finish()
    return result


def read(result: ResultFile, page: StoredPage) -> bytes:
    with result.open(page) as file:
        return file.read(page.size)


def test_pages_give_back_every_row_in_order(tmp_path):
    rows = json_rows(
        encode_row_set([TypeId.INT, TypeId.STRING], [(n, "ü\n") for n in range(10)])
    )
    result = stored(tmp_path, rows, page_rows=3)
    pages = [json.loads(read(result, page)) for page in result.pages]
    assert [len(page) for page in pages] == [3, 3, 3, 1]
    assert [row for page in pages for row in page] == [[n, "ü\n"] for n in range(10)]
    assert [page.first_row for page in result.pages] == [0, 3, 6, 9]
    assert result.rows == 10
    assert result.size == result.path.stat().st_size
    result.remove()
    result.remove()
    assert not (tmp_path / "r.jsonl").exists()


@pytest.mark.parametrize(
    ("sizes", "pages"),
    [
        ([48, 49], [2]),  # 100 bytes with comma and brackets
        ([48, 50], [1, 1]),
        ([500, 10, 10, 500, 500], [1, 2, 1, 1]),
        ([10, 500, 10], [1, 1, 1]),
    ],
)
def test_a_page_ends_before_it_has_too_many_bytes(tmp_path, sizes, pages):
    rows = [b'["' + b"x" * (size - 4) + b'"]' for size in sizes]
    result = stored(tmp_path, rows, page_bytes=100)
    found = [json.loads(read(result, page)) for page in result.pages]
    assert [len(page) for page in found] == pages
    assert [page.first_row for page in result.pages] == [
        sum(pages[:n]) for n in range(len(pages))
    ]
    assert b",".join(read(result, page)[1:-1] for page in result.pages) == b",".join(
        rows
    )
