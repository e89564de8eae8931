"""How far a source's log was read, as values that compare and encode themselves.

Comparing is not comparing texts: `9/0` is before `10/0`, and of positions of two
servers neither is before the other. Cursors are `ingest.contract.positions`. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, Self

from core.errors import InvalidRequest

Order = Literal["before", "equal", "after", "unordered"]

_LSN = re.compile(r"[0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8}")
_POSITION = re.compile(
    r"lsn:(\d{1,20}):(\d{1,10}):([^:]+)(?::((?:[\dA-F]{1,16}-){3}[\dA-F]{1,8}))?",
    re.ASCII,
)
_BINLOG = re.compile(
    r"binlog:(\d{1,10}):([^:]*):([^:/]+\.)(\d{6,10}):(\d{1,10}):(\d{1,20}):([-,\d]*)",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class PostgresLog:
    """A place in PostgreSQL's log: up to the end of a commit record.

    server    the system identifier, which a restored copy keeps
    timeline  changes when a standby is promoted or a backup is restored up to some
              moment: an LSN of another timeline may be of another history
    last      by what its reader knows the last transaction with changes before it
              again: a history may differ where both of these are the same; "" = by
              nothing

    Whether one goes on from another of these is decided by who knows what happened to
    the server, never by an order of numbers.
    """

    server: str
    timeline: int
    lsn: int
    last: str = ""

    @property
    def identity(self) -> str:
        """Which server it is of, as a segment names it."""
        return f"{self.server}:{self.timeline}"

    def encode(self) -> str:
        last = f":{self.last}" if self.last else ""
        return f"lsn:{self.identity}:{lsn_text(self.lsn)}{last}"

    @classmethod
    def decode(cls, text: str) -> Self:
        """InvalidRequest `bad_position` when it is the text of none."""
        found = _POSITION.fullmatch(text)
        if found is None:
            raise _no_position(text)
        return cls(found[1], int(found[2]), lsn_of(found[3]), found[4] or "")

    def order(self, other: Self) -> Order:
        """Where this one is, seen from the other. "unordered" is an error of whoever
        asked, never "no"."""
        if self.identity != other.identity:
            return "unordered"
        if self.lsn == other.lsn:
            return "equal"
        return "before" if self.lsn < other.lsn else "after"


@dataclass(frozen=True, slots=True)
class MariaDbLog:
    """A place in MariaDB's binary log: behind a transaction, or a statement that stands
    alone.

    server  its server_id; another one is another server, whatever it has
    uid     its server_uid, made of its machine and port; "" = it has none
    base    of the files' names, with the dot: `log_bin` renames it
    number  of the file
    made    when that file was made, seconds since 1970, by which it is known again:
            numbers begin anew when a log was reset or a backup restored; 0 = not known
    offset  in the file, of 64 bits
    gtids   the last transaction of each server in each domain, the newest of a domain
            behind its others, as `@@gtid_binlog_state` has them; "" = not known

    Whether a file of some name is the one that was read is found out by who opens it.
    """

    server: int
    uid: str
    base: str
    number: int
    made: int
    offset: int
    gtids: str = ""

    @property
    def identity(self) -> str:
        return f"{self.server}:{self.uid}"

    @property
    def file(self) -> str:
        return f"{self.base}{self.number:06}"

    @property
    def in_words(self) -> str:
        """As administrators name it."""
        return f"{self.file}:{self.offset}"

    @property
    def newest_gtids(self) -> str:
        """The last transaction of each domain, by which a replica connects."""
        found = {gtid.split("-")[0]: gtid for gtid in self.gtids.split(",")}
        return ",".join(found.values())

    @property
    def is_beyond_dumps(self) -> bool:
        """A dump that begins at an offset has 32 bits for it."""
        return self.offset >= 1 << 32

    def encode(self) -> str:
        place = f"{self.file}:{self.made}:{self.offset}"
        return f"binlog:{self.identity}:{place}:{self.gtids}"

    @classmethod
    def decode(cls, text: str) -> Self:
        """InvalidRequest `bad_position` when it is the text of none."""
        found = _BINLOG.fullmatch(text)
        if found is None:
            raise _no_position(text, "MariaDB")
        server, uid, base, number, made, offset, gtids = found.groups()
        return cls(int(server), uid, base, int(number), int(made), int(offset), gtids)

    def order(self, other: Self) -> Order:
        """As `PostgresLog.order`. GTIDs decide nothing: of two servers that went apart
        both have the same numbers."""
        if self.identity != other.identity:
            return "unordered"
        mine, its = (self.number, self.offset), (other.number, other.offset)
        if mine == its:
            return "equal"
        return "before" if mine < its else "after"


def order_of(position: str, other: str) -> Order:
    """Where an encoded position is, seen from another; of two kinds they are
    "unordered". InvalidRequest `bad_position`."""
    if position.startswith("binlog:") and other.startswith("binlog:"):
        return MariaDbLog.decode(position).order(MariaDbLog.decode(other))
    if position.startswith("binlog:") or other.startswith("binlog:"):
        return "unordered"
    return PostgresLog.decode(position).order(PostgresLog.decode(other))


def is_of_log(position: str) -> bool:
    """Else it is that of a cursor."""
    return position.startswith(("lsn:", "binlog:"))


def place_of(position: str) -> str:
    """Without what a reader of PostgreSQL's log knows it by, as people read it."""
    is_lsn = position.startswith("lsn:")
    return ":".join(position.split(":")[:4]) if is_lsn else position


def lsn_of(text: str) -> int:
    """`16/B374D848` as a number. InvalidRequest `bad_position` when it is none."""
    if not _LSN.fullmatch(text):
        raise _no_position(text)
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)


def lsn_text(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def _no_position(text: str, server: str = "PostgreSQL") -> InvalidRequest:
    return InvalidRequest(
        "'%(text)s' is not a position in the log of %(server)s",
        text=text,
        server=server,
        code="bad_position",
    )
