"""What was read of a table for planning is kept by the engine, for all sessions: until
the table's next commit, and never past anybody's rights."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spark.conftest import Lake
from tests.spark.engine_bench import Client, EngineBench, write_table

SYSTEM = "{seq}L as _sluice_seq, false as _sluice_deleted"
RULES = {"shop.listed": {"filters": ["id < 3"], "masks": {"v": ["redact", ""]}}}
PAIRS = "select count(*) from shop.listed a join shop.listed b on a.id = b.id"


def write(spark: Any, place: Any, values: str, seq: int = 1) -> None:
    query = f"select {values}, {SYSTEM.format(seq=seq)}"
    write_table(spark, place, query, operation="upsert" if seq > 1 else "bulk_insert")


@pytest.fixture
def readers(
    spark: Any, lake: Lake, bench: EngineBench, request: pytest.FixtureRequest
) -> Iterator[tuple[Any, list[Client]]]:
    """Two sessions of one who may read all of a new table, and one of a limited one."""
    place = lake.root / "shop" / f"listed_{request.node.name}"
    write(spark, place, "explode(array(1L, 2L, 3L)) as id, 'old' as v")
    bench.table("shop.listed", place)
    bench.policy("lisa", select=["shop.listed"])
    bench.policy("luke", select=["shop.listed"], tables=RULES)
    clients = [bench.connect(name) for name in ("lisa", "lisa", "luke")]
    yield place, clients
    for client in clients:
        client.close()


def read(client: Client, what: str = "id, v") -> list[tuple[Any, ...]]:
    return client.rows(f"select {what} from shop.listed order by id")


OLD = [(1, "old"), (2, "old"), (3, "old")]


def test_a_commit_shows_in_the_next_statement_of_every_session(
    spark: Any, readers: tuple[Any, list[Client]]
) -> None:
    place, (one, other, _) = readers
    for _ in range(2):
        assert read(one) == read(other) == OLD
        assert one.rows(PAIRS) == [(3,)]
    # a log file over one of two base files
    write(spark, place, "2L as id, 'new' as v", 2)
    assert read(one) == read(other) == [OLD[0], (2, "new"), OLD[2]]
    write(spark, place, "4L as id, 'new' as v, nullif(7, 0) as more", 3)
    assert read(other, "id, more")[-1] == read(one, "id, more")[-1] == (4, 7)
    assert one.rows(PAIRS) == other.rows(PAIRS) == [(4,)]


def test_files_are_listed_once_for_all_until_the_next_commit(
    spark: Any, bench: EngineBench, readers: tuple[Any, list[Client]]
) -> None:
    """A file that no commit brought shows which statements listed them: those count
    its rows. Rights that change list nothing anew."""
    place, (one, other, limited) = readers
    counted = "select count(*) from shop.listed"
    assert one.rows(counted) == [(3,)]
    planted, _ = plant(spark, place)
    later = bench.connect("lisa")
    for client in (one, other, later):
        assert client.rows(counted) == [(3,)]
    later.close()
    assert limited.rows(counted) == [(2,)]
    bench.policy("luke", select=["shop.listed"])
    bench.policy("lisa", select=["shop.listed"], tables=RULES)
    assert (limited.rows(counted), other.rows(counted)) == ([(3,)], [(2,)])
    planted.unlink()  # no writer goes on with it
    write(spark, place, "9L as id, 'new' as v", 2)
    _, rows = plant(spark, place)
    assert limited.rows(counted) == [(4 + rows,)]


def plant(spark: Any, place: Path) -> tuple[Path, int]:
    """A second file group with the rows of another, and how many they are."""
    file = min(place.glob("*.parquet"))
    group, rest = file.name.split("_", 1)
    other = file.with_name(f"{group[:9]}0000{group[13:]}_{rest}")
    assert other != file
    shutil.copy(file, other)
    return other, int(spark.read.parquet(str(file)).count())


def test_each_reads_what_is_left_of_it_by_their_own_rights(
    bench: EngineBench, readers: tuple[Any, list[Client]]
) -> None:
    _, (one, _, limited) = readers
    for _ in range(2):
        assert read(one) == OLD
        assert read(limited) == [(1, "***"), (2, "***")]
        assert (one.rows(PAIRS), limited.rows(PAIRS)) == ([(3,)], [(2,)])
    bench.policy("luke", select=[])
    assert limited.run("select * from shop.listed").is_refused
    assert read(one) == OLD


def test_a_name_that_moved_is_read_where_it_is_now(
    spark: Any, bench: EngineBench, readers: tuple[Any, list[Client]]
) -> None:
    place, (one, other, _) = readers
    assert read(one) == read(other) == OLD
    moved = place.with_name(f"{place.name}_moved")
    write(spark, moved, "1L as id, 'moved' as v")
    bench.table("shop.listed", moved, 2)
    assert read(one) == read(other) == [(1, "moved")]
    bench.table("shop.listed", place, 3)
    assert read(one) == OLD
    bench.table("shop.listed", None)
    assert one.run("select * from shop.listed").sql_state == "42P01"


def test_settings_of_a_session_are_its_own(readers: tuple[Any, list[Client]]) -> None:
    _, (one, other, _) = readers
    assert one.run("set spark.sql.ansi.enabled = true").error == ""
    wrong = "select cast(v as int) from shop.listed where id = 1"
    for _ in range(2):
        assert one.run(wrong).is_refused
        assert other.rows(wrong) == [(None,)]
