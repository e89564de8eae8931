"""How far a source was read, as values that compare and encode themselves.

A position is stored as text in seals, commits and rows. Timestamp cursors are stored
as before, as their ISO text; every other kind begins with its name. Comparing is not
comparing texts: `9/0` is before `10/0`, and of two GTID sets often neither is before
the other. That is an error, never "no". Pure.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Literal, Self

from core.errors import InvalidRequest, TerminalError
from ingest.contract.positions import from_text

Order = Literal["before", "equal", "after", "unordered"]

_LSN = re.compile(r"[0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8}")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class SourcePosition(ABC):
    """A place in what a source tells. Positions of different kinds, or of sources that
    share no order, are unordered."""

    kind: ClassVar[str]

    @abstractmethod
    def body(self) -> str:
        """The text behind the kind: equal for equal positions."""

    @abstractmethod
    def order(self, other: Self) -> Order:
        """Where this one is, seen from the other."""

    @classmethod
    @abstractmethod
    def read(cls, body: str) -> Self:
        """ValueError when it is not the body of one."""

    def encode(self) -> str:
        return f"{self.kind}:{self.body()}"


@dataclass(frozen=True, slots=True)
class CursorPosition(SourcePosition):
    """Rows whose cursor is not above this moment; "" = nothing yet. The text is kept,
    for a cursor with a zone ends in Z and one without does not."""

    text: str
    kind: ClassVar[str] = "cursor"

    def body(self) -> str:
        return self.text

    def encode(self) -> str:
        return self.text

    @classmethod
    def read(cls, body: str) -> Self:
        if body:
            from_text(body)
        return cls(body)

    def order(self, other: Self) -> Order:
        if not self.text or not other.text:
            return _order(bool(self.text), bool(other.text))
        if self.text.endswith("Z") != other.text.endswith("Z"):
            return "unordered"  # local time and UTC
        return _order(self._moment, other._moment)

    @property
    def _moment(self) -> datetime:
        return from_text(self.text)


@dataclass(frozen=True, slots=True)
class LogSequence(SourcePosition):
    """PostgreSQL's commit LSN, on one timeline of one server."""

    lsn: int
    kind: ClassVar[str] = "lsn"

    def body(self) -> str:
        return f"{self.lsn >> 32:X}/{self.lsn & 0xFFFFFFFF:X}"

    @classmethod
    def read(cls, body: str) -> Self:
        if not _LSN.fullmatch(body):
            raise ValueError("it is not X/Y in hexadecimal")
        high, _, low = body.partition("/")
        return cls(int(high, 16) << 32 | int(low, 16))

    def order(self, other: Self) -> Order:
        return _order(self.lsn, other.lsn)


@dataclass(frozen=True, slots=True)
class BinlogFile(SourcePosition):
    """file:position of one incarnation of a MySQL or MariaDB server: RESET MASTER and a
    fail-over begin anew."""

    incarnation: str
    file: str
    offset: int
    kind: ClassVar[str] = "binlog"

    def body(self) -> str:
        return f"{self.incarnation}:{self.file}:{self.offset}"

    @classmethod
    def read(cls, body: str) -> Self:
        incarnation, file, offset = body.split(":")
        return cls(incarnation, file, _natural(offset))

    def order(self, other: Self) -> Order:
        if self.incarnation != other.incarnation:
            return "unordered"
        # bin.1000000 comes after bin.999999
        mine, theirs = (len(self.file), self.file), (len(other.file), other.file)
        return _order((*mine, self.offset), (*theirs, other.offset))


@dataclass(frozen=True, slots=True)
class MariaDbGtid(SourcePosition):
    """The last transaction of each domain: domain → (server, sequence). Within one, by
    sequence whatever the server is, for that changes with a fail-over."""

    domains: tuple[tuple[int, int, int], ...]
    kind: ClassVar[str] = "mariadb"

    def body(self) -> str:
        return ",".join("-".join(map(str, one)) for one in self.domains)

    @classmethod
    def read(cls, body: str) -> Self:
        found: dict[int, tuple[int, int, int]] = {}
        for text in filter(None, body.split(",")):
            domain, server, sequence = (_natural(part) for part in text.split("-"))
            if domain in found:
                raise ValueError(f"domain {domain} is there twice")
            found[domain] = (domain, server, sequence)
        return cls(tuple(found[domain] for domain in sorted(found)))

    def order(self, other: Self) -> Order:
        mine = {domain: sequence for domain, _, sequence in self.domains}
        theirs = {domain: sequence for domain, _, sequence in other.domains}
        found = _each(mine, theirs)
        # one sequence of two servers is two transactions
        return "unordered" if found == "equal" and self != other else found


@dataclass(frozen=True, slots=True)
class GtidSet(SourcePosition):
    """MySQL's set of executed transactions: server → intervals, both ends included.
    One is before the other when it is a part of it."""

    servers: tuple[tuple[str, tuple[tuple[int, int], ...]], ...]
    kind: ClassVar[str] = "gtid"

    def body(self) -> str:
        return ",".join(
            ":".join([server, *(f"{a}-{b}" if a != b else f"{a}" for a, b in parts)])
            for server, parts in self.servers
        )

    @classmethod
    def read(cls, body: str) -> Self:
        found: dict[str, list[tuple[int, int]]] = {}
        for text in filter(None, re.split(r"[,\s]+", body)):
            server, *parts = text.lower().split(":")
            if not _UUID.fullmatch(server) or not parts:
                raise ValueError(f"{text} is not uuid:interval")
            for part in parts:
                first, _, last = part.partition("-")
                pair = _natural(first), _natural(last or first)
                if not 0 < pair[0] <= pair[1]:
                    raise ValueError(f"{part} is not an interval")
                found.setdefault(server, []).append(pair)
        return cls(tuple((s, _merged(found[s])) for s in sorted(found)))

    def order(self, other: Self) -> Order:
        return _by_parts(_is_within(self, other), _is_within(other, self))


@dataclass(frozen=True, slots=True)
class KafkaOffsets(SourcePosition):
    """The next offset of each partition of each topic."""

    offsets: tuple[tuple[str, int, int], ...]
    kind: ClassVar[str] = "kafka"

    def body(self) -> str:
        topics: dict[str, dict[str, int]] = {}
        for topic, partition, offset in self.offsets:
            topics.setdefault(topic, {})[str(partition)] = offset
        return json.dumps(topics, separators=(",", ":"))

    @classmethod
    def read(cls, body: str) -> Self:
        return cls(
            tuple(
                sorted(
                    (str(topic), _natural(partition), _natural(str(offset)))
                    for topic, parts in dict(json.loads(body)).items()
                    for partition, offset in parts.items()
                )
            )
        )

    def order(self, other: Self) -> Order:
        mine = {(t, p): offset for t, p, offset in self.offsets}
        theirs = {(t, p): offset for t, p, offset in other.offsets}
        return _each(mine, theirs)


@dataclass(frozen=True, slots=True)
class ResumeToken(SourcePosition):
    """What a change stream gives out to go on from. Only its server knows its order."""

    token: str
    kind: ClassVar[str] = "token"

    def body(self) -> str:
        return self.token

    @classmethod
    def read(cls, body: str) -> Self:
        if not body:
            raise ValueError("it is empty")
        return cls(body)

    def order(self, other: Self) -> Order:
        return "equal" if self == other else "unordered"


_KINDS: Mapping[str, type[SourcePosition]] = {
    kind.kind: kind
    for kind in (
        LogSequence,
        BinlogFile,
        MariaDbGtid,
        GtidSet,
        KafkaOffsets,
        ResumeToken,
    )
}


def decode(text: str) -> SourcePosition:
    """The position of that text. InvalidRequest `bad_position` when it is none."""
    name, _, body = text.partition(":")
    kind = _KINDS.get(name)
    try:
        return CursorPosition.read(text) if kind is None else kind.read(body)
    except (ValueError, TypeError, AttributeError, InvalidRequest) as error:
        raise InvalidRequest(
            f"'{text}' is not a position of a source: {error}", code="bad_position"
        ) from error


def compare(one: SourcePosition, other: SourcePosition) -> Order:
    """Where the one is, seen from the other: before, equal or after. TerminalError
    `positions_unordered` when they have no order."""
    found: Order = "unordered"
    if type(one) is type(other):
        found = one.order(other)
    if found == "unordered":
        raise TerminalError(
            f"of the positions {one.encode() or 'none'} and {other.encode() or 'none'}"
            " neither is known to be before the other. Nothing was changed",
            code="positions_unordered",
            hint="they are of different servers, logs or kinds of capture: resync",
        )
    return found


def later(one: str, other: str) -> str:
    """The later of two encoded positions. TerminalError when they have no order."""
    if one == other or not one or not other:
        return one or other
    return other if compare(decode(one), decode(other)) == "before" else one


def is_cursor(text: str) -> bool:
    return text.partition(":")[0] not in _KINDS


def _order(mine: Any, theirs: Any) -> Order:
    if mine == theirs:
        return "equal"
    return "before" if mine < theirs else "after"


def _by_parts(is_within: bool, has_it_within: bool, /) -> Order:  # noqa: FBT001
    if is_within and has_it_within:
        return "equal"
    if is_within:
        return "before"
    return "after" if has_it_within else "unordered"


def _each(mine: Mapping[Any, int], theirs: Mapping[Any, int]) -> Order:
    """Of parts that are read side by side; one that is not there has not begun."""
    parts = mine.keys() | theirs.keys()
    pairs = [(mine.get(part, -1), theirs.get(part, -1)) for part in parts]
    return _by_parts(all(a <= b for a, b in pairs), all(a >= b for a, b in pairs))


def _is_within(one: GtidSet, other: GtidSet) -> bool:
    theirs = dict(other.servers)
    return all(
        any(first <= a and b <= last for first, last in theirs.get(server, ()))
        for server, parts in one.servers
        for a, b in parts
    )


def _merged(parts: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """In order; neighbours and overlaps are one interval."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(parts):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return tuple(found)


def _natural(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"'{text}' is not a number")
    return int(text)
