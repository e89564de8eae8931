"""A session that applies a stream: many tables, one at a time or side by side."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JError

from config.toolchain.paths import spark_classpath
from core.errors import TransientError
from ingest.contract.applying import Applied, ApplyProblem, ApplyReport, ApplyWork
from ingest.contract.members import encode
from ingest.contract.segments import Control
from ingest.contract.table import TableSpec
from ingest.driver.apply import log_apply
from ingest.driver.apply.log_apply import LogTable
from ingest.driver.apply.wide_rows import PARTS
from ingest.driver.jvm import Jvm
from ingest.driver.sessions import ApplySessions
from tests.spark.beginnings import Beginnings
from tests.spark.driver_process import DriverProcess
from tests.spark.held_fence import HeldFence
from tests.spark.lake_bench import LakeBench, assert_done
from tests.spark.log_bench import LogBench, cut
from tests.spark.test_stalled_sync import unfinished
from tests.waiting import wait_for

SHAPE = "(id int PRIMARY KEY, v text)"


def two_tables(bench: LakeBench) -> tuple[TableSpec, TableSpec]:
    """Loaded, each with epoch 1."""
    found = []
    for name in ("a", "b"):
        bench.sql(f"CREATE TABLE {name} {SHAPE}")
        bench.sql(f"INSERT INTO {name} SELECT g, 'load' FROM generate_series(1, 6) g")
        table = bench.table(name)
        assert_done(bench.load(table))
        found.append(table)
    return found[0], found[1]


@dataclass
class Heard:
    """What sessions reported, put together."""

    reports: list[ApplyReport] = field(default_factory=list)
    applied: dict[int, Applied] = field(default_factory=dict)
    fresh: threading.Condition = field(default_factory=threading.Condition)

    def hear(self, report: ApplyReport) -> None:
        with self.fresh:
            self.reports.append(report)
            self.applied |= {one.table_id: one for one in report.applied}
            self.fresh.notify_all()

    @property
    def last(self) -> ApplyReport | None:
        return self.reports[-1] if self.reports else None

    @property
    def wide(self) -> set[int]:
        told = [one for report in self.reports for one in report.applied]
        return {one.table_id for one in told if one.is_wide}

    def problem(self, table: TableSpec) -> ApplyProblem | None:
        problems = self.last.problems if self.last else ()
        return next((p for p in problems if p.table_id == table.table_id), None)

    def has_applied(self, table: TableSpec, number: int) -> None:
        def is_there() -> bool:
            found = self.applied.get(table.table_id)
            return found is not None and found.epoch >= number

        wait_for(is_there, f"epoch {number} of {table.name}")


@dataclass
class Running:
    bench: LakeBench
    log: LogBench
    one: TableSpec
    two: TableSpec
    heard: Heard
    sessions: ApplySessions
    sent: ApplyWork

    def send(self, *tables: TableSpec, token: int = 1, **k: Any) -> None:
        work = self.log.work(*tables, token=token, **k)
        self.sent = replace(work, number=self.sent.number + 1)
        self.sessions.set(self.sent)

    def rows(self, table: TableSpec) -> dict[int, str | None]:
        return dict(self.bench.rows(table, "id", "v"))


@pytest.fixture
def running(lake_bench: LakeBench, beginnings: Beginnings) -> Iterator[Running]:
    one, other = beginnings.copy(lake_bench, two_tables)
    place = f"{lake_bench.lake}/shop/{other.name}"
    two = replace(other, path=place, staging=f"{lake_bench.lake}/_sluice/staging/2")
    log = LogBench(lake_bench)
    log.close(*cut(one), *cut(two))
    heard = Heard()
    sessions = ApplySessions(
        lake_bench.spark, secrets=lake_bench.answer, report=heard.hear
    )
    nothing = replace(log.work(), number=0)
    yield Running(lake_bench, log, one, two, heard, sessions, nothing)
    sessions.end(60)


def test_what_comes_is_applied_and_reported(running: Running) -> None:
    log, one, two, heard = running.log, running.one, running.two, running.heard
    first = log.segment(one, ("update", 1, "one"), ("delete", 2, None))
    running.send(one, two)
    heard.has_applied(one, first.number)
    assert running.rows(one) == {1: "one", 3: "load", 4: "load", 5: "load", 6: "load"}
    log.change(one, ("insert", 2, "again"))
    last = log.segment(two, ("delete", 1, None), ("insert", 7, "seven"))
    for table in (one, two):
        heard.has_applied(table, last.number)
    assert running.rows(one)[2] == "again"
    assert running.rows(two).keys() == {2, 3, 4, 5, 6, 7}
    applied = heard.applied[two.table_id]
    assert applied == Applied(
        two.table_id, last.number, last.end, is_live=True, instant=applied.instant,
        completed_at=applied.completed_at, rows=2, bytes=applied.bytes,
        committed=1, waiting=0, oldest=0,
    )  # fmt: skip
    commits = running.bench.state(two).commits
    assert commits[0].instant.asked == applied.instant
    assert commits[0].bytes_written == applied.bytes
    report = heard.last
    assert report is not None
    assert (report.run, report.number) == ("session", running.sent.number)
    assert set(report.held) == {one.table_id, two.table_id}
    assert report.problems == ()
    assert heard.applied[one.table_id].is_followed
    log.close(Control("deferred", one.table_id, reason="its key is another one"))
    wait_for(
        lambda: not heard.applied[one.table_id].is_followed, "the record to be reported"
    )


def test_a_table_becomes_live_without_a_change_of_it(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The segment that has the end of its load need not have rows of the table."""
    log, one, heard = running.log, running.one, running.heard
    is_passed = threading.Event()
    monkeypatch.setattr(LogTable, "is_live", lambda self, stream: is_passed.is_set())
    last = log.segment(one, ("update", 1, "one"))
    running.send(one)
    heard.has_applied(one, last.number)
    assert not heard.applied[one.table_id].is_live
    is_passed.set()
    wait_for(lambda: heard.applied[one.table_id].is_live, "the table to be live")


def test_a_table_that_is_left_out_is_given_up(running: Running) -> None:
    log, one, two, heard = running.log, running.one, running.two, running.heard
    running.send(one, two)
    first = log.segment(one, ("insert", 10, "x"))
    heard.has_applied(one, first.number)
    running.send(two)
    wait_for(
        lambda: heard.last and heard.last.held == (two.table_id,), "it is given up"
    )
    log.change(one, ("insert", 11, "x"))
    last = log.segment(two, ("insert", 11, "x"))
    heard.has_applied(two, last.number)
    assert 11 not in running.rows(one)
    running.send(two, one)
    heard.has_applied(one, last.number)
    assert 11 in running.rows(one)
    running.send()
    wait_for(lambda: heard.last and heard.last.held == (), "all are given up")


def test_a_superseded_session_writes_nothing(running: Running) -> None:
    """Two sessions with different fences: the later one goes on from the lake."""
    log, one, two, heard = running.log, running.one, running.two, running.heard
    running.send(one, two)
    heard.has_applied(one, log.segment(one, ("insert", 10, "x")).number)
    running.bench.take_over(one, 2)
    other = Heard()
    rival = ApplySessions(
        running.bench.spark, secrets=running.bench.answer, report=other.hear
    )
    last = log.segment(one, ("insert", 11, "x"))
    wait_for(lambda: heard.problem(one), "it is refused")
    problem = heard.problem(one)
    assert problem is not None
    assert (problem.outcome, problem.error.code) == ("transient", "fenced")
    rival.set(replace(log.work(one, token=2), run="rival"))
    other.has_applied(one, last.number)
    assert 11 in running.rows(one)
    position = running.bench.state(one).position
    assert position is not None
    assert (position.run, position.fence) == ("rival", 2)
    # its other tables are its own still
    heard.has_applied(two, log.segment(two, ("insert", 12, "x")).number)
    rival.end(60)


def test_a_table_that_cannot_go_on_stops_alone(running: Running) -> None:
    log, one, two, heard = running.log, running.one, running.two, running.heard
    running.send(one, two)
    heard.has_applied(one, log.segment(one, ("insert", 10, "x")).number)
    # segments from before the plan had its last column
    narrow = replace(one, columns=one.columns[:1])
    log.segment(narrow, ("insert", 11))
    for number in range(3):
        last = log.segment(two, ("insert", 20 + number, "x"))
        heard.has_applied(two, last.number)
    wait_for(lambda: heard.problem(one), "the problem")
    problem = heard.problem(one)
    assert problem is not None
    assert (problem.outcome, problem.error.code) == (
        "terminal",
        "segment_lacks_columns",
    )
    assert "without the columns v" in problem.error.message
    assert heard.problem(two) is None
    waiting = heard.applied[one.table_id]
    assert (waiting.waiting, waiting.oldest) == (1, 1)
    # with another fence it is tried again
    running.bench.take_over(one, 2)
    before = len(heard.reports)
    running.send(one, token=2)
    wait_for(
        lambda: any(
            r.number == running.sent.number and r.problems
            for r in heard.reports[before:]
        ),
        "the problem again",
    )


def test_a_row_that_is_too_wide_stops_its_table_alone(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the JVM gets it; with a larger heap the table goes on, and has every row."""
    log, one, two, heard = running.log, running.one, running.two, running.heard
    monkeypatch.setattr(log_apply, "heap_of", lambda spark: PARTS << 20)
    log.segment(one, ("insert", 10, "x" * (1 << 20)), ("insert", 11, "narrow"))
    last = log.segment(two, ("insert", 10, "y" * (900 << 10)))
    running.send(one, two)
    heard.has_applied(two, last.number)
    assert heard.wide == {two.table_id}  # 900 of 1,024 KiB
    problem = wait_for(lambda: heard.problem(one), "the problem")
    found = problem.outcome, problem.error.code
    assert found == ("terminal", "row_too_large")
    assert "(key 10)" in problem.error.message
    assert 11 not in running.rows(one)
    last = log.segment(one, ("delete", 11, None), ("insert", 12, "behind"))
    monkeypatch.setattr(log_apply, "heap_of", lambda spark: PARTS << 21)
    running.bench.take_over(one, 2)
    running.send(one, token=2)
    heard.has_applied(one, last.number)
    rows = running.rows(one)
    assert (rows[10], rows[12]) == ("x" * (1 << 20), "behind")
    assert rows.keys() == {*range(1, 7), 10, 12}


def test_a_failure_that_passes_is_tried_again(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, one, heard = running.log, running.one, running.heard
    real, failed = log_apply.commit_rows, []

    def fails_once(*args: Any) -> Any:
        if not failed:
            failed.append(1)
            raise TransientError("the store is away", code="storage_failed")
        return real(*args)

    monkeypatch.setattr(log_apply, "commit_rows", fails_once)
    last = log.segment(one, ("insert", 10, "x"))
    running.send(one)
    wait_for(lambda: heard.problem(one), "the problem")
    heard.has_applied(one, last.number)
    wait_for(lambda: heard.problem(one) is None, "no problem any more")
    assert 10 in running.rows(one)


def test_a_jvm_that_is_gone_is_no_problem_of_a_table(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reaches the session as an exception of any class; the driver ends by it."""
    log, one, heard = running.log, running.one, running.heard
    met: list[int] = []

    def dies(*_: Any) -> Any:
        met.append(1)
        raise Py4JError("An error occurred while calling z:LightTable.commit")

    # for as long as one may still have to be judged that has failed
    monkeypatch.setattr(Jvm, "is_gone", lambda self, grace: True)
    with monkeypatch.context() as patched:
        patched.setattr(log_apply, "commit_rows", dies)
        last = log.segment(one, ("insert", 10, "x"))
        running.send(one)
        wait_for(lambda: len(met) > 1, "a second try")
    heard.has_applied(one, last.number)
    assert not any(report.problems for report in heard.reports)


def is_new(table: TableSpec) -> bool:
    """At a look at the fence before anything is there."""
    return not unfinished(table)


def is_appended(table: TableSpec) -> bool:
    """At the last look: the rows are in log files that nobody reads."""
    return bool(unfinished(table))


@pytest.mark.long
def test_a_driver_that_is_killed_loses_and_doubles_nothing(
    running: Running, tmp_path: Path
) -> None:
    """At any point of a commit, and behind it, before anybody heard of it; the next
    driver's session goes on from what the lake says."""
    log, one, two = running.log, running.one, running.two
    wanted = running.rows(one)
    for token, is_moment in enumerate((is_new, is_appended, None), start=1):
        if token > 1:
            running.bench.take_over(one, token)
        log.segment(one, ("update", 1, f"kill {token}"), ("insert", 20 + token, "x"))
        last = log.segment(one, ("delete", 1 + token, None), ("insert", 1, "again"))
        wanted |= {1: "again", 20 + token: "x"}
        del wanted[1 + token]
        kill_in_commit(running, tmp_path / str(token), token, is_moment)
    running.bench.take_over(one, 4)
    running.send(one, two, token=4)
    running.heard.has_applied(one, last.number)
    assert running.rows(one) == wanted
    assert unfinished(one) == []
    assert_done(running.bench.compact(one, token=1))
    assert running.rows(one) == wanted


def kill_in_commit(
    running: Running,
    folder: Path,
    token: int,
    is_moment: Callable[[TableSpec], bool] | None,
) -> None:
    table = running.one
    before = len(running.bench.state(table).timeline.completed_writes)
    driver = DriverProcess(spark_classpath(), folder, running.bench.password)
    try:
        work = json.loads(encode(running.log.work(table, token=token)))
        if is_moment is None:
            driver.send({"type": "apply", "work": work})
            wait_for(
                lambda: (
                    len(running.bench.state(table).timeline.completed_writes) > before
                ),
                "a commit",
            )
            driver.end()
            return
        fence = HeldFence(
            work["tables"][0]["fence"]["path"].removeprefix("file://"), token
        )
        driver.send({"type": "apply", "work": work})
        fence.hold_at(lambda: is_moment(table), "its commit")
        driver.end()
        fence.put_back()
        fence.answer()
    finally:
        driver.end()
