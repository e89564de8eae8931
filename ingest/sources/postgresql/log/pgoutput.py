"""Messages of PostgreSQL's output plugin `pgoutput`, protocol version 1, texts only.

Bytes in, values out: rows are gathered per table and taken in parts, so a transaction
of any size needs little memory; its commit says that it is whole. Pure.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NoReturn

from core.errors import TerminalError
from core.sentences import Sentence

# What `OPS` of `ingest.contract.segments` names, by its place.
INSERT, UPDATE, DELETE, MOVED, TRUNCATE = range(5)
_OTHER_COLUMNS = Sentence("a row with another number of columns than its table")
# Microseconds from 1970 to 2000, where PostgreSQL's time begins.
_EPOCH = 946_684_800_000_000
_BEGIN = struct.Struct(">xQqI")
_COMMIT = struct.Struct(">xBQQq")
_RELATION = struct.Struct(">xI")
_COLUMN = struct.Struct(">Ii")
_TRUNCATED = struct.Struct(">xIB")
_COUNT = struct.Struct(">H")
_LENGTH = struct.Struct(">I")

# A partition was described before a row of it: its number, the transaction, and how
# often by now in that one. Number 0: the transaction truncated the table.
Met = tuple[int, int, int]
# A value as the server prints it; None = NULL, or not sent.
Value = bytes | None
Row = tuple[Value, ...]
# (row, where it ends, bits of the values that were not sent)
Split = Callable[[bytes, int], tuple[Row, int, int]]


@dataclass(frozen=True, slots=True)
class RelationColumn:
    """modifier: of the type, as in pg_attribute. is_key: in the replica identity."""

    name: str
    type: int
    modifier: int
    is_key: bool


@dataclass(frozen=True, slots=True)
class Named:
    """A table as the log names it."""

    oid: int
    schema: str
    name: str


@dataclass(frozen=True, slots=True)
class Relation(Named):
    """A table as the log describes it before its rows, and again when it changed.

    identity  what old rows say: d = the primary key, i = an index, f = all columns,
              n = nothing
    """

    identity: str
    columns: tuple[RelationColumn, ...]

    def positions(self, names: tuple[str, ...]) -> tuple[int, ...]:
        """Of these columns. KeyError when one is not there."""
        places = {column.name: n for n, column in enumerate(self.columns)}
        return tuple(places[name] for name in names)


@dataclass(frozen=True, slots=True)
class Begin:
    """A transaction: its commit's place in the log, its time (microseconds since 1970)
    and its number, of which the lower 32 bits."""

    commit: int
    committed: int
    xid: int


@dataclass(frozen=True, slots=True)
class Commit:
    """The transaction is whole. end: behind its commit; from there reading goes on."""

    commit: int
    end: int
    committed: int


@dataclass(slots=True)
class Rows:
    """Rows of one table in the order of the log, side by side: what happened, in which
    transaction, the values, and bits of those that were not sent (by the row's place).

    lacks_old  a former row has less than the table's identity says: the row's partition
               has another one
    parts      see `Met`
    """

    relation: Relation
    ops: list[int] = field(default_factory=list)
    xids: list[int] = field(default_factory=list)
    values: list[Row] = field(default_factory=list)
    unchanged: dict[int, int] = field(default_factory=dict)
    lacks_old: bool = False
    parts: list[Met] = field(default_factory=list)


@dataclass(slots=True)
class _Table:
    rows: Rows
    split: Split
    count: bytes
    key: tuple[int, ...]
    is_full: bool


# The places, among a table's columns, of those that say which row of the lake it is;
# None = its rows are not wanted.
Wanted = Callable[[Relation], tuple[int, ...] | None]
# Whether `Wanted` is asked of a table at all.
IsWanted = Callable[[Named], bool]
# Told of a wanted table whose rows come under the name of that which it is a part of.
Renamed = Callable[[Named], None]


class Decoder:
    """One connection's messages, in their order. TerminalError `log_unreadable` for
    what is no such message; the decoder is of no use then.

    Tables that are not wanted are kept as the bytes that describe them, which are not
    sent again if they are wanted later: a publication may have any number of them.

    size  bytes of the messages whose rows wait
    last  the last transaction with changes of any table, that is over
    """

    def __init__(
        self,
        wanted: Wanted,
        is_wanted: IsWanted = lambda _: True,
        renamed: Renamed = lambda _: None,
    ) -> None:
        self._wanted = wanted
        self._is_wanted = is_wanted
        self._renamed = renamed
        self._tables: dict[bytes, _Table] = {}
        # the message that describes each table, wanted or not
        self._descriptions: dict[bytes, bytes] = {}
        self._closed: list[Rows] = []
        # since the last row: its table, and then the partition that it is in
        self._described: list[bytes] = []
        # how often, of which table and partition, since that was truncated
        self._met: dict[tuple[bytes, bytes], int] = {}
        self._xid = -1
        self._begun: Begin | None = None
        self._has_changes = False
        self.last: Begin | None = None
        self.size = 0

    @property
    def xid(self) -> int:
        """Of the transaction that it is in; -1 = none."""
        return self._xid

    @property
    def is_within(self) -> bool:
        """Whether a transaction has begun whose commit has not come."""
        return self._xid >= 0

    def decode(self, message: bytes) -> Begin | Commit | Relation | None:
        """Rows are kept for `take`; what else happened is returned."""
        try:
            kind = message[0]
            if kind == 73 or kind == 85 or kind == 68:
                self._has_changes = True
                self._row(kind, message)
                if self._described:
                    self._note_part(message[1:5])
                return None
            if kind == 66:
                return self._begin(message)
            if kind == 67:
                return self._commit(message)
            return self._other(kind, message)
        except (IndexError, ValueError, struct.error) as error:
            _refuse(message, str(error))

    def take(self) -> list[Rows]:
        """What was gathered: of a table several when it was altered in between."""
        found, self._closed, self.size = self._closed, [], 0
        for table in self._tables.values():
            if table.rows.ops:
                found.append(table.rows)
                table.rows = Rows(table.rows.relation)
        return found

    def waiting(self) -> list[Rows]:
        """What the next `take` has, or the beginning of that."""
        rows = [table.rows for table in self._tables.values()]
        return self._closed + [each for each in rows if each.ops]

    def look_again(self) -> None:
        """Other tables are wanted from here on; nothing waits for `take`."""
        self._tables.clear()
        for key, message in self._descriptions.items():
            self._open(key, message)

    def _row(self, kind: int, message: bytes) -> None:
        key = message[1:5]
        table = self._tables.get(key)
        if table is None:
            if key not in self._descriptions:
                _refuse(message, Sentence("a row without its table"))
            return
        if self._xid < 0:
            _refuse(message, Sentence("a row without its transaction"))
        self.size += len(message)
        mark = message[5]
        if message[6:8] != table.count:
            _refuse(message, _OTHER_COLUMNS)
        row, end, unsent = table.split(message, 8)
        rows = table.rows
        if kind == 85 and mark != 78:
            if (mark != 75 and mark != 79) or message[end] != 78:
                _refuse(message, Sentence("an update without a row"))
            if message[end + 1 : end + 3] != table.count:
                _refuse(message, _OTHER_COLUMNS)
            old, is_whole = row, mark == 79
            row, end, unsent = table.split(message, end + 3)
            if unsent and table.is_full and _has_null(old, unsent):
                rows.lacks_old = True
            if known := unsent if is_whole else unsent & _bits(table.key):
                row, unsent = _filled(row, old, known), unsent & ~known
            if _is_moved(old, row, table.key, unsent):
                rows.ops.append(DELETE)
                rows.xids.append(self._xid)
                rows.values.append(old)
                op = MOVED
            else:
                op = UPDATE
        elif kind == 68:
            if mark != 75 and mark != 79:
                _refuse(message, Sentence("a delete without its old row"))
            op = DELETE
        elif mark != 78:
            _refuse(message, Sentence("an insert without a row"))
        else:
            op = INSERT if kind == 73 else UPDATE
            if kind == 85 and table.is_full:
                rows.lacks_old = True
        if end != len(message):
            _refuse(message, Sentence("a row that ends at %(end)s", end=end))
        if unsent:
            rows.unchanged[len(rows.ops)] = unsent
        rows.ops.append(op)
        rows.xids.append(self._xid)
        rows.values.append(row)

    def _note_part(self, key: bytes) -> None:
        if key in self._described[-2:-1]:
            part = key, self._described[-1]
            if table := self._tables.get(key):
                times = self._met[part] = self._met.get(part, 0) + 1
                table.rows.parts.append((int.from_bytes(part[1]), self._xid, times))
            if part[1] in self._tables:
                under, _ = _named(self._descriptions[key])
                oid = self._tables[part[1]].rows.relation.oid
                self._renamed(Named(oid, under.schema, under.name))
        self._described.clear()

    def _begin(self, message: bytes) -> Begin:
        commit, committed, xid = _whole(_BEGIN, message)
        if self._xid >= 0:
            _refuse(message, Sentence("a transaction within another one"))
        self._xid = xid
        self._described.clear()
        self._met.clear()
        self._has_changes = False
        self._begun = Begin(commit, committed + _EPOCH, xid)
        return self._begun

    def _commit(self, message: bytes) -> Commit:
        _, commit, end, committed = _whole(_COMMIT, message)
        if self._xid < 0:
            _refuse(message, Sentence("a commit of no transaction"))
        self._xid = -1
        if self._has_changes:
            self.last = self._begun
        return Commit(commit, end, committed + _EPOCH)

    def _other(self, kind: int, message: bytes) -> Relation | None:
        if kind == 82:
            return self._relation(message)
        if kind == 84:
            self._truncate(message)
            return None
        if kind not in (77, 79, 89):  # messages of programs, origins, types
            _refuse(message, Sentence("an unknown kind"))
        return None

    def _relation(self, message: bytes) -> Relation | None:
        """None when it is as it was, or is not wanted."""
        key = message[1:5]
        self._described.append(key)
        if self._descriptions.get(key) == message:
            return None
        before = self._tables.pop(key, None)
        if before is not None and before.rows.ops:
            self._closed.append(before.rows)
        self._descriptions[key] = message
        return self._open(key, message)

    def _open(self, key: bytes, message: bytes) -> Relation | None:
        """Take its rows from here on, if they are wanted."""
        named, at = _named(message)
        if not self._is_wanted(named):
            return None
        relation = _relation(message, named, at)
        if (wanted := self._wanted(relation)) is not None:
            count = len(relation.columns)
            self._tables[key] = _Table(
                Rows(relation),
                _splitter(count),
                _COUNT.pack(count),
                wanted,
                relation.identity == "f",
            )
        return relation

    def _truncate(self, message: bytes) -> None:
        count, _ = _TRUNCATED.unpack_from(message)
        oids = message[_TRUNCATED.size :]
        if self._xid < 0 or len(oids) != count * 4:
            _refuse(message, Sentence("tables that were emptied"))
        self._has_changes = True
        self.size += len(message)
        self._described.clear()
        for at in range(0, len(oids), 4):
            key = oids[at : at + 4]
            if key not in self._descriptions:
                _refuse(
                    message,
                    Sentence("a table that was emptied without its description"),
                )
            table = self._tables.get(key)
            if table is not None:
                table.rows.parts.append((0, self._xid, 0))
                self._met = {k: n for k, n in self._met.items() if k[0] != key}
                table.rows.ops.append(TRUNCATE)
                table.rows.xids.append(self._xid)
                table.rows.values.append((None,) * len(table.rows.relation.columns))


def _whole(form: struct.Struct, message: bytes) -> tuple[Any, ...]:
    if len(message) != form.size:
        _refuse(message, Sentence("%(size)s bytes were expected", size=form.size))
    return form.unpack(message)


def _named(message: bytes) -> tuple[Named, int]:
    (oid,) = _RELATION.unpack_from(message)
    schema, at = _text(message, _RELATION.size)
    name, at = _text(message, at)
    # "" stands for pg_catalog
    return Named(oid, schema or "pg_catalog", name), at


def _relation(message: bytes, named: Named, at: int) -> Relation:
    """at: behind its name."""
    identity = chr(message[at])
    (count,) = _COUNT.unpack_from(message, at + 1)
    at += 3
    columns = []
    for _ in range(count):
        is_key = bool(message[at] & 1)
        column, at = _text(message, at + 1)
        type, modifier = _COLUMN.unpack_from(message, at)
        at += _COLUMN.size
        columns.append(RelationColumn(column, type, modifier, is_key))
    if at != len(message):
        _refuse(message, Sentence("a table that ends at %(at)s", at=at))
    return Relation(named.oid, named.schema, named.name, identity, tuple(columns))


def _text(message: bytes, at: int) -> tuple[str, int]:
    end = message.index(0, at)
    return message[at:end].decode(), end + 1


def _has_null(row: Row, bits: int) -> bool:
    return any(value is None and bits >> n & 1 for n, value in enumerate(row))


def _bits(places: tuple[int, ...]) -> int:
    return sum(1 << n for n in places)


def _filled(row: Row, old: Row, unsent: int) -> Row:
    """With the values of the old row where none were sent: of a long key, too."""
    return tuple(old[n] if unsent >> n & 1 else value for n, value in enumerate(row))


def _is_moved(old: Row, row: Row, key: tuple[int, ...], unsent: int) -> bool:
    return any(old[n] != row[n] and not unsent >> n & 1 for n in key)


@lru_cache(1_000)
def _splitter(count: int) -> Split:
    """Takes a row of so many columns apart: written out column by column, which takes
    half the time of a loop. Only numbers go into its text."""
    lines = ["def split(b, p):", " u = 0"]
    for n in range(count):
        lines += [
            " k = b[p]",
            " if k == 116:",
            "  e = p + 5 + L(b, p + 1)[0]",
            f"  v{n} = b[p + 5:e]",
            "  p = e",
            " else:",
            f"  v{n} = None",
            "  p += 1",
            f"  if k == 117: u |= {1 << n}",
            "  elif k != 110: raise ValueError(f'a value of kind {k}')",
        ]
    values = "".join(f"v{n}, " for n in range(count))
    lines.append(f" return ({values}), p, u")
    made: dict[str, Any] = {"L": _LENGTH.unpack_from}
    exec("\n".join(lines), made)
    split: Split = made["split"]
    return split


def _refuse(message: bytes, why: str) -> NoReturn:
    raise TerminalError(
        "the source's log sent what cannot be read: %(why)s (message %(kind)s of"
        " %(size)s bytes). Nothing of its transaction was written",
        why=why,
        kind=repr(bytes(message[:1])),
        size=len(message),
        code="log_unreadable",
        hint=Sentence(
            "reading begins again behind the last segment; when it comes again, report"
            " the server's version"
        ),
    )
