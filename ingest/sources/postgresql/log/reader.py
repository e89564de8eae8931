"""The log of a PostgreSQL source, as `LogReader`: set up there, read, looked after."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import psycopg

from core.errors import TerminalError, TransientError
from core.sentences import Sentence, joined
from ingest.contract.following import Replaced, SourceLog
from ingest.contract.segments import AHEAD
from ingest.contract.source_positions import PostgresLog, lsn_of, order_of
from ingest.contract.table import ColumnSpec, TableSpec
from ingest.sources.ahead import ahead_of
from ingest.sources.port import LogNames, LogRows, SourceAccess
from ingest.sources.postgresql.log.connection import (
    LogConnection,
    log_silent,
    sender_of,
)
from ingest.sources.postgresql.log.control import Control, FoundTable, Name
from ingest.sources.postgresql.log.history import last_text
from ingest.sources.postgresql.log.parts import Parts, Rewritten, found_empty, is_since
from ingest.sources.postgresql.log.pgoutput import (
    Begin,
    Commit,
    Decoder,
    Named,
    Relation,
    Rows,
)
from ingest.sources.postgresql.log.publications import (
    BUSY,
    Publications,
    once_published,
)
from ingest.sources.postgresql.log.slot import end_holder, kept_slot
from ingest.sources.postgresql.log.tables import (
    EMPTIED_WITHIN,
    REWRITTEN,
    Identity,
    SourceTable,
    changed_parts,
    gone,
    is_shuffled,
    new_columns,
    passed_over,
    problem_of,
    problem_of_former_rows,
    read_as,
    swapped_names,
    unlogged_for_a_while,
    unseen_for_long,
)
from ingest.sources.postgresql.log.values import RowReader
from ingest.sources.row_batches import columns_in

# Another reader's session ends within this.
FREE_SECONDS = 30
# A connection that is silent for so long is doubted, again after each so many.
_SILENT_SECONDS, _PROBE_SECONDS = 20, 10
# Between two looks at tables and publications; those at the slot are the caller's.
_LOOK_SECONDS = 15
# A look that a lock or a slow source prevents for so long is a problem of its table.
_BUSY_SECONDS = 600
_HERE = "SELECT pg_current_wal_lsn()::text"
# Behind all that can be seen.
_INSERTED = "SELECT pg_current_wal_insert_lsn()::text"


@dataclass(slots=True)
class PostgresLogReader:
    """See `LogReader`."""

    access: SourceAccess
    names: LogNames
    log: LogConnection
    control: Control
    publications: Publications
    started: PostgresLog
    problems: Mapping[int, str] = field(default_factory=dict)
    new_columns: dict[int, tuple[str, ...]] = field(default_factory=dict)
    older: dict[int, dict[str, str | None]] = field(default_factory=dict)
    # what was made anew under a table's name is another one
    replaced: dict[int, Replaced] = field(default_factory=dict)
    left: dict[int, tuple[str, ...]] = field(default_factory=dict)
    # a load drops by its snapshot what came of its table, or of another of its name
    unread: Collection[int] = ()
    dropped: Collection[int] = ()
    identities: dict[int, str] = field(default_factory=dict)
    committed: int = 0
    waits: str = ""
    anew: str = ""
    moved: str = ""
    _tables: tuple[TableSpec, ...] = ()
    _by_name: dict[Name, TableSpec] = field(default_factory=dict)
    _found: dict[Name, FoundTable] = field(default_factory=dict)
    # which table a relation is, or was, under any name
    _known: dict[int, int] = field(default_factory=dict)
    _at_relation: dict[int, str] = field(default_factory=dict)
    # columns that a table's rows had
    _seen: dict[int, set[str]] = field(default_factory=dict)
    _at_look: dict[int, str] = field(default_factory=dict)
    # of which the last look found none
    _absent: dict[int, str] = field(default_factory=dict)
    _lost: dict[int, str] = field(default_factory=dict)
    # partitions in other files than they were, and where the log was as that was found
    _other_files: dict[int, dict[Rewritten, int]] = field(default_factory=dict)
    # since when what has to be looked at is locked, or takes too long
    _busy: dict[int, float] = field(default_factory=dict)
    _readers: dict[Relation, tuple[TableSpec, RowReader]] = field(default_factory=dict)
    _messages: deque[bytes] = field(default_factory=deque)
    _decoder: Decoder = field(init=False)
    _end: int = 0
    _begun: int = 0
    _has_rows: bool = False
    _anew: Collection[int] = ()
    _money: int = 2
    _looked: float = 0.0
    # what the last look could see, where it left nothing open; "" = it did
    _seen_all: str = ""
    _probed: float = 0.0

    def __post_init__(self) -> None:
        self._decoder = Decoder(self._wanted, self._is_wanted, self._note_other_name)
        self._money = self.control.money_digits()

    @property
    def server(self) -> str:
        return self.started.identity

    @property
    def begin(self) -> str:
        return self.started.encode()

    @property
    def is_within(self) -> bool:
        return self._decoder.is_within

    @property
    def size(self) -> int:
        return self._decoder.size

    @property
    def position(self) -> str:
        last = last_text(self._decoder.last, self.publications.in_use)
        now = replace(self.started, lsn=self._reached, last=last or self.started.last)
        return now.encode()

    @property
    def passed(self) -> int:
        return self._reached - self.log.durable

    def has_passed(self, wanted: str, *, at: str = "") -> bool:
        return order_of(at or self.position, wanted) in {"after", "equal"}

    def here(self) -> str:
        here = lsn_of(str(self.control.rows(_HERE)[0][0]))
        return replace(self.started, lsn=here).encode()

    def follow(
        self,
        tables: Sequence[TableSpec],
        *,
        anew: Collection[int] = (),
        loaded: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        kept = {table.table_id for table in tables}
        changed = {table.table_id for table in {*self._tables} ^ {*tables}}
        self._seen = {k: v for k, v in self._seen.items() if k not in anew}
        for table_id in changed | {*anew}:
            self.left.pop(table_id, None)
            self._busy.pop(table_id, None)
            self._at_relation.pop(table_id, None)
            self.publications.forget(table_id)
        for table_id in {*anew} | changed - {*loaded}:
            self.identities.pop(table_id, None)
        for table_id, said in loaded.items():
            # what was read since the stream's last segment is not in that
            later = Identity.decode(self.identities.get(table_id, said))
            self.identities[table_id] = Identity.decode(said).joined(later).encode()
        self._known = {
            oid: table_id
            for oid, table_id in self._known.items()
            if table_id in kept and table_id not in changed | {*anew}
        }
        self._tables = tuple(tables)
        self._by_name = {(t.source_schema, t.source_table): t for t in tables}
        self.new_columns = {k: v for k, v in self.new_columns.items() if k in kept}
        self._look_at_tables()
        self._anew = anew
        self._decoder.look_again()
        self._anew = ()

    def start(self, after: str) -> None:
        self.started = position = PostgresLog.decode(after)
        name, in_use = self.names.slot, self.publications.in_use
        until = time.monotonic() + FREE_SECONDS
        while True:
            slot = kept_slot(self.control.slot(name), name, position)
            if slot.is_active:
                end_holder(self.control.connection, name)
            try:
                self.log.start(name, in_use, after=position.lsn)
                break
            except TransientError as error:
                if "is active" not in error.message or time.monotonic() > until:
                    raise
                time.sleep(0.1)
        self._end = position.lsn

    def read(self, seconds: float, *, to_boundary: bool = False) -> None:
        if not self._messages:
            self._messages.extend(self.log.read(seconds))
            self._seen_all = "" if self._messages else self._seen_all
            self._doubt()
        while self._messages:
            what = self._decoder.decode(self._messages.popleft())
            if what is None:
                continue
            if isinstance(what, Begin):
                self._begun, self._has_rows = self._decoder.size, False
            elif isinstance(what, Commit):
                self._end = max(self._end, what.end)
                if self._has_rows or self._decoder.size > self._begun:
                    self.committed = what.committed
                if to_boundary:
                    return

    def take(self) -> list[LogRows]:
        found = []
        for rows in self._decoder.take():
            table, reader = self._readers[rows.relation]
            self._note_parts(rows)
            if table.table_id in self._at_relation:
                continue
            if one := self._batch(table, reader, rows):
                found.append(one)
        self._begun, self._has_rows = 0, bool(found)
        return found

    @property
    def gone(self) -> Mapping[int, tuple[str, ...]]:
        return {k: (n,) for k, n in self._absent.items() if k not in self._at_relation}

    def lost(self) -> dict[int, str]:
        found, self._lost = self._lost, {}
        return found

    def acknowledge(self, position: str) -> None:
        self.log.acknowledge(PostgresLog.decode(position).lsn)

    def look(self) -> SourceLog:
        after = replace(self.started, lsn=self.log.durable)
        slot = kept_slot(self.control.slot(self.names.slot), self.names.slot, after)
        behind = max(0, lsn_of(str(self.control.rows(_HERE)[0][0])) - self.log.durable)
        if time.monotonic() - self._looked > _LOOK_SECONDS and not self._is_unchanged():
            self._look_at_tables()
        return SourceLog(slot.kept, slot.left, behind, slot.status)

    def _is_unchanged(self) -> bool:
        """Whether another look would see what the last one saw. Whoever alters anything
        at a source is a transaction, with a number of its own, that ends there."""
        return bool(self._seen_all) and self._seen_all == self.control.snapshot()

    @property
    def _reached(self) -> int:
        """What a keepalive says holds once all before it is decoded."""
        if self._messages or self._decoder.is_within:
            return self._end
        self._end = max(self._end, self.log.sent_to)
        return self._end

    def _note_parts(self, rows: Rows) -> None:
        """What the log shows of a table's partitions, for the next look at them."""
        if not rows.parts:
            return
        table, _ = self._readers[rows.relation]
        found = self._found.get((table.source_schema, table.source_table))
        said = self.identities.get(table.table_id)
        if said and found:
            then = Identity.decode(said)
            if found.kind == "p":
                # soon, as their rows may be changed
                self._looked, self._seen_all = 0.0, ""
            elif then.is_listed:
                return
            parts = then.parts.noted(rows.parts)
            self.identities[table.table_id] = replace(then, parts=parts).encode()

    def _batch(self, table: TableSpec, reader: RowReader, rows: Rows) -> LogRows | None:
        if rows.lacks_old:
            self._refuse(table, problem_of_former_rows(table))
            return None
        try:
            batch = reader.batch(rows)
        except TerminalError as error:
            self._refuse(table, joined((error.message, error.hint)))
            return None
        is_ahead = bool(ahead_of(table, columns_in(batch.schema)))
        return LogRows(
            table.table_id, AHEAD if is_ahead else table.schema_version, batch
        )

    def _is_wanted(self, named: Named) -> bool:
        if (named.schema, named.name) in self._by_name:
            return True
        self._note_other_name(named)
        return False

    def _wanted(self, relation: Relation) -> tuple[int, ...] | None:
        table = self._by_name[relation.schema, relation.name]
        said = self.identities.get(table.table_id)
        if said and Identity.decode(said).oid != relation.oid:
            # another one has its name for a while, or from here on: a look tells
            self._looked, self._seen_all = 0.0, ""
            self._note_other_name(relation)
            return None
        described = self._described(table, relation)
        later = self._later(table)
        problem = problem_of(table, described, later=later)
        if problem := problem or self._shuffled(table, relation):
            # what was described before may be mended: until it is described anew there
            # are only rows of before, which a load behind this look shows
            is_mended = table.table_id in self._anew
            if not is_mended or table.table_id in self._at_look:
                self._refuse(table, problem)
            return None
        self._at_relation.pop(table.table_id, None)
        self._merge()
        self._note_new(table, new_columns(table, described))
        columns = self._columns(table, described)
        reader = RowReader.of(relation, columns, money_digits=self._money)
        self._readers[relation] = table, reader
        return relation.positions(table.identifying)

    def _described(self, table: TableSpec, relation: Relation) -> SourceTable:
        """Of columns that no look has seen the catalog is asked now."""
        name = relation.schema, relation.name
        found = self._found.get(name)
        known = {column.name for column in found.table.columns} if found else set()
        if any(column.name not in known for column in relation.columns):
            now = self.control.tables([table])
            self._found = {**self._found, **now}
            found = now.get(name, found)
        generated = found.table.generated if found else frozenset()
        return self.control.described(relation, generated)

    def _shuffled(self, table: TableSpec, relation: Relation) -> str:
        found = self._found.get((relation.schema, relation.name))
        then = self._met(table.table_id)
        if found is None or then is None:
            return ""
        names = [column.name for column in relation.columns]
        dropped = [n for n, by in found.dropped.items() if is_since(by, then.met)]
        if not is_shuffled(names, found.sent, dropped):
            return ""
        return swapped_names(table)

    def _met(self, table_id: int) -> Identity | None:
        """As what it was; None within a transaction that its load shows all of."""
        said, xid = self.identities.get(table_id), self._decoder.xid
        then = Identity.decode(said) if said else None
        return then if then and (xid < 0 or is_since(xid, then.met)) else None

    def _later(self, table: TableSpec) -> set[str]:
        """Columns of the plan that the table may have got behind what is read: they are
        there, and no row had them yet. Who applies them refuses those of which it knows
        an older value."""
        found = self._found.get((table.source_schema, table.source_table))
        if found is None:
            return set()
        before = self._seen.get(table.table_id, set())
        highest = then.highest if (then := self._met(table.table_id)) else 0
        new = {name for name, number in found.numbers.items() if number > highest}
        return new - before - {*table.identifying}

    def _columns(
        self, table: TableSpec, described: SourceTable
    ) -> tuple[ColumnSpec, ...]:
        found = self._found.get((table.source_schema, table.source_table))
        said = self.identities.get(table.table_id)
        file = Identity.decode(said).file if said else 0
        now = found.logged_since(file) if found else None
        columns = read_as(table, described, now)
        names = {column.source_name for column in columns}
        self._seen.setdefault(table.table_id, set()).update(names)
        left = [c.name for c in described.columns if c.name not in names]
        self._note_left(table, left, found)
        return columns

    def _note_other_name(self, named: Named) -> None:
        """It may have its own again before anybody looks at it."""
        is_new = self._decoder.is_within and self._met(self._known.get(named.oid, 0))
        other = f"{named.schema}.{named.name}"
        for table in self._tables if is_new else ():
            if table.table_id == self._known[named.oid] and table.at_source != other:
                self._refuse(table, passed_over(table, other))

    def _refuse(self, table: TableSpec, problem: str) -> None:
        self._at_relation[table.table_id] = self._lost[table.table_id] = problem
        self._merge()

    def _merge(self) -> None:
        self.problems = {**self._at_look, **self._at_relation}

    def _note_left(
        self, table: TableSpec, left: Iterable[str], found: FoundTable | None
    ) -> None:
        """Among them what PostgreSQL generates, and the log lacks, until it does not
        any more (DROP EXPRESSION)."""
        made = found.table.generated if found else ()
        self.left[table.table_id] = tuple(sorted({*left, *made}))

    def _note_new(self, table: TableSpec, names: tuple[str, ...]) -> None:
        self.new_columns.pop(table.table_id, None)
        if names:
            self.new_columns[table.table_id] = names

    def _look_at_tables(self) -> None:
        before, self._seen_all = self.control.snapshot(), ""
        if self.publications.in_use:
            self.publications.require()
        self._found = self.control.tables(self._tables)
        self._absent = {}
        problems = {}
        fit = []
        for table in self._tables:
            found = self._found.get((table.source_schema, table.source_table))
            problem = self._problem_of_table(table, found)
            if problem:
                problems[table.table_id] = problem
            else:
                fit.append(table)
            if found is None:
                self._absent[table.table_id] = table.at_source
            else:
                self._note_new(table, new_columns(table, found.table))
                self._note_left(table, self.left.get(table.table_id, ()), found)
        unpublished = self.publications.cover(fit)
        identities = self._problems_of_identities()
        self._at_look = identities | problems | unpublished
        self._at_look |= once_published(identities, unpublished, of=self._absent)
        # once they are in it, only this says that they were not
        self._lost |= self.publications.added() | self._at_look
        self._merge()
        self._looked = time.monotonic()
        is_open = self.problems or self._other_files or self._busy or self._messages
        if not is_open and self.publications.is_settled:
            self._seen_all = before

    def _problem_of_table(self, table: TableSpec, found: FoundTable | None) -> str:
        if found is None:
            said = self.identities.get(table.table_id)
            now = self.control.name_of(Identity.decode(said).oid) if said else ""
            return gone(table, now=now)
        return found.problem_of(table)

    def _problems_of_identities(self) -> dict[int, str]:
        """Of tables that became other ones. While it is not known by which publications
        the log is read, no identity is whole."""
        problems = {}
        for rows in self._decoder.waiting():
            self._note_parts(rows)
        with contextlib.ExitStack() as behind_a_wait:
            for table in self._tables if self.publications.in_use else ():
                found = self._found.get((table.source_schema, table.source_table))
                if found is None:
                    continue
                try:
                    problem = self._problem_of_identity(table, found)
                    self._busy.pop(table.table_id, None)
                except BUSY as error:
                    problem = self._unseen_for_long(table, error)
                    behind_a_wait.enter_context(self.control.unwaiting())
                if problem:
                    problems[table.table_id] = problem
        return problems

    def _problem_of_identity(self, table: TableSpec, found: FoundTable) -> str:
        said = self.identities.get(table.table_id, "")
        unknown = Identity.decode(said).parts.unknown(found.parts) if said else ()
        empty = self.control.empty(unknown) if unknown else ()
        now = replace(
            Identity.of(table, found.oid, found.numbers, found.altered, found.uniques),
            members=self.publications.by_which(table),
            file=found.file,
            since=found.oldest,
            met=found.oldest,
            highest=found.highest,
            forms=found.forms,
            parts=Parts({**found_empty(found.parts, empty)}),
        )
        then = Identity.decode(said) if said else now
        self._known[then.oid] = table.table_id
        if then.oid != now.oid:
            self._absent[table.table_id] = table.at_source
        problem = (
            then.problem_of(table, now)
            or self._rewritten(table, then, now, found.made)
            or self._emptied_within(table, then, now)
        )
        if not problem:
            waits = table.table_id in {*self.new_columns, *self._other_files}
            later = then.renewed(now, has_more=waits)
            self.identities[table.table_id] = later.encode()
        return problem

    def _unseen_for_long(self, table: TableSpec, error: psycopg.Error) -> str:
        """ "" for so long as what is in the way may go."""
        since = self._busy.setdefault(table.table_id, time.monotonic())
        if time.monotonic() - since < _BUSY_SECONDS:
            return ""
        return unseen_for_long(table, str(error).partition("\n")[0])

    def _rewritten(
        self, table: TableSpec, then: Identity, now: Identity, made: int
    ) -> str:
        """Once the log is read beyond where they were found: before, the TRUNCATE of
        the table may come yet."""
        before = self._other_files.pop(table.table_id, {})
        rewritten = then.parts.rewritten(now.parts.all)
        why = changed_parts(table, REWRITTEN)
        if not now.parts.all and self._may_be_unlogged(then, now, made):
            rewritten, why = frozenset({("", made)}), unlogged_for_a_while(table)
        if not rewritten:
            return ""
        here = lsn_of(str(self.control.rows(_INSERTED)[0][0]))
        found = {one: before.get(one, here) for one in rewritten}
        self._other_files[table.table_id] = found
        if all(place > self._reached for place in found.values()):
            return ""
        return why

    def _may_be_unlogged(self, then: Identity, now: Identity, made: int) -> bool:
        """Rows get another transaction's number by that, but not by VACUUM FULL."""
        return then.may_be_unlogged(now, made) and not self.control.has_row_before(
            now.oid, then.since
        )

    def _emptied_within(self, table: TableSpec, then: Identity, now: Identity) -> str:
        for one in then.parts.doubtful(now.parts.all):
            if one.is_sure or not self.control.has_row_of(
                now.oid, one.number, one.xids
            ):
                return changed_parts(table, EMPTIED_WITHIN)
        return ""

    def _doubt(self) -> None:
        """Silence is nothing special while the server sends beats; without them the
        connection may be dead, or the server is at work on a transaction that it does
        not send yet."""
        silent = self.log.silent_for
        if silent < _SILENT_SECONDS:
            self.waits = ""
            return
        if time.monotonic() - self._probed < _PROBE_SECONDS:
            return
        self._probed = time.monotonic()
        try:
            kind, event = sender_of(self.access, self.log, seconds=_PROBE_SECONDS)
        except psycopg.Error as error:
            raise log_silent(silent) from error
        if kind in {"Activity", "Client"}:
            raise log_silent(silent)
        self.waits = Sentence(
            "the source works on its log and has sent nothing for %(silent)s s, as"
            " with a very large transaction",
            silent=int(silent),
        )
        if kind:
            self.waits = Sentence(
                "%(what)s (it waits for %(kind)s %(event)s)",
                what=self.waits,
                kind=kind,
                event=event,
            )
