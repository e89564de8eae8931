"""Reads the version of all rights over one database connection of the event loop.

Every statement waits for a read that began after it arrived; statements that arrive
while a read is under way share the next one. Must not know policies or breakers.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import psycopg
from django.db import DEFAULT_DB_ALIAS, connections

from catalog.access.policy_feed import READ_VERSION

# Django's own cursor and adapters have no asynchronous form.
_OF_DJANGO = ("context", "cursor_factory", "prepare_threshold")


class VersionReader:
    """`read` raises psycopg.Error, OSError or TimeoutError while there is no answer."""

    def __init__(self, *, seconds: float) -> None:
        self._seconds = seconds
        self._connection: psycopg.AsyncConnection[Any] | None = None
        self._next: asyncio.Future[int] | None = None
        self._task: asyncio.Task[None] | None = None

    async def read(self) -> int:
        """Return the newest committed version, read after this call began."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
            if self._task is None:
                self._task = asyncio.create_task(self._read_on())
        return await asyncio.shield(self._next)

    async def close(self) -> None:
        """Hang up."""
        if self._task:
            self._task.cancel()
        await self._hang_up()

    async def _read_on(self) -> None:
        try:
            while (waiting := self._next) is not None:
                self._next = None
                await self._answer(waiting)
        finally:
            self._task = None

    async def _answer(self, waiting: asyncio.Future[int]) -> None:
        try:
            async with asyncio.timeout(self._seconds):
                waiting.set_result(await self._ask())
        except (psycopg.Error, OSError, TimeoutError) as error:
            await self._hang_up()
            waiting.set_exception(error)
            waiting.exception()  # the waiter may be gone
        except BaseException:
            waiting.cancel()
            raise

    async def _ask(self) -> int:
        if self._connection is not None:
            try:
                return await _version(self._connection)
            except psycopg.Error:
                # The server may have been restarted since: once more on a new line.
                await self._hang_up()
        self._connection = await _connected()
        return await _version(self._connection)

    async def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(psycopg.Error, OSError):
                await connection.close()


async def _version(connection: psycopg.AsyncConnection[Any]) -> int:
    cursor = await connection.execute(READ_VERSION)
    row = await cursor.fetchone()
    return 1 if row is None else int(row[0])


async def _connected() -> psycopg.AsyncConnection[Any]:
    known = connections[DEFAULT_DB_ALIAS].get_connection_params()
    params = {key: known[key] for key in known if key not in _OF_DJANGO}
    return await psycopg.AsyncConnection.connect(**params, autocommit=True)
