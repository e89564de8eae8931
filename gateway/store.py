"""The gateway's only way to the metadata database: bounded threads, time-outs, a fuse.

The event loop awaits these calls and never touches the ORM. While the database is
away, calls fail at once with `DatabaseAway` (08S01); what needs no database goes on.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ClassVar, TypeVar

import psycopg
from django.db import (
    DEFAULT_DB_ALIAS,
    DatabaseError,
    InterfaceError,
    OperationalError,
    connections,
)
from django.db.backends.base.base import BaseDatabaseWrapper

from catalog.access import policy_feed
from catalog.access.authentication import AuthenticatedUser, authenticate
from catalog.access.principals import principal_for
from catalog.access.proofs import Proof, lapsed
from catalog.selectors import lake
from core.errors import TransientError
from gateway.audit_lines import AuditRecord, write_all, write_those_that_can_be
from gateway.engines.port import EnginePolicy, LakeTable
from gateway.version_reader import VersionReader

log = logging.getLogger(__name__)
T = TypeVar("T")

CALL_SECONDS = 8.0
LOGIN_SECONDS = 12.0
# A connection that worked so lately is used without asking it first.
FRESH_SECONDS = 2.0
FUSE_AFTER = 3
FUSE_SECONDS = 2.0
AUDIT_KEPT = 20_000
AUDIT_BATCH = 200
AUDIT_SECONDS = 0.05
TABLES_PER_PAGE = 500
_AWAY = (OperationalError, InterfaceError, psycopg.Error, OSError, TimeoutError)


class DatabaseAway(TransientError):
    """The metadata database did not answer; nothing was decided or changed."""

    default_code: ClassVar[str] = "database_away"


class Store:
    """Awaitable reads and writes. One per gateway process."""

    def __init__(self, *, threads: int = 6, login_threads: int = 2) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="store")
        self._logins = ThreadPoolExecutor(login_threads, thread_name_prefix="login")
        self._failures = 0
        self._open_until = 0.0
        self._last_read = time.monotonic()
        self._audit: deque[AuditRecord] = deque(maxlen=AUDIT_KEPT)
        self._audit_task: asyncio.Task[None] | None = None
        self._opened: set[BaseDatabaseWrapper] = set()
        self._thread = threading.local()
        self._versions = VersionReader(seconds=CALL_SECONDS)
        self.audit_lost = 0
        self._is_closing = False
        self.seen_version = -1

    async def authenticate(
        self, username: str, secret: str, *, address: str
    ) -> AuthenticatedUser:
        """Return the proven user; AccessDenied or DatabaseAway otherwise."""

        def work() -> AuthenticatedUser:
            return authenticate(username, secret, door="gateway", address=address)

        return await self._run(work, pool=self._logins, seconds=LOGIN_SECONDS)

    async def lapsed(self, proofs: Collection[Proof]) -> dict[Proof, str]:
        """Return those proofs that let nobody in any more, with the reason."""
        return await self._run(partial(lapsed, proofs)) if proofs else {}

    async def policy_version(self) -> int:
        """Return the current version of all rights."""
        self.seen_version = await self._answered(self._versions.read, CALL_SECONDS)
        return self.seen_version

    async def policy_for(self, username: str) -> EnginePolicy:
        """Return one user's rights on the lake as they are now."""

        def work() -> EnginePolicy:
            policy = policy_feed.policy_for(username)
            return EnginePolicy(
                principal=policy.principal,
                version=policy.version,
                is_active=policy.is_active,
                is_admin=policy.is_admin,
                select=policy.select,
                discover=policy.discover,
            )

        return await self._run(work)

    async def look_up(self, database: str, table: str) -> LakeTable | None:
        """Return where a queryable lake table lies."""
        found = await self._run(lambda: lake.lake_table_location(database, table))
        return LakeTable(found.path, found.schema_version) if found else None

    async def lake_name_of(
        self, datasource: str, database: str, table: str
    ) -> str | None:
        """Return the lake's `db.table` for a table named as its live source has it."""
        return await self._run(
            lambda: lake.lake_name_of_source(datasource, database, table)
        )

    async def list_tables(
        self, principal: str, database: str, pattern: str
    ) -> list[tuple[str, str]]:
        """Return (database, table) names a principal may discover."""
        found = await self.tables(principal, database, pattern, limit=100_000)
        return [(table.database, table.name) for table in found]

    async def databases(
        self, username: str, pattern: str | None, *, limit: int
    ) -> list[str]:
        """Return names of lake databases the user may see."""

        def work() -> list[str]:
            principal = principal_for(username)
            return lake.lake_databases_matching(principal, pattern, limit=limit)

        return await self._run(work)

    async def tables(
        self,
        username: str,
        schema: str | None,
        table: str | None,
        *,
        limit: int,
        after: tuple[str, str] | None = None,
    ) -> list[lake.LakeTable]:
        """Return lake tables the user may see, those after `after` in their order."""

        def work() -> list[lake.LakeTable]:
            principal = principal_for(username)
            return lake.lake_tables_matching(principal, schema, table, limit, after)

        return await self._run(work)

    async def columns(
        self,
        username: str,
        schema: str | None,
        table: str | None,
        *,
        column: str | None,
        most: int,
    ) -> list[lake.LakeColumn]:
        """Return columns the user may see, read in pages of tables, `most` at most."""
        found: list[lake.LakeColumn] = []
        after: tuple[str, str] | None = None
        while len(found) < most:
            columns, after = await self._run(
                partial(_column_page, username, (schema, table, column), after)
            )
            found += columns
            if after is None:
                break
        return found[:most]

    async def columns_of(
        self, username: str, database: str, table: str
    ) -> list[lake.LakeColumn]:
        """Return all columns of one visible table."""

        def work() -> list[lake.LakeColumn]:
            return lake.lake_columns_of(principal_for(username), database, table)

        return await self._run(work)

    def db_read_age_ms(self) -> int:
        """Return milliseconds since the database last answered."""
        return int((time.monotonic() - self._last_read) * 1000)

    @property
    def is_open(self) -> bool:
        """True while the fuse lets calls through."""
        return time.monotonic() >= self._open_until

    def note(self, record: AuditRecord) -> None:
        """Queue an audit line; it is written within moments, in order.

        Lines of the same moment share one statement, and nobody waits for it.
        """
        if len(self._audit) == AUDIT_KEPT:
            self.audit_lost += 1
        self._audit.append(record)
        if self._audit_task is None or self._audit_task.done():
            self._audit_task = asyncio.create_task(self._write_audit())

    async def write(self, record: AuditRecord) -> None:
        """Write an audit line and return; DatabaseAway when it is not written, and
        then what it tells of must not happen."""
        try:
            await self._run(partial(write_all, [record]))
        except (DatabaseError, ValueError) as error:
            log.exception("an audit line could not be stored: %s", record.action)
            raise DatabaseAway(
                "the audit trail could not be written; the statement was not started",
                hint="try again; tell an administrator if that does not help",
            ) from error

    async def close(self) -> None:
        """Write what is queued and end the threads."""
        self._is_closing = True
        if self._audit_task:
            await asyncio.wait([self._audit_task], timeout=3)
        for pool in (self._pool, self._logins):
            await asyncio.to_thread(pool.shutdown, wait=True, cancel_futures=True)
        await self._versions.close()
        await asyncio.to_thread(self._close_connections)

    async def _write_audit(self) -> None:
        while self._audit:
            if not self._is_closing:
                await asyncio.sleep(AUDIT_SECONDS)
            batch = [
                self._audit.popleft() for _ in range(min(len(self._audit), AUDIT_BATCH))
            ]
            try:
                await self._run(partial(write_those_that_can_be, batch))
            except DatabaseAway:
                self._audit.extendleft(reversed(batch))
                await asyncio.sleep(FUSE_SECONDS)

    async def _run(
        self,
        work: Callable[[], T],
        *,
        pool: ThreadPoolExecutor | None = None,
        seconds: float = CALL_SECONDS,
    ) -> T:
        loop = asyncio.get_running_loop()

        def begin() -> asyncio.Future[T]:
            return loop.run_in_executor(pool or self._pool, self._hygienic, work)

        return await self._answered(begin, seconds)

    async def _answered(self, begin: Callable[[], Awaitable[T]], seconds: float) -> T:
        if not self.is_open:
            raise _away()
        future = asyncio.ensure_future(begin())
        try:
            async with asyncio.timeout(seconds):
                result = await asyncio.shield(future)
        except _AWAY as error:
            future.add_done_callback(lambda f: f.cancelled() or f.exception())
            self._blow(error)
            raise _away() from error
        self._failures = 0
        self._last_read = time.monotonic()
        return result

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

    def _blow(self, error: BaseException) -> None:
        self._failures += 1
        if self._failures >= FUSE_AFTER:
            self._open_until = time.monotonic() + FUSE_SECONDS
        log.warning("the metadata database did not answer: %s", type(error).__name__)


def _column_page(
    username: str,
    patterns: tuple[str | None, str | None, str | None],
    after: tuple[str, str] | None,
) -> tuple[list[lake.LakeColumn], tuple[str, str] | None]:
    """One page of columns and where to go on; None at the end."""
    principal = principal_for(username)
    return lake.lake_columns_page(principal, patterns, TABLES_PER_PAGE, after)


def _away() -> DatabaseAway:
    return DatabaseAway(
        "the metadata database does not answer; the statement was not started",
        hint="try again in a few seconds",
    )
