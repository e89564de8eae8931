"""A stored result as a workbook of Excel, written while it is read.

Must not know HTTP or where the pages lie.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape
from zipfile import ZIP_DEFLATED, ZipFile

from core.errors import InvalidRequest
from gateway.arrow_rows import DAY_MICROS, date_text, json_values, time_text
from gateway.exports import Chunks, ResultColumn, Sink

if TYPE_CHECKING:
    import pyarrow

# What Excel opens. Bytes of XML bound a sheet, too: a part of a ZIP file of 2 GiB and
# more has a form that Excel does not read.
SHEET_ROWS, MOST_COLUMNS, MOST_CHARACTERS = 1_048_576, 16_384, 32_767
SHEET_BYTES = 1 << 30
EXACT_DIGITS = 15
# Days of Excel's calendar: before the first one it has a 29 February 1900.
_EPOCH, _FIRST_DAY, _LAST_DAY = 25_569, 61, 2_958_465
_SPEED = 3  # of zlib: half the time of 6, files a tenth larger

_DATE, _TIME, _QUOTED, _HEAD = 1, 2, 3, 4  # styles, by their places in _STYLES
# A text with such a beginning becomes a formula when somebody edits its cell, unless
# it is marked.
_FORMULA = tuple("=+-@\t\r")
# Not in XML, or taken for the escape that stands for those.
_ESCAPED = re.compile("[\x00-\x08\x0b-\x1f\ufffe\uffff]|_(?=x[0-9A-Fa-f]{4}_)")

_XML = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_OPEN = "http://schemas.openxmlformats.org/"
_MAIN = f"{_OPEN}spreadsheetml/2006/main"
_LINKS = f"{_OPEN}package/2006/relationships"
_OFFICE = f"{_OPEN}officeDocument/2006/relationships"
_KIND = "application/vnd.openxmlformats-officedocument.spreadsheetml"
_ROOT = (
    f'{_XML}<Relationships xmlns="{_LINKS}"><Relationship Id="rId1"'
    f' Type="{_OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>'
)
_STYLES = (
    f'{_XML}<styleSheet xmlns="{_MAIN}"><numFmts count="2">'
    '<numFmt numFmtId="164" formatCode="yyyy\\-mm\\-dd"/>'
    '<numFmt numFmtId="165" formatCode="yyyy\\-mm\\-dd\\ hh:mm:ss.000"/></numFmts>'
    '<fonts count="2"><font/><font><b/></font></fonts>'
    '<fills count="2"><fill><patternFill patternType="none"/></fill>'
    '<fill><patternFill patternType="gray125"/></fill></fills>'
    '<borders count="1"><border/></borders><cellStyleXfs count="1"><xf/></cellStyleXfs>'
    '<cellXfs count="5"><xf xfId="0"/>'
    '<xf numFmtId="164" xfId="0" applyNumberFormat="1"/>'
    '<xf numFmtId="165" xfId="0" applyNumberFormat="1"/>'
    '<xf xfId="0" quotePrefix="1"/>'
    '<xf fontId="1" xfId="0" applyFont="1"/></cellXfs><cellStyles count="1">'
    '<cellStyle name="Normal" xfId="0" builtinId="0"/></cellStyles></styleSheet>'
)
# The names stay in sight, and a moment fits into its column.
_SHEET = (
    f'{_XML}<worksheet xmlns="{_MAIN}"><sheetViews><sheetView workbookViewId="0">'
    '<pane ySplit="1" topLeftCell="A2" activePane="bottomLeft" state="frozen"/>'
    '</sheetView></sheetViews><sheetFormatPr defaultColWidth="24"'
    ' defaultRowHeight="15"/><sheetData>'
)
_SHEET_END = "</sheetData></worksheet>"


def xlsx_chunks(
    columns: Sequence[ResultColumn], pages: Iterable[pyarrow.RecordBatch]
) -> Chunks:
    """Numbers, dates and times are Excel's own as far as it keeps their digits, all
    else is text and no formula; NULL is an empty cell.

    Each sheet begins with the names of the columns. InvalidRequest for more columns
    than a sheet has.
    """
    if len(columns) > MOST_COLUMNS:
        raise InvalidRequest(
            "the result has %(count)s columns, and a sheet %(most)s",
            count=len(columns),
            most=MOST_COLUMNS,
            code="too_many_columns",
            hint="select fewer columns, or take another format",
        )
    return _chunks(_lines(columns, pages))


def _chunks(lines: Iterable[tuple[int, bytes]]) -> Chunks:
    sink, sheets = Sink(), 0
    with ZipFile(sink, "w", ZIP_DEFLATED, compresslevel=_SPEED) as file:
        file.writestr("_rels/.rels", _ROOT)
        file.writestr("xl/styles.xml", _STYLES)
        for sheets, rows in groupby(lines, itemgetter(0)):
            with file.open(f"xl/worksheets/sheet{sheets}.xml", "w") as sheet:
                sheet.write(_SHEET.encode())
                for _, part in rows:
                    sheet.write(part)
                    yield sink.taken()
                sheet.write(_SHEET_END.encode())
        for name, text in _index(sheets):
            file.writestr(name, text)
    yield sink.taken()


def _lines(
    columns: Sequence[ResultColumn], pages: Iterable[pyarrow.RecordBatch]
) -> Iterator[tuple[int, bytes]]:
    """Rows in XML, each with the number of its sheet."""
    places = _places(len(columns))
    head = [_text(column.name, _HEAD) for column in columns]
    names = _row(places, 1, head).encode()
    sheet, row, size = 1, 2, 0
    yield sheet, names
    for page in pages:
        rest = page
        while rest.num_rows:
            if row > SHEET_ROWS or size > SHEET_BYTES:
                sheet, row, size = sheet + 1, 2, 0
                yield sheet, names
            part = rest.slice(0, SHEET_ROWS + 1 - row)
            rest = rest.slice(part.num_rows)
            cells = zip(*map(_cells, part.columns), strict=True)
            lines = (_row(places, at, one) for at, one in enumerate(cells, row))
            text = "".join(lines).encode()
            yield sheet, text
            row, size = row + part.num_rows, size + len(text)


def _row(places: Sequence[str], number: int, cells: Iterable[str | None]) -> str:
    shown = (
        f'<c r="{place}{number}"{cell}'
        for place, cell in zip(places, cells, strict=True)
        if cell
    )
    return f'<row r="{number}">{"".join(shown)}</row>'


def _places(count: int) -> list[str]:
    """A, B, … Z, AA, AB, …"""
    found = []
    for number in range(1, count + 1):
        letters, rest = "", number
        while rest:
            rest, letter = divmod(rest - 1, 26)
            letters = chr(ord("A") + letter) + letters
        found.append(letters)
    return found


# --------------------------------------------------------------------------- cells


def _cells(column: pyarrow.Array) -> list[str | None]:
    """A cell's XML behind its place; None where there is no value."""
    import pyarrow as pa

    kind = column.type
    make: Callable[..., str] = _plain
    if pa.types.is_date(kind):
        make, values = _day, column.cast(pa.int32()).to_pylist()
    elif pa.types.is_timestamp(kind):
        micros = column.cast(pa.timestamp("us")).cast(pa.int64())
        make, values = _moment, micros.to_pylist()
    elif pa.types.is_decimal(kind):
        make, values = _decimal, column.to_pylist()
    else:
        values = json_values(column)
    return [None if value is None else make(value) for value in values]


def _plain(value: float | str) -> str:
    if isinstance(value, bool):
        return f' t="b"><v>{value:d}</v></c>'
    is_text = isinstance(value, str)
    if is_text or (isinstance(value, int) and abs(value) >= 10**EXACT_DIGITS):
        return _text(str(value))
    return _number(repr(value))


def _decimal(value: Decimal) -> str:
    text = format(value, "f")
    shown = text.rstrip("0").rstrip(".") if "." in text else text
    digits = shown.lstrip("-0.").replace(".", "")
    return _text(text) if len(digits) > EXACT_DIGITS else _number(shown)


def _day(days: int) -> str:
    if not _FIRST_DAY <= days + _EPOCH <= _LAST_DAY:
        return _text(date_text(days))
    return _number(str(days + _EPOCH), _DATE)


def _moment(micros: int) -> str:
    days, rest = divmod(micros, DAY_MICROS)
    if not _FIRST_DAY <= days + _EPOCH <= _LAST_DAY:
        return _text(time_text(micros))
    return _number(repr(days + _EPOCH + rest / DAY_MICROS), _TIME)


def _number(text: str, style: int = 0) -> str:
    return f"{_styled(style)}><v>{text}</v></c>"


def _text(value: str, style: int = 0) -> str:
    shown = _ESCAPED.sub(lambda found: f"_x{ord(found[0]):04X}_", _fitting(value))
    style = style or (_QUOTED if value.startswith(_FORMULA) else 0)
    inside = f'<t xml:space="preserve">{escape(shown)}</t>'
    return f'{_styled(style)} t="inlineStr"><is>{inside}</is></c>'


def _styled(style: int) -> str:
    return f' s="{style}"' if style else ""


def _fitting(value: str) -> str:
    """As much as a cell holds; one that is cut says so. Excel counts UTF-16."""
    if len(value) <= MOST_CHARACTERS // 2:
        return value
    units = value.encode("utf-16-le")
    if len(units) <= 2 * MOST_CHARACTERS:
        return value
    note = f"… [cut, of {len(value)} characters]"
    kept = units[: 2 * (MOST_CHARACTERS - len(note))]
    return kept.decode("utf-16-le", "ignore") + note


# ---------------------------------------------------------------- what is where


def _index(sheets: int) -> Iterator[tuple[str, str]]:
    """What names the sheets, once all of them are written."""
    numbers = range(1, sheets + 1)
    listed = "".join(
        f'<sheet name="Result {n}" sheetId="{n}" r:id="rId{n}"/>' for n in numbers
    )
    yield (
        "xl/workbook.xml",
        f'{_XML}<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}"><sheets>{listed}</sheets>'
        "</workbook>",
    )
    links = "".join(
        f'<Relationship Id="rId{n}" Type="{_OFFICE}/worksheet"'
        f' Target="worksheets/sheet{n}.xml"/>'
        for n in numbers
    )
    yield (
        "xl/_rels/workbook.xml.rels",
        f'{_XML}<Relationships xmlns="{_LINKS}">{links}<Relationship Id="styles"'
        f' Type="{_OFFICE}/styles" Target="styles.xml"/></Relationships>',
    )
    kinds = "".join(
        f'<Override PartName="/xl/worksheets/sheet{n}.xml"'
        f' ContentType="{_KIND}.worksheet+xml"/>'
        for n in numbers
    )
    yield (
        "[Content_Types].xml",
        f'{_XML}<Types xmlns="{_OPEN}package/2006/content-types"><Default'
        ' Extension="rels"'
        ' ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{_KIND}.sheet.main+xml"/>'
        f'<Override PartName="/xl/styles.xml" ContentType="{_KIND}.styles+xml"/>'
        f"{kinds}</Types>",
    )
