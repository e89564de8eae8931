"""No line of the audit goes without being counted."""

from __future__ import annotations

import asyncio

import pytest

from core.errors import TransientError
from gateway import store as stores
from gateway.audit_lines import AuditRecord
from gateway.store import Store
from gateway.version_reader import LinesRefused

KEPT = 3


@pytest.fixture
def store(monkeypatch):
    monkeypatch.setattr(stores, "AUDIT_KEPT", KEPT)
    monkeypatch.setattr(stores, "AUDIT_SECONDS", 0)
    monkeypatch.setattr(stores, "BREAKER_SECONDS", 0)
    return Store()


def line(number: int) -> AuditRecord:
    return AuditRecord("ann", str(number))


class Lines:
    """What the database does with each write: fail, or take the lines."""

    def __init__(self, *ends: Exception | None) -> None:
        self.ends = list(ends)
        self.written: list[list[str]] = []
        self.meanwhile = lambda: None

    def write(self, lines):
        done = asyncio.get_running_loop().create_future()
        end = self.ends.pop(0) if self.ends else None
        self.meanwhile()
        if end:
            done.set_exception(end)
        else:
            self.written.append([one.action for one in lines])
            done.set_result(7)
        return done

    async def close(self):
        pass


def test_each_line_that_finds_no_room_is_counted(store):
    async def go() -> None:
        store._lines = lines = Lines(OSError("away"))

        def note_more() -> None:  # while the database is asked
            lines.meanwhile = lambda: None
            for number in (4, 5):
                store.note(line(number))

        lines.meanwhile = note_more
        for number in (0, 1, 2, 3):
            store.note(line(number))
        assert store.audit_lost == 1
        await store._audit_task
        assert lines.written == [["3", "4", "5"]]

    asyncio.run(go())
    assert store.audit_lost == 3


def test_lines_that_cannot_be_stored_are_counted(store):
    async def go() -> None:
        store._lines = Lines(LinesRefused(2, "why"))
        for number in range(3):
            store.note(line(number))
        await store._audit_task

    asyncio.run(go())
    assert store.audit_lost == 2


def test_what_is_queued_goes_with_the_next_statement_that_begins(store, monkeypatch):
    async def go() -> None:
        monkeypatch.setattr(stores, "AUDIT_SECONDS", 3600)
        store._lines = lines = Lines()
        store.note(line(1))
        store.note(line(2))
        assert await store.begin_statement(line(3)) == 7
        assert await store.begin_statement(line(4)) == 7
        assert lines.written == [["1", "2"], ["3"], ["4"]]
        store._audit_task.cancel()

    asyncio.run(go())


def test_what_went_with_a_statement_and_was_not_written_is_kept(store):
    async def go() -> None:
        store._lines = lines = Lines(OSError("away"), OSError("away"))
        store.note(line(1))
        with pytest.raises(TransientError):
            await store.begin_statement(line(2))
        while not lines.written:
            await asyncio.sleep(0)
        assert lines.written == [["1"]]

    asyncio.run(go())
    assert store.audit_lost == 0


def test_lines_that_are_left_when_the_gateway_ends_are_counted(store, monkeypatch):
    async def go() -> None:
        monkeypatch.setattr(store, "_write_audit", lambda: asyncio.sleep(0))
        store.note(line(1))
        await store.close()

    asyncio.run(go())
    assert store.audit_lost == 1
