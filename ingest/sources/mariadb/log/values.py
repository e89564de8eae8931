"""What the values of the binary log become: the same, in the same form, as a snapshot
reads them (`ingest.sources.mariadb.dialect` says how).

A table's columns are converted at once; of values that repeat, each once.
"""

from __future__ import annotations

import uuid
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from catalog.schema.types import DataType
from core.errors import TerminalError
from core.sentences import Sentence
from ingest.contract.segments import OP, XID
from ingest.contract.table import ColumnSpec, SealedColumn
from ingest.sources.dialects import dialect_of
from ingest.sources.mariadb.log import table_map as kinds
from ingest.sources.mariadb.log.binlog import TRUNCATE, Rows
from ingest.sources.mariadb.log.charsets import (
    INEXACT,
    charset_of,
    decoded,
    is_read,
    is_shared,
)
from ingest.sources.mariadb.log.decimals import (
    Groups,
    decimal_bytes,
    decimal_groups,
    plain_text,
    unscaled,
)
from ingest.sources.mariadb.log.json_binary import json_text
from ingest.sources.mariadb.log.packed import column_value
from ingest.sources.mariadb.log.rows import Value
from ingest.sources.mariadb.log.table_map import LogColumn, TableMap
from ingest.sources.row_batches import (
    BatchForm,
    Converted,
    arrow_type,
    value_unreadable,
)

_DIALECT = dialect_of("mariadb")
_EPOCH = date(1970, 1, 1).toordinal()
_WIDE = pa.decimal128(38, 0)
_PLAIN = frozenset({kinds.TINY, kinds.SHORT, kinds.LONG, kinds.LONGLONG})
_UTF8 = frozenset({"utf8mb3", "utf8mb4"})

_ERRORS = (ArithmeticError, LookupError, TypeError, ValueError)

Codec = Callable[[Sequence[Value]], Converted]


@dataclass(frozen=True, slots=True)
class RowReader:
    """Turns a table's rows into batches. Made once for each description of the table.

    places  of the columns among those of the log
    texts   places of the key's texts of inexact character sets, and those
    """

    form: BatchForm
    places: tuple[int, ...]
    codecs: tuple[Codec, ...]
    texts: tuple[tuple[int, str], ...] = ()
    gone: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        table: TableMap,
        columns: Sequence[ColumnSpec],
        *,
        key: Sequence[str] = (),
        gone: Sequence[str] = (),
    ) -> RowReader:
        """gone: columns of the plan that were dropped there. KeyError names a column
        that the log does not have; ValueError says why values of a column cannot be
        read."""
        places = table.positions(tuple(column.source_name for column in columns))
        codecs = tuple(
            codec_of(table.columns[place], column)
            for place, column in zip(places, columns, strict=True)
        )
        keys = ((n, table.columns[n]) for n in table.positions(tuple(key)))
        texts = ((n, charset_of(c.collation)) for n, c in keys if c.collation)
        inexact = tuple((n, charset) for n, charset in texts if charset in INEXACT)
        form = BatchForm.of(_DIALECT, columns, gone=gone)
        return cls(form, places, codecs, inexact, tuple(gone))

    def batch(self, rows: Rows) -> pa.RecordBatch:
        """TerminalError `log_value_unreadable` names the column, `key_text_shared` a
        key that the lake cannot tell from another one."""
        count = len(rows.ops)
        by_column = list(zip(*rows.values, strict=True))
        for place, charset in self.texts:
            _refuse_shared(by_column[place], rows.table, place, charset)
        head = [
            pa.array(rows.ops, pa.int8()),
            pa.repeat(pa.scalar(0, pa.uint32()), count),
            pa.nulls(count, pa.binary()),
        ]
        found = (
            _converted(by_column[place], codec, rows.table, column)
            for place, column, codec in zip(
                self.places, self.form.columns, self.codecs, strict=True
            )
        )
        return self.form.batch(head, found)


def emptied(columns: Sequence[ColumnSpec]) -> pa.RecordBatch:
    """One row that says that the table was emptied, as a `RowReader` would say it."""
    form = BatchForm.of(_DIALECT, columns)
    row = {OP: TRUNCATE, XID: 0} | {f"m{number}": 0 for number in range(form.masks)}
    return pa.RecordBatch.from_pylist([row], schema=form.schema)


def codec_of(found: LogColumn, column: ColumnSpec) -> Codec:
    """found: the column as the log has it; column: as it is planned. ValueError when
    its values cannot be read."""
    type = DataType.parse(column.type)
    base = column.source_type.partition("(")[0].partition(" ")[0].lower()
    target = arrow_type(type)
    kind = found.type
    if kind == kinds.YEAR:
        return partial(_years, to=target, is_short=column.source_type == "year(2)")
    if kind in _PLAIN:
        return partial(_integers, found=found, to=target)
    if kind in (kinds.FLOAT, kinds.DOUBLE):
        return partial(_floats, kind=kind, to=target)
    if kind == kinds.DECIMAL:
        return _decimals(found, target, is_filled="zerofill" in column.source_type)
    if kind == kinds.TIMESTAMP:
        return partial(_timestamps, digits=found.digits, to=target)
    if kind == kinds.DATETIME:
        return partial(_datetimes, digits=found.digits, to=target)
    if change := _special(found, base):
        return partial(_each, change=change, to=target, form=_FORMS.get(kind))
    if kind not in _LENGTHS:
        raise ValueError(
            Sentence(
                "column %(column)s has the type %(type)s, which is not known",
                column=column.source_name,
                type=kind,
            )
        )
    return _strings(found, base, type, target)


_FORMS = {kinds.INT24: pa.int64(), kinds.BIT: pa.uint64(), kinds.DATE: pa.int32()}
_LENGTHS = frozenset(
    {kinds.VARCHAR, kinds.VAR_STRING, kinds.STRING, kinds.BLOB, kinds.GEOMETRY}
    | {kinds.COMPRESSED_VARCHAR, kinds.COMPRESSED_BLOB}
)


def _special(found: LogColumn, base: str) -> Callable[[Value], object] | None:
    """What becomes of a value, one by one."""
    kind = found.type
    simple: dict[int, Callable[[Value], object]] = {
        kinds.INT24: partial(_integer, is_signed=not found.is_unsigned),
        kinds.BIT: lambda value: int.from_bytes(_bytes(value), "big"),
        kinds.DATE: _date,
        kinds.TIME: partial(_time, digits=found.digits),
        kinds.JSON: lambda value: json_text(_bytes(value)),
    }
    if change := simple.get(kind):
        return change
    if kind in (kinds.ENUM, kinds.SET):
        charset = _readable(found)
        words = [decoded(word, charset) for word in found.words]
        if kind == kinds.SET:
            return partial(_set, words=words)
        return partial(_enum, words=["", *words])
    named: dict[str, Callable[[Value], object]] = {
        "uuid": _uuid,
        "inet4": _inet4,
        "inet6": _inet6,
    }
    return named.get(base) if kind == kinds.STRING else None


def _readable(found: LogColumn) -> str:
    charset = charset_of(found.collation)
    if not is_read(charset):
        raise ValueError(
            Sentence(
                "%(column)s has the character set %(charset)s, which is not read from"
                " the log",
                column=found.name,
                charset=charset,
            )
        )
    return charset


def _bytes(value: Value) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError(f"{value!r} is not bytes")
    return value


def _each(
    values: Sequence[Value],
    *,
    change: Callable[[Value], object],
    to: pa.DataType,
    form: pa.DataType | None = None,
) -> Converted:
    """form: of the changed values, when it is not that of the lake. A value that
    becomes None has no form."""
    known = {value: change(value) for value in set(values) - {None}}
    bad = [n for n, value in enumerate(values) if known.get(value, 0) is None]
    return pa.array(map(known.get, values), form or to).cast(to), bad


def _integers(
    values: Sequence[Value], *, found: LogColumn, to: pa.DataType
) -> Converted:
    type = pa.uint64() if found.is_unsigned else pa.int64()
    return pa.array(values, type).cast(to), []


def _years(values: Sequence[Value], *, to: pa.DataType, is_short: bool) -> Converted:
    """is_short: the server prints two digits of them."""
    found = [1900 + one if isinstance(one, int) and one else one for one in values]
    years = pa.array(found, pa.int64())
    if is_short:
        hundreds = _times(pc.divide(years, 100), 100)
        years = pc.subtract(years, hundreds)
    return years.cast(to), []


def _integer(value: Value, *, is_signed: bool) -> int:
    return int.from_bytes(_bytes(value), "little", signed=is_signed)


def _floats(values: Sequence[Value], *, kind: int, to: pa.DataType) -> Converted:
    width, type = (4, pa.float32()) if kind == kinds.FLOAT else (8, pa.float64())
    data, is_there = _joined(values, width, b"")
    found = pa.Array.from_buffers(type, len(values), [None, pa.py_buffer(data)])
    return _with_nulls(found, is_there).cast(to), []


def _joined(
    values: Sequence[Value], width: int, pad: bytes
) -> tuple[bytes, list[bool] | None]:
    """All values with so many bytes before each, and which are there; None = all."""
    is_there = None
    if None in values:
        is_there = [value is not None for value in values]
        empty = bytes(width)
        values = [empty if value is None else value for value in values]
    return pad + pad.join(map(_bytes, values)), is_there


def _with_nulls(values: pa.Array, is_there: list[bool] | None) -> pa.Array:
    if is_there is None:
        return values
    return pc.if_else(pa.array(is_there), values, pa.scalar(None, values.type))


def _numbers(values: Sequence[Value], width: int) -> tuple[pa.Array, list[bool] | None]:
    """Of values of at most eight bytes, the highest first; 0 of those that are NULL."""
    data, is_there = _joined(values, width, bytes(8 - width))
    numbers = array("Q", data)
    numbers.byteswap()
    buffers = [None, pa.py_buffer(numbers)]
    return pa.Array.from_buffers(pa.uint64(), len(values), buffers), is_there


def _low(numbers: pa.Array, bits: int) -> pa.Array:
    return pc.bit_wise_and(numbers, pa.scalar((1 << bits) - 1, pa.uint64()))


def _high(numbers: pa.Array, bits: int) -> pa.Array:
    if not bits:
        return numbers
    return pc.shift_right(numbers, pa.scalar(bits, pa.uint64()))


def _times(numbers: pa.Array, factor: int) -> pa.Array:
    return pc.multiply(numbers, pa.scalar(factor, numbers.type))


def _micros(numbers: pa.Array, digits: int) -> pa.Array:
    """Of the fraction of a second, which is in the lowest bytes."""
    width = (digits + 1) // 2
    return _times(_low(numbers, 8 * width), 10 ** (6 - 2 * width)).cast(pa.int64())


def _timestamps(values: Sequence[Value], *, digits: int, to: pa.DataType) -> Converted:
    """Since 1970, of which 0 stands for the zero date."""
    width = (digits + 1) // 2
    numbers, is_there = _numbers(values, 4 + width)
    seconds = _high(numbers, 8 * width).cast(pa.int64())
    micros = pc.add(_times(seconds, 1_000_000), _micros(numbers, digits))
    fits = pc.not_equal(micros, 0)
    return _fitting(micros, fits, is_there, to)


def _datetimes(values: Sequence[Value], *, digits: int, to: pa.DataType) -> Converted:
    width = (digits + 1) // 2
    numbers, is_there = _numbers(values, 5 + width)
    whole = _low(_high(numbers, 8 * width), 39)
    day = _high(whole, 17)
    days = {one: _days(one // 416, one // 32 % 13, one % 32) for one in _distinct(day)}
    found = [days[one] for one in day.to_pylist()]
    seconds = pc.add(
        pc.add(
            _times(_low(_high(whole, 12), 5), 3600),
            _times(_low(_high(whole, 6), 6), 60),
        ),
        _low(whole, 6),
    ).cast(pa.int64())
    of_days = pa.array(found, pa.int64())
    micros = pc.add(
        _times(pc.add(_times(of_days, 86_400), seconds), 1_000_000),
        _micros(numbers, digits),
    )
    return _fitting(micros, pc.is_valid(of_days), is_there, to)


def _distinct(numbers: pa.Array) -> list[int]:
    found: list[int] = pc.unique(numbers).to_pylist()
    return found


def _fitting(
    micros: pa.Array, fits: pa.Array, is_there: list[bool] | None, to: pa.DataType
) -> Converted:
    bad = []
    if not pc.all(fits).as_py():
        there = is_there or [True] * len(fits)
        pairs = zip(fits.to_pylist(), there, strict=True)
        bad = [n for n, (one, given) in enumerate(pairs) if given and not one]
        micros = pc.if_else(fits, micros, pa.scalar(None, pa.int64()))
    return _with_nulls(micros, is_there).cast(to), bad


def _days(year: int, month: int, day: int) -> int | None:
    """Since 1970; None when no calendar has it."""
    try:
        return date(year, month, day).toordinal() - _EPOCH
    except ValueError:
        return None


def _date(value: Value) -> int | None:
    number = int.from_bytes(_bytes(value), "little")
    return _days(number >> 9, number >> 5 & 15, number & 31)


def _time(value: Value, *, digits: int) -> str:
    data = _bytes(value)
    width = len(data) - 3
    number = int.from_bytes(data, "big") - (0x800000 << 8 * width)
    sign, number = ("-", -number) if number < 0 else ("", number)
    whole, part = number >> 8 * width, number & (1 << 8 * width) - 1
    text = f"{sign}{whole >> 12 & 1023:02}:{whole >> 6 & 63:02}:{whole & 63:02}"
    if not digits:
        return text
    return f"{text}.{f'{part:0{2 * width}}'[:digits]}"


def _decimals(found: LogColumn, to: pa.DataType, *, is_filled: bool) -> Codec:
    """One in the lake, or a text when it has too many digits for that. is_filled: that
    has zeros in front, as a snapshot's has."""
    groups = decimal_groups(found.length, found.scale)
    if pa.types.is_decimal(to):
        # their digits are taken as they are
        if found.scale != to.scale or found.length > to.precision:
            raise ValueError(
                f"{found.name} is decimal({found.length},{found.scale}) in the log,"
                f" which is no {to}"
            )
        if decimal_bytes(groups) <= 8 and found.length <= 18:
            return partial(_short_decimals, groups=groups, to=to)
        return partial(_long_decimals, groups=groups, to=to)

    width = found.length + bool(found.scale) if is_filled else 0

    def text(value: Value) -> str:
        return plain_text(unscaled(_bytes(value), groups), found.scale).zfill(width)

    return partial(_each, change=text, to=to)


def _short_decimals(
    values: Sequence[Value], *, groups: Groups, to: pa.DataType
) -> Converted:
    width = decimal_bytes(groups)
    numbers, is_there = _numbers(values, width)
    is_positive = pc.greater(_high(numbers, 8 * width - 1), 0)
    every = pa.scalar((1 << 8 * width) - 1, pa.uint64())
    numbers = pc.if_else(is_positive, numbers, pc.bit_wise_xor(numbers, every))
    numbers = _low(numbers, 8 * width - 1)
    at, whole = 8 * width, pa.repeat(pa.scalar(0, pa.uint64()), len(values))
    for size, digits in groups:
        at -= 8 * size
        part = _low(_high(numbers, at), 8 * size)
        whole = pc.add(_times(whole, 10**digits), part)
    signed = whole.cast(pa.int64())
    signed = pc.if_else(is_positive, signed, pc.negate(signed))
    found = _with_nulls(signed, is_there).cast(_WIDE)
    return pa.Array.from_buffers(to, len(values), found.buffers()), []


def _long_decimals(
    values: Sequence[Value], *, groups: Groups, to: pa.DataType
) -> Converted:
    numbers = [
        0 if value is None else unscaled(_bytes(value), groups) for value in values
    ]
    data = b"".join(number.to_bytes(16, "little", signed=True) for number in numbers)
    made = pa.Array.from_buffers(to, len(values), [None, pa.py_buffer(data)])
    is_there = [value is not None for value in values] if None in values else None
    return _with_nulls(made, is_there), []


def _enum(value: Value, *, words: Sequence[str]) -> str:
    if not isinstance(value, int):
        raise TypeError("no number of a word")
    return words[value]


def _set(value: Value, *, words: Sequence[str]) -> str:
    bits = int.from_bytes(_bytes(value), "little")
    return ",".join(word for n, word in enumerate(words) if bits >> n & 1)


def _uuid(value: Value) -> str:
    return str(uuid.UUID(bytes=_bytes(value).ljust(16, b"\0")))


def _inet4(value: Value) -> str:
    return ".".join(map(str, _bytes(value).ljust(4, b"\0")))


def _inet6(value: Value) -> str:
    """As MariaDB prints it: the first of the longest runs of zeros is left out, be it
    of one; what looks like an address of version 4 ends as one."""
    data = _bytes(value).ljust(16, b"\0")
    parts = [data[n] << 8 | data[n + 1] for n in range(0, 16, 2)]
    marks = "".join("1" if part else "0" for part in parts)
    run = max(map(len, marks.split("1")))
    if not run:
        return ":".join(f"{part:x}" for part in parts)
    first = marks.index("0" * run)
    head = ":".join(f"{part:x}" for part in parts[:first])
    tail = ":".join(f"{part:x}" for part in parts[first + run :])
    if first == 0 and run == 6:
        tail = _inet4(data[12:])
    elif first == 0 and run == 5 and parts[5] == 0xFFFF:
        tail = f"ffff:{_inet4(data[12:])}"
    return f"{head}::{tail}"


def _strings(found: LogColumn, base: str, type: DataType, to: pa.DataType) -> Codec:
    is_packed = found.type in (kinds.COMPRESSED_VARCHAR, kinds.COMPRESSED_BLOB)
    if type.name == "binary":
        width = found.length if base == "binary" else 0
        return partial(_binaries, width=width, is_packed=is_packed, to=to)
    charset = _readable(found)
    if charset in _UTF8 and not is_packed:
        return partial(_utf8, to=to)

    def text(value: Value) -> str:
        data = _bytes(value)
        return decoded(column_value(data) if is_packed else data, charset)

    return partial(_each, change=text, to=to)


def _binaries(
    values: Sequence[Value], *, width: int, is_packed: bool, to: pa.DataType
) -> Converted:
    if is_packed:
        return _each(values, change=lambda value: column_value(_bytes(value)), to=to)
    if width:
        # the log leaves out the zeros at the end
        values = [
            None if value is None else _bytes(value).ljust(width, b"\0")
            for value in values
        ]
    return pa.array(values, to), []


def _utf8(values: Sequence[Value], *, to: pa.DataType) -> Converted:
    return pa.array(values, pa.binary()).cast(to), []


def _refuse_shared(
    values: Sequence[Value], table: TableMap, place: int, charset: str
) -> None:
    """As `refuse_shared_texts` of a load does."""
    column = table.columns[place]
    found = {value for value in values if isinstance(value, bytes)}
    if column.type in (kinds.ENUM, kinds.SET):
        found = {*column.words}
    for data in sorted(found):
        if is_shared(data, charset):
            raise TerminalError(
                "%(table)s: %(column)s (%(charset)s) is of the key and"
                " has X'%(hex)s', which in Unicode is '%(text)s', as another"
                " key is or can be",
                table=f"{table.schema}.{table.name}",
                column=column.name,
                charset=charset,
                hex=data.hex()[:60],
                text=decoded(data, charset)[:60],
                code="key_text_shared",
                hint="give the column the character set utf8mb4 at the source, or"
                " change this value there; then resync the table",
            )


def _converted(
    values: Sequence[Value], codec: Codec, table: TableMap, column: SealedColumn
) -> Converted:
    try:
        return codec(values)
    except (pa.ArrowException, *_ERRORS) as error:
        raise value_unreadable(f"{table.schema}.{table.name}", column, error) from error
