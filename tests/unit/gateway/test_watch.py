"""The watch over rights and logins goes on, whatever one look comes to."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from catalog.access.proofs import Proof
from core.errors import TransientError
from gateway import ending
from gateway.limits import GatewayLimits
from gateway.process import _logged
from gateway.server import ClientProtocol, GatewayServer
from gateway.services import Services
from tests.unit.gateway.test_kept_by_clients import Transport


@pytest.mark.parametrize("error", [TransientError("away"), ValueError("unforeseen")])
def test_a_look_that_fails_is_logged(error, caplog):
    async def look() -> None:
        raise error

    asyncio.run(_logged(look()))
    assert ("is tried again" in caplog.text) is isinstance(error, ValueError)


def test_the_end_of_the_gateway_is_no_failure():
    async def end() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(_logged(end()))


def test_a_thousand_connections_end_though_no_engine_answers(monkeypatch):
    monkeypatch.setattr(ending, "ENDING_SECONDS", 0.01)

    async def end_them() -> int:
        services = Services(cast(Any, None), cast(Any, None), GatewayLimits())
        server, never = GatewayServer(services), asyncio.Event()
        proof = Proof(1, 1)
        for number in range(1_000):
            client = ClientProtocol(server.connections, server.services)
            client.connection_made(cast(Any, Transport()))
            client.proof = proof if number % 2 else None
            client.handler = cast(Any, SimpleNamespace(close=never.wait))
            client.become("ann")
        await server.end_lapsed({proof: "its token was revoked"})
        ended = sum(c._connection.state == "CLOSED" for c in server.connections)
        await server.end_sessions_of(["ann"])
        assert all(c._connection.state == "CLOSED" for c in server.connections)
        return ended

    assert asyncio.run(end_them()) == 500
