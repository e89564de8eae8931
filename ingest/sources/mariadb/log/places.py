"""Where the binary log is: asked of the server, and counted along its events.

A commit is in the log before others see what it wrote. So a load that begins behind a
place of the log waits until a snapshot shows all that is before it.
"""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pymysql

from catalog.sources.mariadb.log import PLACE, SETTINGS
from catalog.sources.mariadb.replicas import PRIVILEGE_MISSING
from core.errors import InvalidRequest, TerminalError
from ingest.contract.source_positions import MariaDbLog

Rows = Callable[[str], list[tuple[Any, ...]]]

# Of an event: when, its kind, whose, its bytes, where it ends (32 bits), flags.
HEAD = struct.Struct("<IBIIIH")
STOP, ROTATE, FORMAT, HEARTBEAT, GTID, GTID_LIST = 3, 4, 15, 27, 162, 163
_ARTIFICIAL = 0x20
_GTID_BODY = struct.Struct("<QI")
_ENTRY = struct.Struct("<IIQ")
_STARTED = struct.Struct("<52xI")
_FILE = re.compile(r"(?P<base>[^:/]*\.)(?P<number>\d{6,10})")
_SHOWN = """
SHOW STATUS
WHERE Variable_name IN ('Binlog_snapshot_file', 'Binlog_snapshot_position')
"""


def read_place(rows: Rows) -> MariaDbLog:
    """Where the log ends now. InvalidRequest `source_log_off`, or
    `source_privilege_missing`."""
    settings = {str(name).lower(): str(value) for name, value in rows(SETTINGS)}
    found = log_place(rows)
    if not found:
        raise InvalidRequest(
            "the source writes no binary log",
            code="source_log_off",
            hint="at the source: log_bin in its configuration, then restart it",
        )
    base, number = parts_of(str(found[0][0]))
    return MariaDbLog(
        int(settings["server_id"]),
        settings.get("server_uid", ""),
        base,
        number,
        0,
        int(found[0][1]),
    )


def log_place(rows: Rows) -> list[tuple[Any, ...]]:
    """Rows of PLACE. InvalidRequest `source_privilege_missing`."""
    try:
        return rows(PLACE)
    except pymysql.MySQLError as error:
        if error.args[:1] != (PRIVILEGE_MISSING,):
            raise
        raise InvalidRequest(
            "the source does not tell the datasource's user where its log is",
            code="source_privilege_missing",
            hint="at the source: GRANT BINLOG MONITOR ON *.* TO the datasource's user",
        ) from error


def is_late_at(when: int, settings: Mapping[str, str]) -> bool:
    """Whether half the time is over for which the server keeps what it wrote then."""
    kept = float(settings.get("binlog_expire_logs_seconds") or 0)
    kept = kept or float(settings.get("expire_logs_days") or 0) * 86_400
    return bool(kept and when and time.time() - when > kept / 2)


def started_at(event: bytes) -> int:
    """When the server started with this FORMAT, seconds since 1970; 0 = it did not."""
    return int(_STARTED.unpack_from(event, HEAD.size)[0])


def parts_of(file: str) -> tuple[str, int]:
    """A file's name → its base with the dot, its number. TerminalError
    `log_unreadable`."""
    found = _FILE.fullmatch(file)
    if found is None:
        raise TerminalError(
            "the source's log has a file of the odd name '%(file)s'. Nothing was read",
            file=file,
            code="log_unreadable",
            hint="choose another log_bin at the source",
        )
    return found["base"], int(found["number"])


def place_number(place: MariaDbLog) -> int:
    """Larger for later places of one server."""
    return place.number << 64 | place.offset


def shown_number(rows: Rows) -> int:
    """The same of all that a snapshot that is taken now shows."""
    rows("START TRANSACTION WITH CONSISTENT SNAPSHOT")
    try:
        found = {str(name).lower(): str(value) for name, value in rows(_SHOWN)}
    finally:
        rows("ROLLBACK")
    _, number = parts_of(found["binlog_snapshot_file"])
    return number << 64 | int(found["binlog_snapshot_position"])


@dataclass(slots=True)
class Gtids:
    """Transactions that a log has. last: of each domain and server the highest number.
    newest: of each domain the last of all, its server and number."""

    last: dict[tuple[int, int], int] = field(default_factory=dict)
    newest: dict[int, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str) -> Gtids:
        """As `MariaDbLog.gtids` has them: the newest of a domain behind its others."""
        found = cls()
        for gtid in filter(None, text.split(",")):
            domain, server, number = map(int, gtid.split("-"))
            found.take(domain, server, number)
        return found

    def take(self, domain: int, server: int, number: int) -> None:
        self.last[domain, server] = number
        self.newest[domain] = server, number

    def take_list(self, event: bytes) -> None:
        """What the log had before a file."""
        (count,) = struct.unpack_from("<I", event, HEAD.size)
        for n in range(count & 0x0FFFFFFF):
            domain, server, number = _ENTRY.unpack_from(
                event, HEAD.size + 4 + n * _ENTRY.size
            )
            self.take(domain, server, number)

    def encode(self) -> str:
        def place(one: tuple[int, int]) -> tuple[int, bool, int]:
            domain, server = one
            return domain, self.newest[domain][0] == server, server

        return ",".join(
            f"{domain}-{server}-{self.last[domain, server]}"
            for domain, server in sorted(self.last, key=place)
        )


def gtid_of(event: bytes) -> tuple[int, int, int]:
    """Domain, server and number of a transaction's first event."""
    number, domain = _GTID_BODY.unpack_from(event, HEAD.size)
    return domain, HEAD.unpack_from(event)[2], number


def is_made_up(event: bytes) -> bool:
    """Whether it is not in the log: each dump begins with such."""
    return bool(HEAD.unpack_from(event)[5] & _ARTIFICIAL)


@dataclass(slots=True)
class Place:
    """Follows a log along its events. Pure.

    here    behind the last event
    passed  bytes of events since the beginning
    when    the last of them was written, seconds since 1970; 0 = none came
    """

    here: MariaDbLog
    passed: int = 0
    when: int = 0
    state: Gtids = field(init=False)

    # a dump by GTIDs begins with the head of the file, and tells no high bits
    _is_fixed: bool = False

    def __post_init__(self) -> None:
        self._is_fixed = self.here.is_beyond_dumps
        self.state = Gtids.of(self.here.gtids)

    def take(self, event: bytes) -> None:
        when, kind, _, size, end, flags = HEAD.unpack_from(event)
        if kind in {ROTATE, HEARTBEAT}:
            return  # its end is of the file before: see `enter`
        if kind == FORMAT:
            self.here = replace(self.here, made=when)
        elif kind == GTID:
            self.state.take(*gtid_of(event))
        elif kind == GTID_LIST and not flags & _ARTIFICIAL and not self._is_fixed:
            # with the head of a file comes one that is older than its dump
            self.state.take_list(event)
        if end and not flags & _ARTIFICIAL:
            self.passed += size
            self.when = max(self.when, when)
            if not self._is_fixed:
                self._advance(end)

    @property
    def gtids(self) -> str:
        return self.state.encode()

    def _advance(self, end: int) -> None:
        """Of the end the event has the lower 32 bits; none takes so many itself."""
        offset = self.here.offset
        whole = offset >> 32 << 32 | end
        if whole < offset:
            whole += 1 << 32
        self.here = replace(self.here, offset=whole)

    def enter(self, file: str, offset: int) -> None:
        """What comes is of that file, from there on."""
        base, number = parts_of(file)
        if (base, number) != (self.here.base, self.here.number):
            self._is_fixed = False
            self.here = replace(
                self.here, base=base, number=number, made=0, offset=offset
            )
