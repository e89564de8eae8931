"""Blocking work of one kind on the metadata database: threads, turns and a circuit
breaker of its own, so that what one kind suffers no other feels.

Time spent waiting for a turn never counts against the database.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar, TypeVar

import psycopg
from django.db import DEFAULT_DB_ALIAS, InterfaceError, OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from core.errors import TransientError
from core.retries import CircuitBreaker
from gateway.fair import Caller, FairPlaces, TooManyWait

log = logging.getLogger(__name__)
T = TypeVar("T")

# A connection that worked so lately is used without asking it first.
FRESH_SECONDS = 2.0
BREAKER_AFTER = 3
BREAKER_SECONDS = 2.0
WAITING, WAITING_EACH = 500, 100
# a database that is slow to answer is not the caller's doing
LONGEST_REST = 1.0
_AWAY = (OperationalError, InterfaceError, psycopg.Error, OSError, TimeoutError)


class DatabaseAway(TransientError):
    """The metadata database did not answer; nothing was decided or changed."""

    default_code: ClassVar[str] = "database_away"


class WorkQueue:
    """Awaitable work of one kind; `seconds` for the work, and for its turn as many."""

    def __init__(
        self,
        kind: str,
        *,
        threads: int,
        seconds: float,
        waiting: int = WAITING,
        waiting_each: int = WAITING_EACH,
    ) -> None:
        self.kind = kind
        self.breaker = CircuitBreaker(BREAKER_SECONDS, failures=BREAKER_AFTER)
        self.last_read = time.monotonic()
        self._seconds = seconds
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=kind)
        self._places = FairPlaces(threads, waiting=waiting, waiting_each=waiting_each)
        self._opened: set[BaseDatabaseWrapper] = set()
        self._thread = threading.local()

    @property
    def is_open(self) -> bool:
        """True while the circuit breaker lets calls through."""
        return self.breaker.allows(time.monotonic())

    async def run(self, caller: Caller, work: Callable[[], T]) -> T:
        """Return what `work` returns in a thread; TooManyWait when its turn does not
        come, DatabaseAway when the database does not answer."""
        self._require_open()
        try:
            async with asyncio.timeout(self._seconds):
                await self._places.acquire(caller)
        except TimeoutError:
            raise TooManyWait(
                "no turn came for a call of the kind %(kind)s within %(seconds)s s",
                kind=self.kind,
                seconds=f"{self._seconds:.0f}",
                hint="try again later",
            ) from None
        loop = asyncio.get_running_loop()
        began = loop.time()
        future = loop.run_in_executor(self._pool, self._hygienic, work)

        def release(done: asyncio.Future[T]) -> None:
            has_failed = done.cancelled() or done.exception() is not None
            rest = caller.rests * (loop.time() - began) if has_failed else 0.0
            self._places.release(
                caller, rest=max(min(rest, LONGEST_REST), caller.pause)
            )

        # a call without a waiter still holds its thread
        future.add_done_callback(release)
        return await self.answered(future)

    async def answered(self, work: Awaitable[T]) -> T:
        """Await work that has begun; DatabaseAway when there is no answer in time."""
        future = asyncio.ensure_future(work)
        # the caller may be gone by then: its error is not one of the log
        future.add_done_callback(lambda f: f.cancelled() or f.exception())
        try:
            async with asyncio.timeout(self._seconds):
                result = await asyncio.shield(future)
        except _AWAY as error:
            self._count_failure(error)
            raise _away() from error
        self.breaker.succeed()
        self.last_read = time.monotonic()
        return result

    async def ask(self, begin: Callable[[], Awaitable[T]]) -> T:
        """Begin work that needs no thread, and await it."""
        self._require_open()
        return await self.answered(begin())

    async def close(self) -> None:
        await asyncio.to_thread(self._pool.shutdown, wait=True, cancel_futures=True)
        await asyncio.to_thread(self._close_connections)

    def _require_open(self) -> None:
        if not self.is_open:
            raise _away()

    def _hygienic(self, work: Callable[[], T]) -> T:
        """Run in a pool thread; a connection that failed is never used again."""
        opened = connections[DEFAULT_DB_ALIAS]
        self._opened.add(opened)
        now = time.monotonic()
        if now - getattr(self._thread, "used", 0.0) > FRESH_SECONDS:
            opened.close_if_unusable_or_obsolete()  # a round trip of its own
        self._thread.used = now
        try:
            return work()
        except (OperationalError, InterfaceError):
            opened.close()
            raise

    def _close_connections(self) -> None:
        for opened in self._opened:
            opened.inc_thread_sharing()
            opened.close()

    def _count_failure(self, error: BaseException) -> None:
        self.breaker.fail(time.monotonic())
        log.warning(
            "the metadata database did not answer a call of the kind %s: %s",
            self.kind,
            type(error).__name__,
        )


def _away() -> DatabaseAway:
    return DatabaseAway(
        "the metadata database does not answer; the statement gets no answer",
        hint="try again in a few seconds",
    )
