"""Sessions that one user opens in an engine at once leave others theirs."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from gateway.limits import GatewayLimits
from gateway.services import Services
from gateway.session_engine import SessionEngine

LIMITS = GatewayLimits(engine_openings=3, engine_openings_per_user=2, engine_sessions=4)


class SlowEngine:
    """Opens none before it is told to, as one on a busy core."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.goes_on = asyncio.Event()

    def facts(self) -> SimpleNamespace:
        return SimpleNamespace(open_sessions=len(self.asked))

    async def open_session(self, user: str, _: object) -> SimpleNamespace:
        self.asked.append(user)
        await self.goes_on.wait()
        return SimpleNamespace(is_closed=False)


async def settled(tasks: list[asyncio.Task[Any]]) -> None:
    """Return when each has come as far as it can."""
    for _ in range(10 * len(tasks)):
        await asyncio.sleep(0)


def test_the_sessions_of_one_user_open_two_at_a_time() -> None:
    async def scene() -> tuple[list[str], list[object]]:
        services = Services(cast(Any, None), cast(Any, None), LIMITS)
        engine = SlowEngine()

        def begin(user: str) -> asyncio.Task[Any]:
            side = SessionEngine(services, user, {})
            return asyncio.create_task(side.session(cast(Any, engine), "default"))

        crowd = [begin("ann") for _ in range(5)]
        await settled(crowd)
        other = begin("bob")
        await settled([*crowd, other])
        at_once = [*engine.asked]
        engine.goes_on.set()
        ends = await asyncio.gather(*crowd, other, return_exceptions=True)
        return at_once, ends

    at_once, ends = asyncio.run(scene())
    assert at_once == ["ann", "ann", "bob"]
    # room is looked for when the turn has come: those who waited are no more than fit
    refused = [str(end) for end in ends if isinstance(end, Exception)]
    assert len(refused) == 2
    assert all("serves 4 sessions already" in reason for reason in refused)
