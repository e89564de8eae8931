"""What a log says of one table, merged to the last write per key.

Arrow in, Arrow out: the rows have the form of a file of changes. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from catalog.schema.types import DataType
from catalog.schema.widening import widens_in_place
from core.errors import TerminalError
from core.sentences import Sentence, joined
from ingest.contract.applying import SEGMENT_LACKS_COLUMNS, SEGMENT_TYPES_DIFFER
from ingest.contract.positions import INDEX_BITS, MAX_INDEX
from ingest.contract.segments import INDEX, OP, OPS, UNCHANGED, XID
from ingest.contract.table import ColumnSpec, SealedColumn, TableSpec, read_shards
from ingest.driver.apply.log_truncations import rows_behind
from ingest.planning.partitions import IN_FOLDER_OF_NULL
from ingest.sources.postgresql.log.values import codec_of
from ingest.sources.row_batches import arrow_type, columns_in, columns_of
from ingest.sources.select import Selection, mask_of

_INSERT, _UPDATE, _DELETE, _MOVED, _TRUNCATE = range(len(OPS))
_NUMBER, _PLACE = "number", "place"


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of the table from one segment, as `ingest.sources.row_batches` says."""

    number: int
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class Shape:
    """The table's columns as its plan has them now.

    key        aliases of the record key
    partition  of what partitions the lake table beside that
    added      source name → the value in rows from before it was added, of columns that
               the lake table does not have yet
    read       see `read_shards`; None = it is not sharded
    """

    name: str
    columns: tuple[SealedColumn, ...]
    masks: int
    key: tuple[str, ...]
    partition: tuple[str, ...] = ()
    added: Mapping[str, pa.Scalar] = field(default_factory=dict)
    read: frozenset[str] | None = None

    @classmethod
    def of(
        cls, table: TableSpec, selection: Selection, *, added: Collection[str] = ()
    ) -> Shape:
        """added: source names of columns that no row had that was applied."""
        aliases = {
            column.source_name: selected.alias
            for column, selected in zip(table.columns, selection.columns, strict=True)
        }
        return cls(
            f"{table.database}.{table.name}",
            columns_of(selection, table.columns),
            len(selection.masks),
            tuple(aliases[name] for name in table.key),
            tuple(aliases[n] for n in table.partition_by if n not in table.key),
            {
                c.source_name: older_value(c)
                for c in table.columns
                if c.source_name in added
            },
            read_shards(table) if table.shards else None,
        )

    def carrying(self, names: Collection[str]) -> Shape:
        """For rows behind those that had these columns. Shards get them one by one, so
        rows of some lack what those of others had."""
        if self.read is not None:
            return self
        added = {k: v for k, v in self.added.items() if k not in names}
        return self if len(added) == len(self.added) else replace(self, added=added)

    @property
    def shard(self) -> str | None:
        """The alias of the column that has a row's shard; None = it is not sharded."""
        return None if self.read is None else self.key[0]

    def is_unread(self, key: tuple[Any, ...]) -> bool:
        """Whether the row is of a shard that the lake does not have yet, or that this
        plan does not know yet."""
        return self.read is not None and key[0] not in self.read

    @property
    def masked(self) -> tuple[str, ...]:
        return tuple(f"m{number}" for number in range(self.masks))

    @property
    def schema(self) -> pa.Schema:
        """Of the merged rows."""
        fields = [
            pa.field(c.alias, arrow_type(DataType.parse(c.type))) for c in self.columns
        ]
        masks = [pa.field(name, pa.int64()) for name in self.masked]
        own = [pa.field(OP, pa.string()), pa.field(INDEX, pa.int64())]
        return pa.schema([*fields, *masks, *own])


@dataclass(frozen=True, slots=True)
class Lacking:
    """Values that the log did not send and that no row of the batch has.

    keys    of the rows that the lake has them in
    places  of the merged rows that lack them, one for each key
    bits    which columns, by their places in the plan
    """

    keys: pa.Table
    places: tuple[int, ...]
    bits: tuple[int, ...]

    def aliases(self, shape: Shape) -> list[str]:
        """Of the columns that some row lacks."""
        every = 0
        for bits in self.bits:
            every |= bits
        return [c.alias for n, c in enumerate(shape.columns) if every >> n & 1]


@dataclass(frozen=True, slots=True)
class Merged:
    """Of each key the last write, with a table's schema `Shape.schema`.

    is_emptied  the table was truncated before these rows
    carried     source names of the columns that rows had
    emptied     of a sharded table the shards that were, each before its rows here
    """

    rows: pa.Table
    is_emptied: bool
    lacking: Lacking | None = None
    carried: frozenset[str] = frozenset()
    emptied: frozenset[str] = frozenset()

    def filled(self, shape: Shape, found: pa.Table) -> pa.Table:
        """The rows with the values that they lack. found: rows of the lake with the key
        and the columns of `lacking`, in any order, by their aliases. Of one that is not
        there the row is left out where its shard is read later, and TerminalError
        `row_missing` elsewhere."""
        lacking = self.lacking
        if lacking is None:
            return self.rows
        there = {key: n for n, key in enumerate(_record_keys(found, shape))}
        keys = _record_keys(lacking.keys, shape)
        places = [there.get(key) for key in keys]
        missing = [n for n, place in enumerate(places) if place is None]
        if lost := [n for n in missing if not shape.is_unread(keys[n])]:
            raise _missing(shape, len(lost))
        rows, columns = self.rows, list(shape.columns)
        for alias in lacking.aliases(shape):
            column = next(n for n, c in enumerate(columns) if c.alias == alias)
            wanted = list(range(rows.num_rows))
            for row, bits, place in zip(
                lacking.places, lacking.bits, places, strict=True
            ):
                if bits >> column & 1 and place is not None:
                    wanted[row] = rows.num_rows + place
            both = pa.chunked_array(
                [*rows[alias].chunks, *found[alias].cast(rows[alias].type).chunks]
            )
            taken = both.take(pa.array(wanted, pa.int64()))
            rows = rows.set_column(column, rows.schema.field(column), taken)
        return _without(rows, {lacking.places[n] for n in missing})


def merge(parts: Iterable[Part], shape: Shape, *, order: int = 1) -> Merged:
    """The last write per key of parts in the order of their segments.

    order  of this batch among several of one commit: later ones win
    TerminalError `segment_lacks_columns`, `segment_types_differ`, `key_without_form`
    """
    groups: list[_Group] = []
    # neighbours of one schema: ten thousand small parts are aligned at once
    for _, some in groupby(parts, key=lambda part: part.rows.schema.to_string()):
        groups.append(_aligned(list(some), shape))
        shape = shape.carrying(groups[-1].carried)
    behind = rows_behind(_joined(groups, shape), _unsent(groups), shape.shard)
    rows, unsent = behind.rows, behind.unsent
    _refuse_null_keys(rows, shape)
    places = _last_places(rows, shape)
    kept = rows.take(places)
    lacking = None
    if unsent:
        kept, lacking = _with_unsent(rows, kept, places, unsent, shape)
    carried = frozenset[str]().union(*(group.carried for group in groups))
    changes = _as_changes(kept, shape, order)
    return Merged(changes, behind.is_emptied, lacking, carried, behind.shards)


def older_value(column: ColumnSpec) -> pa.Scalar:
    """What rows from before it was added have in it, as an Arrow value."""
    type = arrow_type(DataType.parse(column.type))
    if column.older is None:
        return pa.scalar(None, type)
    values, _ = codec_of(column)(pa.array([column.older], pa.string()))
    return values[0]


def without_shown(rows: pa.Table, snapshot: str) -> pa.Table:
    """The rows whose transactions a load does not show.

    snapshot  `pg_current_snapshot()` as text: "xmin:xmax:running, …", all of 64 bits.
              The log has the lower 32 of them
    """
    _, ends, running = snapshot.split(":")
    end, half = int(ends), 1 << 31
    low = pc.cast(rows[XID], pa.int64())
    apart = pc.bit_wise_and(pc.add(pc.subtract(low, end & 0xFFFFFFFF), half), 2**32 - 1)
    whole = pc.add(pc.subtract(apart, half), end)
    is_running = pc.is_in(
        whole, value_set=pa.array([int(x) for x in running.split(",") if x], pa.int64())
    )
    is_hidden = pc.or_(pc.greater_equal(whole, end), is_running)
    return rows.filter(pc.or_(is_hidden, pc.equal(low, 0)))


def unfit_counts(rows: pa.Table, shape: Shape) -> dict[str, int]:
    """Source column → how many values of merged rows have no form in the lake."""
    found = {}
    for column in shape.columns:
        if column.bit >= 0:
            number, flag = mask_of(column.bit)
            marked = pc.bit_wise_and(rows[f"m{number}"], flag)
            count = pc.sum(pc.not_equal(marked, 0)).as_py() or 0
            if count:
                found[column.source_name] = int(count)
    return found


@dataclass(frozen=True, slots=True)
class _Group:
    """Rows in the plan's columns, with `op` and `number`; and of which the log did not
    send all values: row → places of the columns as bits."""

    rows: pa.Table
    carried: frozenset[str]
    unsent: Mapping[int, int] = field(default_factory=dict)


def _aligned(parts: Sequence[Part], shape: Shape) -> _Group:
    rows = pa.concat_tables([part.rows for part in parts])
    counts = pa.array([part.rows.num_rows for part in parts], pa.int64())
    numbers = pa.array([part.number for part in parts], pa.int64())
    spread = numbers if len(parts) == rows.num_rows else _repeated(numbers, counts)
    there = columns_in(parts[0].rows.schema)
    # such a row has no values, and the columns of a plan before or behind its moment
    is_emptying = pc.all(pc.equal(rows[OP], _TRUNCATE)).as_py()
    _refuse_others(parts[0], there, shape, is_emptying=is_emptying)
    by_name = {column.source_name: n for n, column in enumerate(there)}
    sources = [by_name.get(column.source_name, -1) for column in shape.columns]
    columns = {OP: rows[OP], _NUMBER: pa.chunked_array([spread])}
    for column, source in zip(shape.columns, sources, strict=True):
        wanted = arrow_type(DataType.parse(column.type))
        if source < 0:
            older = shape.added.get(column.source_name, pa.scalar(None)).cast(wanted)
            columns[column.alias] = pa.chunked_array([pa.repeat(older, rows.num_rows)])
            continue
        found = there[source]
        values = rows[found.alias]
        columns[column.alias] = values if values.type == wanted else values.cast(wanted)
    columns |= _masks(rows, there, shape, sources)
    carried = frozenset(() if is_emptying else by_name)
    return _Group(pa.table(columns), carried, _unsent_in(rows, sources))


def _repeated(values: pa.Array, counts: pa.Array) -> pa.Array:
    lists = [[n] * count for n, count in enumerate(counts.to_pylist())]
    places = [n for some in lists for n in some]
    return values.take(pa.array(places, pa.int64()))


def _masks(
    rows: pa.Table, there: Sequence[SealedColumn], shape: Shape, sources: Sequence[int]
) -> dict[str, pa.ChunkedArray]:
    bits = [
        (column.bit, there[n].bit if n >= 0 else -1)
        for column, n in zip(shape.columns, sources, strict=True)
    ]
    if all(now == then for now, then in bits):
        return {name: rows[name] for name in shape.masked}
    nothing = pa.chunked_array([pa.array([0] * rows.num_rows, pa.int64())])
    found = dict.fromkeys(shape.masked, nothing)
    for now, then in bits:
        if now < 0 or then < 0:
            continue
        (wanted, mark), (number, flag) = mask_of(now), mask_of(then)
        is_unfit = pc.not_equal(pc.bit_wise_and(rows[f"m{number}"], flag), 0)
        marked = pc.multiply(pc.cast(is_unfit, pa.int64()), mark)
        found[f"m{wanted}"] = pc.bit_wise_or(found[f"m{wanted}"], marked)
    return found


def _unsent_in(rows: pa.Table, sources: Sequence[int]) -> dict[int, int]:
    said = rows[UNCHANGED]
    if said.null_count == rows.num_rows:
        return {}
    found = {}
    for row, text in enumerate(said.to_pylist()):
        if text is not None:
            bits = int.from_bytes(text, "little")
            mine = sum(
                1 << n
                for n, source in enumerate(sources)
                if source >= 0 and bits >> source & 1
            )
            if mine:
                found[row] = mine
    return found


def _joined(groups: Sequence[_Group], shape: Shape) -> pa.Table:
    if not groups:
        raise ValueError("there is nothing to merge")
    return pa.concat_tables([group.rows for group in groups]).combine_chunks()


def _unsent(groups: Sequence[_Group]) -> dict[int, int]:
    found: dict[int, int] = {}
    begins = 0
    for group in groups:
        found |= {begins + row: bits for row, bits in group.unsent.items()}
        begins += group.rows.num_rows
    return found


def _last_places(rows: pa.Table, shape: Shape) -> pa.Array:
    """Of each key the place of its last row, in the order of the rows."""
    if rows.num_rows < 2:
        return pa.array(range(rows.num_rows), pa.int64())
    columns = _identity(rows, shape)
    places = pa.table({**columns, _PLACE: pa.array(range(rows.num_rows), pa.int64())})
    last = places.group_by(list(columns), use_threads=False)
    found = last.aggregate([(_PLACE, "max")])[f"{_PLACE}_max"].combine_chunks()
    return found.sort()


def _comparable(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values that are equal exactly when their keys in the lake are: -0.0 is not 0.0
    there, and a NaN is itself."""
    type = values.type
    if pa.types.is_float32(type) or pa.types.is_date32(type):
        return _viewed(values, pa.int32())
    if pa.types.is_float64(type) or pa.types.is_timestamp(type):
        return _viewed(values, pa.int64())
    if pa.types.is_list(type):
        return pa.chunked_array([pa.array(map(repr, values.to_pylist()), pa.string())])
    return values


def _folder(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values that are equal exactly when their partition in the lake is."""
    if pa.types.is_timestamp(values.type):
        return _viewed(values, pa.timestamp("us")).cast(pa.date32())
    if pa.types.is_string(values.type):
        lies_with_null = pc.is_in(values, value_set=pa.array(IN_FOLDER_OF_NULL))
        return pc.if_else(lies_with_null, pa.scalar(None, pa.string()), values)
    return values


def _viewed(values: pa.ChunkedArray, type: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array([chunk.view(type) for chunk in values.chunks], type)


def _keys(rows: pa.Table, shape: Shape) -> list[tuple[Any, ...]]:
    columns = (values.to_pylist() for values in _identity(rows, shape).values())
    return list(zip(*columns, strict=True))


def _without(rows: pa.Table, places: Collection[int]) -> pa.Table:
    if not places:
        return rows
    return rows.take([n for n in range(rows.num_rows) if n not in places])


def _record_keys(rows: pa.Table, shape: Shape) -> list[tuple[Any, ...]]:
    """Whatever folder a row lies in: its key is one row's at the source."""
    columns = (_comparable(rows[alias]).to_pylist() for alias in shape.key)
    return list(zip(*columns, strict=True))


def _identity(rows: pa.Table, shape: Shape) -> dict[str, pa.ChunkedArray]:
    """What says which row of the lake it is: its key, and the folder it lies in."""
    keys = {alias: _comparable(rows[alias]) for alias in shape.key}
    return keys | {alias: _folder(rows[alias]) for alias in shape.partition}


def _with_unsent(
    rows: pa.Table,
    kept: pa.Table,
    places: pa.Array,
    unsent: Mapping[int, int],
    shape: Shape,
) -> tuple[pa.Table, Lacking | None]:
    """`kept` with the last known value of each column that the log did not send. What
    no row has is the lake's."""
    before = _images(rows[OP].to_pylist(), _keys(rows, shape), unsent)
    sources: dict[int, dict[int, int]] = {}
    lacking: dict[tuple[int, int], int] = {}
    for place, row in enumerate(places.to_pylist()):
        for column in _columns_in(unsent.get(row, 0) if row in before else 0):
            source, key = _source(row, column, before, unsent)
            if source is None:
                bits = lacking.get((place, key), 0)
                lacking[place, key] = bits | 1 << column
            else:
                sources.setdefault(column, {})[place] = source
    kept = _taken(rows, kept, sources, shape)
    if not lacking:
        return kept, None
    keys = rows.select(shape.key).take(
        pa.array([key for _, key in lacking], pa.int64())
    )
    return kept, Lacking(
        keys, tuple(place for place, _ in lacking), tuple(lacking.values())
    )


def _images(
    ops: Sequence[int], keys: Sequence[tuple[Any, ...]], unsent: Mapping[int, int]
) -> dict[int, tuple[int | None, int]]:
    """Row that lacks values → (the row that it followed, None = it is before the batch;
    a row with the key under which it was then)."""
    newest: dict[tuple[Any, ...], int] = {}
    found: dict[int, tuple[int | None, int]] = {}
    gone: int | None = None
    for row, (op, key) in enumerate(zip(ops, keys, strict=True)):
        if op == _DELETE:
            gone = newest.pop(key, None)
            continue
        if row in unsent:
            # the row before is the delete of the key that it had
            is_moved = op == _MOVED
            found[row] = (gone, row - 1) if is_moved else (newest.get(key), row)
        newest[key] = row
    return found


def _source(
    row: int,
    column: int,
    before: Mapping[int, tuple[int | None, int]],
    unsent: Mapping[int, int],
) -> tuple[int | None, int]:
    """The row with the value; None and a row with the lake's key when there is none."""
    key = row
    found: int | None = row
    while found is not None and found in before and unsent[found] >> column & 1:
        found, key = before[found]
    return found, key


def _columns_in(bits: int) -> Iterable[int]:
    return (n for n in range(bits.bit_length()) if bits >> n & 1)


def _taken(
    rows: pa.Table,
    kept: pa.Table,
    sources: Mapping[int, Mapping[int, int]],
    shape: Shape,
) -> pa.Table:
    """`kept` with values of other rows: column → place → row."""
    marks = {name: kept[name].to_pylist() for name in shape.masked} if sources else {}
    for column, found in sources.items():
        told = shape.columns[column]
        wanted = [found.get(n, -1) for n in range(kept.num_rows)]
        both = pa.concat_tables([rows.select([told.alias]), kept.select([told.alias])])
        places = [rows.num_rows + n if row < 0 else row for n, row in enumerate(wanted)]
        values = both[told.alias].take(pa.array(places, pa.int64()))
        at = kept.schema.get_field_index(told.alias)
        kept = kept.set_column(at, kept.schema.field(at), values)
        if told.bit >= 0:
            number, flag = mask_of(told.bit)
            mask = rows[f"m{number}"]
            for place, row in found.items():
                own = marks[f"m{number}"][place] & ~flag
                marks[f"m{number}"][place] = own | (mask[row].as_py() & flag)
    for name, values in marks.items():
        at = kept.schema.get_field_index(name)
        kept = kept.set_column(at, kept.schema.field(at), pa.array(values, pa.int64()))
    return kept


def _as_changes(kept: pa.Table, shape: Shape, order: int) -> pa.Table:
    op = pc.if_else(pc.equal(kept[OP], _DELETE), "delete", "update")
    index = pc.add(pc.shift_left(kept[_NUMBER], INDEX_BITS), min(order, MAX_INDEX))
    names = [*(c.alias for c in shape.columns), *shape.masked]
    columns = [*(kept[name] for name in names), op, index]
    return pa.Table.from_arrays(columns, schema=shape.schema)


def _refuse_others(
    part: Part, there: Sequence[SealedColumn], shape: Shape, *, is_emptying: bool
) -> None:
    types = {column.source_name: column.type for column in there}
    lacks = [
        c.source_name
        for c in shape.columns
        if c.source_name not in types and c.source_name not in shape.added
    ]
    if lacks and not is_emptying:
        raise TerminalError(
            "segment %(number)s has rows of %(table)s without the columns"
            " %(lacks)s, which its plan has. Nothing was written",
            number=part.number,
            table=shape.name,
            lacks=", ".join(lacks),
            code=SEGMENT_LACKS_COLUMNS,
            hint="resync the table: the load reads these columns of every row",
        )
    others = [
        Sentence(
            "%(column)s is %(type)s, not %(planned)s",
            column=c.source_name,
            type=types[c.source_name],
            planned=c.type,
        )
        for c in shape.columns
        if types.get(c.source_name, c.type) != c.type
        and not widens_in_place(types[c.source_name], c.type)
    ]
    if others:
        raise TerminalError(
            "segment %(number)s has columns of %(table)s in other types than the"
            " plan: %(types)s. Nothing was written",
            number=part.number,
            table=shape.name,
            types=joined(others),
            code=SEGMENT_TYPES_DIFFER,
            hint="resync the table",
        )


def _refuse_null_keys(rows: pa.Table, shape: Shape) -> None:
    """Rows whose key the lake cannot tell apart: all of them would be one there."""
    for column in shape.columns:
        if column.alias not in shape.key or not rows[column.alias].null_count:
            continue
        is_there = pc.not_equal(rows[OP], _DELETE)
        bad = pc.and_(is_there, pc.is_null(rows[column.alias]))
        if count := pc.sum(bad).as_py():
            raise TerminalError(
                "%(count)s rows of %(table)s have in the key %(column)s NULL"
                " or a value for which %(type)s of the lake has no form. Nothing"
                " was written",
                count=count,
                table=shape.name,
                column=column.source_name,
                type=column.type,
                code="key_without_form",
                hint="mend the value at the source, then resync the table; or remove it"
                " and add it again with 'as_text': [\"%(column)s\"], or with"
                " another key",
            )


def _missing(shape: Shape, count: int) -> TerminalError:
    return TerminalError(
        "the log did not send unchanged long values of %(count)s rows of"
        " %(table)s, and the lake has no such rows. Nothing was written",
        count=count,
        table=shape.name,
        code="row_missing",
        hint="resync the table; ALTER TABLE … REPLICA IDENTITY FULL at the source makes"
        " the log send every value",
    )
