"""A session's half inside the engine: opened at need, brought up to date, replaced.

Every use first makes sure that the engine's Guard knows the user's rights as of now.
Must not know clients, handles or the wire.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, replace

from catalog.access.principal_policy import PrincipalPolicy
from core.errors import AccessDenied, InvalidRequest, SluiceError
from core.sentences import Sentence
from gateway.ending import end_all
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
from gateway.idle_sessions import IdleSession
from gateway.operation import Context, Operation, Run
from gateway.services import Services
from gateway.statement_run import run_to_first_rows

SUCCESSOR_SECONDS = 0.25
CLOSE_SECONDS = 10.0
MOST_CHANGES, LONGEST_CHANGE = 64, 1000
MOST_APART = 8


@dataclass(slots=True, eq=False)
class _Shared:
    """The engine session that runs share while the same is current for all of them.

    context  what is current in it; None while a SET changes that
    running  runs that may still look at it
    traces   runs that have left something in it, or may yet
    """

    session: EngineSession
    context: Context | None
    running: int = 0
    traces: int = 0

    @property
    def is_as_opened(self) -> bool:
        """True when nothing but its database differs, and nobody uses it."""
        is_used = self.running or self.traces or self.session.is_closed
        return not is_used and self.context is not None and not self.context.changes

    def may_become(self, context: Context) -> bool:
        """True when nothing runs in it, and nothing would have to be unset."""
        if self.running or self.context is None:
            return False
        return self.context.changes.keys() <= context.changes.keys()


class SessionEngine:
    """The engine's side of one gateway session of `user`. `is_pooled`: it may have been
    another one's before, of the same user and configuration."""

    def __init__(
        self,
        services: Services,
        user: str,
        configuration: Mapping[str, str],
        *,
        is_pooled: bool = False,
    ) -> None:
        self.changes: Mapping[str, str] = {}
        self._services = services
        self._user = user
        self._configuration = configuration
        self._is_pooled = is_pooled
        self._shared: _Shared | None = None
        self._apart = 0
        self._opening = asyncio.Lock()
        self._is_closed = False
        self._background: set[asyncio.Task[None]] = set()

    @property
    def is_open(self) -> bool:
        return self._shared is not None and not self._shared.session.is_closed

    @property
    def is_held(self) -> bool:
        """As `is_open`; also while it is being opened."""
        return self.is_open or (self._opening.locked() and not self._is_closed)

    async def begin(
        self,
        operation: Operation,
        *,
        version: asyncio.Future[int] | None = None,
        changes: str = "",
    ) -> Run:
        """Add a run to the operation, once an engine is READY that knows the user's
        rights and has current what was when the statement was sent.

        The end of an engine is waited out: nothing of the operation has
        reached it. EngineUnavailable when none starts, or none keeps running.
        `version` is that of all rights, read since the statement was sent: until it is
        known the run has the rights that were read last, see `has_rights_of`. None: it
        is read. `changes` is the setting that the run changes in its session, if any.
        """
        limits = self._services.limits
        until = time.monotonic() + limits.engine_wait_seconds
        while True:
            client = await self._ready(operation)
            try:
                policy = self._known_policy(client)
                if policy is None or version is None or version.done():
                    policy = await self._authorise(client, version)
                session, is_apart = await self._take(
                    client, operation.context, is_change=bool(changes)
                )
            except EngineFull:
                raise
            except EngineUnavailable:
                if time.monotonic() > until or self._is_closed:
                    raise
                await asyncio.sleep(SUCCESSOR_SECONDS)
                continue
            starts = self._services.supervisor.facts().starts
            run = Run(session, policy, starts, is_apart=is_apart)
            operation.runs.append(run)
            return run

    async def _ready(self, operation: Operation) -> EngineClient:
        supervisor = self._services.supervisor
        is_ready = supervisor.facts().state is EngineState.READY
        if not is_ready and not operation.runs:  # else its last line says why
            operation.log_line("the query engine is starting")
        return await supervisor.ready(seconds=self._services.limits.engine_wait_seconds)

    async def require_rights(self, operation: Operation, *, is_again: bool) -> None:
        """Raise AccessDenied when a right was revoked since the statement began.

        Reading on trusts the version that was read last, within moments; reading
        from the start again, which makes the engine run it again, asks for it.
        """
        store, run = self._services.store, operation.run
        version = await store.policy_version() if is_again else store.seen_version
        if run is None or version <= run.policy.version:
            return
        policy = await store.policy_for(self._user)
        if not policy.covers(run.policy, run.reads):
            raise AccessDenied(
                "rights of yours were revoked since this statement began; its result"
                " is closed",
                code="rights_revoked",
                hint="run the statement again",
            )
        run.policy = policy

    async def require_active(self) -> None:
        """Raise AccessDenied when the user was disabled; asks no engine."""
        version = await self._services.store.policy_version()
        if self._services.supervisor.client.acknowledged_version(self._user) < version:
            policy = await self._services.store.policy_for(self._user)
            if not policy.is_active:
                raise _disabled(self._user)

    async def run(
        self,
        run: Run,
        operation: Operation,
        *,
        changes: str = "",
        until: float | None = None,
    ) -> None:
        """As `run_to_first_rows`, in the session that `begin` took for it."""
        is_done = False
        try:
            if not operation.is_left:
                await run_to_first_rows(self._services, run, operation, until=until)
                is_done = not operation.is_left
        finally:
            shared = self._shared
            if shared and shared.session is run.engine:
                shared.running -= 1
            if changes:
                self._settle(
                    run, operation, {changes: operation.statement} if is_done else {}
                )
            if operation.is_left:
                self.drop(run)

    def give_up(self, run: Run) -> None:
        """Use its engine session no more; the next statement opens another."""
        if self._shared and self._shared.session is run.engine:
            self._shared = None
        self._spawn(run.engine.close())

    def drop(self, run: Run) -> None:
        """Let the engine end what it does for a run, and forget its result, in the
        background. Idempotent; of one that is just being sent, `run` takes care."""
        if run.is_dropped or not (run.handle or run.is_apart):
            return
        run.is_dropped = True
        if self._shared and self._shared.session is run.engine and run.left_nothing:
            self._shared.traces -= 1
        if run.is_apart:
            self._apart -= 1
            self._spawn(run.engine.close())
        elif run.handle and not run.engine.is_closed:
            self._spawn(_dropped(run.engine, run.handle, is_over=run.is_over))

    def require_room_for(self, key: str, statement: str) -> None:
        """Raise InvalidRequest for a SET that could not be remembered."""
        changes = len(self.changes.keys() - {key})
        if changes >= MOST_CHANGES or len(statement) > LONGEST_CHANGE:
            raise InvalidRequest(
                "a session remembers %(most)s settings, each changed by a"
                " SET of at most %(longest)s characters",
                most=MOST_CHANGES,
                longest=LONGEST_CHANGE,
                code="too_many_settings",
            )

    def _settle(
        self, run: Run, operation: Operation, change: Mapping[str, str]
    ) -> None:
        """After a SET or RESET: what is current in its engine session, and for what is
        sent from now on."""
        shared, before = self._shared, operation.context
        if shared and shared.session is run.engine:
            changes = {**before.changes, **change}
            shared.context = replace(before, changes=changes)
        self.changes = {**self.changes, **change}

    def warm(self, context: Context) -> None:
        """Open the engine session ahead of the first statement, if one is READY and
        the user's statements mostly come to something."""
        if self._services.waste.is_much(self._user):
            return
        supervisor = self._services.supervisor
        facts = supervisor.facts()
        if facts.state is not EngineState.READY:
            supervisor.want()
        elif facts.open_sessions - len(
            self._services.idle
        ) < self._services.limits.warm_sessions and self._services.may_warm(self._user):
            self._spawn(self._warm(supervisor.client, context))

    def close_idle(self) -> None:
        """Let go of connections to the engine that nothing uses."""
        if self._shared:
            self._shared.session.close_idle()

    async def close(self) -> None:
        """End the engine session, or leave it to the next. Idempotent, never raises."""
        self._is_closed = True
        async with self._opening:
            shared, self._shared = self._shared, None
        if shared is None:
            return
        ending = [shared.session]
        if self._is_pooled and shared.is_as_opened and shared.context:
            left = IdleSession(self._user, shared.session, shared.context.database)
            ending = self._services.idle.keep(left)
        await end_all((one.close() for one in ending), seconds=CLOSE_SECONDS)

    async def has_rights_of(self, run: Run, version: asyncio.Future[int]) -> bool:
        """Whether the Guard had this user's rights as of that version for a run; it has
        them from now on. Nothing of the run may be shown before."""
        if await asyncio.shield(version) <= run.policy.version:
            return True
        policy = await self._authorise(self._services.supervisor.client, version)
        is_same = replace(run.policy, version=policy.version) == policy
        run.policy = policy if is_same else run.policy
        return is_same

    def _known_policy(self, client: EngineClient) -> PrincipalPolicy | None:
        """The rights that the Guard has, unless newer ones have been seen."""
        known = self._services.policies.get(self._user)
        acknowledged = client.acknowledged_version(self._user)
        if known is None or acknowledged != known.version:
            return None
        return known if acknowledged >= self._services.store.seen_version else None

    async def _authorise(
        self, client: EngineClient, at: asyncio.Future[int] | None = None
    ) -> PrincipalPolicy:
        """Make the Guard know this user's rights as of a version, or newer, and return
        them; as of now for none."""
        store = self._services.store
        version = await (asyncio.shield(at) if at else store.policy_version())
        known = self._services.policies.get(self._user)
        acknowledged = client.acknowledged_version(self._user)
        if known and acknowledged >= version and known.version == acknowledged:
            return known
        policy = await store.policy_for(self._user)
        if not policy.is_active:
            await client.forget_principal(self._user)
            raise _disabled(self._user)
        await client.push_policy(policy)
        self._services.policies[self._user] = policy
        return policy

    async def _take(
        self, client: EngineClient, context: Context, *, is_change: bool
    ) -> tuple[EngineSession, bool]:
        """An engine session in which `context` is current, and whether it is apart from
        the shared one: that stays as it is for those that run in it."""
        async with self._opening:
            shared = await self._shared_in(client, context)
            if shared.context == context and not (is_change and shared.running):
                shared.running += 1
                shared.traces += 1
                shared.context = None if is_change else context
                return shared.session, False
            if self._apart >= MOST_APART:
                raise EngineFull(
                    Sentence(
                        "%(count)s statements of this session run or keep results in"
                        " other databases or with other settings",
                        count=self._apart,
                    ),
                    hint="close statements that are done with",
                )
            session = await self._open(client, context)
            self._apart += 1
            return session, True

    async def _shared_in(self, client: EngineClient, context: Context) -> _Shared:
        """The shared session, with `context` current in it if that disturbs nobody."""
        if self._is_closed:
            raise EngineUnavailable("the session is closed")
        shared = self._shared
        if shared is None or shared.session.is_closed:
            self._shared = shared = _Shared(await self._open(client, context), context)
        elif shared.context != context and shared.may_become(context):
            before, shared.context = shared.context, None
            try:
                await self._bring(shared.session, before or Context(), context)
            except BaseException:
                self._shared = None
                self._spawn(shared.session.close())
                raise
            shared.context = context
        return shared

    async def _open(self, client: EngineClient, context: Context) -> EngineSession:
        own = self._services.count_in_engine(self._user, self)
        if own >= self._services.limits.engine_sessions_per_user:
            raise EngineFull(
                Sentence(
                    "the engine serves %(count)s sessions of yours already", count=own
                ),
                hint="close sessions that are not needed",
            )
        idle = self._services.idle.take(self._user) if self._is_pooled else None
        engine = idle.session if idle else await self._open_new(client)
        before = Context(idle.database) if idle else Context()
        try:
            await self._bring(engine, before, context)
        except BaseException:
            self._spawn(engine.close())
            raise
        return engine

    async def _open_new(self, client: EngineClient) -> EngineSession:
        most = self._services.limits.engine_sessions
        if client.facts().open_sessions >= most:
            for spare in self._services.idle.remove_oldest():
                await spare.close()
        if client.facts().open_sessions >= most:
            raise EngineFull(
                Sentence("the engine serves %(most)s sessions already", most=most),
                hint="close sessions that are not needed, or try again later",
            )
        return await client.open_session(self._user, self._configuration)

    async def _bring(
        self, engine: EngineSession, before: Context, after: Context
    ) -> None:
        for key, change in after.changes.items():
            if before.changes.get(key) != change:
                await self._aside(engine, change)
        if before.database != after.database:
            name = after.database.replace("`", "``")
            await self._aside(engine, f"USE `{name}`")

    async def _warm(self, client: EngineClient, context: Context) -> None:
        with contextlib.suppress(SluiceError, TimeoutError):
            await self._authorise(client)
            async with self._opening:
                await self._shared_in(client, context)

    async def _aside(self, engine: EngineSession, statement: str) -> None:
        handle = await engine.execute(statement)
        status = await engine.status(handle)
        while not status.state.is_terminal:
            status = await engine.status(handle)
        self._spawn(_dropped(engine, handle, is_over=True))
        if status.state is not OperationState.FINISHED:
            raise EngineRefused(status.message, sql_state=status.sql_state)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


async def _dropped(
    engine: EngineSession, handle: EngineOperation, *, is_over: bool
) -> None:
    with contextlib.suppress(EngineUnavailable, EngineRefused):
        if not is_over:
            await engine.cancel(handle)
        await engine.close_operation(handle)


def _disabled(user: str) -> AccessDenied:
    return AccessDenied("%(user)s is disabled", user=user, code="user_disabled")
