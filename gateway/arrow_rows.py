"""Pages of a result as the engine made them: read as Arrow, or as values of JSON.

Decimals, times and integers beyond 2^53 are text then, so that no reader loses a digit.
Must not know HTTP or where pages lie.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from datetime import date
from typing import TYPE_CHECKING, Any

from core.json_values import exact

if TYPE_CHECKING:
    import pyarrow

Values = list[Any]
_EPOCH = date(1970, 1, 1).toordinal()
DAY_MICROS = 86_400_000_000
_ERA_DAYS, _ERA_YEARS = 146_097, 400  # always as many


def batch_of(page: bytes, rows: int | None = None) -> pyarrow.RecordBatch:
    """The page's rows, at most `rows` of them."""
    import pyarrow as pa

    with (
        pa.input_stream(pa.BufferReader(page), compression="zstd") as raw,
        pa.ipc.open_stream(raw) as stream,
    ):
        batch = stream.read_next_batch()
    return batch if rows is None else batch.slice(0, rows)


def json_rows(batch: pyarrow.RecordBatch) -> list[list[Any]]:
    """Each row a list of what JSON can hold exactly."""
    columns = [json_values(column) for column in batch.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def json_values(column: pyarrow.Array) -> Values:
    """A column's values as JSON holds them exactly."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_timestamp(kind):
        return _each(time_text, column.cast(pa.timestamp("us")).cast(pa.int64()))
    if pa.types.is_date(kind):
        return _each(date_text, column.cast(pa.int32()))
    if pa.types.is_decimal(kind):
        return _each(lambda value: format(value, "f"), column)
    if pa.types.is_binary(kind):
        return _each(bytes.hex, column)
    if pa.types.is_int64(kind):
        return _each(exact, column)
    if pa.types.is_float32(kind):
        return _each(lambda value: _number(_short(value)), column)
    if pa.types.is_float64(kind):
        return _each(_number, column)
    found: Values = column.to_pylist()
    return found


def _each(make: Callable[[Any], object], column: pyarrow.Array) -> Values:
    return [None if value is None else make(value) for value in column.to_pylist()]


def _number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


def _short(value: float) -> float:
    """The shortest number that is the same in 32 bits: 0.1 and not 0.10000000149."""
    if not math.isfinite(value):
        return value
    four = struct.pack("f", value)
    shown = (float(f"{value:.{digits}g}") for digits in range(6, 10))
    return next((one for one in shown if _is_in_four(one, four)), value)


def _is_in_four(value: float, four: bytes) -> bool:
    try:
        return struct.pack("f", value) == four
    except OverflowError:
        return False


def date_text(days: int) -> str:
    """A day since 1970, also of years that Python's dates do not know."""
    eras, day = divmod(days + _EPOCH - 1, _ERA_DAYS)
    found = date.fromordinal(day + 1)
    year = found.year + eras * _ERA_YEARS
    return f"{_year(year)}-{found.month:02}-{found.day:02}"


def _year(year: int) -> str:
    if year > 9999:
        return f"+{year}"
    return f"{year:04}" if year >= 0 else f"-{-year:04}"


def time_text(micros: int) -> str:
    """Microseconds since 1970 as Spark prints them: without zeros at the end."""
    days, rest = divmod(micros, DAY_MICROS)
    seconds, fraction = divmod(rest, 1_000_000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    text = f"{date_text(days)} {hour:02}:{minute:02}:{second:02}"
    return f"{text}.{fraction:06}".rstrip("0") if fraction else text
