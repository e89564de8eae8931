"""The one owner of a stream's old segments: once a minute it looks at what every lake
table has applied and which savepoints can be gone back to, and deletes what none needs.

In a thread of its own: to look at hundreds of tables takes seconds.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from core.errors import SluiceError
from core.sentences import Sentence
from ingest.contract.table import TableSpec
from ingest.lake.chain import ChainIndex, collect
from ingest.lake.commits import read_commit, read_lake_table, read_timeline
from ingest.lake.folding import Folder
from ingest.lake.hudi.timeline import Timeline
from ingest.lake.place import place_at
from ingest.lake.port import Place, bytes_below

log = logging.getLogger(__name__)

PERIOD_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class _Seen:
    """Of a lake table: the epoch of its newest commit, and the lowest of those that
    its savepoints go back to, None = there is none; and the timeline that says so."""

    applied: int | None
    kept: int | None
    timeline: Timeline


@dataclass(frozen=True, slots=True)
class Kept:
    """seconds: changes that were committed since then are kept. most_bytes: of them."""

    seconds: float = 0.0
    most_bytes: int = 0


@dataclass(slots=True)
class Collector:
    """first: the first segment that some table needs. waiting_bytes: of those from it
    on, and of folds; None until they were counted. unread: which lake table cannot be
    read, and why, "" = all can. kept: what is kept beyond that for readers of changes.
    now: seconds since 1970.

    A lake table that cannot be read holds what it held when it last could, and all of
    its own before it could once: what the others applied goes all the same.
    """

    folder: Place
    stream: str
    tables: Callable[[], Iterable[TableSpec]]
    kept: Callable[[], Kept] = lambda: Kept()
    now: Callable[[], float] = time.time
    first: int = 0
    waiting_bytes: int | None = None
    unread: str = ""
    _index: ChainIndex = field(init=False)
    _folder: Folder = field(init=False)
    _seen: dict[int, _Seen | None] = field(default_factory=dict)
    _ended: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._index = ChainIndex(self.folder, self.stream)
        self._folder = Folder(self._index)

    def start(self) -> None:
        threading.Thread(target=self._run, daemon=True).start()

    def stop(self) -> None:
        self._ended.set()

    def try_to_collect(self) -> None:
        try:
            self.collect()
        except Exception:
            # whatever it is, the next time may be better: without this thread the
            # lake fills until the follower is started again
            log.exception("nothing of stream %s was collected", self.stream)

    def collect(self) -> None:
        problems: list[str] = []
        self._seen = {
            one.table_id: self._look_at(one, problems) for one in self.tables()
        }
        self.unread = problems[0] if problems else ""
        # what was applied is read first: a segment that came since is not collected
        self._take_up()
        needs, newest = self._index.needs(*self._needs()), self._newest
        recent = self._recent(before=self._index.needed_from(needs))
        collect(self._index, first=recent, needs=needs)
        self._take_up()
        # to fold takes room, and who waits is to be known where there is none
        self._count(needs, recent)
        while self._folder.fold(needs, before=self._recent(before=newest)):
            self._take_up()
            self._count(needs, recent)

    def _count(self, needs: Mapping[int, int], recent: int) -> None:
        recent = max(recent, self._index.beginning.number)
        first = self._index.needed_from(needs)
        folded = self._index.folded_from(needs)
        self.first = first if folded is None else folded
        every = bytes_below(self.folder)
        self.waiting_bytes = every - self._index.bytes_between(recent, first)

    def _take_up(self) -> None:
        while self._index.refresh():
            pass

    @property
    def _newest(self) -> int:
        newest = self._index.newest
        return newest.number if newest else self._index.beginning.number

    def _recent(self, *, before: int) -> int:
        """The first segment before that one that readers of changes may want."""
        kept = self.kept()
        if not kept.seconds:
            return before
        since = int((self.now() - kept.seconds) * 1e6)
        return self._index.recent_from(before, since=since, most_bytes=kept.most_bytes)

    def _look_at(self, table: TableSpec, problems: list[str]) -> _Seen | None:
        try:
            return _read_table(table, self._seen.get(table.table_id))
        except Exception as error:
            log.exception("%s cannot be read: what it needs is kept", table.path)
            problems.append(
                Sentence(
                    "lake table %(table)s cannot be read, so segments that it may"
                    " need are kept: %(why)s",
                    table=f"{table.database}.{table.name}",
                    why=error.message
                    if isinstance(error, SluiceError)
                    else Sentence("see its log"),
                )
            )
            return self._seen.get(table.table_id)

    def _needs(self) -> tuple[dict[int, int], dict[int, int]]:
        """What was applied, and the savepoints, as `needed_from` has them."""
        applied: dict[int, int] = {}
        kept: dict[int, int] = {}
        for table_id, seen in self._seen.items():
            if seen is None:  # as if none of what is there were applied
                applied[table_id] = self._index.beginning.last_lost(table_id)
                continue
            if seen.applied is not None:
                applied[table_id] = seen.applied
            if seen.kept is not None:
                kept[table_id] = seen.kept
        return applied, kept

    def _run(self) -> None:
        while not self._ended.wait(PERIOD_SECONDS):
            self.try_to_collect()


def _read_table(table: TableSpec, before: _Seen | None) -> _Seen:
    """before: what was seen last; it still holds where nothing happened since."""
    base = place_at(table.path)
    timeline = read_timeline(base)
    if before is not None and before.timeline == timeline:
        return before
    state = read_lake_table(table.path, commits=1, timeline=timeline)
    instants = (timeline.find(asked) for asked in timeline.savepoints)
    positions = (read_commit(base, one).position for one in instants if one)
    kept = min((one.epoch_to for one in positions if one), default=None)
    applied = state.position.epoch_to if state.position else None
    return _Seen(applied, kept, timeline)
