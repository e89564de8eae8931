"""A shard that comes to a table of PostgreSQL joins alone: its log does not send long
values that did not change, and whoever reads it shares one snapshot."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from ingest.contract.job import JobSpec, RepairWork
from ingest.contract.segments import Control
from ingest.contract.table import SHARD, ColumnSpec, ShardSpec, TableSpec
from ingest.driver.table_services import shard_join, verify_log
from ingest.sources.port import Moment
from tests.spark.lake_bench import LakeBench, assert_done, with_attempt
from tests.spark.log_bench import NAME, UNSENT, LogBench, place


@dataclass
class Joining:
    """The lake has `s1.o`; `s2.o` comes."""

    bench: LakeBench
    log: LogBench
    old: TableSpec
    new: TableSpec
    scratch: Path
    applied: int = 0

    def change(self, value: str, statement: str, *changes: tuple[Any, ...]) -> None:
        """At the source, and in its log."""
        self.bench.sql(statement.format(o=f"s{value}.o"))
        rows = ((op, value, *rest) for op, *rest in changes)
        self.log.change(self.new, *rows)

    def record(self) -> None:
        """The follower has taken it up."""
        identity = json.dumps({"s1.o": "one", "s2.o": "two"})
        self.log.close(Control("left", self.new.table_id, identity=identity))

    def apply(self, table: TableSpec) -> None:
        self.applied += 1
        applied = self.log.table(table, self.scratch / str(self.applied))
        while applied.bring_on(self.log.stream(), lambda: None).commit is not None:
            pass

    @property
    def spec(self) -> JobSpec:
        work = RepairWork("join", stream=NAME, shards=("s2.o",))
        return self.bench.spec("repair", self.new, repair=work)

    def in_lake(self) -> list[tuple[Any, ...]]:
        return self.bench.rows(self.new, "s", "id", "v")

    def at_source(self) -> list[tuple[Any, ...]]:
        both = "SELECT '1', * FROM s1.o UNION ALL SELECT '2', * FROM s2.o"
        return sorted(self.bench.sql(both))


@pytest.fixture
def joining(
    lake_bench: LakeBench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Joining:
    bench = lake_bench
    for number in (1, 2):
        bench.sql(f"CREATE SCHEMA s{number}")
        bench.sql(f"CREATE TABLE s{number}.o (id int PRIMARY KEY, v text)")
        rows = "SELECT g, 'load' FROM generate_series(1, 300) g"
        bench.sql(f"INSERT INTO s{number}.o {rows}")
        bench.sql(f"ANALYZE s{number}.o")
    bench.sql("CREATE TABLE o (id int PRIMARY KEY, v text)")
    one = bench.table("o")
    first = ShardSpec("s1", "o", "1")
    old = replace(
        one,
        source_schema="s1",
        columns=(ColumnSpec(SHARD, "s", "", "string"), *one.columns),
        key=(SHARD, *one.key),
        shards=(first,),
    )
    assert_done(bench.load(old))
    log = LogBench(bench)
    identity = json.dumps({"s1.o": "one"})
    added = Control("added", old.table_id)
    log.close(added, Control("cut", old.table_id, load="a", identity=identity))
    monkeypatch.setattr(
        verify_log,
        "take_moment",
        lambda _, source: Moment(place(log.lsn), source.moment().snapshot),
    )
    new = replace(old, shards=(first, ShardSpec("s2", "o", "2", is_unread=True)))
    return Joining(bench, log, old, new, tmp_path)


@pytest.mark.parametrize("knows", [False, True])
def test_what_a_session_cannot_apply_before_it_is_read_waits_for_nobody(
    joining: Joining, knows: bool
) -> None:
    """Of rows that the lake does not have the log says only what changed. knows: the
    session has the plan with the shard already."""
    joining.record()
    update = "UPDATE {o} SET id = id WHERE id = 7"
    joining.change("2", update, ("update", 7, UNSENT))
    joining.change("1", update, ("update", 7, UNSENT))
    moved = ("delete", 8, None), ("moved", 800, UNSENT)
    joining.change("2", "UPDATE {o} SET id = 800 WHERE id = 8", *moved)
    joining.change("2", "DELETE FROM {o} WHERE id = 9", ("delete", 9, None))
    new = "INSERT INTO {o} VALUES (900, 'new')"
    joining.change("2", new, ("insert", 900, "new"))
    joining.log.close()
    joining.apply(joining.new if knows else joining.old)
    assert [row for row in joining.in_lake() if row[0] == "2"] == [("2", 900, "new")]
    joining.change("2", "DELETE FROM {o} WHERE id = 900", ("delete", 900, None))
    joining.change("2", "UPDATE {o} SET v = 'late' WHERE id = 1", ("update", 1, "late"))
    joining.log.close()
    facts = assert_done(joining.bench.run(joining.spec)).facts
    assert (facts["written"], facts["deleted"]) == (299, 1)
    joining.change("2", update, ("update", 7, UNSENT))
    joining.log.close()
    # whoever has not heard yet that it is read loses nothing
    joining.apply(joining.new)
    assert joining.in_lake() == joining.at_source()


def test_a_row_that_is_missing_of_a_shard_that_is_read_stops_the_table(
    joining: Joining,
) -> None:
    joining.change("1", "SELECT 1", ("update", 5000, UNSENT))
    joining.log.close()
    with pytest.raises(Exception, match="the lake has no such rows"):
        joining.apply(joining.new)


def test_a_row_that_moves_while_it_is_read_has_the_values_of_its_own_key(
    joining: Joining,
) -> None:
    joining.record()
    moved = ("delete", 8, None), ("moved", 800, UNSENT)
    joining.change("2", "UPDATE {o} SET id = 800 WHERE id = 8", *moved)
    again = "INSERT INTO {o} VALUES (8, 'another')"
    joining.change("2", again, ("insert", 8, "another"))
    joining.log.close()
    refused = joining.bench.run(joining.spec).error
    assert refused is not None
    assert refused.code == "values_on_the_way"
    joining.apply(joining.new)
    assert_done(joining.bench.run(with_attempt(joining.spec, 2)))
    joining.apply(joining.new)
    assert joining.in_lake() == joining.at_source()


def test_one_that_is_empty_is_read_without_a_commit(joining: Joining) -> None:
    joining.bench.sql("DELETE FROM s2.o")
    joining.record()
    before = joining.bench.state(joining.new).timeline.completed_writes
    facts = assert_done(joining.bench.run(joining.spec)).facts
    assert facts == {
        **facts,
        "action": "join",
        "shards": ["s2.o"],
        "written": 0,
        "deleted": 0,
    }
    assert joining.bench.state(joining.new).timeline.completed_writes == before


def test_only_the_one_that_came_is_read(
    joining: Joining, monkeypatch: pytest.MonkeyPatch
) -> None:
    joining.record()
    read: list[str] = []
    look = shard_join.look_at_one

    def looked_at(run: Any, source: Any, table: TableSpec, **k: Any) -> Any:
        read.append(table.at_source)
        return look(run, source, table, **k)

    monkeypatch.setattr(shard_join, "look_at_one", looked_at)
    assert_done(joining.bench.run(joining.spec))
    assert read == ["s2.o"]
    assert joining.in_lake() == joining.at_source()
