"""A shard that comes to a table of MariaDB joins without the others being read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ingest.contract.job import JobSpec, LogLoad, RepairWork, SnapshotWork
from ingest.contract.segments import Control
from ingest.contract.table import TableSpec
from ingest.driver.capture import log_load
from ingest.driver.table_services import reread, shard_join
from ingest.sources.sharded_log import shards_in
from tests.long_tests import first_then_long
from tests.spark.lake_bench import assert_done, with_attempt
from tests.spark.test_shards_mariadb import Sharded, gone
from tests.spark.test_shards_mariadb import shards as shards

# what it has, and what comes
OLD, NEW = ("1", "o'x\\"), "2"


class Killed(BaseException):
    """No handler of a job takes it for a failure: what is there stays as it is."""


def _kill(*_: Any, **__: Any) -> None:
    raise Killed


@dataclass
class Joining:
    shards: Sharded
    whole: TableSpec
    scratch: Path
    applied: int = 0

    @property
    def table_id(self) -> int:
        return self.whole.table_id

    @property
    def identity(self) -> str:
        return str(self.shards.followed.log.identities[self.table_id])

    def sql(self, value: str, statement: str) -> None:
        self.shards.sql(value, statement)

    def load(self) -> None:
        """Without the one that comes."""
        followed, table_id = self.shards.followed, self.table_id
        shards = tuple(one for one in self.whole.shards if one.value in OLD)
        table = replace(self.whole, shards=shards)
        self.shards.table = followed.table = table
        followed.log.follow([table])
        cut = Control("cut", table_id, load="a", identity=self.identity)
        followed.segment(Control("added", table_id), cut)
        work = SnapshotWork(100, log=LogLoad("source1", "a"))
        spec = self.shards.bench.spec("snapshot", table, snapshot=work)
        facts = assert_done(self.shards.bench.run(spec)).facts
        followed.segment(Control("finished", table_id, at=facts["bound"]))
        self.recorded = self.identity

    def plan(self) -> JobSpec:
        """The plan has it, as one that is not read; the job that reads it."""
        shards = tuple(
            replace(one, is_unread=one.value == NEW) for one in self.whole.shards
        )
        table = replace(self.whole, shards=shards)
        self.shards.table = self.shards.followed.table = table
        names = tuple(one.name for one in shards if one.is_unread)
        work = RepairWork("join", stream="source1", shards=names)
        return self.shards.bench.spec("repair", table, repair=work)

    def take_up(self) -> None:
        """As its follower does when it gets the plan."""
        followed = self.shards.followed
        loaded = {self.table_id: self.recorded}
        followed.log.follow([self.shards.table], loaded=loaded)

    def record(self) -> None:
        followed = self.shards.followed
        followed.segment()
        assert "shop_2.o" in shards_in(self.identity)
        self.recorded = self.identity
        followed.segment(Control("left", self.table_id, identity=self.recorded))

    def apply(self) -> None:
        self.applied += 1
        self.shards.followed.segment()
        self.shards.followed.apply(self.scratch / str(self.applied))

    def of_others(self) -> list[tuple[str, ...]]:
        return [row for row in self.shards.in_lake() if row[0] != NEW]


@pytest.fixture
def joining(shards: Sharded, tmp_path: Path) -> Joining:
    found = Joining(shards, shards.table, tmp_path)
    found.load()
    return found


def written_while_it_is_read(
    joining: Joining, monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """Before and behind its chunk. Returns which tables the job looks at."""
    looked: list[str] = []
    look, read = shard_join.look_at_one, reread.read_to_parquet
    # nor do changes of others stop it
    joining.sql("1", "ALTER TABLE {o} COMMENT 'before'")

    def looked_at(run: Any, source: Any, table: TableSpec, **k: Any) -> Any:
        looked.append(table.at_source)
        return look(run, source, table, **k)

    def between(*given: Any) -> Any:
        joining.sql(NEW, "UPDATE {o} SET v = 'reading' WHERE id IN (4, 6)")
        joining.sql(NEW, "DELETE FROM {o} WHERE id IN (7, 901)")
        joining.sql("1", "UPDATE {o} SET v = 'reading' WHERE id = 6")
        joining.sql("1", "ALTER TABLE {o} COMMENT 'reading'")
        found = read(*given)
        joining.sql(NEW, "UPDATE {o} SET id = 800 WHERE id = 8")
        joining.sql(NEW, "DELETE FROM {o} WHERE id = 9")
        return found

    monkeypatch.setattr(shard_join, "look_at_one", looked_at)
    monkeypatch.setattr(reread, "read_to_parquet", between)
    return looked


@pytest.mark.parametrize("is_applied", first_then_long(True, False))
def test_it_is_read_alone_and_what_is_written_meanwhile_is_neither_lost_nor_twice(
    joining: Joining, monkeypatch: pytest.MonkeyPatch, is_applied: bool
) -> None:
    """Rows of it and of others are written before it is taken up, before its record,
    before it is read, while it is read, and behind that."""
    joining.sql(NEW, "UPDATE {o} SET v = 'first' WHERE id = 1")
    joining.sql("1", "UPDATE {o} SET v = 'first' WHERE id = 1")
    spec = joining.plan()
    joining.take_up()
    assert "shop_2.o" not in shards_in(joining.identity)
    joining.sql(NEW, "UPDATE {o} SET v = 'taken up' WHERE id IN (1, 2)")
    joining.sql(NEW, "DELETE FROM {o} WHERE id = 3")
    joining.record()
    joining.sql(NEW, "UPDATE {o} SET v = 'recorded' WHERE id IN (2, 4)")
    joining.sql(NEW, "DELETE FROM {o} WHERE id = 5")
    joining.sql(NEW, "INSERT INTO {o} VALUES (900, 'recorded'), (901, 'recorded')")
    joining.sql("1", "DELETE FROM {o} WHERE id = 5")
    if is_applied:
        # a session has the table until the job holds it, and applies what it can
        joining.apply()
        joining.sql(NEW, "DELETE FROM {o} WHERE id = 900")
    looked = written_while_it_is_read(joining, monkeypatch)
    before = joining.shards.bench.state(joining.shards.table).position
    facts = assert_done(joining.shards.bench.run(spec)).facts
    after = joining.shards.bench.state(joining.shards.table).position
    assert looked == ["shop_2.o"]
    assert facts["deleted"] == (2 if is_applied else 0)
    assert before is not None
    assert after is not None
    assert (after.end, after.epoch_to) == (before.end, before.epoch_to)
    joining.sql(NEW, "INSERT INTO {o} VALUES (3, 'behind')")
    joining.sql("o'x\\", "INSERT INTO {o} VALUES (3000, 'behind')")
    joining.apply()
    assert joining.shards.in_lake() == joining.shards.at_source()


def _dies_in(
    name: str, *, of: ModuleType = shard_join
) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(of, name, _kill)


# the place → whether the rows are in the lake then
KILLS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], bool]] = {
    "staged": (_dies_in("commit_rows", of=reread), False),
    "committed": (_dies_in("_facts"), True),
    "begun": (_dies_in("look_at_one"), False),
    "recorded": (_dies_in("take_moment_of", of=reread), False),
    "cut": (_dies_in("read_to_parquet", of=reread), False),
    "read": (_dies_in("_rows"), False),
}


@pytest.mark.parametrize("where", first_then_long(*KILLS, first=2))
def test_killed_anywhere_it_ends_as_if_it_had_not_been_or_whole(
    joining: Joining, where: str
) -> None:
    """And the table goes on meanwhile: a session applies what comes."""
    spec = joining.plan()
    joining.take_up()
    joining.record()
    before = joining.shards.in_lake()
    kill, is_there = KILLS[where]
    with pytest.MonkeyPatch.context() as patch:
        kill(patch)
        with pytest.raises(Killed):
            joining.shards.bench.run(spec)
    there = joining.shards.in_lake()
    assert there == (joining.shards.at_source() if is_there else before)
    joining.sql(NEW, "UPDATE {o} SET v = 'between' WHERE id IN (1, 2)")
    joining.sql(NEW, "DELETE FROM {o} WHERE id = 3")
    joining.sql("1", "UPDATE {o} SET v = 'between' WHERE id = 1")
    joining.apply()
    report = assert_done(joining.shards.bench.run(with_attempt(spec, 2)))
    assert report.facts["shards"] == ["shop_2.o"]
    joining.apply()
    assert joining.shards.in_lake() == joining.shards.at_source()
    assert len(joining.of_others()) == 500


@pytest.mark.long
def test_without_its_record_nothing_is_read(
    joining: Joining, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_load, "CUT_SECONDS", 0.5)
    spec = joining.plan()
    before = joining.shards.in_lake()
    for step in (lambda: None, joining.take_up):
        step()
        report = joining.shards.bench.run(spec)
        assert report.error is not None
        assert (report.outcome, report.error.code) == ("transient", "log_not_followed")
        assert "shop_2.o" in report.error.message
    assert joining.shards.in_lake() == before
    joining.record()
    assert_done(joining.shards.bench.run(with_attempt(spec, 2)))
    joining.apply()
    assert joining.shards.in_lake() == joining.shards.at_source()


def test_what_was_made_in_what_is_not_read_yet_does_not_stop_the_others(
    joining: Joining,
) -> None:
    """The follower is behind: it takes the shard up, and then reads how that was made,
    filled and emptied."""
    joining.sql("1", "UPDATE {o} SET v = 'before' WHERE id = 1")
    joining.shards.bench.sql("DROP TABLE shop_2.o")
    joining.shards.bench.sql(
        "CREATE TABLE shop_2.o (id int PRIMARY KEY, v varchar(40))"
    )
    joining.sql(NEW, "INSERT INTO {o} VALUES (1, 'gone')")
    joining.sql(NEW, "TRUNCATE TABLE {o}")
    joining.sql(NEW, "INSERT INTO {o} VALUES (2, 'there')")
    spec = joining.plan()
    joining.take_up()
    log = joining.shards.followed.log
    joining.shards.followed.segment()
    assert (log.lost(), log.problems) == ({}, {})
    # it is taken up again, as nothing is waited for but what comes from now on
    log.look()
    joining.record()
    assert (log.lost(), log.problems) == ({}, {})
    assert_done(joining.shards.bench.run(spec))
    joining.sql(NEW, "INSERT INTO {o} VALUES (3, 'behind')")
    joining.apply()
    assert joining.shards.in_lake() == joining.shards.at_source()


@pytest.mark.parametrize("is_applied", first_then_long(True, False))
def test_one_that_is_emptied_behind_its_record_is_what_came_behind_that(
    joining: Joining, is_applied: bool
) -> None:
    """The job reads it behind that, and commits before it in the stream, or a session
    has applied it by then."""
    spec = joining.plan()
    joining.take_up()
    joining.record()
    joining.sql(NEW, "UPDATE {o} SET v = 'gone' WHERE id IN (1, 2)")
    joining.sql(NEW, "TRUNCATE TABLE {o}")
    joining.sql(NEW, "INSERT INTO {o} VALUES (1, 'new'), (900, 'new')")
    if is_applied:
        joining.apply()
    assert_done(joining.shards.bench.run(spec))
    joining.sql(NEW, "DELETE FROM {o} WHERE id = 900")
    joining.apply()
    assert joining.shards.in_lake() == joining.shards.at_source()
    assert len(joining.of_others()) == 500


def test_one_that_is_dropped_before_it_is_read_is_not_read(joining: Joining) -> None:
    spec = joining.plan()
    joining.take_up()
    joining.record()
    before = joining.shards.in_lake()
    joining.shards.bench.sql("DROP TABLE shop_2.o")
    report = joining.shards.bench.run(spec)
    assert report.error is not None
    assert joining.shards.in_lake() == before
    log = joining.shards.followed.log
    for _ in range(2):
        joining.shards.followed.segment()
        assert log.problems == {}
        joining.sql("1", "UPDATE {o} SET v = 'goes on' WHERE id = 1")
    assert log.gone == {joining.table_id: ("shop_2.o",)}
    # by the plan that knows it there is nothing to read
    spec = replace(spec, table=gone(spec.table, NEW, "undecided"))
    facts = assert_done(joining.shards.bench.run(with_attempt(spec, 2))).facts
    assert (facts["written"], facts["deleted"]) == (0, 0)
    joining.shards.bench.sql("CREATE TABLE shop_2.o (id int, v varchar(40))")
