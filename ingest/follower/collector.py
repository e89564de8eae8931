"""The one owner of a stream's old segments: once a minute it looks at what every lake
table has applied and which savepoints can be gone back to, and deletes what none needs.

In a thread of its own: to look at hundreds of tables takes seconds.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from core.errors import SluiceError
from ingest.contract.table import TableSpec
from ingest.lake.chain import ChainIndex, collect
from ingest.lake.commits import read_commit, read_lake_table
from ingest.lake.place import place_at
from ingest.lake.port import Place, bytes_below

log = logging.getLogger(__name__)

PERIOD_SECONDS = 60.0


@dataclass(slots=True)
class Collector:
    """first: the first segment that is kept. waiting_bytes: of all that are."""

    folder: Place
    stream: str
    tables: Callable[[], Iterable[TableSpec]]
    first: int = 0
    waiting_bytes: int = 0
    _index: ChainIndex = field(init=False)
    _ended: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._index = ChainIndex(self.folder, self.stream)

    def start(self) -> None:
        threading.Thread(target=self._run, daemon=True).start()

    def stop(self) -> None:
        self._ended.set()

    def collect(self) -> None:
        applied: dict[int, int] = {}
        kept: dict[int, int] = {}
        for table in self.tables():
            _read_table(table, applied, kept)
        # what was applied is read first: a segment that came since is not collected
        while self._index.refresh():
            pass
        first = self._index.needed_from(applied, kept)
        collect(self._index, first=first)
        self.first = max(first, self._index.beginning.number)
        self.waiting_bytes = bytes_below(self.folder)

    def _run(self) -> None:
        while not self._ended.wait(PERIOD_SECONDS):
            try:
                self.collect()
            except (SluiceError, OSError):
                log.exception("nothing of stream %s was collected", self.stream)


def _read_table(
    table: TableSpec, applied: dict[int, int], kept: dict[int, int]
) -> None:
    state = read_lake_table(table.path)
    if state.position is not None:
        applied[table.table_id] = state.position.epoch_to
    base = place_at(table.path)
    for asked in state.timeline.savepoints:
        instant = state.timeline.find(asked)
        position = read_commit(base, instant).position if instant else None
        if position is not None:
            before = kept.get(table.table_id, position.epoch_to)
            kept[table.table_id] = min(before, position.epoch_to)
