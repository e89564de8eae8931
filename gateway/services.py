"""What all sessions of a gateway process share."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from core.errors import InvalidRequest
from gateway.engines.port import EnginePolicy
from gateway.engines.supply import EngineSupply
from gateway.limits import GatewayLimits
from gateway.result_reader import ReadAheadRoom
from gateway.store import Store


@dataclass(slots=True)
class Services:
    """What sessions share: one each per gateway process. `policies` holds what was
    last pushed of each user."""

    store: Store
    supply: EngineSupply
    limits: GatewayLimits
    lake_root: str = ""
    slots: asyncio.Semaphore = field(init=False)
    room: ReadAheadRoom = field(init=False)
    policies: dict[str, EnginePolicy] = field(default_factory=dict)
    waiting: int = 0

    def __post_init__(self) -> None:
        self.slots = asyncio.Semaphore(self.limits.statements_running)
        self.room = ReadAheadRoom(
            self.limits.read_ahead_bytes, self.limits.read_ahead_batch_bytes
        )

    @contextlib.asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Hold one of the places for running statements, first come first served."""
        if self.slots.locked() and self.waiting >= self.limits.statements_queued:
            raise InvalidRequest(
                f"{self.waiting} statements are waiting already",
                code="too_many_statements",
                hint="try again later",
            )
        self.waiting += 1
        try:
            await self.slots.acquire()
        finally:
            self.waiting -= 1
        try:
            yield
        finally:
            self.slots.release()
