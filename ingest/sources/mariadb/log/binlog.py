"""Events of the binary log of MariaDB and MySQL, version 4, rows with whole images.

Bytes in, values out: rows are gathered per table and taken in parts, so a transaction
of any size needs little memory; its commit says that it is whole. Pure.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

from core.errors import TerminalError, said_by
from core.sentences import Sentence
from ingest.sources.mariadb.log.packed import inflated, payload_of
from ingest.sources.mariadb.log.rows import Row, Split, form_of, split_of
from ingest.sources.mariadb.log.sessions import is_strict, quoting_of, text_of
from ingest.sources.mariadb.log.statements import BY_DEFAULT, Quoting
from ingest.sources.mariadb.log.table_map import (
    TableMap,
    packed_int,
    table_map,
    table_name,
)

# What `OPS` of `ingest.contract.segments` names, by its place.
INSERT, UPDATE, DELETE, MOVED, TRUNCATE = range(5)
# When, the kind, whose, bytes, where it ends, flags.
HEAD = struct.Struct("<IBIIIH")
_QUERY = struct.Struct("<IIBHH")
_GTID = struct.Struct("<QIB")
_PREPARED = struct.Struct("<BIII")
_CHECKSUM = struct.Struct("<I")
_SAID = struct.Struct("<H")

_IN_USE, _ARTIFICIAL, _IGNORABLE = 0x01, 0x20, 0x80
_STANDALONE, _GROUPED = 0x01, 0x02
# Of an ALTER TABLE in two phases, behind the number: it begins, or is given up.
_NOT_DONE = 0x02 | 0x08
_INSERTS, _DELETES = (23, 30, 166, 169), (25, 32, 168, 171)
_UPDATES = (24, 31, 167, 170)
_ROWS_KINDS = (
    dict.fromkeys(_INSERTS, INSERT)
    | dict.fromkeys(_UPDATES, UPDATE)
    | dict.fromkeys(_DELETES, DELETE)
)
_SECOND_VERSION = frozenset({30, 31, 32, 169, 170, 171})
_COMPRESSED = range(166, 172)
_NUMBERS = frozenset({33, 34, 42, 162})
# They say nothing of rows: how statements came about, who waits for whom, comments.
_SKIPPED = frozenset(
    {0, 3, 5, 9, 11, 13, 14, 17, 28, 29, 35, 36, 37, 27, 41} | {160, 161, 163, 164}
)
# Bytes about the file, of a statement that loads one.
_LOADED = 13
_DUMMY = 0xFFFFFF.to_bytes(6, "little")
# What does not end, in a text, ends with it: else each is searched to the end again.
_SPACE = re.compile(r"\s+|/\*.*?(?:\*/|\Z)", re.DOTALL)
_SAVEPOINT = re.compile(r"SAVEPOINT\s+(.+)", re.IGNORECASE | re.DOTALL)
_BACK = re.compile(
    r"ROLLBACK\s+(?:WORK\s+)?TO\s+(?:SAVEPOINT\s+)?(.+)", re.IGNORECASE | re.DOTALL
)
_XA = re.compile(r"XA\s+(\w+)\s*(.*)", re.IGNORECASE | re.DOTALL)

Name = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Begin:
    """A transaction."""


@dataclass(frozen=True, slots=True)
class Commit:
    """The transaction is whole: behind this event reading goes on. committed: when,
    microseconds since 1970, in whole seconds."""

    committed: int


@dataclass(frozen=True, slots=True)
class Rollback:
    """The transaction ended, and nothing of it happened: its rows that wait are gone.
    is_whole: none of them had been taken."""

    is_whole: bool


@dataclass(frozen=True, slots=True)
class Rotate:
    """What follows is of that file, from there on."""

    file: str
    offset: int


@dataclass(frozen=True, slots=True)
class Statement:
    """What was done without rows: a definition, or a change that was logged as a
    statement. is_strict: its session let no value be changed to fit its column."""

    database: str
    text: str
    committed: int
    is_strict: bool = False
    quoting: Quoting = BY_DEFAULT


@dataclass(frozen=True, slots=True)
class Missed:
    """The log has changes that cannot be read from it. tables: whose; None = of any.
    From here on rows of these tables are left out, until `look_again`."""

    tables: tuple[Name, ...] | None
    reason: str


What = Begin | Commit | Rollback | Rotate | Statement | Missed | TableMap


@dataclass(slots=True)
class Rows:
    """Rows of one table in the order of the log: what happened, and the values."""

    table: TableMap
    ops: list[int] = field(default_factory=list)
    values: list[Row] = field(default_factory=list)


@dataclass(slots=True)
class _Table:
    """heads: beginnings of row events that say that all columns are there."""

    rows: Rows
    split: Split
    heads: set[bytes] = field(default_factory=set)


# The places, among a table's columns, of those that say which row of the lake it is;
# None = its rows are not wanted. Rows of a table with a problem are left out.
Wanted = Callable[[TableMap], tuple[int, ...] | None]
# Of a table that comes in a transaction, whether anything but that is wanted of it.
IsWanted = Callable[[Name], bool]


class Decoder:
    """One connection's events, in their order. TerminalError `log_unreadable`, or
    `log_incident` where the server knows of changes that are not in its log; the
    decoder is of no use then.

    Of tables that are not wanted nothing is kept beyond their transaction: a server may
    have any number of them.

    size  bytes of the events whose rows wait
    """

    def __init__(self, wanted: Wanted, is_wanted: IsWanted = lambda _: True) -> None:
        self._wanted = wanted
        self._is_wanted = is_wanted
        # by the events that describe them, without their numbers
        self._tables: dict[bytes, _Table | None] = {}
        self._maps: dict[bytes, TableMap] = {}
        self._newest: dict[Name, bytes] = {}
        # of the open transaction: which tables they are, b"" = not wanted
        self._numbers: dict[bytes, tuple[Name, bytes]] = {}
        self._closed: list[Rows] = []
        # rows of the open transaction, and how many there were before it
        self._touched: dict[int, tuple[Rows, int]] = {}
        self._savepoints: dict[str, dict[int, int]] = {}
        self._prepared: dict[str, tuple[Name, ...]] = {}
        self._missing: set[Name] = set()
        self._is_within = self._is_taken = self._is_not_done = False
        self._is_summed: bool | None = None
        self._is_mariadb = False
        self.size = 0

    @property
    def is_within(self) -> bool:
        """Whether a transaction has begun whose end has not come."""
        return self._is_within

    def decode(self, event: bytes) -> tuple[What, ...]:
        """One whole event with its head. Rows are kept for `take`; what else happened
        is returned."""
        try:
            return self._decode(self._checked(event))
        except (LookupError, ValueError, struct.error) as error:
            _refuse(event, said_by(error))

    def take(self) -> list[Rows]:
        """What was gathered: of a table several when it was altered in between."""
        found, self._closed, self.size = self._closed, [], 0
        for table in self._tables.values():
            if table is not None and table.rows.ops:
                found.append(table.rows)
                table.rows = Rows(table.rows.table)
        self._is_taken |= bool(self._touched)
        self._touched, self._savepoints = {}, {}
        return found

    def look_again(self) -> None:
        """Other tables are wanted from here on; no transaction is open, and nothing
        waits for `take`."""
        # each is described anew before its next rows, as it is by then
        self._tables, self._maps, self._newest = {}, {}, {}
        self._missing.clear()

    def _checked(self, event: bytes) -> bytes:
        """Without its checksum."""
        kind = event[4]
        if len(event) != HEAD.unpack_from(event)[3]:
            _refuse(event, Sentence("an event of another length than it says"))
        if kind == 15:
            # before the checksum, which is there in any case: how events are summed
            self._is_summed = event[-5] == 1
            if not self._is_summed:
                return event[:-5]
            flags = event[17] & ~_IN_USE
            event = event[:17] + bytes([flags]) + event[18:]
        elif self._is_summed is None:
            self._is_summed = _sum_of(event) == event[-4:]
            summed, self._is_summed = self._is_summed, None
            return event[:-4] if summed else event
        if not self._is_summed:
            return event
        if _sum_of(event) != event[-4:]:
            _refuse(event, Sentence("an event with another checksum"))
        return event[:-5] if kind == 15 else event[:-4]

    def _decode(self, event: bytes) -> tuple[What, ...]:
        kind = event[4]
        op = _ROWS_KINDS.get(kind)
        if op is not None:
            return self._rows(kind, op, event)
        if kind == 19:
            return self._table_map(event)
        if kind == 16:
            return (self._end(event),)
        if kind in _NUMBERS:
            return self._begin_by_number(kind, event)
        if kind == 2 or kind == 165 or kind == 18:
            return self._query(kind, event)
        return self._other(kind, event)

    def _other(self, kind: int, event: bytes) -> tuple[What, ...]:
        if kind == 4:
            (offset,) = struct.unpack_from("<Q", event, HEAD.size)
            return (Rotate(event[HEAD.size + 8 :].decode(), offset),)
        if kind == 15:
            return self._format(event)
        if kind == 38:
            return self._prepare(event)
        if kind == 40:
            return self._payload(event)
        if kind == 39:
            return self._partial(event)
        if kind == 26:
            _incident(event)
        is_ignorable = HEAD.unpack_from(event)[5] & _IGNORABLE
        if kind not in _SKIPPED and not is_ignorable:
            _refuse(event, Sentence("an event of an unknown kind"))
        return ()

    def _format(self, event: bytes) -> tuple[What, ...]:
        version, server, _made, head = struct.unpack_from("<H50sIB", event, HEAD.size)
        if version != 4 or head != HEAD.size:
            _refuse(event, Sentence("a log of version %(version)s", version=version))
        self._is_mariadb |= b"mariadb" in server.lower()
        # a server that died within a transaction begins the next file without its end
        return (self._undone(),) if self._is_within else ()

    def _begin_by_number(self, kind: int, event: bytes) -> tuple[What, ...]:
        if self._is_within:
            _refuse(event, Sentence("a transaction within another one"))
        self._is_not_done = False
        if kind != 162:  # a number of MySQL's, or that there is none
            return ()
        self._is_mariadb = True
        _number, _domain, flags = _GTID.unpack_from(event, HEAD.size)
        more = HEAD.size + _GTID.size + (8 if flags & _GROUPED else 0)
        self._is_not_done = len(event) > more and bool(event[more] & _NOT_DONE)
        # what stands alone is a statement, and has no end
        return () if flags & _STANDALONE else (self._begin(event),)

    def _begin(self, event: bytes) -> Begin:
        if self._is_within:
            _refuse(event, Sentence("a transaction within another one"))
        self._is_within, self._is_taken = True, False
        self._touched, self._savepoints = {}, {}
        self._numbers.clear()
        return Begin()

    def _end(self, event: bytes) -> Commit:
        if not self._is_within:
            _refuse(event, Sentence("a commit of no transaction"))
        self._is_within = False
        return Commit(_when(event))

    def _undone(self) -> Rollback:
        for rows, count in self._touched.values():
            del rows.ops[count:], rows.values[count:]
        self._is_within, self._touched = False, {}
        return Rollback(not self._is_taken)

    def _query(self, kind: int, event: bytes) -> tuple[What, ...]:
        _, _, size, _, status = _QUERY.unpack_from(event, HEAD.size)
        at = HEAD.size + _QUERY.size + (_LOADED if kind == 18 else 0)
        said, at = event[at : at + status], at + status
        database = event[at : at + size].decode()
        data = event[at + size + 1 :]
        if kind == 165:
            data = inflated(data)
        return self._done(event, text_of(data, said), database, said)

    def _done(
        self, event: bytes, text: str, database: str, said: bytes
    ) -> tuple[What, ...]:
        short = _SPACE.sub(" ", text).strip()
        word = short[:9].upper()
        if word == "BEGIN":
            return (self._begin(event),)
        if word == "COMMIT":
            return (self._end(event),)
        if word == "ROLLBACK" and len(short) == 8:
            if not self._is_within:
                _refuse(event, Sentence("a rollback of no transaction"))
            return (self._undone(),)
        # a name has what looks like a comment as it is
        if found := _BACK.fullmatch(text) or _BACK.fullmatch(short):
            return self._back_to(found[1])
        if found := _SAVEPOINT.fullmatch(text) or _SAVEPOINT.fullmatch(short):
            self._savepoints[found[1]] = {
                key: len(rows.ops) for key, (rows, _) in self._touched.items()
            }
            return ()
        if found := _XA.fullmatch(short):
            return self._transaction_of_several(event, found[1].upper(), found[2])
        return (self._statement(event, text, database, said),)

    def _statement(
        self, event: bytes, text: str, database: str, said: bytes
    ) -> Statement:
        if self._is_not_done and not self._is_within:
            text = ""
        session = is_strict(said), quoting_of(said)
        return Statement(database, text, _when(event), *session)

    def _back_to(self, savepoint: str) -> tuple[What, ...]:
        """A server leaves out of its log what was rolled back, unless it is between
        changes of tables that know no transactions."""
        counts = self._savepoints.get(savepoint)
        for key, (rows, before) in self._touched.items():
            count = (counts or {}).get(key, before)
            del rows.ops[count:], rows.values[count:]
        if counts is not None:
            return ()
        # rows of before it, or behind it, were taken: which of them is not known
        return self._missed(
            self._names(), Sentence("rows that were taken were rolled back")
        )

    def _transaction_of_several(
        self, event: bytes, verb: str, name: str
    ) -> tuple[What, ...]:
        """XA: what is prepared is in the log before it is known how it ends."""
        if verb in ("START", "BEGIN"):
            return () if self._is_within else (self._begin(event),)
        if verb == "COMMIT":
            reason = Sentence("a transaction of several servers (XA) wrote to it")
            tables = self._prepared.pop(name, None)
            return () if tables == () else self._missed(tables, reason)
        if verb == "ROLLBACK":
            self._prepared.pop(name, None)
        return ()

    def _prepare(self, event: bytes) -> tuple[What, ...]:
        is_one_phase, form, *sizes = _PREPARED.unpack_from(event, HEAD.size)
        if is_one_phase:
            return (self._end(event),)
        if not self._is_within:
            _refuse(event, Sentence("what is prepared is no transaction"))
        # all, for tables that are not wanted now may be when it is committed
        names = self._names()
        at = HEAD.size + _PREPARED.size
        xid = event[at : at + sizes[0]], event[at + sizes[0] : at + sum(sizes)]
        name = f"X'{xid[0].hex()}',X'{xid[1].hex()}',{form}"
        self._prepared[name] = names
        return (self._undone(),)

    def _names(self) -> tuple[Name, ...]:
        """Of the tables that the open transaction has rows of."""
        return tuple(dict.fromkeys(name for name, _ in self._numbers.values()))

    def _missed(self, tables: tuple[Name, ...] | None, reason: str) -> tuple[What, ...]:
        named = self._newest if tables is None else filter(self._is_wanted, tables)
        self._missing |= {*named}
        for body in self._maps:
            if table_name(body) in self._missing:
                self._close(body)
                self._tables[body] = None
        return (Missed(tables, reason),)

    def _payload(self, event: bytes) -> tuple[What, ...]:
        """MySQL's: events of a whole transaction, without checksums of their own."""
        data, found = payload_of(event[HEAD.size :]), list[What]()
        at = 0
        while at < len(data):
            size = HEAD.unpack_from(data, at)[3]
            inner = data[at : at + size]
            if size < HEAD.size or len(inner) != size:
                _refuse(event, Sentence("events that are cut off"))
            found += self._decode(inner)
            at += size
        return tuple(found)

    def _partial(self, event: bytes) -> tuple[What, ...]:
        table = self._table_of(event)
        if table is None:
            return ()
        return self._refused(
            table, Sentence("its rows have parts of JSON documents only")
        )

    def _table_map(self, event: bytes) -> tuple[What, ...]:
        """The table, unless it is as it was."""
        number, body = event[19:25], event[27:]
        name = table_name(body)
        if not self._is_wanted(name):
            self._numbers[number] = name, b""
            return ()
        self._numbers[number] = name, body
        before = self._newest.get(name)
        if before == body:
            return ()
        if before is not None:
            self._close(before)
        self._newest[name] = body
        described = self._maps.get(body)
        if described is None:
            described = self._maps[body] = self._described(body)
            self._tables[body] = self._table(described)
        return (described,)

    def _described(self, body: bytes) -> TableMap:
        try:
            found = table_map(body, is_mariadb=self._is_mariadb)
            for column in found.columns:
                form_of(column)
        except ValueError as error:
            return TableMap(*table_name(body), columns=(), problem=said_by(error))
        return found

    def _table(self, described: TableMap) -> _Table | None:
        key = self._wanted(described)
        is_missing = (described.schema, described.name) in self._missing
        if key is None or described.problem or is_missing:
            return None
        return _Table(Rows(described), split_of(described.columns, key))

    def _close(self, body: bytes) -> None:
        table = self._tables.get(body)
        if table is not None and table.rows.ops:
            self._closed.append(table.rows)
            table.rows = Rows(table.rows.table)

    def _table_of(self, event: bytes) -> _Table | None:
        number = event[19:25]
        if number == _DUMMY:
            return None
        if number not in self._numbers:
            _refuse(event, Sentence("a row without its table"))
        if not self._is_within:
            _refuse(event, Sentence("a row without its transaction"))
        _, body = self._numbers[number]
        return self._tables[body] if body else None

    def _refused(self, table: _Table, reason: str) -> tuple[What, ...]:
        described = table.rows.table
        return self._missed(((described.schema, described.name),), reason)

    def _rows(self, kind: int, op: int, event: bytes) -> tuple[What, ...]:
        table = self._table_of(event)
        if table is None:
            return ()
        at = 27
        if kind in _SECOND_VERSION:
            at += _SAID.unpack_from(event, at)[0]
        width = len(table.rows.table.columns)
        # a count that takes more bytes than one, too
        _, end = packed_int(event, at)
        end += (width + 7) // 8 * (2 if op == UPDATE else 1)
        head = event[at:end]
        if head not in table.heads:
            if not _is_whole(head, width):
                return self._refused(
                    table, "rows without all columns (binlog_row_image is not FULL)"
                )
            table.heads.add(head)
        if kind in _COMPRESSED:
            event, end = inflated(event[end:]), 0
        rows = table.rows
        if id(rows) not in self._touched:
            self._touched[id(rows)] = rows, len(rows.ops)
        size = len(event)
        if op == UPDATE:
            ended = table.split.updates(event, end, size, rows.ops, rows.values)
        else:
            ended = table.split.rows(event, end, size, rows.values.append)
            rows.ops.extend([op] * (len(rows.values) - len(rows.ops)))
        if ended != size:
            raise ValueError(f"a row that ends at {ended} of {size}")
        self.size += size
        return ()


def _is_whole(head: bytes, width: int) -> bool:
    """Whether bits of all so many columns are set, once or twice."""
    count, at = packed_int(head, 0)
    every, size = (1 << width) - 1, (width + 7) // 8
    parts = [head[n : n + size] for n in range(at, len(head), size)]
    return count == width and all(
        int.from_bytes(part, "little") & every == every for part in parts
    )


def _when(event: bytes) -> int:
    when: int = HEAD.unpack_from(event)[0]
    return when * 1_000_000


def _sum_of(event: bytes) -> bytes:
    return _CHECKSUM.pack(zlib.crc32(memoryview(event)[:-4]))


def _incident(event: bytes) -> NoReturn:
    raise TerminalError(
        Sentence(
            "the source says that changes are missing from its log (an incident)."
            " Nothing behind that place was read"
        ),
        code="log_incident",
        hint=Sentence(
            "look into the source's error log, then resync the tables of this source"
        ),
    )


def _refuse(event: bytes, why: str) -> NoReturn:
    kind = event[4] if len(event) > 4 else "none"
    raise TerminalError(
        "the source's log sent what cannot be read: %(why)s (event of kind"
        " %(kind)s, %(size)s bytes). Nothing of its transaction was written",
        why=why,
        kind=kind,
        size=len(event),
        code="log_unreadable",
        hint=Sentence(
            "reading begins again behind the last segment; when it comes again, report"
            " the server's version"
        ),
    )
