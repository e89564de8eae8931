"""What the log's texts become: the same values, in the same form, as a snapshot reads
them (`ingest.sources.postgresql.dialect` says how; each case here names its partner).

A table's columns are converted at once, by Arrow. The server printed the texts under
`LOG_SETTINGS`.
"""

from __future__ import annotations

import re
from binascii import unhexlify
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain

import pyarrow as pa
import pyarrow.compute as pc

from catalog.schema.types import DataType
from ingest.contract.table import ColumnSpec, SealedColumn
from ingest.sources.dialects import dialect_of
from ingest.sources.postgresql.log.pgoutput import Relation, Rows, Value
from ingest.sources.row_batches import (
    BatchForm,
    Converted,
    arrow_type,
    value_unreadable,
)

# Amounts are printed as in C: "$1,234.56".
LOG_SETTINGS = {"lc_monetary": "C"}
_DIALECT = dialect_of("postgresql")
_MOMENTS = frozenset({"date", "timestamp", "timestamp_ntz"})
# Of those: four digits of the year, and none before the first.
_FITTING = re.compile(r"\d{4}-[^B]*")
_ELEMENTS = {
    mark: re.compile(rf'"((?:[^"\\]|\\.)*)"|([^"{mark}]+)', re.DOTALL) for mark in ",;"
}
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)

Codec = Callable[[pa.Array], Converted]


def codec_of(column: ColumnSpec, *, money_digits: int = 2) -> Codec:
    """money_digits: of the fraction of an amount in the database's own locale, by which
    a snapshot reads its number."""
    type = DataType.parse(column.type)
    if type.name == "array":
        source = column.source_type.removesuffix("[]")
        element = ColumnSpec("", "", source, type.element)
        of_element = codec_of(element, money_digits=money_digits)
        separator = ";" if source == "box" else ","
        return lambda texts: _arrays(texts, of_element, arrow_type(type), separator)
    return _scalar(column.source_type, type, money_digits)


def _scalar(source_type: str, type: DataType, money_digits: int) -> Codec:
    target = arrow_type(type)
    if type.name == "boolean":
        return lambda texts: (pc.equal(texts, "t"), [])
    if type.name == "binary":
        return lambda texts: (pa.array(map(_bytes, texts.to_pylist()), target), [])
    if type.name in _MOMENTS:
        return lambda texts: _moments(texts, target)
    if type.name == "decimal":
        return lambda texts: _decimals(texts, target)
    change = _text_of(source_type, money_digits) if type.name == "string" else None
    if change is None:
        return lambda texts: (texts.cast(target), [])
    return lambda texts: (_changed(texts, change), [])


def _changed(texts: pa.Array, change: Callable[[str], str]) -> pa.Array:
    found = (None if text is None else change(text) for text in texts.to_pylist())
    return pa.array(found, pa.string())


def _text_of(source_type: str, money_digits: int) -> Callable[[str], str] | None:
    """Where `::text` says something else than the log prints."""
    name = source_type.partition("(")[0]
    if name in {"character", "bpchar"}:
        return lambda text: text.rstrip(" ")
    if name == "inet":
        return lambda text: (
            text if "/" in text else f"{text}/{128 if ':' in text else 32}"
        )
    if name == "money":
        return lambda text: _amount(text, money_digits)
    return None


def _amount(text: str, digits: int) -> str:
    cents = text.translate({36: None, 44: None, 46: None})
    sign, number = ("-", cents[1:]) if cents.startswith("-") else ("", cents)
    whole = number.lstrip("0").rjust(digits + 1, "0")
    if not digits:
        return sign + whole
    return f"{sign}{whole[:-digits]}.{whole[-digits:]}"


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else unhexlify(text[2:])


def _moments(texts: pa.Array, target: pa.DataType) -> Converted:
    try:
        return texts.cast(target), []
    except pa.ArrowInvalid:
        return _without(texts, lambda text: not _FITTING.fullmatch(text), target)


def _decimals(texts: pa.Array, target: pa.DataType) -> Converted:
    try:
        return texts.cast(target), []
    except pa.ArrowInvalid:
        return _without(texts, lambda text: text == "NaN", target)


def _without(
    texts: pa.Array, is_unfit: Callable[[str], bool], target: pa.DataType
) -> Converted:
    found = texts.to_pylist()
    bad = [n for n, text in enumerate(found) if text is not None and is_unfit(text)]
    for place in bad:
        found[place] = None
    return pa.array(found, pa.string()).cast(target), bad


def _arrays(
    texts: pa.Array, element: Codec, target: pa.DataType, separator: str
) -> Converted:
    """An element without a form is NULL, and its row is told; an array of several
    dimensions has none itself."""
    given = texts.to_pylist()
    found = [None if text is None else elements(text, separator) for text in given]
    bad = {n for n, one in enumerate(found) if one is None and given[n] is not None}
    flat = chain.from_iterable(one or () for one in found)
    values, unfit = element(pa.array(flat, pa.string()))
    ends = [0, *accumulate(len(one or ()) for one in found)]
    bad |= {bisect_right(ends, place) - 1 for place in unfit}
    is_null = pa.array([one is None for one in found], pa.bool_())
    places = pa.array(ends, pa.int32())
    made = pa.ListArray.from_arrays(places, values, type=target, mask=is_null)
    return made, sorted(bad)


def elements(text: str, separator: str = ",") -> list[str | None] | None:
    """Of an array of one dimension as the server prints it; None = it has more."""
    if text.startswith("["):  # bounds that do not begin with 1
        text = text[text.index("=") + 1 :]
    body = text[1:-1]
    if not body:
        return []
    if body[0] == "{":
        return None
    if '"' not in body:
        return [None if one == "NULL" else one for one in body.split(separator)]
    found: list[str | None] = []
    for quoted, plain in _ELEMENTS[separator].findall(body):
        if plain:
            found.append(None if plain == "NULL" else plain)
        else:
            found.append(_ESCAPED.sub(r"\1", quoted))
    return found


@dataclass(frozen=True, slots=True)
class RowReader:
    """Turns a table's rows into batches. Made once for each description of the table.

    places  of the columns among those of the relation
    """

    form: BatchForm
    places: tuple[int, ...]
    codecs: tuple[Codec, ...]

    @classmethod
    def of(
        cls, relation: Relation, columns: Sequence[ColumnSpec], *, money_digits: int = 2
    ) -> RowReader:
        """KeyError names a column that the log does not carry (a generated one)."""
        return cls(
            BatchForm.of(_DIALECT, columns),
            relation.positions(tuple(column.source_name for column in columns)),
            tuple(codec_of(column, money_digits=money_digits) for column in columns),
        )

    def batch(self, rows: Rows) -> pa.RecordBatch:
        """TerminalError `log_value_unreadable` names the column."""
        count = len(rows.ops)
        by_column = list(zip(*rows.values, strict=True))
        head = [
            pa.array(rows.ops, pa.int8()),
            pa.array(rows.xids, pa.uint32()),
            self._unchanged(rows, count),
        ]
        found = (
            _converted(by_column[place], codec, rows.relation, column)
            for place, column, codec in zip(
                self.places, self.form.columns, self.codecs, strict=True
            )
        )
        return self.form.batch(head, found)

    def _unchanged(self, rows: Rows, count: int) -> pa.Array:
        """By the places of the batch's columns, not of the relation's."""
        if not rows.unchanged:
            return pa.nulls(count, pa.binary())
        width = (len(self.places) + 7) // 8
        made: list[bytes | None] = [None] * count
        for row, bits in rows.unchanged.items():
            mine = sum(
                1 << n for n, place in enumerate(self.places) if bits >> place & 1
            )
            made[row] = mine.to_bytes(width, "little") if mine else None
        return pa.array(made, pa.binary())


def _converted(
    values: Sequence[Value], codec: Codec, relation: Relation, column: SealedColumn
) -> Converted:
    try:
        return codec(pa.array(values, pa.binary()).cast(pa.string()))
    except (pa.ArrowException, ValueError) as error:
        raise value_unreadable(
            f"{relation.schema}.{relation.name}", column, error
        ) from error
