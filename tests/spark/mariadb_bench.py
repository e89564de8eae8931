"""`LakeBench` with a MariaDB source."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from catalog.sources.mariadb.types import lake_type
from ingest.driver.capture.gate import SourceGates
from tests.mariadb import MariaDbServer
from tests.source_access import mariadb_at
from tests.spark.lake_bench import LakeBench


class MariadbBench(LakeBench):
    """One database `shop` of the server, read as its administrator."""

    SCHEMA = "shop"

    def __init__(self, spark: Any, server: MariaDbServer, root: Path) -> None:
        self.spark = spark
        self.server = server
        self.lake = str(root / "lake")
        self.gates = SourceGates()
        server.create_database("shop")
        self.link = server.connect("shop")
        access = mariadb_at(server)
        self.source, self.password = access.spec, access.password
        self._tables = 0
        self._lock = threading.Lock()

    def restart(self) -> None:
        """The server starts anew; what it has is kept."""
        self.again(self.server.restart)

    def again(self, start: Callable[[], None]) -> None:
        """`start` lets the server start anew in its own way."""
        with self._lock:
            self.link.close()
            start()
            self.link = self.server.connect("shop")

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        with self._lock, self.link.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def columns(self, schema: str, name: str) -> list[tuple[str, str]]:
        with self.link.cursor() as cursor:
            cursor.execute(
                "SELECT column_name, column_type FROM information_schema.columns"
                " WHERE table_schema = %s AND table_name = %s"
                " ORDER BY ordinal_position",
                [schema, name],
            )
            return list(cursor.fetchall())

    def lake_type(self, source_type: str) -> str:
        return lake_type(source_type).type
