"""Reads one result from the engine, at most one batch ahead of its client.

What is read ahead is bounded per batch and over all results; where there is no room,
the engine is asked when the client asks. Must not know clients or encodings.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable
from dataclasses import dataclass

from gateway.budget import Budget
from gateway.engines.port import (
    EngineColumn,
    EngineOperation,
    EngineRefused,
    EngineSession,
    EngineUnavailable,
    FetchedBatch,
    Orientation,
)
from gateway.hs2.rowset import RowSetRest

# Few enough to be cheap when rows are enormous, or when no more are fetched.
FIRST_ROWS = 100
FIRST_BYTES = 64 * 1024
# A batch that has fewer rows than asked for, but neither so many bytes nor took so
# long, is the last one; see `BoundedRows`.
FULL_BYTES = 4 * 1024 * 1024
FULL_SECONDS = 0.4
# Small texts of so many bytes are sliced within 10 ms; a larger batch in a thread.
SLICED_AT_ONCE = 256 * 1024


@dataclass(frozen=True, slots=True)
class _Rest:
    """Rows of `batch` that its client has not asked for yet."""

    batch: FetchedBatch
    rows: RowSetRest

    def take(self, most: int) -> FetchedBatch:
        count = min(most, self.rows.rows)
        row_set = self.rows.take(count)
        has_more = self.rows.rows > 0 or self.batch.has_more_rows
        return FetchedBatch(row_set, has_more, count)


def first_rows(room: Budget[ResultReader, ResultReader]) -> int:
    """How many rows to ask for with a statement, as far as there is room: nearly every
    client wants them at once, and for many plans the engine computes nothing before."""
    return 0 if room.is_beyond_total(FIRST_BYTES) else FIRST_ROWS


class ResultReader:
    """One statement's result. Calls must not overlap, `end` and `close` excepted.

    `room` is for rows that clients have not asked for yet; each batch is a share."""

    def __init__(
        self,
        session: EngineSession,
        operation: EngineOperation,
        room: Budget[ResultReader, ResultReader],
    ) -> None:
        self.is_at_end = False  # the engine has nothing more to do for it
        self._session = session
        self._operation = operation
        self._room = room
        self._ahead: asyncio.Future[FetchedBatch] | None = None
        self._rest: _Rest | None = None
        self._is_moved = False
        self._failure: EngineRefused | None = None
        self._is_closed = False
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asked_at: float | None = None

    @property
    def seconds_under_way(self) -> float:
        """How long the engine works on rows that have not come; 0 when it does not."""
        return 0.0 if self._asked_at is None else time.monotonic() - self._asked_at

    async def begin(
        self, first: Awaitable[FetchedBatch], max_rows: int
    ) -> tuple[EngineColumn, ...] | None:
        """Return the columns once the first batch has come, of so many rows at most;
        None when the engine has none yet. Raise what it says of them."""
        ahead = self._await(first, max_rows, FIRST_BYTES if max_rows else 0)
        batch = await self._arrival(ahead)
        if batch.columns is None or not max_rows:
            self._ahead = None
            self._hold(0)
            self.is_at_end = False
        return batch.columns

    async def fetch(self, orientation: Orientation, max_rows: int) -> FetchedBatch:
        """Return the next rows, or the first; none at the end.

        Once rows could not be read there is no next: the engine would go on behind
        those that are missing.
        """
        self._require_not_ended()
        if self._session.is_closed or self._is_closed:
            raise EngineUnavailable(
                "the engine that held this result is gone",
                hint="run the statement again",
            )
        if orientation is Orientation.FIRST and self._is_moved:
            await self._rewind()
        elif self._failure:
            raise self._failure
        self._is_moved = True
        try:
            batch = await self._next(orientation, max_rows)
        except EngineRefused as error:
            self._failure = error
            raise
        self._look_further(batch, max_rows)
        return batch

    def end(self, reason: EngineRefused) -> None:
        """Read no further; who waits for rows is told the reason at once."""
        if not self._ended.done():
            self._ended.set_exception(reason)
            self._ended.exception()  # nobody may be waiting

    def _require_not_ended(self) -> None:
        if self._ended.done():
            self._ended.result()

    async def _arrival(self, ahead: asyncio.Future[FetchedBatch]) -> FetchedBatch:
        """Return what comes; a caller that leaves, leaves it to the next one."""
        if not ahead.done():
            await asyncio.wait(
                (ahead, self._ended), return_when=asyncio.FIRST_COMPLETED
            )
        self._require_not_ended()
        return ahead.result()

    def close(self) -> None:
        """Let go of what was read ahead. Idempotent."""
        self._is_closed = True
        if self._rest or (self._ahead and self._ahead.done()):
            self._hold(0)
        self._ahead = self._rest = None

    async def _rewind(self) -> None:
        """Forget what was read ahead; two reads must not meet in the engine."""
        self._failure = None
        if self._rest:
            self._rest = None
            self._hold(0)
        if self._ahead:
            with contextlib.suppress(EngineRefused):
                await self._arrival(self._ahead)
            self._require_not_ended()
            self._ahead = None
            self._hold(0)

    async def _next(self, orientation: Orientation, max_rows: int) -> FetchedBatch:
        if self._rest:
            return self._take(self._rest, max_rows)
        ahead = self._ahead or self._read_ahead(orientation, max_rows, 0)
        batch = None
        try:
            batch = await self._arrival(ahead)
        finally:
            if ahead.done() and (batch is None or batch.rows <= max_rows):
                self._ahead = None
                self._hold(0)
        if batch.rows <= max_rows:
            return batch
        # who leaves meanwhile leaves the batch to the next call
        self._rest = _Rest(batch, await _sliced(batch.row_set))
        self._ahead = None
        return self._take(self._rest, max_rows)

    def _take(self, rest: _Rest, max_rows: int) -> FetchedBatch:
        part = rest.take(max_rows)
        if not rest.rows.rows:
            self._rest = None
            self._hold(0)
        return part

    def _look_further(self, batch: FetchedBatch, max_rows: int) -> None:
        is_last = 0 <= batch.rows < min(max_rows, FIRST_ROWS)
        is_ahead = self._ahead or self._rest
        if is_ahead or self._is_closed or batch.rows <= 0 or is_last:
            return
        estimate = len(batch.row_set) * max_rows // batch.rows
        if self._room.fits(self, estimate):
            self._read_ahead(Orientation.NEXT, max_rows, estimate)

    def _read_ahead(
        self, orientation: Orientation, max_rows: int, estimate: int
    ) -> asyncio.Future[FetchedBatch]:
        fetched = self._session.fetch(self._operation, orientation, max_rows)
        return self._await(fetched, max_rows, estimate)

    def _await(
        self, fetched: Awaitable[FetchedBatch], max_rows: int, estimate: int
    ) -> asyncio.Future[FetchedBatch]:
        self._hold(estimate)
        self._ahead = asyncio.ensure_future(self._ask(fetched, max_rows))
        self._ahead.add_done_callback(self._arrived)
        return self._ahead

    async def _ask(
        self, fetched: Awaitable[FetchedBatch], max_rows: int
    ) -> FetchedBatch:
        self.is_at_end = False
        self._asked_at = began = time.monotonic()
        try:
            batch = await fetched
        finally:
            self._asked_at = None
        is_short = len(batch.row_set) < FULL_BYTES and 0 <= batch.rows < max_rows
        is_last = is_short and time.monotonic() - began < FULL_SECONDS
        self.is_at_end = is_last or batch.rows == 0
        return batch

    def _arrived(self, ahead: asyncio.Future[FetchedBatch]) -> None:
        is_lost = ahead.cancelled() or ahead.exception() or self._is_closed
        self._hold(0 if is_lost else len(ahead.result().row_set))

    def _hold(self, size: int) -> None:
        self._room.hold(self, self, size)


async def _sliced(row_set: bytes | memoryview) -> RowSetRest:
    if len(row_set) <= SLICED_AT_ONCE:
        return RowSetRest(row_set)
    return await asyncio.to_thread(RowSetRest, row_set)
