"""The binary log of a MariaDB source, as `LogReader`: opened, read, looked after.

The log has whole transactions one behind the other, and statements between them. It is
the same for all who read it: nothing is made at the source, and nothing is told to it.
"""

from __future__ import annotations

import contextlib
import struct
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import pymysql

from catalog.sources.mariadb.log import LogServer, may_lose_commits
from core.errors import TerminalError, TransientError
from ingest.contract.following import SourceLog
from ingest.contract.source_positions import MariaDbLog
from ingest.contract.table import TableSpec
from ingest.sources.mariadb.log.binlog import (
    Begin,
    Commit,
    Decoder,
    Missed,
    Rollback,
    Rotate,
    Statement,
    What,
)
from ingest.sources.mariadb.log.connection import (
    ANEW,
    LogConnection,
    log_lost,
    number_of,
    open_log,
)
from ingest.sources.mariadb.log.control import (
    Control,
    LogFile,
    open_control,
    sender_state,
)
from ingest.sources.mariadb.log.places import FORMAT, GTID, STOP, Place, started_at
from ingest.sources.mariadb.log.statements import effect_of
from ingest.sources.mariadb.log.table_map import TableMap
from ingest.sources.mariadb.log.tables import (
    Name,
    identifying,
    new_columns,
    problem_of,
    where,
)
from ingest.sources.mariadb.log.values import RowReader, emptied
from ingest.sources.port import LogNames, LogRows, SourceAccess

# A connection that is silent for so long, though the server shows that it lives every
# few seconds, is doubted, again after each so many.
_SILENT_SECONDS, _PROBE_SECONDS = 20, 10
# What the session does that sends the log and has nothing to send, or waits for us.
_IDLE = ("Master has sent all", "Writing to net", "Sending binlog")
# A log that is read so late may be deleted before it is read.
EXPIRING = "expiring"
_LATE = 0.5
_WHEN = struct.Struct("<I")

_ROLLED_BACK = (
    "{} has rows in the log of a transaction that did not happen in the end; resync the"
    " table"
)

_DIED = (
    "the source's server died, and with innodb_flush_log_at_trx_commit other than 1 its"
    " tables may have lost what its log has"
)

Wait = Callable[[str], None]


@dataclass(slots=True)
class MariaDbLogReader:
    """See `LogReader`."""

    access: SourceAccess
    log: LogConnection
    control: Control
    started: MariaDbLog
    problems: Mapping[int, str] = field(default_factory=dict)
    new_columns: dict[int, tuple[str, ...]] = field(default_factory=dict)
    left: dict[int, tuple[str, ...]] = field(default_factory=dict)
    # what is made anew under a table's name is made in the log, in its place
    identities: Mapping[int, str] = field(default_factory=dict)
    committed: int = 0
    waits: str = ""
    anew: str = ""
    _server: LogServer = field(init=False)
    _tables: dict[Name, TableSpec] = field(default_factory=dict)
    _at_log: dict[int, str] = field(default_factory=dict)
    _at_look: dict[int, str] = field(default_factory=dict)
    _lost: dict[int, str] = field(default_factory=dict)
    _readers: dict[TableMap, tuple[TableSpec, RowReader]] = field(default_factory=dict)
    _events: deque[bytes] = field(default_factory=deque)
    _taken: list[LogRows] = field(default_factory=list)
    _decoder: Decoder = field(init=False)
    _place: Place = field(init=False)
    _end: MariaDbLog = field(init=False)
    _durable: MariaDbLog = field(init=False)
    _told: int = 0
    _begun: int = 0
    _has_rows: bool = False
    _is_headed: bool = False
    # the server ended in order, and what it wrote next has not come
    _is_stopped: bool = False
    # of the open transaction, tables whose rows were taken
    _touched: set[int] = field(default_factory=set)
    _is_to_look: bool = False
    _probed: float = 0.0

    def __post_init__(self) -> None:
        self._server = self.control.server()
        self._decoder = Decoder(self._wanted)
        self._place = Place(self.started)
        self._end = self._durable = self.started

    @property
    def server(self) -> str:
        return self.started.identity

    @property
    def begin(self) -> str:
        return self.started.encode()

    @property
    def is_within(self) -> bool:
        return self._decoder.is_within or self._is_headed

    @property
    def size(self) -> int:
        waits: int = sum(rows.batch.nbytes for rows in self._taken)
        return self._decoder.size + waits

    @property
    def position(self) -> str:
        return self._end.encode()

    @property
    def passed(self) -> int:
        return self._place.passed - self._told

    def has_passed(self, wanted: str, *, at: str = "") -> bool:
        here = MariaDbLog.decode(at) if at else self._end
        return here.order(MariaDbLog.decode(wanted)) in {"after", "equal"}

    def follow(
        self,
        tables: Sequence[TableSpec],
        *,
        anew: Collection[int] = (),
        loaded: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        before = {*self._tables.values()}
        changed = {table.table_id for table in before ^ {*tables}} | {*anew}
        self._tables = {self._named(t.source_schema, t.source_table): t for t in tables}
        kept = {table.table_id for table in tables} - changed
        self._at_log = {k: v for k, v in self._at_log.items() if k in kept}
        self.new_columns = {k: v for k, v in self.new_columns.items() if k in kept}
        self._readers = {}
        self._look_at_tables()
        self._decoder.look_again()

    def start(self, after: str) -> None:
        position = self.find(MariaDbLog.decode(after))
        self._place = Place(position)
        self._end = self._durable = position
        self.log.start(position)

    def read(self, seconds: float, *, to_boundary: bool = False) -> None:
        if not self._events:
            self._events.extend(self.log.read(seconds))
            self._doubt()
        while self._events:
            is_end = self._take_up(self._events.popleft())
            if is_end and to_boundary:
                return

    def take(self) -> list[LogRows]:
        self._collect()
        found, self._taken = self._taken, []
        self._begun, self._has_rows = 0, self._has_rows or bool(found)
        self._touched |= {rows.table_id for rows in found}
        return found

    def lost(self) -> dict[int, str]:
        found, self._lost = self._lost, {}
        return found

    def acknowledge(self, position: str) -> None:
        self._durable = MariaDbLog.decode(position)
        self._told = self._place.passed

    def look(self) -> SourceLog:
        self._server = self.control.server()
        files = self.control.files()
        self.find(self._durable, files)
        left = [f for f in files if f.number >= self._durable.number]
        kept = sum(f.size for f in files)
        behind = sum(f.size for f in left) - self._durable.offset
        if self._is_to_look:
            self._look_at_tables()
        is_late = len(left) > 1 and self._is_late()
        return SourceLog(kept, None, max(0, behind), EXPIRING if is_late else "")

    def _take_up(self, event: bytes) -> bool:
        """Whether a transaction ends with it."""
        found = self._decoded(event)
        if event[4] == FORMAT:
            self._require_same_file(event)
        self._place.take(event)
        if event[4] in {FORMAT, STOP}:
            self._note_start(event)
        for what in found:
            self._note(what)
        # of a statement that stands alone the number comes before it
        self._is_headed = event[4] == GTID
        if self.is_within or self._is_stopped or not self._place.here.made:
            # nor is there a place to go on from in a file that has not said yet which
            # one it is, or behind a stop: what follows it has to be seen with it
            return False
        self._end = replace(self._place.here, gtids=self._place.gtids)
        return any(isinstance(what, Commit) for what in found)

    def _note_start(self, event: bytes) -> None:
        """A file that begins with the server, and none that ends with its stop before
        it: it died. A dump's first description has no such time and no place."""
        was_stopped, self._is_stopped = self._is_stopped, event[4] == STOP
        if self._is_stopped or was_stopped:
            return
        if started_at(event) and may_lose_commits(self._server.settings):
            self._note_missed(Missed(None, _DIED))

    def _decoded(self, event: bytes) -> tuple[What, ...]:
        try:
            return self._decoder.decode(event)
        except TerminalError as error:
            if error.code != "log_incident":
                raise
            # every table lacks something; what comes behind it does not
            return (Missed(None, error.message),)

    def _note(self, what: What) -> None:
        match what:
            case Rotate():
                self._place.enter(what.file, what.offset)
            case Begin():
                self._begun, self._has_rows = self._decoder.size, False
                self._touched = set()
            case Commit():
                if self._has_rows or self._decoder.size > self._begun:
                    self.committed = what.committed
            case Rollback() if not what.is_whole:
                for table in self._tables.values():
                    if table.table_id in self._touched:
                        self._refuse(table, _ROLLED_BACK.format(where(table)))
            case Statement():
                self._note_statement(what)
            case Missed():
                self._note_missed(what)
            case _:
                pass

    def _note_statement(self, statement: Statement) -> None:
        effect = effect_of(statement.text, statement.database).named(self._named)
        for name, table in self._tables.items():
            if not effect.is_about(name):
                continue
            if effect.empties:
                self._collect()
                self._taken.append(
                    LogRows(
                        table.table_id, table.schema_version, emptied(table.columns)
                    )
                )
                self.committed = statement.committed
            elif effect.is_harmless:
                self._is_to_look = True
            else:
                verb = "may have been" if effect.may_be_any else "was"
                self._refuse(
                    table,
                    f"{where(table)} {verb} changed at the source by a statement, of"
                    f" which the log has no rows: {statement.text[:200]}; discover it"
                    " again, and resync the table",
                )

    def _note_missed(self, missed: Missed) -> None:
        names = missed.tables and {self._named(*name) for name in missed.tables}
        for name, table in self._tables.items():
            if names is None or name in names:
                self._refuse(
                    table, f"{where(table)}: {missed.reason}; resync the table"
                )

    def _collect(self) -> None:
        """What the decoder has, behind what was taken of it before."""
        for rows in self._decoder.take():
            table, reader = self._readers[rows.table]
            if table.table_id in self._at_log:
                continue
            try:
                batch = reader.batch(rows)
            except TerminalError as error:
                self._refuse(table, f"{error.message}; {error.hint}")
                continue
            self._taken.append(LogRows(table.table_id, table.schema_version, batch))

    def _wanted(self, found: TableMap) -> tuple[int, ...] | None:
        table = self._tables.get(self._named(found.schema, found.name))
        if table is None:
            return None
        try:
            if found.problem:
                raise ValueError(found.problem)
            reader = RowReader.of(found, table.columns, key=table.key)
            key = found.positions(identifying(table))
        except (KeyError, ValueError) as error:
            self._refuse(table, _unreadable(table, error))
            return None
        self._readers[found] = table, reader
        self._note_new(table, [column.name for column in found.columns])
        return key

    def _refuse(self, table: TableSpec, problem: str) -> None:
        self._at_log[table.table_id] = self._lost[table.table_id] = problem
        self._merge()

    def _merge(self) -> None:
        self.problems = {**self._at_look, **self._at_log}

    def _note_new(self, table: TableSpec, names: Sequence[str]) -> None:
        self.new_columns.pop(table.table_id, None)
        if found := new_columns(table, names):
            self.new_columns[table.table_id] = found

    def _look_at_tables(self) -> None:
        self._is_to_look = False
        found = self.control.tables([*self._tables.values()])
        problems = {}
        for table in self._tables.values():
            one = found.get((table.source_schema, table.source_table))
            if problem := problem_of(table, one, self._server):
                problems[table.table_id] = problem
            if one is not None:
                self._note_new(table, [*one.types])
        self._at_look = problems
        self._lost |= problems
        self._merge()

    def _named(self, database: str, table: str) -> Name:
        """As it is compared there."""
        if self._server.settings.get("lower_case_table_names", "0") == "0":
            return database, table
        return database.casefold(), table.casefold()

    def find(
        self, position: MariaDbLog, files: Sequence[LogFile] | None = None
    ) -> MariaDbLog:
        """The place by the name that its file has now. TerminalError `log_lost`."""
        found = [
            f for f in files or self.control.files() if f.number == position.number
        ]
        if not found:
            raise log_lost(position.encode(), f"its file {position.file} is gone")
        if found[0].size < position.offset:
            raise log_lost(
                position.encode(),
                f"its file {position.file} ends at {found[0].size} there",
            )
        return replace(position, base=found[0].base)

    def _require_same_file(self, event: bytes) -> None:
        (made,) = _WHEN.unpack_from(event)
        if self._place.here.made not in {0, made}:
            raise other_history(self._place.here)

    def _is_late(self) -> bool:
        """Whether half the time is over for which the server keeps its log."""
        settings = self._server.settings
        kept = float(settings.get("binlog_expire_logs_seconds") or 0)
        kept = kept or float(settings.get("expire_logs_days") or 0) * 86_400
        return bool(
            kept and self._place.when and time.time() - self._place.when > kept * _LATE
        )

    def _doubt(self) -> None:
        """A server that lives shows it: in silence the connection may be dead, or the
        server stands still."""
        silent = self.log.silent_for
        if silent < _SILENT_SECONDS:
            self.waits = ""
            return
        if time.monotonic() - self._probed < _PROBE_SECONDS:
            return
        self._probed = time.monotonic()
        try:
            command, state = sender_state(self.access, self.log.session)
        except (pymysql.MySQLError, OSError) as error:
            raise _silent(silent) from error
        if not command or state.startswith(_IDLE):
            raise _silent(silent)
        self.waits = (
            "the source works on its log and has sent nothing for"
            f" {int(silent)} s ({state})"
        )


@contextlib.contextmanager
def open_log_reader(
    access: SourceAccess,
    names: LogNames,
    tables: Sequence[TableSpec],
    *,
    after: Callable[[], str | None],
    begin_anew: bool = False,
    wait: Wait,
) -> Iterator[MariaDbLogReader]:
    """See `ingest.sources.registry.open_log_reader`. Nothing is waited for: a log that
    has whole transactions begins anywhere between two."""
    with open_control(access) as (control, address):
        # a log is of one server, whatever else the name stands for
        access = access.at(address)
        control.server()
        here = control.here()
        number = free_number(control.others(), names.slot)
        with open_log(access, names.slot, number) as log:
            reader = MariaDbLogReader(access, log, control, here)
            end, anew = after(), ""
            if end is not None:
                try:
                    _require_whole(reader, MariaDbLog.decode(end))
                except TerminalError as error:
                    if not begin_anew:
                        raise
                    anew, end = error.message, None
            reader.anew = anew
            if end is None:
                reader.started = replace(here, made=_made(access, names.slot, here))
            reader.follow(tables)
            yield reader


def free_number(others: Mapping[int, str], name: str) -> int:
    """By which the server knows us: of two with one number it ends the older. Ours is
    always the same, so that a reader that was superseded is ended; somebody else's is
    left alone."""
    number = number_of(name)
    while others.get(number, name[:60]) != name[:60]:
        number = number + 1 if number < 0xFFFF_FFFE else 0x8000_0000
    return number


def _require_whole(reader: MariaDbLogReader, position: MariaDbLog) -> None:
    """TerminalError `source_changed`, or `log_lost`."""
    here = reader.started
    if position.identity != here.identity:
        raise TerminalError(
            f"the log was read from server {position.identity}, and {here.identity}"
            " answers now. Nothing was read",
            code="source_changed",
            hint=f"bring that server back, or {ANEW}",
        )
    place = reader.find(position)
    if place.made != _made(reader.access, reader.log.name, place):
        raise other_history(place)


def _made(access: SourceAccess, name: str, place: MariaDbLog) -> int:
    """When the file was made that has this name now. TransientError when it is gone
    meanwhile."""
    with open_log(access, name, 0) as log:
        event = log.first_event_of(place.file)
    if not event:
        raise TransientError(
            f"the source deletes {place.file} of its log just now",
            code="log_moved",
            hint="reading begins again at once",
        )
    return int(_WHEN.unpack_from(event)[0])


def other_history(place: MariaDbLog) -> TerminalError:
    return TerminalError(
        f"the source has another log under the name {place.file} than the one that was"
        " read: it was reset, or restored from a backup. Nothing was read",
        code="source_changed",
        hint=f"bring that log back, or {ANEW}",
    )


def _unreadable(table: TableSpec, error: Exception) -> str:
    what = f"has no column {error.args[0]}" if isinstance(error, KeyError) else error
    return (
        f"the log of {where(table)} cannot be read: {what}; discover it again, and"
        " resync the table"
    )


def _silent(seconds: float) -> TransientError:
    return TransientError(
        f"the source's log was silent for {int(seconds)} s",
        code="log_silent",
        hint="reading begins again at once; check the network between them",
    )
