"""Results as workbooks: read back by another hand, nothing lost and no formula made."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from xml.etree import ElementTree
from zipfile import ZipFile

import pyarrow as pa
import pytest

from core.errors import InvalidRequest
from gateway import xlsx
from gateway.exports import ResultColumn

MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
LINK = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
Cell = tuple[str, str, str]  # its type, style and value


def batch(*columns: Any) -> pa.RecordBatch:
    names = [f"c{number}" for number in range(len(columns))]
    return pa.RecordBatch.from_arrays([pa.array(c) for c in columns], names)


def workbook(pages: Sequence[pa.RecordBatch], *names: str) -> ZipFile:
    columns = [ResultColumn(name, "string") for name in names]
    file = ZipFile(io.BytesIO(b"".join(xlsx.xlsx_chunks(columns, pages))))
    assert file.testzip() is None
    return file


def sheets(file: ZipFile) -> list[list[dict[str, Cell]]]:
    """Rows of each sheet in the workbook's order: cells by their place."""
    listed = ElementTree.fromstring(file.read("xl/workbook.xml"))
    links = ElementTree.fromstring(file.read("xl/_rels/workbook.xml.rels"))
    target = {link.get("Id"): link.get("Target") for link in links}
    names = [f"xl/{target[s.get(LINK)]}" for s in listed.iter(f"{MAIN}sheet")]
    kinds = ElementTree.fromstring(file.read("[Content_Types].xml"))
    described = {kind.get("PartName") for kind in kinds}
    assert {f"/{name}" for name in names} <= described
    return [list(rows_of(ElementTree.fromstring(file.read(name)))) for name in names]


def rows_of(sheet: ElementTree.Element) -> Iterator[dict[str, Cell]]:
    for row in sheet.iter(f"{MAIN}row"):
        cells = {}
        for cell in row:
            shown = [*cell.iter(f"{MAIN}v"), *cell.iter(f"{MAIN}t")]
            found = shown[0] if shown else None
            value = "" if found is None else found.text or ""
            place = cell.get("r", "").removesuffix(row.get("r", ""))
            cells[place] = (cell.get("t", "n"), cell.get("s", "0"), value)
        yield cells


NOON = datetime.fromisoformat("2026-11-21T12:00:00.250000")


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        ("plain", None, ("inlineStr", "0", "plain")),
        ("", None, ("inlineStr", "0", "")),
        (" a<b>&\"'\n\t", None, ("inlineStr", "0", " a<b>&\"'\n\t")),
        ("\r\0\x1f\uffff", None, ("inlineStr", "3", "_x000D__x0000__x001F__xFFFF_")),
        ("_x0041_", None, ("inlineStr", "0", "_x005F_x0041_")),
        ("=1+1", None, ("inlineStr", "3", "=1+1")),
        ("@x", None, ("inlineStr", "3", "@x")),
        (True, None, ("b", "0", "1")),
        (-7, pa.int32(), ("n", "0", "-7")),
        (10**15 - 1, pa.int64(), ("n", "0", "999999999999999")),
        (10**15, pa.int64(), ("inlineStr", "0", "1000000000000000")),
        (-(2**63), pa.int64(), ("inlineStr", "3", "-9223372036854775808")),
        (Decimal("-1.50"), None, ("n", "0", "-1.5")),
        (Decimal("0.000"), None, ("n", "0", "0")),
        (Decimal("100.00"), None, ("n", "0", "100")),
        (Decimal("0.00123456789012345"), None, ("n", "0", "0.00123456789012345")),
        (Decimal("1.234567890123456"), None, ("inlineStr", "0", "1.234567890123456")),
        (0.1, pa.float32(), ("n", "0", "0.1")),
        (1e300, pa.float64(), ("n", "0", "1e+300")),
        (float("nan"), None, ("inlineStr", "0", "NaN")),
        (float("-inf"), None, ("inlineStr", "3", "-Infinity")),
        (date(2024, 2, 29), None, ("n", "1", "45351")),
        (date(1900, 2, 28), None, ("inlineStr", "0", "1900-02-28")),
        (date(9999, 12, 31), None, ("n", "1", "2958465")),
        (NOON, pa.timestamp("us"), ("n", "2", "46347.50000289352")),
        (date.min, None, ("inlineStr", "0", "0001-01-01")),
        (b"\x00\xff", None, ("inlineStr", "0", "00ff")),
    ],
)
def test_cells(value: Any, kind: Any, expected: Cell) -> None:
    [[_, row]] = sheets(workbook([batch(pa.array([value], kind))], "c"))
    assert row["A"] == expected


def test_null_is_no_cell_and_names_stay_as_they_are() -> None:
    names = ["=cmd()", "n", *map(str, range(26))]
    page = batch(["x", None], [None, 2], *[[1, 2]] * 26)
    [[head, first, second]] = sheets(workbook([page], *names))
    assert [cell[2] for cell in head.values()] == names
    assert {cell[1] for cell in head.values()} == {"4"}
    assert [*head][24:] == ["Y", "Z", "AA", "AB"]
    assert ("A" in first, "B" in first) == (True, False)
    assert ("A" in second, "B" in second) == (False, True)


def test_a_result_without_rows_has_its_names() -> None:
    assert sheets(workbook([], "a", "b")) == [
        [{"A": ("inlineStr", "4", "a"), "B": ("inlineStr", "4", "b")}]
    ]


@pytest.mark.parametrize("limit", ["SHEET_ROWS", "SHEET_BYTES"])
def test_a_full_sheet_goes_on_in_the_next(
    monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(xlsx, limit, 4 if limit == "SHEET_ROWS" else 0)
    pages = [batch(range(start, start + 3)) for start in range(0, 9, 3)]
    found = sheets(workbook([*pages, batch([9])], "n"))
    numbers = [[row["A"][2] for row in rows] for rows in found]
    assert numbers == [
        ["n", *map(str, g)] for g in ((0, 1, 2), (3, 4, 5), (6, 7, 8), (9,))
    ]


def test_a_sheet_is_bounded_in_bytes_and_not_in_characters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Most of Chinese has three each."""
    monkeypatch.setattr(xlsx, "SHEET_BYTES", 2_000)
    found = sheets(workbook([batch(["中" * 700]), batch(["end"])], "c"))
    assert [len(rows) for rows in found] == [2, 2]


def test_more_columns_than_a_sheet_has_are_refused() -> None:
    columns = [ResultColumn("c", "int")] * (xlsx.MOST_COLUMNS + 1)
    with pytest.raises(InvalidRequest, match="16385 columns") as refused:
        xlsx.xlsx_chunks(columns, [])
    assert refused.value.code == "too_many_columns"


def test_a_text_that_no_cell_holds_is_cut_and_says_so() -> None:
    most = xlsx.MOST_CHARACTERS
    texts = ["x" * most, "x" * (most + 1), "😀" * 16_383, "😀" * 16_384]
    [[_, *rows]] = sheets(workbook([batch(texts)], "c"))
    whole, cut, wide, wide_cut = (row["A"][2] for row in rows)
    assert (whole, wide) == (texts[0], texts[2])
    assert cut.endswith(f"x… [cut, of {most + 1} characters]")
    assert wide_cut.endswith("😀… [cut, of 16384 characters]")
    lengths = [len(text.encode("utf-16-le")) // 2 for text in (cut, wide_cut)]
    assert most - 1 <= min(lengths) <= max(lengths) <= most


def test_it_goes_out_while_it_is_read() -> None:
    read = []

    def pages() -> Iterator[pa.RecordBatch]:
        for number in range(4):
            read.append(number)
            yield batch([number] * 500)

    chunks = xlsx.xlsx_chunks([ResultColumn("n", "int")], pages())
    next(chunks)
    assert read == [], "the names go out before anything is read"
    next(chunks)
    assert read == [0]
    assert b"[Content_Types].xml" in b"".join(chunks)
