"""One connection that receives the binary log: a server's dump, as its replicas get it.

PyMySQL makes the connection and logs in; what comes then is a stream of packets that it
has no calls for. Nothing is told to the server while it sends: it keeps its log as long
as it is configured to.
"""

from __future__ import annotations

import contextlib
import select
import ssl
import struct
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import pymysql
from pymysql.constants import COMMAND

from catalog.sources.mariadb.replicas import PRIVILEGE_MISSING
from core.errors import InvalidRequest, TerminalError, TransientError
from core.sentences import Sentence
from ingest.contract.source_positions import MariaDbLog
from ingest.sources.mariadb.connection import Connection, connect
from ingest.sources.mariadb.log.places import FORMAT, HEAD
from ingest.sources.port import SourceAccess

# The server shows that it lives so often while it has nothing to send.
BEAT_SECONDS = 5
_SILENT_SECONDS = 30
# So many bytes of events at once: what they become is looked at in between.
_MOST_BYTES = 4 << 20
_RECEIVE_BYTES = 256 << 10
_PACKET_BYTES = (1 << 24) - 1
_DUMP = struct.Struct("<IHI")
_ENDS = 1  # flag of a dump that ends with the log
_NO_RIGHT = frozenset({PRIVILEGE_MISSING, 1045, 1142})
_FATAL = 1236
# Words of that which say that the place is not in its log.
_GONE = ("Could not find first log", "impossible position", "purged", "not found")
# Said to a reader that was superseded.
_SAME_NUMBER = "same server_uuid/server_id"
ANEW = Sentence("start its follower over, then resync its tables")
# Of a session: what a replica says of itself, and that it understands all there is.
_SAYS = (
    "SET @master_binlog_checksum = @@global.binlog_checksum",
    f"SET @master_heartbeat_period = {BEAT_SECONDS * 1_000_000_000}",
    "SET @mariadb_slave_capability = 4",
)


class _AtEnd(TransientError):
    """All that a log has came."""


@dataclass(slots=True)
class LogConnection:
    """number, name: under which it is known at the server. One with the same number
    ends the dump of the other."""

    connection: Connection
    number: int
    name: str
    _buffer: bytearray = field(default_factory=bytearray)
    _part: bytearray = field(default_factory=bytearray)
    _over: str = ""
    _last_heard: float = field(default_factory=time.monotonic)

    @property
    def silent_for(self) -> float:
        """Seconds since anything came."""
        return time.monotonic() - self._last_heard

    @property
    def session(self) -> int:
        found: int = self.connection.thread_id()  # type: ignore[no-untyped-call]
        return found

    def start(self, after: MariaDbLog) -> None:
        """Events come of what is behind that place. InvalidRequest
        `source_privilege_missing`; what else is wrong shows with the first `read`."""
        try:
            for statement in _SAYS:
                self.connection.query(statement)
            self._register()
        except pymysql.MySQLError as error:
            if error.args[:1] not in {(number,) for number in _NO_RIGHT}:
                raise
            raise _right_missing(str(error.args[-1])) from error
        if after.is_beyond_dumps:
            self._start_by_gtids(after)
        else:
            self._dump(after.file, after.offset)

    def first_event_of(self, file: str) -> bytes:
        """Its description, by which it is known. b"" when there is no such file. Of no
        other use then."""
        try:
            return next((e for e in self.events_of(file) if e[4] == FORMAT), b"")
        except TerminalError:
            return b""

    def events_of(self, file: str) -> Iterator[bytes]:
        """From the head of a file to the end of the log. Of nobody the dump is ended
        for it; of no other use then."""
        self.number = 0
        for statement in _SAYS:
            self.connection.query(statement)
        self._dump(file, 4, flags=_ENDS)
        while self.silent_for < _SILENT_SECONDS:
            try:
                yield from self.read(1.0)
            except _AtEnd:
                return
        raise TransientError(
            Sentence("the source does not send its log"),
            code="log_silent",
            hint=Sentence("it is tried again"),
        )

    def read(self, seconds: float) -> list[bytes]:
        """Events that came, with their heads; [] when none did for so long.
        TransientError `log_ended`, TerminalError `log_lost`."""
        found = self._events()
        if not found and self._received(seconds):
            found = self._events()
        if not found and self._over:
            raise _ended(self._over)
        return found

    def _register(self) -> None:
        host = self.name.encode()[:60]
        said = struct.pack("<I", self.number) + bytes([len(host)]) + host + b"\0\0"
        self.connection._execute_command(  # type: ignore[attr-defined]
            COMMAND.COM_REGISTER_SLAVE, said + b"\0\0" + b"\0" * 8
        )
        self.connection._read_ok_packet()  # type: ignore[attr-defined]

    def _start_by_gtids(self, after: MariaDbLog) -> None:
        """By the transactions that came: their place has more than 32 bits."""
        state = self.connection.escape(after.newest_gtids)
        for statement in (
            f"SET @slave_connect_state = {state}",
            "SET @slave_gtid_strict_mode = 0",
            "SET @slave_gtid_ignore_duplicates = 0",
        ):
            self.connection.query(statement)
        self._dump("", 4)

    def _dump(self, file: str, offset: int, *, flags: int = 0) -> None:
        said = _DUMP.pack(offset, flags, self.number) + file.encode()
        self.connection._execute_command(  # type: ignore[attr-defined]
            COMMAND.COM_BINLOG_DUMP, said
        )
        # all that was asked before is answered, so nothing is in its buffers
        self._socket.settimeout(0)
        self._last_heard = time.monotonic()

    @property
    def _socket(self):  # type: ignore[no-untyped-def]
        return self.connection._sock  # type: ignore[attr-defined]

    def _received(self, seconds: float) -> bool:
        """Takes what there is, waiting so long for the first of it."""
        until = time.monotonic() + seconds
        while not (took := self._took()):
            left = until - time.monotonic()
            if left <= 0 or self._over:
                return False
            select.select([self._socket], [], [], left)
        while took and len(self._buffer) < _MOST_BYTES:
            took = self._took()
        self._last_heard = time.monotonic()
        return True

    def _took(self) -> bool:
        try:
            data = self._socket.recv(_RECEIVE_BYTES)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        except OSError as error:
            self._over = str(error)
            return False
        self._buffer += data
        self._over = "" if data else Sentence("without a word")
        return bool(data)

    def _events(self) -> list[bytes]:
        found: list[bytes] = []
        buffer, at, taken = self._buffer, 0, 0
        while len(buffer) - at >= 4 and taken < _MOST_BYTES:
            size = int.from_bytes(buffer[at : at + 3], "little")
            if len(buffer) - at - 4 < size:
                break
            if found and buffer[at + 4] and not self._part:
                break  # an error, or an end: behind what came before
            data = buffer[at + 4 : at + 4 + size]
            at += 4 + size
            taken += size
            if size == _PACKET_BYTES or self._part:
                self._part += data
                if size == _PACKET_BYTES:
                    continue
                data, self._part = self._part, bytearray()
            found.append(_event(bytes(data)))
        del buffer[:at]
        return found


def number_of(name: str) -> int:
    """Of a replica that is called so: high, where nobody's own numbers are."""
    return 0x8000_0000 | zlib.crc32(name.encode()) & 0x7FFF_FFFF


@contextlib.contextmanager
def open_log(access: SourceAccess, name: str, number: int) -> Iterator[LogConnection]:
    connection, _ = connect(access)
    with contextlib.closing(connection):
        yield LogConnection(connection, number, name)


def _event(packet: bytes) -> bytes:
    kind = packet[0]
    if kind == 0 and len(packet) > HEAD.size:
        return packet[1:]
    if kind == 255:
        raise _failed(
            int.from_bytes(packet[1:3], "little"),
            packet[9:].decode(errors="replace"),
        )
    raise _AtEnd(
        Sentence("the source ended its log, as a server does that stops"),
        code="log_ended",
        hint=Sentence("reading continues behind the last segment"),
    )


def _failed(number: int, words: str) -> Exception:
    if number == _FATAL and any(gone in words for gone in _GONE):
        return log_lost(Sentence("the place where reading goes on"), words)
    if number == _FATAL and _SAME_NUMBER not in words:
        return TerminalError(
            "the source cannot send its log: %(words)s",
            words=words,
            code="log_unreadable",
            hint=Sentence("see the server's own log; reading is tried again"),
        )
    if number in _NO_RIGHT:
        return _right_missing(words)
    return _ended(words)


def require_kept(position: MariaDbLog, size: int | None) -> None:
    """TerminalError `log_lost` where the file is gone (None), or ends before that."""
    if size is None:
        gone = Sentence("its file %(file)s is gone", file=position.file)
        raise log_lost(position.in_words, gone)
    if size < position.offset:
        ends = Sentence(
            "its file %(file)s ends at %(size)s there", file=position.file, size=size
        )
        raise log_lost(position.in_words, ends)


def log_lost(after: str, why: str) -> TerminalError:
    return TerminalError(
        "the source does not have all of its log behind %(after)s any more:"
        " %(why)s. Changes are missing",
        after=after,
        why=why,
        code="log_lost",
        hint=ANEW,
    )


def other_history(place: MariaDbLog) -> TerminalError:
    return TerminalError(
        "the source has another log under the name %(file)s than the one that was"
        " read: it was reset, or restored from a backup. Nothing was read",
        start_over=ANEW,
        file=place.file,
        code="source_changed",
        hint="bring that log back, or %(start_over)s",
    )


def _right_missing(words: str) -> InvalidRequest:
    return InvalidRequest(
        "the source does not let the datasource's user read its log: %(words)s",
        words=words,
        code="source_privilege_missing",
        hint=Sentence(
            "at the source: GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO the"
            " datasource's user"
        ),
    )


def log_silent(seconds: float) -> TransientError:
    return TransientError(
        "the source's log was silent for %(seconds)s s",
        seconds=int(seconds),
        code="log_silent",
        hint=Sentence("reading begins again at once; check the network between them"),
    )


def _ended(why: str) -> TransientError:
    return TransientError(
        "the source ended the connection of its log: %(why)s",
        why=why,
        code="log_ended",
        hint=Sentence("reading continues behind the last segment"),
    )
