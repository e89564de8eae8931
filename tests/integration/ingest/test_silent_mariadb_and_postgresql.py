"""A source that falls silent, on real servers behind a proxy, without Spark."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from catalog.schema.limits import LIMITS
from core.errors import TransientError
from ingest.contract.job import JobSpec
from ingest.contract.table import FenceSpec, TableSpec
from ingest.driver.apply.jobrun import JobRun
from ingest.driver.capture import reading
from ingest.driver.capture import stall_timeout as silence
from ingest.driver.capture.reading import open_stoppable
from ingest.sources.connections import connections_of
from ingest.sources.mariadb import connection as mariadb_connection
from ingest.sources.port import SourceAccess
from ingest.sources.postgresql import connection as postgresql_connection
from tests.hostile.proxy import Statement, WireProxy, proxy_of
from tests.source_access import mariadb_at, postgresql_at
from tests.waiting import wait_for

MUCH = {
    "postgresql": "SELECT repeat('x', 1000) FROM generate_series(1, 100000)",
    "mariadb": "SELECT repeat('x', 1000) FROM mysql.seq_1_to_100000",
}
OWN = {"postgresql": "SELECT pg_backend_pid()", "mariadb": "SELECT connection_id()"}
SLEEP = {"postgresql": "SELECT pg_sleep(60)", "mariadb": "SELECT sleep(60)"}


@pytest.fixture(params=["postgresql", "mariadb"])
def there(request: Any) -> SourceAccess:
    if request.param == "mariadb":
        return mariadb_at(request.getfixturevalue("mariadb_server"))
    return postgresql_at(request.getfixturevalue("source_pg").create_database("silent"))


@pytest.fixture
def proxy(there: SourceAccess, monkeypatch: pytest.MonkeyPatch) -> Iterator[WireProxy]:
    """A look each moment, and little patience."""
    hasty = replace(LIMITS, quiet=0, unanswered=0)
    monkeypatch.setattr(silence, "LIMITS", hasty)
    monkeypatch.setattr(silence, "LOOK_SECONDS", 0.1)
    made = proxy_of(there.spec.kind, there.spec.host, there.spec.port)
    yield made
    made.close()


@pytest.fixture
def run() -> JobRun:
    table = TableSpec(1, "s", "t", "s", "t", "/p", "/s", (), ("id",))
    spec = JobSpec("j", 1, "sync", "apply", "/lake", table, FenceSpec("/f", 1))
    return JobRun(spec, lambda ref: pytest.fail(f"asked for {ref}"))


def test_it_ends_a_statement_that_nobody_answers(
    there: SourceAccess,
    proxy: WireProxy,
    run: JobRun,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    access = replace(there, spec=replace(there.spec, port=proxy.port))

    def read() -> None:
        with open_stoppable(run, access) as (source, _):
            # whoever asks from now on is soon without an answer
            for module in (mariadb_connection, postgresql_connection):
                monkeypatch.setattr(module, "LIMITS", replace(LIMITS, connect=2))
            proxy.freeze()
            source.rows("SELECT 1")

    with pytest.raises(TransientError) as failed:
        read()
    assert failed.value.code == "source_silent"
    assert "new connections get no answer" in run.progress.reason


def test_it_ends_a_statement_whose_answer_got_lost(
    there: SourceAccess,
    proxy: WireProxy,
    run: JobRun,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One connection is frozen, and it is not a reader's: the server answers others."""
    monkeypatch.setattr(reading, "LIMITS", replace(LIMITS, quiet=0))
    access = replace(there, spec=replace(there.spec, port=proxy.port))

    def freeze(statement: Statement) -> None:
        if "SELECT 71" in statement.text:
            proxy.freeze(statement.connection)

    def read() -> None:
        with open_stoppable(run, access) as (source, _):
            assert source.one("SELECT 7") == (7,)
            source.one("SELECT 71")

    proxy.count_anew(freeze)
    with pytest.raises(TransientError) as failed:
        read()
    assert failed.value.code == "source_silent"
    assert "answers others" in failed.value.message


def test_a_server_at_work_says_so(there: SourceAccess, run: JobRun) -> None:
    asked = connections_of(there)
    with open_stoppable(run, there) as (source, access):
        assert "no statement of this job" in asked.describe_sessions(access)
        (own,) = source.one(OWN[there.spec.kind])
        assert asked.idle_sessions(access, [own, own + 100_000]) == {own}

        def wait() -> None:
            with pytest.raises(Exception, match=r"terminat|interrupt|cancel|Lost"):
                source.rows(SLEEP[there.spec.kind])

        waiting = threading.Thread(target=wait)
        waiting.start()
        wait_for(lambda: "runs pid" in asked.describe_sessions(access), "it to work")
        assert not asked.idle_sessions(access, [own])
        run.request_stop("cancel")
        waiting.join()


def test_a_session_whose_rows_nobody_takes_has_nothing_to_do(
    there: SourceAccess, proxy: WireProxy, run: JobRun
) -> None:
    """As behind a frozen connection, while the server answers others."""
    asked = connections_of(there)
    access = replace(there, spec=replace(there.spec, port=proxy.port))
    sessions: list[int] = []

    def take() -> None:
        with open_stoppable(run, access) as (source, _):
            sessions.extend(source.one(OWN[there.spec.kind]))
            proxy.trickle()
            source.rows(MUCH[there.spec.kind])

    def read() -> None:
        # the driver finds that the link was cut, or who watches for silence does
        ends = r"terminat|interrupt|cancel|Lost|closed|sent nothing"
        with pytest.raises(Exception, match=ends):
            take()

    reading = threading.Thread(target=read)
    reading.start()
    wait_for(lambda: "runs pid" in asked.describe_sessions(there), "its statement")
    wait_for(lambda: asked.idle_sessions(there, sessions), "it to wait for the reader")
    assert "runs pid" in asked.describe_sessions(there)
    proxy.cut()
    reading.join()
