"""A table that was synced by a cursor goes over to its source's real log while somebody
writes: it ends as the source is, but for what syncs could not see."""

from __future__ import annotations

import functools
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import psycopg
import pytest

from ingest.contract.applying import ApplyTable, ApplyWork
from ingest.contract.following import FollowerState, FollowSpec, FollowTable
from ingest.contract.job import JobSpec, LogLoad, SnapshotWork
from ingest.contract.source_positions import PostgresLog, is_of_log
from ingest.contract.table import TableSpec
from ingest.driver.apply.log_apply import LogTable, spec_of
from ingest.driver.apply.log_read import Stream
from ingest.follower.follower import Follower, Stopped
from ingest.lake.chain import ChainIndex, stream_folder
from ingest.sources.port import LogNames
from ingest.sources.registry import open_log_reader, release_log
from tests.source_access import postgresql_at
from tests.spark.lake_bench import LakeBench, assert_done, with_attempt
from tests.waiting import wait_for

NAME = "pg1"


@dataclass
class Following:
    """The follower of a bench's source, in a thread of its own."""

    bench: LakeBench
    wanted: tuple[FollowTable, ...]
    end: threading.Event = field(default_factory=threading.Event)
    state: FollowerState = field(default_factory=lambda: FollowerState("starting"))

    def tables(self, seconds: float = 0.0) -> None:
        if self.end.wait(seconds):
            raise Stopped

    def tell(self, state: FollowerState) -> None:
        self.state = state

    def run(self) -> None:
        access = postgresql_at(self.bench.dsn)
        names = LogNames("goes_over", "goes_over")
        spec = FollowSpec(
            access.spec,
            NAME,
            self.bench.lake,
            names.slot,
            names.publication,
            above=100,
            writer="test",
            tables=self.wanted,
        )
        opened = functools.partial(open_log_reader, access, names)
        try:
            Follower(self, spec, opened).run()
        except Stopped:
            release_log(access, names)

    def until_durable(self) -> None:
        here = self.bench.sql("SELECT pg_current_wal_insert_lsn() - '0/0'")[0][0]

        def is_there() -> bool:
            self.bench.sql("SELECT pg_logical_emit_message(true, 'x', 'x')")
            position = self.state.position
            return bool(position) and PostgresLog.decode(position).lsn >= here

        wait_for(is_there, "all to be durable")


@pytest.fixture
def table(lake_bench: LakeBench) -> TableSpec:
    """Loaded, and synced no more."""
    lake_bench.sql(
        "CREATE TABLE o (id int PRIMARY KEY, v int, at timestamptz DEFAULT now());"
        "INSERT INTO o SELECT g, 0, now() - interval '1 day'"
        " FROM generate_series(1, 300) g"
    )
    found = lake_bench.table("o", cursor="at")
    assert_done(lake_bench.load(found))
    return replace(found, cursor=None)


@pytest.fixture
def following(lake_bench: LakeBench, table: TableSpec) -> Iterator[Following]:
    wanted = FollowTable(table, load="a", is_awaited=True)
    made = Following(lake_bench, (wanted,))
    thread = threading.Thread(target=made.run)
    thread.start()
    yield made
    made.end.set()
    thread.join()


def write(dsn: str, end: threading.Event, seed: int = 7) -> None:
    """Inserts, updates, keys that change, and deletes, in transactions of some."""
    chance = random.Random(seed)
    with psycopg.connect(dsn) as link:
        while not end.is_set():
            for _ in range(chance.randint(1, 4)):
                one, other = chance.randint(1, 400), chance.randint(1, 400)
                link.execute(
                    chance.choice(
                        (
                            f"INSERT INTO o VALUES ({one}, 1) ON CONFLICT DO NOTHING",
                            f"UPDATE o SET v = v + 1, at = now() WHERE id = {one}",
                            f"UPDATE o SET id = {other}, at = now() WHERE id = {one}"
                            f" AND NOT EXISTS (SELECT FROM o WHERE id = {other})",
                            f"DELETE FROM o WHERE id = {one}",
                        )
                    )
                )
            link.commit()


def test_it_ends_as_its_source_but_for_what_syncs_could_not_see(
    lake_bench: LakeBench,
    table: TableSpec,
    following: Following,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = lake_bench
    _goes_over(bench, table, following, tmp_path)
    source = set(bench.sql("SELECT id, v FROM o"))
    lake = {(int(i), int(v)) for i, v in bench.rows(table, "id", "v")}
    assert source <= lake, "nothing is missing or older"
    # gone before the cut: rows of the load that nothing changed since
    assert all(v == 0 for _, v in lake - source)
    _goes_back(bench, table, monkeypatch)


@contextmanager
def _written(bench: LakeBench, seed: int = 7) -> Iterator[None]:
    end = threading.Event()
    writer = threading.Thread(target=write, args=(bench.dsn, end, seed))
    writer.start()
    try:
        yield
    finally:
        end.set()
        writer.join()


def _goes_over(
    bench: LakeBench, table: TableSpec, following: Following, tmp_path: Path
) -> None:
    """To the log, under writes."""
    wait_for(lambda: following.state.observed == "following", "it to follow")
    with _written(bench):
        work = SnapshotWork(log=LogLoad(NAME, "a"), behind="at")
        report = assert_done(bench.run(bench.spec("resync", table, snapshot=work)))
        assert report.facts["rows"] < 300
        following.until_durable()
    following.until_durable()
    stream = Stream(ChainIndex(stream_folder(bench.lake, NAME), NAME))
    while stream.refresh():
        pass
    fence = bench.spec("sync", table).fence
    given = ApplyTable(table, fence)
    work_of = ApplyWork("session", bench.source, NAME, bench.lake, 1, (given,))
    applied = LogTable(bench.spark, spec_of(work_of, given), tmp_path / "x")
    while applied.bring_on(stream, lambda: None).commit is not None:
        pass
    assert applied.is_live(stream)


class Killed(BaseException):
    """No handler of a job takes it for a failure: what is there stays as it is."""


def _kill(*_: object, **__: object) -> None:
    raise Killed


# the place in `ingest.driver.run` → whether the table has gone over by then
KILLS = {"capture_window": False, "apply_staged": False, "_look_after": True}


def _goes_back(
    bench: LakeBench, table: TableSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its cursor, under writes, with the deletes of before. Killed before its commit
    it follows its log, and behind that it finds out that it has gone over."""
    gone = _deleted(bench, table)
    spec, table = _back(bench, table)
    with _written(bench, seed=8):
        for attempt, (place, is_over) in enumerate(KILLS.items(), start=1):
            with monkeypatch.context() as dying:
                dying.setattr(f"ingest.driver.run.{place}", _kill)
                with pytest.raises(Killed):
                    bench.run(with_attempt(spec, attempt))
            position = bench.state(table).position
            assert position is not None
            assert is_of_log(position.end) is not is_over
        done = assert_done(bench.run(with_attempt(spec, 9)))
        assert done.facts["position"]["from"] >= position.end
    _ends_as_its_source(bench, table, done.facts["position"]["to"], gone)


def _deleted(bench: LakeBench, table: TableSpec) -> set[int]:
    bench.sql("DELETE FROM o WHERE id % 7 = 0")
    gone = {int(i) for i, _ in bench.rows(table, "id", "v") if int(i) % 7 == 0}
    assert gone
    return gone


def _back(bench: LakeBench, table: TableSpec) -> tuple[JobSpec, TableSpec]:
    """The sync by which it goes over to its cursor."""
    table = replace(table, cursor="at")
    spec = bench.sync_spec(table, None)
    assert spec.sync is not None
    return replace(spec, sync=replace(spec.sync, stream=NAME)), table


def _ends_as_its_source(
    bench: LakeBench, table: TableSpec, low: str, gone: set[int]
) -> None:
    """Behind syncs from there on."""
    position = bench.state(table).position
    assert position is not None
    assert not is_of_log(position.end)
    while (report := assert_done(bench.sync(table, low))).facts["more"]:
        low = report.facts["position"]["to"]
    source = set(bench.sql("SELECT id, v FROM o"))
    lake = {(int(i), int(v)) for i, v in bench.rows(table, "id", "v")}
    assert source <= lake, "nothing is missing or older"
    written = {i for i, _ in source}
    assert not {i for i, v in lake if v == 0 and i in gone - written}
