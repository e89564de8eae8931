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
_POSITION = re.compile(r"lsn:(\d{1,20}):(\d{1,10}):([^:]+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class PostgresLog:
    """A place in PostgreSQL's log: up to the end of a commit record.

    server    the system identifier, which a restored copy keeps
    timeline  changes when a standby is promoted or a backup is restored up to some
              moment: an LSN of another timeline may be of another history

    Whether one goes on from another of these is decided by who knows what happened to
    the server, never by an order of numbers.
    """

    server: str
    timeline: int
    lsn: int

    @property
    def identity(self) -> str:
        """Which server it is of, as a segment names it."""
        return f"{self.server}:{self.timeline}"

    def encode(self) -> str:
        return f"lsn:{self.identity}:{lsn_text(self.lsn)}"

    @classmethod
    def decode(cls, text: str) -> Self:
        """InvalidRequest `bad_position` when it is the text of none."""
        found = _POSITION.fullmatch(text)
        if found is None:
            raise _no_position(text)
        return cls(found[1], int(found[2]), lsn_of(found[3]))

    def order(self, other: Self) -> Order:
        """Where this one is, seen from the other. "unordered" is an error of whoever
        asked, never "no"."""
        if self.identity != other.identity:
            return "unordered"
        if self.lsn == other.lsn:
            return "equal"
        return "before" if self.lsn < other.lsn else "after"


def lsn_of(text: str) -> int:
    """`16/B374D848` as a number. InvalidRequest `bad_position` when it is none."""
    if not _LSN.fullmatch(text):
        raise _no_position(text)
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)


def lsn_text(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def _no_position(text: str) -> InvalidRequest:
    return InvalidRequest(
        f"'{text}' is not a position in PostgreSQL's log", code="bad_position"
    )
