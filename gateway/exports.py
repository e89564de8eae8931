"""A stored result as a file, CSV or Parquet, page by page: memory stays bounded.

Values come as `gateway.rows` keeps them (decimals, times and large integers as exact
text). Must not know HTTP or where the pages lie.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow

Rows = Sequence[Sequence[object]]
Chunks = Generator[bytes, None, None]

# Rows of a group of Parquet are in memory together; it ends with either.
GROUP_ROWS = 20_000
GROUP_CHARACTERS = 8 * 1024 * 1024
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_DATE = r"([+-]?\d{1,6})-(\d\d)-(\d\d)"
_TIME = re.compile(_DATE + r"[ T](\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?")
_DAY = re.compile(_DATE)
_EPOCH = date(1970, 1, 1).toordinal()
_MUST_QUOTE = re.compile(r'[",\r\n]')


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """`type` as SQL writes it, in lower case."""

    name: str
    type: str


# ---------------------------------------------------------------------------- CSV


def csv_chunks(columns: Sequence[ResultColumn], pages: Iterable[Rows]) -> Chunks:
    """RFC 4180 with a header, UTF-8. NULL is an empty field, "" an empty text; a line
    of nothing else is quoted, as readers skip blank lines.

    Values are never altered: what a spreadsheet might take for a formula stays.
    """
    yield _line([column.name for column in columns]).encode()
    for rows in pages:
        yield "".join(map(_line, rows)).encode()


def _line(values: Sequence[object]) -> str:
    line = ",".join(map(_field, values))
    return (line if line.strip() else f'"{line}"') + "\r\n"


def _field(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    if not text or _MUST_QUOTE.search(text):
        return '"' + text.replace('"', '""') + '"'
    return text


# ------------------------------------------------------------------------ Parquet


def parquet_chunks(columns: Sequence[ResultColumn], pages: Iterable[Rows]) -> Chunks:
    """Typed columns; arrays, maps and structs are text, as results carry them.

    Times are in UTC without a zone. A name that comes twice gets a number.
    """
    import pyarrow as pa
    from pyarrow import parquet

    makers = [_maker(column.type) for column in columns]
    names = _distinct([column.name for column in columns])
    schema = pa.schema([(n, t) for n, (t, _) in zip(names, makers, strict=True)])
    sink = _Sink()
    with parquet.ParquetWriter(sink, schema, compression="snappy") as writer:
        for rows in _groups(pages):
            values = zip(*rows, strict=True)
            arrays = [_array(v, m) for v, m in zip(values, makers, strict=True)]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
            yield sink.taken()
    yield sink.taken()


def _groups(pages: Iterable[Rows]) -> Iterator[Rows]:
    waiting: list[Sequence[object]] = []
    characters = 0
    for rows in pages:
        waiting += rows
        characters += sum(len(v) for row in rows for v in row if isinstance(v, str))
        if len(waiting) >= GROUP_ROWS or characters >= GROUP_CHARACTERS:
            yield waiting
            waiting, characters = [], 0
    if waiting:
        yield waiting


class _Sink:
    """What the writer has written and the reader has not taken yet."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._position = 0
        self.closed = False

    def write(self, data: Any) -> int:
        part = bytes(data)
        self._parts.append(part)
        self._position += len(part)
        return len(part)

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        """Nothing is kept back."""

    def close(self) -> None:
        self.closed = True

    def taken(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)


Maker = tuple["pyarrow.DataType", Callable[[Any], object]]


def _maker(type_name: str) -> Maker:
    """The Parquet type of a result's column, and its values out of stored ones."""
    import pyarrow as pa

    if found := _DECIMAL.fullmatch(type_name):
        return pa.decimal128(int(found[1]), int(found[2])), Decimal
    makers: dict[str, Maker] = {
        "boolean": (pa.bool_(), bool),
        "tinyint": (pa.int8(), int),
        "smallint": (pa.int16(), int),
        "int": (pa.int32(), int),
        "bigint": (pa.int64(), int),
        "float": (pa.float32(), float),
        "double": (pa.float64(), float),
        "date": (pa.date32(), _days),
        "timestamp": (pa.timestamp("us"), _micros),
        "binary": (pa.binary(), bytes.fromhex),
    }
    return makers.get(type_name, (pa.string(), str))


def _array(values: Sequence[Any], maker: Maker) -> pyarrow.Array:
    import pyarrow as pa

    type_, make = maker
    made = [None if value is None else make(value) for value in values]
    if pa.types.is_timestamp(type_):
        return pa.array(made, pa.int64()).cast(type_)
    if pa.types.is_date32(type_):
        return pa.array(made, pa.int32()).cast(type_)
    return pa.array(made, type_)


def _days(text: str) -> int:
    """Days since 1970, also of years that Python's dates do not know."""
    found = _DAY.fullmatch(text)
    if found is None:
        raise ValueError(f"no date: {text[:40]}")
    year, month, day = int(found[1]), int(found[2]), int(found[3])
    # 400 years are always as many days, so any year can be looked up in 2000…2399
    eras, year = divmod(year - 2000, 400)
    return date(2000 + year, month, day).toordinal() - _EPOCH + eras * 146_097


def _micros(text: str) -> int:
    """Microseconds since 1970 of a time as Spark prints it."""
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError(f"no time: {text[:40]}")
    day = _days(f"{found[1]}-{found[2]}-{found[3]}")
    seconds = int(found[4]) * 3600 + int(found[5]) * 60 + int(found[6])
    fraction = (found[7] or "").ljust(6, "0")
    return (day * 86_400 + seconds) * 1_000_000 + int(fraction)


def _distinct(names: Sequence[str]) -> list[str]:
    """Parquet readers look columns up by name, so each needs its own."""
    taken = set(names)
    seen: set[str] = set()
    found = []
    for name in names:
        new, number = name, 2
        while new in seen or (new != name and new in taken):
            new, number = f"{name}_{number}", number + 1
        seen.add(new)
        found.append(new)
    return found
