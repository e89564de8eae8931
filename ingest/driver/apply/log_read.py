"""What waits of one table in its stream, read in pieces of bounded size.

Segments are taken whole: a commit covers a table up to the end of one. No Spark.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import RLock

import pyarrow as pa

from core.errors import TerminalError
from ingest.contract.segments import AHEAD, Segment, StreamTable, TablePart
from ingest.contract.source_positions import order_of
from ingest.contract.table import TableSpec
from ingest.driver.apply.log_fold import Part, without_shown
from ingest.driver.apply.wide_rows import refuse_too_wide_part
from ingest.lake.chain import ChainIndex, read_segment, require_kept
from ingest.lake.hudi.options import LoadPoint
from ingest.lake.segment_files import read_table
from ingest.sources.ahead import ahead_of
from ingest.sources.row_batches import columns_in, gone_in

# A commit takes no further segment beyond these.
MOST_ROWS = 1_000_000
MOST_BYTES = 128 << 20
# Of a segment that is larger so much is merged at a time.
PIECE_BYTES = 64 << 20
# Where the stream begins may be half a megabyte, and is another one once a minute.
BEGINNING_SECONDS = 0.5
# Kept footers and their parts, all in all: some ten megabytes.
MOST_PARTS = 50_000


@dataclass(slots=True)
class Stream:
    """A stream as the tables of a session share it: looked at by one thread, read by
    several."""

    index: ChainIndex
    now: Callable[[], float] = time.monotonic
    _refreshed: float = float("-inf")
    _lock: RLock = field(default_factory=RLock)
    _tables: dict[int, StreamTable] | None = None
    _kept: OrderedDict[int, Segment] = field(default_factory=OrderedDict)
    _parts: int = 0

    def look(self) -> list[Segment]:
        """As `refresh`, for whoever asks ten times a second: whether a segment came is
        looked at each time, where the stream begins less often."""
        now = self.now()
        if now - self._refreshed < BEGINNING_SECONDS and not self.index.has_more:
            return []
        self._refreshed = now
        return self.refresh()

    def refresh(self) -> list[Segment]:
        """As `ChainIndex.refresh`."""
        with self._lock:
            first = self.index.beginning.number
            found = self.index.refresh()
            if first != self.index.beginning.number or any(s.controls for s in found):
                self._tables = None
            for segment in found:
                self._keep(segment)
            return found

    @property
    def newest(self) -> Segment | None:
        return self.index.newest

    def about(self, table_id: int, *, after: int) -> list[int]:
        with self._lock:
            return self.index.about(table_id, after=after)

    def waiting(self, table_id: int, *, after: int) -> tuple[int, int]:
        """As `ChainIndex.waiting`."""
        with self._lock:
            return self.index.waiting(table_id, after=after)

    def state_of(self, table_id: int) -> StreamTable | None:
        """What its records say of the table; None = nothing."""
        with self._lock:
            if self._tables is None:
                self._tables = self.index.tables()
            return self._tables.get(table_id)

    def is_lost(self, table_id: int, applied: int) -> bool:
        """Whether a table that stands there cannot go on: segments about it are gone,
        or it went back to a savepoint from before its newest load, and between them
        changes may be missing that no segment has."""
        with self._lock:
            told = self.state_of(table_id)
            is_behind_its_load = told is not None and applied < told.cut
            return is_behind_its_load or self.index.is_lost(table_id, applied)

    def is_ahead(self, applied: int) -> bool:
        with self._lock:
            return self.index.is_ahead(applied)

    def segment(self, table_id: int, number: int) -> Segment | None:
        """Its footer, which is read again only when it is an old one. As
        `ChainIndex.segment`."""
        with self._lock:
            if self.index.is_folded(number):
                return self.index.segment(table_id, number)
            found = self._kept.get(number)
        if found is None:
            found = read_segment(self.index.folder, number)
            if found is not None:
                with self._lock:
                    self._keep(found)
        return found

    def first_whole(self, numbers: list[int]) -> int | None:
        """The first of these that was not folded, asked before they are read: a file of
        that number may be a stopped writer's, in place of one that went meanwhile.
        Folds have the names of no other file."""
        return next((one for one in numbers if not self.index.is_folded(one)), None)

    def _keep(self, segment: Segment) -> None:
        if segment.number in self._kept:
            return  # another thread has read it, too
        self._kept[segment.number] = segment
        self._parts += 1 + len(segment.parts)
        while self._parts > MOST_PARTS:
            _, gone = self._kept.popitem(last=False)
            self._parts -= 1 + len(gone.parts)


@dataclass(slots=True)
class Waiting:
    """What is read for one commit. Complete once `pieces` has ended.

    start      where the first of them begins
    last       the last segment that the commit covers
    rows       that were read, those included that the load shows
    committed  when the newest of their transactions was, as segments have it
    ahead      columns of the rows before which it ended, of which the plan has not
               decided; () = it did not end for any
    widest     bytes that a row may have; 0 = any number
    """

    stream: Stream
    table: TableSpec
    after: int
    load: LoadPoint | None = None
    widest: int = 0
    first: Segment | None = None
    last: Segment | None = None
    rows: int = 0
    committed: int = 0
    ahead: tuple[str, ...] = ()

    def pieces(self) -> Iterator[list[Part]]:
        """Parts in the order of the log. StaleState `segment_collected` when one went
        meanwhile: nothing of this counts then."""
        newest = self.stream.newest
        table_id = self.table.table_id
        numbers = self.stream.about(table_id, after=self.after)
        if is_replaced(self.stream.state_of(table_id), self.after):
            return  # a load has begun meanwhile
        first = self.stream.first_whole(numbers)
        found: list[Part] = []
        size = total = 0
        for number in numbers:
            if total >= MOST_BYTES or self.rows >= MOST_ROWS:
                break
            segment = self._segment(number, first)
            if ahead := self._ahead_in(segment, first):
                self.ahead = ahead
                break
            self._cover(segment)
            for part in self._parts(segment, first):
                found.append(part)
                size += part.rows.nbytes
                total += part.rows.nbytes
                if size >= PIECE_BYTES:
                    yield found
                    found, size = [], 0
        else:
            # nothing of the table is between its last rows and the stream's end
            if newest and (self.last is None or newest.number > self.last.number):
                self.last = newest
        if first is not None:
            require_kept(self.stream.index.folder, first)
        if found:
            yield found

    def _ahead_in(self, segment: Segment, first: int | None) -> tuple[str, ...]:
        for part in segment.parts_of(self.table.table_id):
            if part.schema_version == AHEAD:
                rows = self._rows(segment, part, first)
                if ahead := self._ahead_of(rows.schema):
                    return ahead
        return ()

    def _ahead_of(self, schema: pa.Schema) -> tuple[str, ...]:
        return ahead_of(self.table, columns_in(schema), gone_in(schema))

    def _segment(self, number: int, first: int | None) -> Segment:
        folder = self.stream.index.folder
        segment = self.stream.segment(self.table.table_id, number)
        if segment is None:
            self._require_kept(number, first)
            raise TerminalError(
                "segment %(number)s at %(uri)s is missing. Nothing was written",
                number=number,
                uri=folder.uri,
                code="segment_damaged",
                hint="put the file back from a copy of the lake, or resync the"
                " stream's tables",
            )
        return segment

    def _cover(self, segment: Segment) -> None:
        self.first = self.first or segment
        self.last = segment
        self.committed = segment.committed or self.committed

    def _parts(self, segment: Segment, first: int | None) -> Iterator[Part]:
        load = self.load if self.load and self.load.snapshot else None
        is_shown = load is not None and is_before(segment.start, load.at)
        for part in segment.parts_of(self.table.table_id):
            rows = self._rows(segment, part, first)
            self.rows += part.rows
            if is_shown and load is not None:
                rows = without_shown(rows, load.snapshot)
            if rows.num_rows:
                yield Part(segment.number, rows)

    def _rows(self, segment: Segment, part: TablePart, first: int | None) -> pa.Table:
        folder = self.stream.index.folder
        if self.widest:
            name = f"{self.table.database}.{self.table.name}"
            refuse_too_wide_part(part, self.widest, table=name, number=segment.number)
        try:
            return read_table(folder, segment, part)
        except TerminalError:
            self._require_kept(segment.number, first)
            raise

    def _require_kept(self, number: int, first: int | None) -> None:
        folder = self.stream.index.folder
        if first is not None:
            require_kept(folder, first)
        require_kept(folder, number, table_id=self.table.table_id)


def is_replaced(told: StreamTable | None, applied: int) -> bool:
    """Whether a load is on the way that replaces all that a table has which stands
    there: a commit behind its cut would pass for the load."""
    return told is not None and told.state == "cut" and applied < told.cut


def is_reached(end: str, load: LoadPoint, told: StreamTable | None) -> bool:
    """Whether all that a load showed is before that end of a segment. Where its source
    is another server since, the stream says from which place on that is so."""
    ends = {load.at}
    if told is not None and told.state == "finished":
        ends.add(told.at)
    return any(order_of(end, at) in {"after", "equal"} for at in ends)


def is_before(position: str, other: str) -> bool:
    """Of places in one source's log. TerminalError `positions_unordered` for places of
    two servers: which of them is the later one is no question of numbers."""
    order = order_of(position, other)
    if order == "unordered":
        raise TerminalError(
            "the positions %(position)s and %(other)s are of different"
            " servers. Nothing was written",
            position=position,
            other=other,
            code="positions_unordered",
            hint="resync the table",
        )
    return order == "before"
