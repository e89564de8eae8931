"""Columns that a table gets while its log is followed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ingest.contract.following import FollowTable
from ingest.contract.segments import AHEAD
from tests.integration.ingest.following import World, table

T = "CREATE TABLE t (id int PRIMARY KEY, v text)"
FIRST = FollowTable(table(1), load="first")


def test_new_columns_come_before_the_plan_has_them(followed: World) -> None:
    link = followed.link
    link.execute(T)
    run = followed.following(FIRST)
    with link.transaction():
        link.execute("INSERT INTO t VALUES (0, 'a')")
        link.execute("ALTER TABLE t ADD extra int DEFAULT 5")
        link.execute("INSERT INTO t VALUES (1, 'a')")
    run.until(lambda s: s.tables[0].new_columns == ("extra",), "the column")
    followed.durable(run)
    assert [one.values for one in followed.changes()] == [
        {"id": 0, "v": "a"}, {"id": 1, "v": "a", "extra": 5},
    ]  # fmt: skip
    columns = {"id": "integer as int", "v": "text as string", "extra": "integer as int"}
    later = FollowTable(table(1, columns=columns, schema_version=2), load="first")
    run.want(later)
    run.until(lambda s: s.tables[0].new_columns == (), "the plan")
    link.execute("INSERT INTO t VALUES (2, 'b')")
    followed.durable(run)
    assert followed.changes()[-1].values == {"id": 2, "v": "b", "extra": 5}
    versions = [p.schema_version for s in followed.segments() for p in s.parts_of(1)]
    assert versions == [1, AHEAD, 2]


@pytest.mark.long
def test_a_plan_with_what_was_left_out_needs_a_load(followed: World) -> None:
    link = followed.link
    link.execute(T)
    run = followed.following(FIRST)
    run.until(lambda s: s.tables[0].state == "cut", "its cut")
    link.execute("ALTER TABLE t ADD extra int")
    link.execute("INSERT INTO t VALUES (1, 'a')")
    run.until(lambda s: s.tables[0].new_columns == ("extra",), "the column")
    run.want(replace(FIRST, table=table(1, left_out=("extra",))))
    run.until(lambda s: s.tables[0].new_columns == (), "the plan without it")
    link.execute("INSERT INTO t VALUES (3, 'c')")
    followed.durable(run)
    assert followed.changes()[-1].values == {"id": 3, "v": "c"}
    columns = {"id": "integer as int", "v": "text as string", "extra": "integer as int"}
    run.want(replace(FIRST, table=table(1, columns=columns)))
    run.until(lambda s: s.tables[0].state == "deferred", "its deferral")
    assert "values of extra are missing" in followed.reasons()[-1]


def test_a_column_that_came_with_a_rewrite_needs_a_load(followed: World) -> None:
    """Every row got a value that its log does not show."""
    link = followed.link
    link.execute(T)
    run = followed.following(FIRST)
    run.until(lambda s: s.tables[0].state == "cut", "its cut")
    with link.transaction():
        link.execute("ALTER TABLE t ADD extra float DEFAULT random()")
        link.execute("ALTER TABLE t ALTER extra DROP DEFAULT")
        link.execute("INSERT INTO t VALUES (1, 'a', 1)")
    followed.durable(run)
    assert [one.values for one in followed.changes()] == [{"id": 1, "v": "a"}]
    columns = {"id": "integer as int", "extra": "double precision as double"}
    run.want(replace(FIRST, table=table(1, columns=columns)))
    run.until(lambda s: s.tables[0].state == "deferred", "its deferral")
    assert "extra" in run.problem(1)


def test_a_type_that_grew_before_a_column_came_with_a_default(followed: World) -> None:
    """Only the first rewrote rows, and gave none of them a value of the second."""
    link = followed.link
    link.execute("CREATE TABLE t (id int PRIMARY KEY, n int)")
    before = FollowTable(
        table(1, columns={"id": "integer as int", "n": "integer as int"}), load="first"
    )
    run = followed.following(before)
    run.until(lambda s: s.tables[0].state == "cut", "its cut")
    link.execute("INSERT INTO t VALUES (1, 1)")
    followed.durable(run)
    run.kill()
    link.execute("ALTER TABLE t ALTER n TYPE bigint")
    link.execute("ALTER TABLE t ADD extra int DEFAULT 4")
    link.execute("INSERT INTO t VALUES (2, 2)")
    run = followed.following(before)
    run.until(lambda s: s.tables[0].new_columns == ("n", "extra"), "both columns")
    columns = {"id": "integer as int", "n": "bigint as bigint"}
    columns["extra"] = "integer as int"
    run.want(
        FollowTable(table(1, columns=columns, schema_version=2), load="first"),
    )
    run.until(lambda s: s.tables[0].new_columns == (), "the plan")
    link.execute("INSERT INTO t VALUES (3, 3)")
    followed.durable(run)
    assert [one.values for one in followed.changes()] == [
        {"id": 1, "n": 1},
        {"id": 2, "n": 2, "extra": 4},
        {"id": 3, "n": 3, "extra": 4},
    ]
    assert run.problem(1) == ""


@pytest.mark.long
def test_a_column_whose_table_was_rewritten_behind_it_needs_a_load(
    followed: World,
) -> None:
    """Who reads on knows only that the table's file is another one: its rows lack what
    the rows before had, until a load begins."""
    link = followed.link
    link.execute(T)
    run = followed.following(FIRST)
    run.until(lambda s: s.tables[0].state == "cut", "its cut")
    link.execute("ALTER TABLE t ADD extra int DEFAULT 4")
    link.execute("INSERT INTO t VALUES (1, 'a')")
    followed.durable(run)
    run.kill()
    link.execute("VACUUM FULL t")
    run = followed.following(FIRST)
    link.execute("INSERT INTO t VALUES (2, 'b')")
    followed.durable(run)
    columns = {"id": "integer as int", "v": "text as string", "extra": "integer as int"}
    later = FollowTable(table(1, columns=columns, schema_version=2), load="first")
    run.want(later)
    run.until(lambda s: s.tables[0].state == "deferred", "its deferral")
    run.want(replace(later, load="second"))
    run.until(lambda s: s.tables[0].state == "cut", "the cut of its resync")
    link.execute("INSERT INTO t VALUES (3, 'c')")
    followed.durable(run)
    assert [(one.op, one.values) for one in followed.changes()] == [
        ("insert", {"id": 1, "v": "a", "extra": 4}),
        ("insert", {"id": 2, "v": "b"}),
        ("insert", {"id": 3, "v": "c", "extra": 4}),
    ]
    left = [c.columns for s in followed.segments() for c in s.controls if c.columns]
    assert left == [("extra",)]


@pytest.mark.long
def test_a_column_that_is_generated_no_more_needs_a_load(followed: World) -> None:
    """What rows of before have in it is not in the log."""
    link = followed.link
    link.execute(T)
    link.execute("ALTER TABLE t ADD extra int GENERATED ALWAYS AS (id * 2) STORED")
    run = followed.following(FIRST)
    run.until(lambda s: s.tables[0].state == "cut", "its cut")
    followed.durable(run)
    run.kill()
    link.execute("ALTER TABLE t ALTER extra DROP EXPRESSION")
    run = followed.following(FIRST)
    link.execute("INSERT INTO t VALUES (1, 'a', 7)")
    run.until(lambda s: s.tables[0].new_columns == ("extra",), "the column")
    columns = {"id": "integer as int", "v": "text as string", "extra": "integer as int"}
    run.want(replace(FIRST, table=table(1, columns=columns)))
    run.until(lambda s: s.tables[0].state == "deferred", "its deferral")
    assert "values of extra are missing" in followed.reasons()[-1]
