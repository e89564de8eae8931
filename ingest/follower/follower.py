"""From a source's log to segments of the lake: what is read becomes durable, and only
then the source may forget it.

Whatever happens ends the process, with a name: who reads on begins at the end of the
last segment. It must not know what kind of source it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from core.errors import TerminalError, TransientError
from core.object_store import is_object_uri
from core.sentences import Sentence, as_sentence
from ingest.contract.following import (
    FollowedTable,
    FollowerState,
    FollowSpec,
    FollowTable,
    Observed,
    SourceLog,
)
from ingest.contract.segments import Control, StreamTable, state_of
from ingest.contract.table import TableSpec
from ingest.follower.collector import Collector, Kept
from ingest.follower.controls import (
    AtSource,
    all_deferred,
    followed,
    is_new_load,
    is_relied_on,
    loaded_identities,
    needed_controls,
)
from ingest.lake.chain import (
    ChainIndex,
    ChainWriter,
    Gap,
    begin_stream,
    remove_orphans,
    stream_folder,
    take_over,
)
from ingest.lake.port import Place
from ingest.lake.segment_files import SegmentBuilder
from ingest.sources.port import LogReader

# Segments come no closer; on an object store each costs a request for writing, and one
# more for each reader.
_SECONDS, _STORE_SECONDS = 0.5, 2.0
# So many bytes of the log make one at once, and so many wait in memory.
_SEGMENT_BYTES, _PART_BYTES = 16 << 20, 4 << 20
# Without rows the position moves on after so long, or so many bytes of the log: else
# the source would keep what is of no use to us.
_IDLE_SECONDS, _IDLE_BYTES = 60.0, 16 << 20
# And so soon while somebody waits for where the log is, which may last an hour.
_AWAITED_SECONDS = 3.0
_STATE_SECONDS, _LOOK_SECONDS = 1.0, 5.0
# Many quiet tables are compared with the stream no more often.
_COMPARE_SECONDS = 1.0
# A load that something prevents from beginning is tried again: its job waits longer.
_AGAIN_SECONDS = 20.0
# What the log has comes at once; new lists are taken up between two reads.
_READ_SECONDS = 0.5
_BEGUN_ANEW = (
    "reading the source's log was started over, so changes are missing; resync the"
    " table (%(why)s)"
)
_LOADED_ELSEWHERE = Sentence(
    "its load was not over as another server took the place of the one that it was read"
    " from; resync the table"
)


class Stopped(Exception):
    """The host wants no more."""


class Host(Protocol):
    """Who wants tables and is told the state."""

    def tables(self, seconds: float = 0.0) -> tuple[FollowTable, ...] | None:
        """A new list, when one came; waits so long for it. `Stopped`."""

    def tell(self, state: FollowerState) -> None: ...


OpenLog = Callable[..., AbstractContextManager[LogReader]]


@dataclass(slots=True)
class Follower:
    """open_log: as `ingest.sources.registry.open_log_reader`, of this source."""

    host: Host
    spec: FollowSpec
    open_log: OpenLog
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    _wanted: tuple[FollowTable, ...] = ()
    _next: tuple[FollowTable, ...] | None = None
    _known: dict[int, StreamTable] = field(default_factory=dict)
    _lost: dict[int, str] = field(default_factory=dict)
    # why tables were deferred, which the log says once
    _reasons: dict[int, str] = field(default_factory=dict)
    # ends of loads that the stream has not come to
    _open_loads: tuple[str, ...] = ()
    _position: str = ""
    _number: int = 0
    _rows: int = 0
    _committed: int = 0
    # what is committed later than this was not in the log as that was read to its end
    _level: int = 0
    _log_state: SourceLog = field(default_factory=SourceLog)
    _observed: Observed = "starting"
    _told: float = float("-inf")
    _made: float = 0.0
    _looked: float = 0.0
    _tried: float = 0.0
    _compared: float = float("-inf")
    # lists that were taken up; and what `_signs` were when there was no news of
    # tables, and when it was put together what is told of them
    _heard: int = 0
    _without_news: tuple[object, ...] = ()
    _put_together: tuple[object, ...] = ()
    _followed: tuple[FollowedTable, ...] = ()

    def run(self) -> None:
        """Until `Stopped`, or an error."""
        self._wanted = self.spec.tables
        folder = stream_folder(self.spec.lake, self.spec.stream)
        index = ChainIndex(folder, self.spec.stream)
        try:
            self._run(index)
        except TransientError as error:
            if error.code == "storage_full":
                # what was applied may be all that fills it: who comes next finds room
                self._collector(folder).try_to_collect()
            raise

    def _run(self, index: ChainIndex) -> None:
        _end_of(index)
        self._tell("starting")
        with self.open_log(
            self._specs(),
            after=lambda: _end_of(index),
            # nothing is lost where no table goes on by the stream
            begin_anew=self.spec.begin_anew
            or not any(state.state != "removed" for state in index.tables().values()),
            wait=self._wait,
        ) as log:
            chain = self._take_over(log, index)
            try:
                self._read_on(log, chain, index)
            except TerminalError:
                # to who was stopped for a while the log seems lost that a newer reader
                # has and lets the source forget
                chain.require_newest()
                raise

    def _read_on(self, log: LogReader, chain: ChainWriter, index: ChainIndex) -> None:
        remove_orphans(index.folder)
        _end_of(index)
        self._known = index.tables()
        self._position, self._number = chain.last.end, chain.last.number
        self._level = index.committed
        # what was changed there while nobody followed is found only by this
        log.follow(self._specs(), loaded=loaded_identities(self._wanted, self._known))
        log.start(chain.last.end)
        collector = self._collector(index.folder)
        collector.first = index.beginning.number
        collector.start()
        try:
            self._follow(log, SegmentBuilder(chain), collector)
        finally:
            collector.stop()

    def _collector(self, folder: Place) -> Collector:
        return Collector(folder, self.spec.stream, self._specs, self._kept)

    def _take_over(self, log: LogReader, index: ChainIndex) -> ChainWriter:
        gap = None
        if log.anew:
            after = index.newest.end if index.newest else ""
            why = Sentence(_BEGUN_ANEW, why=as_sentence(log.anew))
            gap = Gap(after, lambda: self._deferred(_tables_of(index), why))
        elif log.moved:
            gap = Gap(log.moved, lambda: self._carried_over(log, _tables_of(index)))

        begin_stream(index.folder, above=self.spec.above)
        return take_over(
            index.folder,
            stream=self.spec.stream,
            writer=self.spec.writer,
            server=log.server,
            begin=log.begin,
            gap=gap,
        )

    def _deferred(self, known: dict[int, StreamTable], why: str) -> tuple[Control, ...]:
        found = all_deferred(known, why)
        self._reasons |= {one.table_id: one.reason for one in found}
        return found

    def _carried_over(
        self, log: LogReader, known: dict[int, StreamTable]
    ) -> tuple[Control, ...]:
        """Loads that were read from another server: one that was over before its end is
        so from the beginning of this one on. Of places of two servers neither is the
        later one, so no other load can go on."""
        over = [
            table_id
            for table_id, state in known.items()
            if state.state == "finished" and log.has_passed(state.at, at=log.moved)
        ]
        left = {
            table_id: state
            for table_id, state in known.items()
            if state.state in {"cut", "finished"} and table_id not in over
        }
        ended = (Control("finished", table_id, at=log.begin) for table_id in over)
        return (*self._deferred(left, _LOADED_ELSEWHERE), *ended)

    def _follow(
        self, log: LogReader, builder: SegmentBuilder, collector: Collector
    ) -> None:
        self._made = self.clock()
        ends = [s.at for s in self._known.values() if s.state == "finished"]
        self._note_open_loads(log, ends)
        while True:
            self._hear(log, builder)
            is_due = self._has_news(log) or self._is_due(log, builder)
            if is_due and not log.is_within:
                self._make(log, builder)
            log.read(self._pause(log, builder), to_boundary=is_due)
            if log.size >= _PART_BYTES:
                _move(log, builder)
            if self.clock() - self._looked >= _LOOK_SECONDS:
                self._look(log)
            self._try_loads_again(log)
            self._tell("following", log.waits, log=log, collector=collector)

    def _look(self, log: LogReader) -> None:
        now = _micros(self.now())
        self._log_state = log.look()
        self._looked = self.clock()
        if self._log_state.behind == 0:
            self._level = max(self._level, now)

    def _moment(self, committed: int) -> int:
        """A session of MariaDB may set its own time (a replayed log does so), and the
        clock of a server may be set: what waits for how long is told by this."""
        earliest = max(self._level, self._committed)
        return min(max(committed, earliest), _micros(self.now()))

    def _hear(self, log: LogReader, builder: SegmentBuilder) -> None:
        """Takes up a new list, between transactions."""
        tables = self.host.tables()
        self._next = self._next if tables is None else tables
        if log.is_within or self._next is None:
            return
        wanted, self._next = self._next, None
        anew = {one.table.table_id for one in wanted if is_new_load(one, self._known)}
        self._wanted = wanted
        _move(log, builder)
        loaded = loaded_identities(wanted, self._known)
        log.follow(self._specs(), anew=anew, loaded=loaded)
        self._compared = float("-inf")
        self._heard += 1

    def _try_loads_again(self, log: LogReader) -> None:
        """What came before the cut of a load is no matter, so a statement that made its
        table unreadable is not, either: it is followed anew, until it has its cut."""
        if self.clock() - self._tried < _AGAIN_SECONDS:
            return
        self._tried = self.clock()
        if any(
            one.table.table_id in log.problems and is_new_load(one, self._known)
            for one in self._wanted
        ):
            self._next = self._next or self._wanted

    def _pause(self, log: LogReader, builder: SegmentBuilder) -> float:
        """How long it may wait for the next of the log."""
        if not (log.size or builder.rows):
            return _READ_SECONDS
        left = self._period - (self.clock() - self._made)
        return min(max(left, 0.0), _READ_SECONDS)

    @property
    def _period(self) -> float:
        return _STORE_SECONDS if is_object_uri(self.spec.lake) else _SECONDS

    def _is_due(self, log: LogReader, builder: SegmentBuilder) -> bool:
        since = self.clock() - self._made
        if log.size or builder.rows:
            return since >= self._period or log.size >= _SEGMENT_BYTES
        if not log.passed:
            return False
        is_awaited = any(one.is_awaited for one in self._wanted)
        seconds = _AWAITED_SECONDS if is_awaited else _IDLE_SECONDS
        is_late = since >= seconds or log.passed >= _IDLE_BYTES
        return is_late or self._ends_load(log)

    def _ends_load(self, log: LogReader) -> bool:
        """Whether a load is complete by where the log is now, and nothing durable says
        it yet."""
        return any(map(log.has_passed, self._open_loads))

    def _note_open_loads(self, log: LogReader, ends: Iterable[str]) -> None:
        self._open_loads = tuple(
            at for at in ends if at and not log.has_passed(at, at=self._position)
        )

    def _has_news(self, log: LogReader) -> bool:
        """Whether something has to be recorded; asked again until it is."""
        if self.clock() - self._compared < _COMPARE_SECONDS:
            return False
        if (signs := self._signs(log)) == self._without_news:
            return False
        if self._controls(log):
            return True
        self._compared, self._without_news = self.clock(), signs
        return False

    def _signs(self, log: LogReader) -> tuple[object, ...]:
        """The same ones as long as nothing can be other of any table: there are
        hundreds of them, and mostly nothing happens."""
        return self._heard, self._number, self._looked, log.position, log.size

    def _controls(self, log: LogReader) -> tuple[Control, ...]:
        """A table of which something was passed over is deferred, though what comes now
        is whole again: what was lost is noted until the stream has it."""
        self._lost = log.lost() | self._lost
        wanted = {one.table.table_id: one for one in self._wanted}
        for table_id in [*self._lost]:
            if not is_relied_on(wanted.get(table_id), self._known.get(table_id)):
                del self._lost[table_id]
        problems = {**self._lost, **log.problems}
        controls = needed_controls(
            self._wanted,
            self._known,
            problems,
            log.identities,
            log.new_columns,
            log.left,
        )
        # a load that begins earlier would meet what its table was before
        cuts = {one.table_id for one in controls if one.kind == "cut"}
        early = cuts & {*log.unread} if cuts else cuts
        return tuple(one for one in controls if one.table_id not in early)

    def _make(self, log: LogReader, builder: SegmentBuilder) -> None:
        _move(log, builder)
        # behind taking: what could not be taken is said in the segment that lacks it
        controls = self._controls(log)
        rows = builder.rows
        segment = builder.close(
            end=log.position,
            controls=controls,
            committed=self._moment(log.committed) if rows else 0,
        )
        log.acknowledge(segment.end)
        said = ((segment.number, one) for one in controls)
        self._known = state_of(self._known, said)
        self._reasons |= {c.table_id: c.reason for c in controls if c.reason}
        self._position, self._number = segment.end, segment.number
        finished = (one.at for one in controls if one.kind == "finished")
        self._note_open_loads(log, (*self._open_loads, *finished))
        self._rows += rows
        self._committed = max(self._committed, segment.committed)
        self._made = self.clock()

    def _specs(self) -> list[TableSpec]:
        return [one.table for one in self._wanted if not one.is_unread]

    def _kept(self) -> Kept:
        """Segments have rows of all tables: the longest that one of them wants."""
        return Kept(
            max((one.keep_seconds for one in self._wanted), default=0.0),
            max((one.keep_bytes for one in self._wanted), default=0),
        )

    def _wait(self, reason: str) -> None:
        """Called while something at the source is waited for. What the list became
        meanwhile counts later."""
        self._tell("waiting", reason)
        tables = self.host.tables(_READ_SECONDS)
        self._next = self._next if tables is None else tables

    def _tell(
        self,
        observed: Observed,
        reason: str = "",
        *,
        log: LogReader | None = None,
        collector: Collector | None = None,
    ) -> None:
        is_new = observed != self._observed
        if not is_new and self.clock() - self._told < _STATE_SECONDS:
            return
        self._observed, self._told = observed, self.clock()
        self.host.tell(
            FollowerState(
                observed="waiting" if reason else observed,
                reason=reason,
                position=self._position,
                number=self._number,
                first=collector.first if collector else 0,
                committed=self._committed,
                rows=self._rows,
                waiting_bytes=collector.waiting_bytes if collector else None,
                unread=collector.unread if collector else "",
                log=self._log_state,
                tables=self._tables(log),
            )
        )

    def _tables(self, log: LogReader | None) -> tuple[FollowedTable, ...]:
        signs = self._signs(log) if log else ()
        if not signs or signs != self._put_together:
            self._put_together = signs
            self._followed = followed(
                self._wanted,
                self._known,
                log.problems if log else {},
                log.new_columns if log else {},
                AtSource(log.replaced, log.gone, log.older) if log else AtSource(),
                self._reasons,
            )
        return self._followed


def _micros(seconds: float) -> int:
    return int(seconds * 1e6)


def _move(log: LogReader, builder: SegmentBuilder) -> None:
    for rows in log.take():
        builder.add(rows.table_id, rows.schema_version, rows.batch)


def _tables_of(index: ChainIndex) -> dict[int, StreamTable]:
    _end_of(index)
    return index.tables()


def _end_of(index: ChainIndex) -> str | None:
    """Where the stream ends; None when it has no segment. Takes up all of it."""
    if (index.folder / "beginning.json").read() is None:
        return None
    while index.refresh():
        pass
    return index.newest.end if index.newest else None
