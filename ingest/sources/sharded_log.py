"""A source's log read for sharded tables: each shard is followed as a table of its own,
and what comes of it is of the lake table that all of them are.

The reader of the kind knows no shards. Between them each shard has a number of its own.

A shard that comes while the others are followed is taken up first, and belongs to the
table's identity once the log was read beyond where it ended then. Who reads the shard
behind the record that says so sees all that came of it before: so that does not matter,
neither rows nor what was wrong with it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from types import MappingProxyType

import pyarrow as pa

from catalog.schema.types import DataType
from ingest.contract.following import Replaced, SourceLog
from ingest.contract.segments import OP, OPS, XID
from ingest.contract.table import SHARD, SealedColumn, ShardSpec, TableSpec, sources_of
from ingest.sources.port import LogReader, LogRows
from ingest.sources.row_batches import (
    HEAD_FIELDS,
    arrow_type,
    columns_in,
    gone_in,
    schema_of,
)


@dataclass(frozen=True, slots=True)
class _Shard:
    """of: the lake table. value: what its column `SHARD` has."""

    of: int
    schema: str
    table: str
    value: str

    @property
    def name(self) -> str:
        return f"{self.schema}.{self.table}"


@dataclass(slots=True)
class Shards:
    """The numbers of shards, which are below those of tables."""

    _numbers: dict[_Shard, int] = field(default_factory=dict)
    _shards: dict[int, _Shard] = field(default_factory=dict)

    def apart(self, tables: Iterable[TableSpec]) -> list[TableSpec]:
        """What a reader follows: of a sharded table each shard, with the columns that
        it has at its source."""
        return [
            self._alone(table, one) if table.shards else table
            for table in tables
            for one in sources_of(table)
        ]

    def _alone(self, table: TableSpec, one: TableSpec) -> TableSpec:
        (spec,) = one.shards
        shard = _Shard(table.table_id, spec.schema, spec.table, spec.value)
        number = self._numbers.setdefault(shard, -1 - len(self._numbers))
        self._shards[number] = shard
        partition_by = tuple(name for name in one.partition_by if name != SHARD)
        return replace(
            one,
            table_id=number,
            columns=one.read_columns,
            partition_by=partition_by,
            shards=(),
        )

    def shard(self, table_id: int) -> _Shard | None:
        return self._shards.get(table_id)

    def table(self, table_id: int) -> int:
        """The lake table that these rows are of."""
        shard = self._shards.get(table_id)
        return shard.of if shard else table_id

    def numbers(self, table_ids: Collection[int]) -> set[int]:
        """Of the same tables, as a reader has them."""
        found = {n for n, shard in self._shards.items() if shard.of in table_ids}
        return found | {*table_ids} - {s.of for s in self._shards.values()}

    def new(self, identities: Mapping[int, str]) -> set[int]:
        """The shards that what `joined` made does not have."""
        said = {shard.of for shard in self._shards.values()} & {*identities}
        known = {table_id: shards_in(identities[table_id]) for table_id in said}
        return {
            number
            for number, shard in self._shards.items()
            if shard.of in known and shard.name not in known[shard.of]
        }

    def ended(self, identities: Mapping[int, str]) -> set[int]:
        """Those of which it says that they are gone."""
        said = {shard.of for shard in self._shards.values()} & {*identities}
        gone = {
            (table_id, name)
            for table_id in said
            for name, text in json.loads(identities[table_id] or "{}").items()
            if not text
        }
        return self._called(gone)

    def unread(self, tables: Iterable[TableSpec]) -> set[int]:
        """Those that the plans have as new."""
        new = {
            (table.table_id, one.name)
            for table in tables
            for one in table.shards
            if one.is_unread
        }
        return self._called(new)

    def _called(self, names: Collection[tuple[int, str]]) -> set[int]:
        """names: of lake tables, and of shards of them."""
        return {n for n, one in self._shards.items() if (one.of, one.name) in names}

    def first(self, said: Mapping[int, str]) -> dict[int, str]:
        """By lake table what is said of it, or of the first of its shards."""
        found: dict[int, str] = {}
        for table_id, text in said.items():
            found.setdefault(self.table(table_id), text)
        return found

    def all(self, said: Mapping[int, tuple[str, ...]]) -> dict[int, tuple[str, ...]]:
        """By lake table the columns that any of its shards has."""
        found: dict[int, dict[str, None]] = {}
        for table_id, names in said.items():
            found.setdefault(self.table(table_id), {}).update(dict.fromkeys(names))
        return {table_id: tuple(names) for table_id, names in found.items()}

    def agreed(
        self, said: Mapping[int, Mapping[str, str | None]]
    ) -> dict[int, dict[str, str | None]]:
        """By lake table the values that all of its shards tell that tell one."""
        found: dict[int, dict[str, set[str | None]]] = {}
        for table_id, values in said.items():
            of = found.setdefault(self.table(table_id), {})
            for name, value in values.items():
                of.setdefault(name, set()).add(value)
        return {
            table_id: {
                name: next(iter(one)) for name, one in of.items() if len(one) == 1
            }
            for table_id, of in found.items()
        }

    def joined(self, identities: Mapping[int, str]) -> dict[int, str]:
        """By lake table its identity; of a sharded one those of its shards by name."""
        found: dict[int, str] = {}
        apart: dict[int, dict[str, str]] = {}
        for table_id, text in identities.items():
            if shard := self._shards.get(table_id):
                apart.setdefault(shard.of, {})[shard.name] = text
            else:
                found[table_id] = text
        return found | {k: json.dumps(v, sort_keys=True) for k, v in apart.items()}

    def parted(self, identities: Mapping[int, str]) -> dict[int, str]:
        """What `joined` made, as a reader has it."""
        sharded = {shard.of for shard in self._shards.values()}
        found = {k: v for k, v in identities.items() if k not in sharded}
        said = {k: json.loads(v) for k, v in identities.items() if k in sharded}
        for number, shard in self._shards.items():
            if text := said.get(shard.of, {}).get(shard.name):
                found[number] = text
        return found


def shards_in(identity: str) -> frozenset[str]:
    """By their names the shards that a sharded table's identity has."""
    said = json.loads(identity) if identity else {}
    return frozenset(name for name, text in said.items() if text)


def _with_gone(table: TableSpec, identity: str) -> str:
    """With the shards that are gone, and of which the lake has rows. Where one of them
    is in it no more, its rows were deleted by the stream."""
    gone = [one.name for one in table.shards if one.gone in {"undecided", "kept"}]
    if not gone:
        return identity
    return json.dumps(
        {**dict.fromkeys(gone, ""), **json.loads(identity)}, sort_keys=True
    )


def _deletions(table: TableSpec, identity: str) -> Iterator[LogRows]:
    """By the identity that the stream has: what empties the shards whose rows are to go
    and are not gone yet."""
    known = json.loads(identity) if identity else {}
    for one in table.shards:
        if one.gone == "deleted" and one.name in known:
            yield LogRows(table.table_id, table.schema_version, _emptied(table, one))


def _emptied(table: TableSpec, shard: ShardSpec) -> pa.RecordBatch:
    """As the log says that a table was emptied."""
    columns = [
        SealedColumn(f"c{number}", c.source_name, c.type)
        for number, c in enumerate(table.columns)
    ]
    types = [arrow_type(DataType.parse(c.type)) for c in columns]
    alias = next(c.alias for c in columns if c.source_name == SHARD)
    row = {OP: OPS.index("truncate"), XID: 0, alias: shard.value}
    return pa.RecordBatch.from_pylist([row], schema=schema_of(columns, types))


@dataclass(slots=True)
class ShardedLog:
    """See `LogReader`. reader: of the kind.

    _lost     by lake table
    _new      shards that are taken up, and where the log ended then
    _numbers  of the tables that the reader follows
    _gone     those that have no table any more, and where the log ended as that was
              seen first; _over: of which all is durable that is before that
    _ended    those of which the log had the end before the list of now: the identity
              says so at once, for who reads on may find another table of the name
    _deletes  rows that empty shards which are gone
    """

    reader: LogReader
    shards: Shards
    _lost: dict[int, str] = field(default_factory=dict)
    _identities: tuple[dict[int, str], dict[int, str]] = ({}, {})
    _new: dict[int, str] = field(default_factory=dict)
    _followed: Sequence[TableSpec] = ()
    _numbers: frozenset[int] = frozenset()
    _sharded: Sequence[TableSpec] = ()
    _gone: dict[int, str] = field(default_factory=dict)
    _over: set[int] = field(default_factory=set)
    _ended: set[int] = field(default_factory=set)
    _deletes: list[LogRows] = field(default_factory=list)

    # of the log itself, whatever tables it is of
    server = property(attrgetter("reader.server"))
    begin = property(attrgetter("reader.begin"))
    anew = property(attrgetter("reader.anew"))
    moved = property(attrgetter("reader.moved"))
    is_within = property(attrgetter("reader.is_within"))
    size = property(attrgetter("reader.size"))
    position = property(attrgetter("reader.position"))
    passed = property(attrgetter("reader.passed"))
    committed = property(attrgetter("reader.committed"))
    waits = property(attrgetter("reader.waits"))

    @property
    def problems(self) -> Mapping[int, str]:
        return self.shards.first(self._that_count(self.reader.problems))

    @property
    def gone(self) -> Mapping[int, tuple[str, ...]]:
        self._note_gone()
        found: dict[int, list[str]] = {}
        for shard in map(self.shards.shard, sorted(self._over)):
            if shard is not None:
                found.setdefault(shard.of, []).append(shard.name)
        return {table_id: tuple(names) for table_id, names in found.items()}

    def _note_gone(self) -> None:
        """Of a table that has none of them any more that is a problem, as of others."""
        gone = self._ended | self.reader.gone.keys()
        there = {n for n in gone if self.shards.shard(n)} - self._new.keys()
        if there:
            known = {self.shards.table(n) for n in self._numbers - there}
            there = {n for n in there if self.shards.table(n) in known}
        self._gone = {n: here for n, here in self._gone.items() if n in there}
        if came := there - self._gone.keys():
            self._gone |= dict.fromkeys(came, self.reader.here())
        self._over &= there

    @property
    def dropped(self) -> Collection[int]:
        """What became of shards, `gone` and the identities say."""
        return ()

    @property
    def unread(self) -> Collection[int]:
        return {self.shards.table(number) for number in self.reader.unread}

    def lost(self) -> dict[int, str]:
        self._note_lost()
        found, self._lost = self._lost, {}
        return found

    def _note_lost(self) -> None:
        lost = self.shards.first(self._that_count(self.reader.lost()))
        self._lost = lost | self._lost

    def _that_count(self, said: Mapping[int, str]) -> dict[int, str]:
        """Not of one that is taken up, nor that a shard has no table any more; nor of
        one that left the list since it was said."""
        counts = self._numbers - self._new.keys()
        found = {n: text for n, text in said.items() if n in counts}
        if found:
            self._note_gone()
        return {n: text for n, text in found.items() if n not in self._gone}

    @property
    def identities(self) -> Mapping[int, str]:
        """Asked for many times a second, and seldom another one."""
        self._admit()
        known = self._numbers - self._new.keys()
        now = {n: text for n, text in self.reader.identities.items() if n in known}
        now |= dict.fromkeys(self._known_ended() & known, "")
        if now != self._identities[0]:
            found = self.shards.joined(now)
            for table in self._sharded:
                if identity := found.get(table.table_id):
                    found[table.table_id] = _with_gone(table, identity)
            self._identities = now, found
        return self._identities[1]

    def _known_ended(self) -> set[int]:
        dropped = (n for n in self.reader.dropped if self.shards.shard(n))
        return self._ended.union(dropped)

    @property
    def new_columns(self) -> Mapping[int, tuple[str, ...]]:
        return self.shards.all(self.reader.new_columns)

    @property
    def older(self) -> Mapping[int, Mapping[str, str | None]]:
        return self.shards.agreed(self.reader.older)

    @property
    def left(self) -> Mapping[int, tuple[str, ...]]:
        return self.shards.all(self.reader.left)

    @property
    def replaced(self) -> Mapping[int, Replaced]:
        """Of several shards the newest."""
        found: dict[int, Replaced] = {}
        for table_id, one in self.reader.replaced.items():
            of = self.shards.table(table_id)
            found[of] = max(found.get(of, one), one, key=lambda each: each.when)
        return found

    def follow(
        self,
        tables: Sequence[TableSpec],
        *,
        anew: Collection[int] = (),
        loaded: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        ended = self._known_ended()
        self._followed = apart = self.shards.apart(tables)
        self._numbers = numbers = frozenset(one.table_id for one in apart)
        self._sharded = [table for table in tables if table.shards]
        self._identities = {}, {}
        self._deletes = [
            rows
            for table in self._sharded
            for rows in _deletions(table, loaded.get(table.table_id, ""))
        ]
        parted = self.shards.parted(loaded)
        again = self.shards.numbers(anew) | self.shards.unread(tables)
        durable = self.shards.ended(loaded) & numbers - again
        ended = ended & numbers - again | durable
        now = self.shards.new(loaded) & numbers - ended
        came = now - self._new.keys()
        self.reader.follow(
            apart,
            anew=self.shards.numbers(anew) | came,
            loaded={n: text for n, text in parted.items() if n in numbers},
        )
        self._new = {n: here for n, here in self._new.items() if n in now}
        self._ended = ended
        self._over |= durable
        self._note_taken_up(came)

    def _note_taken_up(self, numbers: Collection[int]) -> None:
        if numbers:
            self._new |= dict.fromkeys(numbers, self.reader.here())
            # of these that they did not come before
            self._note_lost()

    def _admit(self) -> None:
        """Shards of which all comes from here on."""
        there = {n for n, here in self._new.items() if self.reader.has_passed(here)}
        if admitted := there - self.reader.problems.keys():
            self._note_lost()
            self._new = {n: p for n, p in self._new.items() if n not in admitted}

    def _take_up_again(self) -> None:
        """New ones whose rows do not come: they were made in what is read by now, or
        somebody has mended since what was wrong with them."""
        problems = self.reader.problems
        again = {
            number
            for number, here in self._new.items()
            if number in problems and self.reader.has_passed(here)
        }
        if again and not (self.reader.is_within or self.reader.size):
            self.reader.follow(self._followed, anew=again)
            self._note_taken_up(again)

    def start(self, after: str) -> None:
        self.reader.start(after)

    def read(self, seconds: float, *, to_boundary: bool = False) -> None:
        self.reader.read(seconds, to_boundary=to_boundary)

    def take(self) -> list[LogRows]:
        found, self._deletes = self._deletes, []
        left_out = self._new.keys() | self._over | self._ended
        for rows in self.reader.take():
            shard = self.shards.shard(rows.table_id)
            if shard is None:
                found.append(rows)
            elif rows.table_id in left_out:
                continue
            else:
                batch = with_shard(rows.batch, shard.value)
                found.append(replace(rows, table_id=shard.of, batch=batch))
        return found

    def has_passed(self, wanted: str, *, at: str = "") -> bool:
        return self.reader.has_passed(wanted, at=at)

    def acknowledge(self, position: str) -> None:
        self.reader.acknowledge(position)
        passed = self.reader.has_passed
        self._over |= {n for n, at in self._gone.items() if passed(at, at=position)}

    def here(self) -> str:
        return self.reader.here()

    def look(self) -> SourceLog:
        found = self.reader.look()
        self._take_up_again()
        return found


def with_shard(batch: pa.RecordBatch, value: str) -> pa.RecordBatch:
    """The rows with the column `SHARD` behind their others, whose places say which of
    them were not sent. One that says that the table was emptied has nothing else: it
    empties this shard."""
    columns = columns_in(batch.schema)
    end = len(HEAD_FIELDS) + len(columns)
    sealed = SealedColumn(f"c{len(columns)}", SHARD, "string")
    types = [*batch.schema.types[len(HEAD_FIELDS) : end], pa.string()]
    masks = batch.num_columns - end
    constant = pa.repeat(pa.scalar(value, pa.string()), batch.num_rows)
    arrays = [*batch.columns[:end], constant, *batch.columns[end:]]
    gone = gone_in(batch.schema)
    schema = schema_of([*columns, sealed], types, masks, gone=gone)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
