"""One connection that receives the log of a slot, and tells the server what is durable.

Nothing is told by itself but what `acknowledge` was told: a keepalive of the server
says how far it has read, not what is safe here. libpq's own calls are enough, though
psycopg has none of its own for replication.
"""

from __future__ import annotations

import contextlib
import re
import select
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import psycopg
from psycopg.pq import ExecStatus

from catalog.schema.limits import LIMITS
from catalog.sources.postgresql.answers import answered_within
from core.errors import InvalidRequest, SluiceError, TerminalError, TransientError
from core.sentences import Sentence
from ingest.contract.source_positions import PostgresLog, lsn_of, lsn_text
from ingest.sources.port import Row, SourceAccess
from ingest.sources.postgresql.connection import DIALECT, SESSION_SETTINGS, connect
from ingest.sources.postgresql.log.slot import ANEW
from ingest.sources.postgresql.log.values import LOG_SETTINGS
from ingest.sources.postgresql.snapshot import UNLIMITED

# Of the server that refuses a connection for the log, by its release.
_NO_RIGHT = ("replication role", "start WAL sender", "REPLICATION attribute")
# A setting's name is the same in all languages of a server.
_SENDERS = "max_wal_senders"
_KEEPALIVE = struct.Struct(">xQqB")
_STATUS = struct.Struct(">cQQQqB")
_HEAD = 25  # of a message: its kind, two places of the log, the server's clock
_EPOCH_SECONDS = 946_684_800
# A slot reads the catalog as it was: one that was made later is not there.
_LATE = re.compile(r'publication "[^"]*" does not exist')
# What the process that sends the log waits for; where it does not, it is at work.
_SENDER = (
    "SELECT coalesce(wait_event_type, ''), coalesce(wait_event, '')"
    " FROM pg_stat_activity WHERE pid = %s"
)
# So many messages, or so many bytes of them, at once: what they become is looked at in
# between, and takes several times the memory.
_MOST, _MOST_BYTES = 10_000, 4 << 20


@dataclass(slots=True)
class LogConnection:
    """started: where the server is, and on which timeline.

    sent_to  up to here the server has sent all of the slot's transactions that ended.
             Between transactions, with nothing waiting here, a segment may end there
    """

    connection: psycopg.Connection[Row]
    started: PostgresLog
    durable: int = 0
    sent_to: int = 0
    _last_heard: float = field(default_factory=time.monotonic)
    _last_said: float = 0.0

    @property
    def silent_for(self) -> float:
        """Seconds since anything came, though the server was asked to answer."""
        return time.monotonic() - self._last_heard

    def start(self, slot: str, publications: Sequence[str], *, after: int) -> None:
        """Messages come of transactions that ended behind `after`. TransientError
        `log_refused` with the server's own words."""
        names = ",".join(map(DIALECT.name, publications))
        command = (
            f"START_REPLICATION SLOT {DIALECT.name(slot)} LOGICAL {lsn_text(after)}"
            f" (proto_version '1', publication_names {DIALECT.literal(names).strip()})"
        )
        found = self.connection.pgconn.exec_(command.encode())
        if found.status != ExecStatus.COPY_BOTH:
            raise _refused(found.error_message.decode(errors="replace").strip())
        self.durable, self.sent_to = after, 0
        self._last_heard = time.monotonic()

    def read(self, seconds: float) -> list[bytes]:
        """Messages of pgoutput that came, `_MOST` of them; [] when none did for so
        long. TransientError `log_ended`."""
        found = self._received()
        if not found and self._waits(seconds):
            found = self._received()
        now = time.monotonic()
        if found:
            self._last_heard = now
        if now - self._last_said > LIMITS.beat:
            # asked to answer when it is quiet: half a connection would be quiet, too
            self._tell(wants_answer=now - self._last_heard > LIMITS.beat)
        return found

    def renew(self, access: SourceAccess) -> None:
        """What was sent and not read is forgotten: the server starts no log twice on
        one connection."""
        self.connection.close()
        self.connection, _ = _opened(access)

    def close(self) -> None:
        self.connection.close()

    def acknowledge(self, end: int) -> None:
        """All up to there is durable: the server may forget it."""
        self.durable = max(self.durable, end)
        self._tell()

    def _waits(self, seconds: float) -> bool:
        pgconn = self.connection.pgconn
        ready, _, _ = select.select([pgconn.socket], [], [], seconds)
        if ready:
            pgconn.consume_input()
        return bool(ready)

    def _received(self) -> list[bytes]:
        pgconn = self.connection.pgconn
        found: list[bytes] = []
        taken = 0
        while len(found) < _MOST and taken < _MOST_BYTES:
            size, data = pgconn.get_copy_data(1)
            if size == 0:
                pgconn.consume_input()
                size, data = pgconn.get_copy_data(1)
                if size == 0:
                    break
            if size < 0:
                # the server's own words come behind the end of its messages
                told = pgconn.get_result() if size == -1 else None
                why = told.error_message if told else pgconn.error_message
                raise _ended(why.decode(errors="replace").strip())
            taken += size
            if data[0] == 119:
                found.append(bytes(data[_HEAD:]))
            elif data[0] == 107:
                self._keepalive(bytes(data))
        return found

    def _keepalive(self, data: bytes) -> None:
        end, _, wants_answer = _KEEPALIVE.unpack(data)
        self.sent_to = max(self.sent_to, end)
        self._last_heard = time.monotonic()
        if wants_answer:
            self._tell()

    def _tell(self, *, wants_answer: bool = False) -> None:
        self._last_said = time.monotonic()
        now = int((time.time() - _EPOCH_SECONDS) * 1_000_000)
        at = self.durable
        said = _STATUS.pack(b"r", at, at, at, now, wants_answer)
        pgconn = self.connection.pgconn
        if pgconn.put_copy_data(said) < 1 or pgconn.flush() < 0:
            raise _ended(pgconn.error_message.decode(errors="replace").strip())


@contextlib.contextmanager
def open_log(access: SourceAccess) -> Iterator[LogConnection]:
    """A connection for the log, with the settings under which values are printed."""
    log = LogConnection(*_opened(access))
    with contextlib.closing(log):
        yield log


def _opened(access: SourceAccess) -> tuple[psycopg.Connection[Row], PostgresLog]:
    with contextlib.ExitStack() as behind_errors:
        connection = _connected(access)
        behind_errors.callback(connection.close)
        connection.execute(UNLIMITED)
        for setting, value in (SESSION_SETTINGS | LOG_SETTINGS).items():
            connection.execute(f"SET {setting} = {DIALECT.literal(value)}".encode())
        server, timeline, flushed, *_ = (
            connection.execute("IDENTIFY_SYSTEM").fetchone() or ()
        )
        position = PostgresLog(str(server), int(timeline), lsn_of(str(flushed)))
        if connection.info.parameter_status("server_encoding") == "SQL_ASCII":
            # it sends no row whose bytes are no UTF-8, nor any behind that; as they are
            # they stop the table alone that has them
            connection.execute("SET client_encoding = 'SQL_ASCII'")
        behind_errors.pop_all()
    return connection, position


def _connected(access: SourceAccess) -> psycopg.Connection[Row]:
    try:
        return connect(access, replication="database")
    except psycopg.OperationalError as error:
        words = str(error)
        if _SENDERS in words:
            raise TransientError(
                "the source has no connection for its log left: %(why)s",
                why=words.strip().splitlines()[-1],
                code="source_log_busy",
                hint=Sentence(
                    "it is tried again; at the source: raise max_wal_senders, and"
                    " restart the server, or end what pg_stat_replication shows"
                ),
            ) from error
        if not any(sign in words for sign in _NO_RIGHT):
            raise
        raise InvalidRequest(
            "the source does not let %(user)s read its log: %(why)s",
            name=DIALECT.name(access.spec.username),
            user=access.spec.username,
            why=words.strip().splitlines()[-1],
            code="source_privilege_missing",
            hint="at the source: ALTER ROLE %(name)s REPLICATION",
        ) from error


def _refused(why: str) -> TransientError:
    return TransientError(
        "the source does not send its log: %(why)s",
        why=why,
        code="log_refused",
        hint=Sentence(
            "it is tried again; what is missing at the source has to be made there"
        ),
    )


def _ended(why: str) -> SluiceError:
    if _LATE.search(why):
        return TerminalError(
            "the log cannot be read by its publication: %(why)s",
            why=why,
            code="publication_missing",
            hint=ANEW,
        )
    return TransientError(
        "the source ended the connection of its log: %(why)s",
        why=why or Sentence("without a word"),
        code="log_ended",
        hint=Sentence("reading continues behind the last segment"),
    )


def log_silent(seconds: float) -> TransientError:
    return TransientError(
        "the source's log was silent for %(seconds)s s, though asked to answer",
        seconds=int(seconds),
        code="log_silent",
        hint=Sentence("reading begins again at once; check the network between them"),
    )


def sender_of(
    access: SourceAccess, log: LogConnection, *, seconds: int
) -> tuple[str, str]:
    """What the process waits for that sends the log, by a new connection."""
    with (
        contextlib.closing(connect(access)) as connection,
        answered_within(connection, seconds),
    ):
        pid = log.connection.info.backend_pid
        found = connection.execute(_SENDER.encode(), [pid]).fetchone()
    return ("Client", "gone") if found is None else (str(found[0]), str(found[1]))
