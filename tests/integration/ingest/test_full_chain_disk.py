"""The disk of a chain is full: reading stops by a name, and nothing is lost. Left out
where nobody may mount a small file system."""

from __future__ import annotations

from ingest.contract.following import FollowTable
from tests.integration.ingest.following import World, table
from tests.small_disk import small_disk


def test_what_had_no_room_comes_when_there_is_some(followed: World) -> None:
    followed.link.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
    one = FollowTable(table(1), load="first")
    with small_disk(followed.home / "lake" / "_sluice" / "log", "4m") as disk:
        run = followed.following(one)
        followed.link.execute("INSERT INTO t VALUES (1, 'a')")
        followed.durable(run)
        with disk.full():
            followed.link.execute("INSERT INTO t VALUES (2, 'b')")
            outcome, error = run.until_failed()
            followed.sample()
        assert (outcome, error.code) == ("transient", "storage_full")
        assert str(disk.path) in error.hint
        run = followed.following(one)
        followed.durable(run)
        assert [change.values["id"] for change in followed.changes()] == [1, 2]
        run.kill()
