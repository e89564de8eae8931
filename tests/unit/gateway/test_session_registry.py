"""Which session and operation a handle opens."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from gateway.hs2.values import SERVER_VERSION, OperationType
from gateway.limits import GatewayLimits
from gateway.operation import Operation
from gateway.services import Services
from gateway.session import Session


def test_an_operation_is_found_without_a_look_at_other_sessions(monkeypatch):
    """Clients poll: one with all the sessions that a user may have costs no more."""
    looks: list[Session] = []
    find = Session.find

    def counted(self, handle):
        looks.append(self)
        return find(self, handle)

    monkeypatch.setattr(Session, "find", counted)

    async def ask() -> None:
        services = Services(cast(Any, None), cast(Any, None), GatewayLimits())
        registry, opened = services.sessions, []
        for _ in range(5):
            one = Session(services, "ann", protocol=SERVER_VERSION)
            registry.add(one)
            one.add(Operation(OperationType.GET_COLUMNS))
            opened.append(one)
        last = opened[-1]
        (operation,) = last.operations.values()
        assert registry.find_operation("ann", operation.handle) == (last, operation)
        assert looks == [last]
        assert registry.find_operation("bob", operation.handle) is None
        (other,) = opened[0].operations.values()
        await opened[0].free(other)
        assert registry.find_operation("ann", other.handle) is None
        await registry.end([last])
        assert registry.find_operation("ann", operation.handle) is None
        await registry.end(opened)
        assert not registry._by_operation

    asyncio.run(ask())
