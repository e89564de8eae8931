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
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import pyarrow as pa

from ingest.contract.following import Replaced, SourceLog
from ingest.contract.table import SHARD, SealedColumn, TableSpec, sources_of
from ingest.sources.port import LogReader, LogRows
from ingest.sources.row_batches import HEAD_FIELDS, columns_in, gone_in, schema_of


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
        columns = tuple(c for c in one.columns if c.source_name != SHARD)
        partition_by = tuple(name for name in one.partition_by if name != SHARD)
        return replace(
            one,
            table_id=number,
            columns=columns,
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
    return frozenset(json.loads(identity) if identity else ())


@dataclass(slots=True)
class ShardedLog:
    """See `LogReader`. reader: of the kind.

    _lost  by lake table
    _new   shards that are taken up, and where the log ended then
    """

    reader: LogReader
    shards: Shards
    _lost: dict[int, str] = field(default_factory=dict)
    _identities: tuple[dict[int, str], dict[int, str]] = ({}, {})
    _new: dict[int, str] = field(default_factory=dict)
    _followed: Sequence[TableSpec] = ()

    @property
    def server(self) -> str:
        return self.reader.server

    @property
    def begin(self) -> str:
        return self.reader.begin

    @property
    def anew(self) -> str:
        return self.reader.anew

    @property
    def moved(self) -> str:
        return self.reader.moved

    @property
    def problems(self) -> Mapping[int, str]:
        return self.shards.first(self._of_known(self.reader.problems))

    def lost(self) -> dict[int, str]:
        self._note_lost()
        found, self._lost = self._lost, {}
        return found

    def _note_lost(self) -> None:
        lost = self.shards.first(self._of_known(self.reader.lost()))
        self._lost = lost | self._lost

    def _of_known(self, said: Mapping[int, str]) -> dict[int, str]:
        return {n: text for n, text in said.items() if n not in self._new}

    @property
    def identities(self) -> Mapping[int, str]:
        """Asked for many times a second, and seldom another one."""
        self._admit()
        now = self._of_known(self.reader.identities)
        if now != self._identities[0]:
            self._identities = now, self.shards.joined(now)
        return self._identities[1]

    @property
    def new_columns(self) -> Mapping[int, tuple[str, ...]]:
        return self.shards.all(self.reader.new_columns)

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

    @property
    def is_within(self) -> bool:
        return self.reader.is_within

    @property
    def size(self) -> int:
        return self.reader.size

    @property
    def position(self) -> str:
        return self.reader.position

    @property
    def passed(self) -> int:
        return self.reader.passed

    @property
    def committed(self) -> int:
        return self.reader.committed

    @property
    def waits(self) -> str:
        return self.reader.waits

    def follow(
        self,
        tables: Sequence[TableSpec],
        *,
        anew: Collection[int] = (),
        loaded: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        self._followed = apart = self.shards.apart(tables)
        now = self.shards.new(loaded) & {one.table_id for one in apart}
        came = now - self._new.keys()
        self.reader.follow(
            apart,
            anew=self.shards.numbers(anew) | came,
            loaded=self.shards.parted(loaded),
        )
        self._new = {n: here for n, here in self._new.items() if n in now}
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
        found = []
        for rows in self.reader.take():
            shard = self.shards.shard(rows.table_id)
            if shard is None:
                found.append(rows)
            elif rows.table_id in self._new:
                continue
            else:
                batch = with_shard(rows.batch, shard.value)
                found.append(replace(rows, table_id=shard.of, batch=batch))
        return found

    def has_passed(self, wanted: str, *, at: str = "") -> bool:
        return self.reader.has_passed(wanted, at=at)

    def acknowledge(self, position: str) -> None:
        self.reader.acknowledge(position)

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
