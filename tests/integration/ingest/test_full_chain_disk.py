"""The disk of a chain is full: reading stops by a name, and nothing is lost. Left out
where nobody may mount a small file system."""

from __future__ import annotations

import base64
import os
from dataclasses import replace
from pathlib import Path

import pytest

from ingest.contract.following import FollowTable
from tests.doubles.launcher import write_applied
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


@pytest.mark.long
def test_what_was_applied_makes_room_for_what_comes(
    followed: World, tmp_path: Path
) -> None:
    """A chain that has filled its disk alone: each start is ended by that long before
    it would look once a minute for what may go."""
    followed.link.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
    one = FollowTable(replace(table(1), path=str(tmp_path / "t")), load="first")
    with small_disk(followed.home / "lake" / "_sluice" / "log", "4m"):
        run = followed.following(one)
        for number in range(4):
            text = base64.b64encode(os.urandom(800_000)).decode()
            followed.link.execute("INSERT INTO t VALUES (%s, %s)", [number, text])
            if number < 3:
                followed.durable(run)
        _, error = run.until_failed()
        assert error.code == "storage_full"
        newest = followed.newest()
        assert newest
        write_applied(one.table, newest.number)
        _, error = followed.start(one).until_failed()
        assert error.code == "storage_full"
        run = followed.following(one)
        followed.durable(run)
        run.kill()
