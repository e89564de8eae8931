"""What holds at every moment of a fault run: how far the source may forget its log, that
positions only rise, that keys are unique, and that what is gone stays away.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

import psycopg
import pymysql
from pyhive import hive
from thrift.Thrift import TException

from tests.fault.log_sources import LoggedSource, durable_end, place_of
from tests.fault.log_writers import KEYS
from tests.product import Product

# What a look may meet while something is away: the next one finds it again.
AWAY = (
    *(OSError, TException, hive.Error, AssertionError),
    *(psycopg.Error, pymysql.MySQLError),
)
# a query takes as much of the processor as a commit
_QUICK, _SLOW = 0.1, 3.0


@dataclass
class Sampler:
    """Looks again and again, by two threads, as a query takes longer than a position.

    looks  how often each kind of thing was seen
    """

    product: Product
    source: LoggedSource
    stream: Path
    looks: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    _end: tuple[int, int] = (0, 0)
    _applied: dict[str, tuple[int, int]] = field(default_factory=dict)
    _there: set[int] = field(default_factory=set)
    _gone: set[int] = field(default_factory=set)
    _turns: Iterator[str] = field(
        default_factory=lambda: cycle(("once", "texts", "once", "pairs"))
    )
    _ended: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        for look, pause in (
            (self._look_at_log, _QUICK),
            (self._look_at_lake, _SLOW),
            (self._look_at_capture, _SLOW),
        ):
            thread = threading.Thread(target=self._run, args=(look, pause), daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _run(self, look: Callable[[], None], pause: float) -> None:
        while not self._ended.wait(pause):
            with contextlib.suppress(*AWAY):
                look()

    def _saw(self, what: str) -> None:
        self.looks[what] = self.looks.get(what, 0) + 1

    def _look_at_log(self) -> None:
        # the server first: a segment may only come in between
        forgotten = self.source.forgotten()
        end = durable_end(self.stream)
        if end is None:
            return
        place = place_of(end)
        self._saw("log")
        if forgotten is not None and forgotten > place[1]:
            self.wrong.append(f"the server was told {forgotten}, durable is {end}")
        if place < self._end:
            self.wrong.append(f"the stream ended at {self._end}, now it does at {end}")
        self._end = place

    def _look_at_lake(self) -> None:
        with self.product.hive() as link, link.cursor() as cursor:
            while not self._ended.wait(_SLOW):
                table = next(self._turns)
                listed = ", ".join(KEYS[table])
                cursor.execute(f"SELECT {listed} FROM {self.source.name}.{table}")
                found = cursor.fetchall()
                self._saw("lake")
                if len(found) > len({*map(tuple, found)}):
                    self.wrong.append(f"{table} has keys twice")
                if table == "once":
                    self._see({int(row[0]) for row in found})

    def _see(self, now: set[int]) -> None:
        if back := sorted(now & self._gone):
            self.wrong.append(f"rows that were deleted are there again: {back[:5]}")
        if undone := sorted(now & self.source.once.undone):
            self.wrong.append(f"rows that were rolled back are there: {undone[:5]}")
        self._gone |= self._there - now
        self._there = now

    def _look_at_capture(self) -> None:
        found = self.product.api.get(f"/datasources/{self.source.name}/capture")
        self._saw("capture")
        for table in found["tables"]:
            # a load shows a moment that its table has not come up to yet
            if table["applied_position"] and table["state"] == "LIVE":
                name, place = table["name"], place_of(table["applied_position"])
                if place < self._applied.get(name, place):
                    was = self._applied[name]
                    self.wrong.append(f"{name} had applied {was}, now {place}")
                self._applied[name] = place
