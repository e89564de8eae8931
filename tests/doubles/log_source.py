"""A source whose log is a list in memory: what every kind of log has to do, in short.

A place in it is how many transactions ended before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType

import pyarrow as pa

from ingest.contract.following import Replaced, SourceLog
from ingest.contract.segments import OPS
from ingest.contract.table import SealedColumn, TableSpec
from ingest.sources.port import LogRows
from ingest.sources.row_batches import schema_of

COLUMNS = (SealedColumn("c0", "id", "int"), SealedColumn("c1", "v", "string"))
SCHEMA = schema_of(COLUMNS, [pa.int32(), pa.string()])


@dataclass(frozen=True)
class Row:
    table: str
    op: str
    id: int
    v: str | None = None


@dataclass
class LogSource:
    """told: up to where it was told that all is durable; before that it remembers
    nothing. took_over: it goes on where a stream of another server ended. step: called
    between any two things that a reader does."""

    transactions: list[tuple[Row, ...]] = field(default_factory=list)
    told: int = 0
    name: str = "one"
    took_over: bool = False
    problems: dict[int, str] = field(default_factory=dict)
    lost: dict[int, str] = field(default_factory=dict)
    identities: dict[int, str] = field(default_factory=dict)
    loaded: dict[int, str] = field(default_factory=dict)
    unread: set[int] = field(default_factory=set)
    # transaction → microseconds; else its number
    moments: dict[int, int] = field(default_factory=dict)
    step: Callable[[], None] = lambda: None

    def commit(self, *rows: Row) -> None:
        self.transactions.append(rows)

    @contextmanager
    def open(
        self,
        tables: Sequence[TableSpec],
        *,
        after: Callable[[], str | None],
        begin_anew: bool = False,
        wait: Callable[[str], None],
    ) -> Iterator[FakeLog]:
        log = FakeLog(self)
        told, end = self.told, after()
        if begin_anew and end is not None and int(end) < told:
            log.anew = "it forgot"
        elif self.took_over and end is not None:
            log.moved = end
        log.follow(tables)
        yield log


@dataclass
class FakeLog:
    """See `LogReader`."""

    source: LogSource
    new_columns: dict[int, tuple[str, ...]] = field(default_factory=dict)
    left: dict[int, tuple[str, ...]] = field(default_factory=dict)
    older: dict[int, dict[str, str | None]] = field(default_factory=dict)
    replaced: dict[int, Replaced] = field(default_factory=dict)
    gone: dict[int, tuple[str, ...]] = field(default_factory=dict)
    dropped: tuple[int, ...] = ()
    committed: int = 0
    waits: str = ""
    anew: str = ""
    moved: str = ""
    _tables: dict[str, TableSpec] = field(default_factory=dict)
    _waiting: list[tuple[int, Row]] = field(default_factory=list)
    # transactions that ended, and rows of the one that has begun
    _at: int = 0
    _within: int = 0
    _loaded: dict[int, str] = field(default_factory=dict)

    @property
    def server(self) -> str:
        return self.source.name

    @property
    def begin(self) -> str:
        return str(self.source.told)

    @property
    def problems(self) -> dict[int, str]:
        return self.source.problems

    @property
    def unread(self) -> set[int]:
        return self.source.unread

    def lost(self) -> dict[int, str]:
        found, self.source.lost = self.source.lost, {}
        return found

    @property
    def identities(self) -> dict[int, str]:
        return self.source.identities | self._loaded

    @property
    def is_within(self) -> bool:
        return self._within > 0

    @property
    def size(self) -> int:
        return len(self._waiting)

    @property
    def position(self) -> str:
        return str(self._at)

    @property
    def passed(self) -> int:
        return self._at - self.source.told

    def follow(
        self,
        tables: Sequence[TableSpec],
        *,
        anew: Collection[int] = (),
        loaded: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        assert not self.is_within
        assert not self._waiting
        self._tables = {table.source_table: table for table in tables}
        self.source.loaded = self._loaded = dict(loaded)

    def start(self, after: str) -> None:
        self._at = int(after)
        assert self._at >= self.source.told, "it forgot what was not durable"

    def read(self, seconds: float, *, to_boundary: bool = False) -> None:
        """One row, or the end of a transaction."""
        self.source.step()
        if self._at == len(self.source.transactions):
            return
        rows = self.source.transactions[self._at]
        if self._within < len(rows):
            row = rows[self._within]
            self._within += 1
            if row.table in self._tables:
                self._waiting.append((self._at + 1, row))
            return
        self._at, self._within = self._at + 1, 0
        self.committed = self.source.moments.get(self._at, self._at)

    def take(self) -> list[LogRows]:
        found, self._waiting = self._waiting, []
        return [
            LogRows(table.table_id, table.schema_version, batch_of(rows))
            for name, table in self._tables.items()
            if (rows := [one for one in found if one[1].table == name])
        ]

    def has_passed(self, wanted: str, *, at: str = "") -> bool:
        return int(at or self.position) >= int(wanted)

    def here(self) -> str:
        return str(len(self.source.transactions))

    def acknowledge(self, position: str) -> None:
        self.source.step()
        self.source.told = int(position)
        self.source.step()

    def look(self) -> SourceLog:
        return SourceLog(behind=len(self.source.transactions) - self.source.told)


def batch_of(rows: Sequence[tuple[int, Row]]) -> pa.RecordBatch:
    """(number of the transaction, row)."""
    columns = [
        [OPS.index(row.op) for _, row in rows],
        [number for number, _ in rows],
        [None] * len(rows),
        [row.id for _, row in rows],
        [row.v for _, row in rows],
    ]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
