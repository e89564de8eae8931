"""The follower as a process before a real PostgreSQL: what was committed there arrives in
segments, each transaction once, whatever happens to it."""

from __future__ import annotations

from ingest.contract.following import FollowTable
from tests.integration.ingest.following import World, table

T = "CREATE TABLE t (id int PRIMARY KEY, v text)"


def test_changes_of_every_kind_arrive(followed: World) -> None:
    link = followed.link
    link.execute(T)
    run = followed.following(FollowTable(table(1), load="first"))
    link.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    link.execute("UPDATE t SET v = 'c' WHERE id = 1")
    link.execute("UPDATE t SET id = 3 WHERE id = 2")
    link.execute("DELETE FROM t WHERE id = 1")
    link.execute("TRUNCATE t")
    followed.durable(run)
    changes = followed.changes()
    assert [(one.op, *one.values.values()) for one in changes] == [
        ("insert", 1, "a"),
        ("insert", 2, "b"),
        ("update", 1, "c"),
        ("delete", 2, None),
        ("moved", 3, "b"),
        ("delete", 1, None),
        ("truncate", None, None),
    ]
    assert followed.controls() == [("added", 1), ("cut", 1)]
    state = run.until(lambda s: s.rows == 8 and s.log.kept, "its state")
    about, _ = state.tables
    assert (about.state, about.problem, about.new_columns) == ("cut", "", ())
    assert followed.confirmed() <= followed.durable_end()
