"""A PostgreSQL server whose disk is put back to an older state, and one that only dies:
what is read again of its log tells one from the other."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from config.embedded.postgres import EmbeddedPostgres
from ingest.contract.following import FollowTable
from tests.integration.ingest.following import Running, World, at, table, world_at
from tests.waiting import wait_for

FIRST = FollowTable(table(1), load="first")
INSERT = "INSERT INTO t SELECT n, %s FROM generate_series(%s::int, %s::int) n"
# of the log, by rows that nobody follows
GROW = "INSERT INTO other SELECT repeat('x', 1000) FROM generate_series(1, 1000)"
END = "SELECT pg_current_wal_lsn() - '0/0'"


@dataclass
class Source:
    """A server of our own, with what follows its table t."""

    server: EmbeddedPostgres
    world: World

    @property
    def kept(self) -> Path:
        return self.server.data.with_name("kept")

    def stop(self, run: Running | None = None) -> None:
        if run:
            run.kill()
        self.world.link.close()
        self.server.stop()

    def begin(self) -> None:
        self.server.start()
        dsn = self.server.address.url("postgres")
        self.world.link = psycopg.connect(dsn, autocommit=True)

    def keep(self) -> None:
        """Its disk as a crash would leave it now."""
        copy = ["cp", "-a", str(self.server.data), str(self.kept)]
        subprocess.run(copy, check=True, timeout=60)

    def put_back(self) -> None:
        shutil.rmtree(self.server.data)
        self.kept.rename(self.server.data)

    def write(self, first: int, last: int, value: str = "a") -> None:
        self.world.link.execute(INSERT, [value, first, last])

    def grow_beyond(self, place: int) -> None:
        link = self.world.link
        while (link.execute(END).fetchone() or [0])[0] <= place:
            link.execute(GROW)

    def ids(self) -> list[int]:
        return sorted(one.values["id"] for one in self.world.changes())


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Source]:
    server = EmbeddedPostgres(tmp_path / "source", "source", durable=False)
    try:
        dsn = server.start().url("postgres")
        with world_at(dsn, tmp_path) as world:
            world.link.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
            world.link.execute("CREATE TABLE other (v text)")
            yield Source(server, world)
            world.link.close()
    finally:
        server.destroy()


def test_other_transactions_in_the_place_of_those_that_were_read(
    source: Source,
) -> None:
    run = source.world.following(FIRST)
    source.write(1, 1)
    source.world.durable(run)
    source.world.link.execute("CHECKPOINT")
    source.keep()
    source.write(2, 100)
    source.world.durable(run)
    source.stop(run)
    source.put_back()
    source.begin()
    source.write(101, 200, "b")
    source.grow_beyond(at(run.last))

    _, error = source.world.start(FIRST).until_failed()
    assert error.code == "source_changed"
    assert "other transactions" in error.message
    # however often it is tried
    _, error = source.world.start(FIRST).until_failed()
    assert error.code == "source_changed"
    assert source.ids() == [*range(1, 101)]

    run = source.world.following(FIRST, begin_anew=True)
    assert source.world.controls()[-1] == ("deferred", 1)
    source.write(300, 300)
    source.world.durable(run)
    assert source.ids()[-1] == 300
    assert 150 not in source.ids()


def test_transactions_before_the_end_of_what_was_read_without_any(
    source: Source,
) -> None:
    run = source.world.following(FIRST)
    source.write(1, 1)
    source.world.durable(run)
    wait_for(lambda: source.world.confirmed() >= at(run.state), "the slot to move")
    source.world.link.execute("CHECKPOINT")
    source.keep()
    before = at(run.state)
    source.world.link.execute(GROW)
    source.grow_beyond(before + (17 << 20))
    run.until(lambda s: at(s) > before + (16 << 20), "its position to move")
    source.stop(run)
    source.put_back()
    source.begin()
    source.write(2, 10, "b")
    source.grow_beyond(at(run.last))

    _, error = source.world.start(FIRST).until_failed()
    assert error.code == "source_changed"


def test_what_was_read_is_known_again_after_a_crash(source: Source) -> None:
    run = source.world.following(FIRST)
    source.write(1, 1)
    for first in (2, 101):
        source.world.link.execute("CHECKPOINT")
        source.world.durable(run)
        source.write(first, first + 98)
        source.world.durable(run)
        source.world.link.execute(GROW)
        # the slot is saved with a checkpoint only: it is behind after that
        run.kill()
        source.keep()
        source.stop()
        source.put_back()
        source.begin()
        behind = source.world.confirmed()
        assert behind < at(run.last)
        run = source.world.following(FIRST)
    source.write(200, 200)
    source.world.durable(run)
    assert source.ids() == [*range(1, 201)]
    source.world.sample()
