"""A sharded table before a real PostgreSQL: rows of all shards under one table, each with
its shard; what becomes of one shard is said of the table."""

from __future__ import annotations

import itertools
import signal
from dataclasses import replace

import pytest

from ingest.contract.following import FollowTable
from ingest.contract.table import SHARD, ColumnSpec, Gone, ShardSpec
from ingest.sources.sharded_log import shards_in
from tests.integration.ingest.following import World, table
from tests.long_tests import first_then_long
from tests.waiting import wait_for

SHARDED = replace(
    table(1),
    source_schema="shop_1",
    columns=(ColumnSpec(SHARD, "shop", "", "string"), *table(1).columns),
    key=(SHARD, "id"),
    shards=(ShardSpec("shop_1", "t", "1"), ShardSpec("shop_2", "t", "2")),
)
FIRST = FollowTable(SHARDED, load="first")


def made(world: World) -> None:
    for schema in ("shop_1", "shop_2"):
        world.link.execute(
            f"CREATE SCHEMA {schema};"
            f" CREATE TABLE {schema}.t (id int PRIMARY KEY, v text)"
        )


def rows(world: World) -> list[tuple[object, ...]]:
    return [
        (c.op, c.values[SHARD], c.values["id"], c.values["v"]) for c in world.changes()
    ]


def test_rows_of_all_shards_come_with_their_shard_also_behind_a_death(
    followed: World,
) -> None:
    made(followed)
    run = followed.following(FIRST)
    link = followed.link
    link.execute("INSERT INTO shop_1.t VALUES (1, 'a')")
    link.execute("INSERT INTO shop_2.t VALUES (1, 'b')")
    followed.durable(run)
    run.signal(signal.SIGKILL)
    run.kill()
    link.execute("UPDATE shop_2.t SET v = 'c'; DELETE FROM shop_1.t")
    again = followed.following(FIRST)
    followed.durable(again)
    assert rows(followed) == [
        ("insert", "1", 1, "a"),
        ("insert", "2", 1, "b"),
        ("update", "2", 1, "c"),
        ("delete", "1", 1, None),
    ]
    assert followed.controls() == [("added", 1), ("cut", 1)]


ANEW = "DROP TABLE shop_2.t; CREATE TABLE shop_2.t (id int PRIMARY KEY, v text)"


@pytest.mark.long
@pytest.mark.parametrize("dies", [False, True])
def test_a_shard_that_was_made_anew_before_a_look_stops_no_other(
    followed: World, dies: bool
) -> None:
    """Rows of both tables are in the log under one name: those of the former one come,
    and what the other one has is read once it joins."""
    made(followed)
    run, link = followed.following(FIRST), followed.link
    link.execute("INSERT INTO shop_2.t VALUES (1, 'first')")
    followed.durable(run)
    run.signal(signal.SIGSTOP)
    link.execute("UPDATE shop_2.t SET v = 'last'")
    link.execute(f"{ANEW}; INSERT INTO shop_2.t VALUES (1, 'another')")
    link.execute("INSERT INTO shop_1.t VALUES (1, 'goes on')")
    if dies:
        run.signal(signal.SIGKILL)
        run.kill()
        run = followed.following(FIRST)
    else:
        run.signal(signal.SIGCONT)
    number = itertools.count(2)
    while run.state.tables[0].gone != ("shop_2.t",):
        assert run.problem(1) == ""
        link.execute(f"INSERT INTO shop_2.t VALUES ({next(number)}, 'another')")
        link.execute(f"INSERT INTO shop_1.t VALUES ({next(number)}, 'goes on')")
        followed.durable(run)
    assert run.problem(1) == ""
    run.kill()
    of_second = [row for row in rows(followed) if row[1] == "2"]
    assert of_second == [("insert", "2", 1, "first"), ("update", "2", 1, "last")]
    assert ("insert", "1", 1, "goes on") in rows(followed)
    # it is marked, its rows go, and the other one joins under its name
    run = followed.following(marked("deleted"))
    followed.durable(run)
    run.kill()
    assert rows(followed)[-1] == ("truncate", "2", None, None)
    run = followed.following(rejoined())
    wait_for(
        lambda: run.look() or "shop_2.t" in known_shards(followed)[-1], "its record"
    )
    link.execute("INSERT INTO shop_2.t VALUES (0, 'behind')")
    followed.durable(run)
    assert rows(followed)[-1] == ("insert", "2", 0, "behind")
    assert "deferred" not in {kind for kind, _ in followed.controls()}


def rejoined() -> FollowTable:
    first, second = SHARDED.shards
    spec = replace(SHARDED, shards=(first, replace(second, is_unread=True)))
    return replace(FIRST, table=spec)


@pytest.mark.parametrize("dies", first_then_long("before", "behind"))
def test_what_empties_one_shard_is_in_its_place_among_its_rows_also_behind_a_death(
    followed: World, dies: str
) -> None:
    """Of one that dies before the log is acknowledged, and behind that."""
    made(followed)
    run = followed.following(FIRST)
    link = followed.link
    link.execute("INSERT INTO shop_1.t VALUES (1, 'a')")
    link.execute("INSERT INTO shop_2.t VALUES (1, 'gone')")
    followed.durable(run)
    if dies == "before":
        run.signal(signal.SIGSTOP)
    link.execute("TRUNCATE shop_2.t")
    link.execute("INSERT INTO shop_2.t VALUES (1, 'new')")
    if dies == "behind":
        followed.durable(run)
    run.signal(signal.SIGKILL)
    run.kill()
    link.execute("UPDATE shop_1.t SET v = 'b'")
    again = followed.following(FIRST)
    followed.durable(again)
    assert rows(followed) == [
        ("insert", "1", 1, "a"),
        ("insert", "2", 1, "gone"),
        ("truncate", "2", None, None),
        ("insert", "2", 1, "new"),
        ("update", "1", 1, "b"),
    ]
    assert again.problem(1) == ""
    # its rows are in another file, which its identity says
    assert {kind for kind, _ in followed.controls()} == {"added", "cut", "left"}


def marked(gone: Gone) -> FollowTable:
    """The plan says of the second that it is gone."""
    first, second = SHARDED.shards
    spec = replace(SHARDED, shards=(first, replace(second, gone=gone)))
    return replace(FIRST, table=spec)


def test_one_that_is_dropped_stops_no_other_and_its_rows_go_when_that_is_decided(
    followed: World,
) -> None:
    """Who follows is killed behind each step."""
    made(followed)
    run, link = followed.following(FIRST), followed.link
    link.execute("INSERT INTO shop_2.t VALUES (1, 'first'), (2, 'first')")
    followed.durable(run)
    run.signal(signal.SIGSTOP)
    link.execute("UPDATE shop_2.t SET v = 'last' WHERE id = 2")
    link.execute("DROP TABLE shop_2.t")
    link.execute("INSERT INTO shop_1.t VALUES (1, 'goes on')")
    run.signal(signal.SIGKILL)
    run.kill()
    run = followed.following(FIRST)

    def is_told() -> bool:
        return run.state.tables[0].gone == ("shop_2.t",)

    number = itertools.count(2)
    while not is_told():
        link.execute(f"INSERT INTO shop_1.t VALUES ({next(number)}, 'goes on')")
        followed.durable(run)
    run.kill()
    found = rows(followed)
    assert found[:2] == [("insert", "2", 1, "first"), ("insert", "2", 2, "first")]
    assert ("update", "2", 2, "last") in found
    assert ("insert", "1", 1, "goes on") in found
    # nobody has decided: nothing more comes of it, whatever has its name
    made_again = "CREATE TABLE shop_2.t (id int PRIMARY KEY, v text)"
    link.execute(f"{made_again}; INSERT INTO shop_2.t VALUES (1, 'another')")
    run = followed.following(marked("undecided"))
    followed.durable(run)
    run.kill()
    assert rows(followed) == found
    assert known_shards(followed)[-1] == {"shop_1.t"}
    for _ in range(2):
        run = followed.following(marked("deleted"))
        followed.durable(run)
        run.signal(signal.SIGKILL)
        run.kill()
        assert rows(followed) == [*found, ("truncate", "2", None, None)]
    assert "deferred" not in {kind for kind, _ in followed.controls()}


THIRD = ShardSpec("shop_3", "t", "3", is_unread=True)
MORE = FollowTable(replace(SHARDED, shards=(*SHARDED.shards, THIRD)), load="first")


def known_shards(world: World) -> list[frozenset[str]]:
    """What each record says that has an identity."""
    said = [c for s in world.segments() for c in s.controls if c.table_id == 1]
    return [shards_in(one.identity) for one in said if one.identity]


def came(world: World) -> None:
    world.link.execute(
        "CREATE SCHEMA shop_3; CREATE TABLE shop_3.t (id int PRIMARY KEY, v text)"
    )
    world.link.execute("INSERT INTO shop_3.t VALUES (1, 'before')")


@pytest.mark.parametrize("dies", first_then_long(True, False))
def test_a_shard_that_comes_gets_its_record_and_stops_no_other(
    followed: World, dies: bool
) -> None:
    """Also where who reads the log dies between the plan and the record."""
    made(followed)
    run = followed.following(FIRST)
    followed.durable(run)
    came(followed)
    if dies:
        run.signal(signal.SIGSTOP)
    run.want(MORE)
    if dies:
        run.signal(signal.SIGKILL)
        run.kill()
        followed.link.execute("INSERT INTO shop_1.t VALUES (2, 'unread')")
        run = followed.following(MORE)
    three = frozenset({"shop_1.t", "shop_2.t", "shop_3.t"})
    wait_for(lambda: run.look() or three in known_shards(followed), "its record")
    followed.link.execute("INSERT INTO shop_3.t VALUES (2, 'behind')")
    followed.link.execute("INSERT INTO shop_1.t VALUES (3, 'behind')")
    followed.durable(run)
    assert run.problem(1) == ""
    kinds = [kind for kind, _ in followed.controls()]
    assert kinds == ["added", "cut", "left"]
    assert ("insert", "3", 2, "behind") in rows(followed)
    assert ("insert", "1", 3, "behind") in rows(followed)
    assert (("insert", "1", 2, "unread") in rows(followed)) is dies
    # and who reads on behind the record takes nothing up anew
    run.kill()
    followed.link.execute("UPDATE shop_3.t SET v = 'later' WHERE id = 2")
    again = followed.following(MORE)
    followed.durable(again)
    assert rows(followed)[-1] == ("update", "3", 2, "later")
    assert "deferred" not in {kind for kind, _ in followed.controls()}


@pytest.mark.long
def test_a_shard_whose_rows_do_not_come_gets_no_record_until_it_is_mended(
    followed: World,
) -> None:
    made(followed)
    run = followed.following(FIRST)
    followed.durable(run)
    followed.link.execute(
        "CREATE SCHEMA shop_3; CREATE TABLE shop_3.t (id int NOT NULL, v text)"
    )
    run.want(MORE)
    followed.link.execute("INSERT INTO shop_1.t VALUES (2, 'goes on')")
    followed.durable(run)
    assert rows(followed)[-1] == ("insert", "1", 2, "goes on")
    assert run.problem(1) == ""
    assert all("shop_3.t" not in names for names in known_shards(followed))
    followed.link.execute("ALTER TABLE shop_3.t ADD PRIMARY KEY (id)")
    wait_for(
        lambda: run.look() or "shop_3.t" in known_shards(followed)[-1], "its record"
    )
    followed.link.execute("INSERT INTO shop_3.t VALUES (1, 'comes')")
    followed.durable(run)
    assert rows(followed)[-1] == ("insert", "3", 1, "comes")
    assert "deferred" not in {kind for kind, _ in followed.controls()}
