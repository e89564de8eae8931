"""A log from which nothing comes: whether that is silence, work, or the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from core.errors import TransientError
from ingest.sources.port import LogNames
from ingest.sources.postgresql.log import reader as log_reader
from ingest.sources.postgresql.log.opening import open_log_reader
from ingest.sources.postgresql.log.reader import PostgresLogReader
from tests.hostile.proxy import WireProxy
from tests.hostile.wire import PostgresWire
from tests.integration.ingest.following import World, table
from tests.source_access import postgresql_at
from tests.waiting import wait_for

# Of the reader's connections, in the order in which it makes them.
CONTROL, LOG = 1, 2


@pytest.fixture
def proxy(source_pg) -> Iterator[WireProxy]:
    one = WireProxy(source_pg.host, source_pg.port, PostgresWire)
    yield one
    one.close()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_reader, "_SILENT_SECONDS", 4)
    monkeypatch.setattr(log_reader, "_PROBE_SECONDS", 2)


@contextmanager
def opened(world: World, proxy: WireProxy) -> Iterator[PostgresLogReader]:
    access = postgresql_at(world.dsn)
    spec = replace(access.spec, host="127.0.0.1", port=proxy.port)
    names = LogNames(world.spec.slot, world.spec.publication)
    world.link.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
    with open_log_reader(
        replace(access, spec=spec), names, [table(1)], after=lambda: None, wait=print
    ) as log:
        log.start(log.begin)
        world.link.execute("INSERT INTO t VALUES (1, 'a')")
        wait_for(lambda: log.read(0.1) or log.size, "a row")
        yield log


def test_a_connection_of_which_nothing_comes_is_named(
    followed: World, proxy: WireProxy
) -> None:
    """DBZ-9755, risingwave PR #25233: half a connection, and RUNNING for ever. The
    server answers others."""
    with opened(followed, proxy) as log:
        proxy.freeze(LOG)
        with pytest.raises(TransientError) as silent:
            wait_for(lambda: log.read(0.1), "its end")
        proxy.thaw()
    assert silent.value.code == "log_silent"


@pytest.mark.long
def test_a_server_that_answers_nobody_is_named(
    followed: World, proxy: WireProxy
) -> None:
    with opened(followed, proxy) as log:
        proxy.freeze()
        with pytest.raises(TransientError) as silent:
            wait_for(lambda: log.read(0.1), "its end")
        proxy.thaw()
    assert silent.value.code == "log_silent"


@pytest.mark.long
def test_a_server_at_work_is_waited_for(
    followed: World, proxy: WireProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a transaction that takes long to decode would begin again and again."""
    waits = iter([("", ""), ("IO", "ReorderBufferRead")])
    monkeypatch.setattr(log_reader, "sender_of", lambda *given, **more: next(waits))
    with opened(followed, proxy) as log:
        proxy.freeze(LOG)
        wait_for(lambda: log.read(0.1) or log.waits, "the reason")
        assert "works on its log" in log.waits
        wait_for(
            lambda: log.read(0.1) or "ReorderBufferRead" in log.waits, "what it does"
        )
        proxy.thaw()
        wait_for(lambda: log.read(0.1) or not log.waits, "its answer")


@pytest.mark.long
def test_keepalives_are_no_silence(followed: World, proxy: WireProxy) -> None:
    with opened(followed, proxy) as log:
        for _ in range(60):
            log.read(0.1)
        assert log.waits == ""
