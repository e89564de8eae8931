"""Statements of REST and UI: run in the gateway, results kept for a while in files.

Each belongs to a principal and is hidden from all others. Must not know HTTP.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import sys
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from catalog.access.principal_policy import PrincipalPolicy
from core.errors import InvalidRequest, NotFound, SluiceError
from core.sentences import COLON, Sentence, joined, origins_in
from gateway.budget import Budget
from gateway.ending import end_all
from gateway.engines.port import EngineColumn, FetchedBatch, OperationState, Orientation
from gateway.faults import Fault, clean, results_full
from gateway.hs2.rowset import decode_row_set
from gateway.hs2.values import SERVER_VERSION
from gateway.idle_sessions import IdleSession
from gateway.operation import Operation
from gateway.rows import ResultFile, StoredPages, type_name
from gateway.services import Services
from gateway.session import Session, sql_state_of
from gateway.settable import SessionSettings

log = logging.getLogger(__name__)

# of a fetch; the engine ends it before, by bytes
FETCH_PAGES = 100
_IN_ARROW = SessionSettings({"set:hiveconf:sluice.results": "arrow"})
KEPT_SECONDS = 1_800.0
PER_USER = 50
SWEEP_SECONDS = 20.0
LONGEST_WAIT = 30.0
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_FAILED = "the gateway failed; see its log"

_ALL_RESULTS = (
    "the results of all statements over REST take %(most)s bytes, as many as are kept"
)
_OWN_RESULTS = (
    "the results of your statements over REST take %(most)s bytes, as many as are kept"
)


class NoSuchStatement(NotFound):
    default_code: ClassVar[str] = "statement_not_found"


@dataclass(slots=True, eq=False)
class Statement:
    """One statement of one user, until it is swept away."""

    user: str
    session: Session
    operation: Operation
    result: ResultFile
    row_limit: int
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    fault: Fault | None = None
    is_truncated: bool = False
    is_cancelled: bool = False
    touched: float = field(default_factory=time.monotonic)
    done: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_kept(self) -> bool:
        """True for a result that is there to be read."""
        return self.done.is_set() and self.result.size > 0

    @property
    def state(self) -> OperationState:
        """FINISHED only once the rows are in the file."""
        if self.fault:
            return OperationState.ERROR
        state = self.operation.state
        if self.done.is_set():
            cancelled = self.is_cancelled or state is OperationState.CANCELED
            return OperationState.CANCELED if cancelled else OperationState.FINISHED
        if state in {OperationState.FINISHED, OperationState.CLOSED}:
            return OperationState.RUNNING
        return state

    @property
    def waits_for(self) -> str:
        """Why no engine has it yet; empty once one has."""
        log = self.operation.log
        return (
            log[-1] if log and self.operation.waits and not self.done.is_set() else ""
        )

    def describe(self) -> dict[str, Any]:
        """Return what is known of it here."""
        return {
            "id": self.id,
            "state": str(self.state),
            "columns": _columns(self.operation.columns),
            "seconds": self.operation.seconds,
            "rows_so_far": self.result.rows,
            "is_truncated": self.is_truncated,
            "waits_for": self.waits_for or None,
            "error": self.fault.as_json() if self.fault else None,
            "sentences": origins_in(
                [self.waits_for, self.fault.message if self.fault else ""]
            ),
        }


@dataclass(frozen=True, slots=True)
class ResultPages:
    """What there is to say of pages, and where their rows are, if there are any."""

    facts: dict[str, Any]
    result: ResultFile
    stored: StoredPages | None


class StatementService:
    """All statements of REST and UI in this process."""

    def __init__(self, services: Services, directory: Path) -> None:
        self._services = services
        self._directory = directory
        self._statements: dict[str, Statement] = {}
        limits = services.limits
        self._results: Budget[str, Statement] = Budget(
            limits.result_bytes, limits.result_bytes_per_user
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._sweeper: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Remove results of an earlier process and begin to sweep."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in self._directory.glob("*.pages"):
            path.unlink(missing_ok=True)
        self._sweeper = asyncio.create_task(self._sweep())

    async def submit(
        self, user: str, sql: str, *, row_limit: int | None, database: str = ""
    ) -> Statement:
        """Start a statement of `user`."""
        mine = [s for s in self._statements.values() if s.user == user]
        if len(mine) >= PER_USER:
            idle = [s for s in mine if s.done.is_set()]
            if not idle:
                raise InvalidRequest(
                    "%(count)s of your statements are running already",
                    count=len(mine),
                    code="too_many_statements",
                    hint="cancel some, or wait for them",
                )
            await self._drop(min(idle, key=lambda s: s.touched))
        session = Session(
            self._services,
            user,
            protocol=SERVER_VERSION,
            settings=_IN_ARROW,
            is_pooled=True,
        )
        if database:
            await session.use(database)
        operation = session.start(sql)
        result = ResultFile(self._directory / f"{operation.id}.pages")
        statement = Statement(
            user, session, operation, result, row_limit or sys.maxsize
        )
        self._statements[statement.id] = statement
        task = asyncio.create_task(self._collect(statement))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return statement

    @property
    def running(self) -> int:
        """How many statements the engine works on, those of Thrift included."""
        return self._services.slots.taken

    def find(self, user: str, statement_id: str) -> Statement:
        """Return the user's statement; NotFound for anybody else's."""
        found = self._statements.get(statement_id)
        if found is None or found.user != user:
            raise NoSuchStatement(
                "there is no such statement",
                hint="results are kept for half an hour, less when there are many; run"
                " it again",
            )
        found.touched = time.monotonic()
        return found

    async def wait(self, statement: Statement, seconds: float) -> None:
        if seconds <= 0 or statement.done.is_set():
            return
        try:
            async with asyncio.timeout(min(seconds, LONGEST_WAIT)):
                await statement.done.wait()
        except TimeoutError:
            return

    async def cancel(self, statement: Statement) -> None:
        """Stop it. Idempotent; a finished one stays finished."""
        if statement.done.is_set():
            return
        statement.is_cancelled = True
        await statement.session.cancel(statement.operation)
        await self.wait(statement, 5.0)

    def pages(
        self, statement: Statement, number: int, *, several: bool = False
    ) -> ResultPages:
        """Return one page of a finished statement's rows, or several from there on;
        none beyond the last."""
        if statement.state is not OperationState.FINISHED:
            now = Sentence("the statement is %(state)s", state=statement.state)
            why = statement.fault.message if statement.fault else ""
            raise InvalidRequest(
                joined([now, why], COLON),
                code="no_result",
                hint="results can be read once it is FINISHED",
            )
        result = statement.result
        stored = result.find(number, several=several)
        after = number + len(stored.sizes) if stored else result.pages
        facts = {
            "columns": _columns(statement.operation.columns),
            "first_row": stored.first_row if stored else result.rows,
            "rows": stored.rows if stored else 0,
            "sizes": stored.sizes if stored else [],
            "next_page": after if after < result.pages else None,
            "previous_page": result.before(number),
        }
        return ResultPages(facts, result, stored)

    def describe(self, statement: Statement) -> dict[str, Any]:
        """Return the statement as REST presents it; while it runs, how far it is, and
        what it waits for in the engine."""
        facts = statement.describe()
        progress = self._progress(statement)
        waits_for = progress.pop("waits_for") if progress else ""
        return {
            **facts,
            "waits_for": facts["waits_for"] or waits_for or None,
            "progress": progress,
            "sentences": facts["sentences"] | origins_in([waits_for]),
        }

    def _progress(self, statement: Statement) -> dict[str, Any] | None:
        run = statement.operation.run
        if statement.done.is_set() or run is None or run.handle is None:
            return None
        found = self._services.supervisor.client.progress(run.handle)
        if found is None:
            return None
        amounts = {}
        if not run.policy.reads_whole(run.reads):
            amounts = {"rows": None, "bytes": None}
        return asdict(found) | amounts

    def users(self) -> set[str]:
        return {s.user for s in self._statements.values()} | self._services.idle.users()

    async def end_statements_of(self, users: Iterable[str]) -> None:
        """Drop everything of these users."""
        named = set(users)
        await self._drop_all(s for s in self._statements.values() if s.user in named)
        await self._close_idle(lambda one: one.user in named)

    async def end_revoked(self, policy: PrincipalPolicy) -> None:
        """Drop what this user's rights, as they are now, would not have given them."""
        await self._drop_all(
            statement
            for statement in self._statements.values()
            if statement.user == policy.principal
            and (run := statement.operation.run)
            and not policy.covers(run.policy, run.reads)
        )

    async def close(self) -> None:
        """Drop everything."""
        if self._sweeper:
            self._sweeper.cancel()
        await self._drop_all(self._statements.values())
        await self._close_idle(lambda one: True)

    async def _close_unused(self) -> None:
        since = time.monotonic() - self._services.limits.idle_session_seconds
        await self._close_idle(lambda one: one.since < since)

    async def _close_idle(self, goes: Callable[[IdleSession], bool]) -> None:
        await end_all(one.close() for one in self._services.idle.remove(goes))

    async def _collect(self, statement: Statement) -> None:
        try:
            await self._collect_rows(statement)
        except SluiceError as error:
            if not statement.is_cancelled:
                statement.fault = clean(
                    error.as_sentence,
                    sql_state=sql_state_of(error),
                    lake=self._services.lake_root,
                )
        except Exception as error:
            log.exception("collecting rows into %s failed", statement.result.path)
            is_full = isinstance(error, OSError) and error.errno in _FULL
            if is_full:
                self._remove_rows(statement)  # others need the room at once
            statement.fault = results_full() if is_full else Fault(_FAILED)
        finally:
            if statement.fault or statement.is_cancelled:
                self._remove_rows(statement)
            statement.done.set()
            await statement.session.close()
            if statement.id in self._statements:  # a revoke is to end it
                self._services.keep_reads(statement.user, statement.operation)

    async def _collect_rows(self, statement: Statement) -> None:
        operation = statement.operation
        await operation.wait()
        if operation.state is OperationState.ERROR:
            statement.fault = operation.fault
        if operation.state is not OperationState.FINISHED or not operation.reader:
            return
        while operation.has_result_set and not statement.is_cancelled:
            pages = await statement.session.fetch(
                operation, Orientation.NEXT, FETCH_PAGES
            )
            if not pages.rows:
                break
            is_whole = await asyncio.to_thread(_store, statement, pages)
            operation.rows = statement.result.rows
            await self._make_room(statement)
            if not is_whole:
                statement.is_truncated = True
                break

    async def _make_room(self, growing: Statement) -> None:
        """Free the user's old results while theirs take too much, and those of who
        keeps most while all do."""
        self._results.hold(growing.user, growing, growing.result.size)
        while not self._results.fits(growing.user, 0):
            victim = self._spare_result(growing.user)
            if victim is None:
                raise self._results_full(growing.user)
            await self._drop(victim)

    def _spare_result(self, user: str) -> Statement | None:
        for theirs in self._results.losers(user):
            spare = (one for one, _ in theirs if one.is_kept)
            if victim := min(spare, key=lambda s: s.touched, default=None):
                return victim
        return None

    def _results_full(self, user: str) -> InvalidRequest:
        limits, what = self._services.limits, _ALL_RESULTS
        most = limits.result_bytes
        if self._results.is_beyond_share(user):
            what, most = _OWN_RESULTS, limits.result_bytes_per_user
        return InvalidRequest(
            what,
            most=most,
            code="results_full",
            hint="select fewer rows or columns, or read it over HiveServer2,"
            " which keeps no result",
        )

    async def _drop_all(self, statements: Iterable[Statement]) -> None:
        await end_all(self._drop(one) for one in [*statements])

    async def _drop(self, statement: Statement) -> None:
        self._statements.pop(statement.id, None)
        statement.is_cancelled = True
        await statement.session.close()
        self._services.reads.let_go(statement.operation)
        self._remove_rows(statement)

    def _remove_rows(self, statement: Statement) -> None:
        statement.result.remove()
        self._results.let_go(statement)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            await self._close_unused()
            old = time.monotonic() - KEPT_SECONDS
            kept = list(self._statements.values())
            await end_all(statement.session.end_overdue() for statement in kept)
            for statement in kept:
                statement.session.close_idle()
            is_old = (s for s in kept if s.done.is_set() and s.touched < old)
            await self._drop_all(is_old)


def _store(statement: Statement, pages: FetchedBatch) -> bool:
    """Append pages as the engine's sessions in Arrow have them; False when rows were
    left out for the statement's limit."""
    rows_and_pages = zip(*decode_row_set(pages.row_set), strict=True)
    return statement.result.append(rows_and_pages, most=statement.row_limit)


def _columns(columns: Iterable[EngineColumn]) -> list[dict[str, str]]:
    return [{"name": column.name, "type": type_name(column)} for column in columns]
