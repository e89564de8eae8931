"""Those who change a source while a job reads it, each on a connection of its own.

A statement that has to wait for a lock is left waiting, as at any source: the job goes
on, and with it perhaps whoever holds the lock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from tests.hostile.source import SOURCE_ERRORS, Side
from tests.spark.lake_bench import LakeBench
from tests.waiting import LIMIT_SECONDS, wait_for

_DEFINITIONS = ("ALTER", "TRUNCATE", "DROP", "RENAME", "VACUUM", "OPTIMIZE", "LOCK")


@dataclass(frozen=True, slots=True)
class Wait:
    """A definition statement that waited for connections of the product."""

    statement: str
    seconds: float


class Actor:
    """Runs `script`, statement by statement, whenever it is told to."""

    def __init__(
        self,
        bench: LakeBench,
        side: Side,
        script: Sequence[str],
        *,
        committed: Callable[[], None],
        network: Mapping[str, Callable[[], object]],
    ) -> None:
        """committed: called behind each statement. network: what a statement is that
        is no SQL."""
        self.waits: list[Wait] = []
        self.errors: list[str] = []
        self._side, self._committed, self._network = side, committed, network
        self._link = side.connect(bench)
        self._monitor = side.connect(bench)
        self._left = list(script)
        self._idle = threading.Event()
        self._idle.set()
        self._waited_for_us = False
        self._moved = threading.Event()
        self._moved.set()

    @property
    def is_done(self) -> bool:
        return not self._left and self._idle.is_set()

    @property
    def is_busy(self) -> bool:
        """Whether its statement waits for somebody."""
        return not self._idle.is_set()

    def advance(self) -> bool:
        """Its next statement, until that is done or waits for a lock. False when there
        is none, or the one before still waits."""
        if self.is_busy or not self._left:
            return False
        statement = self._left.pop(0)
        self._idle.clear()
        self._waited_for_us = False
        threading.Thread(target=self._run, args=(statement,), daemon=True).start()
        end = time.monotonic() + LIMIT_SECONDS
        while not self._idle.wait(0.02):
            if self._asks(self._side.waits) and not self._idle.wait(0.05):
                self._waited_for_us = self._asks(self._side.waits_for_us)
                break
            assert time.monotonic() < end, f"neither done nor waiting: {statement}"
        return True

    def wait_moved(self) -> None:
        """Until the server is there again, which it may be leaving just now."""
        self._moved.wait(LIMIT_SECONDS)

    def settle(self, seconds: float) -> bool:
        return self._idle.wait(seconds)

    def end(self) -> None:
        """Whatever it does, and whatever it holds, is over."""
        self._left.clear()
        # another's restart may have broken it, and it would find out with a statement
        self._monitor.close()
        if self.is_busy:
            if number := self._link.number:  # one who moves the server has none
                self._monitor.run(self._side.end.format(number=number))
            wait_for(self._idle.is_set, "the actor's statement to end")
        self._link.close()
        self._monitor.roll_back_prepared()
        self._monitor.close()

    def _run(self, statement: str) -> None:
        begun = time.monotonic()
        try:
            if statement in self._network:
                self._moved.clear()
                self._network[statement]()
                # it may be broken now, and finds out with the next statement
                self._link.close()
            else:
                self._link.run(statement)
        except SOURCE_ERRORS as error:
            self._fail(statement, error)
        finally:
            if self._waited_for_us and statement.startswith(_DEFINITIONS):
                self.waits.append(Wait(statement, time.monotonic() - begun))
            self._committed()
            self._moved.set()
            self._idle.set()

    def _fail(self, statement: str, error: Exception) -> None:
        self.errors.append(f"{statement}: {error}")
        self._left.clear()
        with suppress(*SOURCE_ERRORS):
            self._link.run("ROLLBACK")

    def _asks(self, question: str) -> bool:
        return self._side.asks(self._monitor, question.format(number=self._link.number))
