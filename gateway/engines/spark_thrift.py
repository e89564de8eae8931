"""One Spark engine as the gateway sees it: process, control channel, Thrift sessions.

Puts `launch`, the control listener and `thrift_session` together behind the port. Must
not know users' handles or the metadata database.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from catalog.access.principal_policy import PrincipalPolicy, ReadTables
from core.errors import said_by
from core.sentences import Sentence
from gateway.control import ControlListener
from gateway.engines.channel import EngineChannel
from gateway.engines.launch import EngineProcess, EngineSpec
from gateway.engines.lifecycle import EngineFacts, EngineState
from gateway.engines.port import (
    EngineOperation,
    EngineQuestions,
    EngineRefused,
    EngineSession,
    EngineUnavailable,
    OperationState,
    Progress,
)
from gateway.engines.thrift_session import ThriftEngineSession

log = logging.getLogger(__name__)
_ENDED = "the engine ended while starting"
_LATE = "the engine did not start in time"

HOST = "127.0.0.1"
START_SECONDS = 180.0
PROBE_SECONDS = 10.0
# Never a user's name: user names hold no sign outside letters, digits and "._@-".
PROBE_PRINCIPAL = "#probe"
CHECK = "SELECT 1"
WARM_UP_AFTER = 3.0
WARM_UP = (
    "SELECT k, count(*), max(v) FROM (VALUES (1, 'a'), (2, 'b')) t(k, v) "
    "WHERE k > 0 GROUP BY k ORDER BY k"
)


@dataclass(slots=True)
class _Running:
    """The parts of a launched engine."""

    process: EngineProcess
    control: ControlListener
    secret: str
    port: int = 0


class SparkEngine:
    """`EngineClient` to one local Spark engine, launched on `start`."""

    def __init__(
        self, spec: EngineSpec, questions: EngineQuestions, *, engine_id: str
    ) -> None:
        self._spec = spec
        self._questions = questions
        self._engine_id = engine_id
        self._running: _Running | None = None
        self._state = EngineState.STOPPED
        self._reason = ""
        self._started_at: float | None = None
        self._seen_at: float | None = None
        self._starts = 0
        self._failures = 0
        self._sessions = 0
        self._warming: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()

    def facts(self) -> EngineFacts:
        running = self._running
        state, reason = self._state, self._reason
        if state is EngineState.READY and running and not running.process.is_running:
            said = running.process.end_reason()
            state = EngineState.FAILED
            reason = (
                Sentence("the process ended: %(why)s", why=said)
                if said
                else "the process ended"
            )
        return EngineFacts(
            engine_id=self._engine_id,
            state=state,
            pid=running.process.pid if running else None,
            port=running.port if running else None,
            started_at=self._started_at,
            last_seen_at=self._seen_at,
            open_sessions=self._sessions,
            starts=self._starts,
            consecutive_failures=self._failures,
            reason=reason,
        )

    async def start(self) -> None:
        """Launch a process, wait until it answers. A second caller waits along."""
        async with self._turn:
            facts = self.facts()
            if facts.state is EngineState.READY:
                return
            if self._state is EngineState.READY:
                log.error("the engine died, a successor starts: %s", facts.reason)
            await self._end_process(grace_seconds=0)
            self._state, self._reason = EngineState.STARTING, ""
            self._starts += 1
            self._started_at = time.monotonic()
            try:
                await self._launch()
            except BaseException as error:
                self._failures += 1
                self._state, self._reason = EngineState.FAILED, said_by(error)
                await self._end_process(grace_seconds=0)
                raise
            self._failures = 0
            self._seen_at = time.monotonic()
            self._state = EngineState.READY

    async def _launch(self) -> None:
        secret = secrets.token_urlsafe(32)
        process = EngineProcess(self._spec, self._engine_id, secret)
        control = ControlListener(process.socket_path, secret, self._questions)
        self._running = running = _Running(process, control, secret)
        await control.start()
        await process.launch()
        running.port = await self._first_hello(running)
        await self._run_aside(CHECK)
        self._warming = asyncio.create_task(self._warm_up())

    async def _warm_up(self) -> None:
        """Load what larger statements need, once no statement waits for the first
        answer."""
        await asyncio.sleep(WARM_UP_AFTER)
        with contextlib.suppress(EngineUnavailable, EngineRefused):
            await self._run_aside(WARM_UP)

    async def _first_hello(self, running: _Running) -> int:
        hello = asyncio.ensure_future(running.control.wait_hello())
        ended = asyncio.ensure_future(running.process.wait())
        try:
            await asyncio.wait(
                (hello, ended),
                timeout=START_SECONDS,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if hello.done():
                return hello.result().port
        finally:
            hello.cancel()
            ended.cancel()
        what = _ENDED if ended.done() else _LATE
        # Not in the sentence: every user is told that, and this has others' statements.
        log.error("%s; its log ends: %s", what, running.process.log_tail())
        raise EngineUnavailable(
            what,
            hint=Sentence("read %(file)s", file=running.process.log_path),
        )

    async def probe(self) -> None:
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                await self._run_aside(CHECK)
        except (TimeoutError, EngineRefused) as error:
            raise EngineUnavailable(
                "the engine fails its probe: %(error)s", error=said_by(error)
            ) from error
        self._seen_at = time.monotonic()

    async def _run_aside(self, statement: str) -> None:
        """Run a statement without a user, in a session that does not count."""
        nobody = PrincipalPolicy(
            principal=PROBE_PRINCIPAL, version=0, is_active=True, is_admin=False
        )
        if self.acknowledged_version(PROBE_PRINCIPAL) < 0:
            await self.push_policy(nobody)
        session = await self._open(PROBE_PRINCIPAL, {}, on_close=lambda: None)
        try:
            await run_statement(session, statement)
        finally:
            await session.close()

    async def push_policy(self, policy: PrincipalPolicy) -> None:
        await self._require_running().control.push_policy(policy)

    def acknowledged_version(self, principal: str) -> int:
        if self._running is None:
            return -1
        return self._running.control.acknowledged_version(principal)

    async def forget_principal(self, principal: str) -> None:
        if self._running is not None:
            await self._running.control.forget(principal)

    async def open_session(
        self, principal: str, configuration: Mapping[str, str]
    ) -> EngineSession:
        """Open a session of `principal`; their policy must have been pushed.

        The engine denies statements of a session that is not fully open, so
        `use:database` becomes a statement of its own.
        """
        settings = {k: v for k, v in configuration.items() if k != "use:database"}
        self._sessions += 1
        try:
            session = await self._open(
                principal, settings, on_close=self._session_closed
            )
        except BaseException:
            self._session_closed()
            raise
        database = configuration.get("use:database") or "default"
        try:
            if database != "default":
                name = database.replace("`", "``")
                await run_statement(session, f"USE `{name}`")
        except BaseException:
            await session.close()
            raise
        return session

    async def _open(
        self,
        principal: str,
        settings: Mapping[str, str],
        *,
        on_close: Callable[[], None],
    ) -> ThriftEngineSession:
        running = self._require_running()

        async def opener() -> EngineChannel:
            return await EngineChannel.open(
                HOST, running.port, username=principal, secret=running.secret
            )

        return await ThriftEngineSession.open(opener, settings, on_close=on_close)

    def _session_closed(self) -> None:
        self._sessions -= 1

    def progress(self, operation: EngineOperation) -> Progress | None:
        if self._running is None:
            return None
        return self._running.control.progress(operation.guid.hex())

    def reads(self, operation: EngineOperation) -> ReadTables | None:
        if self._running is None:
            return None
        return self._running.control.reads(operation.guid.hex())

    async def stop(self, *, grace_seconds: float) -> None:
        async with self._turn:
            if self._running is not None:
                with contextlib.suppress(EngineUnavailable):
                    await self._running.control.shutdown()
            await self._end_process(grace_seconds=grace_seconds)
            self._state, self._reason = EngineState.STOPPED, ""

    async def _end_process(self, *, grace_seconds: float) -> None:
        running, self._running = self._running, None
        if self._warming:
            self._warming.cancel()
        if running is not None:
            # one that is told to end cancels them itself
            is_killed = not (grace_seconds and running.process.is_running)
            await running.control.close()
            await running.process.end(grace_seconds=grace_seconds)
            if is_killed and (sources := running.control.sources):
                # its successor is not kept waiting by a source that does not answer
                left = self._questions.end_live_statements(
                    sources, running.control.mark
                )
                self._ending = asyncio.create_task(left)

    def _require_running(self) -> _Running:
        if self._running is None or not self._running.process.is_running:
            raise EngineUnavailable("the query engine is not running", hint="try again")
        return self._running


async def run_statement(session: EngineSession, statement: str) -> EngineOperation:
    """Run a statement to its end; EngineRefused when it does not finish well."""
    operation = await session.execute(statement)
    status = await session.status(operation)
    while not status.state.is_terminal:
        status = await session.status(operation)
    if status.state is not OperationState.FINISHED:
        raise EngineRefused(status.message, sql_state=status.sql_state)
    return operation
