"""The load of a table that is followed by its log: behind a cut, showing one moment."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from core.errors import StaleState, TerminalError, TransientError
from ingest.contract.job import CUT_GONE, CUT_MISSING, LogLoad, SnapshotWork
from ingest.contract.segments import Control
from ingest.contract.source_positions import PostgresLog
from ingest.contract.table import TableSpec
from ingest.driver.capture import log_load, reading
from ingest.lake.chain import ChainWriter, begin_stream, stream_folder, take_over
from ingest.lake.staging import StagingArea
from ingest.sources.postgresql.snapshot import SnapshotHolder
from tests.spark.lake_bench import LakeBench, assert_done, with_attempt
from tests.waiting import wait_for

STREAM = "pg1"


class Stream:
    """The chain as its follower writes it."""

    def __init__(self, bench: LakeBench) -> None:
        folder = stream_folder(bench.lake, STREAM)
        begin_stream(folder, above=1000)
        row = bench.sql("SELECT system_identifier::text FROM pg_control_system()")[0]
        self.at = PostgresLog(row[0], 1, 1)
        self.writer: ChainWriter = take_over(
            folder,
            stream=STREAM,
            writer="test",
            server=self.at.identity,
            begin=self.at.encode(),
        )

    def note(self, kind: Any, table: TableSpec, **more: Any) -> int:
        control = Control(kind, table.table_id, **more)
        return self.writer.append(end=self.writer.last.end, controls=[control]).number


@pytest.fixture
def stream(lake_bench: LakeBench) -> Stream:
    return Stream(lake_bench)


def spec_of(bench: LakeBench, table: TableSpec, load: str = "a", **k: Any) -> Any:
    work = SnapshotWork(k.pop("chunk_rows", 250_000), log=LogLoad(STREAM, load))
    return bench.spec(k.pop("kind", "snapshot"), table, snapshot=work, **k)


def orders(bench: LakeBench, rows: int = 1000) -> TableSpec:
    bench.sql("CREATE TABLE orders (id int PRIMARY KEY, v text)")
    bench.sql(f"INSERT INTO orders SELECT g, 'v' FROM generate_series(1, {rows}) g")
    bench.sql("ANALYZE orders")
    return bench.table("orders", estimated_rows=rows)


def test_a_load_has_the_number_of_its_cut_and_says_which_moment_it_shows(
    lake_bench: LakeBench, stream: Stream
) -> None:
    table = orders(lake_bench)
    cut = stream.note("cut", table, load="a")
    report = assert_done(lake_bench.run(spec_of(lake_bench, table, chunk_rows=100)))
    assert report.facts["chunks"] == 10
    assert report.facts["consistency"] == "snapshot"
    position = lake_bench.state(table).position
    assert position is not None
    assert position.load is not None
    assert (position.epoch_from, position.epoch_to) == (cut, cut)
    assert report.facts["epoch"] == cut
    assert report.facts["bound"] == position.end == position.load.at
    at = PostgresLog.decode(position.load.at)
    assert at.order(stream.at) == "after"
    low, high, *_ = position.load.snapshot.split(":")
    assert int(low) <= int(high)
    assert {r[0] for r in lake_bench.rows(table, "_sluice_seq")} == {cut << 24}
    assert not StagingArea(table.staging).folder.exists()


def test_a_load_waits_for_its_cut_and_gives_its_place_back_after_a_while(
    lake_bench: LakeBench, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = orders(lake_bench)
    monkeypatch.setattr(log_load, "CUT_SECONDS", 0.0)
    report = lake_bench.run(spec_of(lake_bench, table))
    assert report.outcome == "transient"
    assert report.error is not None
    assert report.error.code == CUT_MISSING
    monkeypatch.undo()
    stream.note("cut", table, load="an earlier one")
    run = lake_bench.start(spec_of(lake_bench, table))
    found: list[int] = []
    log = log_load.log_of(run)
    assert log is not None
    waits = threading.Thread(target=lambda: found.append(_cut(run, log)))
    waits.start()
    wait_for(lambda: "follower" in run.progress.reason, "its reason")
    cut = stream.note("cut", table, load="a")
    waits.join()
    assert found == [cut]
    assert run.progress.reason == ""


def _cut(run: Any, log: LogLoad) -> int:
    return log_load.wait_for_cut(run, log)


@pytest.mark.parametrize("kind", ["finished", "deferred", "removed"])
def test_a_load_behind_which_nothing_waits_any_more_is_refused(
    lake_bench: LakeBench, stream: Stream, kind: str
) -> None:
    table = orders(lake_bench)
    stream.note("cut", table, load="a")
    stream.note(kind, table)
    report = lake_bench.run(spec_of(lake_bench, table))
    assert report.error is not None
    assert (report.outcome, report.error.code) == ("transient", CUT_GONE)


def test_a_load_shows_what_had_begun_before_it_and_waits_for_its_end(
    lake_bench: LakeBench, stream: Stream
) -> None:
    table = orders(lake_bench, rows=10)
    stream.note("cut", table, load="a")
    with psycopg.connect(lake_bench.dsn) as other:
        other.execute("INSERT INTO orders VALUES (11, 'late')")
        run = lake_bench.start(spec_of(lake_bench, table))
        reports: list[Any] = []
        work = threading.Thread(target=lambda: reports.append(_run(lake_bench, run)))
        work.start()
        pid = f"pid {other.info.backend_pid}"
        wait_for(lambda: pid in run.progress.reason, "who holds it up")
        other.commit()
        work.join()
    assert_done(reports[0])
    assert len(lake_bench.rows(table, "id")) == 11


def _run(bench: LakeBench, run: Any) -> Any:
    from ingest.driver.run import run_job

    return run_job(run, bench.spark, bench.gates)


# ---------------------------------------------------------------- what is interrupted


def after_chunks(
    monkeypatch: pytest.MonkeyPatch, count: int, act: Callable[[], object]
) -> None:
    """`act` once so many chunks are staged."""
    finish, done = StagingArea.finish, itertools.count(1)

    def finish_then(area: StagingArea, manifest: Any) -> None:
        finish(area, manifest)
        if next(done) == count:
            act()

    monkeypatch.setattr(StagingArea, "finish", finish_then)


def die() -> None:
    raise TransientError("the driver died here", code="died")


def loaded(bench: LakeBench, table: TableSpec) -> dict[int, str]:
    return dict(bench.rows(table, "id", "v"))


def change(bench: LakeBench) -> None:
    bench.sql("UPDATE orders SET v = 'later' WHERE id = 1")
    bench.sql("INSERT INTO orders VALUES (9999, 'later')")


def snapshot_of(bench: LakeBench, table: TableSpec) -> str:
    position = bench.state(table).position
    assert position is not None
    assert position.load is not None
    return position.load.snapshot


def test_what_was_staged_in_another_snapshot_is_read_again(
    lake_bench: LakeBench, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = orders(lake_bench)
    cut = stream.note("cut", table, load="a")
    spec = spec_of(lake_bench, table, chunk_rows=100)
    with monkeypatch.context() as patch:
        after_chunks(patch, 4, die)
        assert lake_bench.run(spec).outcome == "transient"
    staging = StagingArea(table.staging)
    former = staging.plan()
    assert former is not None
    assert 0 < len(staging.finished()) < len(former.chunks)
    change(lake_bench)
    report = assert_done(lake_bench.run(with_attempt(spec, 2)))
    assert report.facts["consistency"] == "snapshot"
    assert report.facts["epoch"] == cut
    assert snapshot_of(lake_bench, table) != former.snapshot
    found = loaded(lake_bench, table)
    assert (len(found), found[1], found[9999]) == (1001, "later", "later")


def test_what_was_staged_whole_is_committed_as_it_was_read(
    lake_bench: LakeBench, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What changed since then is behind the cut, and not in the snapshot."""
    table = orders(lake_bench)
    stream.note("cut", table, load="a")
    spec = spec_of(lake_bench, table, chunk_rows=100)
    with monkeypatch.context() as patch:
        patch.setattr("ingest.driver.capture.snapshot._commit", lambda *_: die())
        assert lake_bench.run(spec).outcome == "transient"
    former = StagingArea(table.staging).plan()
    assert former is not None
    change(lake_bench)
    assert_done(lake_bench.run(with_attempt(spec, 2)))
    assert snapshot_of(lake_bench, table) == former.snapshot
    found = loaded(lake_bench, table)
    assert (len(found), found[1]) == (1000, "v")


def test_a_load_that_is_in_the_lake_is_done_whichever_job_finds_it(
    lake_bench: LakeBench, stream: Stream
) -> None:
    table = orders(lake_bench, rows=10)
    cut = stream.note("cut", table, load="a")
    spec = spec_of(lake_bench, table)
    done = assert_done(lake_bench.run(spec))
    again = assert_done(lake_bench.run(with_attempt(spec, 2)))
    other = assert_done(lake_bench.run(spec_of(lake_bench, table)))
    for report in (again, other):
        assert report.facts["instant"] == done.facts["instant"]
        assert report.facts["epoch"] == cut
    assert len(lake_bench.state(table).commits) == 1


def test_a_snapshot_that_is_lost_while_chunks_are_read_begins_the_load_again(
    lake_bench: LakeBench, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = orders(lake_bench)
    stream.note("cut", table, load="a")
    monkeypatch.setattr(reading, "PAUSES", (0.1, 0.1))

    pids: list[int] = []

    class Holder(SnapshotHolder):
        def __init__(self, connection: Any, *more: Any) -> None:
            pids.append(connection.info.backend_pid)
            super().__init__(connection, *more)

    monkeypatch.setattr("ingest.sources.postgresql.reader.SnapshotHolder", Holder)

    def end_the_holder() -> None:
        change(lake_bench)
        assert lake_bench.sql(f"SELECT pg_terminate_backend({pids[0]}, 30000)")[0][0]

    after_chunks(monkeypatch, 3, end_the_holder)
    report = assert_done(lake_bench.run(spec_of(lake_bench, table, chunk_rows=100)))
    assert report.facts["consistency"] == "snapshot"
    assert len(pids) == 2
    found = loaded(lake_bench, table)
    assert (len(found), found[1], found[9999]) == (1001, "later", "later")


def test_a_resync_behind_a_cut_replaces_what_the_log_brought_before(
    lake_bench: LakeBench, stream: Stream
) -> None:
    table = orders(lake_bench, rows=10)
    stream.note("cut", table, load="a")
    assert_done(lake_bench.run(spec_of(lake_bench, table)))
    stream.note("finished", table, at=stream.at.encode())
    change(lake_bench)
    cut = stream.note("cut", table, load="b")
    spec = spec_of(lake_bench, table, "b", kind="resync")
    report = assert_done(lake_bench.run(spec))
    assert report.facts["epoch"] == cut
    assert loaded(lake_bench, table)[9999] == "later"
    # another job of this load finds its commit
    again = assert_done(lake_bench.run(spec_of(lake_bench, table, "b", kind="resync")))
    assert again.facts["instant"] == report.facts["instant"]
    # another load could not take the table back to a cut that its records still show
    with pytest.raises(StaleState) as late:
        log_load.refuse_passed(replace(spec, epoch=cut), lake_bench.state(table))
    assert late.value.code == CUT_GONE


def test_a_synced_table_goes_over_by_the_rows_behind_its_position(
    lake_bench: LakeBench, stream: Stream
) -> None:
    """Whatever their cursor: no sync reads any more what is ahead of the clock. What
    syncs could not see stays."""
    bench = lake_bench
    bench.sql("CREATE TABLE orders (id int PRIMARY KEY, v text, at timestamptz)")
    bench.sql(
        "INSERT INTO orders SELECT g, 'v', now() - interval '1 day'"
        " FROM generate_series(1, 5) g"
    )
    table = bench.table("orders", cursor="at")
    before = assert_done(bench.load(table))
    bench.sql("UPDATE orders SET v = 'new', at = now() WHERE id = 1")
    bench.sql("INSERT INTO orders VALUES (9, 'ahead', now() + interval '1 day')")
    bench.sql("DELETE FROM orders WHERE id = 2")
    bench.sql("UPDATE orders SET v = 'unseen' WHERE id = 3")
    table = replace(table, cursor=None)
    work = SnapshotWork(log=LogLoad(STREAM, "a"), behind="at")
    cut = stream.note("cut", table, load="a")
    spec = bench.spec("resync", table, snapshot=work)
    report = assert_done(bench.run(spec))
    assert report.facts["rows"] == 2
    assert loaded(bench, table) == {
        1: "new", 2: "v", 3: "v", 4: "v", 5: "v", 9: "ahead",
    }  # fmt: skip
    position = bench.state(table).position
    assert position is not None
    assert position.load is not None
    assert (position.epoch_to, position.load_name) == (cut, "a")
    # all behind the cut is applied: what was deleted since is not in the lake yet
    assert position.load.snapshot == ""
    assert PostgresLog.decode(position.load.at).order(stream.at) == "after"
    assert report.facts["bound"] == position.end == position.load.at
    again = assert_done(bench.run(with_attempt(spec, 2)))
    assert again.facts["instant"] == report.facts["instant"]
    assert before.facts["instant"] != report.facts["instant"]


def test_a_table_without_changes_goes_over_too(
    lake_bench: LakeBench, stream: Stream
) -> None:
    bench = lake_bench
    bench.sql("CREATE TABLE orders (id int PRIMARY KEY, at timestamptz)")
    bench.sql("INSERT INTO orders VALUES (1, now() - interval '1 day')")
    table = bench.table("orders", cursor="at")
    assert_done(bench.load(table))
    table = replace(table, cursor=None)
    work = SnapshotWork(log=LogLoad(STREAM, "a"), behind="at")
    cut = stream.note("cut", table, load="a")
    report = assert_done(bench.run(bench.spec("resync", table, snapshot=work)))
    assert (report.facts["rows"], report.facts["epoch"]) == (0, cut)
    assert len(bench.rows(table, "id")) == 1
    with pytest.raises(TerminalError, match="numbered up to"):
        log_load.refuse_passed(
            replace(bench.spec("resync", table, snapshot=work), epoch=cut),
            bench.state(table),
        )
