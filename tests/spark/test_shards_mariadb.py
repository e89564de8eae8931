"""Tables of several databases as one lake table: loaded by one commit, followed by one
log, compared shard by shard."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from ingest.contract.job import JobSpec, LogLoad, RepairWork, SnapshotWork
from ingest.contract.segments import Control
from ingest.contract.table import SHARD, ColumnSpec, Gone, ShardSpec, TableSpec
from ingest.driver.apply import log_apply
from ingest.driver.apply.writer import commit_rows
from ingest.driver.capture import kept_chunks, reading
from ingest.driver.table_services import chunk_repair
from ingest.sources.port import LogNames
from ingest.sources.registry import open_log_reader
from tests.long_tests import first_then_long
from tests.mariadb import MariaDbServer
from tests.source_access import mariadb_at
from tests.spark.lake_bench import assert_done, with_attempt
from tests.spark.mariadb_bench import MariadbBench
from tests.spark.test_chunk_repair import KILLS, Killed
from tests.spark.test_log_load_mariadb import STREAM, Followed

# by their values: what is special in SQL may be in a name
SHARDS = {"1": "shop_1", "2": "shop_2", "o'x\\": "shop_o'x\\"}


@dataclass
class Sharded:
    bench: MariadbBench
    followed: Followed
    table: TableSpec

    def sql(self, value: str, statement: str) -> None:
        """{o}: the shard's table."""
        self.bench.sql(statement.format(o=f"`{SHARDS[value]}`.o"))

    def unseen(self, value: str, statement: str) -> None:
        """What no reader of the log gets."""
        self.sql(value, f"SET STATEMENT sql_log_bin = 0 FOR {statement}")

    def at_source(self) -> list[tuple[str, ...]]:
        there = {row[0] for row in self.bench.sql("SHOW DATABASES")}
        return sorted(
            (value, *row)
            for value, database in SHARDS.items()
            if database in there
            for row in self.sql_of(value)
        )

    def sql_of(self, value: str) -> list[tuple[str, ...]]:
        found = self.bench.sql(f"SELECT id, v FROM `{SHARDS[value]}`.o")
        return [tuple(map(str, row)) for row in found]

    def in_lake(self) -> list[tuple[str, ...]]:
        found = self.bench.rows(self.table, "shop", "id", "v")
        return sorted(tuple(map(str, row)) for row in found)


def sharded(table: TableSpec) -> TableSpec:
    return replace(
        table,
        columns=(ColumnSpec(SHARD, "shop", "", "string"), *table.columns),
        key=(SHARD, *table.key),
        source_schema=SHARDS["1"],
        shards=tuple(ShardSpec(name, "o", value) for value, name in SHARDS.items()),
    )


@pytest.fixture
def shards(
    spark: Any, mariadb_server: MariaDbServer, tmp_path: Path
) -> Iterator[Sharded]:
    bench = MariadbBench(spark, mariadb_server, tmp_path)
    bench.sql("CREATE TABLE o (id int PRIMARY KEY, v varchar(40))")
    for name in SHARDS.values():
        bench.sql(f"CREATE OR REPLACE DATABASE `{name}`")
        bench.sql(f"CREATE TABLE `{name}`.o (id int PRIMARY KEY, v varchar(40))")
        bench.sql(f"INSERT INTO `{name}`.o SELECT seq, 'load' FROM seq_1_to_250")
        bench.sql(f"ANALYZE TABLE `{name}`.o")
    table = sharded(bench.table("o", estimated_rows=750))
    names = LogNames("sluice_t", "")
    with open_log_reader(
        mariadb_at(bench.server), names, [table], after=lambda: None, wait=print
    ) as log:
        # what was there before is known, as a follower that starts says it
        log.follow([table])
        yield Sharded(bench, Followed(bench, log, table), table)
    for name in SHARDS.values():
        bench.sql(f"DROP DATABASE `{name}`")
    bench.link.close()


def loaded(shards: Sharded, *, chunk_rows: int = 100) -> dict[str, Any]:
    table_id = shards.table.table_id
    cut = Control("cut", table_id, load="a")
    shards.followed.segment(Control("added", table_id), cut)
    work = SnapshotWork(chunk_rows, log=LogLoad(STREAM, "a"))
    spec = shards.bench.spec("snapshot", shards.table, snapshot=work)
    facts = assert_done(shards.bench.run(spec)).facts
    shards.followed.segment(Control("finished", table_id, at=facts["bound"]))
    return facts


def test_a_short_load_of_shards_brings_each_row_to_its_bucket(
    shards: Sharded, tmp_path: Path
) -> None:
    """By the key that the lake has: that of a shard lacks its name."""
    facts = loaded(shards, chunk_rows=1000)
    assert (facts["rows"], facts["chunks"]) == (750, 3)
    files = sorted(p.name[:8] for p in Path(shards.table.path).glob("*.parquet"))
    assert files == ["00000000", "00000001"]
    for name in SHARDS:
        shards.sql(name, "UPDATE {o} SET v = 'new'")
    shards.followed.segment()
    shards.followed.apply(tmp_path / "apply")
    assert shards.in_lake() == shards.at_source()


def test_equal_keys_of_shards_are_rows_of_their_own(
    shards: Sharded, tmp_path: Path
) -> None:
    facts = loaded(shards)
    assert (facts["rows"], facts["chunks"]) == (750, 9)
    shards.sql("1", "UPDATE {o} SET v = 'new' WHERE id = 1")
    shards.sql("2", "DELETE FROM {o} WHERE id = 1")
    shards.sql("2", "UPDATE {o} SET id = 900 WHERE id = 2")
    shards.sql("o'x\\", "INSERT INTO {o} VALUES (900, 'late')")
    shards.followed.segment()
    shards.followed.apply(tmp_path / "apply")
    assert shards.in_lake() == shards.at_source()
    # compared by the lake's own verification, and found where it differs
    shards.unseen("2", "UPDATE {o} SET v = 'odd' WHERE id = 9")
    spec = shards.bench.verify_spec(shards.table, chunk_rows=100)
    report = assert_done(shards.bench.run(spec))
    assert report.facts["verdict"] == "different"
    (key,) = report.facts["keys"]["different"]
    assert key.split("\u001f" if "\u001f" in key else ",")[0].endswith("2"), key


def different(shards: Sharded) -> tuple[JobSpec, dict[str, Any]]:
    """The repair of what a verification finds, and what that would read."""
    bench, table = shards.bench, shards.table
    spec = bench.verify_spec(table, stream=STREAM, chunk_rows=100)
    facts = assert_done(bench.run(spec)).facts
    work = RepairWork("repair", verification=spec.job_id, stream=STREAM)
    return bench.spec("repair", table, repair=work), facts["repair"]


# where it is killed makes no difference to shards: `test_chunk_repair` tries each place
@pytest.mark.parametrize("where", first_then_long(*KILLS))
def test_rows_of_some_shards_are_repaired_and_whoever_is_killed_ends_the_same(
    shards: Sharded, tmp_path: Path, where: str
) -> None:
    """Equal keys of other shards stay as they are."""
    loaded(shards)
    shards.unseen("2", "UPDATE {o} SET v = 'odd' WHERE id = 9")
    shards.unseen("2", "INSERT INTO {o} VALUES (900, 'unseen')")
    shards.unseen("o'x\\", "DELETE FROM {o} WHERE id IN (9, 120)")
    shards.followed.segment()
    shards.followed.apply(tmp_path / "before")
    spec, repair = different(shards)
    assert repair == {"chunks": 2, "of": 9}
    # the log has one of these keys, and the lake has not
    shards.sql("2", "UPDATE {o} SET v = 'newer' WHERE id = 9")
    shards.sql("1", "UPDATE {o} SET v = 'other' WHERE id = 9")
    before = shards.in_lake()
    kill, is_there = KILLS[where]
    with pytest.MonkeyPatch.context() as patch:
        kill(patch)
        with pytest.raises(Killed):
            shards.bench.run(spec)
    assert (shards.in_lake() == before) is not is_there
    report = assert_done(shards.bench.run(with_attempt(spec, 2)))
    assert (report.facts["written"], report.facts["deleted"]) == (2, 2)
    shards.followed.segment()
    shards.followed.apply(tmp_path / "after")
    assert shards.in_lake() == shards.at_source()
    assert different(shards)[1] is None


@pytest.mark.parametrize("is_extra", first_then_long(True, False))
def test_only_shards_that_differ_are_read_again(
    shards: Sharded, monkeypatch: pytest.MonkeyPatch, is_extra: bool
) -> None:
    """Nor does anything of the others count. is_extra: keys that only the lake has are
    looked for in the shard that they are of."""
    loaded(shards)
    change = "DELETE FROM {o}" if is_extra else "UPDATE {o} SET v = 'odd'"
    shards.unseen("2", f"{change} WHERE id IN (9, 240)")
    spec, repair = different(shards)
    assert repair == {"chunks": 0 if is_extra else 2, "of": 9}
    looked, counted, defined = [list[TableSpec]() for _ in range(3)]
    noted(monkeypatch, "look_at_one", lambda _, __, table, **___: looked.append(table))
    noted(monkeypatch, "count_rows", lambda _, __, tables: counted.extend(tables))
    noted(monkeypatch, "read_anew", lambda _, tables, __: defined.extend(tables))
    if not is_extra:
        # its key has no index any more: the whole shard is read, and no other
        shards.unseen("2", "ALTER TABLE {o} DROP PRIMARY KEY")
    facts = assert_done(shards.bench.run(spec)).facts
    found = [[one.at_source for one in some] for some in (looked, defined, counted)]
    assert found == [["shop_2.o"], ["shop_2.o"], ["shop_2.o"] if is_extra else []]
    assert (facts["written"], facts["deleted"]) == ((0, 2) if is_extra else (2, 0))
    assert shards.in_lake() == shards.at_source()


def noted(
    monkeypatch: pytest.MonkeyPatch, name: str, note: Callable[..., None]
) -> None:
    real = getattr(chunk_repair, name)

    def call(*given: Any, **named: Any) -> Any:
        note(*given, **named)
        return real(*given, **named)

    monkeypatch.setattr(chunk_repair, name, call)


@pytest.mark.long
def test_places_of_other_shards_than_were_compared_are_not_read(
    shards: Sharded,
) -> None:
    loaded(shards)
    shards.unseen("2", "UPDATE {o} SET v = 'odd' WHERE id = 9")
    spec, _ = different(shards)
    fewer = replace(shards.table, shards=shards.table.shards[1:])
    report = shards.bench.run(replace(spec, table=fewer))
    assert report.error is not None
    assert report.error.code == "differences_gone"


def _killed_before(*_: Any) -> None:
    raise Killed


def _killed_behind(*given: Any) -> None:
    commit_rows(*given)
    raise Killed


@pytest.mark.parametrize("kill", first_then_long(_killed_behind, _killed_before))
def test_what_empties_one_shard_takes_its_rows_and_no_others(
    shards: Sharded, tmp_path: Path, kill: Callable[..., None]
) -> None:
    """Also where who applies it is killed before its commit, or behind that."""
    loaded(shards)
    shards.sql("2", "UPDATE {o} SET v = 'gone' WHERE id IN (3, 4)")
    shards.sql("1", "UPDATE {o} SET v = 'stays' WHERE id IN (3, 4)")
    shards.followed.segment()
    shards.sql("2", "DELETE FROM {o} WHERE id = 5")
    shards.sql("2", "TRUNCATE TABLE {o}")
    shards.sql("2", "INSERT INTO {o} VALUES (3, 'new'), (5, 'new'), (900, 'new')")
    shards.sql("1", "DELETE FROM {o} WHERE id = 5")
    shards.followed.segment()
    shards.sql("2", "DELETE FROM {o} WHERE id = 900")
    shards.followed.segment()
    assert (shards.followed.log.lost(), shards.followed.log.problems) == ({}, {})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_apply, "commit_rows", kill)
        with pytest.raises(Killed):
            shards.followed.apply(tmp_path / "killed")
    shards.followed.apply(tmp_path / "again")
    assert shards.in_lake() == shards.at_source()
    # and goes on: emptied once more, with nothing behind that
    shards.sql("2", "INSERT INTO {o} VALUES (7, 'gone')")
    shards.sql("2", "TRUNCATE TABLE {o}")
    shards.followed.segment()
    shards.followed.apply(tmp_path / "later")
    assert shards.in_lake() == shards.at_source()
    assert len(shards.in_lake()) == 499
    assert different(shards)[1] is None


def test_a_shard_is_emptied_while_it_is_loaded(
    shards: Sharded, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Chunks of it were read before, and are read behind that."""
    finished, waiting = kept_chunks._manifest, ["TRUNCATE TABLE {o}"]

    def between(*given: Any) -> Any:
        found = finished(*given)
        if given[0].table.source_schema == SHARDS["2"] and waiting:
            shards.sql("2", waiting.pop())
            shards.sql("2", "INSERT INTO {o} VALUES (1, 'new'), (200, 'new')")
        return found

    monkeypatch.setattr(kept_chunks, "_manifest", between)
    monkeypatch.setattr(reading, "PAUSES", (0.0,))
    loaded(shards)
    assert not waiting
    shards.followed.segment()
    shards.followed.apply(tmp_path / "apply")
    assert shards.in_lake() == shards.at_source()


def gone(table: TableSpec, value: str, what: Gone) -> TableSpec:
    """The plan says so of it."""
    found = (replace(s, gone=what) if s.value == value else s for s in table.shards)
    return replace(table, shards=tuple(found))


def follow(shards: Sharded, table: TableSpec, known: str) -> str:
    """As its follower does when it gets the plan: the identity that the stream has."""
    followed, table_id = shards.followed, table.table_id
    shards.table = followed.table = table
    followed.log.follow([table], loaded={table_id: known})
    followed.segment(Control("left", table_id, identity=known))
    return str(followed.log.identities[table_id])


@pytest.mark.parametrize(
    "how", first_then_long("DROP TABLE {o}", "DROP DATABASE `shop_2`")
)
def test_what_drops_one_stops_no_other_and_its_rows_go_when_that_is_decided(
    shards: Sharded, tmp_path: Path, how: str
) -> None:
    loaded(shards)
    log, table = shards.followed.log, shards.table
    known = str(log.identities[table.table_id])
    shards.sql("2", "UPDATE {o} SET v = 'last' WHERE id = 3")
    shards.sql("2", "DELETE FROM {o} WHERE id = 4")
    lost = {("2", *row) for row in shards.sql_of("2")}
    shards.sql("2", how)
    if "DATABASE" not in how:
        shards.sql("2", "CREATE TABLE {o} (id int PRIMARY KEY, v varchar(40))")
        shards.sql("2", "INSERT INTO {o} VALUES (3, 'another'), (4, 'another')")
    shards.sql("1", "UPDATE {o} SET v = 'goes on' WHERE id = 3")
    shards.followed.segment()
    assert (log.lost(), log.problems) == ({}, {})
    shards.sql("1", "DELETE FROM {o} WHERE id = 4")
    shards.followed.segment()
    assert log.gone == {table.table_id: ("shop_2.o",)}
    shards.followed.apply(tmp_path / "gone")
    others = {row for row in shards.at_source() if row[0] != "2"}
    assert {*shards.in_lake()} == others | lost
    known = follow(shards, gone(table, "2", "undecided"), known)
    shards.followed.apply(tmp_path / "undecided")
    assert {*shards.in_lake()} == others | lost
    # what the source has no more is not compared
    assert different(shards)[1] is None
    shards.unseen("1", "UPDATE {o} SET v = 'odd' WHERE id = 9")
    spec, repair = different(shards)
    assert repair["chunks"] == 1
    assert_done(shards.bench.run(spec))
    follow(shards, gone(table, "2", "deleted"), known)
    shards.followed.apply(tmp_path / "deleted")
    others = {row for row in shards.at_source() if row[0] != "2"}
    assert {*shards.in_lake()} == others
    if "DATABASE" in how:
        shards.bench.sql("CREATE DATABASE shop_2")


def test_a_shard_of_another_shape_is_a_problem_of_the_table(shards: Sharded) -> None:
    loaded(shards)
    shards.sql("1", "ALTER TABLE {o} MODIFY id varchar(9)")
    shards.sql("1", "INSERT INTO {o} VALUES ('x', 'x')")
    shards.followed.segment()
    problems = shards.followed.log.problems
    assert "shop_1.o" in problems[shards.table.table_id]
