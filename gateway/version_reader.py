"""Reads the version of all rights over one database connection of the event loop, and
writes lines of the audit in the same round trip.

The answer to every statement waits for a read that began after it arrived, and for its
line; all that arrives while a read is under way shares the next one, and its commit.
Must not know policies or breakers.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from django.db import DEFAULT_DB_ALIAS, connections

from catalog.access.policy_feed import READ_VERSION
from gateway.audit_lines import APPEND, AuditRecord, as_json

# Django's own cursor and adapters have no asynchronous form.
_OF_DJANGO = ("context", "cursor_factory", "prepare_threshold")
_UNFIT = (psycopg.DataError, ValueError, TypeError)
_WRITE_AND_READ = f"WITH lines AS ({APPEND}) {READ_VERSION}"


class LinesRefused(Exception):
    """The database has no place for so many audit lines as they are; others that were
    sent with them are durable."""

    def __init__(self, count: int, why: object) -> None:
        super().__init__(f"{count}: {why}")
        self.count = count


@dataclass(frozen=True, slots=True)
class _Waiting:
    """Who waits for a version, and for lines to be durable, if there are any."""

    lines: Sequence[AuditRecord]
    version: asyncio.Future[int]


class VersionReader:
    """What it returns raises psycopg.Error, OSError or TimeoutError while there is no
    answer."""

    def __init__(self, *, seconds: float) -> None:
        self._seconds = seconds
        self._connection: psycopg.AsyncConnection[Any] | None = None
        self._next: list[_Waiting] = []
        self._task: asyncio.Task[None] | None = None

    async def read(self) -> int:
        """Return the newest committed version, read after this call began."""
        return await asyncio.shield(self.write([]))

    def write(self, lines: Sequence[AuditRecord]) -> asyncio.Future[int]:
        """As `read`, once the lines are durable; LinesRefused when one cannot be
        stored. They go with the next read."""
        one = _Waiting(lines, asyncio.get_running_loop().create_future())
        self._next.append(one)
        if self._task is None:
            self._task = asyncio.create_task(self._read_on())
        return one.version

    async def close(self) -> None:
        if self._task:
            self._task.cancel()
        await self._hang_up()

    async def _read_on(self) -> None:
        try:
            while waiting := self._next:
                self._next = []
                await self._answer(waiting)
        finally:
            self._task = None

    async def _answer(self, waiting: Sequence[_Waiting]) -> None:
        try:
            lines = [line for one in waiting for line in one.lines]
            try:
                version = await self._ask_in_time(lines)
            except _UNFIT:
                for one in waiting:  # one line keeps back no other
                    await self._answer_alone(one)
                return
        except (psycopg.Error, OSError, TimeoutError) as error:
            await self._hang_up()
            _fail(waiting, error)
        except BaseException:
            for one in waiting:
                one.version.cancel()
            raise
        else:
            for one in waiting:
                _succeed(one, version)

    async def _answer_alone(self, one: _Waiting) -> None:
        """Write those lines that can be stored, each by itself."""
        refused, version = 0, 0
        why: Exception | None = None
        for line in one.lines:
            try:
                version = await self._ask_in_time([line])
            except _UNFIT as error:
                refused, why = refused + 1, error
        if refused:
            _fail([one], LinesRefused(refused, why))
        else:
            _succeed(one, version or await self._ask_in_time([]))

    async def _ask_in_time(self, lines: Sequence[AuditRecord]) -> int:
        async with asyncio.timeout(self._seconds):
            return await self._ask(lines)

    async def _ask(self, lines: Sequence[AuditRecord]) -> int:
        if self._connection is not None:
            try:
                return await _version(self._connection, lines)
            except (psycopg.OperationalError, psycopg.InterfaceError):
                # The server may have been restarted since: once more on a new line.
                await self._hang_up()
        self._connection = await _connected()
        return await _version(self._connection, lines)

    async def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(psycopg.Error, OSError):
                await connection.close()


def _fail(waiting: Sequence[_Waiting], error: BaseException) -> None:
    for one in waiting:
        if not one.version.done():
            one.version.set_exception(error)
            one.version.exception()  # the waiter may be gone


def _succeed(one: _Waiting, version: int) -> None:
    if not one.version.done():
        one.version.set_result(version)


async def _version(
    connection: psycopg.AsyncConnection[Any], lines: Sequence[AuditRecord]
) -> int:
    if lines:
        cursor = await connection.execute(_WRITE_AND_READ, [as_json(lines)])
    else:
        cursor = await connection.execute(READ_VERSION)
    row = await cursor.fetchone()
    return 1 if row is None else int(row[0])


async def _connected() -> psycopg.AsyncConnection[Any]:
    known = connections[DEFAULT_DB_ALIAS].get_connection_params()
    params = {key: known[key] for key in known if key not in _OF_DJANGO}
    return await psycopg.AsyncConnection.connect(**params, autocommit=True)
