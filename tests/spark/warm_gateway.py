"""A whole gateway in front of the engine that all tests of this folder share."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from catalog.access.principal_policy import PrincipalPolicy, ReadTables
from gateway.engines.channel import EngineChannel
from gateway.engines.lifecycle import EngineFacts, EngineState
from gateway.engines.port import EngineOperation, EngineSession, Progress
from gateway.engines.thrift_session import ThriftEngineSession
from tests.spark.engine_bench import EngineBench


class WarmEngine:
    """`EngineClient` of the bench's engine, which it neither starts nor stops."""

    def __init__(self, bench: EngineBench) -> None:
        self.opened: list[str] = []  # whose sessions, in their order
        self._bench = bench
        self._versions: dict[str, int] = {}
        self._turn = asyncio.Lock()

    def facts(self) -> EngineFacts:
        return EngineFacts(engine_id="warm", state=EngineState.READY, starts=1)

    async def start(self) -> None:
        """It runs."""

    async def probe(self) -> None:
        """It answers."""

    async def push_policy(self, policy: PrincipalPolicy) -> None:
        async with self._turn:
            await asyncio.to_thread(self._push, policy)

    def _push(self, policy: PrincipalPolicy) -> None:
        tables = {
            name: {
                "columns": None if on.columns is None else sorted(on.columns),
                "filters": list(on.filters),
                "masks": {c: [mask.kind, mask.text] for c, mask in on.masks},
            }
            for name, on in policy.tables.items()
        }
        self._bench.policy(
            policy.principal,
            select=policy.select,
            discover=policy.discover,
            is_admin=policy.is_admin,
            is_active=policy.is_active,
            sources=policy.sources,
            sources_seen=policy.sources_seen,
            tables=tables,
            version=policy.version,
        )
        self._versions[policy.principal] = policy.version

    def acknowledged_version(self, principal: str) -> int:
        return self._versions.get(principal, -1)

    async def forget_principal(self, principal: str) -> None:
        self._versions.pop(principal, None)

    async def open_session(
        self, principal: str, configuration: Mapping[str, str]
    ) -> EngineSession:
        self.opened.append(principal)

        async def opener() -> EngineChannel:
            return await EngineChannel.open(
                *("127.0.0.1", self._bench.port),
                username=principal,
                secret=self._bench.secret,
            )

        return await ThriftEngineSession.open(opener, configuration)

    def progress(self, operation: EngineOperation) -> Progress | None:
        return None

    def reads(self, operation: EngineOperation) -> ReadTables | None:
        told = self._bench.tell("reads", statement=operation.guid.hex())
        if told["reads"] is None:
            return None
        tables = {name: frozenset(on) for name, on in told["reads"].items()}
        return ReadTables(told["version"], tables, is_whole=told["is_whole"])

    async def stop(self, *, grace_seconds: float) -> None:
        """Others go on with it."""
