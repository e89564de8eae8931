"""A source that falls silent while it is read: the job says so, and ends by itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from catalog.schema.limits import LIMITS
from ingest.driver.capture import reading
from ingest.driver.capture import stall_timeout as silence
from ingest.sources.postgresql import connection as postgresql_connection
from tests.hostile.proxy import Statement, WireProxy, proxy_of
from tests.spark.lake_bench import LakeBench, assert_done
from tests.waiting import wait_for


@pytest.fixture
def proxy(
    lake_bench: LakeBench, monkeypatch: pytest.MonkeyPatch
) -> Iterator[WireProxy]:
    """Between the job and its source; a look each moment, and little patience."""
    bench = lake_bench
    made = proxy_of(bench.source.kind, bench.source.host, bench.source.port)
    bench.source = replace(bench.source, port=made.port)
    hasty = replace(LIMITS, quiet=0, unanswered=0)
    monkeypatch.setattr(silence, "LIMITS", hasty)
    monkeypatch.setattr(silence, "LOOK_SECONDS", 0.2)
    yield made
    made.close()


def tasks_at_work(bench: LakeBench) -> int:
    executors = bench.spark.sparkContext._jsc.sc().statusStore().executorList(True)
    return int(executors.apply(0).activeTasks())


def test_a_silent_source_ends_the_read_and_leaves_no_task_behind(
    lake_bench: LakeBench, proxy: WireProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = lake_bench
    bench.sql("CREATE TABLE s (id int PRIMARY KEY, v varchar(20))")
    bench.sql("INSERT INTO s VALUES (1, 'one'), (2, 'two')")
    table = bench.table("s")
    readers: list[Statement] = []

    def freeze(statement: Statement) -> None:
        # the reader's own, behind its guard; the one before asks for the columns
        if "source_rows" in statement.text and "WHERE 1=0" not in statement.text:
            readers.append(statement)
            # whoever asks from now on is soon without an answer
            hasty = replace(LIMITS, connect=2)
            monkeypatch.setattr(postgresql_connection, "LIMITS", hasty)
            proxy.freeze()

    proxy.count_anew(freeze)
    report = bench.load(table)
    monkeypatch.setattr(postgresql_connection, "LIMITS", LIMITS)
    assert readers
    assert report.error is not None
    assert (report.outcome, report.error.code) == ("transient", "source_silent")
    assert "answered no new connection" in report.error.message
    # one that waits for a byte would keep its core until its socket times out
    wait_for(lambda: not tasks_at_work(bench), "the readers to end")
    proxy.calm()
    assert_done(bench.load(table))
    assert bench.rows(table, "id") == [(1,), (2,)]


def test_a_frozen_reader_ends_the_read_while_its_server_answers(
    lake_bench: LakeBench, proxy: WireProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = lake_bench
    monkeypatch.setattr(reading, "LIMITS", replace(LIMITS, quiet=2))
    bench.sql("CREATE TABLE s (id int PRIMARY KEY, v varchar(20))")
    bench.sql("INSERT INTO s VALUES (1, 'one'), (2, 'two')")
    frozen: list[Statement] = []

    def freeze(statement: Statement) -> None:
        if "source_rows" in statement.text and "WHERE 1=0" not in statement.text:
            frozen.append(statement)
            proxy.freeze(statement.connection)

    proxy.count_anew(freeze)
    report = bench.load(bench.table("s"))
    assert frozen
    assert report.error is not None
    assert (report.outcome, report.error.code) == ("transient", "source_silent")
    assert "answers others" in report.error.message
    wait_for(lambda: not tasks_at_work(bench), "the readers to end")
