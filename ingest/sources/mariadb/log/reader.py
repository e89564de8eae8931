"""The binary log of a MariaDB source, as `LogReader`: opened, read, looked after.

The log has whole transactions one behind the other, and statements between them. It is
the same for all who read it: nothing is made at the source, and nothing is told to it.
"""

from __future__ import annotations

import struct
import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import pymysql

from catalog.sources.mariadb.log import LogServer, may_lose_commits
from core.errors import TerminalError, said_by
from core.sentences import Sentence, joined
from ingest.contract.following import Replaced, SourceLog
from ingest.contract.segments import AHEAD
from ingest.contract.source_positions import MariaDbLog
from ingest.contract.table import ColumnSpec, TableSpec
from ingest.sources.ahead import ahead_of
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
from ingest.sources.mariadb.log.columns import (
    FoundTable,
    Identity,
    columns_read,
    gone_columns,
    new_columns,
    read_as,
    types_in,
    types_of,
)
from ingest.sources.mariadb.log.connection import (
    LogConnection,
    log_silent,
    other_history,
    require_kept,
)
from ingest.sources.mariadb.log.control import Control, LogFile, sender_state
from ingest.sources.mariadb.log.places import (
    FORMAT,
    GTID,
    STOP,
    Place,
    is_late_at,
    started_at,
)
from ingest.sources.mariadb.log.shadows import Shadows
from ingest.sources.mariadb.log.statements import Effect, Name, effect_of
from ingest.sources.mariadb.log.swaps import is_swap, tool_of
from ingest.sources.mariadb.log.table_map import TableMap
from ingest.sources.mariadb.log.tables import (
    DIED,
    IS_LOCKED,
    no_rows,
    problem_of,
    rolled_back,
    unread,
    unreadable,
    unseen,
)
from ingest.sources.mariadb.log.values import RowReader, emptied
from ingest.sources.port import LogRows, SourceAccess

# A connection that is silent for so long, though the server shows that it lives every
# few seconds, is doubted, again after each so many.
_SILENT_SECONDS, _PROBE_SECONDS = 20, 10
# What the session does that sends the log and has nothing to send, or waits for us.
_IDLE = ("Master has sent all", "Writing to net", "Sending binlog")
# A log that is read late may be deleted before it is read.
EXPIRING = "expiring"
_WHEN = struct.Struct("<I")


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
    # of a table's columns: what is made anew under its name is so in the log, in its
    # place
    identities: dict[int, str] = field(default_factory=dict)
    replaced: dict[int, Replaced] = field(default_factory=dict)
    committed: int = 0
    waits: str = ""
    anew: str = ""
    moved: str = ""
    _server: LogServer = field(init=False)
    _tables: dict[Name, TableSpec] = field(default_factory=dict)
    _found: dict[int, FoundTable] = field(default_factory=dict)
    # columns that a table's rows had
    _seen: dict[int, set[str]] = field(default_factory=dict)
    _at_log: dict[int, str] = field(default_factory=dict)
    _at_look: dict[int, str] = field(default_factory=dict)
    # of which the last look found none, and those that a statement has dropped
    _absent: dict[int, tuple[str, ...]] = field(default_factory=dict)
    dropped: dict[int, tuple[str, ...]] = field(default_factory=dict)
    _lost: dict[int, str] = field(default_factory=dict)
    _readers: dict[TableMap, tuple[TableSpec, RowReader]] = field(default_factory=dict)
    _events: deque[bytes] = field(default_factory=deque)
    _taken: list[LogRows] = field(default_factory=list)
    _decoder: Decoder = field(init=False)
    _shadows: Shadows = field(init=False)
    _place: Place = field(init=False)
    _end: MariaDbLog = field(init=False)
    _durable: MariaDbLog = field(init=False)
    _told: int = 0
    _begun: int = 0
    _has_rows: bool = False
    _is_headed: bool = False
    # the server ended in order, and what it wrote next has not come
    _is_stopped: bool = False
    _is_started: bool = False
    # of the open transaction, tables whose rows were taken
    _touched: set[int] = field(default_factory=set)
    _is_to_look: bool = False
    _probed: float = 0.0

    def __post_init__(self) -> None:
        self._server = self.control.server()
        self._decoder = Decoder(self._wanted, self._is_wanted)
        self._shadows = Shadows(self.control)
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

    def here(self) -> str:
        return self.control.place().encode()

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
        self.dropped = {k: v for k, v in self.dropped.items() if k in kept}
        self.new_columns = {k: v for k, v in self.new_columns.items() if k in kept}
        self.left = {k: v for k, v in self.left.items() if k in kept}
        kept = {table.table_id for table in tables} - {*anew}
        self._seen = {k: v for k, v in self._seen.items() if k in kept}
        known = {k: v for k, v in self.identities.items() if k in kept}
        # what was read is newer than what is durable, and that than a first look
        is_newer = self._is_started
        self.identities = {**loaded, **known} if is_newer else {**known, **loaded}
        self._readers = {}
        if not is_newer:
            # by looks that did not know yet what the tables were; nothing was read
            self._lost = {}
        self._look_at_tables()
        self.replaced = self._shadows.recall(self._tables, self.identities)
        self._decoder.look_again()

    def start(self, after: str) -> None:
        position = self.find(MariaDbLog.decode(after))
        self._place = Place(position)
        self._end = self._durable = position
        self.log.start(position)
        self._is_started = True

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

    @property
    def older(self) -> Mapping[int, Mapping[str, str | None]]:
        known = self.new_columns.keys() & self.identities
        return {k: Identity.decode(self.identities[k]).older for k in known}

    @property
    def gone(self) -> Mapping[int, tuple[str, ...]]:
        absent = {k: v for k, v in self._absent.items() if k not in self._at_log}
        return absent | self.dropped

    @property
    def unread(self) -> Collection[int]:
        known = {k: Identity.decode(v) for k, v in self.identities.items()}
        return {k for k, one in known.items() if not self.has_passed(one.until)}

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
        is_late = len(left) > 1 and is_late_at(self._place.when, self._server.settings)
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
            self._note_missed(Missed(None, DIED))

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
                        self._refuse(table, rolled_back(table))
            case Statement():
                self._note_statement(what)
            case Missed():
                self._note_missed(what)

    def _note_statement(self, statement: Statement) -> None:
        effect = effect_of(statement.text, statement.database, statement.quoting)
        effect = effect.named(self._named)
        for name, table in self._tables.items():
            if is_swap(self._shadows.of(name), name, effect):
                self._note_swap(name, table, statement)
                continue
            self._shadows.note(name, statement, effect)
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
            elif effect.is_harmless and not self._drops_key(table, effect):
                self._is_to_look = True
                self._note_altered(table, statement, effect)
            else:
                if effect.ends(name) and table.table_id not in self._at_log:
                    self._collect()  # what came of it before is whole
                    self.dropped[table.table_id] = (table.at_source,)
                self._refuse(table, unread(table, name, statement.text, effect))

    def _note_swap(self, name: Name, table: TableSpec, statement: Statement) -> None:
        """Its shadow took its place."""
        shadow = self._shadows.taken(name)
        other = Replaced(
            tool_of(name[1], shadow.name),
            self._place.here.encode(),
            statement.committed,
        )
        self._is_to_look = True
        # such a tool copies by INSERT IGNORE
        lax = replace(statement, is_strict=False)
        as_altered = Effect(touches=frozenset(shadow.touches))
        self._note_altered(table, lax, as_altered, swap=other)

    def _note_altered(
        self,
        table: TableSpec,
        statement: Statement,
        effect: Effect,
        *,
        swap: Replaced | None = None,
    ) -> None:
        """Looks at what it did, unless a look has seen it already. swap: another table
        came into its place."""
        known, here = self.identities.get(table.table_id), self._place.here
        if known is None or not (effect.touches or swap):
            return
        strict, touches = statement.is_strict, effect.touches - effect.defaults
        identity = Identity.decode(known).defaulted(effect.defaults, at=here)
        try:
            now = self._found.get(table.table_id)
            if identity.has_seen(here):
                identity = identity.touching(touches, is_strict=strict)
            else:
                begin = self.control.place()
                if (now := self._look_at(table)) is None and self.control.locked:
                    raise ValueError(IS_LOCKED)
                if now is not None:
                    looked = begin, self.control.place()
                    identity = identity.altered(
                        now, looked, touches, at=here, is_strict=strict
                    )
            identity = identity.adding(effect.given)
            if effect.drops:
                identity = identity.without(effect.drops, now)
            if swap:
                identity = identity.replaced_by(swap, now)
                self.replaced[table.table_id] = swap
        except ValueError as error:
            self._refuse(
                table,
                Sentence(
                    "%(table)s: %(error)s (%(text)s); discover it again, and resync"
                    " the table",
                    table=table.at_source,
                    error=said_by(error),
                    text=statement.text[:200],
                ),
            )
            return
        self.identities[table.table_id] = identity.encode()
        self._note_new(table, types_of(now) if now else {})

    def _look_at(self, table: TableSpec) -> FoundTable | None:
        found = self.control.tables([table])
        if one := found.get((table.source_schema, table.source_table)):
            self._found[table.table_id] = one
        return one

    def _note_missed(self, missed: Missed) -> None:
        names = missed.tables and {self._named(*name) for name in missed.tables}
        for name, table in self._tables.items():
            if names is None or name in names:
                self._refuse(table, no_rows(table, missed.reason))

    def _collect(self) -> None:
        """What the decoder has, behind what was taken of it before."""
        for rows in self._decoder.take():
            table, reader = self._readers[rows.table]
            if table.table_id in self._at_log:
                continue
            try:
                batch = reader.batch(rows)
            except TerminalError as error:
                self._refuse(table, joined((error.message, error.hint)))
                continue
            is_ahead = bool(ahead_of(table, reader.form.columns, reader.gone))
            version = AHEAD if is_ahead else table.schema_version
            self._taken.append(LogRows(table.table_id, version, batch))

    def _is_wanted(self, name: Name) -> bool:
        name = self._named(*name)
        self._shadows.note_filled(name)
        return name in self._tables

    def _wanted(self, found: TableMap) -> tuple[int, ...] | None:
        table = self._tables[self._named(found.schema, found.name)]
        try:
            if found.problem:
                raise ValueError(found.problem)
            key = found.positions(table.identifying)
            columns = self._columns(table, found)
            gone = self._gone(table, found)
            reader = RowReader.of(found, columns, key=table.key, gone=gone)
        except (KeyError, ValueError) as error:
            self._refuse(table, unreadable(table, error))
            return None
        self._readers[found] = table, reader
        self._note_new(table, types_in(table, found))
        return key

    def _columns(self, table: TableSpec, described: TableMap) -> tuple[ColumnSpec, ...]:
        """Those that rows have. KeyError names one that they should have, too: a column
        of the plan that the table got behind what is read is not among them."""
        names = {column.name for column in described.columns}
        before = self._seen.setdefault(table.table_id, set())
        found = self._found.get(table.table_id)
        gone = self._gone(table, described)
        for column in table.columns:
            name = column.source_name
            if name in gone:
                continue
            is_later = found is not None and name in found.columns
            if name not in names and (name in before or not is_later):
                raise KeyError(name)
        if known := self.identities.get(table.table_id):
            identity = Identity.decode(known).with_unexplained(names)
            self.identities[table.table_id] = identity.encode()
        if found is None or not names <= found.columns.keys():
            found = self._look_at(table)
        columns = read_as(table, described, found)
        read = {column.source_name for column in columns}
        before |= read
        self.left.pop(table.table_id, None)
        if left := tuple(c.name for c in described.columns if c.name not in read):
            self.left[table.table_id] = left
        return columns

    def _gone(self, table: TableSpec, described: TableMap) -> tuple[str, ...]:
        """Columns of the plan that a statement has dropped."""
        known = self.identities.get(table.table_id)
        gone = Identity.decode(known).gone if known else ()
        there = {column.name for column in described.columns}
        return tuple(name for name in gone_columns(table, there) if name in gone)

    def _refuse(self, table: TableSpec, problem: str) -> None:
        # the first of them is the cause of what follows
        self._lost[table.table_id] = self._at_log.setdefault(table.table_id, problem)
        self._merge()

    def _merge(self) -> None:
        self.problems = {**self._at_look, **self._at_log}

    def _note_new(self, table: TableSpec, types: Mapping[str, str]) -> None:
        self.new_columns.pop(table.table_id, None)
        there = self._found.get(table.table_id)
        gone = gone_columns(table, there.columns) if there else ()
        known = columns_read(table, self.identities.get(table.table_id))
        if found := new_columns(table, types, known) + gone:
            self.new_columns[table.table_id] = found

    def _look_at_tables(self) -> None:
        tables = [*self._tables.values()]
        is_new = any(table.table_id not in self.identities for table in tables)
        begin = self.control.place() if is_new else None
        found = self.control.tables(tables)
        looked = (begin, self.control.place()) if begin else None
        problems, absent = {}, dict[int, tuple[str, ...]]()
        for table in tables:
            name = table.source_schema, table.source_table
            if name in self.control.locked:
                if table.table_id not in self.identities:
                    problems[table.table_id] = unseen(table)
                continue
            if (one := found.get(name)) is None:
                absent[table.table_id] = (table.at_source,)
            problem = problem_of(table, one, self._server, had=self._had(table))
            if one is not None:
                self._found[table.table_id] = one
                if looked and table.table_id not in self.identities:
                    identity = Identity.of(one, looked, key=table.key)
                    self.identities[table.table_id] = identity.encode()
                self._note_new(table, types_of(one))
                known = Identity.decode(self.identities[table.table_id])
                problem = problem or known.problem_of(table)
            if problem:
                problems[table.table_id] = problem
        self._is_to_look = bool(self.control.locked)
        self._at_look, self._absent = problems, absent
        self._lost |= problems
        self._merge()

    def _had(self, table: TableSpec) -> frozenset[str]:
        known = self.identities.get(table.table_id)
        return Identity.decode(known).had if known else frozenset()

    def _drops_key(self, table: TableSpec, effect: Effect) -> bool:
        if effect.keys and (known := self.identities.get(table.table_id)):
            left = Identity.decode(known).guarded_behind(effect.keys)
            if left is None:
                return True
            self.identities[table.table_id] = left.encode()
        return any(name.lower() in effect.drops for name in table.identifying)

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
        require_kept(position, found[0].size if found else None)
        return replace(position, base=found[0].base)

    def _require_same_file(self, event: bytes) -> None:
        (made,) = _WHEN.unpack_from(event)
        if self._place.here.made not in {0, made}:
            raise other_history(self._place.here)

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
            raise log_silent(silent) from error
        if not command or state.startswith(_IDLE):
            raise log_silent(silent)
        self.waits = Sentence(
            "the source works on its log and has sent nothing for %(silent)s s"
            " (%(state)s)",
            silent=int(silent),
            state=state,
        )
