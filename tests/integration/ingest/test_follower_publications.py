"""By which publications a follower reads its source's log: our own, or those of others,
where they have all changes of its tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ingest.contract.following import FollowTable
from tests.integration.ingest.following import World, table
from tests.long_tests import first_then_long
from tests.waiting import wait_for

T = "CREATE TABLE t (id int PRIMARY KEY, v text)"
FIRST = FollowTable(table(1), load="first")


def second(**more: object) -> FollowTable:
    return FollowTable(table(2, "u", **more), load="first")  # type: ignore[arg-type]


@pytest.mark.long
def test_the_publication_of_somebody_else_serves(followed: World, reader: str) -> None:
    """Of all tables, by a login that owns nothing."""
    link = followed.link
    link.execute(T)
    link.execute("CREATE TABLE u (id int PRIMARY KEY, v text)")
    link.execute("CREATE PUBLICATION theirs FOR ALL TABLES")
    run = followed.following(FIRST, dsn=reader)
    link.execute("INSERT INTO t VALUES (1, 'a')")
    link.execute("INSERT INTO u VALUES (1, 'not wanted yet')")
    followed.durable(run)
    run.want(FIRST, second())
    run.until(lambda s: s.tables[1].state == "cut", "the other's cut")
    link.execute("INSERT INTO u VALUES (2, 'b')")
    followed.durable(run)
    assert [one.values["id"] for one in followed.changes(1)] == [1]
    assert [one.values["id"] for one in followed.changes(2)] == [2]
    names = link.execute("SELECT pubname FROM pg_publication").fetchall()
    assert names == [("theirs",)]


def test_the_publication_of_another_stream_is_not_relied_on(followed: World) -> None:
    """Of the same table: it is dropped once that one is given up."""
    link = followed.link
    link.execute(T)
    link.execute("CREATE PUBLICATION sluice_7_0123abcd FOR TABLE t, mark")
    run = followed.following(FIRST)
    link.execute("INSERT INTO t VALUES (1, 'a')")
    followed.durable(run)
    link.execute("DROP PUBLICATION sluice_7_0123abcd")
    link.execute("INSERT INTO t VALUES (2, 'b')")
    followed.durable(run)
    run.want(FIRST)  # who gets a list looks at once
    followed.durable(run)
    assert run.problem(1) == ""
    assert [one.values["id"] for one in followed.changes()] == [1, 2]


@pytest.mark.long
def test_the_publication_of_another_stream_serves_who_may_make_none(
    followed: World, reader: str
) -> None:
    link = followed.link
    link.execute(T)
    link.execute("CREATE PUBLICATION sluice_7_0123abcd FOR TABLE t, mark")
    run = followed.following(FIRST, dsn=reader)
    link.execute("INSERT INTO t VALUES (1, 'a')")
    followed.durable(run)
    assert [one.values["id"] for one in followed.changes()] == [1]


def test_without_a_publication_it_says_who_has_to_make_one(
    followed: World, reader: str
) -> None:
    followed.link.execute(T)
    run = followed.start(FIRST, dsn=reader)
    outcome, error = run.until_failed()
    assert (outcome, error.code) == ("invalid_request", "publication_missing")
    assert "CREATE PUBLICATION" in error.message + error.hint


def test_a_publication_of_some_changes_or_rows_does_not_serve(
    followed: World, reader: str
) -> None:
    link = followed.link
    link.execute(T)
    link.execute("CREATE TABLE u (id int PRIMARY KEY, v text)")
    link.execute("CREATE PUBLICATION rows FOR TABLE u WHERE (id > 5), mark")
    link.execute("CREATE PUBLICATION inserts FOR TABLE t WITH (publish = 'insert')")
    run = followed.following(FIRST, second(), dsn=reader)
    assert "no publication" in run.problem(1)
    assert "no publication" in run.problem(2)
    assert followed.controls() == []


@pytest.mark.parametrize(
    "lessens",
    first_then_long(
        "DROP TABLE t; ALTER PUBLICATION {own} ADD TABLE t (id)",
        "DROP TABLE t; ALTER PUBLICATION {own} ADD TABLE t WHERE (id > 5)",
        "SET (publish = 'insert')",
    ),
)
def test_what_makes_our_publication_whole_is_said(
    followed: World, lessens: str
) -> None:
    """Also where a load would seem to be well, until a row comes without its values."""
    link, own = followed.link, followed.spec.publication
    link.execute(T)
    run = followed.following(FIRST)
    followed.durable(run)
    run.kill()
    link.execute(f"ALTER PUBLICATION {own} " + lessens.format(own=own))

    again = replace(FIRST, load="again")
    problem = followed.following(again).problem(1)
    _, _, statements = problem.rpartition("by a user who may: ")
    link.execute(statements)
    run = followed.following(again)
    run.until(lambda s: not run.problem(1), "it is mended")
    link.execute("INSERT INTO t VALUES (1, 'a')")
    followed.durable(run)
    assert [one.values for one in followed.changes()] == [{"id": 1, "v": "a"}]


def test_a_list_without_what_is_left_out_serves(followed: World, reader: str) -> None:
    link = followed.link
    link.execute("CREATE TABLE t (id int PRIMARY KEY, v text, secret text)")
    link.execute("CREATE PUBLICATION part FOR TABLE t (id, v), mark")
    run = followed.following(FIRST, dsn=reader)
    assert run.problem(1) == ""
    link.execute("INSERT INTO t VALUES (1, 'a', 'b')")
    followed.durable(run)
    assert [one.values for one in followed.changes()] == [{"id": 1, "v": "a"}]


@pytest.mark.long  # the slot passes it with a segment that has no rows
def test_a_publication_that_was_made_later_is_used_in_time(
    followed: World, reader: str
) -> None:
    link = followed.link
    link.execute(T)
    link.execute("CREATE PUBLICATION first FOR TABLE mark")
    run = followed.following(FIRST, dsn=reader)
    assert "no publication" in run.problem(1)
    link.execute("CREATE PUBLICATION later FOR TABLE t")
    run.want(FIRST)

    run.until(lambda s: "was made lately" in run.problem(1), "the publication")
    link.execute(
        "CREATE TABLE other AS SELECT repeat('x', 1000) FROM generate_series(1, 20000)"
    )

    def is_over() -> bool:
        # each tells the slot which transactions are open
        link.execute("CHECKPOINT")
        run.want(FIRST)
        run.look()
        return run.code is not None

    wait_for(is_over, "the slot to pass it")
    assert run.failure is not None
    assert run.failure[1].code == "publication_found"
    run = followed.following(FIRST, dsn=reader)
    link.execute("INSERT INTO t VALUES (1, 'a')")
    followed.durable(run)
    assert [one.values["id"] for one in followed.changes()] == [1]


@pytest.mark.long
def test_a_slot_that_seems_older_than_a_publication_is_read_by_it(
    followed: World, reader: str
) -> None:
    """Another slot keeps the catalog from before."""
    link = followed.link
    other = f"{followed.spec.slot}_other"
    link.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [other])
    link.execute(T)
    link.execute("CREATE PUBLICATION theirs FOR ALL TABLES")
    for is_killed in (True, False):
        run = followed.following(FIRST, dsn=reader)
        if is_killed:
            run.kill()
    link.execute("INSERT INTO t VALUES (1, 'a')")
    followed.durable(run)
    assert [one.values["id"] for one in followed.changes()] == [1]
    link.execute("SELECT pg_drop_replication_slot(%s)", [other])
