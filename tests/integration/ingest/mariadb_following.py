"""A follower before a real MariaDB; see `tests.integration.ingest.following`."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ingest.contract.following import FollowerState, FollowSpec, FollowTable
from ingest.contract.source_positions import MariaDbLog, order_of
from ingest.contract.table import TableSpec
from ingest.sources.mariadb.reader import open_source
from ingest.sources.port import SourceAccess
from tests.integration.ingest.following import MARK, STREAM, Running, World, table
from tests.mariadb import MariaDbServer
from tests.source_access import mariadb_at
from tests.waiting import wait_for

COLUMNS = {"id": "int(11) as int", "v": "text as string"}


def maria_table(number: int, name: str = "t", **more: Any) -> TableSpec:
    """As `table`, of the database that `MariaWorld.of` puts it into."""
    return table(number, name, **{"columns": COLUMNS, **more})


@dataclass
class MariaWorld(World):
    """`dsn` is the database's name, `link` is not used."""

    server: Any = None

    def access(self, dsn: str = "") -> SourceAccess:
        """dsn: of a login `name:password`."""
        name, _, password = dsn.partition(":")
        return mariadb_at(self.server, name, password)

    def start(self, *tables: FollowTable, dsn: str = "", **spec: Any) -> Running:
        return super().start(*map(self.of, tables), dsn=dsn, **spec)

    def of(self, one: FollowTable) -> FollowTable:
        return replace(one, table=replace(one.table, source_schema=self.dsn))

    def run(self, *statements: str) -> None:
        self.server.run(*statements, database=self.dsn)

    def end_dumps(self) -> None:
        dumps = "SELECT id FROM information_schema.processlist WHERE command = %s"
        with closing(self.server.connect()) as link, link.cursor() as cursor:
            cursor.execute(dumps, ["Binlog Dump"])
            for (number,) in cursor.fetchall():
                cursor.execute(f"KILL {number}")
            wait_for(lambda: not cursor.execute(dumps, ["Binlog Dump"]), "their end")

    def purge(self) -> None:
        """Only the file that is written is left; those before it stay until the engine
        does not need them."""
        file = MariaDbLog.decode(self.here()).file

        def is_alone() -> bool:
            self.run(f"PURGE BINARY LOGS TO '{file}'")
            with closing(self.server.connect()) as link, link.cursor() as cursor:
                return cursor.execute("SHOW BINARY LOGS") == 1

        wait_for(is_alone, "one file")

    def here(self) -> str:
        with open_source(self.access()) as source:
            return source.here()

    def durable(self, run: Running) -> None:
        here = self.here()

        def is_there(state: FollowerState) -> bool:
            at = state.position
            return bool(at) and order_of(at, here) in {"after", "equal"}

        self.run("INSERT INTO mark SELECT coalesce(max(n), 0) + 1 FROM mark")
        run.until(is_there, f"{here} to be durable")


@contextmanager
def maria_world(server: MariaDbServer, home: Path) -> Iterator[MariaWorld]:
    mark = uuid.uuid4().hex[:8]
    name = f"log_{mark}"
    server.create_database(name)
    spec = FollowSpec(
        mariadb_at(server).spec,
        STREAM,
        str(home / "lake"),
        f"sluice_{mark}",
        f"sluice_{mark}",
        above=0,
        writer="",
    )
    link: Any = None
    # its one connection may have been left otherwise by a test before
    server.run("SET sql_mode = DEFAULT")
    world = MariaWorld(name, link, home, spec, server=server)
    world.mark = world.of(MARK)
    world.run("CREATE TABLE mark (n int PRIMARY KEY)")
    try:
        yield world
    finally:
        world.close()
        server.drop_database(name)
