"""No line of the audit goes without being counted."""

from __future__ import annotations

import asyncio

import pytest

from core.errors import TransientError
from gateway import store as stores
from gateway.audit_lines import AuditRecord
from gateway.store import Store

KEPT = 3


@pytest.fixture
def store(monkeypatch):
    monkeypatch.setattr(stores, "AUDIT_KEPT", KEPT)
    monkeypatch.setattr(stores, "AUDIT_SECONDS", 0)
    monkeypatch.setattr(stores, "BREAKER_SECONDS", 0)
    return Store()


def line(number: int) -> AuditRecord:
    return AuditRecord("ann", str(number))


def test_each_line_that_finds_no_room_is_counted(store, monkeypatch):
    written = []

    async def away_once(caller, work):
        (batch,) = work.args
        if not written:
            written.append("away")
            for number in (4, 5):  # while the database is asked
                store.note(line(number))
            raise TransientError("away")
        written.extend(one.action for one in batch)
        return 0

    async def go() -> None:
        monkeypatch.setattr(store.auditing, "run", away_once)
        for number in (0, 1, 2, 3):
            store.note(line(number))
        assert store.audit_lost == 1
        await store._audit_task

    asyncio.run(go())
    assert written == ["away", "3", "4", "5"]
    assert store.audit_lost == 3


@pytest.mark.parametrize("result", [2, ValueError("unforeseen")])
def test_lines_that_cannot_be_stored_are_counted(store, monkeypatch, result):
    async def refuse(caller, work):
        if isinstance(result, Exception):
            raise result
        return result

    async def go() -> None:
        monkeypatch.setattr(store.auditing, "run", refuse)
        for number in range(2):
            store.note(line(number))
        await store._audit_task

    asyncio.run(go())
    assert store.audit_lost == 2


def test_lines_that_are_left_when_the_gateway_ends_are_counted(store, monkeypatch):
    async def go() -> None:
        monkeypatch.setattr(store, "_write_audit", lambda: asyncio.sleep(0))
        store.note(line(1))
        await store.close()

    asyncio.run(go())
    assert store.audit_lost == 1
