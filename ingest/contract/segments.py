"""Segments: an epoch of a stream as one file, and what its records say of tables.

    header | Arrow streams, one behind the other | footer (JSON) | trailer

The footer says where each table's part lies, so one is read without the others. A
segment is valid where it begins at the position at which the one before ended; numbers
have no gaps. A fold has the rows of one table out of many segments that are gone, in a
file of the same form. Pure: what a part holds is `ingest.lake.segment_files`.
"""

from __future__ import annotations

import dataclasses
import struct
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Literal, TypeVar

import msgspec

from core.errors import TerminalError, said_by
from core.sentences import Sentence
from ingest.contract import members

VERSION = 1
HEADER = b"SLUICE" + VERSION.to_bytes(2, "big")
# footer's bytes, its CRC-32, and the header again
_TRAILER = struct.Struct(">II8s")
TRAILER_BYTES = _TRAILER.size

# Columns of a part beside those of the rows (c0, c1, … and masks m0, …).
# OP: one of `OPS` by its place. A row's place among the rows of its table is its order.
# XID: the source's transaction, 0 = not known; a load drops what its snapshot shows.
# UNCHANGED: positions of columns whose value the log did not send, as bits from the
# lowest of the first byte on; NULL = all were sent. Their value here is NULL.
OP, XID, UNCHANGED = "op", "xid", "unchanged"
# Beside OP in a file of changes that were merged from a log: their `_sluice_seq`.
INDEX = "i"
# moved: the row of an update that changed the key; the delete of the old key is the row
# before, and what is unchanged was that one's. truncate: the table was emptied here; of
# a sharded one the shard whose name the row has.
OPS = ("insert", "update", "delete", "moved", "truncate")

# In the place of a schema version: rows of columns that no plan had as they were read.
AHEAD = 0

What = Literal["segment", "stream"]
_HAS: Mapping[What, str] = {
    "segment": "a segment in the lake has %(why)s. Nothing was changed",
    "stream": "a stream in the lake has %(why)s. Nothing was changed",
}
_IS_DAMAGED: Mapping[What, str] = {
    "segment": "a segment in the lake is damaged: %(why)s. Nothing was changed",
    "stream": "a stream in the lake is damaged: %(why)s. Nothing was changed",
}
T = TypeVar("T")

ControlKind = Literal["added", "cut", "finished", "removed", "deferred", "left"]


class TablePart(msgspec.Struct, frozen=True, array_like=True):
    """Rows of one table, all of one schema. There are hundreds of them in each segment,
    one a second: they are written without the names of their members.

    schema_version  of the plan by which they were read, or `AHEAD`
    offset, bytes  where they lie in the file
    crc            CRC-32 of those bytes
    file           "" = the segment's own; else the name of one beside it
    """

    table_id: int
    schema_version: int
    rows: int
    offset: int
    bytes: int
    crc: int
    file: str = ""


_TABLE_OF = attrgetter("table_id")


@dataclass(frozen=True, slots=True)
class Control:
    """A record about one table, before the rows of its segment.

    added     its changes come from here on
    cut       a load replaces all that it got before the end of this segment; load: its
              name. The load's rows carry this segment's number. identity: which table
              of the source it was, in its log's own words; "" = they have none
    finished  the load is complete once everything up to the position `at` is applied;
              again where another server goes on, by a place of its own
    removed   its changes come no more, and nothing waits for it
    deferred  nothing waits for it: changes of it are missing, or nobody wants them
              before its next load
    left      values of these source `columns` are missing from here on: its rows do not
              have them, or the load of the cut before. Only another load brings them.
              identity: as of a cut, by what its plan has now
    """

    kind: ControlKind
    table_id: int
    load: str = ""
    at: str = ""
    reason: str = ""
    identity: str = ""
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Segment:
    """start, end: source positions, encoded. server: its identity, as positions have
    it. writer: which process made it. committed: when its last transaction was
    committed at the source, microseconds since 1970; 0 = it has none. parts: by table,
    those of one in the order of the source.
    """

    stream: str
    number: int
    start: str
    end: str
    server: str
    writer: str
    parts: tuple[TablePart, ...] = ()
    controls: tuple[Control, ...] = ()
    committed: int = 0

    def __post_init__(self) -> None:
        by_table = tuple(sorted(self.parts, key=_TABLE_OF))
        object.__setattr__(self, "parts", by_table)

    def parts_of(self, table_id: int) -> tuple[TablePart, ...]:
        # hundreds of tables ask, each of tens of segments
        first = bisect_left(self.parts, table_id, key=_TABLE_OF)
        last = bisect_right(self.parts, table_id, lo=first, key=_TABLE_OF)
        return self.parts[first:last]

    @property
    def files(self) -> frozenset[str]:
        """Names of the files beside it that hold parts of it."""
        return frozenset(part.file for part in self.parts if part.file)

    @property
    def tables(self) -> frozenset[int]:
        return frozenset(part.table_id for part in self.parts)


def part_of(
    table_id: int,
    data: bytes,
    *,
    rows: int,
    schema_version: int,
    offset: int,
    file: str = "",
) -> TablePart:
    crc = zlib.crc32(data)
    return TablePart(table_id, schema_version, rows, offset, len(data), crc, file)


@dataclass(frozen=True, slots=True)
class Folded:
    """A fold's footer: what the segments were, with the rows of that table alone."""

    segments: tuple[Segment, ...]


def encode_segment(footer: Segment | Folded, body: bytes = b"") -> bytes:
    """The file. body: what lies between header and footer; offsets of parts count from
    the beginning of the file."""
    said = members.encode(footer, version=VERSION).encode()
    trailer = _TRAILER.pack(len(said), zlib.crc32(said), HEADER)
    return b"".join((HEADER, body, said, trailer))


def footer_bytes(tail: bytes) -> int:
    """How many bytes from the end footer and trailer take, by a file's last bytes."""
    if len(tail) < TRAILER_BYTES:
        raise _damaged("segment", Sentence("it has %(size)s bytes", size=len(tail)))
    size, _, mark = _TRAILER.unpack(tail[-TRAILER_BYTES:])
    if mark[:6] != HEADER[:6]:
        raise _damaged("segment", Sentence("it does not end as one"))
    version = int.from_bytes(mark[6:], "big")
    if version < 1:
        raise _damaged(
            "segment", Sentence("its version is %(version)s", version=version)
        )
    if version > VERSION:
        raise _too_new("segment", members.TooNew(version, VERSION))
    return int(size) + TRAILER_BYTES


def decode_segment(tail: bytes) -> Segment:
    """From a file's last bytes, at least `footer_bytes` of them. TerminalError
    `segment_damaged`, or `segment_too_new`."""
    return _decoded(Segment, _footer_in(tail), "segment")


def decode_fold(tail: bytes) -> Folded:
    """As `decode_segment`."""
    return _decoded(Folded, _footer_in(tail), "segment")


def _footer_in(tail: bytes) -> bytes:
    size = footer_bytes(tail)
    if len(tail) < size:
        raise _damaged("segment", Sentence("its footer is cut off"))
    footer = tail[-size:-TRAILER_BYTES]
    if zlib.crc32(footer) != _TRAILER.unpack(tail[-TRAILER_BYTES:])[1]:
        raise _damaged("segment", Sentence("its footer has another checksum"))
    return footer


def checked(part: TablePart, data: bytes | None) -> bytes:
    """The bytes of a part. TerminalError `segment_damaged` when they are others."""
    if data is None or len(data) != part.bytes or zlib.crc32(data) != part.crc:
        why = "the part of table %(table)s has another checksum"
        if data is None:
            why = "the part of table %(table)s is missing"
        raise _damaged("segment", Sentence(why, table=part.table_id))
    return data


@dataclass(frozen=True, slots=True)
class StreamTable:
    """What the records of a stream say of a table.

    state  its last record's kind, but `left`
    left   source columns of which values are missing since the cut
    last   the last segment with rows of it, 0 = none
    cut    the segment of its last cut, 0 = none; load, at, identity: of that cut.
           Before it changes may be missing, so a table that stands there does not go on
    """

    state: ControlKind = "added"
    last: int = 0
    cut: int = 0
    load: str = ""
    at: str = ""
    identity: str = ""
    left: tuple[str, ...] = ()

    def after(self, control: Control, number: int) -> StreamTable:
        """With one record more, of segment `number`. A record may come twice, for who
        asked for it may not learn that it is there."""
        if control.kind == "added":
            is_new = self.state == "removed"
            return StreamTable("added", self.last) if is_new else self
        if control.kind == "cut":
            if (self.state, self.load) == ("cut", control.load):
                return self  # its load may have learned either number
            return StreamTable(
                "cut", self.last, number, control.load, identity=control.identity
            )
        if control.kind == "left":
            left = tuple(sorted({*self.left, *control.columns}))
            return dataclasses.replace(self, left=left, identity=control.identity)
        if control.kind == "finished":
            return dataclasses.replace(self, state="finished", at=control.at)
        return dataclasses.replace(self, state=control.kind)

    def holds_after(self, applied: int | None, *, lost: int) -> int | None:
        """The table needs its segments after that number; None = it needs none.

        applied  what its lake table's newest commit reached; None = it has no rows yet
        lost     the last segment with rows of it that is gone
        """
        if self.state in {"removed", "deferred", "added"}:
            return None
        after = max(applied or 0, self.cut)
        return after if after and after >= lost else None


@dataclass(frozen=True, slots=True)
class Fold:
    """The rows of one table out of segments that are gone.

    first   of those segments
    last    of those with rows of the table
    before  the last segment before them with rows of the table, 0 = none
    """

    first: int
    last: int
    before: int

    def name_for(self, table_id: int) -> str:
        """Of its file. It does not begin as names of segments do."""
        return f"{table_id}.{self.first:012d}-{self.last:012d}.fold"


@dataclass(frozen=True, slots=True)
class Beginning:
    """What is kept of a stream: the first segment, what those before it said, and the
    rows of theirs that some table needs, in the order of the log."""

    number: int
    tables: Mapping[int, StreamTable] = dataclasses.field(default_factory=dict)
    folds: Mapping[int, tuple[Fold, ...]] = dataclasses.field(default_factory=dict)

    def last_lost(self, table_id: int) -> int:
        """The last segment with rows of the table that are gone; 0 = none are."""
        if folds := self.folds.get(table_id):
            return folds[0].before
        return self.last_before(table_id)

    def last_before(self, table_id: int) -> int:
        """The last segment with rows of the table before `number`, 0 = none."""
        found = self.tables.get(table_id)
        return found.last if found else 0


def encode_beginning(beginning: Beginning) -> str:
    return members.encode(beginning, version=VERSION)


@lru_cache(maxsize=8)
def decode_beginning(text: str) -> Beginning:
    """TerminalError `stream_damaged`, or `stream_too_new`. Readers look at it again and
    again; it has a line for each table and seldom changes."""
    return _decoded(Beginning, text, "stream")


def state_of(
    tables: Mapping[int, StreamTable], controls: Iterable[tuple[int, Control]]
) -> dict[int, StreamTable]:
    """Tables after records, which come with the numbers of their segments."""
    found = dict(tables)
    for number, control in controls:
        before = found.get(control.table_id, StreamTable())
        found[control.table_id] = before.after(control, number)
    return found


def _decoded(kind: type[T], text: str | bytes, what: What) -> T:
    try:
        return members.decode(kind, text, newest=VERSION)
    except members.TooNew as error:
        raise _too_new(what, error) from error
    except ValueError as error:
        raise _damaged(what, error) from error


def _too_new(what: What, why: members.TooNew) -> TerminalError:
    return TerminalError(
        _HAS[what],
        why=said_by(why),
        code=f"{what}_too_new",
        hint="run this stream with the release that wrote it, or a newer one",
    )


def _damaged(what: What, why: object) -> TerminalError:
    return TerminalError(
        _IS_DAMAGED[what],
        why=why,
        code=f"{what}_damaged",
        hint="put the file back from a copy of the lake, or resync the stream's tables",
    )
