"""A sharded table before a real PostgreSQL: rows of all shards under one table, each with
its shard; what becomes of one shard is said of the table."""

from __future__ import annotations

import signal
from dataclasses import replace

from ingest.contract.following import FollowTable
from ingest.contract.table import SHARD, ColumnSpec, ShardSpec
from tests.integration.ingest.following import World, table

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


def test_a_shard_that_was_made_anew_while_nobody_followed_defers_the_table(
    followed: World,
) -> None:
    made(followed)
    run = followed.following(FIRST)
    followed.durable(run)
    run.kill()
    followed.link.execute(
        "DROP TABLE shop_2.t; CREATE TABLE shop_2.t (id int PRIMARY KEY, v text)"
    )
    again = followed.following(FIRST)
    followed.durable(again)
    assert "shop_2.t was dropped and made again" in again.problem(1)
    assert followed.controls() == [("added", 1), ("cut", 1), ("deferred", 1)]


def test_what_empties_one_shard_defers_the_table_and_no_row_of_others_goes(
    followed: World,
) -> None:
    made(followed)
    run = followed.following(FIRST)
    followed.link.execute("INSERT INTO shop_1.t VALUES (1, 'a')")
    followed.link.execute("TRUNCATE shop_2.t")
    followed.durable(run)
    assert "truncate" not in {op for op, *_ in rows(followed)}
    assert followed.controls()[-1] == ("deferred", 1)
    assert "shop_2.t, one of the tables" in followed.reasons()[-1]
    # who looks at it later is told the same
    run.until(lambda s: s.tables[0].state == "deferred", "its deferral")
    assert "shop_2.t, one of the tables" in run.problem(1)
