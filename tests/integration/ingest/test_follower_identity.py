"""A table is the one that was loaded, and not whatever stands under its name, though
nobody followed while that changed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ingest.contract.following import FollowTable
from tests.integration.ingest.following import World, table

T = "CREATE TABLE t (id int PRIMARY KEY, v text)"
FIRST = FollowTable(table(1), load="first")


@pytest.mark.parametrize(
    ("statements", "words"),
    [
        ("DROP TABLE t; " + T, "public.t was dropped and made again"),
        (
            "ALTER TABLE t DROP v; ALTER TABLE t ADD v text",
            "v was dropped at the source",
        ),
    ],
)
def test_what_was_made_again_while_nobody_followed_is_another(
    followed: World, statements: str, words: str
) -> None:
    """By a publication that has whatever stands under the name."""
    link = followed.link
    link.execute(T)
    link.execute("CREATE PUBLICATION theirs FOR ALL TABLES")
    run = followed.following(FIRST)
    link.execute("INSERT INTO t VALUES (1, 'a')")
    followed.durable(run)
    run.kill()
    link.execute(statements)
    link.execute("INSERT INTO t VALUES (2, 'b')")
    run = followed.following(FIRST)
    run.until(lambda s: s.tables[0].state == "deferred", "its deferral")
    assert words in run.problem(1)
    run.want(replace(FIRST, load="next"))
    run.until(lambda s: s.tables[0].state == "cut", "its next cut")
    link.execute("INSERT INTO t VALUES (3, 'c')")
    followed.durable(run)
    # and that is the one that is known from now on
    run.kill()
    run = followed.following(replace(FIRST, load="next"))
    followed.durable(run)
    assert followed.controls() == [
        ("added", 1), ("cut", 1), ("deferred", 1), ("cut", 1),
    ]  # fmt: skip
    assert followed.changes()[-1].values["id"] == 3


def test_what_came_under_another_name_is_not_forgotten(followed: World) -> None:
    """The table has its own again before anybody looks at it."""
    link = followed.link
    link.execute(T)
    run = followed.following(FIRST)
    link.execute("INSERT INTO t VALUES (1, 'a')")
    followed.durable(run)
    with link.transaction():
        link.execute("ALTER TABLE t RENAME TO w")
        link.execute("INSERT INTO w VALUES (2, 'b')")
        link.execute("ALTER TABLE w RENAME TO t")
        link.execute("INSERT INTO t VALUES (3, 'c')")
    followed.durable(run)
    assert followed.controls()[-1] == ("deferred", 1)
    reasons = [c.reason for s in followed.segments() for c in s.controls if c.reason]
    assert ["renamed to public.w" in reason for reason in reasons] == [True]
    assert run.problem(1)


@pytest.mark.parametrize(
    "statements",
    [
        "ALTER PUBLICATION {own} DROP TABLE t; ALTER PUBLICATION {own} ADD TABLE t",
        "ALTER PUBLICATION {own} SET (publish = 'insert');"
        " ALTER PUBLICATION {own}"
        " SET (publish = 'insert, update, delete, truncate')",
    ],
)
def test_what_was_not_sent_while_nobody_followed_is_missed(
    followed: World, statements: str
) -> None:
    link = followed.link
    link.execute(T)
    run = followed.following(FIRST)
    run.until(lambda s: s.tables[0].state == "cut", "its cut")
    run.kill()
    link.execute(statements.format(own=followed.spec.publication))
    run = followed.following(FIRST)
    run.until(lambda s: s.tables[0].state == "deferred", "its deferral")
    assert "for a while" in run.problem(1)


@pytest.mark.parametrize(
    ("is_interrupted", "first"),
    [(True, "DROP TABLES IN SCHEMA public"), (False, "ADD TABLE t")],
)
def test_a_schema_that_left_a_publication_for_a_while(
    followed: World, first: str, *, is_interrupted: bool
) -> None:
    """PostgreSQL has no row in the catalog for each of its tables."""
    link = followed.link
    link.execute(T)
    link.execute("CREATE PUBLICATION theirs FOR TABLES IN SCHEMA public, TABLE mark")
    run = followed.following(FIRST)
    run.until(lambda s: s.tables[0].state == "cut", "its cut")
    link.execute(f"ALTER PUBLICATION theirs {first}")
    if not is_interrupted:
        run.want(FIRST)  # who gets a list looks at once
        followed.durable(run)
        link.execute("ALTER PUBLICATION theirs DROP TABLES IN SCHEMA public")
        run.want(FIRST)
        followed.durable(run)
    link.execute("ALTER PUBLICATION theirs ADD TABLES IN SCHEMA public")
    run.want(FIRST)
    followed.durable(run)
    assert ("for a while" in run.problem(1)) == is_interrupted


def test_a_table_that_left_a_schema_for_a_while(followed: World) -> None:
    """Nobody looked meanwhile, and what changed there was not sent."""
    link = followed.link
    link.execute(T)
    link.execute("CREATE PUBLICATION theirs FOR TABLES IN SCHEMA public")
    link.execute("CREATE SCHEMA other")
    run = followed.following(FIRST)
    run.until(lambda s: s.tables[0].state == "cut", "its cut")
    link.execute("ALTER TABLE t SET SCHEMA other")
    link.execute("INSERT INTO other.t VALUES (1, 'a')")
    link.execute("ALTER TABLE other.t SET SCHEMA public")
    run.want(FIRST)
    followed.durable(run)
    assert "for a while" in run.problem(1)
    assert followed.changes() == []


def test_a_mended_table_waits_for_no_row(followed: World) -> None:
    """What the log said of it last is how it was before."""
    link = followed.link
    link.execute(T)
    run = followed.following(FIRST)
    link.execute("ALTER TABLE t REPLICA IDENTITY NOTHING")
    link.execute("INSERT INTO t VALUES (1, 'a')")
    run.until(lambda s: s.tables[0].state == "deferred", "its deferral")
    link.execute("ALTER TABLE t REPLICA IDENTITY DEFAULT")
    run.want(replace(FIRST, load="next"))
    run.until(lambda s: s.tables[0].state == "cut", "its next cut")
    link.execute("UPDATE t SET v = 'b'")
    followed.durable(run)
    assert [one.values for one in followed.changes()][-1] == {"id": 1, "v": "b"}


def test_a_partition_that_says_less_is_met_in_the_log(followed: World) -> None:
    """It was made and mended before anybody looks at it."""
    link = followed.link
    link.execute("CREATE TABLE t (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)")
    link.execute("ALTER TABLE t REPLICA IDENTITY FULL")
    run = followed.following(FIRST)
    run.until(lambda s: s.tables[0].state == "cut", "its cut")
    with link.transaction():
        link.execute("CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (10)")
        link.execute("INSERT INTO t VALUES (1, 'a')")
        link.execute("UPDATE t SET v = 'b'")
        link.execute("ALTER TABLE t1 REPLICA IDENTITY FULL")
    followed.durable(run)
    run.until(lambda s: s.tables[0].state == "deferred", "its deferral")
    assert "had another replica identity" in run.problem(1)


@pytest.mark.parametrize(
    ("statements", "why"),
    [
        (["DROP TABLE t1"], "dropped or detached"),
        (["ALTER TABLE t DETACH PARTITION t1"], "dropped or detached"),
        (
            [
                "ALTER TABLE t DETACH PARTITION t1",
                "DELETE FROM t1",
                "ALTER TABLE t ATTACH PARTITION t1 FOR VALUES FROM (0) TO (10)",
            ],
            "dropped or detached",
        ),
        (
            [
                "CREATE TABLE x (LIKE t INCLUDING ALL)",
                "INSERT INTO x VALUES (21, 'x')",
                "ALTER TABLE t ATTACH PARTITION x FOR VALUES FROM (20) TO (30)",
            ],
            "attached as a partition",
        ),
        (["TRUNCATE t1"], "truncated or rewritten"),
        (["TRUNCATE t", "CREATE TABLE x PARTITION OF t DEFAULT"], ""),
    ],
)
def test_partitions_that_come_and_go_with_their_rows_are_not_in_the_log(
    followed: World, statements: list[str], why: str
) -> None:
    """By its root PostgreSQL sends no TRUNCATE of one, and nothing else of these."""
    link = followed.link
    link.execute("CREATE TABLE t (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)")
    link.execute("CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (10)")
    link.execute("CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (10) TO (20)")
    run = followed.following(FIRST)
    run.until(lambda s: s.tables[0].state == "cut", "its cut")
    link.execute("INSERT INTO t VALUES (1, 'a'), (11, 'b')")
    for statement in statements:
        link.execute(statement)
    run.want(FIRST)  # who gets a list looks at once
    followed.durable(run)
    if not why:
        assert run.problem(1) == ""
        return
    run.until(lambda s: s.tables[0].state == "deferred", "its deferral")
    assert why in run.problem(1)
