"""Partitions of a followed table, whose rows may come or go with them as a whole. The
log has rows under their table, and of what happens to a partition itself nothing. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from core.sentences import Sentence
from ingest.sources.postgresql.log.pgoutput import Met

# A look finds the newest one that truncated the table; the log may be some ahead.
_EMPTIED = 8

Came = Literal["empty", "unknown", "filled", "unlogged"]
# A partition as `Parts.rewritten` has it: its key, and the transaction.
Rewritten = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Part:
    """A partition.

    file   that it is in, which is another one once it was truncated or all of its rows
           were written anew. 0 = it is divided itself
    since  the transaction that gave it that one, where nothing of it was altered behind
    came   what it had as it became one: unknown = the transaction that made it may have
           filled it before, unlogged = its rows are in no log, or at another server
    """

    file: int
    since: int
    came: Came = "empty"


@dataclass(frozen=True, slots=True)
class Doubt:
    """Whether a partition still has what a transaction wrote to it.

    xids     of its rows, of which one shows it: emptied, it was described anew before
             the next row
    is_sure  it was described anew before another row, so that no row shows it
    """

    number: int
    xids: tuple[int, int]
    is_sure: bool


@dataclass(frozen=True, slots=True)
class Parts:
    """all: by what each is known by; one that left its table and came back is another.
    emptied: the newest transactions that truncated the table, as its log has them.
    used: those that were there, for the log has rows of them."""

    all: Mapping[str, Part] = field(default_factory=dict)
    emptied: tuple[int, ...] = ()
    used: tuple[Met, ...] = ()

    def noted(self, met: Iterable[Met]) -> Parts:
        """With what the log has of it, which may be read again."""
        emptied = dict.fromkeys(self.emptied)
        used = {one[:2]: one for one in self.used}
        for one in met:
            number, xid, times = one
            if number and times >= used.get((number, xid), one)[2]:
                used[number, xid] = one
            elif not number:
                emptied[xid] = None
                used = {key: one for key, one in used.items() if key[1] != xid}
        newest = tuple(emptied)[-_EMPTIED:]
        return Parts(self.all, newest, tuple(sorted(used.values())))

    def joined(self, later: Parts) -> Parts:
        emptied = [(0, xid, 0) for xid in later.emptied]
        there = [(_number(key), 0, 0) for key in later.all]
        return self.noted((*emptied, *later.used, *there))

    def problem_of(self, now: Mapping[str, Part]) -> str:
        """What happened to some as a whole; "" = nothing."""
        numbers = {_number(key) for key in now}
        if self.all.keys() - now.keys() or {one[0] for one in self.used} - numbers:
            return Sentence("a partition was dropped or detached")
        if any(part.came != "empty" for _, part in self._new(now)):
            return Sentence("a table was attached as a partition")
        return ""

    def unknown(self, now: Mapping[str, Part]) -> list[int]:
        """Of which it has to be found out what they had."""
        new = self._new(now)
        return [_number(key) for key, part in new if part.came == "unknown"]

    def rewritten(self, now: Mapping[str, Part]) -> frozenset[Rewritten]:
        """That are in other files than they were, or were made in, for no reason that
        the log has by now."""
        before = {key: part.file for key, part in self.all.items()}
        return frozenset(
            (key, part.since)
            for key, part in now.items()
            if part.file
            and part.file != before.get(key, _number(key))
            and part.since not in self.emptied
        )

    def doubtful(self, now: Mapping[str, Part]) -> list[Doubt]:
        """Those that a transaction made, or emptied with their table, before it wrote
        to them: it may have emptied them once more, in the file that it had made, of
        which nothing but the rows tells."""
        found = []
        for key, part in now.items():
            number, made = _number(key), int(key.partition("/")[2])
            for _, xid, times in (one for one in self.used if one[0] == number):
                # a savepoint's number is above that of its transaction
                is_new = part.file == number and is_since(made, xid)
                if xid and (is_new or (part.since == xid and xid in self.emptied)):
                    found.append(Doubt(number, (xid, made), is_sure=times > 1))
        return found

    def renewed(self, now: Mapping[str, Part]) -> Parts:
        """Those that were rewritten stay as they were until the reason is known."""
        kept = {}
        for key, _ in self.rewritten(now):
            kept[key] = self.all.get(key) or replace(now[key], file=_number(key))
        return Parts({**now, **kept}, self.emptied)

    def _new(self, now: Mapping[str, Part]) -> Iterable[tuple[str, Part]]:
        return ((key, part) for key, part in now.items() if key not in self.all)


def found_empty(now: Mapping[str, Part], numbers: Collection[int]) -> dict[str, Part]:
    """With what was found out of these."""
    return {
        key: replace(part, came="empty")
        if part.came == "unknown" and _number(key) in numbers
        else part
        for key, part in now.items()
    }


def is_since(xid: int, other: int) -> bool:
    """Whether a transaction's number is not below another one."""
    return (xid - other) % 2**32 < 2**31


def _number(key: str) -> int:
    return int(key.partition("/")[0])
