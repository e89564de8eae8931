"""The version of all rights as statements read it: fresh, shared, and reconnecting."""

from __future__ import annotations

import asyncio

import psycopg
import pytest
from django.db import connection, transaction

from catalog.access.policy_version import bump_version
from catalog.models import AuditEntry
from gateway.audit_lines import AuditRecord
from gateway.version_reader import LinesRefused, VersionReader


def raised() -> int:
    try:
        with transaction.atomic():
            return bump_version()
    finally:
        connection.close()  # of this thread


def use(scenario):
    async def within():
        reader = VersionReader(seconds=60.0)
        try:
            return await scenario(reader)
        finally:
            await reader.close()

    return asyncio.run(within())


def test_before_the_first_change_the_version_is_one(transactional_db):
    assert use(lambda reader: reader.read()) == 1


def test_a_committed_change_is_in_the_next_read(transactional_db):
    async def scenario(reader):
        for _ in range(5):
            wanted = await asyncio.to_thread(raised)
            assert await reader.read() == wanted

    use(scenario)


def test_a_read_never_answers_from_before_it_was_asked(transactional_db):
    async def scenario(reader):
        before = await reader.read()
        early = asyncio.create_task(reader.read())
        await asyncio.sleep(0)
        wanted = await asyncio.to_thread(raised)
        late = [asyncio.create_task(reader.read()) for _ in range(20)]
        assert await early in {before, wanted}
        assert set(await asyncio.gather(*late)) == {wanted}

    use(scenario)


def test_a_dropped_connection_is_replaced(transactional_db):
    async def scenario(reader):
        wanted = await reader.read()
        pid = reader._connection.info.backend_pid
        await asyncio.to_thread(end_backend, pid)
        assert await reader.read() == wanted

    use(scenario)


def end_backend(pid: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s)", [pid])
    connection.close()


def test_a_silent_database_is_an_error_in_time_and_no_answer(transactional_db):
    async def scenario(reader):
        await reader.read()
        locker = await asyncio.to_thread(locked)
        reader._seconds = 0.3
        try:
            with pytest.raises((TimeoutError, psycopg.Error)):
                await reader.read()
        finally:
            locker.close()
        reader._seconds = 60.0
        assert await reader.read() >= 1

    use(scenario)


def locked(table: str = "catalog_policyversion") -> psycopg.Connection:
    params = connection.get_connection_params()
    names = ("dbname", "user", "password", "host", "port")
    other = psycopg.connect(**{name: params[name] for name in names if name in params})
    other.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
    return other


def test_one_line_that_cannot_be_stored_keeps_back_no_other(transactional_db):
    async def scenario(reader):
        facts = {"ann": {}, "carl": {"not JSON": object()}, "bob": {}}
        lines = [
            AuditRecord(actor=name, action="statement.start", facts=fact)
            for name, fact in facts.items()
        ]
        return await asyncio.gather(
            *(reader.write([line]) for line in lines),
            reader.read(),
            return_exceptions=True,
        )

    first, long, second, version = use(scenario)
    assert (first, second, version) == (1, 1, 1)
    assert isinstance(long, LinesRefused)
    written = AuditEntry.objects.filter(action="statement.start")
    assert sorted(written.values_list("actor", flat=True)) == ["ann", "bob"]


def test_lines_that_cannot_be_stored_are_counted_and_keep_back_no_other(
    transactional_db,
):
    facts = ({}, {"not JSON": object()}, {"not JSON": object()}, {})

    async def scenario(reader):
        lines = [AuditRecord("ann", str(n), facts=f) for n, f in enumerate(facts)]
        with pytest.raises(LinesRefused) as refused:
            await reader.write(lines)
        return refused.value.count

    assert use(scenario) == 2
    written = AuditEntry.objects.filter(actor="ann").values_list("action", flat=True)
    assert sorted(written) == ["0", "3"]
