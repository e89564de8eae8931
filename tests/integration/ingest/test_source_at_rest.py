"""How often the tables of a source are looked at by which nothing happens: of hundreds
a look is a tenth of a second, there and here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from ingest.sources.port import LogNames
from ingest.sources.postgresql.log import reader as log_reader
from ingest.sources.postgresql.log.control import Control
from ingest.sources.postgresql.log.opening import open_log_reader
from ingest.sources.postgresql.log.reader import PostgresLogReader
from tests.integration.ingest.following import World, table
from tests.source_access import postgresql_at
from tests.waiting import wait_for


@dataclass
class Looks:
    """count: of looks at tables. Each look at the slot may be one."""

    log: PostgresLogReader
    count: int = 0

    def more(self) -> int:
        """How many three looks at the slot bring."""
        before = self.count
        for _ in range(3):
            self.log.look()
        return self.count - before


@pytest.fixture
def looks(followed: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Looks]:
    """At a table `t`."""
    monkeypatch.setattr(log_reader, "_LOOK_SECONDS", -1)
    followed.link.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
    names = LogNames(followed.spec.slot, followed.spec.publication)
    tables, read = [table(1)], Control.tables
    access = postgresql_at(followed.dsn)
    with open_log_reader(access, names, tables, after=lambda: None, wait=print) as log:
        log.start(log.begin)
        found = Looks(log)

        def counted(control: Control, *given: object) -> object:
            found.count += 1
            return read(control, *given)  # type: ignore[arg-type]

        monkeypatch.setattr(Control, "tables", counted)
        log.follow(tables)
        found.more()
        yield found


def test_of_a_source_at_rest_tables_are_not_looked_at_again(looks: Looks) -> None:
    assert looks.more() == 0


def test_whatever_was_altered_is_seen_by_the_next_look(
    looks: Looks, followed: World
) -> None:
    followed.link.execute("ALTER TABLE t ADD COLUMN w int")
    assert looks.more() == 1
    assert looks.log.new_columns == {1: ("w",)}
    assert looks.more() == 0
    assert looks.log.new_columns == {1: ("w",)}
    followed.link.execute("DROP TABLE t")
    looks.more()
    assert "there is no table" in looks.log.problems[1]
    assert looks.more() == 3, "what is wrong may be mended by other means"


def test_what_was_not_committed_is_seen_once_it_is(
    looks: Looks, followed: World
) -> None:
    with followed.link.transaction():
        followed.link.execute("ALTER TABLE t ADD COLUMN w int")
        looks.more()
        assert looks.log.new_columns == {}
    looks.more()
    assert looks.log.new_columns == {1: ("w",)}


def test_rows_that_came_ask_for_a_look(looks: Looks, followed: World) -> None:
    followed.link.execute("INSERT INTO t VALUES (1, 'a')")
    looks.more()
    wait_for(lambda: looks.log.read(0.1) or looks.log.size, "the row")
    assert looks.more() == 1
