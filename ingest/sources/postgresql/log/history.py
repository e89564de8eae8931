"""Whether the log up to a position is the one that was read.

A server whose disk was put back has an older state of our slot, too, and writes others
under the places of the transactions that were read. So where the slot stands before a
position, which a crash may do to it as well, what is between is read again: the last
transaction with changes that came has to be there, and none behind it. Pure.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Self

from ingest.sources.postgresql.log.pgoutput import Begin, Commit, Decoder


@dataclass(frozen=True, slots=True)
class Last:
    """The last transaction with changes before a position.

    commit, committed, xid  as `Begin` has them; xid 0 = there was none since the stream
                            began, which was at `commit`
    by  by which publications it came: by others it may have had no changes
    """

    commit: int
    committed: int
    xid: int
    by: int

    @classmethod
    def of(cls, begin: Begin, by: Iterable[str]) -> Self:
        return cls(begin.commit, begin.committed, begin.xid, _number_of(tuple(by)))

    @classmethod
    def decode(cls, text: str) -> Self | None:
        return cls(*(int(part, 16) for part in text.split("-"))) if text else None

    def encode(self) -> str:
        return f"{self.commit:X}-{self.committed:X}-{self.xid:X}-{self.by:X}"

    def is_by(self, publications: Iterable[str]) -> bool:
        return self.by == _number_of(tuple(publications))


@lru_cache
def _number_of(publications: tuple[str, ...]) -> int:
    return zlib.crc32("\n".join(sorted(publications)).encode())


def last_text(begin: Begin | None, by: Iterable[str]) -> str:
    """`last` of a position behind that transaction; "" = it is not known."""
    return Last.of(begin, by).encode() if begin else ""


@dataclass(slots=True)
class Reread:
    """A slot's messages from there on where a transaction begins that is behind what
    the server was told is durable, or is `last`.

    end       up to there the log was read
    is_over   no more of them are needed to know
    """

    end: int
    last: Last
    by: Sequence[str]
    confirmed: int
    is_over: bool = False
    _met: list[Last] = field(default_factory=list)
    _decoder: Decoder = field(
        default_factory=lambda: Decoder(lambda _: None, lambda _: False)
    )

    @property
    def start(self) -> int:
        return max(self.last.commit, self.confirmed)

    @property
    def is_same(self) -> bool:
        """Once it is over."""
        return self._met == self._expected

    def take(self, message: bytes) -> None:
        before = self._decoder.last
        what = self._decoder.decode(message)
        if isinstance(what, Begin):
            self.is_over |= what.commit >= self.end
        elif isinstance(what, Commit) and not self.is_over:
            now = self._decoder.last
            if now is not None and now is not before:
                self._met.append(Last.of(now, self.by))
                self.is_over = self._met != self._expected

    @property
    def _expected(self) -> list[Last]:
        is_sent = self.last.xid and self.confirmed <= self.last.commit
        return [self.last] if is_sent else []
