"""The gateway's only way to the metadata database: a queue and a circuit
breaker for each kind.

The event loop awaits these calls and never touches the ORM. While the database is
away, calls fail at once with `DatabaseAway` (08S01); what needs no database goes on.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import Concatenate, ParamSpec, TypeVar

from catalog.access import policy_feed
from catalog.access.authentication import Proven, prove, prove_to_stay
from catalog.access.policy import Principal
from catalog.access.principal_policy import PrincipalPolicy
from catalog.access.principals import principal_for
from catalog.access.proofs import Proof, lapsed
from catalog.like import escaped
from catalog.selectors import lake, live
from catalog.selectors.locations import LakeLocation, LiveTable
from core.errors import TransientError
from gateway.audit_lines import AuditRecord
from gateway.fair import Caller
from gateway.logins import LoginTurns
from gateway.metrics import AUDIT_LOST
from gateway.version_reader import LinesRefused, VersionReader
from gateway.work_queue import BREAKER_SECONDS, DatabaseAway, WorkQueue

log = logging.getLogger(__name__)
P = ParamSpec("P")
T = TypeVar("T")

CALL_SECONDS = 8.0
LOGIN_SECONDS = 12.0
LOGIN_THREADS = 3
LOGINS_WAITING_EACH = 100
# of a kind's threads: one is left for others whatever one user asks
PLACES_EACH = 3
AUDIT_KEPT = 20_000
AUDIT_BATCH = 50  # they are encoded on the event loop
AUDIT_SECONDS = 0.05
TABLES_PER_PAGE = 500
MOST_LISTED = 100_000
_WATCH = Caller("(watch)", 1)


class Store:
    """Awaitable reads and writes. One per gateway process."""

    def __init__(self) -> None:
        self.logins = WorkQueue(
            "login",
            threads=LOGIN_THREADS,
            seconds=LOGIN_SECONDS,
            waiting_each=LOGINS_WAITING_EACH,
        )
        self.metadata = WorkQueue("metadata", threads=4, seconds=CALL_SECONDS)
        self.statements = WorkQueue("statement", threads=4, seconds=CALL_SECONDS)
        # these wait for name servers, too
        self.sources = WorkQueue("source", threads=4, seconds=CALL_SECONDS)
        self.auditing = WorkQueue("audit", threads=4, seconds=CALL_SECONDS)
        self._turns = LoginTurns()
        self._audit: deque[AuditRecord] = deque(maxlen=AUDIT_KEPT)
        self._audit_task: asyncio.Task[None] | None = None
        self._versions = VersionReader(seconds=CALL_SECONDS)
        self._lines = VersionReader(seconds=CALL_SECONDS)
        self.audit_lost = 0
        self._is_closing = False
        self.seen_version = -1

    @property
    def kinds(self) -> tuple[WorkQueue, ...]:
        """The queues: what one suffers no other feels."""
        reading = (self.metadata, self.statements, self.sources)
        return (self.logins, *reading, self.auditing)

    async def authenticate(
        self, username: str, secret: str, *, address: str, gives_way: bool = False
    ) -> Proven:
        """Return the proven user; AccessDenied, TooManyWait or DatabaseAway
        otherwise. `username` is empty for a bearer token; `gives_way`: others come
        first."""

        def work() -> Proven:
            if not username:
                return prove_to_stay(secret, door="gateway", address=address)
            return prove(username, secret, door="gateway", address=address)

        turn = self._turns.turn(username, secret, address=address, gives_way=gives_way)
        async with turn as caller:
            proven = await self.logins.run(caller, work)
            self._turns.remember(username, address=address)
        return proven

    async def lapsed(self, proofs: Collection[Proof]) -> dict[Proof, str]:
        """Return those proofs that are void by now, with the reason."""
        if not proofs:
            return {}
        return await self.statements.run(_WATCH, partial(lapsed, proofs))

    async def policy_version(self) -> int:
        self.seen_version = await self.statements.ask(self._versions.read)
        return self.seen_version

    async def policy_for(self, username: str) -> PrincipalPolicy:
        read = partial(policy_feed.policy_for, username)
        return await self.statements.run(_user(username), read)

    async def look_up(self, database: str, table: str) -> LakeLocation | None:
        return await self.statements.run(
            _table(database, table),
            lambda: lake.lake_table_location(database, table),
        )

    async def lake_name_of(
        self, datasource: str, database: str, table: str
    ) -> str | None:
        return await self.statements.run(
            _table(database, table),
            lambda: lake.lake_name_of_source(datasource, database, table),
        )

    async def live_table(
        self, principal: str, datasource: str, database: str, table: str
    ) -> LiveTable | None:
        """Return a source's table that the user may see; with how it is reached, for
        who may read it. SluiceError when it cannot be reached."""

        read = live.live_table
        return await _read(self.sources, principal, read, datasource, database, table)

    async def live_versions(self, sources: Collection[str]) -> dict[str, str]:
        work = partial(live.live_versions, sources)
        return await self.metadata.run(_WATCH, work)

    async def end_live_statements(self, sources: Collection[str], mark: str) -> None:
        """End what an engine that is gone has left at sources; never raises."""
        for name in sources:
            try:
                await self.sources.run(_WATCH, partial(live.end_statements, name, mark))
            except Exception:
                log.exception("statements of a dead engine may go on at %s", name)

    async def live_names(
        self, principal: str, datasource: str, database: str
    ) -> list[str]:
        read = partial(live.live_names, limit=MOST_LISTED)
        return await _read(self.metadata, principal, read, datasource, database)

    async def live_tables(
        self,
        username: str,
        datasource: str,
        patterns: tuple[str | None, str | None],
        *,
        most: int,
    ) -> list[live.LiveName]:
        """Return tables of a live source that the user may see."""
        read = partial(live.live_tables_matching, limit=most)
        return await _read(self.metadata, username, read, datasource, patterns)

    async def live_columns(
        self,
        username: str,
        tables: Sequence[live.LiveName],
        *,
        column: str | None,
        most: int,
    ) -> list[lake.LakeColumn]:
        """Return columns of these tables of one live source that exist for the user,
        read in pages of tables, `most` at most."""
        found: list[lake.LakeColumn] = []
        for begin in range(0, len(tables), TABLES_PER_PAGE):
            part = tables[begin : begin + TABLES_PER_PAGE]
            read = live.live_columns_matching
            found += await _read(self.metadata, username, read, part, column)
            if len(found) >= most:
                break
        return found[:most]

    async def list_tables(
        self, principal: str, database: str, pattern: str
    ) -> list[tuple[str, str]]:
        read, most = lake.lake_tables_matching, MOST_LISTED
        found = await _read(self.statements, principal, read, database, pattern, most)
        return [(table.database, table.name) for table in found]

    async def databases(
        self, username: str, pattern: str | None, *, limit: int
    ) -> list[str]:
        read = partial(lake.lake_databases_matching, limit=limit)
        return await _read(self.metadata, username, read, pattern)

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
        read = lake.lake_tables_matching
        return await _read(self.metadata, username, read, schema, table, limit, after)

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
        patterns = schema, table, column
        read, size = lake.lake_columns_page, TABLES_PER_PAGE
        after: tuple[str, str] | None = None
        while len(found) < most:
            columns, after = await _read(
                self.metadata, username, read, patterns, size, after
            )
            found += columns
            if after is None:
                break
        return found[:most]

    async def columns_by_table(
        self, principal: str, database: str, pattern: str
    ) -> dict[str, list[tuple[str, str, bool]]]:
        found: dict[str, list[tuple[str, str, bool]]] = {}
        for column in await self.columns(
            principal, escaped(database), pattern, column=None, most=MOST_LISTED
        ):
            fact = (column.name, column.type, column.nullable)
            found.setdefault(column.table, []).append(fact)
        return found

    async def columns_of(
        self, username: str, database: str, table: str
    ) -> list[lake.LakeColumn]:
        read = lake.lake_columns_of
        return await _read(self.metadata, username, read, database, table)

    def db_read_age_ms(self) -> int:
        newest = max(kind.last_read for kind in self.kinds)
        return int((time.monotonic() - newest) * 1000)

    @property
    def is_open(self) -> bool:
        """True while no circuit breaker keeps calls back."""
        return all(kind.is_open for kind in self.kinds)

    def note(self, record: AuditRecord) -> None:
        """Queue an audit line; it is written within moments, in order.

        It goes with the line of the next statement that begins, or with others of the
        same moment, and no caller waits for it.
        """
        if len(self._audit) == AUDIT_KEPT:
            self._lose(1)  # the oldest goes
        self._audit.append(record)
        self._see_to_audit()

    async def begin_statement(self, record: AuditRecord) -> int:
        """Write the audit line of a statement that begins; return the version of all
        rights, which is read behind it. DatabaseAway when it is not written, and then
        the statement must get no answer."""

        def write() -> Awaitable[int]:
            if self._audit:
                self._write_queued()
            return self._lines.write([record])

        try:
            version = await self.auditing.ask(write)
        except LinesRefused as error:
            log.exception("an audit line could not be stored: %s", record.action)
            raise DatabaseAway(
                "the audit trail could not be written; the statement gets no answer",
                hint="try again; tell an administrator if that does not help",
            ) from error
        self.seen_version = max(self.seen_version, version)
        return version

    async def close(self) -> None:
        """Write what is queued and end the threads."""
        self._is_closing = True
        if self._audit_task:
            await asyncio.wait([self._audit_task], timeout=3)
        for kind in self.kinds:
            await kind.close()
        await self._versions.close()
        await self._lines.close()
        self._lose(len(self._audit))
        self._audit.clear()

    def _see_to_audit(self) -> None:
        if self._audit_task is None or self._audit_task.done():
            self._audit_task = asyncio.create_task(self._write_audit())

    async def _write_audit(self) -> None:
        """Write what no statement that begins takes along."""
        while self._audit:
            if not self._is_closing:
                await asyncio.sleep(AUDIT_SECONDS)
            try:
                if self._audit:
                    await self.auditing.ask(self._write_queued)
            except LinesRefused:
                pass  # counted
            except TransientError:
                await asyncio.sleep(BREAKER_SECONDS)

    def _write_queued(self) -> asyncio.Future[int]:
        count = min(len(self._audit), AUDIT_BATCH)
        batch = [self._audit.popleft() for _ in range(count)]
        written = self._lines.write(batch)
        written.add_done_callback(partial(self._written, batch))
        return written

    def _written(self, batch: list[AuditRecord], written: asyncio.Future[int]) -> None:
        if written.cancelled():  # the gateway ends
            self._lose(len(batch))
            return
        error = written.exception()
        if isinstance(error, LinesRefused):
            log.error("lines of the audit could not be stored", exc_info=error)
            self._lose(error.count)
        elif error:
            self._put_back(batch)
            self._see_to_audit()

    def _put_back(self, batch: list[AuditRecord]) -> None:
        """Keep what has not been written, the oldest first, as far as there is room
        beside what came since."""
        room = min(AUDIT_KEPT - len(self._audit), len(batch))
        self._lose(len(batch) - room)
        self._audit.extendleft(reversed(batch[len(batch) - room :]))

    def _lose(self, lines: int) -> None:
        if lines and not self.audit_lost:
            log.error("lines of the audit are lost; /metrics tells how many")
        self.audit_lost += lines
        AUDIT_LOST.inc(lines)


def _user(name: str) -> Caller:
    return Caller(name, PLACES_EACH)


def _table(database: str, table: str) -> Caller:
    """A question of the engine about one table, for any user's statement."""
    return Caller(f"{database}.{table}", PLACES_EACH)


async def _read(
    queue: WorkQueue,
    username: str,
    select: Callable[Concatenate[Principal, P], T],
    *arguments: P.args,
    **options: P.kwargs,
) -> T:
    """What a selector finds for this user, in a turn of theirs."""

    def work() -> T:
        return select(principal_for(username), *arguments, **options)

    return await queue.run(_user(username), work)
