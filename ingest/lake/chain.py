"""The chain: the segments of one stream, each made once, each from where the one before
ended.

`_sluice/log/<stream>/<number>.seg` are its segments, `beginning.json` says which is the
first that is kept, what those before it said of tables, and which of their rows are
kept in folds (`ingest.lake.folds`). Rules:

1. A segment is made by create-if-absent and never changed. The next number is the
   writer's fence: who takes over makes an empty segment first. Who finds a number taken
   has lost, and begins anew with a take-over or ends.
2. `beginning.json` moves on before segments go. A writer that was stopped for so long
   that its number was collected finds that out after it made the file, and before it
   tells anybody: that segment is nobody's. So readers look at it after they read.
3. Files beside a segment (parts of large transactions) go when that number is made and
   does not name them, never by their writer: they may be the next segment's.
4. Where the source's log behind the last segment is lost, a take-over that was decided
   by a person for that end passes over the gap, and defers every table in the same
   segment. Only a load brings a deferred table on, and a table that went back behind
   its newest load: what is missing may lie between.
5. What a table has applied is what its newest commit says (`_sluice.epoch_to`).
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from core.errors import StaleState, TerminalError, TransientError
from ingest.contract.segments import (
    HEADER,
    Beginning,
    Control,
    Fold,
    Segment,
    StreamTable,
    TablePart,
    checked,
    decode_beginning,
    decode_segment,
    encode_beginning,
    encode_segment,
    state_of,
)
from ingest.lake.folds import FoldReader, Run, first_and_count, read_footer
from ingest.lake.place import place_at
from ingest.lake.port import Place

DIGITS = 12
# Where the first part of a segment's own begins.
BODY_AT = len(HEADER)
_TRIES = 100
_FOLD = re.compile(r"\d+\.\d{12}-(\d{12})\.fold")
# Segments that an index takes up at once.
_PAGE = 100


def stream_folder(lake: str, stream: str) -> Place:
    return place_at(lake) / "_sluice" / "log" / stream


def begin_stream(folder: Place, *, above: int) -> Beginning:
    """Its first segment will be `above` + 1: above every epoch that a table which it
    will be about has. Done once, however often."""
    if _beginning(folder).read() is None:
        _beginning(folder).create(encode_beginning(Beginning(above + 1)))
    return read_beginning(folder)


def read_beginning(folder: Place) -> Beginning:
    """TerminalError `stream_unknown` when the stream was never begun."""
    return decode_beginning(_read_beginning(folder).decode())


def _read_beginning(folder: Place) -> bytes:
    found = _beginning(folder).read()
    if found is None:
        raise TerminalError(
            "there is no stream at %(uri)s",
            uri=folder.uri,
            code="stream_unknown",
            hint="begin it, and resync the tables that were followed by it",
        )
    return found


def read_segment(folder: Place, number: int) -> Segment | None:
    """Its footer; None when it is not there."""
    tail = read_footer(_segment(folder, number))
    return None if tail is None else decode_segment(tail)


def read_rows(folder: Place, segment: Segment, part: TablePart) -> bytes:
    """One part, checked; no other is read. TerminalError `segment_damaged`."""
    place = folder / part.file if part.file else _segment(folder, segment.number)
    return checked(part, place.read_part(part.offset, part.bytes))


def newest_number(folder: Place, *, start: int) -> int:
    """The last segment from `start` on, start - 1 when that is not there. Numbers have
    no gaps, so it is found by some tens of looks, whatever lies there."""
    low, step = start - 1, 1
    while _segment(folder, low + step).exists():
        low, step = low + step, step * 2
    high = low + step
    while high - low > 1:
        middle = (low + high) // 2
        if _segment(folder, middle).exists():
            low = middle
        else:
            high = middle
    return low


@dataclass(slots=True)
class ChainWriter:
    """The one that may append, until another takes over."""

    folder: Place
    last: Segment

    @property
    def next_number(self) -> int:
        return self.last.number + 1

    def part_name(self, count: int) -> str:
        """A file for parts of the next segment. No other writer has the name: each has
        made the number before its first one itself."""
        return f"{self.next_number:0{DIGITS}d}.{count}.part"

    def append(
        self,
        *,
        end: str,
        parts: Iterable[TablePart] = (),
        body: bytes = b"",
        controls: Iterable[Control] = (),
        committed: int = 0,
    ) -> Segment:
        """Durable when it returns, and only then may the source be told `end`.
        StaleState `superseded` when another writer took over."""
        before = self.last
        segment = replace(
            before,
            number=before.number + 1,
            start=before.end,
            end=end,
            parts=tuple(parts),
            controls=tuple(controls),
            committed=committed,
        )
        if not _make(self.folder, segment, body):
            raise _superseded(segment)
        self.last = segment
        return segment

    def require_newest(self) -> None:
        """StaleState `superseded` when another writer took over."""
        start = read_beginning(self.folder).number
        if newest_number(self.folder, start=start) > self.last.number:
            raise _superseded(replace(self.last, number=self.next_number))


@dataclass(frozen=True, slots=True)
class Gap:
    """What was behind a stream's end is lost, or of another server; a person decided
    that it goes on without. Or another server has all that is before that end, and goes
    on from a place of its own: then nothing is missing.

    after     the end for which that was decided
    controls  the records that let no table go on by what is missing
    """

    after: str
    controls: Callable[[], Iterable[Control]]


def take_over(
    folder: Place,
    *,
    stream: str,
    writer: str,
    server: str,
    begin: str,
    gap: Gap | None = None,
) -> ChainWriter:
    """Makes a segment without rows, behind which no other writer comes any more. The
    stream was begun before.

    writer  for people: which process it is
    server  TerminalError `source_changed` when the stream is of another one
    begin   where a stream without segments begins, or goes on behind a gap
    gap     the segment passes over it. StaleState `superseded` when another writer did
    """
    for _ in range(_TRIES):
        start = read_beginning(folder).number
        number = newest_number(folder, start=start)
        newest = read_segment(folder, number) if number >= start else None
        if newest is None and number >= start:
            continue  # collected meanwhile
        if newest is not None and gap is not None and newest.end != gap.after:
            raise _superseded(newest)
        if newest is not None and newest.server != server and gap is None:
            raise _other_server(newest, server)
        at = begin if newest is None else newest.end
        end, said = (at, ()) if gap is None else (begin, tuple(gap.controls()))
        claim = Segment(stream, number + 1, at, end, server, writer, controls=said)
        if _make(folder, claim, b""):
            return ChainWriter(folder, claim)
    raise TransientError(
        "other writers kept taking over stream %(stream)s",
        stream=stream,
        code="stream_contested",
    )


def _make(folder: Place, segment: Segment, body: bytes) -> bool:
    """False when the number was made by another writer, also when its segment is gone
    by now."""
    place = _segment(folder, segment.number)
    if not place.create(encode_segment(segment, body)):
        return False
    if read_beginning(folder).number <= segment.number:
        return True
    place.delete()
    return False


@dataclass(slots=True)
class ChainIndex:
    """What a reader knows of a stream: per table the numbers that are about it. Eight
    bytes for each, so ten thousand segments of hundreds of tables stay small."""

    folder: Place
    stream: str
    beginning: Beginning = field(default_factory=lambda: Beginning(0))
    newest: Segment | None = None
    _written: bytes = b""
    _about: dict[int, array[int]] = field(default_factory=dict)
    _controls: list[tuple[int, Control]] = field(default_factory=list)
    _files: dict[int, frozenset[str]] = field(default_factory=dict)
    _folds: FoldReader = field(init=False)
    # of each kept segment: when its newest transaction was committed, and its bytes
    _committed: array[int] = field(default_factory=lambda: array("q"))
    _bytes: array[int] = field(default_factory=lambda: array("q"))

    def __post_init__(self) -> None:
        self._folds = FoldReader(self.folder)

    def refresh(self) -> list[Segment]:
        """Reads what is new, each segment's footer once. Returns what came, at most
        `_PAGE` at a time: [] when there is nothing more.

        Segments are collected for what later ones say. So where the beginning has
        moved, the end is read again: else a table that was given up seems lost."""
        came: list[Segment] = []
        while True:
            first, start = self._next, self.beginning.number
            found: list[Segment] = []
            while len(found) < _PAGE:
                segment = read_segment(self.folder, first + len(found))
                if segment is None:
                    break
                found.append(segment)
            beginning = self._read_beginning()
            self._begin(beginning)
            if beginning.number > first:
                continue
            for segment in found:
                self._take(segment)
            came += found
            if beginning.number == start:
                return came

    @property
    def has_more(self) -> bool:
        """Whether a segment came that was not read."""
        return _segment(self.folder, self._next).exists()

    def about(self, table_id: int, *, after: int) -> list[int]:
        """Segments with rows of the table, in order."""
        return [n for run, at in self._runs(table_id, after) for n in run[at:]]

    def waiting(self, table_id: int, *, after: int) -> tuple[int, int]:
        """The first of `about`, 0 = none, and how many they are."""
        return first_and_count(self._runs(table_id, after))

    def _runs(self, table_id: int, after: int) -> Iterator[Run]:
        yield from self._folds.runs(table_id, self.beginning, after=after)
        yield self.whole(table_id, after)

    def whole(self, table_id: int, after: int) -> Run:
        """As `about`, of those that were not folded."""
        numbers = self._about.get(table_id, ())
        return numbers, bisect_right(numbers, after)

    def is_folded(self, number: int) -> bool:
        return number < self.beginning.number

    def segment(self, table_id: int, number: int) -> Segment | None:
        """The footer of a segment with rows of the table, of a folded one with these
        alone; None when it is not there."""
        if not self.is_folded(number):
            return read_segment(self.folder, number)
        for fold in self.beginning.folds.get(table_id, ()):
            if fold.first <= number <= fold.last:
                return self._folds.segment(table_id, fold, number)
        return None

    def tables(self, *, before: int | None = None) -> dict[int, StreamTable]:
        """As the records say, of all segments or of those before that number."""
        said = (c for c in self._controls if before is None or c[0] < before)
        found = state_of(self.beginning.tables, said)
        for table_id, numbers in self._about.items():
            count = len(numbers) if before is None else bisect_left(numbers, before)
            if count:
                known = found.get(table_id, StreamTable())
                found[table_id] = replace(known, last=numbers[count - 1])
        return found

    def is_lost(self, table_id: int, applied: int) -> bool:
        """Whether a table that stands there cannot go on: segments about it went."""
        return applied < self.beginning.last_lost(table_id)

    def is_ahead(self, applied: int) -> bool:
        """Whether a table stands behind the end. With a power failure the storage may
        lose a segment that was being made, and the next writer makes that number again,
        empty; when it stays so, the stream itself was lost."""
        newest = self.newest.number if self.newest else self.beginning.number - 1
        return applied > newest

    def needs(
        self, applied: Mapping[int, int], kept: Mapping[int, int] | None = None
    ) -> dict[int, int]:
        """Tables that need their segments, and after which number they do.

        applied  table → `epoch_to` of its newest commit; without one it has no rows
        kept     table → the lowest `epoch_to` of the savepoints that stay restorable
        """
        needs: dict[int, int] = {}
        for table_id, state in self.tables().items():
            lost = self.beginning.last_lost(table_id)
            found = state.holds_after(applied.get(table_id), lost=lost)
            point = (kept or {}).get(table_id, -1)
            if found is not None:
                is_restorable = point >= max(lost, state.cut)
                needs[table_id] = min(found, point) if is_restorable else found
        return needs

    def needed_from(self, needs: Mapping[int, int]) -> int:
        """The first that was not folded and some table needs; the newest if none."""
        if self.newest is None:
            return self.beginning.number
        found = (first_and_count([self.whole(*need)])[0] for need in needs.items())
        return min(filter(None, [self.newest.number, *found]))

    @property
    def committed(self) -> int:
        return max(self._committed, default=0)

    def recent_from(self, before: int, *, since: int, most_bytes: int) -> int:
        """The first segment before that one by which nothing is older than `since`
        (microseconds), nor all from it on larger than `most_bytes`; else that one."""
        first, total = before, 0
        for number in range(before - 1, self.beginning.number - 1, -1):
            place = number - self.beginning.number
            total += self._bytes[place]
            committed = self._committed[place]
            if total > most_bytes or 0 < committed < since:
                break
            first = number if committed else first
        return first

    def folded_from(self, needs: Mapping[int, int]) -> int | None:
        """The first segment that some table needs, if it was folded."""
        folded = self.beginning.folds.keys() & needs.keys()
        firsts = (self.waiting(one, after=needs[one])[0] for one in folded)
        return min((n for n in firsts if n and self.is_folded(n)), default=None)

    def bytes_between(self, first: int, end: int) -> int:
        """Of the rows in segments from `first` to before `end`."""
        begin = self.beginning.number
        return sum(self._bytes[first - begin : end - begin])

    def files_before(self, number: int) -> list[str]:
        """Names of all files of segments before that one, in their order."""
        gone = range(self.beginning.number, number)
        return [f for n in gone for f in (*self._files.get(n, ()), segment_name(n))]

    def _read_beginning(self) -> Beginning:
        # of hundreds of tables half a megabyte, ten times a second, seldom another one
        if (written := _read_beginning(self.folder)) == self._written:
            return self.beginning
        self._written = written
        return decode_beginning(written.decode())

    @property
    def _next(self) -> int:
        return self.newest.number + 1 if self.newest else self.beginning.number

    def _begin(self, beginning: Beginning) -> None:
        if beginning.number == self.beginning.number:
            self.beginning = beginning
            return
        if beginning.number > self._next:
            self.newest = None  # what is between was collected unread
        first = beginning.number
        gone = first - self.beginning.number
        self._committed, self._bytes = self._committed[gone:], self._bytes[gone:]
        self.beginning = beginning
        self._controls = [one for one in self._controls if one[0] >= first]
        self._files = {n: f for n, f in self._files.items() if n >= first}
        for table_id, numbers in self._about.items():
            self._about[table_id] = numbers[bisect_left(numbers, first) :]

    def _take(self, segment: Segment) -> None:
        before = self.newest
        is_next = (segment.stream, segment.number) == (self.stream, self._next)
        if not is_next or (before is not None and segment.start != before.end):
            raise TerminalError(
                "segment %(number)s of stream %(stream)s does not go on where the"
                " one before ended. Nothing was changed",
                number=self._next,
                stream=self.stream,
                code="stream_broken",
                hint="resync the tables that are followed by it",
            )
        self.newest = segment
        self._committed.append(segment.committed)
        self._bytes.append(sum(part.bytes for part in segment.parts))
        self._controls += ((segment.number, one) for one in segment.controls)
        if segment.files:
            self._files[segment.number] = segment.files
        for table_id in segment.tables:
            self._about.setdefault(table_id, array("q")).append(segment.number)


def read_kept(folder: Place, table_id: int, number: int) -> Segment | None:
    """The footer of a segment, or of a folded one with the table's rows alone; None
    when no table needs it any more, or the stream was not begun."""
    text = _beginning(folder).read()
    if text is None:
        return None
    index = ChainIndex(folder, "", decode_beginning(text.decode()))
    return index.segment(table_id, number)


def collect(index: ChainIndex, *, first: int, needs: Mapping[int, int]) -> None:
    """Deletes the segments before `first` (`ChainIndex.needed_from`) and the folds that
    no table needs, by their one owner. Repeated after a death; what that left is
    `remove_orphans`'."""
    if index.newest is None:
        return
    first = min(first, index.newest.number)
    moves = first > index.beginning.number
    gone = {
        fold.name_for(table_id)
        for table_id, folds in index.beginning.folds.items()
        for fold in folds
        if fold.last <= needs.get(table_id, fold.last)
    }
    if not moves and not gone:
        return
    tables = index.tables(before=first) if moves else {}

    def moved_on(text: str | None) -> str:
        found = decode_beginning(text) if text else index.beginning
        left = {
            table_id: tuple(f for f in folds if f.name_for(table_id) not in gone)
            for table_id, folds in found.folds.items()
        }
        left = {table_id: folds for table_id, folds in left.items() if folds}
        if first > found.number:
            return encode_beginning(Beginning(first, tables, left))
        return encode_beginning(replace(found, folds=left))

    _beginning(index.folder).update(moved_on)
    for name in [*index.files_before(first), *gone]:
        (index.folder / name).delete()


def fold(index: ChainIndex, *, end: int, lasts: Mapping[int, int]) -> bool:
    """Puts folds in the place of the segments from the index's beginning to before
    `end`. Their files are there already, and were made of segments that were all there:
    nothing is named when the beginning has moved since, for then some of them may have
    been the files of stopped writers. Whether these segments are gone.

    lasts  table → the last of these segments with rows of it
    """
    first = index.beginning.number
    after = index.tables(before=end)

    def folded(text: str | None) -> str | None:
        found = decode_beginning(text) if text else index.beginning
        if found.number != first:
            return None
        folds = {**found.folds}
        for table_id, last in lasts.items():
            made = Fold(first, last, found.last_before(table_id))
            folds[table_id] = (*folds.get(table_id, ()), made)
        return encode_beginning(Beginning(end, after, folds))

    _beginning(index.folder).update(folded)
    if read_beginning(index.folder).number < end:
        return False
    for name in index.files_before(end):
        (index.folder / name).delete()
    return True


def remove_orphans(folder: Place) -> list[str]:
    """Deletes what dead and superseded writers and collectors left; the names of it."""
    beginning = read_beginning(folder)
    first = beginning.number
    folds = {
        one.name_for(table) for table, many in beginning.folds.items() for one in many
    }
    gone = []
    made: dict[int, Segment | None] = {}
    for name in sorted(folder.names()):
        own = name.lstrip(".")  # files that were not made whole begin with a dot
        if fold := _FOLD.match(own):
            # one that ends behind the beginning may be named by it yet
            if int(fold[1]) < first and name not in folds:
                (folder / name).delete()
                gone.append(name)
            continue
        if not own[:DIGITS].isdigit():
            continue
        number = int(own[:DIGITS])
        if number >= first:
            if name == segment_name(number):
                continue
            if number not in made:
                made[number] = read_segment(folder, number)
            segment = made[number]
            if segment is None or name in segment.files:
                continue
        (folder / name).delete()
        gone.append(name)
    return gone


def segment_name(number: int) -> str:
    return f"{number:0{DIGITS}d}.seg"


def require_kept(folder: Place, number: int, *, table_id: int | None = None) -> None:
    """Behind reading: StaleState `segment_collected` when that segment went, so that
    what was read may be nobody's. table_id: a fold of that table will do."""
    beginning = read_beginning(folder)
    folds = beginning.folds.get(table_id, ()) if table_id is not None else ()
    is_folded = any(one.first <= number <= one.last for one in folds)
    if beginning.number > number and not is_folded:
        raise _collected(folder, number)


def _segment(folder: Place, number: int) -> Place:
    return folder / segment_name(number)


def _beginning(folder: Place) -> Place:
    return folder / "beginning.json"


def _collected(folder: Place, number: int) -> StaleState:
    return StaleState(
        "segment %(number)s at %(place)s was collected",
        number=number,
        place=folder.uri,
        code="segment_collected",
    )


def _superseded(segment: Segment) -> StaleState:
    return StaleState(
        "segment %(number)s of stream %(stream)s was not written: another"
        " writer took the stream over",
        number=segment.number,
        stream=segment.stream,
        code="superseded",
        hint="nothing is lost: that writer reads on from the last segment",
    )


def _other_server(newest: Segment, server: str) -> TerminalError:
    return TerminalError(
        "stream %(stream)s was read from server %(server)s, and"
        " %(now)s answers now. Nothing was read",
        stream=newest.stream,
        server=newest.server,
        now=server,
        code="source_changed",
        hint="bring that server back, or start its follower over, then resync its"
        " tables",
    )
