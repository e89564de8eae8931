"""A session's half inside the engine: opened at need, brought up to date, replaced.

Every use first makes sure that the engine's Guard knows the user's rights as of now.
Must not know clients, handles or the wire.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Coroutine, Mapping

from core.errors import AccessDenied, InvalidRequest, SluiceError
from gateway.engines.lifecycle import EngineState
from gateway.engines.port import (
    EngineClient,
    EngineFull,
    EngineOperation,
    EngineRefused,
    EngineSession,
    EngineUnavailable,
    OperationState,
)
from gateway.faults import TIMED_OUT
from gateway.operation import Operation
from gateway.result_reader import ResultReader
from gateway.services import Services

DEFAULT_DATABASE = "default"
SUCCESSOR_SECONDS = 0.25
CLOSE_SECONDS = 10.0
MOST_CHANGES, LONGEST_CHANGE = 64, 1000


class SessionEngine:
    """The engine session of one gateway session of `user`."""

    def __init__(
        self, services: Services, user: str, configuration: Mapping[str, str]
    ) -> None:
        self._services = services
        self._user = user
        self._configuration = configuration
        self._changes: dict[str, str] = {}
        self._engine: EngineSession | None = None
        self._database = DEFAULT_DATABASE
        self._opening = asyncio.Lock()
        self._is_closed = False
        self._background: set[asyncio.Task[None]] = set()

    @property
    def is_open(self) -> bool:
        """True while the engine has this session."""
        return self._engine is not None and not self._engine.is_closed

    @property
    def is_held(self) -> bool:
        """As `is_open`; also while it is being opened."""
        return self.is_open or (self._opening.locked() and not self._is_closed)

    async def engine_for(self, operation: Operation, database: str) -> EngineSession:
        """Wait for a session in a READY engine that knows the user's rights.

        The end of an engine is waited out: nothing of the operation has
        reached it. EngineUnavailable when none starts, or none keeps running.
        """
        limits = self._services.limits
        until = time.monotonic() + limits.engine_wait_seconds
        while True:
            client = await self._ready(operation)
            try:
                await self._authorise(client)
                operation.policy = self._services.policies.get(self._user)
                return await self.session(client, database)
            except EngineFull:
                raise
            except EngineUnavailable:
                if time.monotonic() > until or self._is_closed:
                    raise
            await asyncio.sleep(SUCCESSOR_SECONDS)

    async def _ready(self, operation: Operation) -> EngineClient:
        supervisor = self._services.supervisor
        if supervisor.facts().state is not EngineState.READY:
            operation.log_line("the query engine is starting")
        return await supervisor.ready(seconds=self._services.limits.engine_wait_seconds)

    async def require_rights(self, operation: Operation, *, is_again: bool) -> None:
        """Raise AccessDenied when a right was revoked since the statement began.

        Reading on trusts the version that was read last, within moments; reading
        from the start again, which makes the engine run it again, asks for it.
        """
        store, began = self._services.store, operation.policy
        version = await store.policy_version() if is_again else store.seen_version
        if began is None or version <= began.version:
            return
        policy = await store.policy_for(self._user)
        if not policy.covers(began):
            raise AccessDenied(
                "rights of yours were revoked since this statement began; its result"
                " is closed",
                code="rights_revoked",
                hint="run the statement again",
            )
        operation.policy = policy

    async def require_active(self) -> None:
        """Raise AccessDenied when the user was disabled; asks no engine."""
        version = await self._services.store.policy_version()
        if self._services.supervisor.client.acknowledged_version(self._user) < version:
            policy = await self._services.store.policy_for(self._user)
            if not policy.is_active:
                raise _disabled(self._user)

    async def session(self, client: EngineClient, database: str) -> EngineSession:
        """Return the engine session, opened if need be, with `database` current."""
        async with self._opening:
            if self._is_closed:
                raise EngineUnavailable("the session is closed")
            if self._engine is None or self._engine.is_closed:
                self._engine = await self._open(client)
            if self._database != database:
                name = database.replace("`", "``")
                await self._aside(self._engine, f"USE `{name}`")
                self._database = database
            return self._engine

    async def run(self, engine: EngineSession, operation: Operation) -> None:
        """Run a statement to its end in the engine, whatever the end is."""
        operation.reached_engine = time.monotonic()
        operation.engine_start = self._services.supervisor.facts().starts
        handle = await engine.execute(operation.statement, operation.settings)
        operation.engine = handle
        if not operation.is_alive:
            await engine.cancel(handle)
            return
        if operation.state is not OperationState.RUNNING:  # it is when it runs again
            operation.advance("run")
        status = await engine.status(handle)
        while not status.state.is_terminal and operation.is_alive:
            self._tell_progress(operation, handle)
            if status.message:
                operation.log_line(status.message)
            status = await engine.status(handle)
        if status.state is OperationState.FINISHED:
            if operation.has_result_set:
                self._open_result(engine, operation, handle)
            operation.log_line(stage_line(1, 1))
            operation.finish()
        elif status.state in {OperationState.CANCELED, OperationState.CLOSED}:
            operation.stop("cancel")
        elif status.state is OperationState.TIMEDOUT:
            operation.stop("time_out")
        elif operation.is_alive:
            raise EngineRefused(
                status.message,
                sql_state=status.sql_state,
                error_code=status.error_code,
            )

    async def read_again(
        self, engine: EngineSession, operation: Operation, *, until: float
    ) -> None:
        """Run a finished statement once more, for a result of which no row was handed
        out; EngineRefused when it ends otherwise now, with other columns, or has not
        ended by `until`."""
        operation.reached_engine = time.monotonic()
        operation.engine_start = self._services.supervisor.facts().starts
        handle = await engine.execute(operation.statement, operation.settings)
        operation.engine = handle
        status = await engine.status(handle)
        while not status.state.is_terminal:
            if time.time() > until:
                await self.cancel(handle)
                raise overdue()
            status = await engine.status(handle)
        if status.state is not OperationState.FINISHED:
            raise EngineRefused(status.message, sql_state=status.sql_state)
        columns = await engine.result_schema(handle)
        if operation.columns and operation.columns != columns:
            raise EngineUnavailable(
                "the engine that held this result is gone, and the table's columns"
                " have changed since",
                hint="run the statement again",
            )
        operation.is_lost = False
        self._open_result(engine, operation, handle)

    def lose(self, engine: EngineSession) -> None:
        """Use this session no more; the next statement opens another."""
        if self._engine is engine:
            self._engine = None
        self._spawn(engine.close())

    def _tell_progress(self, operation: Operation, handle: EngineOperation) -> None:
        counts = self._services.supervisor.client.progress(handle)
        if counts:
            operation.log_line(stage_line(*counts))

    def _open_result(
        self, engine: EngineSession, operation: Operation, handle: EngineOperation
    ) -> None:
        """Ask for the columns, and behind that question already for the first rows."""
        operation.schema = asyncio.ensure_future(engine.result_schema(handle))
        operation.schema.add_done_callback(lambda f: f.cancelled() or f.exception())
        operation.reader = ResultReader(engine, handle, self._services.room)
        operation.reader.begin()

    def require_room_for(self, key: str, statement: str) -> None:
        """Raise InvalidRequest for a SET that could not be remembered."""
        changes = len(self._changes.keys() - {key})
        if changes >= MOST_CHANGES or len(statement) > LONGEST_CHANGE:
            raise InvalidRequest(
                f"a session remembers {MOST_CHANGES} settings, each changed by a SET"
                f" of at most {LONGEST_CHANGE} characters",
                code="too_many_settings",
            )

    def remember(self, key: str, statement: str) -> None:
        """Keep a SET, to be repeated should the engine be replaced."""
        self._changes[key] = statement

    def warm(self) -> None:
        """Open the engine session ahead of the first statement, if one is READY and
        the user's statements mostly come to something."""
        if self._services.waste.is_much(self._user):
            return
        supervisor = self._services.supervisor
        facts = supervisor.facts()
        if facts.state is not EngineState.READY:
            supervisor.want()
        elif (
            facts.open_sessions < self._services.limits.warm_sessions
            and self._services.may_warm(self._user)
        ):
            self._spawn(self._warm(supervisor.client))

    async def cancel(self, handle: EngineOperation) -> None:
        """Stop a statement and its Spark job; never raises."""
        if self._engine is None:
            return
        with contextlib.suppress(EngineUnavailable, EngineRefused, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._engine.cancel(handle)

    def free(self, handle: EngineOperation) -> None:
        """Let the engine drop a result, in the background."""
        if self._engine and not self._engine.is_closed:
            self._spawn(_freed(self._engine, handle))

    def close_idle(self) -> None:
        """Let go of connections to the engine that nothing uses."""
        if self._engine:
            self._engine.close_idle()

    async def close(self) -> None:
        """End the engine session. Idempotent, never raises."""
        self._is_closed = True
        async with self._opening:
            engine, self._engine = self._engine, None
        if engine:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await engine.close()

    async def _authorise(self, client: EngineClient) -> None:
        """Make the Guard know this user's rights as of now, or newer."""
        version = await self._services.store.policy_version()
        if client.acknowledged_version(self._user) >= version:
            return
        policy = await self._services.store.policy_for(self._user)
        if not policy.is_active:
            await client.forget_principal(self._user)
            raise _disabled(self._user)
        await client.push_policy(policy)
        self._services.policies[self._user] = policy

    async def _open(self, client: EngineClient) -> EngineSession:
        limits = self._services.limits
        his = self._services.count_in_engine(self._user, self)
        if his >= limits.engine_sessions_per_user:
            raise EngineFull(
                f"the engine serves {his} sessions of yours already",
                hint="close sessions that are not needed",
            )
        most = limits.engine_sessions
        if client.facts().open_sessions >= most:
            raise EngineFull(
                f"the engine serves {most} sessions already",
                hint="close sessions that are not needed, or try again later",
            )
        engine = await client.open_session(self._user, self._configuration)
        self._database = DEFAULT_DATABASE
        for change in self._changes.values():
            await self._aside(engine, change)
        return engine

    async def _warm(self, client: EngineClient) -> None:
        with contextlib.suppress(SluiceError, TimeoutError):
            await self._authorise(client)
            await self.session(client, self._database)

    async def _aside(self, engine: EngineSession, statement: str) -> None:
        handle = await engine.execute(statement)
        status = await engine.status(handle)
        while not status.state.is_terminal:
            status = await engine.status(handle)
        self._spawn(_freed(engine, handle))
        if status.state is not OperationState.FINISHED:
            raise EngineRefused(status.message, sql_state=status.sql_state)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


def overdue() -> EngineRefused:
    """The error of a second run that does not end in the time of its statement."""
    return EngineRefused(
        "the engine that held this result ended, and the statement has no time left to"
        " run again",
        sql_state=TIMED_OUT,
    )


def stage_line(done: int, total: int) -> str:
    """Return progress as Hive's log has it: clients find their bar's state in that."""
    return f"INFO  : Stage-1 map = {100 * done // total}%,  reduce = 0%"


async def _freed(engine: EngineSession, handle: EngineOperation) -> None:
    with contextlib.suppress(EngineUnavailable, EngineRefused):
        await engine.close_operation(handle)


def _disabled(user: str) -> AccessDenied:
    return AccessDenied(f"{user} is disabled", code="user_disabled")
