"""Puts the gateway process together: store, engine, interfaces, watcher, clean end.

Must not know Django's management commands; `gateway.management` only starts it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import resource
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from catalog.access.principal_policy import PrincipalPolicy
from core.errors import SluiceError
from core.files import write_private
from core.processes.identity import ProcessIdentity
from gateway.engines.lifecycle import EngineState, Limits
from gateway.engines.port import EngineClient, EngineQuestions
from gateway.engines.supervisor import EngineSupervisor
from gateway.http_transport import HttpTransport
from gateway.internal import InternalApi
from gateway.limits import GatewayLimits
from gateway.metrics import DATABASE_AGE, ENGINE_READY
from gateway.response_memory_limit import ReplyRoom
from gateway.server import GatewayServer
from gateway.services import Services
from gateway.session_service import SessionService
from gateway.statement_service import StatementService
from gateway.store import Store

log = logging.getLogger(__name__)

POLICIES_AT_ONCE = 4

ClientMaker = Callable[[EngineQuestions], EngineClient]


@dataclass(frozen=True, slots=True)
class GatewaySpec:
    """Where the gateway listens and keeps things. `internal_file` tells the web
    process how to reach the internal API."""

    home: Path
    host: str
    port: int
    http_port: int
    internal_file: Path
    service_secret: str = field(repr=False)
    lake_root: str = ""
    tls: ssl.SSLContext | None = None
    limits: GatewayLimits = field(default_factory=GatewayLimits)
    engine_limits: Limits = field(default_factory=Limits)
    is_engine_warm: bool = False


class Gateway:
    """One gateway process's parts."""

    def __init__(self, spec: GatewaySpec, make_client: ClientMaker) -> None:
        self.spec = spec
        self.store = Store()
        self.supervisor = EngineSupervisor(
            make_client(self.store), limits=spec.engine_limits
        )
        self.services = Services(
            self.store, self.supervisor, spec.limits, lake_root=spec.lake_root
        )
        self.server = GatewayServer(self.services)
        self.statements = StatementService(self.services, spec.home / "results")
        self.internal = InternalApi(
            self.statements,
            self.store,
            self.supervisor,
            sessions=SessionService(self.services),
            secret=spec.service_secret,
            room=ReplyRoom(spec.limits.reply_bytes),
        )
        self.port = self.http_port = 0
        self._watcher: asyncio.Task[None] | None = None
        self._version = -1

    async def start(self) -> None:
        """Open both interfaces; without `is_engine_warm` the engine
        waits for the first statement."""
        _raise_file_limit()
        self.supervisor.open()
        if self.spec.is_engine_warm:
            self.supervisor.want()
        internal_port = await self.internal.start()
        self.port = await self.server.start(
            self.spec.host, self.spec.port, tls=self.spec.tls
        )
        http = HttpTransport(self.server, is_secure=self.spec.tls is not None)
        self.http_port = await self.server.listen(
            http.make_client, self.spec.host, self.spec.http_port, tls=self.spec.tls
        )
        address = {"host": "127.0.0.1", "port": internal_port, "pid": os.getpid()}
        write_private(self.spec.internal_file, json.dumps(address))
        write_private(self._pid_file, json.dumps(_identity(self.port)))
        self._watcher = asyncio.create_task(self._watch())
        ports = f"{self.port} and, for HTTP, {self.http_port}"
        log.info("gateway listens on %s, ports %s", self.spec.host, ports)

    async def close(self) -> None:
        """End sessions, engine and threads, in this order."""
        if self._watcher:
            self._watcher.cancel()
        await self.server.close()
        await self.statements.close()
        await self.internal.close()
        await self.supervisor.close()
        await self.store.close()
        for path in (self.spec.internal_file, self._pid_file):
            path.unlink(missing_ok=True)

    @property
    def _pid_file(self) -> Path:
        return self.spec.home / "run" / "gateway.pid.json"

    async def _watch(self) -> None:
        """Keep the database's age honest and act on changed rights."""
        while True:
            await _logged(self._check_rights())
            await _logged(self._check_logins())
            age = self.store.db_read_age_ms() / 1000
            DATABASE_AGE.set(age)
            ready = self.supervisor.facts().state is EngineState.READY
            ENGINE_READY.set(1 if ready else 0)
            await asyncio.sleep(self.spec.limits.close_disabled_within)

    async def _check_logins(self) -> None:
        await self.server.end_lapsed(await self.store.lapsed(self.server.proofs()))

    async def _check_rights(self) -> None:
        version = await self.store.policy_version()
        if version == self._version:
            return
        users = sorted(self.server.users() | self.statements.users())
        policies = await self._policies_of(users)
        gone = [
            u for u, policy in zip(users, policies, strict=True) if not policy.is_active
        ]
        if gone:
            log.warning("sessions of disabled users end: %s", ", ".join(gone))
            await self.server.end_sessions_of(gone)
            await self.statements.end_statements_of(gone)
        for policy in policies:
            await self.statements.end_revoked(policy)
        for user in gone:
            # their sessions have ended, whether or not an engine answers
            with contextlib.suppress(SluiceError, OSError):
                await self.supervisor.client.forget_principal(user)
        self._version = version

    async def _policies_of(self, users: Sequence[str]) -> list[PrincipalPolicy]:
        """As they are now; as many are read at once as the store has threads."""
        turns = asyncio.Semaphore(POLICIES_AT_ONCE)

        async def one(user: str) -> PrincipalPolicy:
            async with turns:
                return await self.store.policy_for(user)

        return await asyncio.gather(*(one(user) for user in users))


async def _logged(check: Awaitable[None]) -> None:
    """Await it; the next check comes whatever became of this one: nothing else ends the
    sessions of those who may no longer be in."""
    try:
        await check
    except SluiceError:
        return  # the database or the engine is away, which is logged elsewhere
    except Exception:
        log.exception("checking rights and logins failed; it is tried again")


def _raise_file_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = hard if hard != resource.RLIM_INFINITY else max(soft, 65536)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))


def _identity(port: int) -> dict[str, object]:
    own = ProcessIdentity.own()
    return {"pid": own.pid, "start_time": own.start_time, "port": port}
